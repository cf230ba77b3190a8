//! A line as items.

/// An item of a match or flow: a key and, unless it is a keyword, a value, with their columns (from
/// 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a str,
    /// Byte where it starts, from 1.
    pub key_column: usize,
    /// The value.
    pub value: Option<&'a str>,
    /// Byte where it starts, from 1; that of the key if there is none.
    pub value_column: usize,
}

/// Splits `tcp, nw_dst=10.0.0.1` into its items. Items end at commas and blanks outside of quotes
/// and parentheses.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Items<'a> {
    /// Of a text.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let bytes = self.text.as_bytes();
        let blank = |byte: u8| matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n');
        while self.at < bytes.len() && blank(bytes[self.at]) {
            self.at += 1;
        }
        let start = self.at;
        let (mut depth, mut quoted, mut equals) = (0usize, false, None);
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\\' if quoted => self.at += 1,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                b'=' if depth == 0 && equals.is_none() => equals = Some(self.at),
                byte if depth == 0 && blank(byte) => break,
                _ => {}
            }
            self.at += 1;
        }
        self.at = self.at.min(bytes.len());
        if start == self.at {
            return None;
        }
        let (key, value) = match equals {
            Some(at) => (&self.text[start..at], Some((&self.text[at + 1..self.at], at + 2))),
            None => (&self.text[start..self.at], None),
        };
        let value_column = value.map_or(start + 1, |(_, column)| column);
        Some(Item { key, key_column: start + 1, value: value.map(|(text, _)| text), value_column })
    }
}
