//! `FdbService`.

use super::api::{Asked, Control};
use super::list::parts;
use super::{parse, present};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_control::FdbInfo;
use vswitch_proto::v1;

/// Addresses per message: about 40 KiB, far below any client's limit.
const CHUNK: usize = 1024;

/// See `proto/vswitch/v1/fdb.proto`.
pub(crate) struct Fdbs(pub(crate) Control);

/// The addresses of a table, message by message.
fn chunks(entries: Vec<FdbInfo>) -> BoxStream<v1::ListFdbResponse> {
    parts(entries, CHUNK, present::fdb_entry, |entries| v1::ListFdbResponse { entries })
}

#[tonic::async_trait]
impl v1::fdb_service_server::FdbService for Fdbs {
    type ListFdbStream = BoxStream<v1::ListFdbResponse>;

    async fn list_fdb(&self, request: Request<v1::ListFdbRequest>) -> Result<Response<Self::ListFdbStream>, Status> {
        let bridge = request.into_inner().bridge;
        let entries = self.0.try_read(move |switch| switch.fdb(&bridge)).await?;
        Ok(Response::new(chunks(entries)))
    }

    async fn add_fdb_entry(
        &self,
        request: Request<v1::AddFdbEntryRequest>,
    ) -> Result<Response<v1::AddFdbEntryResponse>, Status> {
        let (_, extensions, v1::AddFdbEntryRequest { bridge, port, vlan, mac }) = request.into_parts();
        let (vlan, mac) = parse::vlan_and_mac(vlan, mac)?;
        let asked = Asked::new("AddFdbEntry", &extensions, &[&bridge, &port, &vlan.to_string(), &mac.to_string()]);
        self.0.change(asked, move |switch| switch.fdb_add(&bridge, &port, vlan, mac)).await?;
        Ok(Response::new(v1::AddFdbEntryResponse {}))
    }

    async fn delete_fdb_entry(
        &self,
        request: Request<v1::DeleteFdbEntryRequest>,
    ) -> Result<Response<v1::DeleteFdbEntryResponse>, Status> {
        let (_, extensions, v1::DeleteFdbEntryRequest { bridge, vlan, mac }) = request.into_parts();
        let (vlan, mac) = parse::vlan_and_mac(vlan, mac)?;
        let asked = Asked::new("DeleteFdbEntry", &extensions, &[&bridge, &vlan.to_string(), &mac.to_string()]);
        self.0.change(asked, move |switch| switch.fdb_delete(&bridge, vlan, mac)).await?;
        Ok(Response::new(v1::DeleteFdbEntryResponse {}))
    }

    async fn flush_fdb(&self, request: Request<v1::FlushFdbRequest>) -> Result<Response<v1::FlushFdbResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let bridge = request.bridge.clone();
        let filter = parse::fdb_filter(request)?;
        let asked = Asked::new("FlushFdb", &extensions, &[&bridge, filter.port.as_deref().unwrap_or("*")]);
        let flushed = self.0.change(asked, move |switch| switch.fdb_flush(&bridge, &filter)).await?;
        Ok(Response::new(v1::FlushFdbResponse { flushed }))
    }

    async fn get_fdb_stats(
        &self,
        request: Request<v1::GetFdbStatsRequest>,
    ) -> Result<Response<v1::GetFdbStatsResponse>, Status> {
        let bridge = request.into_inner().bridge;
        let stats = self.0.try_read(move |switch| switch.fdb_stats(&bridge)).await?;
        Ok(Response::new(v1::GetFdbStatsResponse { stats: Some(present::fdb_stats(stats)) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt;
    use vswitch_dataplane::packet::Mac;

    #[tokio::test]
    async fn a_table_comes_in_chunks_without_loss_or_reordering() {
        for n in [0_u64, 1, 1023, 1024, 1025, 2048, 2049] {
            let entry =
                |i| FdbInfo { port_number: 1, port: "p0".to_owned(), vlan: 0, mac: Mac::from_u64(i), age_s: Some(3) };
            let messages: Vec<_> = chunks((0..n).map(entry).collect()).collect().await;
            let messages: Vec<_> = messages.into_iter().map(|m| m.expect("no error").entries).collect();
            assert_eq!(messages.len() as u64, n.div_ceil(1024), "{n} addresses");
            assert!(messages.iter().all(|entries| (1..=CHUNK).contains(&entries.len())), "{n} addresses");
            let macs: Vec<_> = messages.concat().into_iter().map(|e| e.mac.expect("an address").octets).collect();
            assert_eq!(macs, (0..n).map(|i| Mac::from_u64(i).0.to_vec()).collect::<Vec<_>>(), "{n} addresses");
        }
    }
}
