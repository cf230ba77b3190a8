//! Threads that run beside a switch until it stops.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks whether a thread has ended.
const NAP: Duration = Duration::from_micros(100);

/// A thread. Dropping it tells the thread to stop and waits for it.
#[derive(Debug)]
pub(super) struct Companion {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Companion {
    /// Starts `run`, which is to return soon after its receiver has lost its sender. Without the
    /// thread the switch works, but `without` says what it lacks then.
    pub(super) fn start(name: &str, without: &str, run: impl FnOnce(&mpsc::Receiver<()>) + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&stopped))
            .map_err(|error| tracing::error!(%error, "no thread {name}: {without}"))
            .ok();
        Self { stop: Some(stop), thread }
    }
}

impl Companion {
    /// Tells the thread to stop, and waits for it. False: it has not by then, and nobody waits for
    /// it any more.
    pub(super) fn stop(mut self, until: Instant) -> bool {
        self.stop.take();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished() && !is_this(thread)) {
            if Instant::now() >= until {
                let name = self.thread.take().and_then(|thread| thread.thread().name().map(str::to_owned));
                tracing::error!("the thread {} does not end", name.unwrap_or_default());
                return false;
            }
            std::thread::sleep(NAP);
        }
        true
    }
}

/// The last reference to the switch may be the thread's own, for a moment.
fn is_this(thread: &JoinHandle<()>) -> bool {
    thread.thread().id() == std::thread::current().id()
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take().filter(|thread| !is_this(thread)) {
            let _ = thread.join();
        }
    }
}
