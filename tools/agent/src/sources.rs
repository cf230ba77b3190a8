//! The sources of documents that the arguments name.

use crate::agent::Agent;
use crate::cli::Cli;
use crate::drive::Options;
#[cfg(feature = "cluster")]
use crate::source::cluster::{self, Cluster};
#[cfg(feature = "cluster")]
use crate::source::{Directory, Source};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long `--once` and `--print` wait until each kind was listed.
const WAIT: Duration = Duration::from_secs(30);

/// How long the program waits for that before it goes on without.
const WAIT_AT_START: Duration = Duration::from_secs(5);

/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// What is asked of a cluster beside its documents.
#[derive(Clone, Default)]
pub struct Following {
    #[cfg(feature = "cluster")]
    of: Option<(cluster::Handle, kube::Client)>,
}

impl std::fmt::Debug for Following {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Following").finish_non_exhaustive()
    }
}

#[cfg(feature = "cluster")]
impl Following {
    /// The cluster that is followed, and a client of its API server.
    pub fn cluster(&self) -> Option<&(cluster::Handle, kube::Client)> {
        self.of.as_ref()
    }

    fn knows_all(&self) -> bool {
        self.of.as_ref().is_none_or(|(handle, _)| handle.knows_all())
    }

    /// Kinds that cannot be followed for long.
    pub fn lost(&self) -> Vec<String> {
        self.of.as_ref().map(|(handle, _)| handle.lost()).unwrap_or_default()
    }
}

#[cfg(not(feature = "cluster"))]
impl Following {
    fn knows_all(&self) -> bool {
        true
    }

    /// Kinds that cannot be followed for long.
    pub fn lost(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Following {
    /// Waits until each kind was listed, but not for long; whether it was. `--once` and `--print`
    /// wait longer: they do nothing afterwards.
    pub async fn wait(&self, cli: &Cli) -> bool {
        let begin = Instant::now();
        let limit = if cli.once || cli.print { WAIT } else { WAIT_AT_START };
        while !self.knows_all() {
            if begin.elapsed() > limit {
                let waited = limit.as_secs();
                tracing::error!("cluster: not all kinds could be listed within {waited} s");
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }
}

/// An agent of the manifests and the cluster that the arguments name. `wake` is notified when the
/// cluster has news.
///
/// # Errors
/// There is no way to the API server: a text that says so.
pub async fn open(cli: &Cli, node: &str, options: Options, wake: &Arc<Notify>) -> Result<(Agent, Following), String> {
    let beside: Vec<PathBuf> = cli.node_config.iter().cloned().collect();
    if !cli.cluster {
        let dir = cli.dir.as_deref().ok_or("give --dir or --cluster")?;
        return Ok((Agent::new(dir, &beside, node, options), Following::default()));
    }
    of_cluster(cli, beside, (node, options), wake).await
}

#[cfg(feature = "cluster")]
async fn of_cluster(
    cli: &Cli,
    beside: Vec<PathBuf>,
    (node, options): (&str, Options),
    wake: &Arc<Notify>,
) -> Result<(Agent, Following), String> {
    let client = cluster::connect(cli.kubeconfig.as_deref()).await?;
    let cluster = Cluster::follow(client.clone(), cli.cni.is_some(), Arc::clone(wake));
    let following = Following { of: Some((cluster.handle(), client)) };
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(cluster)];
    match &cli.dir {
        Some(dir) => sources.push(Box::new(Directory::new(dir, &beside))),
        None if !beside.is_empty() => sources.push(Box::new(Directory::files(&beside))),
        None => {}
    }
    Ok((Agent::of(sources, cluster::PLACE, node, options), following))
}

#[cfg(not(feature = "cluster"))]
async fn of_cluster(
    _: &Cli,
    _: Vec<PathBuf>,
    _: (&str, Options),
    _: &Arc<Notify>,
) -> Result<(Agent, Following), String> {
    Err("this agent was built without the feature `cluster`".to_owned())
}
