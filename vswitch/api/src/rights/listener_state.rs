//! What a listener counts, and what is told of it.

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vswitch_control::config::Role;

/// Why a client was refused before it could call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has none.
    NoCertificate,
    /// No authority that the listener knows has signed its certificate.
    UnknownCa,
    /// Its certificate is over, or not valid yet.
    Expired,
    /// It does not speak TLS 1.3.
    Version,
    /// It does not speak TLS.
    NotTls,
    /// It does not accept the certificate of the switch.
    RefusedByClient,
    /// It was silent for too long.
    Timeout,
    /// Too many were shaking hands.
    TooMany,
    /// All else.
    Other,
}

/// All reasons with their words.
pub(crate) const REASONS: [(Reason, &str); 9] = [
    (Reason::NoCertificate, "no_certificate"),
    (Reason::UnknownCa, "unknown_ca"),
    (Reason::Expired, "expired"),
    (Reason::Version, "version"),
    (Reason::NotTls, "not_tls"),
    (Reason::RefusedByClient, "refused_by_client"),
    (Reason::Timeout, "timeout"),
    (Reason::TooMany, "too_many"),
    (Reason::Other, "other"),
];

impl Reason {
    /// Its word.
    pub(crate) const fn word(self) -> &'static str {
        REASONS[self as usize].1
    }
}

/// What clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    Unix,
    Tls,
}

/// The certificate of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) file: PathBuf,
    /// Seconds since 1970.
    pub(crate) not_after: i64,
    pub(crate) reloads: u64,
    /// Why the files cannot be used as they are now.
    pub(crate) error: String,
}

/// An end that is nearer is told.
const SOON: Duration = Duration::from_secs(7 * 86_400);

impl Certificate {
    /// What it lacks, if it lacks something.
    pub(crate) fn trouble(&self, now: SystemTime) -> Option<String> {
        let file = &self.file;
        if !self.error.is_empty() {
            return Some(format!("{file:?} stays as it was: {}", self.error));
        }
        let end = UNIX_EPOCH + Duration::from_secs(u64::try_from(self.not_after).unwrap_or_default());
        match end.duration_since(now) {
            Err(_) => Some(format!("{file:?} has expired: clients cannot connect; renew it")),
            Ok(left) if left < SOON => Some(format!("{file:?} expires in {} hours; renew it", left.as_secs() / 3_600)),
            Ok(_) => None,
        }
    }
}

/// What TLS of a listener counts.
#[derive(Debug)]
pub(crate) struct TlsState {
    pub(crate) certificate: Mutex<Certificate>,
    refusals: [AtomicU64; REASONS.len()],
}

impl TlsState {
    pub(crate) fn new(certificate: Certificate) -> Self {
        Self { certificate: Mutex::new(certificate), refusals: Default::default() }
    }

    /// A client was refused.
    pub(crate) fn refuse(&self, reason: Reason) {
        self.refusals[reason as usize].fetch_add(1, Relaxed);
    }

    /// Reasons that happened, and how often.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Reason, u64)> {
        let counts = REASONS.iter().map(|(reason, _)| (*reason, self.refusals[*reason as usize].load(Relaxed)));
        counts.filter(|(_, count)| *count > 0)
    }
}

/// A listener, as long as the server lives.
#[derive(Debug)]
pub(crate) struct ListenerState {
    /// `unix:PATH` or `tls:ADDRESS`.
    pub(crate) name: String,
    pub(crate) kind: ListenerKind,
    /// The most that it gives.
    pub(crate) role: Role,
    /// It gives roles to those whom it knows only.
    pub(crate) is_mapped: bool,
    pub(crate) tls: Option<TlsState>,
    connections: AtomicU64,
    accepted: AtomicU64,
    denied: AtomicU64,
}

impl ListenerState {
    pub(crate) fn new(name: String, role: Role, is_mapped: bool, tls: Option<TlsState>) -> Self {
        let kind = if tls.is_some() { ListenerKind::Tls } else { ListenerKind::Unix };
        let zero = || AtomicU64::new(0);
        Self { name, kind, role, is_mapped, tls, connections: zero(), accepted: zero(), denied: zero() }
    }

    /// A connection begins.
    pub(crate) fn open(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.accepted.fetch_add(1, Relaxed);
    }

    /// A connection has ended.
    pub(crate) fn close(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    /// A call was refused for want of a role.
    pub(crate) fn deny(&self) {
        self.denied.fetch_add(1, Relaxed);
    }

    /// Connections now, connections since the start, calls that were refused.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.connections.load(Relaxed), self.accepted.load(Relaxed), self.denied.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_near_is_told() {
        let day = 86_400;
        let now = UNIX_EPOCH + Duration::from_secs(100 * day);
        let told = |not_after: u64, error: &str| {
            let not_after = i64::try_from(not_after).expect("small");
            Certificate { not_after, error: error.to_owned(), ..Certificate::default() }.trouble(now)
        };
        assert_eq!(told(107 * day, ""), None);
        assert!(told(107 * day - 1, "").expect("near").contains("expires in 167 hours"));
        assert!(told(100 * day - 1, "").expect("over").contains("has expired"));
        assert!(told(200 * day, "torn").expect("torn").contains("stays as it was: torn"));
    }

    #[test]
    fn each_reason_has_its_word_and_its_counter() {
        let tls = TlsState::new(Certificate::default());
        for (index, (reason, word)) in REASONS.iter().enumerate() {
            assert_eq!((*reason as usize, reason.word()), (index, *word));
            (0..=index).for_each(|_| tls.refuse(*reason));
        }
        let counts: Vec<u64> = tls.refusals().map(|(_, count)| count).collect();
        assert_eq!(counts, (1..=REASONS.len() as u64).collect::<Vec<_>>());
    }
}
