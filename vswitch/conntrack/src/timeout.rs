//! How long a connection lives without packets.

use crate::tcp::{Outcome, State, Tcp};

/// State of a connection, as far as its timeout wants to know. Names and defaults of Open vSwitch (`lib/conntrack-tp.c`).
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

    /// Of a TCP connection, by its state alone: while only one end has spoken, that is [`Self::TcpFirst`].
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

    /// What a segment makes of a TCP connection's timeout, exactly as Open vSwitch has it: none leaves it as it is. ([`Self::of_tcp`] differs after a
    /// second segment of the opener that is no SYN, and after SYNs of both ends: there it does not know of the segment.)
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

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpFirst => "tcp_first",
            Self::TcpOpening => "tcp_opening",
            Self::TcpEstablished => "tcp_established",
            Self::TcpClosing => "tcp_closing",
            Self::TcpFinWait => "tcp_fin_wait",
            Self::TcpClosed => "tcp_closed",
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
