//! Our switch as a Node of Antrea's kind: told by gRPC, as an agent tells it.

use super::Ours;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;

impl Ours {
    /// It becomes this Node, with these objects. From then on packet-ins are not collected.
    ///
    /// # Panics
    /// When it refuses anything.
    pub(crate) fn become_node(&mut self, node: v1::NodeConfig, objects: Vec<Object>) {
        (self.listens, self.spent) = (false, true);
        let mut nodes = NodeServiceClient::new(self.channel.clone());
        let mut sync = SyncServiceClient::new(self.channel.clone());
        let objects: Vec<v1::Object> = objects.into_iter().map(|object| v1::Object { object: Some(object) }).collect();
        let begin = v1::SyncBegin { round: 2, ..v1::SyncBegin::default() };
        let commit = v1::SyncCommit { objects: objects.len() as u64 };
        let message = v1::SyncRequest { begin: Some(begin), objects, commit: Some(commit) };
        let synced = self.runtime.block_on(async {
            let request = v1::InitializeRequest { node: Some(node), round: 1 };
            nodes.initialize(request).await.unwrap_or_else(|status| panic!("{status}"));
            sync.sync(tokio_stream::iter([message])).await.unwrap_or_else(|status| panic!("{status}")).into_inner()
        });
        assert!(synced.gate_open, "{synced:?}");
    }
}
