//! What callbacks, workers and the control side know of one socket, and the registry by which
//! callbacks find it.

use super::bad_chains::BadChains;
use super::calls::Calls;
use super::fault::{self, Files};
use super::guard::{Guard, GuardVerdict, State};
use super::message::{Message, SET_MEM_TABLE, SET_VRING_CALL, SET_VRING_ENABLE};
use super::notes::{Note, Notes, SocketEvent};
use super::{PAIRS_MAX, Quiesce, caller, features, socket};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// No device, no connection.
pub(super) const NONE: i32 = -1;

/// Descriptors that the library may have to poll at most: its table of 1024 less its pipe,
/// connections that it has not yet noticed to be dead, and connections on their way to being
/// refused.
const POLLED_MAX: usize = 1000;

/// How long after a disconnect the library may still be busy with it (it takes about 0.1 ms, longer
/// if preempted).
const DISCONNECT_SETTLES: Duration = Duration::from_millis(20);

/// Values of `Shared::remapping`.
const NO: u8 = 0;
const EXCHANGING: u8 = 1;
const SETTLING: u8 = 2;

/// Nanoseconds for which workers stay away from a running device's rings after its memory was
/// exchanged: a front end that sends one table after the other shall not find them waiting for the
/// locks.
const MEMORY_SETTLES: u64 = 1_000_000;

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since [`EPOCH`].
fn now() -> u64 {
    u64::try_from(EPOCH.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// One socket.
pub(super) struct Shared {
    /// As its owner names it.
    name: PathBuf,
    /// As the library knows it.
    pub(super) path: CString,
    pub(super) client: bool,
    quiesce: Quiesce,
    /// The running device. Written by callbacks and by closing; `Acquire` in a worker pairs with
    /// `Release` in `start`.
    vid: AtomicI32,
    /// What it negotiated.
    features: AtomicU64,
    /// Queue pairs whose guest-transmit ring is enabled.
    receive_pairs: AtomicU64,
    /// Queue pairs whose guest-receive ring is enabled.
    send_pairs: AtomicU64,
    /// Queue pairs of which a ring was enabled, or that could not be called: they may still ask the
    /// guest for kicks, and the guest may wait for a call.
    kicking: AtomicU64,
    /// The library is exchanging the guest's memory with the rings locked, or it failed to; or it
    /// just has: [`NO`], [`EXCHANGING`] or [`SETTLING`].
    remapping: AtomicU8,
    /// When it last has, in nanoseconds since [`EPOCH`].
    remapped: AtomicU64,
    /// Counts changes of the guest's memory, and guests.
    memory: AtomicU64,
    pub(super) bad_chains: BadChains,
    /// The connection whose ring states the masks describe.
    current: AtomicI32,
    /// Closed, and no worker uses it any more.
    drained: AtomicBool,
    /// A packet that refers to a guest's memory is missing: no guest may come or stay.
    quarantined: AtomicBool,
    control: Mutex<Control>,
}

#[derive(Default)]
struct Control {
    closing: bool,
    /// A connection is being looked for.
    connecting: bool,
    connections: Vec<Connection>,
    last_disconnect: Option<Instant>,
    notes: Notes,
}

impl Control {
    /// Keeps an event for the log. Nothing is logged with this lock: callbacks take it while they
    /// hold the locks of rings, for which workers wait.
    fn note(&mut self, event: SocketEvent) {
        self.notes.keep(event, Instant::now());
    }
}

struct Connection {
    vid: i32,
    fd: Option<RawFd>,
    guard: Guard,
    /// Of its memory.
    files: Files,
    /// Of the memory that it is to have instead.
    next_files: Files,
    /// What calls it.
    calls: Calls,
    /// To hang up on it; taken when that is done.
    line: Option<OwnedFd>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).field("vid", &self.vid).finish_non_exhaustive()
    }
}

static REGISTRY: LazyLock<Mutex<HashMap<CString, Arc<Shared>>>> = LazyLock::new(Mutex::default);

/// The socket of this path.
pub(super) fn find(path: &CString) -> Option<Arc<Shared>> {
    REGISTRY.lock().get(path).cloned()
}

/// Disconnects guests that have taken their memory away (until then their rings are empty), and
/// those whose call descriptors would hold up workers (until then they do). Logs what callbacks
/// have noted. To be called several times a second.
pub fn maintain() {
    let lost = fault::take_lost();
    let all: Vec<Arc<Shared>> = REGISTRY.lock().values().cloned().collect();
    all.iter().for_each(|shared| shared.maintain(lost));
    // Last: what it empties looks as if nobody had filled it, and whoever did would stay.
    caller::relieve();
}

/// Why no guest may stay at a socket any more.
const QUARANTINED: &str = "a packet that refers to the guest's memory is missing, which is a fault of the switch; the port is out of use until it is deleted and added again";

/// Why a socket cannot be registered.
pub(super) enum Full {
    /// Its path is taken.
    Taken,
    /// The library would have to poll too many descriptors.
    TooMany,
}

impl Shared {
    /// Enters a socket into the registry.
    pub(super) fn register(name: &Path, path: CString, client: bool, quiesce: Quiesce) -> Result<Arc<Self>, Full> {
        let shared = Arc::new(Self {
            name: name.to_owned(),
            path: path.clone(),
            client,
            quiesce,
            vid: AtomicI32::new(NONE),
            features: AtomicU64::new(0),
            receive_pairs: AtomicU64::new(0),
            send_pairs: AtomicU64::new(0),
            kicking: AtomicU64::new(0),
            remapping: AtomicU8::new(NO),
            remapped: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            bad_chains: BadChains::default(),
            current: AtomicI32::new(NONE),
            drained: AtomicBool::new(false),
            quarantined: AtomicBool::new(false),
            control: Mutex::default(),
        });
        let mut registry = REGISTRY.lock();
        if registry.values().any(|other| other.name == name) {
            return Err(Full::Taken);
        }
        let polled = |client: bool| if client { 1 } else { 2 };
        if registry.values().map(|other| polled(other.client)).sum::<usize>() + polled(client) > POLLED_MAX {
            return Err(Full::TooMany);
        }
        registry.insert(path, Arc::clone(&shared));
        Ok(shared)
    }

    /// Takes a socket out of the registry.
    pub(super) fn unregister(&self) {
        REGISTRY.lock().remove(&self.path);
        self.log_notes();
    }

    /// The running device, or [`NONE`].
    #[inline]
    pub(super) fn vid(&self) -> i32 {
        self.vid.load(Acquire)
    }

    #[inline]
    pub(super) fn features(&self) -> u64 {
        if self.vid() == NONE { 0 } else { self.features.load(Relaxed) }
    }

    #[inline]
    pub(super) fn receive_pairs(&self) -> u64 {
        if self.vid() == NONE { 0 } else { self.receive_pairs.load(Relaxed) }
    }

    #[inline]
    pub(super) fn send_pairs(&self) -> u64 {
        if self.vid() == NONE { 0 } else { self.send_pairs.load(Relaxed) }
    }

    /// Whether to stay away from the rings: their locks may be held for long (a front end decides
    /// how much memory there is to unmap, and how often), and if the library fails, they are gone.
    /// A hint: a worker may already be waiting.
    #[inline]
    pub(super) fn is_remapping(&self) -> bool {
        self.remapping.load(Relaxed) != NO && self.is_unsettled()
    }

    /// A guest that was to be called may wait for it.
    #[cold]
    pub(super) fn call_later(&self, pair: u16) {
        self.kicking.fetch_or(1 << pair, Relaxed);
    }

    /// Takes the port out of use for good. With the lock of a ring, so nothing else is locked:
    /// [`maintain`] hangs up and tells it.
    #[cold]
    pub(super) fn quarantine(&self) {
        self.quarantined.store(true, Release);
        self.receive_pairs.store(0, Relaxed);
        self.send_pairs.store(0, Relaxed);
    }

    /// Another number whenever the guest's memory may be another. With the lock of a ring.
    #[inline]
    pub(super) fn memory_state(&self) -> u64 {
        self.memory.load(Relaxed)
    }

    #[cold]
    fn is_unsettled(&self) -> bool {
        if self.remapping.load(Relaxed) == SETTLING
            && now().saturating_sub(self.remapped.load(Relaxed)) >= MEMORY_SETTLES
        {
            // Fails if the next exchange has begun.
            let _ = self.remapping.compare_exchange(SETTLING, NO, Relaxed, Relaxed);
        }
        self.remapping.load(Relaxed) != NO
    }

    /// Whether rings of this pair were enabled since the last call.
    #[inline]
    pub(super) fn take_kicking(&self, pair: u16) -> bool {
        let bit = 1 << pair;
        self.kicking.load(Relaxed) & bit != 0 && self.kicking.fetch_and(!bit, Relaxed) & bit != 0
    }

    /// A peer connected: true to let it. One connection at a time; a second one only if the first
    /// is dead but the library has not noticed yet (a front end that was killed and restarted).
    pub(super) fn connect(&self, vid: i32) -> bool {
        let known: Vec<RawFd> = {
            let mut control = self.control.lock();
            if control.closing || control.connecting || self.quarantined.load(Acquire) {
                return false;
            }
            let known: Vec<RawFd> = control.connections.iter().filter_map(|connection| connection.fd).collect();
            if control.connections.len() > known.len() || known.iter().any(|fd| !socket::is_hung_up(*fd)) {
                control.note(SocketEvent::SecondConnection);
                return false;
            }
            control.connecting = true;
            known
        };
        // Without the lock, for which `vhost-events` may wait with ring locks: this takes as long
        // as there are descriptors.
        let fd = socket::find_connection(&self.path, self.client, &known);
        match fd {
            Some(fd) => socket::adopt(fd),
            None => tracing::debug!(socket = ?self.name, "connection not found in /proc/self/fd: it stays blocking"),
        }
        let mut control = self.control.lock();
        control.connecting = false;
        if control.closing {
            return false;
        }
        control.connections.push(Connection {
            vid,
            fd,
            guard: Guard::default(),
            files: Files::default(),
            next_files: Files::default(),
            calls: Calls::default(),
            line: fd.and_then(socket::own),
        });
        self.receive_pairs.store(0, Relaxed);
        self.send_pairs.store(0, Relaxed);
        self.kicking.store(0, Relaxed);
        self.remapping.store(NO, Relaxed);
        self.memory.fetch_add(1, Relaxed);
        self.current.store(vid, Relaxed);
        true
    }

    /// A connection is gone.
    pub(super) fn disconnect(&self, vid: i32) {
        let mut control = self.control.lock();
        control.connections.retain(|connection| connection.vid != vid);
        control.last_disconnect = Some(Instant::now());
    }

    /// A device is ready: true to use it.
    pub(super) fn start(&self, vid: i32, features: u64) -> bool {
        let mut control = self.control.lock();
        if control.closing {
            return false;
        }
        // A ring that the library freed since was not reported.
        let packed = features::is_packed(features);
        let guard =
            control.connections.iter().find(|connection| connection.vid == vid).map(|connection| &connection.guard);
        let is_usable = !self.quarantined.load(Acquire);
        let served = |direction| guard.filter(|_| is_usable).map_or(0, |guard| guard.may_run_pairs(direction, packed));
        self.send_pairs.fetch_and(served(0), Relaxed);
        self.receive_pairs.fetch_and(served(1), Relaxed);
        self.features.store(features, Relaxed);
        self.vid.store(vid, Release);
        control.note(SocketEvent::Up);
        true
    }

    /// A device is going: returns when no worker uses it. The masks stay: the library reports the
    /// state of each ring by itself, and does not repeat what it reported before a device stopped
    /// and started again ([`Shared::start`] removes what is no longer so).
    pub(super) fn stop(&self, vid: i32) {
        if self.vid.compare_exchange(vid, NONE, AcqRel, Relaxed).is_ok() {
            self.control.lock().note(SocketEvent::Down);
        }
        // Even if the exchange failed (closing, or a successor), a worker may still have the old
        // value.
        if !self.drained.load(Acquire) {
            (self.quiesce)();
        }
    }

    /// A ring was enabled or disabled. The caller holds the locks of all rings of the device, so
    /// that no worker is inside.
    pub(super) fn ring_changed(&self, vid: i32, ring: u16, enabled: bool, is_packed: bool) {
        let pair = ring / 2;
        if pair >= PAIRS_MAX || self.current.load(Relaxed) != vid {
            return;
        }
        let (bit, mask) = (1 << pair, if ring.is_multiple_of(2) { &self.send_pairs } else { &self.receive_pairs });
        let enabled = enabled && !self.quarantined.load(Acquire);
        if enabled && self.guarded(vid, |guard| guard.may_run(ring, is_packed)).unwrap_or(false) {
            mask.fetch_or(bit, Relaxed);
            self.kicking.fetch_or(bit, Relaxed);
        } else {
            mask.fetch_and(!bit, Relaxed);
        }
    }

    /// Before the library handles a message.
    pub(super) fn before_message(&self, vid: i32, message: &mut Message<'_>, features: u64) -> GuardVerdict {
        let state = self.state(vid, features);
        // Without a guard the connection is not one of ours.
        let mut verdict = self
            .guarded(vid, |guard| guard.before(message, state, features::is_packed))
            .unwrap_or(GuardVerdict::Refuse("a connection that was not accepted"));
        if verdict == GuardVerdict::Pass && message.request() == SET_MEM_TABLE && self.current.load(Relaxed) == vid {
            self.remapping.store(EXCHANGING, Relaxed);
        }
        if verdict == GuardVerdict::Pass && message.request() == SET_MEM_TABLE {
            // Rings are locked: whoever locks one next sees it, and the new memory. Of whatever
            // connection: a device whose connection has a successor may still run.
            self.memory.fetch_add(1, Relaxed);
        }
        if verdict == GuardVerdict::Pass {
            match self.note(vid, message) {
                Ok(other) => other.into_iter().for_each(|other| message.replace_fd(other)),
                Err(reason) => verdict = GuardVerdict::Refuse(reason),
            }
        }
        if let GuardVerdict::Refuse(reason) = verdict {
            let request = message.request();
            self.control.lock().note(SocketEvent::Refused { request, reason });
        }
        verdict
    }

    /// Keeps what is to be known of a guest's memory and descriptors while the library uses them.
    /// Returns a descriptor that the library is to use instead of the message's.
    ///
    /// # Errors
    /// Why the library is not to have the message.
    fn note(&self, vid: i32, message: &Message<'_>) -> Result<Option<OwnedFd>, &'static str> {
        match message.request() {
            SET_MEM_TABLE => {
                let files = Files::of(&message.fds()).ok_or("no room to look after its memory files")?;
                self.with_connection(vid, |connection| connection.next_files = files);
                Ok(None)
            }
            SET_VRING_CALL => {
                let (ring, fds) = (message.ring_of_fd(), message.fds());
                let set = self.with_connection(vid, |connection| connection.calls.set(ring, fds.first().copied()));
                // Nobody could look after the guest's, and it would hold up a worker one day.
                set.unwrap_or(Ok(None)).map_err(|_| "no descriptor left, to look after the guest's (see ulimit -n)")
            }
            _ => Ok(None),
        }
    }

    /// After the library accepted a message.
    pub(super) fn after_message(&self, vid: i32, message: &Message<'_>) {
        if message.request() == SET_MEM_TABLE && self.current.load(Relaxed) == vid {
            self.remapped.store(now(), Relaxed);
            // Rings are still locked, and the next table may be here before a worker that waits
            // gets the lock.
            self.remapping.store(if self.vid() == vid { SETTLING } else { NO }, Relaxed);
        }
        if message.request() == SET_MEM_TABLE {
            self.with_connection(vid, |connection| connection.files = std::mem::take(&mut connection.next_files));
        }
        if message.request() == SET_VRING_CALL {
            self.with_connection(vid, |connection| connection.calls.settle());
        }
        if let (SET_VRING_ENABLE, 0, Ok(ring)) = (message.request(), message.value(), u16::try_from(message.ring())) {
            // The library says so only behind its reply, and would lose what a worker sends to this
            // ring meanwhile.
            self.ring_changed(vid, ring, false, false);
        }
        // The state's ring format is not looked at.
        let state = self.state(vid, 0);
        self.guarded(vid, |guard| guard.after(message, state, features::has_multiqueue));
    }

    fn state(&self, vid: i32, features: u64) -> State {
        State { packed: features::is_packed(features), running: self.vid() == vid }
    }

    /// Runs `f` on the guard of a connection.
    fn guarded<R>(&self, vid: i32, f: impl FnOnce(&mut Guard) -> R) -> Option<R> {
        self.with_connection(vid, |connection| f(&mut connection.guard))
    }

    fn with_connection<R>(&self, vid: i32, f: impl FnOnce(&mut Connection) -> R) -> Option<R> {
        self.control.lock().connections.iter_mut().find(|connection| connection.vid == vid).map(f)
    }

    /// Hangs up on a guest whose memory is gone, or that cannot be called.
    fn maintain(&self, lost: bool) {
        let mut control = self.control.lock();
        for i in 0..control.connections.len() {
            let connection = &mut control.connections[i];
            let why = if self.quarantined.load(Acquire) {
                // SIGBUS in what stays mapped is still survived.
                std::mem::forget(std::mem::take(&mut connection.files));
                QUARANTINED
            } else if lost && (connection.files.is_lost() || connection.next_files.is_lost()) {
                "guest took its memory away"
            } else if connection.calls.relieve() {
                "guest's call descriptor was full"
            } else {
                continue;
            };
            // It may take some time until the library has noticed.
            let Some(line) = connection.line.take() else { continue };
            socket::hang_up(&line);
            control.note(SocketEvent::Disconnected(why));
        }
        drop(control);
        self.log_notes();
    }

    /// Stops everything for good: returns when no worker uses a device and none will again, and a
    /// disconnect that just began is over.
    pub(super) fn close(&self) {
        {
            let mut control = self.control.lock();
            control.closing = true;
            self.vid.store(NONE, Release);
        }
        (self.quiesce)();
        self.drained.store(true, Release);
        let settled = |at: Instant| DISCONNECT_SETTLES.saturating_sub(at.elapsed());
        let mut wait = self.control.lock().last_disconnect.map_or(Duration::ZERO, settled);
        while !wait.is_zero() {
            std::thread::sleep(wait);
            // A peer disconnects at most once more: closing refuses new connections.
            wait = self.control.lock().last_disconnect.map_or(Duration::ZERO, settled);
        }
    }

    /// Logs what was noted, without a lock.
    fn log_notes(&self) {
        let notes = self.control.lock().notes.take();
        let socket = &self.name;
        for Note { event, suppressed } in notes {
            // A guest can make the switch refuse as often as it likes. An empty `left_out` limits
            // the lines of a second, see the daemon's log.
            match event {
                SocketEvent::Disconnected(QUARANTINED) => {
                    tracing::error!(?socket, suppressed, "vhost-user: {event}");
                }
                SocketEvent::Refused { .. } | SocketEvent::SecondConnection => {
                    tracing::info!(?socket, suppressed, left_out = tracing::field::Empty, "vhost-user: {event}");
                }
                _ => tracing::info!(?socket, suppressed, "vhost-user: {event}"),
            }
        }
    }
}
