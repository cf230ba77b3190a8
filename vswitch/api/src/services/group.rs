//! `GroupService`.

use super::api::Control;
use super::list::{self, Form, parts};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_control::switch::pipeline::NameMap;
use vswitch_dataplane::pipeline::state::GroupInfo;
use vswitch_flow::text::{Style, format_group};
use vswitch_messages as typed;
use vswitch_proto::v1;

/// Groups per message.
const CHUNK: usize = 256;
/// Buckets per message, unless one group has more: about 1 MiB.
const CHUNK_BUCKETS: usize = 16_384;

/// See `proto/vswitch/v1/group.proto`.
pub(crate) struct Groups(pub(crate) Control);

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
    type ListGroupsStream = BoxStream<v1::ListGroupsResponse>;

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> Result<Response<Self::ListGroupsStream>, Status> {
        let v1::ListGroupsRequest { bridge, id, form, names: by_name } = request.into_inner();
        let form = list::form(form)?;
        let call =
            move |switch: &dyn vswitch_control::SwitchApi| Ok((switch.names(&bridge)?, switch.groups(&bridge, id)?));
        let (names, groups) = self.0.try_read(call).await?;
        let style = Style { names: by_name };
        let message = move |groups: Vec<GroupInfo>| v1::ListGroupsResponse {
            groups: groups.iter().map(|info| entry(info, form, style, &names)).collect(),
        };
        let chunks = chunks(groups, |info| info.buckets.len());
        Ok(Response::new(parts(chunks, 1, |chunk| chunk, move |part| message(part.into_iter().flatten().collect()))))
    }
}

/// Groups by message: at most [`CHUNK`] of them, and as many as [`CHUNK_BUCKETS`] allow, but one.
fn chunks<T>(groups: Vec<T>, buckets: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut chunks: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for group in groups {
        let size = buckets(&group);
        match chunks.last_mut().filter(|chunk| chunk.len() < CHUNK && size <= room) {
            Some(chunk) => {
                room -= size;
                chunk.push(group);
            }
            None => {
                room = CHUNK_BUCKETS.saturating_sub(size);
                chunks.push(vec![group]);
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_of_bounded_size() {
        let cases: [(&str, Vec<usize>, &[usize]); 4] = [
            ("none", vec![], &[]),
            ("small ones", vec![10; 600], &[256, 256, 88]),
            ("large ones", vec![CHUNK_BUCKETS, 1, CHUNK_BUCKETS - 1, 1], &[1, 2, 1]),
            ("empty ones", vec![0; 257], &[256, 1]),
        ];
        for (name, sizes, expected) in cases {
            let chunks = chunks(sizes.clone(), |size| *size);
            assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{name}");
            assert_eq!(chunks.concat(), sizes, "{name}");
        }
    }
}
