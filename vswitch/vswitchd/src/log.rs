//! The log, on stderr, and the last words of a panic.
//!
//! **Design**: a thread that logs never waits for the reader of the log. A line goes into a bounded
//! queue (`queue`), and one thread writes. What others write to standard output and error (DPDK,
//! the C library) comes through a pipe (`output`) into the same queue. `limit` bounds the lines
//! that clients and guests can cause. `notice` makes the lines by which the log tells what is
//! missing. `filter` reads filters; clients may put another one in force
//! ([`vswitch_control::log_filter`]).
//!
//! **Start and end**: lines of the start wait until [`write_behind`] has started the threads, on
//! the core of the control threads. [`flush`] waits for the writer, at the end of the process and
//! in a panic, for [`FLUSH_MAX`] at most.
//!
//! **Threads**: `log` writes, `output` reads the pipe.

mod filter;
mod limit;
mod notice;
mod output;
mod queue;

use super::cli::LogFormat;
use limit::{LeftOut, Limit, LimitLayer};
use notice::notice;
use queue::Queue;
use std::backtrace::Backtrace;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::time::{Duration, Instant};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, reload};
use vswitch_control::log_filter::{FILTERS, FilterError, LogFilters};
use vswitch_control::log_state::{self, LOG};

/// Time that the end of the process waits for the reader of the log.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// How often it looks whether the log is written.
const FLUSH_LOOK: Duration = Duration::from_millis(2);

/// Where lines of the log about itself come from.
const TARGET: &str = "vswitchd::log";

/// The log of this process, once it is started.
static STARTED: OnceLock<Log> = OnceLock::new();

type Tell = Box<dyn Fn(&LeftOut) + Send + Sync>;

struct Log {
    as_json: bool,
    queue: Queue,
    limit: Limit<Tell>,
    /// A thread writes.
    writes: AtomicBool,
}

/// The environment variable with the log filter.
pub(super) const VARIABLE: &str = "VSWITCH_LOG";

/// Checks a log filter.
pub(super) fn filter(text: &str) -> Result<String, String> {
    match filter::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(FilterError { problem, hint, .. }) => Err(format!("{problem}; {hint}")),
    }
}

/// Starts logging, panics included. `filter` has passed [`filter`]. Nothing is written before
/// [`write_behind`] or [`flush`].
pub(super) fn start(format: LogFormat, filter: &str) {
    let log = STARTED.get_or_init(|| {
        let tell: Tell = Box::new(|left: &LeftOut| {
            if let Some(log) = STARTED.get() {
                log.tell_left_out(left);
            }
        });
        let as_json = matches!(format, LogFormat::Json);
        Log { as_json, queue: Queue::new(&LOG), limit: Limit::new(&LOG, tell), writes: AtomicBool::new(false) }
    });
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(Lines(&log.queue))
        .with_ansi(io::stderr().is_terminal())
        // It would complain on stderr.
        .log_internal_errors(false);
    let set = match format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            offer(filter, builder.reload_handle());
            tracing::subscriber::set_global_default(builder.finish().with(LimitLayer(&log.limit)))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            offer(filter, builder.reload_handle());
            tracing::subscriber::set_global_default(builder.finish().with(LimitLayer(&log.limit)))
        }
    };
    set.expect("the log is started once");
    std::panic::set_hook(Box::new(last_words));
}

/// Lets clients change the filter.
fn offer<S: Subscriber>(configured: &str, handle: reload::Handle<EnvFilter, S>) {
    let apply = move |text: &str| {
        let filter = filter::parse(text)?;
        handle.reload(filter).map_err(|error| FilterError {
            column: 1,
            problem: format!("the log does not take it: {error}"),
            hint: "report it".to_owned(),
        })
    };
    let _ = FILTERS.set(LogFilters::new(configured, apply)); // once, as the log
}

/// Starts the threads, on the cores of the caller. From now on nothing that this process writes to
/// standard output or error waits for a reader.
///
/// # Errors
/// When a thread or a descriptor cannot be had.
pub(super) fn write_behind() -> io::Result<()> {
    let Some(log) = STARTED.get() else { return Ok(()) };
    log.start_writer(output::own_stderr()?)?;
    output::capture()?;
    vswitch_dpdk::process::before_abort(is_waiting);
    Ok(())
}

/// Writes a text as it is.
pub(super) fn say(text: &str) {
    match STARTED.get() {
        Some(log) => log.queue.push(Level::ERROR, format!("{text}\n").as_bytes()),
        // An error cannot be told anywhere.
        None => drop(writeln!(io::stderr(), "{text}")),
    }
}

/// Waits until everything that was logged is written, for [`FLUSH_MAX`] at most.
pub(super) fn flush() {
    let Some(log) = STARTED.get() else { return };
    log.limit.tell_over(Instant::now(), true);
    // Before `write_behind`, there is no thread yet. If none can be had, this one writes.
    let started = output::own_stderr().and_then(|stderr| log.start_writer(stderr));
    while started.is_err() && log.queue.is_pending() {
        log.queue.write_turn(&mut io::stderr(), |lost| log.lost_line(lost));
    }
    let start = Instant::now();
    while is_waiting() && start.elapsed() < FLUSH_MAX {
        std::thread::sleep(FLUSH_LOOK);
    }
}

/// Something that was logged, or written to standard output or error, is not written yet. For
/// signal handlers, too.
fn is_waiting() -> bool {
    // In this order: what leaves the pipe goes to the queue.
    output::is_waiting() || STARTED.get().is_some_and(|log| log.queue.is_pending())
}

impl Log {
    /// Starts the thread that writes to `out`, unless there is one.
    fn start_writer(&'static self, mut out: impl Write + Send + 'static) -> io::Result<()> {
        if self.writes.swap(true, AcqRel) {
            return Ok(());
        }
        let write = move || {
            loop {
                self.queue.write_turn(&mut out, |lost| self.lost_line(lost));
                self.limit.tell_over(Instant::now(), false);
            }
        };
        let started = std::thread::Builder::new().name("log".to_owned()).spawn(write);
        self.writes.store(started.is_ok(), Release);
        started.map(drop)
    }

    fn lost_line(&self, lost: [u64; log_state::LEVELS.len()]) -> Vec<u8> {
        let names = ["error", "warn", "info", "debug", "trace"];
        let fields: Vec<_> = names.into_iter().zip(lost.map(Into::into)).collect();
        let message = "lines of the log were lost: its reader did not read";
        notice(self.as_json, Level::WARN, TARGET, message, &fields)
    }

    fn tell_left_out(&self, left: &LeftOut) {
        let LeftOut { lines, level, target, example } = left;
        let fields = [("left_out", (*lines).into()), ("like", example.as_str().into())];
        let line = notice(self.as_json, *level, target, "more lines like one above were left out", &fields);
        self.queue.push(*level, &line);
    }
}

/// Makes writers into the queue.
struct Lines(&'static Queue);

/// Takes one line.
struct LineWriter(&'static Queue, Level);

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(self.1, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter(self.0, Level::INFO)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter {
        LineWriter(self.0, *metadata.level())
    }
}

/// Logs a panic. A worker is lost with it ([`vswitch_control::lose`]). What follows for
/// other threads is up to the build: it aborts, or unwinds to the end of the thread.
fn last_words(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(
        location,
        thread = thread.name().unwrap_or("unnamed"),
        backtrace = %Backtrace::force_capture(),
        "panic: {}",
        message.unwrap_or("no message")
    );
    // A worker's thread stays here, as long as the others can go on without it.
    if let Some(trouble) = vswitch_control::lose(message.unwrap_or("no message")) {
        tracing::error!("the switch does not move without a worker that panicked: {trouble}");
    }
    // It may be the end of the process.
    flush();
}
