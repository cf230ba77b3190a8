//! Who a client is.

/// A user's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Client {
    /// User of the machine.
    pub(crate) uid: u32,
    /// Number of the connection since the server started.
    pub(crate) connection: u64,
}

/// The uid of a client that the kernel does not tell: no user has it.
pub(super) const UNKNOWN: u32 = u32::MAX;

impl Client {
    /// The switch itself: it asks for what its streams tell.
    const SWITCH: Self = Self { uid: 0, connection: 0 };
}

tokio::task_local! {
    /// Whose call it is.
    pub(super) static CLIENT: Client;
}

/// Whose call it is that runs here; the switch's own if it is no call's task.
pub(crate) fn current() -> Client {
    CLIENT.try_with(|client| *client).unwrap_or(Client::SWITCH)
}
