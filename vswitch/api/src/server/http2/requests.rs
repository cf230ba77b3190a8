//! The bytes of a client, on their way to the library.

use super::cause::{Cause, Judge};
use super::hpack::{Decoder, Field};
use super::{CONTINUATION, END_HEADERS, END_STREAM, HEAD_LEN, HEADERS, Head, PADDED, PRIORITY, PUSH_PROMISE};
use std::ops::ControlFlow;
use tonic::codegen::http::uri::Authority;

/// What a client of HTTP/2 sends first (RFC 9113, 3.4).
pub(in super::super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a request's headers, as HTTP/2 counts them (RFC 9113, 10.5.1).
pub(in super::super) const HEADERS_LEN_MAX: u32 = 16 << 10;

/// Bytes of headers where the library gives up the connection: four times what it serves.
const LIST_LEN_MAX: usize = 4 * HEADERS_LEN_MAX as usize;

/// Bytes behind a frame's head, as long as the server asks for no more (RFC 9113, 4.2), which it
/// does not.
pub(super) const FRAME_LEN_MAX: usize = 16 << 10;

/// Bytes of frames that are kept until a header block is whole.
const HELD_MAX: usize = 64 << 10;

/// As many bytes ready, and nothing more is made until they are taken.
const READY_MAX: usize = 64 << 10;

/// Bytes of a frame with priority (RFC 9113, 6.2).
const PRIORITY_LEN: usize = 5;

/// What an `:authority` becomes that is none. On a unix socket there is no other host.
const AUTHORITY: &[u8] = b"localhost";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many bytes of the preface were there.
    Preface(usize),
    /// A frame's head, or a frame of a header block: both are kept.
    Frame,
    /// So many bytes of another frame go on as they are.
    Pass(usize),
    /// All bytes go on as they are: the library refuses them.
    Raw,
    /// Nothing goes on any more: the library has been given what it refuses.
    Over,
}

/// A header block of which parts are still to come.
#[derive(Debug, Clone, Copy)]
struct Open {
    stream: u32,
    flags: u8,
    priority: Option<[u8; PRIORITY_LEN]>,
}

/// Takes the bytes of a client, gives those that the library reads.
#[derive(Debug)]
pub(in super::super) struct Requests {
    state: State,
    decoder: Decoder,
    /// A bad `:authority` was there: all blocks are encoded anew.
    rewriting: bool,
    /// Bytes that were read and not looked at.
    input: Vec<u8>,
    looked_at: usize,
    /// Bytes that go on, of which the first were given.
    ready: Vec<u8>,
    given: usize,
    /// Frames that are kept, of which the last begins at `start`, and what they say.
    held: Vec<u8>,
    start: usize,
    open: Option<Open>,
    block: Vec<u8>,
    /// Scratch: the block, encoded anew.
    encoded: Vec<u8>,
    /// What was wrong last, and with which stream; 0: with the connection.
    cause: Option<(u32, Cause)>,
    /// The stream of the last header block.
    last: u32,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            state: State::Preface(0),
            decoder: Decoder::default(),
            rewriting: false,
            input: Vec::new(),
            looked_at: 0,
            ready: Vec::new(),
            given: 0,
            held: Vec::new(),
            start: 0,
            open: None,
            block: Vec::new(),
            encoded: Vec::new(),
            cause: None,
            last: 0,
        }
    }
}

impl Requests {
    /// Whether the next `len` bytes of the client may go on without being taken and given; then
    /// they are counted.
    pub(in super::super) fn passes(&mut self, len: usize) -> bool {
        match &mut self.state {
            _ if self.looked_at < self.input.len() || self.given < self.ready.len() => false,
            State::Pass(rest) if *rest >= len => {
                *rest -= len;
                if *rest == 0 {
                    self.state = State::Frame;
                }
                true
            }
            State::Raw => true,
            _ => false,
        }
    }

    /// Takes bytes that the client sent. All that was ready must have been given.
    pub(in super::super) fn take(&mut self, bytes: &[u8]) {
        self.input.drain(..self.looked_at);
        self.looked_at = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Gives at most `max` bytes to `put`; false: there are none.
    pub(in super::super) fn give(&mut self, max: usize, put: impl FnOnce(&[u8])) -> bool {
        if self.given == self.ready.len() {
            self.ready.clear();
            self.given = 0;
            let input = std::mem::take(&mut self.input);
            while self.ready.len() < READY_MAX && self.looked_at < input.len() {
                self.looked_at += self.step(&input[self.looked_at..]);
            }
            self.input = input;
        }
        let rest = &self.ready[self.given..];
        let part = &rest[..rest.len().min(max)];
        self.given += part.len();
        let any = !part.is_empty();
        if any {
            put(part);
        }
        any
    }

    /// Whether nothing will be given any more.
    pub(in super::super) fn is_over(&self) -> bool {
        self.state == State::Over && self.given == self.ready.len()
    }

    /// Whether the client speaks something else than HTTP/2.
    pub(in super::super) fn is_foreign(&self) -> bool {
        matches!(self.cause, Some((_, Cause::NoHttp2)))
    }

    /// Why the stream or (0) the connection was refused, if it is known.
    pub(in super::super) fn cause(&self, stream: u32) -> Option<Cause> {
        let concerns = |of: u32| of == stream || stream == 0 && of == self.last;
        self.cause.filter(|(of, _)| concerns(*of)).map(|(_, cause)| cause)
    }

    /// Looks at some bytes, at least one; says how many.
    fn step(&mut self, input: &[u8]) -> usize {
        match self.state {
            State::Preface(seen) => {
                let part = &input[..input.len().min(PREFACE.len() - seen)];
                if *part != PREFACE[seen..seen + part.len()] {
                    self.cause = Some((0, Cause::NoHttp2));
                    self.state = State::Raw;
                    return 0;
                }
                self.ready.extend_from_slice(part);
                let seen = seen + part.len();
                self.state = if seen == PREFACE.len() { State::Frame } else { State::Preface(seen) };
                part.len()
            }
            State::Frame => self.frame(input),
            State::Pass(rest) => {
                let part = &input[..input.len().min(rest)];
                self.ready.extend_from_slice(part);
                self.state = if part.len() == rest { State::Frame } else { State::Pass(rest - part.len()) };
                part.len()
            }
            State::Raw => {
                self.ready.extend_from_slice(input);
                input.len()
            }
            State::Over => input.len(),
        }
    }

    /// Adds bytes to the frame that is kept, at most to the end of its head, or to its own end.
    fn frame(&mut self, input: &[u8]) -> usize {
        let have = self.held.len() - self.start;
        let want = self.head().map_or(HEAD_LEN, |head| HEAD_LEN + head.len);
        let part = &input[..input.len().min(want - have)];
        self.held.extend_from_slice(part);
        let have = have + part.len();
        if have == HEAD_LEN && want == HEAD_LEN {
            self.begins();
        } else if have == want {
            self.ends();
        }
        part.len()
    }

    /// The head of the frame that is kept, once it is whole.
    fn head(&self) -> Option<Head> {
        self.held[self.start..].first_chunk().map(|bytes| Head::read(*bytes))
    }

    /// A frame's head is there.
    fn begins(&mut self) {
        let Some(head) = self.head() else { return };
        let expected = match self.open {
            Some(open) => head.kind == CONTINUATION && head.stream == open.stream,
            None => head.kind != CONTINUATION && head.kind != PUSH_PROMISE,
        };
        if !expected {
            let cause = if self.open.is_some() { Cause::Interrupted } else { Cause::UnexpectedFrame };
            return self.give_up(cause);
        }
        if self.open.is_none() && head.kind != HEADERS {
            self.ready.append(&mut self.held);
            self.state = if head.len > 0 { State::Pass(head.len) } else { State::Frame };
            return;
        }
        if head.len > FRAME_LEN_MAX {
            self.give_up(Cause::FrameLength(head.len));
        } else if self.held.len() + head.len > HELD_MAX {
            self.give_up(Cause::ListLength);
        } else if head.len == 0 {
            self.ends();
        }
    }

    /// A frame of a header block is there.
    fn ends(&mut self) {
        let Some(head) = self.head() else { return };
        let payload = &self.held[self.start + HEAD_LEN..];
        let open = match self.open {
            Some(open) => {
                self.block.extend_from_slice(payload);
                open
            }
            None => {
                let Some((priority, fragment)) = fragment(head, payload) else { return self.give_up(Cause::Padding) };
                self.block.extend_from_slice(fragment);
                Open { stream: head.stream, flags: head.flags, priority }
            }
        };
        self.start = self.held.len();
        self.open = Some(open);
        if head.flags & END_HEADERS != 0 {
            self.whole(open);
        }
    }

    /// A header block is there.
    fn whole(&mut self, open: Open) {
        self.encoded.clear();
        let (mut judge, mut bad) = (Judge::default(), false);
        let encoded = &mut self.encoded;
        let result = self.decoder.decode(&self.block, |field| {
            judge.see(&field);
            let is_bad = field.name == b":authority" && Authority::try_from(field.value).is_err();
            bad |= is_bad;
            Field { value: if is_bad { AUTHORITY } else { field.value }, ..field }.write(encoded);
            if judge.len() > LIST_LEN_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let Ok(end) = result else { return self.give_up(Cause::Hpack) };
        self.last = open.stream;
        if let Some(cause) = judge.verdict() {
            self.cause = Some((open.stream, cause));
        }
        self.rewriting |= bad;
        if self.rewriting {
            self.write(open);
        } else {
            self.ready.append(&mut self.held);
        }
        self.forget();
        if end.is_break() {
            // The library gives up here, too.
            self.state = if self.rewriting { State::Over } else { State::Raw };
        }
    }

    /// Makes frames of the block that was encoded anew. What has no meaning any more is left out:
    /// padding.
    fn write(&mut self, open: Open) {
        let priority = open.priority.as_ref().map_or(&[][..], |bytes| bytes);
        let first_len = self.encoded.len().min(FRAME_LEN_MAX - priority.len());
        let (first, rest) = self.encoded.split_at(first_len);
        let last = |is_last: bool| if is_last { END_HEADERS } else { 0 };
        let flags = open.flags & (END_STREAM | PRIORITY) | last(rest.is_empty());
        let head = Head { len: priority.len() + first.len(), kind: HEADERS, flags, stream: open.stream };
        head.write(&mut self.ready);
        self.ready.extend_from_slice(priority);
        self.ready.extend_from_slice(first);
        let mut chunks = rest.chunks(FRAME_LEN_MAX).peekable();
        while let Some(chunk) = chunks.next() {
            let flags = last(chunks.peek().is_none());
            Head { len: chunk.len(), kind: CONTINUATION, flags, stream: open.stream }.write(&mut self.ready);
            self.ready.extend_from_slice(chunk);
        }
    }

    /// What the client sends is refused by the library; it is to see it. Once blocks were encoded
    /// anew, its table is another one, and what is malformed for us may not be for it: so it gets
    /// what surely is, a block that refers to entry 0.
    fn give_up(&mut self, cause: Cause) {
        self.cause = Some((0, cause));
        if self.rewriting {
            let stream = self.open.map(|open| open.stream).or(self.head().map(|head| head.stream)).unwrap_or(0);
            Head { len: 1, kind: HEADERS, flags: END_HEADERS, stream }.write(&mut self.ready);
            self.ready.push(0x80);
            self.state = State::Over;
        } else {
            self.ready.append(&mut self.held);
            self.state = State::Raw;
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.held.clear();
        self.start = 0;
        self.block.clear();
        self.open = None;
    }

    /// One that encodes anew from the beginning on.
    #[cfg(test)]
    pub(super) fn rewriting() -> Self {
        Self { rewriting: true, ..Self::default() }
    }

    /// Whether it encodes anew.
    #[cfg(test)]
    pub(super) fn rewrites(&self) -> bool {
        self.rewriting
    }

    /// Whether it keeps bytes of a header block that is not complete.
    #[cfg(test)]
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes of memory that it holds, about.
    #[cfg(any(test, fuzzing))]
    pub(super) fn memory(&self) -> usize {
        let buffers = [&self.input, &self.ready, &self.held, &self.block, &self.encoded];
        buffers.iter().map(|buffer| buffer.capacity()).sum::<usize>() + self.decoder.memory()
    }
}

/// Priority and fragment of the block in the payload of HEADERS; `None`: it is too short for what
/// its flags say.
fn fragment(head: Head, mut payload: &[u8]) -> Option<(Option<[u8; PRIORITY_LEN]>, &[u8])> {
    let mut padding = 0;
    if head.flags & PADDED != 0 {
        let (first, rest) = payload.split_first()?;
        padding = usize::from(*first);
        payload = rest;
    }
    let mut priority = None;
    if head.flags & PRIORITY != 0 {
        let (first, rest) = payload.split_first_chunk()?;
        priority = Some(*first);
        payload = rest;
    }
    let len = payload.len().checked_sub(padding)?;
    Some((priority, &payload[..len]))
}
