//! What clients of the management interface run on.

use tokio::runtime::{Builder, Runtime};

/// A runtime for a client that a test calls now and then.
///
/// Its connection lives on a thread of its own, so that it answers the pings of `vswitchd` while
/// the test waits for something else. `vswitchd` closes the connection of a client that does not
/// answer them.
pub(crate) fn client_runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}
