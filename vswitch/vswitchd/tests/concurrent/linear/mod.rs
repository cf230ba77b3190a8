//! Is a history linearizable? Each operation must be explainable as happening at one moment between
//! its call and its return, all of them in one order that gives every result that was seen.
//!
//! **Design**: the state is a few numbers (the version that each key has; 0: none). An operation
//! demands some of them and sets others, so that a read, an unconditional transaction, and one
//! whose success depends on the state are the same thing. The history is walked in the order of
//! time with all the [`Config`]s that are possible so far (Lowe's just-in-time linearization):
//! nothing is decided before a return demands it. What sets nothing is done as soon as it may be,
//! which costs nobody anything. As each thread has one operation under way at a time, there are few
//! configurations.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Write;

/// Keys of the state.
pub(crate) const KEYS: usize = 14;

/// The version that each key has.
pub(crate) type State = [u32; KEYS];

/// Threads that a history may have.
const THREADS_MAX: usize = 32;

/// Operations around one that fails that are told.
const STORY: usize = 12;

/// What an operation saw of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It had this version.
    Is(u32),
    /// It had one.
    Present,
}

/// An operation with its result.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    /// Who did it, one after the other.
    pub(crate) thread: usize,
    /// For the reader.
    pub(crate) what: &'static str,
    /// Nanoseconds.
    pub(crate) call: u64,
    /// Nanoseconds.
    pub(crate) ret: u64,
    /// What it saw.
    pub(crate) seen: Vec<(usize, Seen)>,
    /// What it changed.
    pub(crate) sets: Vec<(usize, u32)>,
}

impl Op {
    fn fits(&self, state: &State) -> bool {
        self.seen.iter().all(|(key, seen)| match seen {
            Seen::Is(version) => state[*key] == *version,
            Seen::Present => state[*key] != 0,
        })
    }

    fn touches(&self, other: &Self) -> bool {
        let keys = |op: &Self| -> Vec<usize> {
            op.seen.iter().map(|(key, _)| *key).chain(op.sets.iter().map(|(key, _)| *key)).collect()
        };
        let others = keys(other);
        keys(self).iter().any(|key| others.contains(key))
    }
}

/// One way in which it may have gone so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Config {
    state: State,
    /// Threads whose operation under way has happened.
    done: u32,
}

impl Config {
    /// Operations that change nothing happen as soon as they may.
    fn settle(&mut self, under_way: &[Option<&Op>]) {
        for (thread, op) in under_way.iter().enumerate() {
            if op.is_some_and(|op| op.sets.is_empty() && op.fits(&self.state)) {
                self.done |= 1 << thread;
            }
        }
    }

    /// All ways in which this may go on until a thread's operation has happened.
    fn until(self, thread: usize, under_way: &[Option<&Op>], found: &mut HashSet<Self>) {
        let (mut left, mut known) = (vec![self], HashSet::new());
        while let Some(config) = left.pop() {
            if config.done & 1 << thread != 0 {
                found.insert(Self { done: config.done & !(1 << thread), ..config });
                continue;
            }
            for (other, op) in under_way.iter().enumerate() {
                let Some(op) = op.filter(|op| !op.sets.is_empty() && op.fits(&config.state)) else { continue };
                if config.done & 1 << other != 0 {
                    continue;
                }
                let mut next = Self { done: config.done | 1 << other, ..config };
                op.sets.iter().for_each(|(key, version)| next.state[*key] = *version);
                next.settle(under_way);
                if known.insert(next.clone()) {
                    left.push(next);
                }
            }
        }
    }
}

/// Checks a history that began in this state.
///
/// # Errors
/// The first operation that cannot be explained, and what went on around it.
pub(crate) fn check(ops: &[Op], start: &State) -> Result<(), String> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(ops.len() * 2);
    for (i, op) in ops.iter().enumerate() {
        assert!(op.call <= op.ret && op.thread < THREADS_MAX, "no operation: {op:?}");
        events.extend([(op.call, false, i), (op.ret, true, i)]);
    }
    // At the same time: calls first, as if they had overlapped. But a thread's own return comes
    // before its next call.
    events.sort_by_key(|(time, is_return, i)| (*time, *is_return, *i));
    let mut under_way: Vec<Option<&Op>> = vec![None; THREADS_MAX];
    let mut configs = HashSet::from([Config { state: *start, done: 0 }]);
    for (_, is_return, i) in events {
        let op = &ops[i];
        if is_return {
            let mut next = HashSet::new();
            configs.iter().for_each(|config| config.clone().until(op.thread, &under_way, &mut next));
            if next.is_empty() {
                return Err(story(op, ops, &configs));
            }
            under_way[op.thread] = None;
            configs = next;
        } else {
            assert!(under_way[op.thread].is_none(), "two operations of one thread at a time: {op:?}");
            under_way[op.thread] = Some(op);
            let settled = configs.drain().map(|mut config| {
                config.settle(&under_way);
                config
            });
            configs = settled.collect();
        }
    }
    Ok(())
}

fn line(op: &Op) -> String {
    let time = |nanoseconds: u64| format!("{}.{:06} ms", nanoseconds / 1_000_000, nanoseconds % 1_000_000);
    let (call, ret) = (time(op.call), time(op.ret));
    format!("{call} to {ret}, thread {}: {}: saw {:?}, set {:?}", op.thread, op.what, op.seen, op.sets)
}

fn story(bad: &Op, ops: &[Op], configs: &HashSet<Config>) -> String {
    let mut text = format!("no order explains what was seen at\n  {}\nbefore it, on its keys:\n", line(bad));
    let near = |op: &&Op| op.touches(bad) && op.call <= bad.ret && !std::ptr::eq(*op, bad);
    let mut before: Vec<&Op> = ops.iter().filter(near).collect();
    before.sort_by_key(|op| op.ret);
    for op in before.iter().rev().take(STORY).rev() {
        let _ = writeln!(text, "  {}", line(op));
    }
    let states: HashSet<State> = configs.iter().map(|config| config.state).collect();
    let _ = writeln!(text, "possible states at its return, what is under way not counted:");
    for state in states.iter().take(STORY) {
        let _ = writeln!(text, "  {state:?}");
    }
    text
}
