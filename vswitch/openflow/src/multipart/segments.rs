//! A reply of any size as messages.

use super::{Reply, put_header};
use crate::header::{MAX, MULTIPART_HEADER, finish, kind, put_header as put_message_header};
use crate::wire::Writer;
use crate::{Codec, EncodeError};

/// The messages of a reply, in order. An entry that cannot be sent is an error in its
/// place, and the others follow.
#[derive(Debug)]
pub struct Segments<'a> {
    codec: Codec,
    xid: u32,
    reply: &'a Reply,
    /// The next entry.
    at: usize,
    /// An entry that was written, but did not fit into the message before.
    left: Vec<u8>,
    done: bool,
}

impl Codec {
    /// A reply of any size as messages with this xid. There is at least one.
    #[must_use]
    pub const fn segments(self, xid: u32, reply: &Reply) -> Segments<'_> {
        Segments { codec: self, xid, reply, at: 0, left: Vec::new(), done: false }
    }
}

impl Segments<'_> {
    /// The next entry as bytes; None: there is none.
    fn entry(&mut self) -> Option<Result<Vec<u8>, EncodeError>> {
        if self.at == self.reply.len() {
            return None;
        }
        let mut out = Writer::default();
        let written = self.reply.put_entry(self.codec, self.at, &mut out);
        self.at += 1;
        if out.len() > MAX - MULTIPART_HEADER {
            return Some(Err(EncodeError::TooLong(out.len())));
        }
        Some(written.map(|()| out.0).map_err(EncodeError::from))
    }
}

impl Iterator for Segments<'_> {
    type Item = Result<Vec<u8>, EncodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let mut out = Writer::default();
        put_message_header(self.codec, kind::MULTIPART_REPLY, self.xid, &mut out);
        let flags = out.len() + 2;
        put_header(self.codec, self.reply.kind(), true, &mut out);
        let empty = out.len();
        out.bytes(&std::mem::take(&mut self.left));
        loop {
            match self.entry() {
                None => {
                    self.done = true;
                    out.0[flags + 1] = 0;
                    break;
                }
                // Alone, or behind what was written: that goes first.
                Some(Err(error)) if out.len() == empty => return Some(Err(error)),
                Some(Err(_)) => {
                    self.at -= 1;
                    break;
                }
                Some(Ok(entry)) if out.len() + entry.len() > MAX => {
                    self.left = entry;
                    break;
                }
                Some(Ok(entry)) => out.bytes(&entry),
            }
        }
        Some(finish(out))
    }
}
