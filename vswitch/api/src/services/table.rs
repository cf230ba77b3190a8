//! `TableService`.

use super::api::{Asked, Control};
use super::status::invalid;
use tonic::{Request, Response, Status};
use vswitch_dataplane::pipeline::state::TableInfo;
use vswitch_dataplane::port::FieldError;
use vswitch_proto::v1;

/// Highest number of a table.
const TABLE_MAX: u32 = 253;

/// See `proto/vswitch/v1/table.proto`.
pub(crate) struct Tables(pub(crate) Control);

pub(super) fn table(info: TableInfo) -> v1::Table {
    let TableInfo { id, name, flows, lookups, matches, learn_refused } = info;
    v1::Table { number: id.into(), name: name.unwrap_or_default(), flows, lookups, matches, learn_refused }
}

#[tonic::async_trait]
impl v1::table_service_server::TableService for Tables {
    async fn add_table(&self, request: Request<v1::AddTableRequest>) -> Result<Response<v1::AddTableResponse>, Status> {
        let (_, extensions, v1::AddTableRequest { bridge, name, number }) = request.into_parts();
        let in_range = |number: u32| {
            u8::try_from(number).ok().filter(|_| number <= TABLE_MAX).ok_or_else(|| {
                invalid(&[FieldError::new("number", format!("{number} is no table"), "use 0 to 253, or leave it out")])
            })
        };
        let number = number.map(in_range).transpose()?;
        let asked = Asked::new("AddTable", &extensions, &[&bridge, &name]);
        let number = self.0.change(asked, move |switch| switch.add_table(&bridge, number, &name)).await?;
        Ok(Response::new(v1::AddTableResponse { number: number.into() }))
    }

    async fn delete_table(
        &self,
        request: Request<v1::DeleteTableRequest>,
    ) -> Result<Response<v1::DeleteTableResponse>, Status> {
        let (_, extensions, v1::DeleteTableRequest { bridge, name }) = request.into_parts();
        let asked = Asked::new("DeleteTable", &extensions, &[&bridge, &name]);
        let number = self.0.change(asked, move |switch| switch.delete_table(&bridge, &name)).await?;
        Ok(Response::new(v1::DeleteTableResponse { number: number.into() }))
    }

    async fn list_tables(
        &self,
        request: Request<v1::ListTablesRequest>,
    ) -> Result<Response<v1::ListTablesResponse>, Status> {
        let bridge = request.into_inner().bridge;
        let mut tables = self.0.try_read(move |switch| switch.tables(&bridge)).await?;
        tables.sort_by_key(|table| table.id);
        Ok(Response::new(v1::ListTablesResponse { tables: tables.into_iter().map(table).collect() }))
    }
}
