//! What the agent does for a cluster beside its switch: it tells the API server what is refused,
//! runs Traceflows, and assigns Egresses to Nodes.
//!
//! Without `--cluster`, or without the feature, it does nothing.

use crate::agent::Agent;
use crate::cli::Cli;
use crate::problem::Problem;
use crate::sources::Following;

/// The tasks for the cluster. They end with this value.
#[derive(Debug, Default)]
pub struct Serving {
    #[cfg(feature = "cluster")]
    tasks: Option<tasks::Tasks>,
}

impl Serving {
    /// Starts the tasks, in a runtime of tokio.
    pub fn start(cli: &Cli, node: &str, following: &Following) -> Self {
        #[cfg(feature = "cluster")]
        return Self { tasks: tasks::Tasks::start(cli, node, following) };
        #[cfg(not(feature = "cluster"))]
        {
            let _ = (cli, node, following);
            Self::default()
        }
    }

    /// Takes over how things are. `problems` are those of documents and of the switch. `is_ready`:
    /// the switch forwards by what it was told.
    pub fn follow<'a>(&self, agent: &Agent, problems: impl Iterator<Item = &'a Problem>, is_ready: bool) {
        #[cfg(feature = "cluster")]
        if let Some(tasks) = &self.tasks {
            tasks.follow(agent, problems, is_ready);
        }
        #[cfg(not(feature = "cluster"))]
        let _ = (agent, problems, is_ready);
    }
}

#[cfg(feature = "cluster")]
mod tasks {
    use super::{Agent, Cli, Following, Problem};
    use crate::assign::Assigner;
    use crate::feedback::{Feedback, News};
    use crate::source::cluster::Handle;
    use crate::traceflow::Traceflows;
    use vswitch_proto::antrea::v1::Kind;

    #[derive(Debug)]
    pub(super) struct Tasks {
        handle: Handle,
        feedback: Feedback,
        traceflows: Traceflows,
        assigner: Assigner,
    }

    impl Tasks {
        pub(super) fn start(cli: &Cli, node: &str, following: &Following) -> Option<Self> {
            let (handle, client) = following.cluster()?.clone();
            let feedback = Feedback::start(client.clone(), node);
            let assigner = Assigner::start(client.clone(), node);
            let traceflows = Traceflows::start(client, node, cli.socket.clone());
            Some(Self { handle, feedback, traceflows, assigner })
        }

        pub(super) fn follow<'a>(&self, agent: &Agent, problems: impl Iterator<Item = &'a Problem>, is_ready: bool) {
            let object = |problem: &Problem| self.handle.object(&problem.origin);
            self.feedback.tell(News::new(problems, object, is_ready));
            if is_ready {
                self.assigner.tell(agent.lacking());
            }
            let pods = agent.projection().objects.keys().filter(|(kind, _)| *kind == Kind::Pod as i32);
            self.traceflows.local(pods.map(|(_, name)| name.clone()).collect());
        }
    }
}
