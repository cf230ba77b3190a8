//! Flows: mods, statistics, removals.

use crate::wire::{Reader, Result, Writer, refuse};
use crate::{Codec, Version, instruction, oxm, seconds};
use std::sync::Arc;
use vswitch_flow::action::{CheckContext, ListPlace, PortNo, accept, known_table, port};
use vswitch_flow::spec::{FlowFilter, FlowFlags, FlowSpec, Update};
use vswitch_flow::{Action, Field, Refusal};

/// All tables.
pub(crate) const ALL_TABLES: u8 = 0xff;
/// Any group.
pub(crate) const ANY_GROUP: u32 = 0xffff_ffff;
/// A mod that refers to no buffered packet.
pub(crate) const NO_BUFFER: u32 = 0xffff_ffff;

/// What a flow mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Adds a flow.
    Add,
    /// Changes the actions of matching flows.
    Modify,
    /// Changes the actions of the flow with this match and priority.
    ModifyStrict,
    /// Deletes matching flows.
    Delete,
    /// Deletes the flow with this match and priority.
    DeleteStrict,
}

impl FlowCommand {
    const ALL: [Self; 5] = [Self::Add, Self::Modify, Self::ModifyStrict, Self::Delete, Self::DeleteStrict];

    fn from_number(number: u8) -> Result<Self> {
        match Self::ALL.get(usize::from(number)) {
            Some(command) => Ok(*command),
            None => refuse("OFPFMFC_BAD_COMMAND", format!("flow mods have no command {number}")),
        }
    }
}

/// Adds, changes or deletes flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// What it does.
    pub command: FlowCommand,
    /// The flow: for commands but [`FlowCommand::Add`] a filter, and new actions. `spec.table` is
    /// 255 where all tables are meant.
    pub spec: FlowSpec,
    /// Bits of the cookie that a filter compares.
    pub cookie_mask: u64,
    /// A packet that was sent without its end. None are buffered: the switch ignores it.
    pub buffer_id: u32,
    /// Only flows that output to this port; [`port::NONE`]: any.
    pub out_port: PortNo,
    /// Only flows that use this group; 0xffffffff: any.
    pub out_group: u32,
}

impl FlowMod {
    /// A flow to add.
    #[must_use]
    pub const fn add(spec: FlowSpec) -> Self {
        Self {
            command: FlowCommand::Add,
            spec,
            cookie_mask: 0,
            buffer_id: NO_BUFFER,
            out_port: port::NONE,
            out_group: ANY_GROUP,
        }
    }

    /// What it asks the switch for. Actions are checked and in their normal form.
    ///
    /// # Errors
    /// What Open vSwitch refuses of it, whatever flows there are.
    pub fn update(&self) -> Result<Update> {
        match self.command {
            FlowCommand::Add => self.addition(),
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                let filter = self.filter(self.command == FlowCommand::ModifyStrict)?;
                let actions = self.accepted(filter.table.unwrap_or_default())?;
                // The cookie of a modification selects flows; it never changes theirs.
                Ok(Update::ModifyFlows { filter, actions, reset_counts: self.spec.flags.reset_counts, cookie: None })
            }
            FlowCommand::Delete => Ok(Update::DeleteFlows(self.filter(false)?)),
            FlowCommand::DeleteStrict => Ok(Update::DeleteFlows(self.filter(true)?)),
        }
    }

    fn addition(&self) -> Result<Update> {
        let table = self.spec.table;
        if table == ALL_TABLES {
            return refuse("OFPFMFC_BAD_TABLE_ID", "a flow is added to one table");
        }
        known_table(table)?;
        Ok(Update::AddFlow(FlowSpec { actions: self.accepted(table)?, ..self.spec.clone() }))
    }

    fn accepted(&self, table: u8) -> Result<Arc<[Action]>> {
        for field in [Field::RecircId, Field::DpHash] {
            if self.spec.matching.get(field).1 != 0 {
                return refuse("OFPBRC_EPERM", format!("{} is the switch's own: flows cannot match it", field.name()));
            }
        }
        let matching = Some(&*self.spec.matching);
        let context = CheckContext { matching, place: ListPlace::Flow { table } };
        Ok(accept(self.spec.actions.to_vec(), &context).map_err(of_check)?.into())
    }

    fn filter(&self, strict: bool) -> Result<FlowFilter> {
        let table = (self.spec.table != ALL_TABLES).then_some(self.spec.table);
        table.map_or(Ok(()), known_table)?;
        let filter = FlowFilter {
            table,
            matching: Arc::clone(&self.spec.matching),
            strict: strict.then_some(self.spec.priority),
            cookie: self.spec.cookie,
            cookie_mask: self.cookie_mask,
            out_port: Some(self.out_port),
            out_group: Some(self.out_group),
        };
        let filter = filter.checked()?;
        let deletes = matches!(self.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        Ok(if deletes { filter } else { FlowFilter { out_port: None, out_group: None, ..filter } })
    }

    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let (cookie, cookie_mask) = (input.u64()?, input.u64()?);
        let (table, command) = (input.u8()?, input.u8()?);
        let (idle, hard, priority) = (input.u16()?, input.u16()?, input.u16()?);
        let (buffer_id, out_port, out_group) = (input.u32()?, input.u32()?, input.u32()?);
        let (flags, importance) = (input.u16()?, input.u16()?);
        let matching = oxm::matching(input)?;
        let actions = instruction::read(codec, input)?;
        let command = FlowCommand::from_number(command)?;
        let spec = FlowSpec {
            table,
            priority,
            matching: matching.into(),
            cookie,
            idle_timeout: idle.into(),
            hard_timeout: hard.into(),
            importance: if codec.version == Version::V15 { importance } else { 0 },
            flags: read_flags(flags)?,
            actions: actions.into(),
        };
        let out_port = crate::action::port_32(out_port, "OFPBAC_BAD_OUT_PORT")?;
        Ok(Self { command, spec, cookie_mask, buffer_id, out_port, out_group })
    }

    #[allow(clippy::cast_possible_truncation)] // five commands
    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) -> Result<()> {
        let spec = &self.spec;
        out.u64(spec.cookie);
        out.u64(self.cookie_mask);
        out.u8(spec.table);
        out.u8(self.command as u8);
        out.u16(seconds(spec.idle_timeout));
        out.u16(seconds(spec.hard_timeout));
        out.u16(spec.priority);
        out.u32(self.buffer_id);
        out.u32(self.out_port);
        out.u32(self.out_group);
        out.u16(flags(spec.flags));
        out.u16(if codec.version == Version::V15 { spec.importance } else { 0 });
        oxm::put_matching(codec, &spec.matching, out);
        instruction::put(codec, &spec.actions, out)
    }
}

/// What a check of actions found.
pub(crate) fn of_check(error: vswitch_flow::action::CheckError) -> Refusal {
    let vswitch_flow::action::CheckError { code, reason, hint, index } = error;
    Refusal { code, field: "actions", reason: format!("action {}: {reason}", index + 1), hint }
}

/// Flags by their bits.
pub(crate) fn read_flags(flags: u16) -> Result<FlowFlags> {
    if flags & !0x1f != 0 {
        return refuse("OFPFMFC_BAD_FLAGS", format!("flows have no flags {flags:#x}"));
    }
    let bit = |bit: u16| flags & 1 << bit != 0;
    Ok(FlowFlags {
        send_flow_rem: bit(0),
        check_overlap: bit(1),
        reset_counts: bit(2),
        no_packet_counts: bit(3),
        no_byte_counts: bit(4),
    })
}

/// Bits of flags.
pub(crate) fn flags(flags: FlowFlags) -> u16 {
    let FlowFlags { send_flow_rem, check_overlap, reset_counts, no_packet_counts, no_byte_counts } = flags;
    [send_flow_rem, check_overlap, reset_counts, no_packet_counts, no_byte_counts]
        .into_iter()
        .enumerate()
        .fold(0, |flags, (bit, given)| flags | u16::from(given) << bit)
}

/// Reads which flows a request for statistics means.
pub(crate) fn read_filter(input: &mut Reader<'_>) -> Result<FlowFilter> {
    let table = input.u8()?;
    input.skip(3)?;
    let (out_port, out_group) = (input.u32()?, input.u32()?);
    input.skip(4)?;
    let (cookie, cookie_mask) = (input.u64()?, input.u64()?);
    let matching = oxm::matching(input)?.into();
    let table = (table != ALL_TABLES).then_some(table);
    let filter = FlowFilter {
        table,
        matching,
        strict: None,
        cookie,
        cookie_mask,
        out_port: Some(out_port),
        out_group: Some(out_group),
    };
    filter.checked()
}

/// Writes the same.
pub(crate) fn put_filter(codec: Codec, filter: &FlowFilter, out: &mut Writer) {
    out.u8(filter.table.unwrap_or(ALL_TABLES));
    out.zeros(3);
    out.u32(filter.out_port.unwrap_or(port::NONE));
    out.u32(filter.out_group.unwrap_or(ANY_GROUP));
    out.zeros(4);
    out.u64(filter.cookie);
    out.u64(filter.cookie_mask);
    oxm::put_matching(codec, &filter.matching, out);
}

/// A flow of which nothing is known.
pub(crate) fn empty() -> FlowSpec {
    FlowSpec {
        table: 0,
        priority: 0,
        matching: Arc::default(),
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: Arc::default(),
    }
}
