//! What of a connection only those packets touch that take the slow path: one cache line.
//!
//! It is written by whoever holds the lock of the place, and by nobody else, not even an owner, so
//! that a second lock would protect nothing; and read by that one, and by who looks at an owned
//! place and looks whether that was right. The words are atomic because the language has no other
//! way to say so; their accesses are plain ones, which the place's lock orders.

use super::arena::Entry;
use super::ports::Slot;
use super::sync::Word;
use super::v6_addrs::V6Addrs;
use super::words::{Words, halves, halves32, low16, whole};
use crate::Direction;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicU32};

/// The cold line of a connection: what only the slow path touches.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// By [`Direction`]: the addresses of the tuple, source and destination. If they are of IPv6:
    /// first the number of the line that they are in, and nothing.
    addresses: [Word; 2],
    /// Ports, zone, protocol and family of the original tuple, as [`Words`] has them, and [`WIDE`].
    rest: Word,
    label: [Word; 2],
    /// When it began, above the port that it counts for.
    start: Word,
    /// Ports of the reply tuple; the rest is the original one's.
    reply_ports: AtomicU32,
    /// By [`Direction`], the high halves.
    bytes_high: [AtomicU32; 2],
    packets_high: [AtomicU16; 2],
}

const _: () = assert!(size_of::<Cold>() == 64);

/// In [`Cold::rest`], where [`Words`] has nothing: the addresses are elsewhere.
const WIDE: u64 = 2;

/// Bits of [`Cold::start`] that the port has.
const PORT_BITS: u32 = 16;

/// The latest start that there is room for, in milliseconds: some 4,000 years.
pub(super) const START_MAX: u64 = (1 << (63 - PORT_BITS)) - 1;

/// In a last word of [`Words`]: what tuples of both directions have in common.
const COMMON: u64 = 0xffff_ffff;

impl Cold {
    /// The word that it begins with.
    #[inline]
    pub(super) const fn first_word(&self) -> &Word {
        &self.addresses[0]
    }

    /// A new connection. Its place has no line of addresses.
    #[inline]
    pub(super) fn begin(&self, entry: &Entry, place: u32, v6_addrs: &V6Addrs) {
        let [original, reply] = &entry.tuples;
        debug_assert_eq!(original.rest() & COMMON, reply.rest() & COMMON, "zone, protocol and family");
        let mut rest = original.rest();
        if let (Some(original), Some(reply)) = (original.narrow(), reply.narrow()) {
            self.addresses[0].store(original, Relaxed);
            self.addresses[1].store(reply, Relaxed);
        } else {
            let line = v6_addrs.take(place);
            v6_addrs.write(line, [original.addresses(), reply.addresses()]);
            self.addresses[0].store(line.into(), Relaxed);
            rest |= WIDE;
        }
        self.rest.store(rest, Relaxed);
        self.reply_ports.store(ports(reply.rest()), Relaxed);
        self.set_label(entry.label);
        self.start.store(entry.start << PORT_BITS | u64::from(entry.port.0), Relaxed);
        for i in 0..2 {
            self.bytes_high[i].store(0, Relaxed);
            self.packets_high[i].store(0, Relaxed);
        }
    }

    /// The place is given back. Returns the line of addresses that it had.
    #[inline]
    pub(super) fn end(&self) -> Option<u32> {
        let rest = self.rest.load(Relaxed);
        if rest & WIDE == 0 {
            return None;
        }
        self.rest.store(rest & !WIDE, Relaxed);
        Some(self.line())
    }

    /// If it is [`WIDE`].
    fn line(&self) -> u32 {
        let [_, line] = halves32(self.addresses[0].load(Relaxed));
        line
    }

    /// The last word of a tuple, and whether addresses are of IPv6.
    #[inline]
    fn rest(&self, direction: Direction) -> (u64, bool) {
        let rest = self.rest.load(Relaxed);
        let own = match direction {
            Direction::Original => rest,
            Direction::Reply => u64::from(self.reply_ports.load(Relaxed)) << 32 | rest & COMMON,
        };
        (own & !WIDE, rest & WIDE != 0)
    }

    /// By [`Direction`].
    pub(super) fn tuples(&self, v6_addrs: &V6Addrs) -> [Words; 2] {
        [Direction::Original, Direction::Reply].map(|direction| {
            let (rest, v6) = self.rest(direction);
            if v6 {
                Words::new(v6_addrs.read(self.line(), direction), rest)
            } else {
                Words::of_narrow(self.addresses[direction as usize].load(Relaxed), rest)
            }
        })
    }

    /// Whether this is the tuple of a direction.
    #[inline]
    pub(super) fn is(&self, tuple: &Words, direction: Direction, v6_addrs: &V6Addrs) -> bool {
        let (rest, v6) = self.rest(direction);
        if rest != tuple.rest() {
            false
        } else if v6 {
            v6_addrs.read(self.line(), direction) == tuple.addresses()
        } else {
            tuple.narrow() == Some(self.addresses[direction as usize].load(Relaxed))
        }
    }

    pub(super) fn label(&self) -> u128 {
        whole([self.label[0].load(Relaxed), self.label[1].load(Relaxed)])
    }

    #[inline]
    pub(super) fn set_label(&self, label: u128) {
        let [low, high] = halves(label);
        self.label[0].store(low, Relaxed);
        self.label[1].store(high, Relaxed);
    }

    /// When it began, from -[`START_MAX`] to that.
    pub(super) fn start(&self) -> u64 {
        (self.start.load(Relaxed).cast_signed() >> PORT_BITS).cast_unsigned()
    }

    /// The port that it counts for.
    #[inline]
    pub(super) fn port(&self) -> Slot {
        Slot(low16(self.start.load(Relaxed)))
    }

    pub(super) fn packets_high(&self) -> [u16; 2] {
        [self.packets_high[0].load(Relaxed), self.packets_high[1].load(Relaxed)]
    }

    pub(super) fn bytes_high(&self) -> [u32; 2] {
        [self.bytes_high[0].load(Relaxed), self.bytes_high[1].load(Relaxed)]
    }

    /// High halves of counters of packets and bytes.
    pub(super) fn set_high(&self, packets: [u16; 2], bytes: [u32; 2]) {
        for i in 0..2 {
            self.packets_high[i].store(packets[i], Relaxed);
            self.bytes_high[i].store(bytes[i], Relaxed);
        }
    }

    /// The low half of a direction's packets has begun anew, or that of their bytes, or both. True,
    /// always: that can be counted here.
    #[cold]
    pub(super) fn carry(&self, direction: Direction, [packets, bytes]: [bool; 2]) -> bool {
        let (packets_high, bytes_high) = (&self.packets_high[direction as usize], &self.bytes_high[direction as usize]);
        packets_high.store(packets_high.load(Relaxed).wrapping_add(packets.into()), Relaxed);
        bytes_high.store(bytes_high.load(Relaxed).wrapping_add(bytes.into()), Relaxed);
        true
    }
}

/// Of the last word of [`Words`].
const fn ports(rest: u64) -> u32 {
    let [ports, _] = halves32(rest);
    ports
}
