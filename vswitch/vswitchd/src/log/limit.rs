//! How often a line of one kind may come.
//!
//! **Design**: a call site marks itself with the empty field `left_out` if somebody outside (a
//! client, a guest) decides how often it logs. All others pass: no flood takes away what matters. A
//! kind is a call site with the values of [`KEYS`]: the refusals of one user's AddPort are one.
//! What is left out is counted, and told at the end of its second.
//!
//! **Limits**: [`LINES_MAX`] lines of a kind in a second. [`KINDS_MAX`] kinds are told apart at a
//! time; those beyond count as one for each call site.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use vswitch_control::log_state::LogState;

/// The field that marks a call site.
const MARK: &str = "left_out";

/// Fields whose values tell kinds of one call site apart.
const KEYS: [&str; 4] = ["rpc", "uid", "principal", "refusal"];

/// Lines of one kind in [`WINDOW`].
pub(super) const LINES_MAX: u32 = 10;

const WINDOW: Duration = Duration::from_secs(1);

/// Kinds that are known at a time.
const KINDS_MAX: usize = 256;

/// Bytes of a message that is told as an example.
const EXAMPLE_MAX: usize = 160;

/// Lines that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) lines: u64,
    pub(super) level: Level,
    pub(super) target: &'static str,
    /// The keys and the message of the first.
    pub(super) example: String,
}

/// A kind's second.
struct Window {
    since: Instant,
    passed: u32,
    left_out: Option<LeftOut>,
}

type Kind = (Identifier, String);

/// Windows of all kinds, and who is told what was left out.
pub(super) struct Limit<F> {
    windows: Mutex<HashMap<Kind, Window>>,
    counts: &'static LogState,
    tell: F,
}

/// The keys and the message of an event.
#[derive(Default)]
struct Texts {
    keys: String,
    message: String,
}

impl Visit for Texts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A String takes all.
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else if KEYS.contains(&field.name()) {
            let _ = write!(self.keys, "{}={value:?} ", field.name());
        }
    }
}

impl Texts {
    fn of(event: &Event<'_>) -> Self {
        let mut texts = Self::default();
        event.record(&mut texts);
        texts
    }

    fn example(&self) -> String {
        let mut example = format!("{}{}", self.keys, self.message);
        example.truncate(example.floor_char_boundary(EXAMPLE_MAX));
        example
    }
}

impl<F: Fn(&LeftOut)> Limit<F> {
    /// `tell` gets what was left out.
    pub(super) fn new(counts: &'static LogState, tell: F) -> Self {
        Self { windows: Mutex::default(), counts, tell }
    }

    /// Whether a line may come now.
    fn admits(&self, metadata: &'static Metadata<'static>, texts: &Texts, now: Instant) -> bool {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kind = (metadata.callsite(), texts.keys.clone());
        if windows.len() >= KINDS_MAX && !windows.contains_key(&kind) {
            kind.1.clear();
        }
        let fresh = || Window { since: now, passed: 0, left_out: None };
        let window = windows.entry(kind).or_insert_with(fresh);
        let mut over = None;
        if now.saturating_duration_since(window.since) >= WINDOW {
            over = std::mem::replace(window, fresh()).left_out;
        }
        let admitted = window.passed < LINES_MAX;
        if admitted {
            window.passed += 1;
        } else {
            let first =
                || LeftOut { lines: 0, level: *metadata.level(), target: metadata.target(), example: texts.example() };
            window.left_out.get_or_insert_with(first).lines += 1;
            self.counts.leave_out();
        }
        drop(windows);
        if let Some(over) = over {
            (self.tell)(&over);
        }
        admitted
    }

    /// Tells what was left out in seconds that are over; with `all`, in those that go on, too.
    pub(super) fn tell_over(&self, now: Instant, all: bool) {
        let mut over = Vec::new();
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, window| {
            let goes_on = !all && now.saturating_duration_since(window.since) < WINDOW;
            if !goes_on {
                over.extend(window.left_out.take());
            }
            goes_on
        });
        over.iter().for_each(&self.tell);
    }
}

/// The layer of the subscriber that asks it.
pub(super) struct LimitLayer<F: 'static>(pub(super) &'static Limit<F>);

impl<S: Subscriber, F: Fn(&LeftOut) + Send + Sync + 'static> Layer<S> for LimitLayer<F> {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        metadata.fields().field(MARK).is_none() || self.0.admits(metadata, &Texts::of(event), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("a lock").push(String::from_utf8_lossy(bytes).trim_end().to_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Logs by `log`; the lines that came, and what was told to be left out.
    fn logged(log: impl FnOnce()) -> (Vec<String>, Vec<LeftOut>, u64) {
        let (lines, told) = (Lines::default(), Arc::new(Mutex::new(Vec::new())));
        let telling = Arc::clone(&told);
        let counts: &'static LogState = Box::leak(Box::new(LogState::new()));
        let limit = Limit::new(counts, move |left: &LeftOut| telling.lock().expect("a lock").push(left.clone()));
        let limit: &'static _ = Box::leak(Box::new(limit));
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish()
            .with(LimitLayer(limit));
        tracing::subscriber::with_default(subscriber, log);
        limit.tell_over(Instant::now(), true);
        let (lines, told) = (lines.0.lock().expect("a lock").clone(), told.lock().expect("a lock").clone());
        (lines, told, counts.info().left_out)
    }

    fn refused(rpc: &str, uid: u32) {
        tracing::warn!(rpc, uid, left_out = tracing::field::Empty, "refused");
    }

    #[test]
    fn a_flood_of_one_kind_is_cut_and_counted_and_takes_nothing_from_others() {
        let (lines, told, left_out) = logged(|| {
            (0..213).for_each(|_| refused("AddPort", 1000));
            refused("AddPort", 0);
            refused("DeletePort", 1000);
            (0..50).for_each(|i| tracing::info!(rpc = "AddPort", i, "changed"));
        });
        let of = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        // The window may end in between, on a machine that stands still.
        assert!(of("refused rpc=\"AddPort\" uid=1000") < 213, "{lines:#?}");
        assert_eq!(of("refused rpc=\"AddPort\" uid=1000") + usize::try_from(left_out).expect("few"), 213);
        assert_eq!((of("refused rpc=\"AddPort\" uid=0"), of("rpc=\"DeletePort\""), of("changed")), (1, 1, 50));
        assert!(!lines.iter().any(|line| line.contains(MARK)), "an empty field is not shown: {lines:#?}");
        assert_eq!(told.iter().map(|told| told.lines).sum::<u64>(), left_out);
        assert_eq!((told[0].level, told[0].example.as_str()), (Level::WARN, "rpc=\"AddPort\" uid=1000 refused"));
    }

    #[test]
    fn every_second_begins_anew_and_tells_of_the_last() {
        let told = Mutex::new(Vec::new());
        let counts: &'static LogState = Box::leak(Box::new(LogState::new()));
        let limit = Limit::new(counts, |left: &LeftOut| told.lock().expect("a lock").push(left.lines));
        let metadata = metadata();
        let (texts, start) = (Texts { keys: "rpc=\"A\" ".to_owned(), message: "refused".to_owned() }, Instant::now());
        let admitted = |at| (0..30).filter(|_| limit.admits(metadata, &texts, at)).count();
        assert_eq!(admitted(start), 10);
        assert_eq!(admitted(start + WINDOW / 2), 0);
        assert!(told.lock().expect("a lock").is_empty(), "its second is not over");
        assert_eq!(admitted(start + WINDOW), 10);
        assert_eq!(*told.lock().expect("a lock"), [50]);
        limit.tell_over(start + WINDOW, false);
        assert_eq!(told.lock().expect("a lock").len(), 1);
        limit.tell_over(start + 2 * WINDOW, false);
        assert_eq!(*told.lock().expect("a lock"), [50, 20]);
        assert_eq!(counts.info().left_out, 70);
        assert!(limit.windows.lock().expect("a lock").is_empty(), "nothing is kept of a kind that has ended");
    }

    #[test]
    fn kinds_are_bounded() {
        let counts: &'static LogState = Box::leak(Box::new(LogState::new()));
        let limit = Limit::new(counts, |_: &LeftOut| {});
        let (metadata, now) = (metadata(), Instant::now());
        for uid in 0..100_000 {
            limit.admits(metadata, &Texts { keys: format!("uid={uid} "), message: String::new() }, now);
        }
        assert!(limit.windows.lock().expect("a lock").len() <= KINDS_MAX + 1);
        assert_eq!(counts.info().left_out, 100_000 - KINDS_MAX as u64 - u64::from(LINES_MAX));
    }

    /// Of some call site.
    fn metadata() -> &'static Metadata<'static> {
        struct Site;
        impl tracing::Callsite for Site {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &Metadata<'_> {
                &METADATA
            }
        }
        static SITE: Site = Site;
        static METADATA: Metadata<'static> = Metadata::new(
            "test",
            "test",
            Level::WARN,
            None,
            None,
            None,
            tracing::field::FieldSet::new(&[], Identifier(&SITE)),
            tracing::metadata::Kind::EVENT,
        );
        &METADATA
    }
}
