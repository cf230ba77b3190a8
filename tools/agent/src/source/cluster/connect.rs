//! The client of the API server.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;
use std::time::Duration;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A client by a kubeconfig, or else by the service account of the Pod that this process is in.
///
/// # Errors
/// There is no such file or account, or it is wrong: a text that says so.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, String> {
    let mut config = match kubeconfig {
        Some(path) => {
            let wrong = |error: kube::config::KubeconfigError| format!("{}: {error}", path.display());
            let file = Kubeconfig::read_from(path).map_err(wrong)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(wrong)?
        }
        None => Config::incluster().map_err(|error| {
            format!("there is no service account of a Pod here: {error}; give --kubeconfig outside of a cluster")
        })?,
    };
    config.connect_timeout = Some(CONNECT_MAX);
    // Who follows a kind tries again itself, and knows what to tell.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| format!("there is no client of the API server: {error}"))
}
