//! The address of `[observe] metrics`, taken.

use crate::server::{BindError, ControlListener};
use std::io;
use std::net::{SocketAddr, TcpListener};
use vswitch_control::config::{Compat, MetricsAddress, ObserveConfig};

/// Why the address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The unix socket.
    #[error("[observe] metrics: {}", unix(.0))]
    Unix(#[source] BindError),
    /// The address of TCP.
    #[error("[observe] metrics: cannot listen on {address}: {source}; {}", tcp_hint(.source))]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

impl MetricsError {
    /// Whether another configuration is needed. Otherwise a later start may succeed.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Unix(error) => error.is_lasting(),
            Self::Tcp { source, .. } => {
                let errors = [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::ENOBUFS];
                !source.raw_os_error().is_some_and(|error| errors.contains(&error))
            }
        }
    }
}

/// What is in the way of a socket: the texts of [`BindError`] are about the control socket.
fn unix(error: &BindError) -> String {
    error.to_string().replace("control socket", "socket").replace("another [control] socket", "another path")
}

fn tcp_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process has the port (`ss -ltnp` shows which): stop it, or use another",
        io::ErrorKind::AddrNotAvailable => "use an address of this machine, in the network namespace of the switch",
        io::ErrorKind::PermissionDenied => "use a port from 1024 on",
        _ => "use another address",
    }
}

/// The listener of metrics. Dropping it removes its unix socket.
#[derive(Debug)]
pub struct MetricsListener {
    pub(super) kind: ListenerKind,
    compat: Vec<Compat>,
    rules: bool,
}

/// What listens.
#[derive(Debug)]
pub(super) enum ListenerKind {
    /// A unix socket, made as the control socket is.
    Unix(ControlListener),
    /// TCP.
    Tcp(TcpListener),
}

impl MetricsListener {
    /// Further names that metrics are to have.
    pub(crate) fn compat(&self) -> Vec<Compat> {
        self.compat.clone()
    }

    /// Whether each rule of policies is shown.
    pub(crate) fn rules(&self) -> bool {
        self.rules
    }
}

/// Takes the address for metrics, if there is to be one.
///
/// # Errors
/// [`MetricsError`]: what is in the way, and what to do.
pub fn bind(config: &ObserveConfig) -> Result<Option<MetricsListener>, MetricsError> {
    let Some(address) = &config.metrics else { return Ok(None) };
    let kind = match address {
        MetricsAddress::Unix(path) => ListenerKind::Unix(crate::server::bind(path).map_err(MetricsError::Unix)?),
        MetricsAddress::Tcp(address) => {
            let listen = || {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            };
            ListenerKind::Tcp(listen().map_err(|source| MetricsError::Tcp { address: *address, source })?)
        }
    };
    Ok(Some(MetricsListener { kind, compat: config.compat.clone(), rules: config.rule_metrics }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(metrics: MetricsAddress) -> ObserveConfig {
        ObserveConfig { metrics: Some(metrics), compat: vec![Compat::Ovs], ..ObserveConfig::default() }
    }

    #[test]
    fn nothing_listens_unless_it_is_asked_for() {
        assert!(bind(&ObserveConfig::default()).expect("nothing to do").is_none());
    }

    #[test]
    fn what_is_in_the_way_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("metrics.sock");
        let first = bind(&config(MetricsAddress::Unix(path.clone()))).expect("free").expect("a listener");
        assert_eq!(first.compat(), [Compat::Ovs]);
        let error = bind(&config(MetricsAddress::Unix(path.clone()))).expect_err("taken");
        let text = error.to_string();
        assert!(text.starts_with("[observe] metrics: socket ") && text.ends_with("configure another path"), "{text}");
        assert!(error.is_lasting());
        drop(first);
        assert!(!path.exists(), "the socket was left behind");
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("an address");
        let error = bind(&config(MetricsAddress::Tcp(address))).expect_err("taken");
        let text = error.to_string();
        assert!(text.starts_with(&format!("[observe] metrics: cannot listen on {address}: ")), "{text}");
        assert!(text.contains("another process has the port") && error.is_lasting(), "{text}");
    }
}
