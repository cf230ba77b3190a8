//! Monitoring flows: which changes a controller wants to know, and the changes.

use crate::action::port_32;
use crate::wire::{Reader, Result, Writer, refuse};
use crate::{Codec, Version, flow, instruction, oxm, seconds};
use std::sync::Arc;
use vswitch_flow::SparseMatch;
use vswitch_flow::action::PortNo;
use vswitch_flow::spec::FlowSpec;

/// What a request does with a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorCommand {
    /// Begins one.
    Add,
    /// Changes one. Only in OpenFlow 1.5, as the next.
    Modify,
    /// Ends one.
    Delete,
}

/// Asks to be told of changes of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorRequest {
    /// Chosen by the controller.
    pub id: u32,
    /// What is done.
    pub command: MonitorCommand,
    /// Bits: 1 flows that are there, 2 added, 4 removed, 8 changed ones; 0x10 with instructions,
    /// 0x20 own changes in full (only in OpenFlow 1.5), 0x40 own changes.
    pub flags: u16,
    /// Only flows that output to this port; 0xffffffff: any.
    pub out_port: PortNo,
    /// Only flows that use this group; 0xffffffff: any. Only in OpenFlow 1.5.
    pub out_group: u32,
    /// 255: all.
    pub table: u8,
    /// Only flows within this match.
    pub matching: Arc<SparseMatch>,
}

/// In OpenFlow 1.3 and 1.5: "own changes".
const OWN: [u16; 2] = [0x20, 0x40];
/// The flags that both versions have at the same place.
const SAME: u16 = 0x1f;

impl MonitorRequest {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let id = input.u32()?;
        let (flags, out_port, out_group, table, command);
        if codec.version == Version::V13 {
            let bits = input.u16()?;
            input.skip(2)?;
            (out_port, table, out_group, command) = (input.u32()?, input.u8()?, flow::ANY_GROUP, 0);
            input.skip(3)?;
            check_flags(bits, SAME | OWN[0])?;
            flags = bits & SAME | if bits & OWN[0] != 0 { OWN[1] } else { 0 };
        } else {
            (out_port, out_group) = (input.u32()?, input.u32()?);
            (flags, table, command) = (input.u16()?, input.u8()?, input.u8()?);
            check_flags(flags, 0x7f)?;
        }
        let command = match command {
            0 => MonitorCommand::Add,
            1 => MonitorCommand::Modify,
            2 => MonitorCommand::Delete,
            other => return refuse("OFPMOFC_BAD_COMMAND", format!("monitors have no command {other}")),
        };
        let out_port = port_32(out_port, "OFPBRC_BAD_PORT")?;
        Ok(Self { id, command, flags, out_port, out_group, table, matching: oxm::matching(input)?.into() })
    }

    #[allow(clippy::cast_possible_truncation)] // three commands
    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        out.u32(self.id);
        if codec.version == Version::V13 {
            let own = if self.flags & OWN[1] != 0 { OWN[0] } else { 0 };
            out.u16(self.flags & SAME | own);
            let at = out.len();
            out.u16(0);
            out.u32(self.out_port);
            out.u8(self.table);
            out.zeros(3);
            put_match(codec, &self.matching, at, out);
        } else {
            out.u32(self.out_port);
            out.u32(self.out_group);
            out.u16(self.flags);
            out.u8(self.table);
            out.u8(self.command as u8);
            oxm::put_matching(codec, &self.matching, out);
        }
    }
}

/// Writes a match, and its length without padding at `at`.
fn put_match(codec: Codec, matching: &SparseMatch, at: usize, out: &mut Writer) {
    let start = out.len();
    oxm::put_matching(codec, matching, out);
    let len = [out.0[start + 2], out.0[start + 3]];
    out.0[at..at + 2].copy_from_slice(&len);
}

fn check_flags(flags: u16, known: u16) -> Result<()> {
    if flags & !known != 0 {
        return refuse("OFPMOFC_BAD_FLAGS", format!("monitors have no flags {:#x}", flags & !known));
    }
    Ok(())
}

/// What has happened to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowUpdateEvent {
    /// It was there when the monitor began. OpenFlow 1.3 tells it as added.
    Initial,
    /// It has come.
    Added,
    /// It has gone.
    Removed,
    /// It has changed.
    Modified,
}

/// A change that a monitor tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUpdate {
    /// In full.
    Full {
        /// What has happened.
        event: FlowUpdateEvent,
        /// Of a removal, as in [`crate::FlowRemoved::reason`].
        reason: u8,
        /// The flow, without flags. Its actions, if they were asked for.
        spec: FlowSpec,
    },
    /// What a request of this connection did, by its xid.
    Abbreviated(u32),
    /// Changes are not told for now: too many wait. Only in OpenFlow 1.5, as the next; in 1.3 it is
    /// a message of its own.
    Paused,
    /// They are told again.
    Resumed,
}

/// Numbers of events in OpenFlow 1.5.
const ABBREVIATED: u16 = 4;
const PAUSED: u16 = 5;
const RESUMED: u16 = 6;

impl FlowUpdate {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let len = usize::from(input.u16()?);
        let mut body = input.part(len.saturating_sub(2), "OFPBRC_BAD_LEN")?;
        let v13 = codec.version == Version::V13;
        // Of OpenFlow 1.3 the numbers are one less, and there are no initial ones.
        let event = body.u16()?.saturating_add(v13.into());
        let event = match event {
            0 => FlowUpdateEvent::Initial,
            1 => FlowUpdateEvent::Added,
            2 => FlowUpdateEvent::Removed,
            3 => FlowUpdateEvent::Modified,
            ABBREVIATED => return Ok(Self::Abbreviated(body.u32()?)),
            PAUSED if !v13 => return Ok(Self::Paused),
            RESUMED if !v13 => return Ok(Self::Resumed),
            _ => return refuse("NXBRC_FM_BAD_EVENT", format!("flows have no event {event}")),
        };
        let mut spec = flow::empty();
        let reason;
        if v13 {
            reason = u8::try_from(body.u16()?).unwrap_or(u8::MAX);
            spec.priority = body.u16()?;
            (spec.idle_timeout, spec.hard_timeout) = (body.u16()?.into(), body.u16()?.into());
            body.skip(2)?;
            spec.table = body.u8()?;
            body.skip(1)?;
        } else {
            (spec.table, reason) = (body.u8()?, body.u8()?);
            (spec.idle_timeout, spec.hard_timeout) = (body.u16()?.into(), body.u16()?.into());
            spec.priority = body.u16()?;
            body.skip(4)?;
        }
        spec.cookie = body.u64()?;
        spec.matching = oxm::matching(&mut body)?.into();
        spec.actions = instruction::read(codec, &mut body)?.into();
        Ok(Self::Full { event, reason, spec })
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) -> Result<()> {
        let start = out.len();
        let v13 = codec.version == Version::V13;
        out.u16(0);
        match self {
            Self::Abbreviated(xid) => {
                out.u16(ABBREVIATED - u16::from(v13));
                out.u32(*xid);
            }
            Self::Paused | Self::Resumed => {
                out.u16(if *self == Self::Paused { PAUSED } else { RESUMED });
                out.u32(0);
            }
            Self::Full { event, reason, spec } => {
                out.u16((*event as u16).saturating_sub(v13.into()));
                let at = put_fixed(v13, *reason, spec, out);
                out.u64(spec.cookie);
                match at {
                    Some(at) => put_match(codec, &spec.matching, at, out),
                    None => oxm::put_matching(codec, &spec.matching, out),
                }
                instruction::put(codec, &spec.actions, out)?;
            }
        }
        out.length(start, start);
        Ok(())
    }
}

/// Writes all up to the cookie; returns where the length of the match goes, if it goes there.
fn put_fixed(v13: bool, reason: u8, spec: &FlowSpec, out: &mut Writer) -> Option<usize> {
    if !v13 {
        out.u8(spec.table);
        out.u8(reason);
        out.u16(seconds(spec.idle_timeout));
        out.u16(seconds(spec.hard_timeout));
        out.u16(spec.priority);
        out.u32(0);
        return None;
    }
    out.u16(reason.into());
    out.u16(spec.priority);
    out.u16(seconds(spec.idle_timeout));
    out.u16(seconds(spec.hard_timeout));
    let at = out.len();
    out.u16(0);
    out.u8(spec.table);
    out.u8(0);
    Some(at)
}
