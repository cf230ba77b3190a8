//! Statistics of flows: fixed numbers in OpenFlow 1.3, a list of entries (OXS) in 1.5.

use crate::wire::{Reader, Result, Writer, refuse};

/// The class of the entries that OpenFlow defines.
const OXS: u16 = 0x8002;

mod kind {
    pub(super) const DURATION: u8 = 0;
    pub(super) const IDLE_TIME: u8 = 1;
    pub(super) const FLOW_COUNT: u8 = 3;
    pub(super) const PACKET_COUNT: u8 = 4;
    pub(super) const BYTE_COUNT: u8 = 5;
}

/// Statistics of a flow, or of several. What is not known is not sent in OpenFlow 1.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Seconds and nanoseconds that it has been there.
    pub duration: Option<(u32, u32)>,
    /// Seconds and nanoseconds that it has not been used. Only in OpenFlow 1.5.
    pub idle: Option<(u32, u32)>,
    /// Flows that were counted.
    pub flows: Option<u32>,
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

/// Reads a list with its header.
pub(crate) fn read(input: &mut Reader<'_>) -> Result<Counters> {
    const BAD_LEN: &str = "OFPBRC_BAD_LEN";
    input.skip(2)?;
    let len = usize::from(input.u16()?);
    let Some(body) = len.checked_sub(4) else {
        return refuse(BAD_LEN, format!("statistics of {len} bytes are shorter than their header"));
    };
    let mut entries = input.part(body, BAD_LEN)?;
    input.skip(len.next_multiple_of(8) - len)?;
    let mut counters = Counters::default();
    while !entries.is_empty() {
        let (class, kind, len) = (entries.u16()?, entries.u8()? >> 1, entries.u8()?);
        let mut entry = entries.part(len.into(), BAD_LEN)?;
        match (class, kind) {
            (OXS, kind::DURATION) => counters.duration = Some((entry.u32()?, entry.u32()?)),
            (OXS, kind::IDLE_TIME) => counters.idle = Some((entry.u32()?, entry.u32()?)),
            (OXS, kind::FLOW_COUNT) => counters.flows = Some(entry.u32()?),
            (OXS, kind::PACKET_COUNT) => counters.packets = Some(entry.u64()?),
            (OXS, kind::BYTE_COUNT) => counters.bytes = Some(entry.u64()?),
            // Others are statistics of later versions.
            _ => continue,
        }
        entry.end()?;
    }
    Ok(counters)
}

/// Writes a list with its header.
pub(crate) fn put(counters: &Counters, out: &mut Writer) {
    let start = out.len();
    out.u32(0);
    let time = |kind: u8, time: Option<(u32, u32)>, out: &mut Writer| {
        if let Some((seconds, nanoseconds)) = time {
            header(kind, 8, out);
            out.u32(seconds);
            out.u32(nanoseconds);
        }
    };
    time(kind::DURATION, counters.duration, out);
    time(kind::IDLE_TIME, counters.idle, out);
    for (kind, count) in [(kind::PACKET_COUNT, counters.packets), (kind::BYTE_COUNT, counters.bytes)] {
        if let Some(count) = count {
            header(kind, 8, out);
            out.u64(count);
        }
    }
    if let Some(flows) = counters.flows {
        header(kind::FLOW_COUNT, 4, out);
        out.u32(flows);
    }
    out.length(start + 2, start);
    out.pad(start);
}

fn header(kind: u8, len: u8, out: &mut Writer) {
    out.u16(OXS);
    out.u8(kind << 1);
    out.u8(len);
}
