//! Calls guests, so that no worker has to: to wake a thread that waits for an eventfd costs whoever
//! writes to it as much as some dozens of packets, tens of microseconds in a virtual machine.
//!
//! By choice ([`set_delay`]): what it costs is latency, and a thread that looks while there are
//! calls.
//!
//! **Design**: the library gets an eventfd of ours in place of the guest's ([`Route`]), and one
//! thread (`vhost-calls`) passes on what is written there. While there are calls, it looks for them
//! by itself, each [`delay`], so that no worker wakes it either; when there were none for
//! [`PATIENCE`] looks, it lets itself be woken by the next. So a call comes late by about the
//! delay, and several within it are one: what network cards call interrupt moderation. Each route
//! begins with a call: what was written to the one before it may have been lost with that.
//!
//! **Never trust the guest**: our eventfds are written to by workers, are never full (nobody reads
//! them; 2^64 calls take longer than anything lives) and do not block. One of a guest that is full
//! is not written to; if its owner is quicker it holds up this thread, until the control side has
//! emptied it ([`relieve`]), whatever has become of its connection meanwhile.
//!
//! **Threads**: `vhost-events` opens routes; they end with their connections; this thread calls.
//! Without the thread (or a descriptor) the library gets the guest's own, and workers call.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Looks in a row without a call, after which nobody looks any more.
const PATIENCE: u32 = 50;

/// Calls that are passed on at a time; behind so many it looks again at once.
const EVENTS_MAX: usize = 64;

/// Microseconds; see [`set_delay`].
static DELAY: AtomicU32 = AtomicU32::new(0);

/// The eventfd that the thread is writing to.
static CALLING: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);

static CALLER: LazyLock<io::Result<Caller>> = LazyLock::new(Caller::start);

/// How late a call may come, in microseconds; 0: workers call guests that come from now on, at
/// once.
pub fn set_delay(us: u32) {
    DELAY.store(us, Relaxed);
}

fn delay() -> Option<Duration> {
    Some(DELAY.load(Relaxed)).filter(|us| *us > 0).map(|us| Duration::from_micros(us.into()))
}

/// By the number of a route.
type Targets = Arc<Mutex<HashMap<u64, Arc<OwnedFd>>>>;

/// The control side of the thread.
struct Caller {
    epoll: Arc<OwnedFd>,
    targets: Targets,
    next: Mutex<u64>,
}

/// Leads from an eventfd that the library has to the guest's. Nothing is passed on behind its end.
#[derive(Debug)]
pub(super) struct Route {
    number: u64,
    guest: Arc<OwnedFd>,
}

impl Route {
    /// A route to a guest's eventfd, and where it begins: what is written there is a call. None if
    /// workers are to call by themselves.
    ///
    /// # Errors
    /// When there is no thread, or no descriptor left.
    pub(super) fn open(guest: BorrowedFd<'_>) -> io::Result<Option<(Self, OwnedFd)>> {
        if delay().is_none() {
            return Ok(None);
        }
        let caller = CALLER.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let guest = Arc::new(guest.try_clone_to_owned()?);
        let start = owned(|| {
            // SAFETY: takes numbers, and gives a new descriptor or -1.
            unsafe { libc::eventfd(1, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }
        })?;
        let number = {
            let mut next = caller.next.lock();
            *next += 1;
            *next
        };
        caller.targets.lock().insert(number, Arc::clone(&guest));
        let route = Self { number, guest };
        // Each call is an event, though nobody reads. The last descriptor that is closed ends it.
        #[allow(clippy::cast_sign_loss)] // bits
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: number };
        // SAFETY: both descriptors are open; the event is read.
        let rc = unsafe {
            libc::epoll_ctl(caller.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, start.as_raw_fd(), &raw mut event)
        };
        if rc == 0 { Ok(Some((route, start))) } else { Err(io::Error::last_os_error()) }
    }

    /// The guest's eventfd.
    pub(super) fn guest(&self) -> BorrowedFd<'_> {
        self.guest.as_fd()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        if let Ok(caller) = &*CALLER {
            caller.targets.lock().remove(&self.number);
        }
    }
}

impl Caller {
    fn start() -> io::Result<Self> {
        let epoll = owned(|| {
            // SAFETY: takes a number, and gives a new descriptor or -1.
            unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }
        })?;
        let (epoll, targets) = (Arc::new(epoll), Targets::default());
        let (polled, known) = (Arc::clone(&epoll), Arc::clone(&targets));
        std::thread::Builder::new()
            .name("vhost-calls".into())
            .spawn(move || pass_on(&polled, &known))
            .inspect_err(|error| tracing::warn!(%error, "vhost-user: workers call guests by themselves"))?;
        Ok(Self { epoll, targets, next: Mutex::default() })
    }
}

/// The thread: for as long as the process lives.
fn pass_on(epoll: &OwnedFd, targets: &Targets) {
    // Else naps are longer by 50 microseconds.
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    let mut quiet = 0;
    loop {
        let nap = delay().filter(|_| quiet < PATIENCE);
        let timeout = if nap.is_some() { 0 } else { -1 };
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // 64
        // SAFETY: room for so many events.
        let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as i32, timeout) };
        let n = usize::try_from(n).unwrap_or(0); // a signal
        for event in &events[..n] {
            let guest = targets.lock().get(&{ event.u64 }).cloned();
            if let Some(guest) = guest.filter(|guest| has_room(guest)) {
                call_watched(&guest);
            }
        }
        quiet = if n == 0 { quiet + 1 } else { 0 };
        if let Some(nap) = nap.filter(|_| n < EVENTS_MAX) {
            std::thread::sleep(nap);
        }
    }
}

/// Lets the thread go on if what it writes to is full. To be called several times a second.
pub(super) fn relieve() {
    let calling = CALLING.lock().clone();
    super::relief::relieve(calling.iter().map(|guest| guest.as_fd()));
}

/// One without room has been called already, and is seen to ([`super::calls`]).
fn has_room(guest: &OwnedFd) -> bool {
    let mut polled = libc::pollfd { fd: guest.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one pollfd; no waiting.
    unsafe { libc::poll(&raw mut polled, 1, 0) == 1 && polled.revents & libc::POLLOUT != 0 }
}

/// [`call`], which may block: its owner decides.
fn call_watched(guest: &Arc<OwnedFd>) {
    *CALLING.lock() = Some(Arc::clone(guest));
    call(guest);
    *CALLING.lock() = None;
}

fn call(guest: &OwnedFd) {
    let one = 1_u64;
    // SAFETY: 8 bytes.
    unsafe { libc::write(guest.as_raw_fd(), (&raw const one).cast(), size_of_val(&one)) };
}

/// A new descriptor.
fn owned(make: impl FnOnce() -> RawFd) -> io::Result<OwnedFd> {
    match make() {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: new, and nobody else's.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CALL_DELAY_US, eventfd};
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::time::Instant;

    fn open(guest: &File) -> (Route, OwnedFd) {
        set_delay(CALL_DELAY_US);
        Route::open(guest.as_fd()).expect("opens").expect("there is a delay")
    }

    /// One that does not block.
    fn calm() -> File {
        let file = eventfd();
        super::super::call_fd::check(file.as_fd()).expect("an eventfd");
        file
    }

    /// Whether it was called since this was asked last; it does not block.
    fn was_called(mut guest: &File) -> bool {
        guest.read(&mut [0; 8]).is_ok()
    }

    /// A call comes, or has come.
    fn is_called(guest: &File, what: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !was_called(guest) {
            assert!(Instant::now() < end, "{what}: not called within 5 s");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn calls_are_passed_on_from_each_route_to_its_own_guest() {
        let guests: Vec<File> = (0..100).map(|_| calm()).collect();
        let routes: Vec<_> = guests.iter().map(open).collect();
        guests.iter().enumerate().for_each(|(i, guest)| is_called(guest, &format!("guest {i}, which has just come")));
        for round in 0..20 {
            for (_, (_, start)) in routes.iter().enumerate().filter(|(i, _)| i % 3 != 0) {
                call(start);
            }
            for (i, guest) in guests.iter().enumerate().filter(|(i, _)| i % 3 != 0) {
                is_called(guest, &format!("round {round}, guest {i}"));
            }
            if round % 5 == 0 {
                std::thread::sleep(Duration::from_millis(20)); // it sleeps, and is woken
            }
        }
        assert!(!guests.iter().step_by(3).any(was_called), "called in the place of others");
    }

    #[test]
    fn nothing_is_passed_on_behind_the_end_of_a_route_but_to_the_next_one() {
        let (old, new) = (calm(), calm());
        let (route, start) = open(&old);
        is_called(&old, "the first");
        for round in 0..50 {
            call(&start); // perhaps it is not seen any more
            let _next = open(&new);
            is_called(&new, &format!("round {round}: in the place of the other one"));
        }
        drop(route);
        std::thread::sleep(Duration::from_millis(20));
        let _ = was_called(&old);
        call(&start);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!was_called(&old), "called behind its end");
    }

    /// Whoever waits for calls sees what was done before the last one, however many there were.
    #[test]
    fn the_last_of_many_calls_is_not_lost() {
        use std::sync::atomic::AtomicU64;
        use std::sync::atomic::Ordering::SeqCst;
        const LAST: u64 = 20_000;
        let guest = calm();
        let (_route, start) = open(&guest);
        is_called(&guest, "the first");
        let (done, seen) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = Instant::now() + Duration::from_secs(30);
                while seen.load(SeqCst) < LAST && Instant::now() < end {
                    if was_called(&guest) {
                        seen.store(done.load(SeqCst), SeqCst);
                    }
                    std::thread::yield_now();
                }
            });
            for turn in 1..=LAST {
                done.store(turn, SeqCst);
                call(&start);
                if turn % 100 == 0 {
                    std::thread::sleep(Duration::from_micros(turn % 1000));
                }
            }
        });
        assert_eq!(seen.load(SeqCst), LAST, "the last call did not come");
    }

    #[test]
    fn who_calls_is_let_go_whatever_has_become_of_the_connection() {
        let mut full = eventfd();
        full.write_all(&(u64::MAX - 1).to_ne_bytes()).expect("it was empty");
        let guest = Arc::new(OwnedFd::from(full));
        assert!(!has_room(&guest));
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| call_watched(&guest)); // no route leads there
            std::thread::sleep(Duration::from_millis(20));
            assert!(!calling.is_finished(), "it was to be held up");
            let end = Instant::now() + Duration::from_secs(60);
            while !calling.is_finished() {
                assert!(Instant::now() < end, "held up for ever");
                relieve();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert!(has_room(&guest) && CALLING.lock().is_none());
    }
}
