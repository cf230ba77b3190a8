//! Flows that are told: in replies, and when they go.

use crate::flow::{empty, flags, read_flags};
use crate::stats::{self, Counters};
use crate::wire::{Reader, Result, Writer};
use crate::{Codec, Version, instruction, oxm, seconds};
use vswitch_flow::SparseMatch;
use vswitch_flow::spec::FlowSpec;

/// A flow in a reply, with its statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// The flow.
    pub spec: FlowSpec,
    /// What has gone through it.
    pub counters: Counters,
}

impl FlowStats {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let len = usize::from(input.u16()?);
        let mut body = input.part(len.saturating_sub(2), "OFPBRC_BAD_LEN")?;
        match codec.version {
            Version::V13 => Self::read_13(codec, &mut body),
            Version::V15 => Self::read_15(codec, &mut body),
        }
    }

    fn read_13(codec: Codec, body: &mut Reader<'_>) -> Result<Self> {
        let table = body.u8()?;
        body.skip(1)?;
        let duration = (body.u32()?, body.u32()?);
        let (priority, idle, hard, flags) = (body.u16()?, body.u16()?, body.u16()?, body.u16()?);
        body.skip(4)?;
        let (cookie, packets, bytes) = (body.u64()?, body.u64()?, body.u64()?);
        let matching: SparseMatch = oxm::matching(body)?;
        let spec = FlowSpec {
            table,
            priority,
            matching: matching.into(),
            cookie,
            idle_timeout: idle.into(),
            hard_timeout: hard.into(),
            importance: 0,
            flags: read_flags(flags)?,
            actions: instruction::read(codec, body)?.into(),
        };
        let counters =
            Counters { duration: Some(duration), packets: Some(packets), bytes: Some(bytes), ..Counters::default() };
        Ok(Self { spec, counters })
    }

    fn read_15(codec: Codec, body: &mut Reader<'_>) -> Result<Self> {
        body.skip(2)?;
        let table = body.u8()?;
        body.skip(1)?;
        let (priority, idle, hard, flags) = (body.u16()?, body.u16()?, body.u16()?, body.u16()?);
        let (importance, cookie) = (body.u16()?, body.u64()?);
        let matching = oxm::matching(body)?;
        let counters = stats::read(body)?;
        let spec = FlowSpec {
            table,
            priority,
            matching: matching.into(),
            cookie,
            idle_timeout: idle.into(),
            hard_timeout: hard.into(),
            importance,
            flags: read_flags(flags)?,
            actions: instruction::read(codec, body)?.into(),
        };
        Ok(Self { spec, counters })
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) -> Result<()> {
        let (start, spec, counters) = (out.len(), &self.spec, &self.counters);
        out.u16(0);
        match codec.version {
            Version::V13 => {
                out.u8(spec.table);
                out.u8(0);
                put_time(counters.duration, out);
                put_times(spec, out);
                out.zeros(4);
                out.u64(spec.cookie);
                // All ones: not known.
                out.u64(counters.packets.unwrap_or(u64::MAX));
                out.u64(counters.bytes.unwrap_or(u64::MAX));
                oxm::put_matching(codec, &spec.matching, out);
            }
            Version::V15 => {
                out.u16(0);
                out.u8(spec.table);
                out.u8(0);
                put_times(spec, out);
                out.u16(spec.importance);
                out.u64(spec.cookie);
                oxm::put_matching(codec, &spec.matching, out);
                stats::put(counters, out);
            }
        }
        instruction::put(codec, &spec.actions, out)?;
        out.length(start, start);
        Ok(())
    }
}

/// Priority, timeouts and flags.
fn put_times(spec: &FlowSpec, out: &mut Writer) {
    out.u16(spec.priority);
    out.u16(seconds(spec.idle_timeout));
    out.u16(seconds(spec.hard_timeout));
    out.u16(flags(spec.flags));
}

fn put_time(time: Option<(u32, u32)>, out: &mut Writer) {
    let (seconds, nanoseconds) = time.unwrap_or_default();
    out.u32(seconds);
    out.u32(nanoseconds);
}

/// A flow has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The flow, without its actions and flags.
    pub spec: FlowSpec,
    /// Why: 0 idle, 1 hard timeout, 2 deleted, 3 its group was deleted, 4 its meter, 5 evicted.
    pub reason: u8,
    /// What has gone through it.
    pub counters: Counters,
}

impl FlowRemoved {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let v15 = codec.version == Version::V15;
        let mut spec = empty();
        let reason;
        let mut counters = Counters::default();
        if v15 {
            (spec.table, reason, spec.priority) = (input.u8()?, input.u8()?, input.u16()?);
            (spec.idle_timeout, spec.hard_timeout) = (input.u16()?.into(), input.u16()?.into());
            spec.cookie = input.u64()?;
        } else {
            (spec.cookie, spec.priority, reason, spec.table) = (input.u64()?, input.u16()?, input.u8()?, input.u8()?);
            counters.duration = Some((input.u32()?, input.u32()?));
            (spec.idle_timeout, spec.hard_timeout) = (input.u16()?.into(), input.u16()?.into());
            (counters.packets, counters.bytes) = (Some(input.u64()?), Some(input.u64()?));
        }
        spec.matching = oxm::matching(input)?.into();
        if v15 {
            counters = stats::read(input)?;
        }
        Ok(Self { spec, reason, counters })
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        let (spec, counters) = (&self.spec, &self.counters);
        let v15 = codec.version == Version::V15;
        if v15 {
            out.u8(spec.table);
            out.u8(self.reason);
            out.u16(spec.priority);
        } else {
            out.u64(spec.cookie);
            out.u16(spec.priority);
            // OpenFlow 1.3 does not know that meters go.
            out.u8(if self.reason == 4 { 2 } else { self.reason });
            out.u8(spec.table);
            put_time(counters.duration, out);
        }
        out.u16(seconds(spec.idle_timeout));
        out.u16(seconds(spec.hard_timeout));
        if v15 {
            out.u64(spec.cookie);
        } else {
            out.u64(counters.packets.unwrap_or(u64::MAX));
            out.u64(counters.bytes.unwrap_or(u64::MAX));
        }
        oxm::put_matching(codec, &spec.matching, out);
        if v15 {
            stats::put(counters, out);
        }
    }
}
