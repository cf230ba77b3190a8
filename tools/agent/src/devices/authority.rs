//! A connection of a kubelet, whose requests any HTTP/2 server understands.
//!
//! A kubelet dials a plug-in by the path of its socket, and gRPC for Go sends that path as
//! `:authority`. It is no authority (RFC 3986, section 3.2), and the crate `h2` refuses such a
//! request as a protocol error. So the header's value is overwritten on its way: with as many
//! letters as it has bytes, not compressed. No length changes, and the server reads no value.
//!
//! HPACK (RFC 7541): a header that stands in the table of this end is then shorter than the kubelet
//! believes, never longer. So this end forgets no entry that the kubelet still means.
//!
//! **Limits**: a block of headers that goes on in a CONTINUATION frame stays as it is. A frame of
//! headers has 16 KiB at most, as the server tells the kubelet: gRPC sends some hundred bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// Bytes of what a client says first.
const PREFACE_LEN: usize = 24;

/// Bytes of a frame's head.
const HEAD_LEN: usize = 9;

/// Bytes of a frame, unless both ends agree on more.
const FRAME_LEN_MAX: usize = 16_384;

/// The type of a frame with headers, and its flags.
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;

/// The index of `:authority` among names.
const AUTHORITY: usize = 1;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    rewriter: Rewriter,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, rewriter: Rewriter { passing: PREFACE_LEN, ..Rewriter::default() } }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let rewriter = &mut self.rewriter;
            if !rewriter.ready.is_empty() {
                let len = rewriter.ready.len().min(buf.remaining());
                buf.put_slice(&rewriter.ready[..len]);
                rewriter.ready.drain(..len);
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; 4096];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(())); // what is left is half a frame
            }
            self.rewriter.push(read.filled());
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Finds frames of headers among the bytes of a connection.
#[derive(Debug, Default)]
struct Rewriter {
    /// Bytes that go on as they are.
    passing: usize,
    /// What was read, and is no whole frame of headers yet.
    held: Vec<u8>,
    /// What may be handed on.
    ready: Vec<u8>,
}

impl Rewriter {
    fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        loop {
            if self.passing > 0 {
                let len = self.passing.min(self.held.len());
                self.ready.extend(self.held.drain(..len));
                self.passing -= len;
            }
            let Some(&[a, b, c, kind, flags]) = self.held.first_chunk() else { return };
            let len = HEAD_LEN + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
            if kind == HEADERS && len <= HEAD_LEN + FRAME_LEN_MAX {
                if self.held.len() < len {
                    return;
                }
                if let Some(block) = block(&mut self.held[HEAD_LEN..len], flags) {
                    overwrite(block);
                }
            }
            self.passing = len;
        }
    }
}

/// The headers in a frame's payload.
fn block(payload: &mut [u8], flags: u8) -> Option<&mut [u8]> {
    let (begin, padding) = if flags & PADDED == 0 { (0, 0) } else { (1, usize::from(*payload.first()?)) };
    let begin = begin + if flags & PRIORITY == 0 { 0 } else { 5 };
    let end = payload.len().checked_sub(padding)?;
    payload.get_mut(begin..end)
}

/// Overwrites the value of `:authority`, if it is written out. None: the block is wrong from some
/// place on, which the server finds, too.
fn overwrite(block: &mut [u8]) -> Option<()> {
    let mut at = 0;
    while let Some(&first) = block.get(at) {
        let prefix = match first {
            0x80.. => 7,      // from the table, with its value
            0x40..=0x7f => 6, // written out, and into the table
            0x20..=0x3f => 5, // the size of the table
            _ => 4,           // written out
        };
        let name = number(block, &mut at, prefix)?;
        if prefix == 7 || prefix == 5 {
            continue;
        }
        if name == 0 {
            let len = number(block, &mut at, 7)?;
            at = at.checked_add(len)?;
        }
        let head = at;
        let len = number(block, &mut at, 7)?;
        let end = at.checked_add(len)?;
        if name == AUTHORITY {
            block.get_mut(at..end)?.fill(b'a');
            block[head] &= 0x7f; // not compressed
        }
        at = end;
    }
    Some(())
}

/// A number with a prefix of some bits (RFC 7541, section 5.1).
fn number(block: &[u8], at: &mut usize, prefix: u32) -> Option<usize> {
    let mut next = || {
        let byte = *block.get(*at)?;
        *at += 1;
        Some(usize::from(byte))
    };
    let most = (1 << prefix) - 1;
    let mut number = next()? & most;
    if number < most {
        return Some(number);
    }
    for shift in [0, 7, 14] {
        let byte = next()?;
        number += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame.
    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&len[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// What becomes of bytes that come in pieces.
    fn rewritten(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut rewriter = Rewriter { passing: PREFACE_LEN, ..Rewriter::default() };
        bytes.chunks(piece).for_each(|piece| rewriter.push(piece));
        rewriter.ready
    }

    /// `:method: POST`, a size of the table, `:authority` with a value, `te: trailers` by name.
    fn headers(authority: &[u8]) -> Vec<u8> {
        let len = u8::try_from(authority.len() & 0x7f).expect("short");
        [&[0x83, 0x3f, 0xe1, 0x1f, 0x41, len][..], authority, b"\x40\x02te\x08trailers"].concat()
    }

    #[test]
    fn the_authority_is_overwritten_and_nothing_else() {
        let (path, letters) = (b"/var/lib/kubelet/device-plugins/a.sock", [b'a'; 38]);
        let around = |headers: &[u8]| {
            let priority = [&[3, 0, 0, 0, 0, 9][..], headers, &[0; 3]].concat();
            let frames = [frame(4, 0, &[0; 6]), frame(1, 4, headers), frame(0, 1, path), frame(1, 0x2c, &priority)];
            [vec![b'P'; PREFACE_LEN], frames.concat()].concat()
        };
        let (before, after) = (around(&headers(path)), around(&headers(&letters)));
        for piece in [1, 2, 7, 24, 25, 33, 4096] {
            assert_eq!(rewritten(&before, piece), after, "pieces of {piece}");
        }
        let mut compressed = headers(path);
        compressed[5] |= 0x80;
        assert_eq!(rewritten(&around(&compressed), 50), after);
        // Without the table, and never in a table.
        for first in [0x01, 0x11] {
            let mut block = vec![first, 3, b'/', b'x', b'y'];
            assert_eq!((overwrite(&mut block), block), (Some(()), vec![first, 3, b'a', b'a', b'a']));
        }
    }

    #[test]
    fn garbage_passes() {
        let mut block = headers(b"/x");
        for len in 0..block.len() {
            overwrite(&mut block.clone()[..len]);
        }
        assert_eq!(overwrite(&mut [0x41, 0x7f, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(overwrite(&mut [0x41, 5, b'/']), None, "it ends too early");
        assert_eq!(overwrite(&mut block), Some(()));
        for flags in 0..=255 {
            for payload in [vec![], vec![0xff], vec![0xff; 5], vec![0x41; 40]] {
                let bytes = [vec![b'P'; PREFACE_LEN], frame(1, flags, &payload)].concat();
                assert_eq!(rewritten(&bytes, 3).len(), bytes.len());
            }
        }
        let large = [vec![b'P'; PREFACE_LEN], frame(1, 0, &[0x41; FRAME_LEN_MAX + 1])].concat();
        assert_eq!(rewritten(&large, 1000), large, "the server refuses it");
    }
}
