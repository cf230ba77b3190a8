//! What the agent does for a cluster beside its switch: it tells the API server what is refused,
//! on how many Nodes policies are realized, runs Traceflows, assigns Egresses to Nodes, and
//! annotates Pods.
//!
//! Without `--cluster`, or without the feature, it does nothing.

use crate::agent::Agent;
use crate::cli::Cli;
use crate::problem::Problem;
use crate::project::Key;
use crate::sources::Following;

/// What a switch was told.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// It forwards by what the agent knows.
    pub is_ready: bool,
    /// What it refuses of all that the agent knows; None: it was not told all.
    pub refused: Option<&'a [Key]>,
}

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

    /// Takes over how things are. `problems` are those of documents and of the switch.
    pub fn follow<'a>(&mut self, agent: &Agent, problems: impl Iterator<Item = &'a Problem>, told: Told<'_>) {
        #[cfg(feature = "cluster")]
        if let Some(tasks) = &mut self.tasks {
            tasks.follow(agent, problems, told);
        }
        #[cfg(not(feature = "cluster"))]
        let _ = (agent, problems, told);
    }
}

#[cfg(feature = "cluster")]
mod tasks {
    use super::{Agent, Cli, Following, Problem, Told};
    use crate::annotate::Annotator;
    use crate::assign::Assigner;
    use crate::feedback::{Feedback, News};
    use crate::realized::{Realized, Timing, View};
    use crate::source::cluster::Handle;
    use crate::traceflow::Traceflows;
    use vswitch_proto::antrea::v1::Kind;

    #[derive(Debug)]
    pub(super) struct Tasks {
        node: String,
        handle: Handle,
        feedback: Feedback,
        realized: Realized,
        view: View,
        traceflows: Traceflows,
        assigner: Assigner,
        annotator: Annotator,
    }

    impl Tasks {
        pub(super) fn start(cli: &Cli, node: &str, following: &Following) -> Option<Self> {
            let (handle, client) = following.cluster()?.clone();
            let feedback = Feedback::start(client.clone(), node);
            let assigner = Assigner::start(client.clone(), node);
            let realized = Realized::start(client.clone(), node, assigner.term(), Timing::default());
            let annotator = Annotator::start(client.clone());
            let traceflows = Traceflows::start(client, node, cli.socket.clone());
            let (node, view) = (node.to_owned(), View::default());
            Some(Self { node, handle, feedback, realized, view, traceflows, assigner, annotator })
        }

        pub(super) fn follow<'a>(
            &mut self,
            agent: &Agent,
            problems: impl Iterator<Item = &'a Problem>,
            told: Told<'_>,
        ) {
            let object = |problem: &Problem| self.handle.object(&problem.origin);
            let news = News::new(problems, object, told.is_ready);
            self.realized.tell(self.view.news(agent, &self.node, &self.handle, (&news.refusals, told.refused)));
            self.feedback.tell(news);
            if told.is_ready {
                self.assigner.tell(agent.lacking());
                self.annotator.tell(&agent.projection().annotations);
            }
            let pods = agent.projection().objects.keys().filter(|(kind, _)| *kind == Kind::Pod as i32);
            self.traceflows.local(pods.map(|(_, name)| name.clone()).collect());
        }
    }
}
