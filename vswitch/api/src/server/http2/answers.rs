//! The bytes of the server, on their way to a client: what is told when HTTP/2 refuses something.

use super::{GOAWAY, HEAD_LEN, Head, RST_STREAM};
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Bytes of the payload that are read: of GOAWAY the last stream, the code and the beginning of
/// what the library says.
const READ_MAX: usize = 8 + 64;

/// Time between two lines of the log about refusals, whatever clients do.
const INTERVAL: Duration = Duration::from_secs(10);

/// Codes that blame the client (RFC 9113, 7), with their names.
const BLAMING: [(u32, &str); 5] = [
    (0x1, "PROTOCOL_ERROR"),
    (0x3, "FLOW_CONTROL_ERROR"),
    (0x6, "FRAME_SIZE_ERROR"),
    (0x9, "COMPRESSION_ERROR"),
    (0xb, "ENHANCE_YOUR_CALM"),
];

/// The server ended a stream or (0) the connection, and blames the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Refusal {
    pub(in super::super) stream: u32,
    code: u32,
    said: Vec<u8>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stream {
            0 => write!(f, "connection")?,
            stream => write!(f, "call (stream {stream})")?,
        }
        let name = BLAMING.iter().find(|(code, _)| *code == self.code).map_or("error", |(_, name)| name);
        write!(f, " refused with {name} of HTTP/2")?;
        if self.said.is_empty() { Ok(()) } else { write!(f, " ({})", self.said.escape_ascii()) }
    }
}

/// Reads the heads of the server's frames.
#[derive(Debug, Default)]
pub(in super::super) struct Answers {
    /// Head and the beginning of the payload, as far as they are there.
    frame: Vec<u8>,
    /// Bytes that belong to the last frame and are not read.
    skip: usize,
}

impl Answers {
    /// Looks at bytes that were sent; what they refuse is shown to `refused`.
    pub(in super::super) fn see(&mut self, mut bytes: &[u8], mut refused: impl FnMut(Refusal)) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let len = self.skip.min(bytes.len());
                self.skip -= len;
                bytes = &bytes[len..];
                continue;
            }
            let part = &bytes[..bytes.len().min(self.want() - self.frame.len())];
            self.frame.extend_from_slice(part);
            bytes = &bytes[part.len()..];
            if self.frame.len() < self.want() {
                continue;
            }
            if let Some(head) = self.head() {
                if let Some(refusal) = refusal(head, &self.frame[HEAD_LEN..]) {
                    refused(refusal);
                }
                self.skip = head.len - (self.frame.len() - HEAD_LEN);
            }
            self.frame.clear();
        }
    }

    fn head(&self) -> Option<Head> {
        self.frame.first_chunk().map(|bytes| Head::read(*bytes))
    }

    /// Bytes of the frame that are read.
    fn want(&self) -> usize {
        HEAD_LEN
            + match self.head() {
                Some(head) if [RST_STREAM, GOAWAY].contains(&head.kind) => head.len.min(READ_MAX),
                _ => 0,
            }
    }
}

fn refusal(head: Head, payload: &[u8]) -> Option<Refusal> {
    let code = |at: usize| payload.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let (code, said) = match head.kind {
        RST_STREAM => (code(0)?, &[][..]),
        GOAWAY => (code(4)?, &payload[8..]),
        _ => return None,
    };
    BLAMING.iter().any(|(blaming, _)| *blaming == code).then(|| Refusal {
        stream: head.stream,
        code,
        said: said.to_vec(),
    })
}

/// How often refusals are told, of all connections of a server.
#[derive(Debug, Default)]
pub(in super::super) struct Complaints(Mutex<LogBudget>);

#[derive(Debug, Default)]
struct LogBudget {
    next: Option<Instant>,
    untold: u64,
}

impl Complaints {
    /// Whether one may be told now, and how many were not since the last one.
    pub(in super::super) fn may(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if told.next.is_some_and(|next| now < next) {
            told.untold += 1;
            return None;
        }
        told.next = Some(now + INTERVAL);
        Some(std::mem::take(&mut told.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Head { len: payload.len(), kind, flags: 0, stream }.write(&mut out);
        out.extend_from_slice(payload);
        out
    }

    fn goaway(code: u8, said: &[u8]) -> Vec<u8> {
        frame(GOAWAY, 0, &[&[0, 0, 0, 7, 0, 0, 0, code], said].concat())
    }

    proptest! {
        /// However the bytes are split; a refusal is told once, a stream that ends otherwise is
        /// not.
        #[test]
        fn refusals_are_found_in_the_stream(cuts in prop::collection::vec(1_usize..40, 1..20)) {
            let bytes = [
                frame(4, 0, &[0; 12]), frame(0, 1, &[3; 300]), frame(RST_STREAM, 5, &[0, 0, 0, 1]),
                frame(RST_STREAM, 7, &[0, 0, 0, 8]), frame(RST_STREAM, 7, &[0]), goaway(0, b""),
                goaway(11, &[b'x'; 100]), frame(1, 9, &[0; 9]), goaway(9, b"a\n"),
            ].concat();
            let (mut answers, mut told, mut rest, mut cuts) = (Answers::default(), Vec::new(), bytes.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.len().min(*cuts.next().expect("a cycle")));
                answers.see(part, |refusal| told.push(refusal.to_string()));
                rest = behind;
            }
            prop_assert_eq!(told, [
                "call (stream 5) refused with PROTOCOL_ERROR of HTTP/2".to_owned(),
                format!("connection refused with ENHANCE_YOUR_CALM of HTTP/2 ({})", "x".repeat(64)),
                "connection refused with COMPRESSION_ERROR of HTTP/2 (a\\n)".to_owned(),
            ]);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut answers = Answers::default();
            bytes.chunks(7).for_each(|chunk| answers.see(chunk, |_| ()));
            prop_assert!(answers.frame.len() <= HEAD_LEN + READ_MAX);
        }
    }

    #[test]
    fn one_line_in_ten_seconds() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let at = |seconds| complaints.may(start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(1), at(9), at(10), at(11), at(25)], [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
