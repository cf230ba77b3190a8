//! `vsctl antrea`: what an agent made of the switch (gRPC `antrea.v1`), with its arguments.

mod object;
mod telling;
mod traceflow;

pub(crate) use object::{Object, kind_word};
pub(crate) use telling::{Events, RecordVerdict, Records};
pub(crate) use traceflow::{End as TraceFlowEnd, Protocol as TraceFlowProtocol, TraceFlow};

use clap::{Args, Subcommand, ValueEnum};

/// Verbs of `vsctl antrea`.
#[derive(Debug, Subcommand)]
pub(crate) enum Antrea {
    /// Show the gate, the round, objects by kind, and what has no effect at present, with reasons.
    Status,
    /// Show the Node as it is configured, and its tables.
    Node,
    /// Let packets pass, though no agent has synced all that it has to.
    OpenGate,
    /// Take flows, groups, meters, table names and objects of Antrea's out of the bridge, and shut
    /// the gate.
    Reset {
        /// Do it: Pods are cut off until an agent begins anew.
        #[arg(long)]
        yes: bool,
    },
    /// Show Pods of this Node: ports, addresses, policies, what they sent.
    Pods(Objects),
    /// Show other Nodes: how their Pods are reached.
    #[command(alias = "peer-nodes")]
    Peers(Objects),
    /// Show Services: addresses, groups, endpoints in use.
    Services {
        #[command(flatten)]
        objects: Objects,
        /// One line for each of these. (JSON always has all.)
        #[arg(short = 'o', long = "output", value_name = "WHAT", value_enum, default_value_t = By::Ports)]
        by: By,
    },
    /// Show policies, with sums over their rules.
    Policies {
        /// Names, such as np:default/web; not given: all.
        #[arg(value_name = "POLICY", value_parser = object::policy)]
        names: Vec<String>,
        /// Only those that are applied to this Pod.
        #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object::pod)]
        pod: Option<String>,
    },
    /// Show rules of policies: numbers, tables, priorities, hit counts.
    Rules(Rules),
    /// Show address groups and applied-to groups; with names: all of their members.
    Groups(Objects),
    /// Show names that rules mean: addresses that DNS answers gave them, for how long, and the
    /// rules.
    #[command(alias = "names")]
    Fqdns {
        /// Only names that this means: www.example.com, or *.example.com.
        #[arg(value_name = "PATTERN")]
        pattern: Option<String>,
    },
    /// Show Egresses: marks, meters, what was sent and dropped.
    #[command(alias = "egresses")]
    Egress(Objects),
    /// Show TrafficControls: where packets are led or copied.
    #[command(alias = "tc")]
    TrafficControls(Objects),
    /// Show multicast groups: who has joined, in which version of IGMP, what was led to them.
    Multicast {
        #[command(flatten)]
        objects: Objects,
        /// Instead: what Pods sent and received by multicast (NAME: of these Pods).
        #[arg(long)]
        pods: bool,
    },
    /// Say how multicast memberships are kept.
    SetMulticast {
        /// Seconds between two general queries (1 to 3600; not given: 125). Who is silent for three
        /// times as long has left.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
        interval: Option<u32>,
        /// Versions of IGMP in which queries are sent (not given: all).
        #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=3))]
        versions: Vec<u32>,
    },
    /// Say who is in a multicast group, in place of IGMP: only of a Node whose agent has taken that
    /// over. Without Pods and Nodes: nobody is.
    SetMulticastGroup {
        /// The group.
        #[arg(value_name = "ADDRESS")]
        address: std::net::Ipv4Addr,
        /// A Pod of this Node; may be repeated.
        #[arg(long = "pod", value_name = "NAMESPACE/NAME", value_parser = object::pod)]
        pods: Vec<String>,
        /// Another Node that has members; may be repeated.
        #[arg(long = "node", value_name = "NAME")]
        nodes: Vec<String>,
    },
    /// Show the flows that an object writes, and what each is for. Lines are those of dump-flows;
    /// what follows # is no part of them.
    Flows {
        /// pod/NS/NAME, service/NS/NAME, endpoints/NS/NAME:PORT, policy/np:NS/NAME, egress/NAME,
        /// peer/NAME, tc/NAME, node, ...
        #[arg(value_name = "KIND/NAME", value_parser = object::object)]
        object: Object,
        /// Only those of this rule, with a policy.
        #[arg(long, value_name = "ID")]
        rule: Option<String>,
        /// Show ports and tables by name (the default).
        #[arg(long, hide = true, overrides_with = "no_names")]
        names: bool,
        /// Show ports and tables by number.
        #[arg(long)]
        no_names: bool,
    },
    /// Show the flows of the gateway bridge (NodeConfig.uplink.gateway), what each is for, and who
    /// writes it. Lines are those of dump-flows; what follows # is no part of them.
    Gateway {
        /// Show ports by name (the default).
        #[arg(long, hide = true, overrides_with = "no_names")]
        names: bool,
        /// Show ports by number.
        #[arg(long)]
        no_names: bool,
    },
    /// Send a packet from a Pod, or look at one of real traffic, and tell what happens to it on
    /// this Node; without arguments: what is being traced.
    #[command(alias = "traceflow")]
    TraceFlow(Box<TraceFlow>),
    /// Tell what happens, until interrupted: logs of policies, refused connections to Services,
    /// learned names, memberships, syncs, and what was lost of these.
    Events(Events),
    /// Say what becomes of a packet that `events --kind packet-to-answer` has told of.
    Answer {
        /// Its token, in hexadecimal digits.
        #[arg(value_name = "TOKEN", value_parser = super::pipeline::hex)]
        token: super::pipeline::Bytes,
        /// What becomes of it.
        #[arg(value_name = "VERDICT", value_enum)]
        verdict: RecordVerdict,
    },
    /// Show records of the connections that live: both tuples, Pods, Service, rules, counters.
    Records(Records),
    /// Say which objects and rules a flow is of.
    Whose {
        /// A flow as dumped (table, priority and match count), a cookie (0x...), or a rule's number
        /// (conj_id).
        #[arg(value_name = "FLOW|COOKIE|CONJ", required = true)]
        words: Vec<String>,
    },
}

/// Which objects.
#[derive(Debug, Args)]
pub(crate) struct Objects {
    /// Names; not given: all.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// What `services` has a line for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Ports of Services.
    Ports,
    /// Endpoints of these ports.
    Endpoints,
}

/// Which rules, and how often.
#[derive(Debug, Args)]
pub(crate) struct Rules {
    /// Only those of this policy, such as np:default/web; may be repeated.
    #[arg(long = "policy", value_name = "POLICY", value_parser = object::policy)]
    pub(crate) policies: Vec<String>,
    /// Only those of policies that are applied to this Pod.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object::pod, conflicts_with = "watch")]
    pub(crate) pod: Option<String>,
    /// Tell counters of all rules, then each so many milliseconds (100 to 3600000) of those that
    /// changed, one line each, until interrupted.
    #[arg(long, value_name = "MS", num_args = 0..=1, default_missing_value = "10000", value_parser = clap::value_parser!(u32).range(100..=3_600_000))]
    pub(crate) watch: Option<u32>,
    /// With --watch: end after so many lines.
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

#[cfg(test)]
#[path = "antrea_tests.rs"]
mod tests;
