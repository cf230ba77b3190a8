//! Bytes in network order: reading with every length checked, and writing.

use vswitch_flow::Refusal;

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// A refusal by an error's name.
pub(crate) fn refusal(code: &'static str, reason: impl Into<String>) -> Refusal {
    Refusal { code, field: "", reason: reason.into(), hint: String::new() }
}

/// The same as the result of something.
pub(crate) fn refuse<T>(code: &'static str, reason: impl Into<String>) -> Result<T> {
    Err(refusal(code, reason))
}

/// What is left of some bytes. What does not suffice is refused by the error given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    short: &'static str,
}

macro_rules! numbers {
    ($($name:ident $type:ident;)*) => {
        $(pub(crate) fn $name(&mut self) -> Result<$type> {
            const LEN: usize = size_of::<$type>();
            let mut bytes = [0; LEN];
            bytes.copy_from_slice(self.take(LEN)?);
            Ok($type::from_be_bytes(bytes))
        })*
    };
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(rest: &'a [u8], short: &'static str) -> Self {
        Self { rest, short }
    }

    numbers! { u8 u8; u16 u16; u32 u32; u64 u64; u128 u128; }

    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub(crate) const fn rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.rest = &[];
        rest
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return refuse(self.short, format!("{} bytes are left where {len} are needed", self.rest.len()));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn skip(&mut self, len: usize) -> Result<()> {
        self.take(len).map(|_| ())
    }

    /// Padding that has to be 0.
    pub(crate) fn zeros(&mut self, len: usize, code: &'static str) -> Result<()> {
        if self.take(len)?.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        refuse(code, "padding is not 0")
    }

    /// The next bytes as a reader of their own.
    pub(crate) fn part(&mut self, len: usize, short: &'static str) -> Result<Self> {
        Ok(Reader::new(self.take(len)?, short))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        refuse(self.short, format!("{} bytes too many", self.rest.len()))
    }

    /// A number of up to 16 bytes; more of them must be 0.
    pub(crate) fn number(&mut self, len: usize) -> Result<Option<u128>> {
        let bytes = self.take(len)?;
        let (high, low) = bytes.split_at(len.saturating_sub(16));
        let value = low.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
        Ok(high.iter().all(|byte| *byte == 0).then_some(value))
    }

    /// Skips these bytes if they are next.
    pub(crate) fn strip(&mut self, prefix: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The first bytes, without going on.
    pub(crate) fn peek_u16(&self) -> Option<u16> {
        Some(u16::from_be_bytes([*self.rest.first()?, *self.rest.get(1)?]))
    }
}

/// Text in a field of fixed length: up to the first 0.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Bytes that are written.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn zeros(&mut self, len: usize) {
        self.0.resize(self.0.len() + len, 0);
    }

    /// The lowest bytes of a number, in as many bytes as asked for.
    pub(crate) fn number(&mut self, value: u128, len: usize) {
        self.zeros(len.saturating_sub(16));
        self.bytes(&value.to_be_bytes()[16_usize.saturating_sub(len)..]);
    }

    /// Text in a field of fixed length, with a 0 behind it.
    pub(crate) fn text(&mut self, text: &str, len: usize) {
        let mut end = text.len().min(len - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&text.as_bytes()[..end]);
        self.zeros(len - end);
    }

    /// Pads what was written since `start` to a multiple of 8 bytes.
    pub(crate) fn pad(&mut self, start: usize) {
        self.zeros((self.len() - start).next_multiple_of(8) - (self.len() - start));
    }

    /// Writes the length of what was written since `start` at `at`. A length that does not fit is
    /// cut: the message is too long as a whole, which its end finds.
    #[allow(clippy::cast_possible_truncation)] // see above
    pub(crate) fn length(&mut self, at: usize, start: usize) {
        let len = (self.len() - start) as u16;
        self.0[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
}
