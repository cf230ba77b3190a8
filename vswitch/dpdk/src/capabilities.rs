//! Capabilities of Linux that the process keeps when it has started; all its threads give up the
//! others.
//!
//! **Where in the walk**: nowhere; the daemon asks once, when its ports are open.
//!
//! **Design**: to open devices and to take memory needs rights that later work does not need. The
//! kernel keeps capabilities for each thread, and a thread can change its own only (capset(2)).
//! Threads of DPDK's libraries run by then. So each thread gets a signal, whose handler gives the
//! capabilities up: effective, permitted, inheritable and ambient ones, and those of the bounding
//! set. A thread that starts meanwhile has what its parent had. The threads are looked through
//! until two looks find none that has more.
//!
//! **Limits**: a thread that does not take its signal within [`SIGNALS_MAX`] is told as an error.
//! The bounding set can be changed by a thread with `CAP_SETPCAP` alone. Without it the set stays,
//! which matters to programs that are started later, and the switch starts none.
//!
//! **Threads**: any one, once.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// All threads have taken their signals within this time.
const SIGNALS_MAX: Duration = Duration::from_secs(5);

/// Between two looks at the threads.
const LOOK: Duration = Duration::from_millis(2);

/// Names by number, in lower case and without `cap_` (`linux/capability.h`).
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// All that there are, also those that a later kernel may have.
    pub const ALL: Self = Self(u64::MAX);
    /// None.
    pub const NONE: Self = Self(0);

    /// With one more, by its name, such as `net_admin`. `None`: there is no such capability.
    #[must_use]
    pub fn with(self, name: &str) -> Option<Self> {
        NAMES.iter().position(|known| *known == name).map(|number| Self(self.0 | 1 << number))
    }

    /// Their names.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        NAMES.iter().enumerate().filter(|(number, _)| self.0 >> number & 1 == 1).map(|(_, name)| *name).collect()
    }
}

/// What the handler keeps. Written before any signal is sent.
static KEPT: AtomicU64 = AtomicU64::new(u64::MAX);

/// A thread's sets, as `/proc/self/task/N/status` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    /// Effective, permitted, inheritable or ambient.
    any: u64,
    effective: u64,
    bounding: u64,
}

impl Held {
    fn read(status: &str) -> Self {
        let mut held = Self::default();
        for line in status.lines() {
            let Some((name, value)) = line.split_once(":\t") else { continue };
            let Ok(set) = u64::from_str_radix(value.trim(), 16) else { continue };
            match name {
                "CapEff" => (held.any, held.effective) = (held.any | set, set),
                "CapPrm" | "CapInh" | "CapAmb" => held.any |= set,
                "CapBnd" => held.bounding = set,
                _ => {}
            }
        }
        held
    }

    /// Whether the thread has more than that, and can give it up.
    fn exceeds(self, kept: u64) -> bool {
        let setpcap = 1 << 8;
        self.any & !kept != 0 || (self.bounding & !kept != 0 && self.effective & setpcap != 0)
    }
}

/// Makes all threads of the process give up all other capabilities, for good.
///
/// # Errors
/// When a thread still has others after 5 s.
pub fn keep_only(kept: Capabilities) -> io::Result<()> {
    if kept == Capabilities::ALL {
        return Ok(());
    }
    KEPT.store(kept.0, Ordering::SeqCst);
    let signal = libc::SIGRTMAX() - 1;
    let before = install(signal)?;
    let result = signal_all(kept.0, signal);
    // The handler stays if a thread may still get the signal, which would end the process.
    if result.is_ok() {
        // SAFETY: what was there before.
        unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
    }
    result
}

fn install(signal: i32) -> io::Result<libc::sigaction> {
    // SAFETY: plain data; the handler is a function for one number, and does only what a handler
    // may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32) = give_up;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        let mut before: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(signal, &raw const action, &raw mut before) {
            0 => Ok(before),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn signal_all(kept: u64, signal: i32) -> io::Result<()> {
    let until = Instant::now() + SIGNALS_MAX;
    let (mut clean, mut signalled) = (0, Vec::new());
    while clean < 2 {
        let threads = threads_beyond(kept)?;
        clean = if threads.is_empty() { clean + 1 } else { 0 };
        if clean > 0 {
            continue;
        }
        if Instant::now() > until {
            let text = format!("{} threads of this process keep more capabilities than they are to", threads.len());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        for thread in threads.into_iter().filter(|thread| !signalled.contains(thread)).collect::<Vec<_>>() {
            // SAFETY: takes numbers. A thread that has ended has no signal.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
            signalled.push(thread);
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Threads that have more than that.
fn threads_beyond(kept: u64) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue }; // it has ended
        if Held::read(&status).exceeds(kept)
            && let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok())
        {
            found.push(thread);
        }
    }
    Ok(found)
}

#[repr(C)]
struct Header {
    version: u32,
    thread: i32,
}

/// Half of the sets: 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

/// The handler: this thread gives up what it is not to keep. It makes system calls only, and leaves
/// `errno` as it was.
extern "C" fn give_up(_: i32) {
    let kept = KEPT.load(Ordering::SeqCst);
    // SAFETY: a thread-local, alive as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: prctl takes numbers. The bounding set first: it needs a capability that goes.
    unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        for number in (0..u64::BITS).filter(|number| kept >> number & 1 == 0) {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0);
        }
    }
    let header = Header { version: VERSION, thread: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: this version of the header has two sets, which are written, and then read.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) == 0 {
            #[allow(clippy::cast_possible_truncation)] // one half, then the other
            for (half, mask) in sets.iter_mut().zip([kept as u32, (kept >> 32) as u32]) {
                half.effective &= mask;
                half.permitted &= mask;
                half.inheritable &= mask;
            }
            libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr());
        }
        *errno = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn names_are_those_of_linux() {
        let some = Capabilities::NONE.with("net_admin").and_then(|set| set.with("bpf")).expect("known");
        assert_eq!((some.0, some.names()), (1 << 12 | 1 << 39, vec!["net_admin", "bpf"]));
        assert_eq!((Capabilities::NONE.with("NET_ADMIN"), Capabilities::NONE.with("")), (None, None));
        assert_eq!(Capabilities::ALL.names().len(), NAMES.len());
    }

    #[test]
    fn sets_are_read() {
        let held =
            Held::read("Name:\tx\nCapInh:\t1\nCapPrm:\t00000000000000c0\nCapEff:\t0000000000000080\nCapBnd:\tff\n");
        assert_eq!(held, Held { any: 0xc1, effective: 0x80, bounding: 0xff });
        for (any, effective, bounding, exceeds) in
            [(4, 4, 4, false), (5, 4, 4, true), (4, 4, 0xff, false), (4, 0x100, 0x1ff, true), (0, 0, 0, false)]
        {
            let held = Held { any, effective, bounding };
            assert_eq!(held.exceeds(4), exceeds, "{held:?}");
        }
    }

    /// Own process: cargo-nextest gives each test one. Threads that wait, spin and sleep.
    #[test]
    fn all_threads_give_up_what_is_not_kept() {
        let held = || Held::read(&fs::read_to_string("/proc/thread-self/status").expect("there"));
        let (stop, stopped) = mpsc::channel::<()>();
        let waits = std::thread::spawn(move || (stopped.recv(), held()).1);
        let spin = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let spinning = std::sync::Arc::clone(&spin);
        let spins = std::thread::spawn(move || {
            while spinning.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            held()
        });
        let before = held();
        let kept = Capabilities::NONE.with("net_admin").and_then(|set| set.with("net_raw")).expect("known");
        keep_only(kept).expect("all threads answer");
        drop(stop);
        spin.store(false, Ordering::Relaxed);
        let later = std::thread::spawn(held).join().expect("it ends");
        let setpcap = before.effective >> 8 & 1 == 1;
        for after in [held(), later, waits.join().expect("it ends"), spins.join().expect("it ends")] {
            assert_eq!((after.any, after.effective), (before.any & kept.0, before.effective & kept.0));
            assert_eq!(after.bounding, if setpcap { before.bounding & kept.0 } else { before.bounding });
        }
        keep_only(Capabilities::ALL).expect("nothing to do");
        assert_eq!(held().effective, before.effective & kept.0, "nothing comes back");
    }
}
