//! Cutting text into keys and values, and saying where in the text something is wrong.
//!
//! Tokens are slices of the text they come from, so that a place in the text needs no bookkeeping:
//! [`Source::column`] compares addresses. Nothing is allocated until there is an error.

use super::nearest;
use super::value::number;
use super::{Names, TextError};
use crate::Refusal;

/// More words than this are not listed in a message: it would be an arbitrary choice.
const MAX_LISTED: usize = 12;

/// Longest piece of input that a message repeats, in characters.
const MAX_QUOTED: usize = 60;

/// The whole text that columns count in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a>(pub(super) &'a str);

pub(super) type Result<T> = std::result::Result<T, TextError>;

impl Source<'_> {
    /// Byte of the text, from 1, where a piece of it starts. 1 for what is no piece of it.
    pub(super) fn column(self, part: &str) -> usize {
        let offset = part.as_ptr().addr().wrapping_sub(self.0.as_ptr().addr());
        if offset <= self.0.len() { offset + 1 } else { 1 }
    }

    /// An error about a piece of the text.
    pub(super) fn error(self, part: &str, reason: impl Into<String>) -> TextError {
        TextError {
            column: self.column(part),
            reason: reason.into(),
            hint: String::new(),
            code: "",
            field: String::new(),
        }
    }

    /// What a rule says of a piece of the text.
    pub(super) fn judged(self, part: &str, rule: std::result::Result<(), Refusal>) -> Result<()> {
        rule.map_err(|refusal| self.refused(part, refusal))
    }

    /// The same of a refusal.
    pub(super) fn refused(self, part: &str, refusal: Refusal) -> TextError {
        TextError { column: self.column(part), ..refusal.into() }
    }

    /// An error whose column counts in a piece of the text.
    pub(super) fn within(self, part: &str, error: TextError) -> TextError {
        TextError { column: self.column(part) + error.column.max(1) - 1, ..error }
    }

    /// "There is no such word", with the nearest one.
    pub(super) fn unknown<'w>(
        self,
        part: &str,
        what: &str,
        words: impl IntoIterator<Item = &'w str> + Clone,
    ) -> TextError {
        let error = self.error(part, format!("there is no {what} {}", quoted(part))).field(part);
        match nearest(part, words.clone()) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => {
                let words: Vec<_> = words.into_iter().take(MAX_LISTED + 1).collect();
                match words.len() {
                    0..=MAX_LISTED => error.hint(format!("one of {}", words.join(", "))),
                    // Nothing but fields is so many.
                    _ => error.hint("fields are those of ovs-fields(7)"),
                }
            }
        }
    }

    /// "There is no such table", with the nearest one.
    pub(super) fn no_table(self, part: &str, names: &dyn Names) -> TextError {
        let error = self.error(part, format!("there is no table {}", quoted(part))).field("table");
        match nearest(part.trim_matches('"'), names.tables()) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint("a number from 0 to 253, or a table's name"),
        }
    }

    /// A number from `least` to `most`: decimal, `0x` hexadecimal, or octal with a leading 0, as in
    /// ovs-ofctl.
    pub(super) fn number(self, what: &str, part: &str, least: u64, most: u64) -> Result<u64> {
        let value = number::parse(part).and_then(|value| u64::try_from(value).ok());
        match value.filter(|value| (least..=most).contains(value)) {
            Some(value) => Ok(value),
            None => Err(self
                .error(part, format!("{} is no {what}", quoted(part)))
                .hint(format!("a number from {least} to {most}"))
                .field(what)),
        }
    }

    /// A number of 8 bits.
    pub(super) fn u8(self, what: &str, part: &str) -> Result<u8> {
        // The range is that of the type.
        self.number(what, part, 0, u8::MAX.into()).map(|value| u8::try_from(value).unwrap_or(u8::MAX))
    }

    /// A number of 16 bits.
    pub(super) fn u16(self, what: &str, part: &str) -> Result<u16> {
        self.number(what, part, 0, u16::MAX.into()).map(|value| u16::try_from(value).unwrap_or(u16::MAX))
    }

    /// A number of 32 bits.
    pub(super) fn u32(self, what: &str, part: &str) -> Result<u32> {
        self.number(what, part, 0, u32::MAX.into()).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// A number of 64 bits. `-1` is all ones, as in ovs-ofctl.
    pub(super) fn u64(self, what: &str, part: &str) -> Result<u64> {
        if part == "-1" { Ok(u64::MAX) } else { self.number(what, part, 0, u64::MAX) }
    }
}

impl TextError {
    /// With a hint.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// With OpenFlow's name of the error.
    #[must_use]
    pub(super) fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// With the field or keyword it is about.
    #[must_use]
    pub(super) fn field(mut self, field: &str) -> Self {
        self.field = field.chars().take(MAX_QUOTED).collect();
        self
    }
}

/// A piece of input for a message: in quotes, control characters escaped, cut if long.
pub(super) fn quoted(part: &str) -> String {
    match part.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}...", &part[..end]),
        None => format!("{part:?}"),
    }
}

/// How a key is followed by its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `key`
    Bare,
    /// `key:value` or `key=value`
    Value,
    /// `key(value)`
    List,
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) key: &'a str,
    pub(super) form: Form,
    /// Empty if there is none.
    pub(super) value: &'a str,
    /// Of `key(value)->target`; else empty.
    pub(super) target: &'a str,
}

impl<'a> Token<'a> {
    /// The value as [`super::MatchBuilder`] wants it.
    pub(super) fn optional(&self) -> Option<&'a str> {
        (self.form != Form::Bare).then_some(self.value)
    }
}

/// Cuts `key=value,key:value key(value),key` into tokens, as ovs-ofctl does: separated by commas
/// and blanks outside of parentheses. Beyond that, quotes protect what is between them, and
/// parentheses must be balanced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'a> {
    source: Source<'a>,
    rest: &'a str,
}

/// Whether a byte separates tokens.
const fn separates(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n')
}

impl<'a> Tokens<'a> {
    /// Of a piece of a source.
    pub(super) const fn new(source: Source<'a>, part: &'a str) -> Self {
        Self { source, rest: part }
    }

    /// What has not been cut yet.
    pub(super) const fn rest(&self) -> &'a str {
        self.rest
    }

    /// Goes on behind a token's `=`: for keys whose value is all the rest.
    pub(super) fn rewind_to_value(&mut self, token: &Token<'a>) {
        let from = self.source.column(token.value) - 1;
        self.rest = self.source.0.get(from..self.source.column(self.rest) - 1 + self.rest.len()).unwrap_or_default();
    }

    /// The next token.
    ///
    /// # Errors
    /// When parentheses are not balanced.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>> {
        let start = self.rest.bytes().position(|byte| !separates(byte)).unwrap_or(self.rest.len());
        let text = &self.rest[start..];
        if text.is_empty() {
            self.rest = text;
            return Ok(None);
        }
        let key_len = match closing_quote(text) {
            Some(end) => end + 1,
            None => {
                let ends = |byte: u8| matches!(byte, b':' | b'=' | b'(') || separates(byte);
                text.bytes().position(ends).unwrap_or(text.len())
            }
        };
        let (key, after) = text.split_at(key_len);
        let mut token = Token { key, form: Form::Bare, value: &after[..0], target: &after[..0] };
        match after.as_bytes().first() {
            Some(b':' | b'=') => {
                let len = self.value_len(&after[1..])?;
                token.form = Form::Value;
                (token.value, self.rest) = after[1..].split_at(len);
            }
            Some(b'(') => {
                let Some(end) = closing_parenthesis(after) else {
                    return Err(self
                        .source
                        .error(after, format!("the parenthesis behind {} is not closed", quoted(key)))
                        .hint("add the missing )"));
                };
                token.form = Form::List;
                token.value = &after[1..end];
                self.rest = &after[end + 1..];
                if let Some(target) = self.rest.strip_prefix("->") {
                    let len = self.value_len(target)?;
                    (token.target, self.rest) = target.split_at(len);
                }
            }
            _ => self.rest = after,
        }
        Ok(Some(token))
    }

    /// Length of a value that ends at a separator.
    fn value_len(&self, text: &str) -> Result<usize> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'(' => match closing_parenthesis(&text[at..]) {
                    Some(len) => at += len,
                    None => {
                        return Err(self
                            .source
                            .error(&text[at..], "this parenthesis is not closed")
                            .hint("add the missing )"));
                    }
                },
                b'"' => at += closing_quote(&text[at..]).unwrap_or_default(),
                byte if separates(byte) => break,
                _ => {}
            }
            at += 1;
        }
        Ok(at)
    }
}

/// Where the quote ends that a text starts with. None: it starts with none, or there is no end
/// (then it is an ordinary character).
fn closing_quote(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    bytes.next().filter(|(_, first)| *first == b'"')?;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Where the parenthesis ends that a text starts with.
fn closing_parenthesis(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut level, mut at) = (0usize, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' => level += 1,
            b')' => {
                level -= 1;
                if level == 0 {
                    return Some(at);
                }
            }
            b'"' => at += closing_quote(&text[at..]).unwrap_or_default(),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Cuts `a,b c` at commas and blanks.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split(|c: char| u8::try_from(c).is_ok_and(separates)).filter(|word| !word.is_empty())
}

/// Cuts `a,b,c` at commas outside of quotes; blanks around the pieces go.
pub(super) fn arguments(text: &str) -> impl Iterator<Item = &str> + Clone {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut at = 0;
        let bytes = text.as_bytes();
        while at < bytes.len() && bytes[at] != b',' {
            if bytes[at] == b'"' {
                at += closing_quote(&text[at..]).unwrap_or_default();
            }
            at += 1;
        }
        rest = text.get(at + 1..);
        Some(text[..at.min(text.len())].trim_matches(|c: char| c.is_ascii_whitespace()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(&str, Form, &str, &str)> {
        let mut tokens = Tokens::new(Source(text), text);
        std::iter::from_fn(|| tokens.next().expect("balanced"))
            .map(|token| (token.key, token.form, token.value, token.target))
            .collect()
    }

    #[test]
    fn tokens_are_cut_as_ovs_ofctl_does() {
        assert_eq!(
            cut(" a=1, b:2\tc(3,(4)),d check(5)->x[0],e=f(g,h)i,,\"p,1\",k=\"q,(r\" "),
            [
                ("a", Form::Value, "1", ""),
                ("b", Form::Value, "2", ""),
                ("c", Form::List, "3,(4)", ""),
                ("d", Form::Bare, "", ""),
                ("check", Form::List, "5", "x[0]"),
                ("e", Form::Value, "f(g,h)i", ""),
                ("\"p,1\"", Form::Bare, "", ""),
                ("k", Form::Value, "\"q,(r\"", ""),
            ]
        );
        assert_eq!(cut(" ,\n"), []);
        assert_eq!(cut("\"abc"), [("\"abc", Form::Bare, "", "")]);
        assert_eq!(cut("é=ü"), [("é", Form::Value, "ü", "")]);
    }

    #[test]
    fn unbalanced_parentheses_are_named() {
        for (text, column) in [("a(b", 2), ("x=1,a((b)", 6), ("a=b(c", 4), ("f(1)->g(", 8)] {
            let mut tokens = Tokens::new(Source(text), text);
            let error = loop {
                match tokens.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{text} is taken"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.column, column, "{text}: {error}");
        }
    }

    #[test]
    fn arguments_keep_quotes() {
        let all: Vec<_> = arguments("a, \"b,c\" ,,\"d").collect();
        assert_eq!(all, ["a", "\"b,c\"", "", "\"d"]);
        assert_eq!(arguments("").count(), 1);
    }
}
