//! Paths: the decisions that a packet takes from its port to its last output, one per stage.
//!
//! A path is shared by all connections that take it, and is as good as its megaflows: one compare each ([`super::Cache`]'s tick). It dies with any of them.

use super::Megaflow;
use crate::action::Op;
use crate::limits::PATHS_MAX;
use crate::port::PortId;
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Decisions of a path.
pub(super) const STEPS_MAX: usize = 6;

/// See the module.
#[derive(Debug)]
pub struct Path {
    steps: [Option<Arc<Megaflow>>; STEPS_MAX],
    /// The port to which its only output goes, if all else that it does is to rewrite headers; else [`PortId::NONE`].
    out: PortId,
}

impl Path {
    /// Its megaflows, in order.
    #[inline]
    pub fn steps(&self) -> impl Iterator<Item = &Arc<Megaflow>> {
        self.steps.iter().map_while(Option::as_ref)
    }

    /// The megaflow of a stage.
    #[inline]
    #[must_use]
    pub fn step(&self, i: usize) -> Option<&Arc<Megaflow>> {
        self.steps.get(i)?.as_ref()
    }

    /// See [`Path`].
    #[inline]
    #[must_use]
    pub const fn out(&self) -> PortId {
        self.out
    }

    /// One of its megaflows was ended.
    pub(super) fn is_dead(&self) -> bool {
        self.steps().any(|megaflow| megaflow.is_dead())
    }
}

/// Whether a packet that took these steps, and met so many `ct()`, can have taken them one after the other: each one ends where the next begins. A `ct()` is asked before
/// anything is done, so what the packet may die of, and what changes its length, must not come before one. Returns the port as [`Path::out`] has it.
pub(super) fn shape(steps: &[Arc<Megaflow>], links: usize) -> Option<PortId> {
    let mut left = links;
    let mut out = PortId::NONE;
    let (mut straight, mut settled) = (true, false);
    for (i, megaflow) in steps.iter().enumerate() {
        let last = i + 1 == steps.len();
        straight &= megaflow.drop_reason().is_none();
        let mut forked = false;
        for (at, op) in megaflow.ops().iter().enumerate() {
            let ends = at + 1 == megaflow.ops().len();
            match op {
                Op::Ct(_) if settled => return None,
                Op::Ct(ct) => {
                    left = left.checked_sub(1)?;
                    forked = ct.stage.is_some();
                    // A copy goes on, or the list does.
                    if forked && !ends {
                        return None;
                    }
                }
                Op::PacketIn(_) => return None,
                Op::Meter(_) | Op::PushVlan { .. } | Op::PopVlan => (straight, settled) = (false, true),
                op if op.recirculates() => return None,
                Op::Output(port) if ends && last => out = *port,
                Op::SetEth(_) | Op::SetIpv4(_) | Op::SetIpv6(_) | Op::SetPorts(_) | Op::CtClear => {}
                _ => straight = false,
            }
        }
        if forked == last {
            return None;
        }
    }
    (left == 0).then_some(if straight { out } else { PortId::NONE })
}

/// Megaflows of a path, by where they lie; 0: none.
type Key = [usize; STEPS_MAX];

/// All paths of a worker.
#[derive(Debug, Default)]
pub(super) struct Paths {
    by_steps: HashMap<Key, Arc<Path>, RandomState>,
    /// Their keys, in the order in which they are looked at next.
    order: VecDeque<Key>,
}

impl Paths {
    /// The path of these steps, at most [`STEPS_MAX`]. When there are too many another one goes: programs that have it keep it.
    pub(super) fn intern(&mut self, steps: &[Arc<Megaflow>], out: PortId) -> Arc<Path> {
        let key = std::array::from_fn(|i| steps.get(i).map_or(0, |megaflow| Arc::as_ptr(megaflow).addr()));
        if let Some(path) = self.by_steps.get(&key) {
            return Arc::clone(path);
        }
        if self.by_steps.len() >= PATHS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_steps.remove(&oldest);
        }
        let path = Arc::new(Path { steps: std::array::from_fn(|i| steps.get(i).cloned()), out });
        self.by_steps.insert(key, Arc::clone(&path));
        self.order.push_back(key);
        path
    }

    /// Looks at the next few: lets go of those that are dead, or that no program has.
    pub(super) fn sweep(&mut self, few: usize) {
        for _ in 0..few.min(self.order.len()) {
            let Some(key) = self.order.pop_front() else { return };
            if self.by_steps.get(&key).is_some_and(|path| !path.is_dead() && Arc::strong_count(path) > 1) {
                self.order.push_back(key);
            } else {
                self.by_steps.remove(&key);
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.by_steps.clear();
        self.order.clear();
    }

    /// Paths now.
    pub(super) fn len(&self) -> usize {
        self.by_steps.len()
    }
}
