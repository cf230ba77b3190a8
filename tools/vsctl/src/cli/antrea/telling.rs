//! What happens, and how much of it is to be told.

use super::object;
use clap::{Args, ValueEnum};
use vswitch_proto::antrea::v1;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventWord {
    /// A rule with logging, or isolation, has decided.
    PolicyLog,
    /// A connection to a Service without endpoints was refused.
    ServiceRefused,
    /// A packet waits for an answer of the agent, which has taken its category over; only if asked
    /// for.
    PacketToAnswer,
    /// A DNS answer told of a name that rules use.
    FqdnLearned,
    /// Somebody joined a multicast group, or left it.
    MembershipChanged,
    /// An object does something else now, though nobody wrote it.
    ObjectChanged,
    /// A sync was applied, or the gate opened.
    RoundCommitted,
}

impl From<EventWord> for v1::EventKind {
    fn from(word: EventWord) -> Self {
        match word {
            EventWord::PolicyLog => Self::PolicyLog,
            EventWord::ServiceRefused => Self::ServiceRefused,
            EventWord::PacketToAnswer => Self::PacketToAnswer,
            EventWord::FqdnLearned => Self::FqdnLearned,
            EventWord::MembershipChanged => Self::MembershipChanged,
            EventWord::ObjectChanged => Self::ObjectChanged,
            EventWord::RoundCommitted => Self::RoundCommitted,
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordVerdict {
    /// Nothing: it is dropped.
    Drop,
    /// It goes on; of DNS answers.
    Resume,
    /// The switch refuses it; of packets that a rule, or a Service without endpoints, refuses.
    Reject,
}

impl From<RecordVerdict> for v1::PacketVerdict {
    fn from(verdict: RecordVerdict) -> Self {
        match verdict {
            RecordVerdict::Drop => Self::Drop,
            RecordVerdict::Resume => Self::Resume,
            RecordVerdict::Reject => Self::Reject,
        }
    }
}

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordWord {
    /// A connection began.
    New,
    /// Its rules or its state changed, or it has had packets (--active).
    Update,
    /// It ended.
    End,
    /// It was denied; only where the Node records that.
    Denied,
}

impl From<RecordWord> for v1::FlowRecordKind {
    fn from(word: RecordWord) -> Self {
        match word {
            RecordWord::New => Self::New,
            RecordWord::Update => Self::Update,
            RecordWord::End => Self::End,
            RecordWord::Denied => Self::Denied,
        }
    }
}

/// Which events, and how many.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only these kinds; may be repeated. Not given: all but packet-to-answer.
    #[arg(long = "kind", value_name = "KIND", value_enum)]
    pub(crate) kinds: Vec<EventWord>,
    /// End after so many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// Which records, and how many.
#[derive(Debug, Args)]
pub(crate) struct Records {
    /// Only of connections from or to this Pod.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object::pod, conflicts_with = "follow")]
    pub(crate) pod: Option<String>,
    /// Only of those to this Service.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object::pod, conflicts_with = "follow")]
    pub(crate) service: Option<String>,
    /// Tell what happens to connections instead, until interrupted.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// With --follow: only these kinds; may be repeated. Not given: all.
    #[arg(long = "kind", value_name = "KIND", value_enum, requires = "follow")]
    pub(crate) kinds: Vec<RecordWord>,
    /// With --follow: begin with the connections that live.
    #[arg(long, requires = "follow")]
    pub(crate) existing: bool,
    /// With --follow: tell of a connection that has packets each so many seconds.
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) active: Option<u32>,
    /// With --follow: end after so many records.
    #[arg(long, value_name = "N", requires = "follow", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}
