//! Lines: flows, filters, groups, meters, and the lines of bundle files.

use super::{Names, Parsed, Style, TextError};
use crate::spec::{BucketSpec, FlowFilter, FlowSpec, GroupSpec, MeterSpec, Update};

/// What a flow line asks for when it does not say itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FlowCommand {
    Add,
    Modify,
    ModifyStrict,
    Delete,
    DeleteStrict,
}

/// A flow line (ovs-ofctl(8), Flow Syntax) as an update. `table=all` only where it makes sense; checks actions against the match.
/// A line of a dump parses too: duration, n_packets, n_bytes, idle_age, hard_age are skipped.
///
/// # Errors
/// With the column.
pub fn parse_flow(line: &str, command: FlowCommand, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    let _ = (line, command, names);
    Err(TextError { column: 1, reason: String::new(), hint: String::new(), code: "", field: String::new() })
}

/// A filter as dump-flows, dump-aggregate and del-flows take it.
///
/// # Errors
/// With the column.
pub fn parse_filter(line: &str, strict: bool, names: &dyn Names) -> Result<Parsed<FlowFilter>, TextError> {
    let _ = (line, strict, names);
    Ok(Parsed { value: FlowFilter::default(), warnings: Vec::new() })
}

/// What a dump shows beside the flow itself. Times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FlowCounters {
    pub duration_ms: u64,
    pub packets: u64,
    pub bytes: u64,
    pub idle_age_s: u64,
    pub hard_age_s: u64,
}

/// A line of dump-flows, without the leading blank and without newline; counters None: `--no-stats`.
pub fn format_flow(
    flow: &FlowSpec,
    counters: Option<&FlowCounters>,
    style: Style,
    names: &dyn Names,
    out: &mut String,
) {
    let _ = (flow, counters, style, names, out);
}

/// A group line (`group_id=1,type=select,bucket=...`). For insert-buckets and remove-buckets: `command_bucket_id=` is in the result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct GroupLine {
    pub spec: GroupSpec,
    pub kind_given: bool,
    pub place: Option<crate::spec::BucketPlace>,
}

/// See [`GroupLine`].
///
/// # Errors
/// With the column.
pub fn parse_group(line: &str, names: &dyn Names) -> Result<Parsed<GroupLine>, TextError> {
    let _ = (line, names);
    Err(TextError { column: 1, reason: String::new(), hint: String::new(), code: "", field: String::new() })
}

/// A line of dump-groups, without the leading blank.
pub fn format_group(group: &GroupSpec, style: Style, names: &dyn Names, out: &mut String) {
    let _ = (group, style, names, out);
}

/// One bucket, as in a group line.
pub fn format_bucket(bucket: &BucketSpec, select: bool, style: Style, names: &dyn Names, out: &mut String) {
    let _ = (bucket, select, style, names, out);
}

/// A meter line (`meter=1,pktps,burst,bands=type=drop,rate=100,burst_size=10`).
///
/// # Errors
/// With the column.
pub fn parse_meter(line: &str) -> Result<Parsed<MeterSpec>, TextError> {
    let _ = line;
    Err(TextError { column: 1, reason: String::new(), hint: String::new(), code: "", field: String::new() })
}

/// As in dump-meters.
pub fn format_meter(meter: &MeterSpec, out: &mut String) {
    let _ = (meter, out);
}

/// A line of a bundle file (ovs-ofctl(8), `bundle`): `flow add ...`, `group insert_buckets ...`, `meter` too (an extension). A line
/// without `flow`/`group` is a flow line, with an optional command word (`add`, `delete`, ...). Also `packet-out`? No: refused.
///
/// # Errors
/// With the column.
pub fn parse_bundle_line(line: &str, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    parse_flow(line, FlowCommand::Add, names)
}

/// `in_port=36,packet=HEX,actions=...` of packet-out (and metadata fields before `actions`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PacketOut {
    pub metadata: crate::FlowKey,
    pub packet: Vec<u8>,
    pub actions: Vec<crate::Action>,
}

/// See [`PacketOut`].
///
/// # Errors
/// With the column.
pub fn parse_packet_out(line: &str, names: &dyn Names) -> Result<Parsed<PacketOut>, TextError> {
    let _ = (line, names);
    Err(TextError { column: 1, reason: String::new(), hint: String::new(), code: "", field: String::new() })
}
