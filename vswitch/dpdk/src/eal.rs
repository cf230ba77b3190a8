//! The environment abstraction layer: started once per process, on a thread of its own.

use super::plugins::{self, Plugins};
use dpdk_sys as sys;
use parking_lot::Mutex;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to start EAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EalConfig {
    /// Core of EAL's own thread and of DPDK's control threads.
    pub main_core: u32,
    /// Memory for mbufs and devices, in MiB.
    pub memory_mb: u32,
    /// Use hugepages; else ordinary pages (slower, no physical devices).
    pub hugepages: bool,
    /// Prefix of EAL's runtime files, if any are written.
    pub file_prefix: Option<String>,
    /// Let PCI devices be probed.
    pub pci: bool,
    /// Drivers and devices that ports may be of, besides those that any client may name
    /// ([`crate::drivers::DRIVERS`]). No plugins of other drivers are loaded.
    pub drivers: Vec<String>,
    /// Arguments passed to EAL as they are.
    pub args: Vec<String>,
}

/// Why EAL did not start.
#[derive(Debug, thiserror::Error)]
#[error("EAL did not start ({reason}) with arguments: {args}; {hint}")]
pub struct EalError {
    args: String,
    reason: String,
    hint: &'static str,
}

type Call = Box<dyn FnOnce() + Send>;

/// A call in front that has been at work for so long may be for ever: a driver waits for its peer
/// as long as that wishes. What is behind it is refused then, or not waited for.
const BUSY_MAX: Duration = Duration::from_secs(2);

/// A call that has begun is waited for as long, where nobody needs its result.
const DONE_MAX: Duration = Duration::from_secs(10);

/// Between two looks at the call in front.
const LOOK: Duration = Duration::from_millis(20);

/// EAL's thread has been at work for long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("EAL is busy with {what} since {} s", .since.elapsed().as_secs())]
pub struct Busy {
    /// What it does, and for which device.
    pub what: String,
    /// Since when.
    pub since: Instant,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Queued,
    Begun,
    /// It is not to begin any more.
    Withdrawn,
}

/// The running EAL. Calls that DPDK wants from one thread go through [`Eal::run`]. Dropping it
/// cleans EAL up, unless its thread is at work.
#[derive(Debug)]
pub struct Eal {
    calls: Option<mpsc::Sender<Call>>,
    thread: Option<JoinHandle<()>>,
    /// What the thread does now.
    front: Arc<Mutex<Option<Busy>>>,
}

impl Eal {
    /// Starts EAL. Works once per process: DPDK cannot start again after cleaning up.
    ///
    /// # Errors
    /// When EAL refuses its arguments or finds no memory.
    pub fn start(config: &EalConfig) -> Result<Self, EalError> {
        let plugins = plugins(config);
        let args = arguments(config, plugins.as_ref());
        let only_named = plugins.is_some();
        let hugepages = config.hugepages;
        let (calls, queue) = mpsc::channel::<Call>();
        let (answer, started) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("eal".to_owned())
            .spawn(move || {
                let result = init(&args, hugepages, only_named);
                let failed = result.is_err();
                let _ = answer.send(result);
                if failed {
                    return;
                }
                while let Ok(call) = queue.recv() {
                    call();
                }
                // SAFETY: EAL is up; the switch has closed every device and stopped every worker.
                unsafe { sys::rte_eal_cleanup() };
            })
            .map_err(|error| EalError {
                args: String::new(),
                reason: format!("its thread cannot be started: {error}"),
                hint: "see the limits of threads (ulimit -u, TasksMax)",
            })?;
        match started.recv() {
            Ok(Ok(())) => Ok(Self { calls: Some(calls), thread: Some(thread), front: Arc::default() }),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                Err(EalError { args: String::new(), reason: "its thread died".to_owned(), hint: "see its output" })
            }
        }
    }

    /// What EAL's thread is doing, if it is.
    #[must_use]
    pub fn at_work(&self) -> Option<Busy> {
        self.front.lock().clone()
    }

    /// What EAL's thread has been doing for long, if it has. It may do it for ever.
    #[must_use]
    pub fn busy(&self) -> Option<Busy> {
        self.front.lock().clone().filter(|busy| busy.since.elapsed() >= BUSY_MAX)
    }

    /// Runs `f` on EAL's thread and waits for its result, as long as that takes once it has begun.
    /// From that thread itself, just runs it. `what`: what others are told meanwhile.
    ///
    /// # Errors
    /// When the thread is busy with something else. Then `f` does not run.
    ///
    /// # Panics
    /// When an earlier call panicked and took the thread with it.
    pub fn run<R: Send + 'static>(&self, what: &str, f: impl FnOnce() -> R + Send + 'static) -> Result<R, Busy> {
        if self.is_here() {
            return Ok(f());
        }
        let stage = Arc::new(Mutex::new(Stage::Queued));
        let result = self.send(what, &stage, f);
        loop {
            match result.recv_timeout(LOOK) {
                Ok(result) => return Ok(result),
                Err(mpsc::RecvTimeoutError::Disconnected) => panic!("EAL's thread lives"),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let mut stage = stage.lock();
            if *stage == Stage::Queued
                && let Some(busy) = self.busy()
            {
                *stage = Stage::Withdrawn;
                return Err(busy);
            }
        }
    }

    /// Runs `f` on EAL's thread, and waits for its end as long as it can be hoped for. If the
    /// thread is busy, `f` runs when it is not any more. So `f` owns what it needs.
    pub(super) fn run_or_leave(&self, what: &str, f: impl FnOnce() + Send + 'static) {
        if self.is_here() {
            return f();
        }
        let done = self.send(what, &Arc::new(Mutex::new(Stage::Queued)), f);
        let until = Instant::now() + DONE_MAX;
        while matches!(done.recv_timeout(LOOK), Err(mpsc::RecvTimeoutError::Timeout)) {
            let busy = self.busy().filter(|busy| busy.what != what || Instant::now() >= until);
            if let Some(busy) = busy {
                tracing::warn!("{what}: left for later: {busy}");
                return;
            }
        }
    }

    fn is_here(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id())
    }

    fn send<R: Send + 'static>(
        &self,
        what: &str,
        stage: &Arc<Mutex<Stage>>,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> mpsc::Receiver<R> {
        let (answer, result) = mpsc::sync_channel(1);
        let (what, stage, front) = (what.to_owned(), Arc::clone(stage), Arc::clone(&self.front));
        let call: Call = Box::new(move || {
            if std::mem::replace(&mut *stage.lock(), Stage::Begun) == Stage::Withdrawn {
                return;
            }
            *front.lock() = Some(Busy { what, since: Instant::now() });
            let result = f();
            *front.lock() = None;
            let _ = answer.send(result); // perhaps nobody waits any more
        });
        let calls = self.calls.as_ref().expect("present until drop");
        calls.send(call).expect("EAL's thread lives");
        result
    }
}

impl Drop for Eal {
    fn drop(&mut self) {
        self.calls.take();
        // A call that was withdrawn may have had the last reference: then this is EAL's thread.
        let joins = !self.is_here() && self.busy().is_none();
        if let Some(thread) = self.thread.take().filter(|_| joins) {
            let _ = thread.join();
        }
    }
}

/// Version of DPDK that this program was built with.
pub const BUILD_VERSION: &str = sys::BUILD_VERSION;

/// Version of the DPDK library that runs.
#[must_use]
pub fn version() -> String {
    // SAFETY: returns a static string.
    unsafe { CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
}

/// Bytes of DPDK's heap that are allocated, on all sockets.
#[must_use]
pub fn heap_bytes() -> u64 {
    // SAFETY: EAL is up; constants of the machine.
    let sockets = unsafe { sys::rte_socket_count() };
    let mut bytes = 0;
    for i in 0..sockets {
        let mut stats = sys::rte_malloc_socket_stats::default();
        // SAFETY: the index is below the count; the struct is written on success.
        if unsafe { sys::rte_malloc_get_socket_stats(sys::rte_socket_id_by_idx(i), &raw mut stats) } == 0 {
            bytes += stats.heap_allocsz_bytes as u64;
        }
    }
    bytes
}

/// Text of an errno value, positive or negative.
pub(super) fn errno_text(code: i32) -> String {
    // SAFETY: returns a static or thread-local string.
    unsafe { CStr::from_ptr(sys::rte_strerror(code.abs())) }.to_string_lossy().into_owned()
}

/// Text of this thread's `rte_errno`.
pub(super) fn last_error() -> String {
    // SAFETY: reads a thread-local.
    errno_text(unsafe { sys::vs_errno() })
}

/// The plugins to load; `None`: what EAL's own directory has, or drivers that are linked in.
fn plugins(config: &EalConfig) -> Option<Plugins> {
    if cfg!(feature = "static") {
        return None;
    }
    let [path @ .., _] = sys::RTE_EAL_PMD_PATH; // without its NUL
    let directory = Path::new(OsStr::from_bytes(path));
    let plugins = plugins::choose(directory, &config.drivers, config.pci);
    match &plugins {
        Some(plugins) if !plugins.missing.is_empty() => {
            let names = plugins.missing.join(", ");
            tracing::warn!("no plugin of DPDK for {names} in {}; ports of it will be refused", directory.display());
        }
        Some(_) => {}
        None => {
            tracing::warn!("DPDK's plugins are not in {}; EAL loads all that it finds itself", directory.display());
        }
    }
    plugins
}

fn arguments(config: &EalConfig, plugins: Option<&Plugins>) -> Vec<String> {
    let mut args = vec!["vswitchd".to_owned(), "-l".to_owned(), config.main_core.to_string()];
    args.extend(["--no-telemetry", "--log-level=warning"].map(str::to_owned));
    // A guest can make librte_vhost complain as often as it likes, on its workers' threads too (an
    // empty mbuf pool).
    args.push("--log-level=lib.vhost.*:critical".to_owned());
    // Nothing is left behind after SIGKILL: no file in hugetlbfs, none in the runtime directory.
    if config.hugepages {
        args.push("--in-memory".to_owned());
    } else {
        // EAL refuses --in-memory with --no-huge
        args.extend(["--no-huge", "--no-shconf"].map(str::to_owned));
    }
    if config.pci {
        // An allow list without a match: nothing is probed at start, each device later by name.
        args.extend(["-a", "0000:00:00.0"].map(str::to_owned));
    } else {
        args.push("--no-pci".to_owned());
    }
    args.extend(["-m".to_owned(), config.memory_mb.to_string()]);
    args.push(format!("--file-prefix={}", config.file_prefix.as_deref().unwrap_or("vswitch")));
    for file in plugins.map_or(&[][..], |plugins| &plugins.files) {
        args.extend(["-d".to_owned(), file.display().to_string()]);
    }
    args.extend(config.args.iter().cloned());
    args
}

fn init(args: &[String], hugepages: bool, only_named: bool) -> Result<(), EalError> {
    let error = |reason: String| EalError {
        args: args.join(" "),
        reason,
        hint: if hugepages {
            "are there enough free hugepages (grep Huge /proc/meminfo; sysctl vm.nr_hugepages=N)? or set [dpdk] hugepages = false"
        } else {
            "is there enough free memory for [dpdk] memory_mb?"
        },
    };
    let owned: Vec<CString> = args
        .iter()
        .map(|arg| CString::new(arg.as_str()))
        .collect::<Result<_, _>>()
        .map_err(|_| error("an argument contains a NUL".to_owned()))?;
    let mut argv: Vec<*mut c_char> = owned.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    let argc = i32::try_from(argv.len()).map_err(|_| error("too many arguments".to_owned()))?;
    argv.push(std::ptr::null_mut());
    log_to_stderr();
    // SAFETY: argc strings and a null, alive during the call; EAL permutes the array but does not
    // write the strings.
    let rc = unsafe { sys::vs_eal_init(argc, argv.as_mut_ptr(), only_named) };
    // DPDK keeps pointers into argv for its own command line records: let the strings live.
    std::mem::forget(owned);
    if rc < 0 { Err(error(last_error())) } else { Ok(()) }
}

/// Sends DPDK's messages to standard error alone. Otherwise they would go to syslog, too, which
/// waits while its reader does not read.
fn log_to_stderr() {
    // SAFETY: takes and gives a number; the mode is NUL-terminated; the stream lives for ever. A
    // null pointer, if there is none, means DPDK's own choice.
    unsafe {
        let stream = libc::fdopen(libc::STDERR_FILENO, c"a".as_ptr());
        sys::rte_openlog_stream(stream.cast());
    }
}

/// Starts EAL for the tests of this process, once, without hugepages.
#[cfg(any(test, feature = "testing"))]
pub fn start_for_tests() -> &'static Arc<Eal> {
    static EAL: std::sync::OnceLock<Arc<Eal>> = std::sync::OnceLock::new();
    EAL.get_or_init(|| {
        let config = EalConfig {
            main_core: 0,
            memory_mb: 256,
            hugepages: false,
            file_prefix: None,
            pci: false,
            drivers: Vec::new(),
            args: Vec::new(),
        };
        Arc::new(Eal::start(&config).expect("EAL starts without hugepages"))
    })
}
