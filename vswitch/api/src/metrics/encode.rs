//! The two text formats of Prometheus.
//!
//! Sources: "Exposition formats" of Prometheus (text format 0.0.4), and OpenMetrics 1.0. They
//! differ in the names of counters' families, in units, and in the mark of the end.

use super::family::{Family, Kind, Samples, escape};
use crate::services::Reading;
use std::fmt::Write;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus' own.
    Text,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The header `Content-Type`.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that a client likes best, by its header `Accept`.
    pub(super) fn accepted(accept: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts.next() {
                Some("application/openmetrics-text") => Self::OpenMetrics,
                Some("text/plain" | "text/*" | "*/*") => Self::Text,
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse::<f64>);
            if weight.as_ref().is_ok_and(|weight| *weight > best.0) {
                best = (weight.unwrap_or_default(), format);
            }
        }
        best.1
    }
}

/// Units that a name may end with.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];

/// The unit of a family without its `_total`; empty: none.
pub(super) fn unit(name: &str) -> &'static str {
    UNITS.into_iter().find(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'))).unwrap_or("")
}

/// The families of a reading as text, and how many series they have. A family without a sample is
/// left out.
pub(super) fn encode<'a>(
    families: impl Iterator<Item = &'static Family> + 'a,
    reading: &Reading,
    format: Format,
) -> (String, usize) {
    let (mut text, mut series) = (String::with_capacity(64 << 10), 0);
    for family in families {
        let start = text.len();
        header(family, format, &mut text);
        let mut samples = Samples::new(&mut text, family);
        (family.read)(reading, &mut samples);
        let count = samples.count();
        series += count;
        if count == 0 {
            text.truncate(start);
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    (text, series)
}

fn header(family: &Family, format: Format, text: &mut String) {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let base = family.name.strip_suffix("_total").unwrap_or(family.name);
    let (name, kind) = match (format, family.kind) {
        (Format::Text, _) | (Format::OpenMetrics, Kind::Gauge | Kind::Histogram) => (family.name, kind),
        (Format::OpenMetrics, Kind::Counter) if base != family.name => (base, kind),
        // OpenMetrics knows no counter whose name does not end with _total.
        (Format::OpenMetrics, Kind::Counter) => (family.name, "unknown"),
    };
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if format == Format::OpenMetrics && !unit(name).is_empty() {
        let _ = writeln!(text, "# UNIT {name} {}", unit(name));
    }
    let _ = write!(text, "# HELP {name} ");
    match format {
        Format::OpenMetrics => escape(family.help, text),
        Format::Text => text.push_str(&family.help.replace('\\', "\\\\").replace('\n', "\\n")),
    }
    text.push('\n');
}
