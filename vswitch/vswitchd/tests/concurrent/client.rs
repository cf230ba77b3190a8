//! A connection of one thread, and the clock of the history.

use crate::program::BRIDGE;
use std::time::Instant;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};
use vswitch_proto::v1;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;
use vswitch_proto::v1::flow_service_client::FlowServiceClient;
use vswitch_proto::v1::group_service_client::GroupServiceClient;
use vswitch_proto::v1::meter_service_client::MeterServiceClient;
use vswitch_proto::v1::pipeline_service_client::PipelineServiceClient;
use vswitch_proto::v1::table_service_client::TableServiceClient;
use vswitch_proto::v1::trace_service_client::TraceServiceClient;

/// Nanoseconds since the test began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    pub(crate) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).expect("centuries")
    }
}

/// A connection, used by one thread.
#[derive(Debug)]
pub(crate) struct Client {
    // Before the runtime that it lives in.
    pub(crate) channel: Channel,
    pub(crate) runtime: Runtime,
}

impl Client {
    pub(crate) fn new(socket: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(socket.to_owned()).expect("a socket's address");
        let channel = runtime.block_on(endpoint.connect()).expect("vswitchd listens");
        Self { channel, runtime }
    }

    /// Writes a transaction, as one message or several.
    pub(crate) fn write(
        &self,
        updates: &[v1::Update],
        parts: usize,
        commit: bool,
    ) -> Result<v1::WriteResponse, Status> {
        let size = updates.len().div_ceil(parts).max(1);
        let message = |updates: &[v1::Update]| v1::WriteRequest {
            bridge: BRIDGE.to_owned(),
            updates: updates.to_vec(),
            commit: false,
        };
        let mut requests: Vec<v1::WriteRequest> = updates.chunks(size).map(message).collect();
        requests.last_mut().into_iter().for_each(|last| last.commit = commit);
        let mut service = PipelineServiceClient::new(self.channel.clone());
        self.runtime.block_on(service.write(tokio_stream::iter(requests))).map(Response::into_inner)
    }

    pub(crate) fn flows(&self, filter: Option<v1::FlowFilter>) -> Vec<v1::FlowEntry> {
        let request = v1::ListFlowsRequest {
            bridge: BRIDGE.to_owned(),
            filter: filter.map(v1::list_flows_request::Filter::Typed),
            form: v1::Form::Text.into(),
            ..v1::ListFlowsRequest::default()
        };
        let mut service = FlowServiceClient::new(self.channel.clone());
        self.runtime.block_on(async {
            let stream = service.list_flows(request).await.expect("flows").into_inner();
            all(stream).await.into_iter().flat_map(|part| part.flows).collect()
        })
    }

    pub(crate) fn groups(&self) -> Vec<v1::Group> {
        let (bridge, form) = (BRIDGE.to_owned(), v1::Form::Text.into());
        let request = v1::ListGroupsRequest { bridge, form, ..v1::ListGroupsRequest::default() };
        let mut service = GroupServiceClient::new(self.channel.clone());
        self.runtime.block_on(async {
            let stream = service.list_groups(request).await.expect("groups").into_inner();
            all(stream).await.into_iter().flat_map(|part| part.groups).filter_map(|entry| entry.group).collect()
        })
    }

    pub(crate) fn meters(&self) -> Vec<v1::Meter> {
        let request = v1::ListMetersRequest { bridge: BRIDGE.to_owned(), id: None };
        let mut service = MeterServiceClient::new(self.channel.clone());
        self.runtime.block_on(async {
            let stream = service.list_meters(request).await.expect("meters").into_inner();
            all(stream).await.into_iter().flat_map(|part| part.meters).filter_map(|entry| entry.meter).collect()
        })
    }

    pub(crate) fn tables(&self) -> Vec<v1::Table> {
        let request = v1::ListTablesRequest { bridge: BRIDGE.to_owned() };
        let mut service = TableServiceClient::new(self.channel.clone());
        self.runtime.block_on(service.list_tables(request)).expect("tables").into_inner().tables
    }

    pub(crate) fn trace(&self, flow: &str) -> v1::TraceResponse {
        let input = Some(v1::trace_request::Input::Flow(flow.to_owned()));
        let request = v1::TraceRequest { bridge: BRIDGE.to_owned(), input, names: false, ct_next: Vec::new() };
        let mut service = TraceServiceClient::new(self.channel.clone());
        self.runtime.block_on(service.trace(request)).expect("a trace").into_inner()
    }

    /// Empties the caches of the workers.
    pub(crate) fn flush(&self) {
        let mut service = DummyServiceClient::new(self.channel.clone());
        let request = v1::SetCacheRequest { enabled: None, flush: true };
        self.runtime.block_on(service.set_cache(request)).expect("the cache obeys");
    }
}

async fn all<T>(mut stream: Streaming<T>) -> Vec<T> {
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.expect("a part of an answer") {
        parts.push(part);
    }
    parts
}
