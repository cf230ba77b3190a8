//! Joins the parts of multipart messages.

use crate::wire::refusal;
use crate::{Part, Refusal, Reply, Request};

/// What is joined.
trait Parts: Sized {
    fn join(&mut self, next: Self) -> bool;
}

impl Parts for Request {
    fn join(&mut self, next: Self) -> bool {
        Self::join(self, next)
    }
}

impl Parts for Reply {
    fn join(&mut self, next: Self) -> bool {
        Self::join(self, next)
    }
}

/// Joins the parts of one multipart message at a time, as they come on one connection.
///
/// **Limits**: the parts have at most so many bytes as messages as [`Assembler::new`] is told. More
/// is refused, and what was joined is forgotten.
#[derive(Debug)]
pub struct Assembler<T> {
    max_bytes: usize,
    bytes: usize,
    waiting: Option<(u32, T)>,
}

/// Why a part cannot be joined: by the name of the error that OpenFlow has for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Incomplete(pub Refusal);

impl<T> Assembler<T> {
    /// For messages of up to so many bytes.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, waiting: None }
    }

    /// Whether parts are missing.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }
}

impl Assembler<Request> {
    /// Takes a part of a request; `len`: bytes of its message. Some: the request is whole.
    ///
    /// # Errors
    /// When it does not fit to the parts before, or there are too many bytes.
    pub fn add(&mut self, xid: u32, part: Part<Request>, len: usize) -> Result<Option<Request>, Incomplete> {
        self.take(xid, part, len)
    }
}

impl Assembler<Reply> {
    /// Takes a part of a reply; `len`: bytes of its message. Some: the reply is whole.
    ///
    /// # Errors
    /// When it does not fit to the parts before, or there are too many bytes.
    pub fn add(&mut self, xid: u32, part: Part<Reply>, len: usize) -> Result<Option<Reply>, Incomplete> {
        self.take(xid, part, len)
    }
}

#[allow(private_bounds)] // two types have it
impl<T: Parts> Assembler<T> {
    fn take(&mut self, xid: u32, part: Part<T>, len: usize) -> Result<Option<T>, Incomplete> {
        let waiting = self.waiting.take();
        self.bytes = if waiting.is_some() { self.bytes + len } else { len };
        let overflow = |reason: String| Err(Incomplete(refusal("OFPBRC_MULTIPART_BUFFER_OVERFLOW", reason)));
        let whole = match waiting {
            None => part.body,
            Some((other, _)) if other != xid => {
                return overflow(format!("a part of request {xid:#x} while parts of {other:#x} are missing"));
            }
            Some((_, mut whole)) => {
                if !whole.join(part.body) {
                    return overflow(format!("a part of request {xid:#x} that does not continue it"));
                }
                whole
            }
        };
        if !part.more {
            return Ok(Some(whole));
        }
        if self.bytes > self.max_bytes {
            return overflow(format!("a request of more than {} bytes", self.max_bytes));
        }
        self.waiting = Some((xid, whole));
        Ok(None)
    }
}
