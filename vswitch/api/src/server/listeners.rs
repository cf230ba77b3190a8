//! All listeners: taking them, and finding out who connects.
//!
//! **Design**: `[control] socket` is one listener, for admins; `[[control.listener]]` adds others.
//! All are taken before the switch starts, or none. A unix socket knows its peer by the kernel
//! (SO_PEERCRED, SO_PEERGROUPS), TCP by its certificate (`tls`). All connections go through
//! one [`Gate`].
//!
//! **Threads**: [`bind_all`] may be called anywhere, [`Listeners::run`] on a tokio runtime.

use super::incoming::{Gate, accept};
use super::socket::{Access, BindError, ControlListener, SocketGuard, bind, bind_with};
use super::tls::{self, Files, TlsError};
use crate::rights::{Audit, Identity, ListenerState, Principal, ServerState, TlsState};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use vswitch_control::SwitchConfig;
use vswitch_control::config::{Account, ListenEndpoint, Role, SanPattern, TlsListen, UnixListen};
use vswitch_dpdk::peer;

/// All listeners, taken. Dropping them gives them back.
#[derive(Debug)]
pub struct Listeners {
    bound: Vec<Bound>,
    audit: Arc<Audit>,
}

#[derive(Debug)]
enum Bound {
    Unix { listener: ControlListener, known: Known, state: Arc<ListenerState> },
    Tls { listener: TcpListener, files: Files, sans: Vec<(SanPattern, Role)>, state: Arc<ListenerState> },
}

/// Users and groups that a unix socket knows.
#[derive(Debug, Default)]
struct Known {
    users: BTreeMap<u32, Role>,
    groups: BTreeMap<u32, Role>,
}

/// Takes all listeners of a configuration, and opens its audit file.
///
/// # Errors
/// [`BindError`] says which one cannot be had, and why.
pub fn bind_all(config: &SwitchConfig) -> Result<Listeners, BindError> {
    let mut listeners = Listeners::from(bind(&config.socket)?);
    listeners.audit = Arc::new(Audit::new(config.audit_file.as_deref())?);
    for listener in &config.listeners {
        let bound = match &listener.endpoint {
            ListenEndpoint::Unix(unix) => bind_unix(unix, listener.role)?,
            ListenEndpoint::Tls(listen) => bind_tls(listen, listener.role)?,
        };
        listeners.bound.push(bound);
    }
    Ok(listeners)
}

/// Tries certificates and keys of a configuration out, and takes nothing.
///
/// # Errors
/// [`TlsError`] says which file cannot be used, and why.
pub fn check_tls(config: &SwitchConfig) -> Result<(), TlsError> {
    for listener in &config.listeners {
        if let ListenEndpoint::Tls(listen) = &listener.endpoint {
            Files::new(listen)?;
        }
    }
    Ok(())
}

impl From<ControlListener> for Listeners {
    /// One socket, for admins.
    fn from(listener: ControlListener) -> Self {
        let state = unix_state(&listener, Role::Admin, false);
        Self { bound: vec![Bound::Unix { listener, known: Known::default(), state }], audit: Arc::default() }
    }
}

fn unix_state(listener: &ControlListener, role: Role, is_mapped: bool) -> Arc<ListenerState> {
    let name = format!("unix:{}", listener.path().display());
    Arc::new(ListenerState::new(name, role, is_mapped, None))
}

fn bind_unix(unix: &UnixListen, role: Role) -> Result<Bound, BindError> {
    let UnixListen { path, mode, .. } = unix;
    let unknown =
        |what, account: &Account| BindError::NoAccount { path: path.clone(), what, name: account.to_string() };
    let uid = |account: &Account| account.uid().ok_or_else(|| unknown("user", account));
    let gid = |account: &Account| account.gid().ok_or_else(|| unknown("group", account));
    let owner = unix.owner.as_ref().map(uid).transpose()?;
    let group = unix.group.as_ref().map(gid).transpose()?;
    let mut known = Known::default();
    // Of two names of one number, the lower role counts.
    let add = |map: &mut BTreeMap<u32, Role>, id, role: Role| {
        map.entry(id).and_modify(|known| *known = role.min(*known)).or_insert(role);
    };
    for (user, role) in &unix.users {
        add(&mut known.users, uid(user)?, *role);
    }
    for (group, role) in &unix.groups {
        add(&mut known.groups, gid(group)?, *role);
    }
    let listener = bind_with(path, &Access { mode: *mode, owner, group })?;
    let state = unix_state(&listener, role, !known.is_empty());
    Ok(Bound::Unix { listener, known, state })
}

fn bind_tls(listen: &TlsListen, role: Role) -> Result<Bound, BindError> {
    let failed = |source| BindError::Tcp { address: listen.address, source };
    let (files, certificate) = Files::new(listen)?;
    let listener = TcpListener::bind(listen.address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let name = format!("tls:{}", listener.local_addr().map_err(failed)?);
    let tls = Some(TlsState::new(certificate));
    let state = Arc::new(ListenerState::new(name, role, !listen.sans.is_empty(), tls));
    Ok(Bound::Tls { listener, files, sans: listen.sans.clone(), state })
}

impl Known {
    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// The role of a user and its groups, if one of them is known. The user's own goes before those
    /// of its groups; of these the highest counts.
    fn role(&self, uid: Option<u32>, groups: impl IntoIterator<Item = u32>) -> Option<Role> {
        let own = uid.and_then(|uid| self.users.get(&uid));
        let of_groups = || groups.into_iter().filter_map(|group| self.groups.get(&group)).max();
        own.or_else(of_groups).copied()
    }

    /// Who connected, by what the kernel says.
    fn identify(&self, stream: &UnixStream, state: &Arc<ListenerState>) -> Identity {
        let credentials = stream.peer_cred().ok();
        let uid = credentials.map(|credentials| credentials.uid());
        let gid = credentials.map(|credentials| credentials.gid());
        let role = if self.is_empty() {
            Some(state.role)
        } else {
            let further =
                if self.groups.is_empty() { Vec::new() } else { peer::groups(stream.as_fd()).unwrap_or_default() };
            self.role(uid, gid.into_iter().chain(further)).map(|role| role.min(state.role))
        };
        let pid = credentials.and_then(|credentials| credentials.pid());
        Identity { principal: Principal::Process { uid, gid, pid }, role, listener: Arc::clone(state), until: None }
    }
}

impl Bound {
    const fn state(&self) -> &Arc<ListenerState> {
        match self {
            Self::Unix { state, .. } | Self::Tls { state, .. } => state,
        }
    }
}

/// Listeners that accept.
#[derive(Debug)]
pub(super) struct RunningListeners {
    tasks: Vec<JoinHandle<()>>,
    /// Dropping them removes the sockets.
    _guards: Vec<SocketGuard>,
}

impl Listeners {
    /// The names of all, for people.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.bound.iter().map(|bound| bound.state().name.as_str()).collect()
    }

    /// What services tell of them.
    pub(super) fn state(&self) -> Arc<ServerState> {
        let listeners = self.bound.iter().map(|bound| Arc::clone(bound.state())).collect();
        Arc::new(ServerState { listeners, audit: Arc::clone(&self.audit) })
    }

    /// Accepts, until the result is stopped.
    ///
    /// # Errors
    /// The runtime cannot poll a socket.
    pub(super) fn run(self, gate: &Arc<Gate>) -> io::Result<RunningListeners> {
        let (mut tasks, mut guards) = (Vec::new(), Vec::new());
        for bound in self.bound {
            match bound {
                Bound::Unix { listener, known, state } => {
                    let (listener, guard) = listener.into_parts();
                    guards.push(guard);
                    let listener = Arc::new(tokio::net::UnixListener::from_std(listener)?);
                    let accept_one = move || {
                        let listener = Arc::clone(&listener);
                        async move { listener.accept().await.map(|(stream, _)| stream) }
                    };
                    let gate = Arc::clone(gate);
                    tasks.push(tokio::spawn(async move {
                        accept(accept_one, |stream| known.identify(stream, &state), &gate).await;
                    }));
                }
                Bound::Tls { listener, files, sans, state } => {
                    let (listener, files) = (tokio::net::TcpListener::from_std(listener)?, Arc::new(files));
                    tasks.push(tokio::spawn(tls::watch(Arc::clone(&files), Arc::clone(&state))));
                    let accept = tls::Accept { files, sans: Arc::new(sans), state, gate: Arc::clone(gate) };
                    tasks.push(tokio::spawn(tls::accept(listener, accept)));
                }
            }
        }
        Ok(RunningListeners { tasks, _guards: guards })
    }
}

impl RunningListeners {
    /// Accepts no more; then removes the sockets.
    pub(super) async fn stop(self) {
        for task in self.tasks {
            task.abort();
            let _ = task.await; // the listener is closed before its socket is removed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_own_role_goes_before_those_of_its_groups() {
        let known = Known {
            users: BTreeMap::from([(7, Role::Read)]),
            groups: BTreeMap::from([(1, Role::Operate), (2, Role::Admin)]),
        };
        assert_eq!(known.role(Some(7), [2]), Some(Role::Read));
        assert_eq!(known.role(Some(8), [3, 1, 2]), Some(Role::Admin));
        assert_eq!((known.role(Some(8), [3]), known.role(None, [])), (None, None));
    }
}
