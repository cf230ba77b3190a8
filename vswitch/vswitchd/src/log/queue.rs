//! The lines between those who log and the one thread that writes.
//!
//! **Design**: [`Queue::push`] never waits for the reader of the log. It takes a lock that nobody
//! holds while writing. A line that does not fit is lost and counted by level. When the writer has
//! written what was there, it tells in one line how many were lost.
//!
//! **Limits**: [`BYTES_MAX`], the lines that are being written included.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::Level;
use vswitch_control::log_state::{LEVELS, LogState, place};

/// Bytes of lines that wait for the reader of the log.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// What a line counts beside its bytes: its place in memory.
const LINE_COST: usize = 64;

/// How long the writer waits for a line at most: then it tells what was left out.
const TURN: Duration = Duration::from_secs(1);

/// Pause when a descriptor that does not block takes nothing.
const RETRY: Duration = Duration::from_millis(10);

/// A line that waits.
struct Line {
    level: Level,
    bytes: Box<[u8]>,
}

impl Line {
    fn cost(&self) -> usize {
        self.bytes.len() + LINE_COST
    }
}

#[derive(Default)]
struct State {
    lines: VecDeque<Line>,
    /// Of lines that wait or are being written.
    bytes: usize,
    /// Lines lost since the writer last told, in the order of `LEVELS`.
    lost: [u64; LEVELS.len()],
}

/// A bounded queue of lines.
pub(super) struct Queue {
    state: Mutex<State>,
    more: Condvar,
    /// Lines that wait or are being written, and one while lost lines are to be told.
    pending: AtomicUsize,
    counts: &'static LogState,
}

impl Queue {
    pub(super) fn new(counts: &'static LogState) -> Self {
        Self { state: Mutex::default(), more: Condvar::new(), pending: AtomicUsize::new(0), counts }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line (its end included), or counts it as lost.
    pub(super) fn push(&self, level: Level, bytes: &[u8]) {
        let line = Line { level, bytes: bytes.into() };
        let mut state = self.lock();
        let bytes = state.bytes + line.cost();
        if bytes > BYTES_MAX {
            if state.lost == [0; LEVELS.len()] {
                self.pending.fetch_add(1, AcqRel);
            }
            state.lost[place(level)] += 1;
            drop(state);
            self.counts.lose(level);
        } else {
            state.bytes = bytes;
            state.lines.push_back(line);
            self.pending.fetch_add(1, AcqRel);
            drop(state);
        }
        self.more.notify_one();
    }

    /// Something is not written yet. Takes no lock: signal handlers ask.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.load(Acquire) > 0
    }

    /// Writes what waits, or waits for it a second at most. `lost_line` makes the line that tells
    /// of lost ones.
    pub(super) fn write_turn(&self, out: &mut impl Write, lost_line: impl FnOnce([u64; LEVELS.len()]) -> Vec<u8>) {
        let (lines, lost) = self.take();
        for line in lines {
            if self.write(out, &line.bytes).is_err() {
                self.counts.lose(line.level); // nobody is there to be told
            }
            self.lock().bytes -= line.cost();
            self.pending.fetch_sub(1, AcqRel);
        }
        if lost != [0; LEVELS.len()] {
            let _ = self.write(out, &lost_line(lost)); // counted above all the same
            self.pending.fetch_sub(1, AcqRel);
        }
    }

    /// All that waits, and how many lines were lost.
    fn take(&self) -> (VecDeque<Line>, [u64; LEVELS.len()]) {
        let idle = |state: &mut State| state.lines.is_empty() && state.lost == [0; LEVELS.len()];
        let waited = self.more.wait_timeout_while(self.lock(), TURN, idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        (std::mem::take(&mut state.lines), std::mem::take(&mut state.lost))
    }

    /// Writes all of it, however long that takes.
    pub(super) fn write(&self, out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
        self.counts.begin_write();
        let result = loop {
            match out.write(bytes) {
                Ok(0) if !bytes.is_empty() => break Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => bytes = bytes.get(len..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(RETRY),
                Err(error) => break Err(error),
            }
            if bytes.is_empty() {
                break Ok(());
            }
        };
        self.counts.end_write();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    fn queue() -> Arc<Queue> {
        Arc::new(Queue::new(Box::leak(Box::new(LogState::new()))))
    }

    fn lost_line(lost: [u64; 5]) -> Vec<u8> {
        format!("lost {lost:?}\n").into_bytes()
    }

    #[test]
    fn lines_come_in_order() {
        let queue = queue();
        queue.push(Level::INFO, b"one\n");
        queue.push(Level::WARN, b"two\n");
        assert!(queue.is_pending());
        let mut out = Vec::new();
        queue.write_turn(&mut out, lost_line);
        assert_eq!(String::from_utf8_lossy(&out), "one\ntwo\n");
        assert!(!queue.is_pending());
    }

    #[test]
    fn what_does_not_fit_is_lost_counted_by_level_and_told_once() {
        let queue = queue();
        let line = vec![b'x'; 1000];
        let fits = BYTES_MAX / (line.len() + LINE_COST);
        (0..fits + 7).for_each(|_| queue.push(Level::INFO, &line));
        queue.push(Level::ERROR, &vec![b'y'; BYTES_MAX]);
        assert_eq!(queue.counts.info().lost, [1, 0, 7, 0, 0]);
        let mut out = Vec::new();
        queue.write_turn(&mut out, lost_line);
        assert_eq!(out.len(), fits * line.len() + lost_line([1, 0, 7, 0, 0]).len());
        assert!(out.ends_with(b"lost [1, 0, 7, 0, 0]\n"));
        assert!(!queue.is_pending());
        queue.push(Level::INFO, b"room again\n");
        let mut out = Vec::new();
        queue.write_turn(&mut out, lost_line);
        assert_eq!(String::from_utf8_lossy(&out), "room again\n");
        assert_eq!(queue.counts.info().lost, [1, 0, 7, 0, 0], "counts of the API stay");
    }

    /// Takes nothing until it is told to.
    struct Stuck(mpsc::Sender<()>, mpsc::Receiver<()>, Vec<u8>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(());
            let _ = self.1.recv(); // an error is a go, too
            self.2.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_reader_that_does_not_read() {
        let queue = queue();
        let ((entered, is_writing), (go, wait)) = (mpsc::channel(), mpsc::channel());
        queue.push(Level::INFO, b"first\n");
        let writer = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                let mut out = Stuck(entered, wait, Vec::new());
                while queue.is_pending() {
                    queue.write_turn(&mut out, lost_line);
                }
                out.2
            }
        });
        is_writing.recv().expect("the writer writes");
        let before = queue.lock().bytes;
        assert!(before > 0, "what is being written counts");
        (0..3000).for_each(|_| queue.push(Level::WARN, &[b'x'; 1000]));
        let lost = queue.counts.info().lost[1];
        assert!(lost > 1000, "{lost} lines were lost");
        assert!(queue.lock().bytes <= BYTES_MAX);
        drop(go);
        let out = String::from_utf8(writer.join().expect("it ends")).expect("text");
        assert!(out.starts_with("first\nx"), "{}", out.len());
        assert!(out.contains(&format!("lost [0, {lost}, 0, 0, 0]\n")));
        assert_eq!(queue.lock().bytes, 0);
    }

    /// Refuses at first, as a descriptor that does not block; then takes byte by byte.
    struct Hesitant(u32, Vec<u8>);

    impl Write for Hesitant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => Err(io::ErrorKind::WouldBlock.into()),
                2 => Err(io::ErrorKind::Interrupted.into()),
                _ => self.1.write(&bytes[..1]),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_written_whole() {
        let queue = queue();
        queue.push(Level::INFO, b"whole\n");
        let mut out = Hesitant(0, Vec::new());
        queue.write_turn(&mut out, lost_line);
        assert_eq!(String::from_utf8_lossy(&out.1), "whole\n");
    }

    #[test]
    fn lines_for_a_reader_that_is_gone_are_lost() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = queue();
        queue.push(Level::INFO, b"for nobody\n");
        queue.write_turn(&mut Gone, lost_line);
        assert_eq!(queue.counts.info().lost, [0, 0, 1, 0, 0]);
        assert!(!queue.is_pending());
    }
}
