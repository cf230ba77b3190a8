//! One connection.

use super::super::Words;
use super::super::arena::{Entry, Locked};
use super::super::connection::age;
use super::super::helper_control::Skew;
use super::super::life::Life;
use super::super::ports::Slot;
use super::super::words::{halves, low16, whole};
use super::port::Numbers;
use super::{Input, NARROW, RestoreError, WIDE};
use crate::tcp::Tcp;
use crate::{Helper, NatSide, Tuple, protocol};
use std::io::Read;

/// Words of the longest record: 11 that all have, addresses, TCP, a master, skews.
pub(super) const WORDS_MAX: usize = 11 + 8 + 3 + 5 + 4;

/// Flags, above the kind in the first word.
const REPLIED: u64 = 1 << 8;
const SRC: u64 = 1 << 9;
const DST: u64 = 1 << 10;
const FTP: u64 = 1 << 11;
const TFTP: u64 = 1 << 12;
const WAITS: u64 = 1 << 13;
const MASTER: u64 = 1 << 14;
const SKEWED: u64 = 1 << 15;
const UNASKED: u64 = 1 << 16;
const ALL: u64 = 0xff | REPLIED | SRC | DST | FTP | TFTP | WAITS | MASTER | SKEWED | UNASKED;

/// Above: the number of its port in the file.
const PORT_SHIFT: u32 = 32;

/// Milliseconds that a connection lives without packets: no timeout is longer.
const LEFT_MAX: u64 = u32::MAX as u64 * 1000;

/// Packets of a direction are counted modulo this.
const PACKETS_END: u64 = 1 << 48;

/// In a last word of [`Words`]: what tuples of both directions have in common.
const COMMON: u64 = 0xffff_ffff;

/// A connection, as a file has it.
#[derive(Debug)]
pub(super) struct Record {
    /// By direction.
    pub(super) tuples: [Words; 2],
    /// Its port: place among the names of the file, from 1; 0: none.
    pub(super) port: u16,
    /// Flags; its end is in `left_ms`.
    pub(super) life: Life,
    /// In its zone established means answered.
    pub(super) waits: bool,
    pub(super) left_ms: u64,
    pub(super) age_ms: u64,
    tcp: Tcp,
    mark: u32,
    label: u128,
    /// Packets, bytes.
    pub(super) counts: [[u64; 2]; 2],
    master: Option<Tuple>,
    pub(super) skews: Option<[Skew; 2]>,
}

impl Record {
    /// Of a place; none if nobody is there, or its time is over.
    pub(super) fn of(locked: &Locked<'_>, now: u64, ports: &Numbers, waits: impl Fn(u16) -> bool) -> Option<Self> {
        let life = locked.life();
        let left_ms = life.expiry().checked_sub(now).filter(|left| life.has(Life::ALIVE) && *left > 0)?;
        let tuples = locked.tuples();
        Some(Self {
            tuples,
            port: ports.of(locked.cold().port()),
            life,
            waits: waits(tuples[0].zone()),
            left_ms: left_ms.min(LEFT_MAX),
            age_ms: age(locked.start(), now),
            tcp: locked.hot.tcp(),
            mark: locked.hot.mark(),
            label: locked.label(),
            counts: [locked.packets(), locked.bytes()],
            master: locked.master(),
            skews: locked.skews(),
        })
    }

    /// Zone.
    pub(super) const fn zone(&self) -> u16 {
        self.tuples[0].zone()
    }

    /// What its place holds.
    pub(super) const fn entry(&self, start: u64, port: Slot) -> Entry {
        let Self { tuples, tcp, mark, label, master, .. } = *self;
        Entry { tuples, tcp, mark, label, start, master, port }
    }

    fn head(&self, kind: u64) -> u64 {
        let flags = [
            (self.life.has(Life::REPLIED), REPLIED),
            (self.life.side() == Some(NatSide::Src), SRC),
            (self.life.side() == Some(NatSide::Dst), DST),
            (self.life.helper() == Some(Helper::Ftp), FTP),
            (self.life.helper() == Some(Helper::Tftp), TFTP),
            (self.waits, WAITS),
            (self.master.is_some(), MASTER),
            (self.skews.is_some(), SKEWED),
            (self.life.has(Life::UNASKED), UNASKED),
        ];
        let kind = kind | u64::from(self.port) << PORT_SHIFT;
        flags.iter().filter(|(is, _)| *is).fold(kind, |head, (_, flag)| head | flag)
    }

    pub(super) fn write(&self, words: &mut Vec<u64>) {
        let [original, reply] = &self.tuples;
        let narrow = original.narrow().zip(reply.narrow());
        words.push(self.head(if narrow.is_some() { NARROW } else { WIDE }));
        words.extend([original.rest(), reply.rest() & !COMMON | u64::from(self.mark), self.left_ms, self.age_ms]);
        words.extend(halves(self.label));
        words.extend(self.counts.as_flattened());
        match narrow {
            Some((original, reply)) => words.extend([original, reply]),
            None => words.extend([original.addresses(), reply.addresses()].as_flattened()),
        }
        if is_tcp(original.rest()) {
            words.extend(self.tcp.to_words());
        }
        if let Some(master) = &self.master {
            words.extend(Words::from(master).words());
        }
        if let Some(skews) = self.skews {
            words.extend(skews.map(Skew::to_words).as_flattened());
        }
    }

    /// What follows a first word. Every combination of words that is let through is a connection
    /// that packets could have made.
    pub(super) fn read<R: Read>(head: u64, input: &mut Input<R>) -> Result<Self, RestoreError> {
        let port = low16(head >> PORT_SHIFT);
        if head & !(ALL | 0xffff << PORT_SHIFT) != 0 {
            return Err(input.wrong("it has flags that are not known"));
        }
        let [rest, second, left_ms, age_ms, label_low, label_high, a, b, c, d] = input.words()?;
        let (reply_rest, mark) = (second & !COMMON | rest & COMMON, second & COMMON);
        let addresses = if head & 0xff == NARROW {
            let narrow = input.words::<2>()?;
            if rest & 1 != 0 {
                return Err(input.wrong("its addresses are of IPv4, and it is of IPv6"));
            }
            narrow.map(|addresses| Words::of_narrow(addresses, 0).addresses())
        } else {
            [input.words()?, input.words()?]
        };
        let tuple = |[a, b, c, d]: [u64; 4], rest| Words::checked([a, b, c, d, rest]);
        let tuples = tuple(addresses[0], rest).zip(tuple(addresses[1], reply_rest));
        let (original, reply) = tuples.ok_or_else(|| input.wrong("no tuple is like that"))?;
        let tcp = if is_tcp(rest) { Tcp::of_words(input.words()?) } else { Some(Tcp::default()) };
        let tcp = tcp.ok_or_else(|| input.wrong("no connection of TCP is in that state"))?;
        let master = if head & MASTER == 0 { None } else { Some(input.tuple()?.tuple()) };
        let skews = if head & SKEWED == 0 {
            None
        } else {
            Some([Skew::of_words(input.words()?), Skew::of_words(input.words()?)])
        };
        let life = life(head).ok_or_else(|| input.wrong("two flags contradict each other"))?;
        // Nobody asks on the fast path whether it was answered: it is not established before.
        let tcp = if life.has(Life::REPLIED) { tcp } else { tcp.unanswered() };
        let record = Self {
            tuples: [original, reply],
            port,
            life,
            waits: head & WAITS != 0,
            left_ms,
            age_ms,
            tcp,
            mark: u32::try_from(mark).unwrap_or_default(),
            label: whole([label_low, label_high]),
            counts: [[a, b], [c, d]],
            master,
            skews,
        };
        record.check().map_err(|what| input.wrong(what))?;
        Ok(record)
    }

    /// What must hold between its parts.
    fn check(&self) -> Result<(), &'static str> {
        let [original, reply] = self.tuples.map(|words| words.tuple());
        if self.left_ms == 0 || self.left_ms > LEFT_MAX {
            return Err("no timeout is as long as what it says is left");
        }
        if self.counts[0].iter().any(|packets| *packets >= PACKETS_END) {
            return Err("it counts more packets than can be counted");
        }
        if self.life.side().is_none() && reply != original.reversed() {
            return Err("it is not translated, and its replies are");
        }
        Ok(())
    }
}

fn life(head: u64) -> Option<Life> {
    let of = |flag: u64| head & flag != 0;
    let side = match (of(SRC), of(DST)) {
        (false, false) => None,
        (true, false) => Some(NatSide::Src),
        (false, true) => Some(NatSide::Dst),
        (true, true) => return None,
    };
    let helper = match (of(FTP), of(TFTP)) {
        (false, false) => None,
        (true, false) => Some(Helper::Ftp),
        (false, true) => Some(Helper::Tftp),
        (true, true) => return None,
    };
    if of(UNASKED) && side != Some(NatSide::Src) {
        return None;
    }
    let flags = [(REPLIED, Life::REPLIED), (UNASKED, Life::UNASKED)];
    let has = flags.iter().filter(|(flag, _)| of(*flag));
    Some(has.fold(Life::new(side, helper), |life, (_, flag)| life.with(*flag)))
}

/// By the last word of its original tuple.
const fn is_tcp(rest: u64) -> bool {
    rest >> 8 & 0xff == protocol::TCP as u64
}
