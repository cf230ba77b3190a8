//! What a connection's HTTP/2 is looked at for, before the library has it.
//!
//! gRPC of Python, C++, Ruby and PHP (C core since 1.57), Java and Swift, and `grpcurl -unix`, send
//! the path of the socket as `:authority`, percent-encoded or as it is. Neither is an authority
//! (RFC 3986, 3.2), so the library below tonic resets the stream. On a unix socket the field means
//! nothing. [`Requests`] therefore puts `localhost` where the library would refuse.
//!
//! **Design**: [`Requests`] takes the bytes of the client and gives the bytes that the library
//! reads. It decodes every header block, because HPACK is stateful. As long as every `:authority`
//! is good, all bytes go on as they came. From the first bad one on, each block is encoded anew, as
//! literals that are not indexed. The library's table is then never referred to again, so it cannot
//! be out of step. Bytes that are no HTTP/2 go on as they came: the library refuses them.
//! [`Answers`] reads the frames of the server and tells of streams and connections that die of a
//! protocol error; [`Requests::cause`] knows why.
//!
//! **Limits**: per connection 64 KiB of a header block that is not complete, 64 KiB of decoded
//! headers (where the library gives up, too), 4 KiB of HPACK's table.

mod answers;
mod cause;
mod hpack;
mod huffman;
#[cfg(test)]
pub(super) mod raw;
mod requests;
#[cfg(test)]
mod tests;

pub(super) use answers::{Answers, Complaints};
pub(super) use requests::{HEADERS_LEN_MAX, PREFACE, Requests};

/// Bytes of a frame's head (RFC 9113, 4.1).
const HEAD_LEN: usize = 9;

/// Flags of HEADERS and CONTINUATION (RFC 9113, 6.2).
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Types of frames (RFC 9113, 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

/// A frame's head.
#[derive(Debug, Clone, Copy)]
struct Head {
    /// Bytes behind the head.
    len: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Head {
    fn read(bytes: [u8; HEAD_LEN]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes;
        let len = usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2);
        Self { len, kind, flags, stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]) }
    }

    fn write(self, out: &mut Vec<u8>) {
        let [_, l0, l1, l2] = u32::try_from(self.len).unwrap_or(u32::MAX).to_be_bytes();
        out.extend([l0, l1, l2, self.kind, self.flags]);
        out.extend(self.stream.to_be_bytes());
    }
}

/// What fuzzing calls: `bytes` are what a client sends, in reads whose lengths `bytes` decide.
#[cfg(any(test, fuzzing))]
pub fn fuzz(bytes: &[u8]) {
    let run = |len: usize| {
        let (mut requests, mut out) = (Requests::default(), Vec::new());
        for chunk in bytes.chunks(len) {
            requests.take(chunk);
            while requests.give(usize::MAX, |ready| out.extend_from_slice(ready)) {}
            assert!(requests.memory() <= 512 << 10, "{} bytes are held", requests.memory());
        }
        (out, requests.is_over())
    };
    let whole = run(bytes.len().max(1));
    let len = usize::from(bytes.last().copied().unwrap_or(0) % 16) + 1;
    assert_eq!(run(len), whole, "reads of {len} bytes");
}
