//! Copies of packets on their way from a worker to a reader.

use super::{BUFFER_BYTES, RECORDS_MAX};
use crate::observe::DropReason;
use vswitch_dpdk::Mbuf;

/// What is known of a copied packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Index of the interface in its session.
    pub interface: u16,
    /// Place in its burst.
    pub(super) slot: u8,
    /// Why the port refused it, at the point tx.
    pub refused: Option<DropReason>,
    /// The same for all records of one packet; 0: unknown.
    pub id: u64,
    /// TSC cycles when its burst was looked at.
    pub cycles: u64,
    /// Bytes of the packet.
    pub length: u32,
    /// Where its copy begins in the buffer.
    at: u32,
    /// Bytes that were copied.
    kept: u32,
}

/// Room for copies of packets, allocated once.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    used: usize,
    records: Vec<Record>,
}

impl Buffer {
    /// An empty one. Allocates.
    #[must_use]
    pub(super) fn new() -> Self {
        let bytes = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { bytes, used: 0, records: Vec::with_capacity(RECORDS_MAX) }
    }

    /// Whether it has no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether so many packets fit, with so many bytes to be copied of them.
    pub(super) fn has_room(&self, packets: usize, bytes: usize) -> bool {
        self.records.len() + packets <= RECORDS_MAX && self.used + bytes <= BUFFER_BYTES
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.records.clear();
    }

    /// Copies the first bytes of a packet, at most `snaplen`. False if it does not fit.
    pub(super) fn push(&mut self, mbuf: &Mbuf, snaplen: usize, about: Record) -> bool {
        let kept = mbuf.len().min(snaplen);
        let Some(to) = self.bytes.get_mut(self.used..self.used + kept) else { return false };
        if self.records.len() >= RECORDS_MAX || !mbuf.read(0, to) {
            return false;
        }
        #[allow(clippy::cast_possible_truncation)] // at most the size of the buffer
        let (at, kept32) = (self.used as u32, kept as u32);
        self.records.push(Record { at, kept: kept32, ..about });
        self.used += kept;
        true
    }

    /// How many records it has.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The records from this one on, to change.
    pub(super) fn records_from(&mut self, first: usize) -> &mut [Record] {
        self.records.get_mut(first..).unwrap_or_default()
    }

    /// Its records, each with the bytes that were copied.
    pub fn records(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        let bytes = |record: &Record| {
            let at = record.at as usize;
            self.bytes.get(at..at + record.kept as usize).unwrap_or_default()
        };
        self.records.iter().map(move |record| (record, bytes(record)))
    }
}

impl Record {
    /// Of a packet in this place of its burst.
    pub(super) fn new(interface: u16, slot: u8, mbuf: &Mbuf, id: u64, cycles: u64) -> Self {
        let length = u32::try_from(mbuf.len()).unwrap_or(u32::MAX);
        Self { interface, slot, refused: None, id, cycles, length, at: 0, kept: 0 }
    }
}
