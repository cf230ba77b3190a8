//! `MeterService`.

use super::api::Control;
use super::group::count;
use super::list::parts;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_dataplane::pipeline::state::MeterInfo;
use vswitch_flow::text::format_meter;
use vswitch_messages as typed;
use vswitch_proto::v1;

/// Meters per message.
const CHUNK: usize = 1024;

/// See `proto/vswitch/v1/meter.proto`.
pub(crate) struct Meters(pub(crate) Control);

fn entry(info: &MeterInfo) -> v1::MeterEntry {
    let mut text = String::new();
    format_meter(&info.meter, &mut text);
    let statistics = v1::MeterStatistics {
        duration_ms: info.duration_ms,
        flow_count: info.flow_count,
        total: Some(v1::Count { packets: info.packets, bytes: info.bytes }),
        bands: info.bands.iter().map(count).collect(),
    };
    v1::MeterEntry { meter: Some(typed::meter_message(&info.meter)), text, statistics: Some(statistics) }
}

#[tonic::async_trait]
impl v1::meter_service_server::MeterService for Meters {
    type ListMetersStream = BoxStream<v1::ListMetersResponse>;

    async fn list_meters(
        &self,
        request: Request<v1::ListMetersRequest>,
    ) -> Result<Response<Self::ListMetersStream>, Status> {
        let v1::ListMetersRequest { bridge, id } = request.into_inner();
        let meters = self.0.try_read(move |switch| switch.meters(&bridge, id)).await?;
        let message = |meters| v1::ListMetersResponse { meters };
        Ok(Response::new(parts(meters, CHUNK, |info| entry(&info), message)))
    }
}
