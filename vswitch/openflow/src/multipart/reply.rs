//! Replies.

use super::{Part, bad_kind, kind, put_header, read_header};
use crate::stats::{self, Counters};
use crate::wire::{Reader, Result, Writer, text};
use crate::{
    Codec, FlowStats, FlowUpdate, GroupFeatures, GroupStats, MeterFeatures, MeterStats, Port, PortStats,
    TableDescription, TableFeatures, TableStats, Version, group, meter,
};
use vswitch_flow::spec::{GroupSpec, MeterSpec};

/// What a switch says it is. Longer texts are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Up to 255 bytes.
    pub manufacturer: String,
    /// Up to 255 bytes.
    pub hardware: String,
    /// Up to 255 bytes.
    pub software: String,
    /// Up to 31 bytes.
    pub serial: String,
    /// Of the bridge, up to 255 bytes.
    pub datapath: String,
}

impl Description {
    fn read(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            manufacturer: text(input.take(256)?),
            hardware: text(input.take(256)?),
            software: text(input.take(256)?),
            serial: text(input.take(32)?),
            datapath: text(input.take(256)?),
        })
    }

    fn put(&self, out: &mut Writer) {
        let Self { manufacturer, hardware, software, serial, datapath } = self;
        for (text, len) in [(manufacturer, 256), (hardware, 256), (software, 256), (serial, 32), (datapath, 256)] {
            out.text(text, len);
        }
    }
}

/// What is answered: what a [`super::Request`] of the same name asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // see Request
pub enum Reply {
    Description(Box<Description>),
    Flows(Vec<FlowStats>),
    Aggregate(Counters),
    Tables(Vec<TableStats>),
    Ports(Vec<PortStats>),
    Groups(Vec<GroupStats>),
    GroupDescriptions(Vec<GroupSpec>),
    GroupFeatures(GroupFeatures),
    Meters(Vec<MeterStats>),
    MeterConfigs(Vec<MeterSpec>),
    MeterFeatures(MeterFeatures),
    TableFeatures(Vec<TableFeatures>),
    TableDescriptions(Vec<TableDescription>),
    PortDescriptions(Vec<Port>),
    FlowMonitor(Vec<FlowUpdate>),
}

fn all<T>(input: &mut Reader<'_>, mut read: impl FnMut(&mut Reader<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    while !input.is_empty() {
        list.push(read(input)?);
    }
    Ok(list)
}

pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Part<Reply>> {
    let (kind, more) = read_header(codec, input)?;
    let body = match kind {
        kind::DESCRIPTION => Reply::Description(Box::new(Description::read(input)?)),
        kind::FLOWS => Reply::Flows(all(input, |input| FlowStats::read(codec, input))?),
        kind::AGGREGATE => Reply::Aggregate(read_aggregate(codec, input)?),
        kind::TABLES => Reply::Tables(all(input, TableStats::read)?),
        kind::PORTS => Reply::Ports(all(input, |input| PortStats::read(codec, input))?),
        kind::GROUPS => Reply::Groups(all(input, GroupStats::read)?),
        kind::GROUP_DESCRIPTIONS => {
            Reply::GroupDescriptions(all(input, |input| group::read_description(codec, input))?)
        }
        kind::GROUP_FEATURES => Reply::GroupFeatures(GroupFeatures::read(input)?),
        kind::METERS => Reply::Meters(all(input, MeterStats::read)?),
        kind::METER_CONFIGS => Reply::MeterConfigs(all(input, meter::read_config)?),
        kind::METER_FEATURES => Reply::MeterFeatures(MeterFeatures::read(input)?),
        kind::TABLE_FEATURES => Reply::TableFeatures(all(input, TableFeatures::read)?),
        kind::TABLE_DESCRIPTIONS => Reply::TableDescriptions(all(input, TableDescription::read)?),
        kind::PORT_DESCRIPTIONS => Reply::PortDescriptions(all(input, |input| Port::read(codec, input))?),
        kind::FLOW_MONITOR => Reply::FlowMonitor(all(input, |input| FlowUpdate::read(codec, input))?),
        kind => return bad_kind(kind),
    };
    Ok(Part { more, body })
}

fn read_aggregate(codec: Codec, input: &mut Reader<'_>) -> Result<Counters> {
    if codec.version == Version::V15 {
        return stats::read(input);
    }
    let (packets, bytes, flows) = (input.u64()?, input.u64()?, input.u32()?);
    input.skip(4)?;
    Ok(Counters { packets: Some(packets), bytes: Some(bytes), flows: Some(flows), ..Counters::default() })
}

fn put_aggregate(codec: Codec, counters: &Counters, out: &mut Writer) {
    if codec.version == Version::V15 {
        return stats::put(counters, out);
    }
    out.u64(counters.packets.unwrap_or(u64::MAX));
    out.u64(counters.bytes.unwrap_or(u64::MAX));
    out.u32(counters.flows.unwrap_or(u32::MAX));
    out.u32(0);
}

impl Reply {
    pub(super) const fn kind(&self) -> u16 {
        match self {
            Self::Description(_) => kind::DESCRIPTION,
            Self::Flows(_) => kind::FLOWS,
            Self::Aggregate(_) => kind::AGGREGATE,
            Self::Tables(_) => kind::TABLES,
            Self::Ports(_) => kind::PORTS,
            Self::Groups(_) => kind::GROUPS,
            Self::GroupDescriptions(_) => kind::GROUP_DESCRIPTIONS,
            Self::GroupFeatures(_) => kind::GROUP_FEATURES,
            Self::Meters(_) => kind::METERS,
            Self::MeterConfigs(_) => kind::METER_CONFIGS,
            Self::MeterFeatures(_) => kind::METER_FEATURES,
            Self::TableFeatures(_) => kind::TABLE_FEATURES,
            Self::TableDescriptions(_) => kind::TABLE_DESCRIPTIONS,
            Self::PortDescriptions(_) => kind::PORT_DESCRIPTIONS,
            Self::FlowMonitor(_) => kind::FLOW_MONITOR,
        }
    }

    /// Entries that can be in messages of their own. One that cannot be cut is one entry.
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Description(_) | Self::Aggregate(_) | Self::GroupFeatures(_) | Self::MeterFeatures(_) => 1,
            Self::Flows(list) => list.len(),
            Self::Tables(list) => list.len(),
            Self::Ports(list) => list.len(),
            Self::Groups(list) => list.len(),
            Self::GroupDescriptions(list) => list.len(),
            Self::Meters(list) => list.len(),
            Self::MeterConfigs(list) => list.len(),
            Self::TableFeatures(list) => list.len(),
            Self::TableDescriptions(list) => list.len(),
            Self::PortDescriptions(list) => list.len(),
            Self::FlowMonitor(list) => list.len(),
        }
    }

    /// Writes one entry.
    pub(super) fn put_entry(&self, codec: Codec, at: usize, out: &mut Writer) -> Result<()> {
        match self {
            Self::Description(description) => description.put(out),
            Self::Aggregate(counters) => put_aggregate(codec, counters, out),
            Self::GroupFeatures(features) => features.put(out),
            Self::MeterFeatures(features) => features.put(out),
            Self::Flows(list) => return list[at].put(codec, out),
            Self::Tables(list) => list[at].put(out),
            Self::Ports(list) => list[at].put(codec, out),
            Self::Groups(list) => list[at].put(out),
            Self::GroupDescriptions(list) => return group::put_description(codec, &list[at], out),
            Self::Meters(list) => list[at].put(out),
            Self::MeterConfigs(list) => meter::put_config(&list[at], out),
            Self::TableFeatures(list) => list[at].put(out),
            Self::TableDescriptions(list) => list[at].put(out),
            Self::PortDescriptions(list) => list[at].put(codec, out),
            Self::FlowMonitor(list) => return list[at].put(codec, out),
        }
        Ok(())
    }

    /// Joins the part that follows; false: it is of another kind, or of one that has no parts.
    pub(crate) fn join(&mut self, next: Self) -> bool {
        match (self, next) {
            (Self::Flows(list), Self::Flows(mut next)) => list.append(&mut next),
            (Self::Tables(list), Self::Tables(mut next)) => list.append(&mut next),
            (Self::Ports(list), Self::Ports(mut next)) => list.append(&mut next),
            (Self::Groups(list), Self::Groups(mut next)) => list.append(&mut next),
            (Self::GroupDescriptions(list), Self::GroupDescriptions(mut next)) => list.append(&mut next),
            (Self::Meters(list), Self::Meters(mut next)) => list.append(&mut next),
            (Self::MeterConfigs(list), Self::MeterConfigs(mut next)) => list.append(&mut next),
            (Self::TableFeatures(list), Self::TableFeatures(mut next)) => list.append(&mut next),
            (Self::TableDescriptions(list), Self::TableDescriptions(mut next)) => list.append(&mut next),
            (Self::PortDescriptions(list), Self::PortDescriptions(mut next)) => list.append(&mut next),
            (Self::FlowMonitor(list), Self::FlowMonitor(mut next)) => list.append(&mut next),
            _ => return false,
        }
        true
    }
}

pub(crate) fn put(codec: Codec, part: &Part<Reply>, out: &mut Writer) -> Result<()> {
    put_header(codec, part.body.kind(), part.more, out);
    (0..part.body.len()).try_for_each(|at| part.body.put_entry(codec, at, out))
}
