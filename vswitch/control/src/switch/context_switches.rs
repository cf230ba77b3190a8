//! How often the kernel took a worker's core away.
//!
//! **Design**: the kernel counts that for each thread (`nonvoluntary_ctxt_switches` in
//! proc_pid_status(5)). A worker that has its core for itself has none. Where its thread is shown
//! is looked up once, by its name.
//!
//! **Threads**: any that may block; one look at a time.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The key of the count, in the file `status`.
const KEY: &str = "nonvoluntary_ctxt_switches:";

/// Where the threads of workers are shown, by core.
#[derive(Debug, Default)]
pub(super) struct ContextSwitches(Mutex<HashMap<u32, PathBuf>>);

impl ContextSwitches {
    /// How often the kernel took the core of the worker on it away; none: there is no such thread.
    pub(super) fn nonvoluntary(&self, core: u32) -> Option<u64> {
        let mut known = self.0.lock();
        let name = format!("worker-{core}");
        let directory = known.get(&core).filter(|directory| is_of(directory, &name)).cloned();
        let Some(directory) = directory.or_else(|| find(&name)) else {
            known.remove(&core);
            return None;
        };
        let status = fs::read_to_string(directory.join("status")).ok()?;
        known.insert(core, directory);
        status.lines().find_map(|line| line.strip_prefix(KEY))?.trim().parse().ok()
    }
}

fn is_of(directory: &Path, name: &str) -> bool {
    fs::read_to_string(directory.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
}

fn find(name: &str) -> Option<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    tasks.filter_map(|task| Some(task.ok()?.path())).find(|directory| is_of(directory, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_is_found_while_it_runs() {
        let switches = ContextSwitches::default();
        assert_eq!(switches.nonvoluntary(4321), None, "there is none");
        let (end, ended) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let worker = std::thread::Builder::new().name("worker-4321".to_owned()).spawn(move || {
            ready.send(()).expect("a reader");
            let _ = ended.recv();
        });
        is_ready.recv().expect("a thread");
        let first = switches.nonvoluntary(4321).expect("a count");
        assert!(switches.nonvoluntary(4321).expect("a count") >= first);
        drop(end);
        worker.expect("a thread").join().expect("no panic");
        assert_eq!(switches.nonvoluntary(4321), None, "it has ended");
        assert!(switches.0.lock().is_empty());
    }
}
