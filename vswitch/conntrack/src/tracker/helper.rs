//! Connections that others announce: FTP's and TFTP's data.
//!
//! A helper reads in one connection, the master, that another one is going to be opened, and [`Tracker::expect`]s it. A packet that opens it is `+rel`, has the
//! master's mark and label as they were then, which no commit changes, and `ct_nw_*` and `ct_tp_*` of the master. Several may fulfil one expectation, for
//! [`LIFETIME`], as long as the master lives.
//!
//! What has to be read in payloads is not read here. TFTP needs none: whoever sends a datagram by a connection with that helper is answered from any port.
//!
//! **Limit**: [`EXPECTED_MAX`] at a time; one more is not expected, and its packets are `+new` as all others. As long as there are none, they cost new connections one load.

use super::arena::Locked;
use super::words::Words;
use super::{Direction, Found, Tracker};
use crate::{End, NatSide, Tuple};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Expectations at a time, of all connections.
const EXPECTED_MAX: usize = 4096;

/// Milliseconds that a connection is expected (as Open vSwitch).
const LIFETIME: u64 = 30_000;

/// Milliseconds between two searches for what is not expected any more.
const SWEEP: u64 = 1000;

/// A connection that is going to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Tuple of its first packet, as that comes to `ct()`. Any source port will do.
    pub tuple: Tuple,
    /// Any source address will do.
    pub any_src: bool,
    /// If its `ct()` has `nat` (whatever that says): which end of it becomes what. Port 0: it keeps its own.
    pub translate: Option<(NatSide, End)>,
}

/// What a new connection has from the one that announced it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inherited {
    pub(super) master: Tuple,
    pub(super) mark: u32,
    pub(super) label: u128,
    pub(super) translate: Option<(NatSide, End)>,
    expiry: u64,
}

#[derive(Debug, Default)]
struct Table {
    expected: HashMap<Tuple, Inherited>,
    swept: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    count: AtomicUsize,
    table: Mutex<Table>,
}

impl Expectations {
    fn add(&self, expected: &Expected, inherited: Inherited, now: u64) -> bool {
        let mut table = self.table.lock();
        let key = key(&expected.tuple, expected.any_src);
        let full = |table: &Table| table.expected.len() >= EXPECTED_MAX && !table.expected.contains_key(&key);
        if full(&table) {
            self.sweep(&mut table, now);
        }
        let room = !full(&table);
        if room {
            table.expected.insert(key, inherited);
            self.count.store(table.expected.len(), Release);
        }
        room
    }

    /// Who announced a new connection. He may be gone.
    #[inline]
    fn find(&self, tuple: &Tuple, now: u64) -> Option<Inherited> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let table = self.table.lock();
        let found = [false, true].iter().find_map(|&any_src| table.expected.get(&key(tuple, any_src)));
        found.filter(|inherited| now < inherited.expiry).copied()
    }

    /// Forgets what nobody expects any more, once in a while.
    pub(super) fn expire(&self, now: u64) {
        if self.count.load(Relaxed) > 0 {
            self.sweep(&mut self.table.lock(), now);
        }
    }

    fn sweep(&self, table: &mut Table, now: u64) {
        if now >= table.swept.saturating_add(SWEEP) {
            table.swept = now;
            table.expected.retain(|_, inherited| now < inherited.expiry);
            self.count.store(table.expected.len(), Release);
        }
    }
}

/// A tuple without what does not matter.
fn key(tuple: &Tuple, any_src: bool) -> Tuple {
    let src = if any_src { End::default() } else { End { port: 0, ..tuple.src } };
    Tuple { src, ..*tuple }
}

impl Tracker {
    /// A helper has read that a connection is going to be opened. `master`: tuple of the connection that it read it in, of either direction. False: that connection
    /// is gone, or too many are expected.
    pub fn expect(&self, master: &Tuple, expected: &Expected, now: u64) -> bool {
        let words = Words::from(master);
        let found = self.find(&words, self.hasher.hash(&words), now);
        found.is_some_and(|Found { locked, .. }| self.announce(&locked, expected, now))
    }

    /// What a new connection has from the one that announced it, if one did.
    #[inline]
    pub(super) fn inherited(&self, tuple: &Tuple, now: u64) -> Option<Inherited> {
        let inherited = self.expectations.find(tuple, now)?;
        (!self.is_free(&inherited.master, now)).then_some(inherited)
    }

    fn announce(&self, master: &Locked<'_>, expected: &Expected, now: u64) -> bool {
        let (mark, label) = (master.body.mark, master.label());
        let expiry = now.saturating_add(LIFETIME);
        let master = master.tuples()[Direction::Original as usize].tuple();
        let inherited = Inherited { master, mark, label, translate: expected.translate, expiry };
        self.expectations.add(expected, inherited, now)
    }

    /// A datagram by a connection with TFTP's helper: the server answers from another port (RFC 1350, section 4), perhaps from another address.
    #[cold]
    pub(super) fn announce_tftp(&self, master: &Locked<'_>, now: u64) {
        let [original, reply] = master.tuples().map(|words| words.tuple());
        let translate = Some((NatSide::Dst, original.src));
        self.announce(master, &Expected { tuple: reply, any_src: true, translate }, now);
    }
}
