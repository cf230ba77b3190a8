//! Where in the file something stands.

use std::collections::HashMap;
use std::fmt;

/// Line and column, both from 1. A column is a character (Unicode scalar value), as editors count;
/// a byte order mark at the start of the file has no width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Bytes between two counts of characters: what a look-up walks at most, however long a line is.
const STRIDE: usize = 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Turns byte offsets into positions.
#[derive(Debug)]
pub(super) struct LineIndex<'a> {
    text: &'a [u8],
    /// Offset of the first byte of each line.
    lines: Vec<usize>,
    /// Characters before each multiple of [`STRIDE`].
    counts: Vec<usize>,
}

fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| *byte & 0xc0 != 0x80).count()
}

impl<'a> LineIndex<'a> {
    /// Indexes a text, which need not be UTF-8.
    pub(super) fn new(text: &'a [u8]) -> Self {
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
        let lines = std::iter::once(start).chain(ends).collect();
        let mut counts = vec![0];
        for chunk in text.chunks(STRIDE) {
            counts.push(counts[counts.len() - 1] + characters(chunk));
        }
        Self { text, lines, counts }
    }

    /// The whole text.
    pub(super) const fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Characters before a byte.
    fn before(&self, offset: usize) -> usize {
        let stride = offset / STRIDE;
        self.counts[stride] + characters(&self.text[stride * STRIDE..offset])
    }

    /// The bytes of a line, without what ends it. Empty beyond the last line.
    pub(super) fn line(&self, line: usize) -> &'a [u8] {
        let start = self.lines.get(line - 1).copied().unwrap_or(self.text.len());
        let rest = &self.text[start..];
        rest.split(|byte| *byte == b'\n').next().unwrap_or_default()
    }

    pub(super) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// The position of a byte; beyond the end: of the end.
    pub(super) fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len()).max(self.lines[0]);
        let line = self.lines.partition_point(|start| *start <= offset);
        let column = self.before(offset) - self.before(self.lines[line - 1]) + 1;
        Position { line, column }
    }
}

/// A key of the configuration: which value a complaint is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConfigKey {
    /// A key of `[dpdk]`.
    Dpdk(&'static str),
    /// An element of `[dpdk] worker_cores`, from 0.
    WorkerCore(usize),
    /// A key of `[control]`.
    Control(&'static str),
    /// A key of a `[[control.listener]]`: index in [`super::SwitchConfig::listeners`].
    Listener(usize, &'static str),
    /// A key of `[conntrack]`.
    Conntrack(&'static str),
    /// A key of `[antrea]`.
    Antrea(&'static str),
    /// A key of `[observe]`.
    Observe(&'static str),
    /// A key of a `[[bridge.port]]`: index of the bridge in [`super::SwitchConfig::bridges`], index
    /// of the port in it.
    Port(usize, usize, &'static str),
    /// A key of a `[[route]]`: index in [`super::SwitchConfig::routes`].
    Route(usize, &'static str),
}

/// Positions of the keys that the file has, and which of them were refused.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigKeys {
    positions: HashMap<ConfigKey, Position>,
    refused: std::collections::HashSet<ConfigKey>,
}

impl ConfigKeys {
    pub(super) fn insert(&mut self, place: ConfigKey, position: Position) {
        self.positions.insert(place, position);
    }

    /// Notes that the file's value was refused, so that nothing is said about the default in its
    /// place.
    pub(super) fn refuse(&mut self, place: ConfigKey) {
        self.refused.insert(place);
    }

    pub(super) fn position(&self, place: &ConfigKey) -> Option<Position> {
        self.positions.get(place).copied()
    }

    pub(super) fn is_refused(&self, place: &ConfigKey) -> bool {
        self.refused.contains(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(text: &[u8], offset: usize) -> Position {
        let (mut line, mut column) = (1, 1);
        let start = if text.starts_with(BOM) { 3 } else { 0 };
        for byte in text.iter().take(offset).skip(start) {
            match byte {
                b'\n' => (line, column) = (line + 1, 1),
                byte if byte & 0xc0 != 0x80 => column += 1,
                _ => {}
            }
        }
        Position { line, column }
    }

    #[test]
    fn positions_count_characters_in_lines() {
        let long = "ü".repeat(3000) + "\nx";
        for text in ["", "\n", "a", "a\nb\n", "ä=1\nöö", "\u{feff}a\nb", "\r\n\r\n", long.as_str(), "\u{feff}"] {
            let index = LineIndex::new(text.as_bytes());
            for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
                assert_eq!(
                    index.position(offset),
                    naive(text.as_bytes(), offset),
                    "{offset} of {:?}",
                    &text[..text.len().min(20)]
                );
            }
            assert_eq!(index.position(usize::MAX), naive(text.as_bytes(), text.len()));
        }
    }
}
