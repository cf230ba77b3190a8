//! What the workers of our switch hold of decisions.

use super::Ours;
use crate::masks::Decision;
use crate::subject::BRIDGE;
use vswitch_proto::v1;
use vswitch_proto::v1::flow_service_client::FlowServiceClient;

impl Ours {
    /// What the caches hold.
    pub(super) fn decisions(&self) -> Vec<Decision> {
        let mut service = FlowServiceClient::new(self.channel.clone());
        self.runtime.block_on(async {
            let request = v1::ListMegaflowsRequest { bridge: BRIDGE.to_owned() };
            let mut stream = service.list_megaflows(request).await.expect("a stream of megaflows").into_inner();
            let mut decisions = Vec::new();
            while let Some(message) = stream.message().await.expect("megaflows") {
                decisions.extend(message.megaflows.iter().map(|flow| Decision::of_ours(&flow.r#match, &flow.actions)));
            }
            decisions
        })
    }
}
