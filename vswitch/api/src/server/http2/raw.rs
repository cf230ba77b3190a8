//! For tests of the server: frames, written and read by hand.

use super::hpack::{Decoder, Field};
use super::{END_HEADERS, END_STREAM, HEAD_LEN, HEADERS, Head, RST_STREAM};
use std::ops::ControlFlow;

/// The frames of a call: its headers as literals, its body.
pub(in super::super) fn call(stream: u32, fields: &[(&str, &[u8])], body: &[u8]) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    for (name, value) in fields {
        Field { name: name.as_bytes(), value, never_indexed: false }.write(&mut block);
    }
    Head { len: block.len(), kind: HEADERS, flags: END_HEADERS, stream }.write(&mut out);
    out.extend(block);
    Head { len: body.len(), kind: 0, flags: END_STREAM, stream }.write(&mut out);
    out.extend_from_slice(body);
    out
}

/// What a server sent.
pub(in super::super) enum Frame {
    Headers { stream: u32, fields: Vec<(String, String)> },
    Reset { stream: u32, code: u32 },
    Other,
}

/// Reads the frames of a server.
#[derive(Default)]
pub(in super::super) struct Answers {
    bytes: Vec<u8>,
    decoder: Decoder,
}

impl Answers {
    pub(in super::super) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(in super::super) fn next(&mut self) -> Option<Frame> {
        let head = Head::read(*self.bytes.first_chunk()?);
        if self.bytes.len() < HEAD_LEN + head.len {
            return None;
        }
        let payload: Vec<_> = self.bytes.drain(..HEAD_LEN + head.len).skip(HEAD_LEN).collect();
        Some(match head.kind {
            HEADERS => {
                let mut fields = Vec::new();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let all = self.decoder.decode(&payload, |field| {
                    fields.push((text(field.name), text(field.value)));
                    ControlFlow::Continue(())
                });
                let _ = all.expect("a server that encodes well");
                Frame::Headers { stream: head.stream, fields }
            }
            RST_STREAM => {
                let code = payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).expect("a code");
                Frame::Reset { stream: head.stream, code }
            }
            _ => Frame::Other,
        })
    }
}
