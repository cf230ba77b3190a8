//! Clients of kube-rs for a kubeconfig.

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub(crate) async fn of(config: &str) -> Result<Client, String> {
    let config = Kubeconfig::from_yaml(config).map_err(|error| error.to_string())?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(config, &options).await.map_err(|error| error.to_string())?;
    // A test wants to see each answer.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| error.to_string())
}

/// Whether `/readyz` says so. On a thread of its own: the caller may be in a runtime.
pub(crate) fn is_ready(config: String) -> bool {
    let asked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async {
            let client = of(&config).await.ok()?;
            let request = Request::get("/readyz").body(Vec::new()).ok()?;
            client.request_text(request).await.ok()
        })
    });
    asked.join().is_ok_and(|text| text.as_deref() == Some("ok"))
}
