//! `GroupService`.

use super::api::Control;
use super::list::{self, Form, Parts, parts};
use super::typed;
use crate::control::switch::pipeline::NameMap;
use crate::pipeline::state::GroupInfo;
use tonic::{Request, Response, Status};
use vswitch_flow::text::{Style, format_group};
use vswitch_proto::v1;

/// Groups per message: about 1 MiB if each has 64 buckets.
const CHUNK: usize = 256;

/// See `proto/vswitch/v1/group.proto`.
pub(in crate::control) struct Groups(pub(in crate::control) Control);

/// Packets and bytes.
pub(super) fn count(&(packets, bytes): &(u64, u64)) -> v1::Count {
    v1::Count { packets, bytes }
}

fn entry(info: &GroupInfo, form: Form, style: Style, names: &NameMap) -> v1::GroupEntry {
    let mut line = String::new();
    if form == Form::Line {
        format_group(&info.group, style, names, &mut line);
    }
    let group = match form {
        Form::Line => None,
        Form::Text => Some(typed::group_message(&info.group, false, style, names)),
        Form::Typed => Some(typed::group_message(&info.group, true, style, names)),
    };
    let statistics = v1::GroupStatistics {
        duration_ms: info.duration_ms,
        ref_count: info.ref_count,
        total: Some(v1::Count { packets: info.packets, bytes: info.bytes }),
        buckets: info.buckets.iter().map(count).collect(),
    };
    v1::GroupEntry { id: info.group.id, line, group, statistics: Some(statistics) }
}

#[tonic::async_trait]
impl v1::group_service_server::GroupService for Groups {
    type ListGroupsStream = Parts<v1::ListGroupsResponse>;

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> Result<Response<Self::ListGroupsStream>, Status> {
        let v1::ListGroupsRequest { bridge, id, form, names: by_name } = request.into_inner();
        let form = list::form(form)?;
        let call = move |switch: &dyn super::SwitchApi| Ok((switch.names(&bridge)?, switch.groups(&bridge, id)?));
        let (names, groups) = self.0.try_read(call).await?;
        let style = Style { names: by_name };
        let message = |groups| v1::ListGroupsResponse { groups };
        Ok(Response::new(parts(groups, CHUNK, move |info| entry(&info, form, style, &names), message)))
    }
}
