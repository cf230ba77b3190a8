//! Who a client is.

use std::fmt;

/// Whose shares a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// A user of the machine.
    Uid(u32),
    /// A name in certificates, by its number since the server started.
    Remote(u32),
}

impl User {
    pub(crate) const ROOT: Self = Self::Uid(0);
    /// The user of a client that the kernel does not tell: no user has this number.
    pub(crate) const UNKNOWN: Self = Self::Uid(u32::MAX);

    pub(crate) const fn is_remote(self) -> bool {
        matches!(self, Self::Remote(_))
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(uid) => write!(f, "user {uid}"),
            Self::Remote(_) => f.write_str("the name in this client's certificate"),
        }
    }
}

/// A user's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Client {
    /// Whose it is.
    pub(crate) user: User,
    /// Number of the connection since the server started.
    pub(crate) connection: u64,
}

impl Client {
    /// The switch itself: it asks for what its streams tell.
    const SWITCH: Self = Self { user: User::ROOT, connection: 0 };
}

tokio::task_local! {
    /// Whose call it is.
    pub(super) static CLIENT: Client;
}

/// Whose call it is that runs here; the switch's own if it is no call's task.
pub(crate) fn current() -> Client {
    CLIENT.try_with(|client| *client).unwrap_or(Client::SWITCH)
}
