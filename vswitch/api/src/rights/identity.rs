//! Who is at the other end of a connection, and what it may do.

use super::listener_state::ListenerState;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vswitch_control::config::Role;

/// Calls per second of one name in certificates, on all its connections.
pub(crate) const CALLS_PER_SECOND: u32 = 500;

/// Calls that it may make at once, after a pause.
const CALLS_AT_ONCE: u32 = 1_000;

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// A process of a user of the machine; none: the kernel does not tell.
    Process { uid: Option<u32>, gid: Option<u32>, pid: Option<i32> },
    /// The bearer of a certificate: the name that gave it its role, or the first one.
    Certificate(Arc<str>),
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Process { uid, gid, pid } = self else {
            let Self::Certificate(name) = self else { return Ok(()) };
            return write!(f, "san={}", name.escape_default());
        };
        let mut first = true;
        let numbers = [("uid", uid.map(i64::from)), ("gid", gid.map(i64::from)), ("pid", pid.map(i64::from))];
        for (name, number) in numbers.into_iter().filter_map(|(name, number)| Some((name, number?))) {
            write!(f, "{}{name}={number}", if first { "" } else { "," })?;
            first = false;
        }
        if first { f.write_str("uid=unknown") } else { Ok(()) }
    }
}

/// What is known of the other end of a connection, from its begin to its end.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) principal: Principal,
    /// What it may do; none: nothing.
    pub(crate) role: Option<Role>,
    /// Where it connected.
    pub(crate) listener: Arc<ListenerState>,
    /// The end of its certificate, and of its connection.
    pub(crate) until: Option<Instant>,
}

impl Identity {
    /// The user, if it is one of the machine.
    pub(crate) fn uid(&self) -> Option<u32> {
        match self.principal {
            Principal::Process { uid, .. } => uid,
            Principal::Certificate(_) => None,
        }
    }

    /// The process, if it is one of the machine.
    pub(crate) fn pid(&self) -> Option<i32> {
        match self.principal {
            Principal::Process { pid, .. } => pid,
            Principal::Certificate(_) => None,
        }
    }

    /// What it is called, if it is none of the machine.
    pub(crate) fn remote(&self) -> Option<String> {
        matches!(self.principal, Principal::Certificate(_)).then(|| self.principal.to_string())
    }

    /// Whether it may make a call.
    ///
    /// # Errors
    /// Why not, and how to get the role.
    pub(crate) fn may(&self, rpc: &str, needed: Role) -> Result<(), String> {
        let Self { principal, role, listener, .. } = self;
        if role.is_some_and(|role| role >= needed) {
            return Ok(());
        }
        let ListenerState { name, role: most, is_mapped, .. } = &**listener;
        let held = role.map_or("no role".to_owned(), |role| format!("the role {role}"));
        let how = if *most < needed {
            format!("it gives at most {most}; use a listener with role = \"{needed}\"")
        } else {
            "an administrator can map you there: users, groups or sans of [[control.listener]]".to_owned()
        };
        debug_assert!(*is_mapped || *role == Some(*most), "without mappings all have the listener's role");
        Err(format!("{rpc} needs the role {needed}; {principal} has {held} on listener {name}: {how}"))
    }

    #[cfg(test)]
    pub(crate) fn of_uid(uid: Option<u32>, pid: Option<i32>) -> Self {
        let listener = Arc::new(ListenerState::new("unix:/test".to_owned(), Role::Admin, false, None));
        let principal = Principal::Process { uid, gid: None, pid };
        Self { principal, role: Some(Role::Admin), listener, until: None }
    }

    #[cfg(test)]
    pub(crate) fn of_name(name: &str) -> Self {
        Self { principal: Principal::Certificate(name.into()), ..Self::of_uid(None, None) }
    }
}

/// How many calls a name in certificates may make now.
#[derive(Debug)]
pub(crate) struct Rate(Mutex<Tokens>);

#[derive(Debug)]
struct Tokens {
    calls: f64,
    at: Instant,
}

impl Rate {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Tokens { calls: f64::from(CALLS_AT_ONCE), at: now }))
    }

    /// Whether a call may be made.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let mut tokens = self.0.lock();
        let passed = now.saturating_duration_since(tokens.at).as_secs_f64();
        tokens.at = now;
        tokens.calls = (tokens.calls + passed * f64::from(CALLS_PER_SECOND)).min(f64::from(CALLS_AT_ONCE));
        let may = tokens.calls >= 1.0;
        if may {
            tokens.calls -= 1.0;
        }
        may
    }

    /// Whether nothing is owed any more: forgetting it gives nothing away.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        let tokens = self.0.lock();
        let whole = Duration::from_secs((CALLS_AT_ONCE / CALLS_PER_SECOND).into());
        now.saturating_duration_since(tokens.at) >= whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_needed_what_is_held_and_how_to_get_it() {
        let on = |most, role, is_mapped| {
            let listener = Arc::new(ListenerState::new("unix:/r".to_owned(), most, is_mapped, None));
            Identity { role, listener, ..Identity::of_uid(Some(7), Some(9)) }
        };
        let reader = on(Role::Read, Some(Role::Read), false);
        assert_eq!(reader.may("ListPorts", Role::Read), Ok(()));
        assert_eq!(
            reader.may("AddPort", Role::Admin).expect_err("more"),
            "AddPort needs the role admin; uid=7,pid=9 has the role read on listener unix:/r: it gives at most read; \
             use a listener with role = \"admin\""
        );
        let unknown = on(Role::Admin, None, true).may("Check", Role::Read).expect_err("no role");
        assert_eq!(
            unknown,
            "Check needs the role read; uid=7,pid=9 has no role on listener unix:/r: an administrator can map you there: \
             users, groups or sans of [[control.listener]]"
        );
    }

    #[test]
    fn principals_are_one_word() {
        let process = |uid, gid, pid| Principal::Process { uid, gid, pid }.to_string();
        assert_eq!(process(Some(1), Some(2), Some(3)), "uid=1,gid=2,pid=3");
        assert_eq!(
            (process(None, None, None), process(None, None, Some(3))),
            ("uid=unknown".to_owned(), "pid=3".to_owned())
        );
        assert_eq!(Principal::Certificate("a\nb".into()).to_string(), "san=a\\nb");
    }

    #[test]
    fn calls_come_at_a_rate() {
        let start = Instant::now();
        let rate = Rate::new(start);
        let taken = |at: Instant| (0..5_000).filter(|_| rate.take(at)).count();
        assert_eq!(taken(start), 1_000);
        assert_eq!(taken(start + Duration::from_millis(100)), 50);
        assert!(!rate.is_full(start + Duration::from_secs(1)) && rate.is_full(start + Duration::from_secs(3)));
        assert_eq!(taken(start + Duration::from_secs(100)), 1_000);
    }
}
