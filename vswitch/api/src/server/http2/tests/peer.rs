//! A client that writes header blocks in all ways that RFC 7541 and RFC 9113 allow.

use super::super::hpack::write_integer;
use super::super::{END_HEADERS, END_STREAM, HEAD_LEN, Head, PADDED, PRIORITY, huffman};
use proptest::sample::Index;
use std::collections::VecDeque;
use tonic::codegen::http::uri::Authority;

/// Whether the library takes it.
pub(super) fn authority_is_good(value: &[u8]) -> bool {
    Authority::try_from(value).is_ok()
}

/// A field, and how it is written: representation, name, value.
#[derive(Debug, Clone)]
pub(super) struct FieldPlan {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) how: [u8; 3],
}

/// How a block is written.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockPlan {
    pub(super) resize: Option<usize>,
    pub(super) padding: Option<u8>,
    pub(super) priority: bool,
    pub(super) splits: Vec<Index>,
}

/// The table of the client's encoder, the last entry first. Indices of the static table are those
/// of a few names.
pub(super) struct Peer {
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    size_max: usize,
}

impl Default for Peer {
    fn default() -> Self {
        Self { table: VecDeque::new(), size_max: 4096 }
    }
}

const STATIC: [(usize, &str, &str); 8] = [
    (1, ":authority", ""),
    (3, ":method", "POST"),
    (6, ":scheme", "http"),
    (4, ":path", "/"),
    (31, "content-type", ""),
    (16, "accept-encoding", "gzip, deflate"),
    (58, "user-agent", ""),
    (19, "accept", ""),
];

impl Peer {
    fn shrink(&mut self, size: usize) {
        while self.table.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>() > size {
            self.table.pop_back();
        }
    }

    fn find(&self, fits: impl Fn(&[u8], &[u8]) -> bool, dynamic_first: bool) -> Option<usize> {
        let fixed =
            STATIC.iter().find(|(_, name, value)| fits(name.as_bytes(), value.as_bytes())).map(|(index, ..)| *index);
        let own = self.table.iter().position(|(name, value)| fits(name, value)).map(|at| at + 62);
        if dynamic_first { own.or(fixed) } else { fixed.or(own) }
    }

    fn field(&mut self, out: &mut Vec<u8>, field: &FieldPlan) {
        let [how, name_how, value_how] = field.how;
        let exact = self.find(|name, value| name == field.name && value == field.value, how & 4 != 0);
        if let (0, Some(index)) = (how % 4, exact) {
            return write_integer(out, 0x80, 7, index);
        }
        let (pattern, prefix) = [(0x40, 6), (0x40, 6), (0, 4), (0x10, 4)][usize::from(how % 4)];
        let index = self.find(|name, _| name == field.name, name_how & 4 != 0).filter(|_| name_how & 1 == 0);
        write_integer(out, pattern, prefix, index.unwrap_or(0));
        let mut string = |text: &[u8], coded: bool| {
            let bytes = if coded { huffman::encode(text) } else { text.to_vec() };
            write_integer(out, if coded { 0x80 } else { 0 }, 7, bytes.len());
            out.extend(bytes);
        };
        if index.is_none() {
            string(&field.name, name_how & 2 != 0);
        }
        string(&field.value, value_how & 1 != 0);
        if pattern == 0x40 {
            let size = field.name.len() + field.value.len() + 32;
            self.shrink(self.size_max.saturating_sub(size));
            if size <= self.size_max {
                self.table.push_front((field.name.clone(), field.value.clone()));
            }
        }
    }

    /// Appends HEADERS and what CONTINUATION they need.
    pub(super) fn headers(
        &mut self,
        out: &mut Vec<u8>,
        stream: u32,
        fields: &[&FieldPlan],
        plan: &BlockPlan,
        end_stream: bool,
    ) {
        let mut block = Vec::new();
        if let Some(size) = plan.resize {
            write_integer(&mut block, 0x20, 5, size);
            self.size_max = size;
            self.shrink(size);
        }
        fields.iter().for_each(|field| self.field(&mut block, field));
        let mut ends: Vec<_> = plan.splits.iter().map(|at| at.index(block.len() + 1)).collect();
        ends.extend((0..block.len()).step_by(16_000).skip(1));
        ends.push(block.len());
        ends.sort_unstable();
        let mut begin = 0;
        for (nth, &end) in ends.iter().enumerate() {
            let mut payload = block[begin..end].to_vec();
            begin = end;
            let mut flags = if nth + 1 == ends.len() { END_HEADERS } else { 0 };
            if nth > 0 {
                frame(out, 9, flags, stream, &payload);
                continue;
            }
            if end_stream {
                flags |= END_STREAM;
            }
            if plan.priority {
                flags |= PRIORITY;
                payload.splice(..0, [0x80, 0, 0, 0, 7]);
            }
            if let Some(padding) = plan.padding {
                flags |= PADDED;
                payload.insert(0, padding);
                payload.resize(payload.len() + usize::from(padding), 0);
            }
            // On stream 7 that would be a dependency on itself.
            let stream_fits = !(plan.priority && stream == 7);
            if !stream_fits {
                let at = usize::from(plan.padding.is_some());
                payload[at + 4] = 9;
            }
            frame(out, 1, flags, stream, &payload);
        }
    }
}

/// Appends a frame.
pub(super) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    Head { len: payload.len(), kind, flags, stream }.write(out);
    out.extend_from_slice(payload);
}

/// Whether a frame of HEADERS says that its stream depends on itself.
pub(super) fn depends_on_itself(bytes: &[u8]) -> bool {
    let mut rest = &bytes[24..];
    while let Some(head) = rest.first_chunk::<HEAD_LEN>().map(|bytes| Head::read(*bytes)) {
        rest = &rest[HEAD_LEN..];
        let at = usize::from(head.flags & PADDED != 0);
        if head.kind == 1 && head.flags & PRIORITY != 0 && rest.len() >= at + 4 {
            let on = [rest[at] & 0x7f, rest[at + 1], rest[at + 2], rest[at + 3]];
            if u32::from_be_bytes(on) == head.stream {
                return true;
            }
        }
        rest = rest.get(head.len..).unwrap_or_default();
    }
    false
}
