//! What the agent does for a cluster beside its switch: it tells the API server what is refused,
//! on how many Nodes policies are realized, runs Traceflows and PacketCaptures, assigns Egresses to
//! Nodes, and annotates Pods.
//!
//! Without `--cluster`, or without the feature, it does nothing.

use crate::agent::Agent;
use crate::cli::Cli;
use crate::drive::Driver;
use crate::names::Names;
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
    pub fn start(cli: &Cli, node: &str, following: &Following, names: &Names) -> Self {
        #[cfg(feature = "cluster")]
        return Self { tasks: tasks::Tasks::start(cli, node, following, names) };
        #[cfg(not(feature = "cluster"))]
        {
            let _ = (cli, node, following, names);
            Self::default()
        }
    }

    /// Takes over how things are. `problems` are those of documents and of the switch. `ready` is
    /// its driver, if the switch forwards by what the agent knows.
    pub fn follow<'a>(&mut self, agent: &Agent, problems: impl Iterator<Item = &'a Problem>, ready: Option<&Driver>) {
        #[cfg(feature = "cluster")]
        if let Some(tasks) = &mut self.tasks {
            tasks.follow(agent, problems, ready);
        }
        #[cfg(not(feature = "cluster"))]
        let _ = (agent, problems, ready);
    }
}

#[cfg(feature = "cluster")]
mod tasks {
    use super::{Agent, Cli, Driver, Following, Names, Problem};
    use crate::annotate::Annotator;
    use crate::assign::Assigner;
    use crate::feedback::{Feedback, News};
    use crate::packetcapture::{LocalPod, PacketCaptures, Pods};
    use crate::project::Projection;
    use crate::realized::{Realized, Timing, View};
    use crate::source::cluster::Handle;
    use crate::traceflow::Traceflows;
    use vswitch_proto::antrea::v1::Kind;
    use vswitch_proto::antrea::v1::object::Object as Kinded;

    #[derive(Debug)]
    pub(super) struct Tasks {
        node: String,
        handle: Handle,
        feedback: Feedback,
        realized: Realized,
        view: View,
        traceflows: Traceflows,
        captures: PacketCaptures,
        assigner: Assigner,
        annotator: Annotator,
    }

    impl Tasks {
        pub(super) fn start(cli: &Cli, node: &str, following: &Following, names: &Names) -> Option<Self> {
            let (handle, client) = following.cluster()?.clone();
            let feedback = Feedback::start(client.clone(), node);
            let assigner = Assigner::start(client.clone(), node);
            let realized = Realized::start(client.clone(), node, assigner.term(), Timing::default());
            let annotator = Annotator::start(client.clone());
            let traceflows = Traceflows::start(client.clone(), node, cli.socket.clone());
            let places = (cli.socket.clone(), cli.packet_captures.clone());
            let captures = PacketCaptures::start(client, node, places, names.books());
            let (node, view) = (node.to_owned(), View::default());
            Some(Self { node, handle, feedback, realized, view, traceflows, captures, assigner, annotator })
        }

        pub(super) fn follow<'a>(
            &mut self,
            agent: &Agent,
            problems: impl Iterator<Item = &'a Problem>,
            ready: Option<&Driver>,
        ) {
            let object = |problem: &Problem| self.handle.object(&problem.origin);
            let news = News::new(problems, object, ready.is_some());
            let refused = ready.and_then(|driver| driver.refused(agent.projection()));
            self.realized.tell(self.view.news(agent, &self.node, &self.handle, (&news.refusals, refused.as_ref())));
            self.feedback.tell(news);
            if ready.is_some() {
                self.assigner.tell(agent.lacking());
                self.annotator.tell(&agent.projection().annotations);
            }
            let pods = agent.projection().objects.keys().filter(|(kind, _)| *kind == Kind::Pod as i32);
            self.traceflows.local(pods.map(|(_, name)| name.clone()).collect());
            self.captures.local(local(agent.projection()));
        }
    }

    /// Pods of this Node, with their ports.
    fn local(projection: &Projection) -> Pods {
        let bridge = projection.node.as_ref().map(|(node, _)| node.bridge.clone()).unwrap_or_default();
        let pod = |object: &Option<Kinded>| match object {
            Some(Kinded::Pod(pod)) => {
                let addresses = pod.addresses.iter().filter_map(|address| address.parse().ok()).collect();
                Some((pod.name.clone(), LocalPod { port: pod.port.clone(), addresses }))
            }
            _ => None,
        };
        Pods { bridge, local: projection.objects.values().filter_map(|each| pod(&each.object.object)).collect() }
    }
}
