//! A thread of a library, which leaves no sign of life of its own.
//!
//! **Design**: librte_vhost's threads wake every second, for nothing. The kernel counts how often
//! and for how long each thread ran (`schedstat`: Linux, "Scheduler Statistics"). A thread whose
//! numbers stay the same does not run: it waits for a lock, or is stopped.
//!
//! **Threads**: any; one look at a time.

use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A thread of this process, by its name.
#[derive(Debug)]
pub struct Thread {
    name: &'static str,
    seen: Mutex<Option<Seen>>,
}

/// The last look at which the thread had run.
#[derive(Debug)]
struct Seen {
    directory: PathBuf,
    numbers: String,
    at: Instant,
}

impl Thread {
    /// A thread of that name, whether it is there or not.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, seen: Mutex::new(None) }
    }

    /// For how long the thread has not run at each look; none: there is no such thread.
    pub fn idle(&self, now: Instant) -> Option<Duration> {
        self.idle_by(now, |directory| fs::read_to_string(directory.join("schedstat")).ok())
    }

    fn idle_by(&self, now: Instant, numbers: impl Fn(&Path) -> Option<String>) -> Option<Duration> {
        let mut seen = self.seen.lock();
        let known = seen.as_ref().map(|seen| seen.directory.clone()).filter(|directory| self.is_at(directory));
        let Some((directory, numbers)) = known.or_else(|| self.find()).and_then(|at| Some((at.clone(), numbers(&at)?)))
        else {
            *seen = None;
            return None;
        };
        match &*seen {
            Some(last) if last.directory == directory && last.numbers == numbers => {
                Some(now.saturating_duration_since(last.at))
            }
            _ => {
                *seen = Some(Seen { directory, numbers, at: now });
                Some(Duration::ZERO)
            }
        }
    }

    fn is_at(&self, directory: &Path) -> bool {
        fs::read_to_string(directory.join("comm")).is_ok_and(|comm| comm.trim_end() == self.name)
    }

    fn find(&self) -> Option<PathBuf> {
        let tasks = fs::read_dir("/proc/self/task").ok()?;
        tasks.filter_map(|task| Some(task.ok()?.path())).find(|directory| self.is_at(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_does_not_run_is_seen() {
        let thread = Thread::new("vt-idle");
        let now = Instant::now();
        assert_eq!(thread.idle(now), None, "it is not there");
        let (end, ended) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let idler = std::thread::Builder::new().name("vt-idle".to_owned());
        let idler = idler.spawn(move || {
            ready.send(()).expect("a reader");
            let _ = ended.recv();
        });
        is_ready.recv().expect("a thread");
        let at = |seconds| now + Duration::from_secs(seconds);
        let same = |_: &Path| Some("7 7 7".to_owned());
        assert_eq!(thread.idle_by(at(0), same), Some(Duration::ZERO));
        assert_eq!(thread.idle_by(at(9), same), Some(Duration::from_secs(9)));
        assert_eq!(thread.idle_by(at(10), |_| Some("8 7 8".to_owned())), Some(Duration::ZERO), "it ran");
        // The kernel's own numbers: at some time it waits.
        while thread.idle(at(20)).is_none_or(|_| thread.idle(at(30)) != Some(Duration::from_secs(10))) {
            std::thread::yield_now();
        }
        drop(end);
        idler.expect("a thread").join().expect("no panic");
        assert_eq!(thread.idle(at(40)), None, "it has ended");
    }
}
