//! Walks a spanned TOML document: typed access to keys that complains, with positions, instead of
//! failing.

use super::place::{ConfigKey, ConfigKeys, LineIndex, Position};
use super::report::{Problem, Report};
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vswitch_net_types::suggest::did_you_mean;

/// A range of bytes in the file.
pub(super) type Span = Range<usize>;

/// Bytes of a text whose syntax errors are all reported; of a longer one only the first is. The
/// parser keeps every error, and a text can have three for every two bytes. A thousand ports take
/// half of this.
const RECOVER_LEN_MAX: usize = 512 << 10;

/// Collects complaints. After a syntax error the parser resumes as well as it can: complaints about
/// the same line (after a broken header: about its whole section), and conclusions from what is
/// absent, could be its fault and are left out.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    lines: LineIndex<'a>,
    report: Report,
    broken: HashSet<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, file: &Path) -> Self {
        Self { lines: LineIndex::new(text.as_bytes()), report: Report::new(file), broken: HashSet::new() }
    }

    /// Parses a document and reports its syntax errors.
    pub(super) fn document(&mut self, text: &'a str) -> DeTable<'a> {
        let (document, errors) = if text.len() <= RECOVER_LEN_MAX {
            DeTable::parse_recoverable(text)
        } else {
            DeTable::parse(text).map_or_else(
                |error| (Spanned::new(0..0, DeTable::new()), vec![error]),
                |document| (document, Vec::new()),
            )
        };
        for error in errors {
            let position = self.lines.position(error.span().map_or(0, |span| span.start));
            self.distrust(position.line);
            let (problem, hint) = (error.message(), syntax_hint(error.message()));
            self.report.push(Problem::error(Some(position), "", problem, hint));
        }
        document.into_inner()
    }

    /// Notes that a line has a syntax error.
    fn distrust(&mut self, line: usize) {
        let is_header = |line| self.lines.line(line).trim_ascii_start().starts_with(b"[");
        if self.broken.insert(line) && is_header(line) {
            let section = line + 1..=self.lines.line_count();
            self.broken.extend(section.take_while(|line| !is_header(*line)));
        }
    }

    /// Whether the whole document could be parsed.
    pub(super) fn is_whole(&self) -> bool {
        self.broken.is_empty()
    }

    pub(super) fn position(&self, span: &Span) -> Position {
        self.lines.position(span.start)
    }

    /// `file:line:column`, for "the first is at".
    pub(super) fn locate(&self, span: &Span) -> String {
        format!("{}:{}", self.report.file().display(), self.position(span))
    }

    /// Reports a problem with what stands at `span`.
    pub(super) fn wrong(&mut self, span: &Span, field: &str, problem: impl Into<String>, hint: impl Into<String>) {
        let position = self.position(span);
        // Where the parser found no value it puts one with an empty span.
        if self.is_whole() || !(self.broken.contains(&position.line) || span.is_empty()) {
            self.report.push(Problem::error(Some(position), field, problem, hint));
        }
    }

    /// Reports a problem that follows from what the file does not have.
    pub(super) fn absent(&mut self, span: &Span, field: &str, problem: impl Into<String>, hint: impl Into<String>) {
        if self.is_whole() {
            self.wrong(span, field, problem, hint);
        }
    }

    /// Reports what is told whatever else is wrong.
    pub(super) fn push(&mut self, problem: Problem) {
        self.report.push(problem);
    }

    /// Whether anything is wrong so far.
    pub(super) fn has_errors(&self) -> bool {
        self.report.has_errors()
    }

    /// The place of a byte (from 1; 0: none) of a string that stands at `span`; of the string, if
    /// it is written with escapes or over several lines.
    pub(super) fn inside(&self, span: &Span, value: &str, column: usize) -> Span {
        let written = self.lines.text().get(span.start + 1..span.end.saturating_sub(1));
        match column.checked_sub(1) {
            Some(at) if written == Some(value.as_bytes()) => span.start + 1 + at..span.end,
            _ => span.clone(),
        }
    }

    pub(super) fn into_report(self) -> Report {
        self.report
    }
}

/// How to fix what the TOML parser says.
fn syntax_hint(message: &str) -> &'static str {
    let hints = [
        ("duplicate key", "give a key or [section] once in its table; only [[bridge]] and [[bridge.port]] repeat"),
        ("cannot extend", "give a value once, either inline or in its own section"),
        ("string values must be quoted", "put text in double quotes"),
        ("carriage return", "end lines with LF or CR LF"),
        (
            "invalid basic string",
            "close the quote on the same line; write \\\\ for a backslash and no control characters",
        ),
        ("invalid comment character", "remove control characters"),
        ("recurs", "nest less deeply"),
        ("key with no value", "write key = value"),
        ("missing value", "write key = value"),
        ("unclosed array table", "write [[section]]"),
        ("unclosed array", "close it with ]"),
        ("unclosed table", "write [section]"),
        ("unclosed inline table", "close it with }"),
        ("leading zero", "write the number without leading zeros"),
    ];
    hints.iter().find(|(start, _)| message.contains(start)).map_or("see https://toml.io/en/v1.1.0", |(_, hint)| hint)
}

/// What a value is, with its article.
pub(super) const fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// One table of the file. Every key that is looked for is remembered; [`Section::finish`] complains
/// about the others.
#[derive(Debug)]
pub(super) struct Section<'d, 'i> {
    /// As the file writes it: `[dpdk]`.
    pub(super) title: &'static str,
    /// Its header.
    pub(super) header: Span,
    table: Option<&'d DeTable<'i>>,
    spans: Vec<(&'static str, Span)>,
    refused: Vec<&'static str>,
}

impl<'d, 'i> Section<'d, 'i> {
    pub(super) const fn new(title: &'static str, header: Span, table: Option<&'d DeTable<'i>>) -> Self {
        Self { title, header, table, spans: Vec::new(), refused: Vec::new() }
    }

    /// Whether the file has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Where the key's value stands; without the key: the header.
    pub(super) fn span(&self, key: &str) -> Span {
        self.spans.iter().find(|(name, _)| *name == key).map_or_else(|| self.header.clone(), |(_, span)| span.clone())
    }

    /// Marks a key's value as refused.
    pub(super) fn refuse(&mut self, key: &'static str) {
        self.refused.push(key);
    }

    /// Whether there already is a complaint about this key.
    pub(super) fn is_refused(&self, key: &str) -> bool {
        self.refused.contains(&key)
    }

    /// The value of a key as it is.
    pub(super) fn raw(&mut self, key: &'static str) -> Option<(&'d DeValue<'i>, Span)> {
        let value = self.table?.get(key)?;
        if !self.spans.iter().any(|(name, _)| *name == key) {
            self.spans.push((key, value.span()));
        }
        Some((value.get_ref(), value.span()))
    }

    /// The value of a key, if it has the right type.
    pub(super) fn typed<T>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        (want, example): (&str, &str),
        take: impl FnOnce(&'d DeValue<'i>) -> Option<T>,
    ) -> Option<(T, Span)> {
        let (value, span) = self.raw(key)?;
        let taken = take(value);
        if taken.is_none() {
            let problem = format!("is {}, must be {want}", type_of(value));
            reader.wrong(&span, key, problem, format!("write {key} = {example}"));
            self.refuse(key);
        }
        taken.map(|value| (value, span))
    }

    pub(super) fn boolean(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<bool> {
        self.typed(reader, key, ("true or false", "true"), DeValue::as_bool).map(|(value, _)| value)
    }

    /// A string without NUL.
    pub(super) fn string(&mut self, reader: &mut Reader<'_>, key: &'static str, example: &str) -> Option<String> {
        let (text, span) = self.typed(reader, key, ("a string", &format!("{example:?}")), DeValue::as_str)?;
        if text.contains('\0') {
            reader.wrong(&span, key, "contains a NUL character", "remove it");
            self.refuse(key);
            return None;
        }
        Some(text.to_owned())
    }

    /// An integer in a range.
    pub(super) fn integer<T: TryFrom<i128>>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        range: &RangeInclusive<i128>,
    ) -> Option<T> {
        let want = format!("an integer from {} to {}", range.start(), range.end());
        let example = range.start().to_string();
        let (digits, span) = self.typed(reader, key, (&want, &example), |value| value.as_integer())?;
        let number = in_range(reader, &span, key, digits, range);
        if number.is_none() {
            self.refuse(key);
        }
        number.and_then(|number| T::try_from(number).ok())
    }

    /// The elements of an array.
    pub(super) fn array<T>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        (want, example): (&str, &str),
        mut element: impl FnMut(&mut Reader<'_>, &'d DeValue<'i>, &Span) -> Option<T>,
    ) -> Option<Vec<(T, Span)>> {
        let (array, _) = self.typed(reader, key, (want, example), DeValue::as_array)?;
        let mut taken = Vec::with_capacity(array.len());
        for item in array.iter() {
            let span = item.span();
            match element(reader, item.get_ref(), &span) {
                Some(value) => taken.push((value, span)),
                None => self.refuse(key),
            }
        }
        (!self.is_refused(key)).then_some(taken)
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let text = self.string(reader, key, words[0].0)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let hint = format!("{}use one of: {}", did_you_mean(&text, all.iter().copied()), all.join(", "));
            reader.wrong(&self.span(key), key, format!("{} is not known", quoted(&text)), hint);
            self.refuse(key);
        }
        found
    }

    /// Where a key itself stands, if the file has it.
    pub(super) fn key(&self, key: &str) -> Option<Span> {
        self.table?.get_key_value(key).map(|(key, _)| key.span())
    }

    /// Complains about every key that is not `known`; the hint lists those `shown`.
    pub(super) fn finish(&self, reader: &mut Reader<'_>, known: &[&str], shown: &[&str]) {
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let suggestion = did_you_mean(name, shown.iter().copied());
                let hint = format!("{suggestion}{} has the keys: {}", self.title, shown.join(", "));
                reader.wrong(&key.span(), &shown_key(name), "unknown key", hint);
            }
        }
    }

    /// Hands the positions of the keys over, for complaints that come later.
    pub(super) fn record(
        &self,
        reader: &Reader<'_>,
        places: &mut ConfigKeys,
        place: impl Fn(&'static str) -> ConfigKey,
    ) {
        for (key, span) in &self.spans {
            places.insert(place(key), reader.position(span));
        }
        for key in &self.refused {
            places.refuse(place(key));
        }
    }
}

/// The integer, if it is in range; else a complaint.
pub(super) fn in_range(
    reader: &mut Reader<'_>,
    span: &Span,
    key: &str,
    digits: &toml::de::DeInteger<'_>,
    range: &RangeInclusive<i128>,
) -> Option<i128> {
    let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok().filter(|number| range.contains(number));
    if number.is_none() {
        let hint = format!("use {} to {}", range.start(), range.end());
        reader.wrong(span, key, format!("{} is out of range", shorten(&digits.to_string())), hint);
    }
    number
}

/// Characters of a value that a message repeats.
const SHOWN_MAX: usize = 64;

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A value from the file as a message shows it: quoted, escaped, shortened.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shorten(text))
}

/// A key as a message shows it: quoted only if the file has to quote it.
fn shown_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if bare { shorten(key) } else { quoted(key) }
}
