//! HPACK (RFC 7541): a decoder of header blocks, and fields as literals that are not indexed.

use super::huffman;
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Bytes of the table that a client may use as long as it was not told otherwise (RFC 9113, 6.5.2),
/// and nobody tells it.
const TABLE_MAX: usize = 4096;

/// What an entry counts beside its name and value (RFC 7541, 4.1).
pub(super) const OVERHEAD: usize = 32;

/// Bytes that the library below tonic reads of an integer.
const INTEGER_LEN_MAX: usize = 5;

/// RFC 7541, appendix A.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// A header field as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
    /// The sender wants it in no table, not even behind a proxy.
    pub(super) never_indexed: bool,
}

impl Field<'_> {
    /// Bytes that it counts in a header list.
    pub(super) fn size(&self) -> usize {
        self.name.len() + self.value.len() + OVERHEAD
    }

    /// Appends it as a literal that no table takes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(if self.never_indexed { 0x10 } else { 0 });
        for text in [self.name, self.value] {
            write_integer(out, 0, 7, text.len());
            out.extend_from_slice(text);
        }
    }
}

/// Appends an integer whose first byte has `prefix` bits of it and above them `pattern` (RFC 7541,
/// 5.1).
pub(super) fn write_integer(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: usize) {
    let mask = (1_usize << prefix) - 1;
    let low = |value: usize| u8::try_from(value & 0xff).unwrap_or(0);
    if value < mask {
        out.push(pattern | low(value));
        return;
    }
    out.push(pattern | low(mask));
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | low(rest & 0x7f));
        rest >>= 7;
    }
    out.push(low(rest));
}

/// A header block is no HPACK.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads the header blocks of one connection, in order.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    table: Table,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Shows each field of a block, in order, until `show` breaks; nothing may be decoded then any
    /// more.
    pub(super) fn decode(
        &mut self,
        mut block: &[u8],
        mut show: impl FnMut(Field<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Malformed> {
        let mut begun = false;
        while let Some(&first) = block.first() {
            let shown = if first & 0x80 != 0 {
                let index = integer(&mut block, 7)?;
                let (name, value) = self.table.get(index).ok_or(Malformed)?;
                show(Field { name, value, never_indexed: false })
            } else if first & 0xe0 == 0x20 {
                // The table's size changes at the beginning of a block, or not at all (RFC 7541,
                // 4.2).
                let size = integer(&mut block, 5)?;
                if begun || size > TABLE_MAX {
                    return Err(Malformed);
                }
                self.table.resize(size);
                continue;
            } else {
                let indexed = first & 0x40 != 0;
                self.literal(&mut block, if indexed { 6 } else { 4 })?;
                let never_indexed = first & 0xf0 == 0x10;
                let shown = show(Field { name: &self.name, value: &self.value, never_indexed });
                if indexed {
                    self.table.insert(&self.name, &self.value);
                }
                shown
            };
            begun = true;
            if shown.is_break() {
                return Ok(shown);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads a literal into `name` and `value`.
    fn literal(&mut self, block: &mut &[u8], prefix: u32) -> Result<(), Malformed> {
        let index = integer(block, prefix)?;
        if index == 0 {
            string(block, &mut self.name)?;
        } else {
            let (name, _) = self.table.get(index).ok_or(Malformed)?;
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        string(block, &mut self.value)
    }

    /// Bytes of memory that it holds, about.
    #[cfg(any(test, fuzzing))]
    pub(super) fn memory(&self) -> usize {
        self.name.capacity() + self.value.capacity() + self.table.size
    }
}

fn integer(block: &mut &[u8], prefix: u32) -> Result<usize, Malformed> {
    let (&first, mut rest) = block.split_first().ok_or(Malformed)?;
    let mask = (1_usize << prefix) - 1;
    let mut value = usize::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, behind) = rest.split_first().ok_or(Malformed)?;
            rest = behind;
            value += (usize::from(byte) & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if block.len() - rest.len() == INTEGER_LEN_MAX {
                return Err(Malformed);
            }
        }
    }
    *block = rest;
    Ok(value)
}

fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let len = integer(block, 7)?;
    let (bytes, rest) = block.split_at_checked(len).ok_or(Malformed)?;
    *block = rest;
    out.clear();
    if coded {
        return huffman::decode(bytes, out).ok_or(Malformed);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// The static table and behind it the dynamic one: the last entry first.
#[derive(Debug)]
struct Table {
    entries: VecDeque<Entry>,
    size: usize,
    size_max: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, size_max: TABLE_MAX }
    }
}

#[derive(Debug)]
struct Entry {
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl Entry {
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + OVERHEAD
    }
}

impl Table {
    /// Name and value at an index from 1 on.
    fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some((name, value)) => Some((name.as_bytes(), value.as_bytes())),
            None => self.entries.get(index - STATIC.len()).map(|entry| (&*entry.name, &*entry.value)),
        }
    }

    /// An entry that does not fit empties the table (RFC 7541, 4.4).
    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + OVERHEAD;
        self.shrink(self.size_max.saturating_sub(size));
        if size <= self.size_max {
            self.entries.push_front(Entry { name: name.into(), value: value.into() });
            self.size += size;
        }
    }

    fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.shrink(size_max);
    }

    fn shrink(&mut self, size: usize) {
        while self.size > size {
            let Some(entry) = self.entries.pop_back() else { return };
            self.size -= entry.size();
        }
    }
}
