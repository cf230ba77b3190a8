//! Why HTTP/2 refuses a request or a connection, as far as the header blocks say.

use super::hpack::Field;
use std::fmt;
use tonic::codegen::http::uri::PathAndQuery;

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Cause {
    /// The connection began with something else.
    NoHttp2,
    /// A header block cannot be decoded.
    Hpack,
    /// Header blocks are one run of frames, and this one was interrupted.
    Interrupted,
    /// A client does not send this frame, or not there.
    UnexpectedFrame,
    /// Of a frame, in bytes.
    FrameLength(usize),
    /// Of a header list.
    ListLength,
    /// Padding of more bytes than the frame has.
    Padding,
    /// A pseudo-header is not there.
    Missing(&'static str),
    /// A pseudo-header is there twice.
    Twice,
    /// A pseudo-header is behind other fields.
    Late,
    /// A pseudo-header that requests do not have.
    Unknown,
    /// `:path` is none.
    Path,
    /// A name with upper case letters, or bytes that names do not have.
    Name,
    /// A field of HTTP/1's connections.
    Connection,
    /// A field `te` that is not `trailers`.
    Te,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NoHttp2 => "the client does not speak HTTP/2 (gRPC without TLS): its first bytes are no preface",
            Self::Hpack => "a header block is no HPACK, or refers to entries that are not there",
            Self::Interrupted => "another frame came in the middle of a header block",
            Self::UnexpectedFrame => "a frame came that a client may not send there",
            Self::FrameLength(len) => {
                return write!(f, "a frame has {len} bytes; at most {} are allowed", super::requests::FRAME_LEN_MAX);
            }
            Self::ListLength => {
                return write!(f, "the headers are too long; at most {} bytes are read", super::HEADERS_LEN_MAX);
            }
            Self::Padding => "a frame has more padding than bytes",
            Self::Missing(name) => return write!(f, "the request has no {name}"),
            Self::Twice => "the request has a pseudo-header twice",
            Self::Late => "the request has a pseudo-header behind other headers",
            Self::Unknown => "the request has a pseudo-header that requests do not have",
            Self::Path => "the :path of the request is not /SERVICE/METHOD",
            Self::Name => "the name of a header is not lower case",
            Self::Connection => "the request has a header of HTTP/1's connections",
            Self::Te => "the request has a header te other than trailers",
        };
        f.write_str(text)
    }
}

/// Pseudo-headers that a request has, of which the first three must be there.
const PSEUDO: [&str; 5] = [":method", ":scheme", ":path", ":authority", ":protocol"];
const REQUIRED: usize = 3;

/// Judges one header block, field by field.
#[derive(Debug, Default)]
pub(super) struct Judge {
    seen: [bool; PSEUDO.len()],
    behind: bool,
    len: usize,
    fault: Option<Cause>,
}

impl Judge {
    pub(super) fn see(&mut self, field: &Field<'_>) {
        self.len += field.size();
        let fault = if field.name.starts_with(b":") { self.pseudo(field) } else { self.plain(field) };
        self.fault = self.fault.or(fault);
    }

    fn pseudo(&mut self, field: &Field<'_>) -> Option<Cause> {
        let Some(nth) = PSEUDO.iter().position(|name| name.as_bytes() == field.name) else {
            return Some(Cause::Unknown);
        };
        if self.behind {
            return Some(Cause::Late);
        }
        if std::mem::replace(&mut self.seen[nth], true) {
            return Some(Cause::Twice);
        }
        let is_path = |value: &[u8]| value.starts_with(b"/") && PathAndQuery::try_from(value).is_ok();
        (field.name == b":path" && !is_path(field.value)).then_some(Cause::Path)
    }

    fn plain(&mut self, field: &Field<'_>) -> Option<Cause> {
        self.behind = true;
        match field.name {
            b"connection" | b"transfer-encoding" | b"upgrade" | b"keep-alive" | b"proxy-connection" => {
                Some(Cause::Connection)
            }
            b"te" if field.value != b"trailers" => Some(Cause::Te),
            name => {
                let good = |byte: &u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
                (name.is_empty() || !name.iter().all(good)).then_some(Cause::Name)
            }
        }
    }

    /// Bytes of the fields so far.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What is wrong, if it was a request.
    pub(super) fn verdict(&self) -> Option<Cause> {
        let missing = (0..REQUIRED).find(|&nth| !self.seen[nth]).map(|nth| Cause::Missing(PSEUDO[nth]));
        let long = (self.len > super::HEADERS_LEN_MAX as usize).then_some(Cause::ListLength);
        self.fault.or(long).or(missing)
    }
}
