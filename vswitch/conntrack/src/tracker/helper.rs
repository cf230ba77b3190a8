//! Connections that others announce: FTP's and TFTP's data.
//!
//! A helper reads in one connection, the master, that another one is going to be opened, and
//! [`Tracker::expect`]s it. A packet that opens it is `+rel`, has the master's mark and label as
//! they were then, which no commit changes, and `ct_nw_*` and `ct_tp_*` of the master. Several may
//! fulfil one expectation, for [`LIFETIME`], as long as the master lives.
//!
//! What has to be read in payloads is not read here. TFTP needs none: whoever sends a datagram by a
//! connection with that helper is answered from any port.
//!
//! **Limit**: [`EXPECTED_MAX`] at a time; one more is not expected, and its packets are `+new` as
//! all others. As long as there are none, they cost new connections one load.

use super::arena::Locked;
use super::sync::Patience;
use super::words::{Words, halves, halves32, whole};
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
    /// If its `ct()` has `nat` (whatever that says): which end of it becomes what. Port 0: it keeps
    /// its own.
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

/// Connections that helpers expect: the tuples that the next one may have, and its master.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    count: AtomicUsize,
    table: Mutex<Table>,
}

/// An expectation, as a file has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    /// What it is found by ([`key`]).
    key: Tuple,
    inherited: Inherited,
    left_ms: u64,
}

impl Saved {
    /// Of what becomes what: which end, in the first word, above its kind.
    const SRC: u64 = 1 << 8;
    const DST: u64 = 1 << 9;

    /// As words, of this kind.
    pub(super) fn write(&self, kind: u64, words: &mut Vec<u64>) {
        let Inherited { master, mark, label, translate, .. } = self.inherited;
        let (side, end) = match translate {
            None => (0, End::default()),
            Some((NatSide::Src, end)) => (Self::SRC, end),
            Some((NatSide::Dst, end)) => (Self::DST, end),
        };
        words.push(kind | side);
        words.extend([Words::from(&self.key).words(), Words::from(&master).words()].as_flattened());
        words.extend(halves(label));
        words.extend(halves(end.addr));
        words.extend([u64::from(mark) << 32 | u64::from(end.port), self.left_ms]);
    }

    /// What follows a first word; none if nothing is expected like that.
    ///
    /// # Errors
    /// Those of `word`.
    pub(super) fn read<E>(head: u64, word: &mut impl FnMut() -> Result<u64, E>) -> Result<Option<Self>, E> {
        let mut words = [0; 16];
        for to in &mut words {
            *to = word()?;
        }
        let [a, b, c, d, e, f, g, h, i, j, label_low, label_high, addr_low, addr_high, last, left_ms] = words;
        let tuples = Words::checked([a, b, c, d, e]).zip(Words::checked([f, g, h, i, j]));
        let [mark, port] = halves32(last);
        let end = u16::try_from(port).ok().map(|port| End { addr: whole([addr_low, addr_high]), port });
        let translate = match head >> 8 {
            0 => None,
            1 => end.map(|end| (NatSide::Src, end)),
            2 => end.map(|end| (NatSide::Dst, end)),
            _ => return Ok(None),
        };
        let (Some((key, master)), Some(_), 1..=LIFETIME) = (tuples, end, left_ms) else { return Ok(None) };
        let label = whole([label_low, label_high]);
        let inherited = Inherited { master: master.tuple(), mark, label, translate, expiry: 0 };
        Ok(Some(Self { key: key.tuple(), inherited, left_ms }))
    }
}

impl Expectations {
    /// Those that are expected still; none, if somebody keeps the table.
    pub(super) fn saved(&self, now: u64, patience: &mut Patience) -> Vec<Saved> {
        let table = loop {
            if let Some(table) = self.table.try_lock() {
                break table;
            }
            if !patience.look_again() {
                return Vec::new();
            }
        };
        let saved = |(key, inherited): (&Tuple, &Inherited)| {
            let left_ms = inherited.expiry.checked_sub(now).filter(|left| *left > 0)?;
            Some(Saved { key: *key, inherited: *inherited, left_ms })
        };
        table.expected.iter().filter_map(saved).collect()
    }

    /// Expects again what was saved so long ago. False: its time is over, or there are too many.
    pub(super) fn put_back(&self, saved: &Saved, now: u64, elapsed_ms: u64) -> bool {
        let left_ms = saved.left_ms.saturating_sub(elapsed_ms);
        let mut table = self.table.lock();
        if left_ms == 0 || table.expected.len() >= EXPECTED_MAX {
            return false;
        }
        table.expected.insert(saved.key, Inherited { expiry: now.saturating_add(left_ms), ..saved.inherited });
        self.count.store(table.expected.len(), Release);
        true
    }

    /// Expects nothing more.
    pub(super) fn clear(&self) {
        let mut table = self.table.lock();
        table.expected.clear();
        self.count.store(0, Release);
    }

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
    /// A helper has read that a connection is going to be opened. `master`: tuple of the connection
    /// that it read it in, of either direction. False: that connection is gone, or too many are
    /// expected.
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
        let (mark, label) = (master.hot.mark(), master.label());
        let expiry = now.saturating_add(LIFETIME);
        let master = master.tuples()[Direction::Original as usize].tuple();
        let inherited = Inherited { master, mark, label, translate: expected.translate, expiry };
        self.expectations.add(expected, inherited, now)
    }

    /// A datagram by a connection with TFTP's helper: the server answers from another port (RFC
    /// 1350, section 4), perhaps from another address.
    #[cold]
    pub(super) fn announce_tftp(&self, master: &Locked<'_>, now: u64) {
        let [original, reply] = master.tuples().map(|words| words.tuple());
        let translate = Some((NatSide::Dst, original.src));
        self.announce(master, &Expected { tuple: reply, any_src: true, translate }, now);
    }
}
