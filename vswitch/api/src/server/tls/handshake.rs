//! Clients of TCP, from `accept` until TLS knows who they are.
//!
//! **Design**: each handshake is a task of its own, with a limit of time, so a silent client holds
//! up no other one. When too many shake hands, the oldest of the address that has most gives way.
//! A refusal is counted by its reason, and logged as often as the log allows for each reason.
//!
//! **Limits**: [`HANDSHAKES_MAX`] at a time for a listener, [`HANDSHAKE_TIMEOUT`] for each.

use super::super::incoming::{Gate, accepted};
use super::super::stream::Stream;
use super::Files;
use super::certificate::{self, Contents};
use crate::rights::{Identity, ListenerState, Principal, Reason};
use rustls::{CertificateError, Error, PeerIncompatible};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use vswitch_control::config::{Role, SanPattern};

/// Clients of a listener that shake hands at a time.
const HANDSHAKES_MAX: usize = 64;

/// Time for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a TLS listener needs.
pub(in super::super) struct Accept {
    pub(in super::super) files: Arc<Files>,
    pub(in super::super) sans: Arc<Vec<(SanPattern, Role)>>,
    pub(in super::super) state: Arc<ListenerState>,
    pub(in super::super) gate: Arc<Gate>,
}

/// Accepts connections, and admits those whose certificate is good.
pub(in super::super) async fn accept(listener: TcpListener, accept: Accept) {
    let accept = Arc::new(accept);
    let (mut failing, mut tasks, mut shaking) = (false, JoinSet::new(), VecDeque::new());
    loop {
        let (stream, address) = accepted(&mut || listener.accept(), &mut failing).await;
        while tasks.try_join_next().is_some() {}
        shaking.retain(|(_, task): &(IpAddr, AbortHandle)| !task.is_finished());
        if shaking.len() >= HANDSHAKES_MAX
            && let Some(victim) = victim(shaking.iter().map(|(address, _)| *address))
            && let Some((address, task)) = shaking.remove(victim)
        {
            task.abort();
            refuse(&accept.state, address, Reason::TooMany, "another client takes its place");
        }
        let handshake = shake(Arc::clone(&accept), stream, address);
        shaking.push_back((address.ip().to_canonical(), tasks.spawn(handshake)));
    }
}

/// Which of those that shake hands gives way: the oldest one of the address that has most.
fn victim(mut addresses: impl Iterator<Item = IpAddr> + Clone) -> Option<usize> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    addresses.clone().for_each(|address| *counts.entry(address).or_default() += 1);
    let most = counts.values().max()?;
    addresses.position(|address| counts.get(&address) == Some(most))
}

/// A handshake, and what becomes of it.
async fn shake(accept: Arc<Accept>, stream: TcpStream, address: SocketAddr) {
    let _ = stream.set_nodelay(true); // it is only slower without
    let acceptor = TlsAcceptor::from(accept.files.config());
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let identity = identify(&accept, &stream, address);
            accept.gate.admit(Stream::Tls(Box::new(stream)), identity).await;
        }
        Ok(Err(error)) => {
            let (reason, detail) = reason(&error);
            refuse(&accept.state, address.ip(), reason, &detail);
        }
        Err(_) => refuse(&accept.state, address.ip(), Reason::Timeout, "it was silent for 10 s"),
    }
}

fn refuse(listener: &ListenerState, address: IpAddr, reason: Reason, detail: &str) {
    if let Some(tls) = &listener.tls {
        tls.refuse(reason);
    }
    let (refusal, listener, left_out) = (reason.word(), &listener.name, tracing::field::Empty);
    tracing::warn!(refusal, %address, listener, detail, left_out, "a client of TLS was refused");
}

/// Why a handshake failed.
fn reason(error: &io::Error) -> (Reason, String) {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let reason = match tls {
        Some(Error::NoCertificatesPresented) => Reason::NoCertificate,
        Some(Error::InvalidCertificate(error)) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Reason::UnknownCa,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Reason::Expired,
            _ => Reason::Other,
        },
        Some(Error::PeerIncompatible(
            PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        )) => Reason::Version,
        Some(Error::InvalidMessage(_) | Error::InappropriateMessage { .. }) => Reason::NotTls,
        Some(Error::AlertReceived(_)) => Reason::RefusedByClient,
        _ => Reason::Other,
    };
    (reason, error.to_string())
}

/// Who the bearer of a verified certificate is, and what he may do.
fn identify(accept: &Accept, stream: &TlsStream<TcpStream>, address: SocketAddr) -> Identity {
    let chain = stream.get_ref().1.peer_certificates();
    let contents = chain.and_then(|chain| chain.first()).and_then(|own| certificate::read(own));
    let until = contents.as_ref().map(|contents| {
        let left = certificate::time(contents.not_after).duration_since(SystemTime::now());
        Instant::now() + left.unwrap_or_default().min(Duration::from_secs(u32::MAX.into()))
    });
    let (name, role) = match &contents {
        Some(contents) => role_of(contents, &accept.sans, accept.state.role),
        None => ("unreadable".to_owned(), None),
    };
    if role.is_none() {
        let (refusal, listener, left_out) = ("no_role", &accept.state.name, tracing::field::Empty);
        let address = address.ip();
        tracing::warn!(refusal, %address, listener, san = name, left_out, "no name of the client's certificate has a role");
    }
    Identity { principal: Principal::Certificate(name.into()), role, listener: Arc::clone(&accept.state), until }
}

/// The name that a certificate goes by, and its role: the highest that one of its names has.
/// Without a mapping it is the listener's.
fn role_of(contents: &Contents, mapped: &[(SanPattern, Role)], most: Role) -> (String, Option<Role>) {
    let first = || contents.sans.first().map_or_else(|| format!("serial:{}", contents.serial), ToString::to_string);
    if mapped.is_empty() {
        return (first(), Some(most));
    }
    let roles = contents.sans.iter().filter_map(|san| {
        let roles = mapped.iter().filter(|(pattern, _)| pattern.matches(san));
        roles.map(|(_, role)| *role).max().map(|role| (san, role))
    });
    // (Of names that have as high a role, the first.)
    match roles.reduce(|best, other| if other.1 > best.1 { other } else { best }) {
        Some((san, role)) => (san.to_string(), Some(role.min(most))),
        None => (first(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_control::config::San;

    #[test]
    fn the_address_that_has_most_gives_its_oldest() {
        let of = |last: &[u8]| victim(last.iter().map(|last| IpAddr::from([10, 0, 0, *last])));
        assert_eq!((of(&[]), of(&[1]), of(&[1, 2, 3, 2]), of(&[1, 1, 2])), (None, Some(0), Some(1), Some(0)));
    }

    #[test]
    fn the_highest_role_of_all_names_counts_and_an_unknown_one_has_none() {
        let dns = |name: &str| San::Dns(name.to_owned());
        let contents = |sans: &[San]| Contents { serial: "0a".to_owned(), not_after: 0, sans: sans.to_vec() };
        let mapped: Vec<(SanPattern, Role)> =
            [("*.read", Role::Read), ("a.admin", Role::Admin), ("b.read", Role::Operate)]
                .map(|(pattern, role)| (SanPattern::new(pattern).expect("a pattern"), role))
                .into();
        let role = |sans: &[San], most| role_of(&contents(sans), &mapped, most);
        assert_eq!(role(&[dns("x.read")], Role::Admin), ("x.read".to_owned(), Some(Role::Read)));
        assert_eq!(role(&[dns("x.read"), dns("a.admin")], Role::Admin), ("a.admin".to_owned(), Some(Role::Admin)));
        assert_eq!(role(&[dns("b.read")], Role::Admin), ("b.read".to_owned(), Some(Role::Operate)));
        assert_eq!(role(&[dns("a.admin")], Role::Read).1, Some(Role::Read), "never more than the listener gives");
        assert_eq!(role(&[dns("other"), dns("read")], Role::Admin), ("other".to_owned(), None));
        assert_eq!(role(&[], Role::Admin), ("serial:0a".to_owned(), None));
        assert_eq!(role_of(&contents(&[]), &[], Role::Operate), ("serial:0a".to_owned(), Some(Role::Operate)));
        assert_eq!(role_of(&contents(&[dns("a")]), &[], Role::Read), ("a".to_owned(), Some(Role::Read)));
    }
}
