//! Requests.

use super::{Part, bad_kind, kind, put_header, read_header};
use crate::wire::{Reader, Result, Writer};
use crate::{Codec, MonitorRequest, TableFeatures, Version, flow, group};
use vswitch_flow::spec::FlowFilter;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What the switch is.
    Description,
    /// Flows.
    Flows(FlowFilter),
    /// Statistics of flows, added up.
    Aggregate(FlowFilter),
    /// Statistics of tables.
    Tables,
    /// Statistics of a port; 0xffffffff: of all.
    Ports(u32),
    /// Statistics of a group; 0xfffffffc: of all.
    Groups(u32),
    /// A group; 0xfffffffc: all. In OpenFlow 1.3 always all.
    GroupDescriptions(u32),
    /// What groups can do.
    GroupFeatures,
    /// Statistics of a meter; 0xffffffff: of all.
    Meters(u32),
    /// A meter; 0xffffffff: all.
    MeterConfigs(u32),
    /// What meters can do.
    MeterFeatures,
    /// What tables can do; not empty: what they shall be able to do.
    TableFeatures(Vec<TableFeatures>),
    /// How tables are configured. Only in OpenFlow 1.5.
    TableDescriptions,
    /// A port; 0xffffffff: all. In OpenFlow 1.3 always all.
    PortDescriptions(u32),
    /// Changes of flows.
    FlowMonitor(Vec<MonitorRequest>),
}

/// A number with padding behind it.
fn number(input: &mut Reader<'_>) -> Result<u32> {
    let number = input.u32()?;
    input.skip(4)?;
    Ok(number)
}

fn all<T>(input: &mut Reader<'_>, mut read: impl FnMut(&mut Reader<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    while !input.is_empty() {
        list.push(read(input)?);
    }
    Ok(list)
}

pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Part<Request>> {
    let (kind, more) = read_header(codec, input)?;
    let v13 = codec.version == Version::V13;
    let body = match kind {
        kind::DESCRIPTION => Request::Description,
        kind::FLOWS => Request::Flows(flow::read_filter(input)?),
        kind::AGGREGATE => Request::Aggregate(flow::read_filter(input)?),
        kind::TABLES => Request::Tables,
        kind::PORTS => Request::Ports(number(input)?),
        kind::GROUPS => Request::Groups(number(input)?),
        kind::GROUP_DESCRIPTIONS if v13 => Request::GroupDescriptions(group::ALL_GROUPS),
        kind::GROUP_DESCRIPTIONS => Request::GroupDescriptions(number(input)?),
        kind::GROUP_FEATURES => Request::GroupFeatures,
        kind::METERS => Request::Meters(number(input)?),
        kind::METER_CONFIGS => Request::MeterConfigs(number(input)?),
        kind::METER_FEATURES => Request::MeterFeatures,
        kind::TABLE_FEATURES => Request::TableFeatures(all(input, TableFeatures::read)?),
        kind::TABLE_DESCRIPTIONS => Request::TableDescriptions,
        kind::PORT_DESCRIPTIONS if v13 => Request::PortDescriptions(vswitch_flow::action::port::NONE),
        kind::PORT_DESCRIPTIONS => Request::PortDescriptions(number(input)?),
        kind::FLOW_MONITOR => Request::FlowMonitor(all(input, |input| MonitorRequest::read(codec, input))?),
        kind => return bad_kind(kind),
    };
    Ok(Part { more, body })
}

impl Request {
    const fn kind(&self) -> u16 {
        match self {
            Self::Description => kind::DESCRIPTION,
            Self::Flows(_) => kind::FLOWS,
            Self::Aggregate(_) => kind::AGGREGATE,
            Self::Tables => kind::TABLES,
            Self::Ports(_) => kind::PORTS,
            Self::Groups(_) => kind::GROUPS,
            Self::GroupDescriptions(_) => kind::GROUP_DESCRIPTIONS,
            Self::GroupFeatures => kind::GROUP_FEATURES,
            Self::Meters(_) => kind::METERS,
            Self::MeterConfigs(_) => kind::METER_CONFIGS,
            Self::MeterFeatures => kind::METER_FEATURES,
            Self::TableFeatures(_) => kind::TABLE_FEATURES,
            Self::TableDescriptions => kind::TABLE_DESCRIPTIONS,
            Self::PortDescriptions(_) => kind::PORT_DESCRIPTIONS,
            Self::FlowMonitor(_) => kind::FLOW_MONITOR,
        }
    }

    /// Joins the part that follows; false: it is of another kind, or of one that has no parts.
    pub(crate) fn join(&mut self, next: Self) -> bool {
        match (self, next) {
            (Self::TableFeatures(list), Self::TableFeatures(mut next)) => list.append(&mut next),
            (Self::FlowMonitor(list), Self::FlowMonitor(mut next)) => list.append(&mut next),
            _ => return false,
        }
        true
    }
}

pub(crate) fn put(codec: Codec, part: &Part<Request>, out: &mut Writer) {
    let v13 = codec.version == Version::V13;
    put_header(codec, part.body.kind(), part.more, out);
    match &part.body {
        Request::Flows(filter) | Request::Aggregate(filter) => flow::put_filter(codec, filter, out),
        Request::GroupDescriptions(_) | Request::PortDescriptions(_) if v13 => {}
        Request::Ports(number)
        | Request::Groups(number)
        | Request::GroupDescriptions(number)
        | Request::Meters(number)
        | Request::MeterConfigs(number)
        | Request::PortDescriptions(number) => {
            out.u32(*number);
            out.u32(0);
        }
        Request::TableFeatures(list) => list.iter().for_each(|features| features.put(out)),
        Request::FlowMonitor(list) => list.iter().for_each(|request| request.put(codec, out)),
        Request::Description
        | Request::Tables
        | Request::GroupFeatures
        | Request::MeterFeatures
        | Request::TableDescriptions => {}
    }
}
