//! What a server is like.

use std::net::SocketAddr;
use std::time::Duration;

use crate::rbac::User;

/// What a server is like.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen at.
    pub listen: SocketAddr,
    /// Bearer tokens and their users. None: everybody is an administrator.
    pub tokens: Vec<(String, User)>,
    /// Roles and bindings of the store are enforced. Without it each token may do everything.
    pub rbac: bool,
    /// Changes that the history keeps.
    pub history: usize,
    /// Objects need their Namespace to be there.
    pub namespaces_exist: bool,
    /// `sendInitialEvents` is served; else it is refused, as servers before 1.32 do.
    pub streaming_lists: bool,
    /// How often watches get bookmarks.
    pub bookmark_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tokens: Vec::new(),
            rbac: false,
            history: 10_000,
            namespaces_exist: true,
            streaming_lists: false,
            bookmark_every: Duration::from_secs(60),
        }
    }
}

impl Options {
    /// Adds a token.
    #[must_use]
    pub fn token(mut self, token: &str, user: &str, groups: &[&str]) -> Self {
        self.tokens.push((token.to_owned(), User::new(user, groups)));
        self
    }
}
