//! How answers look: text with the shapes of Open vSwitch's tools, or JSON.

use crate::error::Error;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::Value;
use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use vswitch_proto::v1;

/// OpenFlow number of a bridge's own port.
pub(crate) const LOCAL: u32 = 0xffff_fffe;

/// An answer that can be printed both ways.
pub(crate) trait Report {
    /// For people: lines, each with its newline; may be empty.
    fn text(&self) -> String;
    /// For programs.
    fn json(&self) -> Value;
    /// Writes the answer by itself, if it is too long for the ways above.
    fn write(&self, as_json: bool, out: &mut dyn Write) -> Option<io::Result<()>> {
        let _ = (as_json, out);
        None
    }
    /// What was odd and was accepted; told on stderr, or part of the JSON if that is an object.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// What a newcomer may wonder about; told on stderr, if the answer goes to a terminal.
    fn note(&self) -> Option<String> {
        None
    }
    /// Whether the answer is good news; if not, the exit code says so after it is printed.
    fn verdict(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// What a command that is asked once comes to.
pub(crate) type Answer = Result<Box<dyn Report>, Error>;

/// How the answer to a command leaves.
pub(crate) enum Reply<'a> {
    /// Whole: it is printed.
    Report(Box<dyn Report>),
    /// Line by line, as the switch tells: the future writes them, and has not begun yet.
    Stream(Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>),
}

impl<'a> Reply<'a> {
    /// Of a future that writes lines.
    pub(crate) fn stream(lines: impl Future<Output = Result<(), Error>> + 'a) -> Self {
        Self::Stream(Box::pin(lines))
    }

    /// Writes the lines of a stream. Otherwise the report, which is to be printed.
    pub(crate) async fn report(self) -> Result<Option<Box<dyn Report>>, Error> {
        match self {
            Self::Report(report) => Ok(Some(report)),
            Self::Stream(lines) => lines.await.map(|()| None),
        }
    }
}

/// The answer of a change that has nothing to tell.
pub(crate) struct Done;

impl Report for Done {
    fn text(&self) -> String {
        String::new()
    }

    fn json(&self) -> Value {
        serde_json::json!({ "ok": true })
    }
}

/// A change that has nothing to tell but what was odd.
pub(crate) struct Warned(pub(crate) Vec<String>);

impl Report for Warned {
    fn text(&self) -> String {
        String::new()
    }

    fn json(&self) -> Value {
        serde_json::json!({ "ok": true, "warnings": self.0 })
    }

    fn warnings(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// Writes an answer.
pub(crate) fn print(report: &dyn Report, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if let Some(result) = report.write(as_json, out) {
        result?;
    } else if as_json {
        serde_json::to_writer_pretty(&mut *out, &report.json())?;
        writeln!(out)?;
    } else {
        out.write_all(report.text().as_bytes())?;
    }
    out.flush()
}

/// Columns of a table and whether they hold numbers, which are aligned to the right.
pub(crate) type Columns<'a> = &'a [(&'a str, bool)];

/// An aligned table without borders.
pub(crate) fn table(columns: Columns<'_>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(name, _)| *name));
    for row in rows {
        table.add_row(row);
    }
    for (column, (_, is_number)) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if *is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A port number as Open vSwitch writes it.
pub(crate) fn port_number(number: u32) -> String {
    if number == LOCAL { "LOCAL".to_owned() } else { number.to_string() }
}

/// An address; a wrong one from a newer switch shows as what it is.
pub(crate) fn mac(mac: Option<&v1::MacAddress>) -> String {
    let octets = mac.map_or(&[][..], |mac| &mac.octets);
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

/// Part of a whole in percent; 0 of nothing.
#[allow(clippy::cast_precision_loss)] // for display
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Ratio of two counts; 0 to nothing.
#[allow(clippy::cast_precision_loss)] // for display
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_without_trailing_blanks() {
        let rows = [vec!["a".to_owned(), "5".to_owned()], vec!["longer".to_owned(), "1000".to_owned()]];
        let text = table(&[("NAME", false), ("COUNT", true)], rows);
        assert_eq!(text, "NAME    COUNT\na           5\nlonger   1000\n");
        assert_eq!(table(&[("NAME", false), ("COUNT", true)], []), "NAME  COUNT\n");
    }

    #[test]
    fn numbers() {
        assert_eq!(port_number(7), "7");
        assert_eq!(port_number(4_294_967_294), "LOCAL");
        assert_eq!(mac(Some(&v1::MacAddress { octets: vec![2, 0, 0, 0, 0xab, 1] })), "02:00:00:00:ab:01");
        assert_eq!(mac(None), "");
        assert!((percent(1, 8) - 12.5).abs() < f64::EPSILON && percent(1, 0) == 0.0);
        assert!((ratio(9, 2) - 4.5).abs() < f64::EPSILON && ratio(9, 0) == 0.0);
    }

    #[test]
    fn a_failing_writer_is_an_error_not_a_panic() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for as_json in [true, false] {
            struct Line;
            impl Report for Line {
                fn text(&self) -> String {
                    "line\n".to_owned()
                }
                fn json(&self) -> Value {
                    Value::Null
                }
            }
            let error = print(&Line, as_json, &mut Full).expect_err("it cannot be written");
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "json: {as_json}");
        }
    }
}
