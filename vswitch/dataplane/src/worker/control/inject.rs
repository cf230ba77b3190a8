//! Packets that the control side sends through a bridge: packet-outs, and paused packets that go
//! on.

use crate::limits::{INJECTED_QUEUED, PACKET_OUT_MAX};
use crate::pipeline::{Continuation, Start};
use crate::port::PortId;
use crate::time::Millis;
use crate::worker::Walk;
use crate::worker::step::StepContext;
use crossbeam_queue::ArrayQueue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Thread;
use std::time::Duration;
use vswitch_conntrack::Handle;
use vswitch_flow::{Action, Field, FlowKey};

/// A worker takes an injected packet within a burst, or one sleep. After this long the caller is
/// told.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Packets of [`Inbox::inject_all`] in the inbox at a time.
const TOGETHER: usize = 64;

/// A packet to be sent through a bridge.
#[derive(Clone, Debug)]
pub struct Injection {
    /// Name of the bridge.
    pub bridge: Arc<str>,
    /// Its metadata: `in_port` may be any number.
    pub metadata: FlowKey,
    /// Its bytes.
    pub packet: Vec<u8>,
    /// Where it begins.
    pub begin: Begin,
}

/// Where an injected packet begins.
#[derive(Clone, Debug)]
pub enum Begin {
    /// With these actions.
    Actions(Arc<[Action]>),
    /// Where it was paused, with the connections that it had met as new.
    Resume(Arc<Continuation>, Box<[Handle]>),
}

/// Why a packet could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// The bridge went away before a worker took the packet.
    #[error("bridge {0} was removed while the packet waited for a worker")]
    BridgeGone(Arc<str>),
    /// A packet that no port could carry.
    #[error("the packet has {0} bytes; send 14 to {PACKET_OUT_MAX}")]
    Length(usize),
    /// No buffer.
    #[error("the mbuf pool is empty; give [dpdk] mbufs more, or find who holds them")]
    NoMbuf,
    /// Too many wait.
    #[error("{INJECTED_QUEUED} packets already wait for this worker; send them more slowly")]
    Full,
    /// No worker took it.
    #[error("no worker took the packet within 2 s (it may still be sent); see vsctl worker-show")]
    NoAnswer,
    /// The switch stops.
    #[error("the switch is stopping")]
    Stopping,
}

/// An [`Injection`] under way.
#[derive(Debug)]
pub(in crate::worker) struct Injected {
    injection: Injection,
    done: mpsc::SyncSender<Result<(), InjectError>>,
}

/// Where one worker finds injected packets, and how it is woken.
#[derive(Debug)]
pub struct Inbox {
    queue: ArrayQueue<Injected>,
    thread: Mutex<Option<Thread>>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { queue: ArrayQueue::new(INJECTED_QUEUED), thread: Mutex::new(None) }
    }
}

impl Inbox {
    /// Sends a packet and returns when it has left.
    ///
    /// # Errors
    /// Why it did not.
    pub fn inject(&self, injection: Injection) -> Result<(), InjectError> {
        let (done, answer) = mpsc::sync_channel(1);
        self.queue.push(Injected { injection, done }).map_err(|_| InjectError::Full)?;
        self.wake();
        match answer.recv_timeout(ANSWER_MAX) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(InjectError::NoAnswer),
            Err(RecvTimeoutError::Disconnected) => Err(InjectError::Stopping),
        }
    }

    /// Likewise, without waiting until it has left, or knowing whether.
    ///
    /// # Errors
    /// When too many wait already.
    pub fn post(&self, injection: Injection) -> Result<(), InjectError> {
        let (done, _) = mpsc::sync_channel(1);
        self.queue.push(Injected { injection, done }).map_err(|_| InjectError::Full)?;
        self.wake();
        Ok(())
    }

    /// Sends packets in this order, and returns when the last one has left: how many did, if it
    /// could be seen. It waits for one of [`TOGETHER`], so that they do not fill the inbox that
    /// others use, too.
    pub fn inject_all(&self, injections: Vec<Injection>) -> usize {
        let mut sent = 0;
        let mut injections = injections.into_iter().peekable();
        while injections.peek().is_some() {
            let mut together: Vec<Injection> = injections.by_ref().take(TOGETHER).collect();
            let last = together.pop();
            sent += together.into_iter().map(|one| self.post(one)).filter(Result::is_ok).count();
            sent += last.map(|last| self.inject(last)).into_iter().filter(Result::is_ok).count();
        }
        sent
    }

    /// Whether something waits. One or two loads: workers ask once per turn.
    #[inline]
    pub(in crate::worker) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Ends the worker's sleep.
    pub fn wake(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    /// The calling thread is the worker.
    pub(in crate::worker) fn attend(&self) {
        *self.thread.lock() = Some(std::thread::current());
    }

    /// The worker ends: whoever waits is told that nobody comes.
    pub(in crate::worker) fn leave(&self) {
        *self.thread.lock() = None;
        while self.queue.pop().is_some() {}
    }
}

impl Walk {
    /// Sends what waits in the inbox through its bridges.
    #[cold]
    pub(in crate::worker) fn serve(&mut self, inbox: &Inbox, now: Millis) {
        // What comes in meanwhile is for the next turn.
        for _ in 0..inbox.queue.len() {
            let Some(Injected { injection, done }) = inbox.queue.pop() else { return };
            let result = self.inject(&injection, now);
            self.flush();
            let _ = done.send(result); // nobody waits any longer: fine
        }
    }

    /// Sends a packet through a bridge.
    ///
    /// # Errors
    /// When there is no such bridge or no buffer for the packet.
    pub fn inject(&mut self, injection: &Injection, now: Millis) -> Result<(), InjectError> {
        let len = injection.packet.len();
        if !(crate::limits::FRAME_MIN..=PACKET_OUT_MAX).contains(&len) {
            return Err(InjectError::Length(len));
        }
        let (worker, pool, snapshot, outputs) = (self.worker, &self.pool, &*self.snapshot, &mut self.outputs);
        let (conntrack, budget) = (&*self.conntrack, self.budgets.of(PortId::NONE));
        let bridges = &snapshot.world.bridges;
        let gone = || InjectError::BridgeGone(Arc::clone(&injection.bridge));
        let index = bridges.iter().position(|bridge| bridge.name == injection.bridge).ok_or_else(gone)?;
        let mbuf = pool.mbuf_from(&injection.packet).ok_or(InjectError::NoMbuf)?;
        let number = u32::try_from(injection.metadata.get(Field::InPort)).unwrap_or(u32::MAX);
        let port = bridges[index].numbers.get(&number).copied().unwrap_or(PortId::NONE);
        let (start, met): (_, &[Handle]) = match &injection.begin {
            Begin::Actions(actions) => (Start::Actions(actions), &[]),
            Begin::Resume(continuation, met) => (Start::Resume(continuation), met),
        };
        self.cache.pays(PortId::NONE);
        let mut step = StepContext::new(worker, pool, snapshot, outputs, conntrack, budget, now);
        step.resume(met);
        step.once(Some(&mut self.cache), index, port, injection.metadata.clone(), start, mbuf);
        Ok(())
    }
}
