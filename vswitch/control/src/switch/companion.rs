//! Threads that run beside a switch until it stops.

use std::sync::mpsc;
use std::thread::JoinHandle;

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

impl Drop for Companion {
    fn drop(&mut self) {
        self.stop.take();
        // The last reference to the switch may be the thread's own, for a moment.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
