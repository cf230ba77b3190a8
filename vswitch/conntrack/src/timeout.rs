//! How long a connection lives without packets.

use crate::tcp::{Outcome, State, Tcp};
use std::str::FromStr;

/// Keys of Open vSwitch's timeout policies that mean states of the kernel's tracker: known, without
/// effect here as in its userspace datapath.
pub const KERNEL_ONLY: [&str; 5] = ["tcp_close_wait", "tcp_last_ack", "tcp_syn_sent2", "tcp_retransmit", "tcp_unack"];

/// State of a connection, as far as its timeout wants to know: states and defaults of Open vSwitch
/// (`lib/conntrack-tp.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// TCP: SYNs of its opener only, or whatever else opened it.
    TcpFirst,
    /// TCP: not both ends were acknowledged.
    TcpOpening,
    /// TCP: both ends were acknowledged.
    TcpEstablished,
    /// TCP: one end has sent a FIN.
    TcpClosing,
    /// TCP: both ends have sent a FIN.
    TcpFinWait,
    /// TCP: both FINs were acknowledged, or it was reset.
    TcpClosed,
    /// UDP: one packet.
    UdpFirst,
    /// UDP: packets of one end only.
    UdpSingle,
    /// UDP: packets of both ends.
    UdpMultiple,
    /// ICMP and ICMPv6: requests only.
    IcmpFirst,
    /// ICMP and ICMPv6: was answered.
    IcmpReply,
    /// Any other protocol: one packet.
    OtherFirst,
    /// Any other protocol: packets of one end only.
    OtherSingle,
    /// Any other protocol: packets of both ends.
    OtherMultiple,
}

/// Timeouts in milliseconds by [`Class`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy(pub [u64; Class::ALL.len()]);

impl Default for Policy {
    fn default() -> Self {
        Self(Class::ALL.map(|class| class.default_seconds() * 1000))
    }
}

impl Policy {
    /// Milliseconds.
    #[must_use]
    pub const fn get(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// Sets milliseconds.
    pub const fn set(&mut self, class: Class, milliseconds: u64) {
        self.0[class as usize] = milliseconds;
    }
}

impl Class {
    /// All of them, in order.
    pub const ALL: [Self; 14] = [
        Self::TcpFirst,
        Self::TcpOpening,
        Self::TcpEstablished,
        Self::TcpClosing,
        Self::TcpFinWait,
        Self::TcpClosed,
        Self::UdpFirst,
        Self::UdpSingle,
        Self::UdpMultiple,
        Self::IcmpFirst,
        Self::IcmpReply,
        Self::OtherFirst,
        Self::OtherSingle,
        Self::OtherMultiple,
    ];

    /// Of a TCP connection, by its state alone: while only one end has spoken, that is
    /// [`Self::TcpFirst`].
    #[must_use]
    pub fn of_tcp(tcp: &Tcp) -> Self {
        let [a, b] = tcp.peers.map(|peer| peer.state);
        let (less, more) = (a.min(b), a.max(b));
        if less >= State::FinWait2 {
            Self::TcpClosed
        } else if less >= State::Closing {
            Self::TcpFinWait
        } else if less == State::Closed {
            Self::TcpFirst
        } else if less < State::Established {
            Self::TcpOpening
        } else if more >= State::Closing {
            Self::TcpClosing
        } else {
            Self::TcpEstablished
        }
    }

    /// What a segment makes of a TCP connection's timeout, exactly as Open vSwitch has it: none
    /// leaves it as it is. ([`Self::of_tcp`] differs after a second segment of the opener that is
    /// no SYN, and after SYNs of both ends: there it does not know of the segment.)
    #[must_use]
    pub fn after(outcome: Outcome, tcp: &Tcp) -> Option<Self> {
        match outcome {
            Outcome::Valid => Some(match Self::of_tcp(tcp) {
                Self::TcpFirst => Self::TcpOpening,
                class => class,
            }),
            Outcome::ValidNew | Outcome::Reopen => Some(Self::TcpFirst),
            Outcome::ValidLoose | Outcome::Invalid => None,
        }
    }

    /// As users write it: the key of Open vSwitch's timeout policies (`ovs-vsctl add-zone-tp`;
    /// ovs-vswitchd.conf.db(5), `CT_Timeout_Policy`). They are the names of the kernel's states, so
    /// [`Self::TcpFinWait`] is `tcp_time_wait`. Protocols that have no key there have `other_*`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpFirst => "tcp_syn_sent",
            Self::TcpOpening => "tcp_syn_recv",
            Self::TcpEstablished => "tcp_established",
            Self::TcpClosing => "tcp_fin_wait",
            Self::TcpFinWait => "tcp_time_wait",
            Self::TcpClosed => "tcp_close",
            Self::UdpFirst => "udp_first",
            Self::UdpSingle => "udp_single",
            Self::UdpMultiple => "udp_multiple",
            Self::IcmpFirst => "icmp_first",
            Self::IcmpReply => "icmp_reply",
            Self::OtherFirst => "other_first",
            Self::OtherSingle => "other_single",
            Self::OtherMultiple => "other_multiple",
        }
    }

    /// Seconds, unless a policy says otherwise.
    const fn default_seconds(self) -> u64 {
        match self {
            Self::TcpFirst | Self::TcpOpening | Self::TcpClosed => 30,
            Self::TcpEstablished => 86_400,
            Self::TcpClosing => 900,
            Self::TcpFinWait => 45,
            Self::UdpFirst | Self::UdpSingle | Self::OtherFirst | Self::OtherSingle | Self::IcmpFirst => 60,
            Self::UdpMultiple | Self::OtherMultiple | Self::IcmpReply => 30,
        }
    }
}

/// No timeout has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no timeout is called {0:?}")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    /// By [`Self::name`].
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| UnknownClass(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Peer;

    #[test]
    fn names_lead_back() {
        for (at, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, at);
            assert_eq!(class.name().parse(), Ok(class));
            assert!(!KERNEL_ONLY.contains(&class.name()));
        }
        assert_eq!("tcp_first".parse::<Class>(), Err(UnknownClass("tcp_first".to_owned())));
    }

    /// As on Open vSwitch 3.1 with a policy that gives each key another number of seconds.
    #[test]
    fn a_policy_sets_what_it_names() {
        let mut policy = Policy::default();
        let defaults = policy;
        policy.set("tcp_fin_wait".parse().expect("a name"), 1004);
        policy.set("tcp_time_wait".parse().expect("a name"), 1007);
        assert_eq!((policy.get(Class::TcpClosing), policy.get(Class::TcpFinWait)), (1004, 1007));
        for class in Class::ALL {
            let changed = matches!(class, Class::TcpClosing | Class::TcpFinWait);
            assert_eq!(policy.get(class) != defaults.get(class), changed, "{class:?}");
        }
    }

    #[test]
    fn defaults() {
        let seconds = Class::ALL.map(|class| (class.name(), Policy::default().get(class) / 1000));
        let expected = [
            ("tcp_syn_sent", 30),
            ("tcp_syn_recv", 30),
            ("tcp_established", 86_400),
            ("tcp_fin_wait", 900),
            ("tcp_time_wait", 45),
            ("tcp_close", 30),
            ("udp_first", 60),
            ("udp_single", 60),
            ("udp_multiple", 30),
            ("icmp_first", 60),
            ("icmp_reply", 30),
            ("other_first", 60),
            ("other_single", 60),
            ("other_multiple", 30),
        ];
        assert_eq!(seconds, expected);
    }

    #[test]
    fn classes_of_states() {
        use State::{Closed, Closing, Established, FinWait2, SynSent, TimeWait};
        for (a, b, class) in [
            (SynSent, Closed, Class::TcpFirst),
            (Closing, Closed, Class::TcpFirst),
            (SynSent, SynSent, Class::TcpOpening),
            (Established, SynSent, Class::TcpOpening),
            (Closing, SynSent, Class::TcpOpening),
            (Established, Established, Class::TcpEstablished),
            (Closing, Established, Class::TcpClosing),
            (FinWait2, Established, Class::TcpClosing),
            (Closing, Closing, Class::TcpFinWait),
            (FinWait2, Closing, Class::TcpFinWait),
            (FinWait2, FinWait2, Class::TcpClosed),
            (TimeWait, TimeWait, Class::TcpClosed),
        ] {
            for (a, b) in [(a, b), (b, a)] {
                let tcp = Tcp { peers: [a, b].map(|state| Peer { state, ..Peer::default() }) };
                assert_eq!(Class::of_tcp(&tcp), class, "{a:?}, {b:?}");
                let renewed = if class == Class::TcpFirst { Class::TcpOpening } else { class };
                assert_eq!(Class::after(Outcome::Valid, &tcp), Some(renewed), "{a:?}, {b:?}");
                assert_eq!(Class::after(Outcome::ValidNew, &tcp), Some(Class::TcpFirst), "{a:?}, {b:?}");
                assert_eq!(Class::after(Outcome::ValidLoose, &tcp), None, "{a:?}, {b:?}");
            }
        }
    }
}
