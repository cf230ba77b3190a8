//! `TraceService`.

use super::api::Control;
use super::status::invalid;
use tonic::{Request, Response, Status};
use vswitch_conntrack::state;
use vswitch_control::SwitchError;
use vswitch_control::switch::pipeline::{NameMap, TraceHow, TraceInput, TraceReport};
use vswitch_dataplane::limits::RECIRCULATIONS_MAX;
use vswitch_dataplane::port::FieldError;
use vswitch_flow::text::{CT_STATE, Names};
use vswitch_proto::v1;

/// See `proto/vswitch/v1/trace.proto`.
pub(crate) struct Traces(pub(crate) Control);

/// A port by number or name.
fn port(bridge: &str, text: &str, names: &NameMap) -> Result<u32, SwitchError> {
    let reserved = || text.eq_ignore_ascii_case("LOCAL").then_some(vswitch_control::LOCAL);
    names.port(text).or_else(|| text.parse().ok()).or_else(reserved).ok_or_else(|| SwitchError::NotFound {
        what: "port",
        name: text.to_owned(),
        hint: format!("`vsctl list-ports {bridge}` lists the ports of bridge {bridge:?}"),
    })
}

/// `ct_state` behind each `ct()`.
fn states(texts: &[String]) -> Result<Vec<u32>, Status> {
    let flag = |text: &str| {
        let bit = CT_STATE.iter().position(|name| name.eq_ignore_ascii_case(text)).map(|i| 1 << i);
        let hint = format!("flags are {}, with commas between them", CT_STATE.join(" "));
        bit.ok_or_else(|| invalid(&[FieldError::new("ct_next", format!("{text:?} is no flag of ct_state"), hint)]))
    };
    let state = |text: &String| {
        let flags = text.split([',', '|', '+']).map(str::trim).filter(|text| !text.is_empty());
        flags.map(flag).try_fold(state::TRK, |state, flag| Ok(state | flag?))
    };
    texts.iter().take(RECIRCULATIONS_MAX as usize).map(state).collect()
}

#[tonic::async_trait]
impl v1::trace_service_server::TraceService for Traces {
    async fn trace(&self, request: Request<v1::TraceRequest>) -> Result<Response<v1::TraceResponse>, Status> {
        use v1::trace_request::Input;
        let v1::TraceRequest { bridge, input, names, ct_next } = request.into_inner();
        let how = TraceHow { names, ct_next: states(&ct_next)? };
        let report = match input {
            None => return Err(invalid(&[FieldError::new("input", "not given", "give flow or packet")])),
            Some(Input::Flow(flow)) => {
                self.0.try_read(move |switch| switch.trace(&bridge, &TraceInput::Flow(flow), &how)).await?
            }
            Some(Input::Packet(v1::TracePacket { in_port, packet })) => {
                let call = move |switch: &dyn vswitch_control::SwitchApi| {
                    let in_port = port(&bridge, &in_port, &switch.names(&bridge)?)?;
                    switch.trace(&bridge, &TraceInput::Packet { in_port, bytes: packet }, &how)
                };
                self.0.try_read(call).await?
            }
        };
        let TraceReport { text, final_flow, megaflow, actions, drop_reason } = report;
        let drop_reason = drop_reason.unwrap_or_default().to_owned();
        Ok(Response::new(v1::TraceResponse { text, final_flow, megaflow, actions, drop_reason }))
    }
}
