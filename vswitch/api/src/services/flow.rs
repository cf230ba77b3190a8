//! `FlowService`.

use super::api::Control;
use super::list::{self, Form, measured_parts, parts};
use super::watch::{self, Updates};
use crate::calls::{StreamKind, lose};
use prost::Message;
use std::cmp::Ordering;
use std::sync::Arc;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_control::switch::pipeline::{MegaflowInfo, NameMap};
use vswitch_dataplane::pipeline::state::{FlowInfo, FlowRemoved, RemovedReason};
use vswitch_flow::Field;
use vswitch_flow::spec::FlowFilter;
use vswitch_flow::text::{Parsed, Style, field_by_name, format_flow, parse_filter};
use vswitch_messages as typed;
use vswitch_proto::v1;

/// Flows per message: about 200 KiB of lines.
const CHUNK: usize = 1024;

/// Keys that flows may be sorted by at once.
const SORT_KEYS_MAX: usize = 16;

/// See `proto/vswitch/v1/flow.proto`.
pub(crate) struct Flows(pub(crate) Control);

/// Which flows, before names are known.
enum Wanted {
    All,
    Typed(v1::FlowFilter),
    Text(String),
}

impl Wanted {
    fn filter(&self, names: &NameMap) -> Result<Parsed<FlowFilter>, Status> {
        match self {
            Self::All => Ok(Parsed { value: FlowFilter::default(), warnings: Vec::new() }),
            Self::Typed(filter) => typed::filter(filter, names),
            Self::Text(text) => parse_filter(text, false, names),
        }
        .map_err(|error| list::wrong("filter", &error))
    }
}

/// Flows that were asked for.
struct Selected {
    /// Of their bridge.
    names: NameMap,
    flows: Vec<FlowInfo>,
    /// About the filter.
    warnings: Vec<String>,
}

impl Flows {
    /// Names of a bridge, and the flows that are wanted.
    async fn select(&self, bridge: String, wanted: Wanted) -> Result<Selected, Status> {
        let select = move |switch: &dyn vswitch_control::SwitchApi| {
            let names = switch.names(&bridge)?;
            Ok(match wanted.filter(&names) {
                Ok(Parsed { value, warnings }) => {
                    Ok(Selected { names, flows: switch.flows(&bridge, &value)?, warnings })
                }
                Err(status) => Err(status),
            })
        };
        self.0.try_read(select).await?
    }
}

/// What flows are sorted by.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Priority,
    Field(Field),
}

pub(super) fn sort_keys(keys: &[v1::SortKey]) -> Result<Vec<(Key, bool)>, Status> {
    let wrong = |problem: String, hint: &str| {
        super::status::invalid(&[vswitch_dataplane::port::FieldError::new("sort", problem, hint)])
    };
    if keys.len() > SORT_KEYS_MAX {
        return Err(wrong(format!("{} keys are too many", keys.len()), "give at most 16"));
    }
    let key = |key: &v1::SortKey| match key.field.as_str() {
        "priority" => Ok((Key::Priority, key.descending)),
        name => match field_by_name(name) {
            Some(field) => Ok((Key::Field(field), key.descending)),
            None => Err(wrong(format!("{name:?} is no field"), "use priority, or a field of ovs-fields(7)")),
        },
    };
    keys.iter().map(key).collect()
}

/// By one key. A flow that does not match on a field comes after those that do, whatever the
/// direction.
fn compare(a: &FlowInfo, b: &FlowInfo, key: Key, descending: bool) -> Ordering {
    let directed = |ordering: Ordering| if descending { ordering.reverse() } else { ordering };
    match key {
        Key::Priority => directed(a.flow.priority.cmp(&b.flow.priority)),
        Key::Field(field) => {
            let ((a, a_mask), (b, b_mask)) = (a.flow.matching.get(field), b.flow.matching.get(field));
            match (a_mask != 0, b_mask != 0) {
                (true, true) => directed(a.cmp(&b)),
                (a, b) => b.cmp(&a),
            }
        }
    }
}

fn sort(flows: &mut [FlowInfo], keys: &[(Key, bool)]) {
    flows.sort_by(|a, b| {
        keys.iter()
            .fold(Ordering::Equal, |so_far, (key, descending)| so_far.then_with(|| compare(a, b, *key, *descending)))
    });
}

/// How flows are told.
#[derive(Clone, Copy)]
pub(super) struct Telling {
    pub(super) form: Form,
    pub(super) style: Style,
    pub(super) statistics: bool,
}

pub(super) fn entry(info: &FlowInfo, telling: Telling, names: &NameMap) -> v1::FlowEntry {
    let Telling { form, style, statistics } = telling;
    let mut line = String::new();
    if form == Form::Line {
        format_flow(&info.flow, statistics.then_some(&info.counters), style, names, &mut line);
    }
    let flow = match form {
        Form::Line => None,
        Form::Text => Some(typed::flow_message(&info.flow, false, style, names)),
        Form::Typed => Some(typed::flow_message(&info.flow, true, style, names)),
    };
    let counters = info.counters;
    let statistics = v1::FlowStatistics {
        duration_ms: counters.duration_ms,
        packets: counters.packets,
        bytes: counters.bytes,
        idle_age_seconds: counters.idle_age_s,
        hard_age_seconds: counters.hard_age_s,
        commits: counters.commits,
        rejects: counters.rejects,
    };
    v1::FlowEntry { line, flow, statistics: Some(statistics) }
}

const fn removed_reason(reason: RemovedReason) -> v1::FlowRemovedReason {
    match reason {
        RemovedReason::IdleTimeout => v1::FlowRemovedReason::IdleTimeout,
        RemovedReason::HardTimeout => v1::FlowRemovedReason::HardTimeout,
        RemovedReason::Delete => v1::FlowRemovedReason::Delete,
        RemovedReason::GroupDelete => v1::FlowRemovedReason::GroupDelete,
        RemovedReason::MeterDelete => v1::FlowRemovedReason::MeterDelete,
    }
}

fn megaflow(info: MegaflowInfo) -> v1::Megaflow {
    let MegaflowInfo { worker, bridge, matching, actions, packets, bytes, used_ms_ago } = info;
    v1::Megaflow { worker, bridge, r#match: matching, actions, packets, bytes, used_ms_ago }
}

#[tonic::async_trait]
impl v1::flow_service_server::FlowService for Flows {
    type ListFlowsStream = BoxStream<v1::ListFlowsResponse>;
    type WatchFlowsStream = BoxStream<v1::WatchFlowsResponse>;
    type ListMegaflowsStream = BoxStream<v1::ListMegaflowsResponse>;

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        use v1::list_flows_request::Filter;
        let request = request.into_inner();
        let form = list::form(request.form)?;
        let keys = sort_keys(&request.sort)?;
        let wanted = match request.filter {
            None => Wanted::All,
            Some(Filter::Typed(filter)) => Wanted::Typed(filter),
            Some(Filter::Text(text)) => Wanted::Text(text),
        };
        let Selected { names, mut flows, warnings } = self.select(request.bridge, wanted).await?;
        if !keys.is_empty() {
            flows = self
                .0
                .read(move |_| {
                    sort(&mut flows, &keys);
                    flows
                })
                .await?;
        }
        let telling = Telling { form, style: Style { names: request.names }, statistics: !request.no_statistics };
        let message = |flows| v1::ListFlowsResponse { flows, warnings: Vec::new() };
        let first = (!warnings.is_empty()).then_some(v1::ListFlowsResponse { flows: Vec::new(), warnings });
        let present = move |info: FlowInfo| entry(&info, telling, &names);
        Ok(Response::new(measured_parts(first, flows, CHUNK, present, v1::FlowEntry::encoded_len, message)))
    }

    async fn aggregate_flows(
        &self,
        request: Request<v1::AggregateFlowsRequest>,
    ) -> Result<Response<v1::AggregateFlowsResponse>, Status> {
        use v1::aggregate_flows_request::Filter;
        let request = request.into_inner();
        let wanted = match request.filter {
            None => Wanted::All,
            Some(Filter::Typed(filter)) => Wanted::Typed(filter),
            Some(Filter::Text(text)) => Wanted::Text(text),
        };
        let Selected { flows, warnings, .. } = self.select(request.bridge, wanted).await?;
        let sum = |of: fn(&FlowInfo) -> u64| flows.iter().map(of).fold(0, u64::wrapping_add);
        Ok(Response::new(v1::AggregateFlowsResponse {
            packets: sum(|info| info.counters.packets),
            bytes: sum(|info| info.counters.bytes),
            flows: flows.len() as u64,
            warnings,
        }))
    }

    async fn watch_flows(
        &self,
        request: Request<v1::WatchFlowsRequest>,
    ) -> Result<Response<Self::WatchFlowsStream>, Status> {
        use v1::watch_flows_response::Update;
        let v1::WatchFlowsRequest { bridge, form, names: by_name } = request.into_inner();
        let form = list::form(form)?;
        let wanted = bridge.clone();
        let call = move |switch: &dyn vswitch_control::SwitchApi| {
            Ok((switch.names(&wanted)?, switch.subscribe_flows(&wanted)?))
        };
        let (names, events) = self.0.try_read(call).await?;
        let message = move |update: Updates<Arc<FlowRemoved>>| v1::WatchFlowsResponse {
            update: Some(match update {
                Updates::Event(removed) => {
                    let telling = Telling { form, style: Style { names: by_name }, statistics: true };
                    let mut flow = entry(&removed.flow, telling, &names);
                    if form == Form::Line {
                        flow.line = super::text::flow_removed(&removed, telling.style, &names);
                    }
                    Update::Removed(v1::FlowRemoved { flow: Some(flow), reason: removed_reason(removed.reason).into() })
                }
                Updates::Lost(lost) => {
                    lose(StreamKind::Flows, lost);
                    Update::Lost(lost)
                }
            }),
        };
        Ok(Response::new(watch::stream(Vec::new(), events, self.0.stopping.clone(), message)))
    }

    async fn list_megaflows(
        &self,
        request: Request<v1::ListMegaflowsRequest>,
    ) -> Result<Response<Self::ListMegaflowsStream>, Status> {
        let bridge = request.into_inner().bridge;
        let megaflows = self
            .0
            .try_read(move |switch| {
                if bridge.is_empty() {
                    return Ok(switch.megaflows(None));
                }
                // A bridge that does not exist is an error, not an empty list
                switch.names(&bridge)?;
                Ok(switch.megaflows(Some(&bridge)))
            })
            .await?;
        Ok(Response::new(parts(megaflows, CHUNK, megaflow, |megaflows| v1::ListMegaflowsResponse { megaflows })))
    }
}
