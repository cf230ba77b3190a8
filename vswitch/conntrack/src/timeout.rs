//! How long a connection lives without packets.

use crate::tcp::Tcp;

/// State of a connection, as far as its timeout wants to know. Names and defaults of Open vSwitch (`lib/conntrack-tp.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Class {
    TcpOpening,
    TcpEstablished,
    TcpClosing,
    TcpFinWait,
    TcpClosed,
    UdpFirst,
    UdpSingle,
    UdpMultiple,
    IcmpFirst,
    IcmpReply,
    OtherFirst,
    OtherSingle,
    OtherMultiple,
}

/// Timeouts in milliseconds by [`Class`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy(pub [u64; 13]);

impl Default for Policy {
    fn default() -> Self {
        Self([
            30_000, 86_400_000, 900_000, 45_000, 30_000, 60_000, 60_000, 30_000, 60_000, 30_000, 60_000, 60_000, 30_000,
        ])
    }
}

impl Policy {
    /// Milliseconds.
    #[must_use]
    pub const fn get(&self, class: Class) -> u64 {
        self.0[class as usize]
    }
}

impl Class {
    /// Of a TCP connection.
    #[must_use]
    pub fn of_tcp(tcp: &Tcp) -> Self {
        let _ = tcp;
        Self::TcpOpening
    }
}
