//! What a page shows: lines and a table, made of two readings.
//!
//! **Where in the walk.** Pages make sheets. `screen` draws them, `--once` prints them.
//!
//! **Design.** Cells keep their values: text, JSON and the order of rows are made of one thing.

use crate::output::table;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use vswitch_net_types::shown;

/// A column of a table.
#[derive(Debug)]
pub(super) struct Column {
    /// Above it.
    pub(super) heading: &'static str,
    /// Its name in JSON.
    pub(super) key: &'static str,
    /// Aligned to the right.
    pub(super) is_number: bool,
}

/// A column of names.
pub(super) const fn name(heading: &'static str, key: &'static str) -> Column {
    Column { heading, key, is_number: false }
}

/// A column of numbers.
pub(super) const fn number(heading: &'static str, key: &'static str) -> Column {
    Column { heading, key, is_number: true }
}

/// A value in a table. None: it is not known, or there is nothing to know.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// A name.
    Text(String),
    /// How many.
    Count(Option<u64>),
    /// How many per second, or another number that is rounded for people.
    Rate(Option<f64>),
    /// A part in percent.
    Percent(Option<f64>),
}

impl Cell {
    /// A name.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) if text.is_empty() => "-".to_owned(),
            Self::Text(text) => shown(text).to_string(),
            Self::Count(count) => count.map_or("-".to_owned(), |count| count.to_string()),
            Self::Rate(rate) => rate.map_or("-".to_owned(), rounded),
            Self::Percent(part) => part.map_or("-".to_owned(), |part| format!("{part:.1}")),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Count(count) => (*count).into(),
            Self::Rate(number) | Self::Percent(number) => (*number).into(),
        }
    }

    #[allow(clippy::cast_precision_loss)] // for the order
    fn number(&self) -> f64 {
        match self {
            Self::Text(_) => f64::NEG_INFINITY,
            Self::Count(count) => count.map_or(f64::NEG_INFINITY, |count| count as f64),
            Self::Rate(number) | Self::Percent(number) => number.unwrap_or(f64::NEG_INFINITY),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (one, other) => one.number().total_cmp(&other.number()),
        }
    }
}

/// A number with three digits and a factor: `7.5`, `120`, `1.25k`, `10.0G`.
pub(super) fn rounded(number: f64) -> String {
    let (mut scaled, mut factor) = (number, "");
    for next in ["k", "M", "G", "T"] {
        if scaled.abs() < 999.5 {
            break;
        }
        (scaled, factor) = (scaled / 1000.0, next);
    }
    let digits = match scaled.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 || factor.is_empty() => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{factor}")
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Rows of a lower rank come first, whatever the order is.
    pub(super) rank: u8,
    /// A value for each column.
    pub(super) cells: Vec<Cell>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Index of the column.
    pub(super) column: usize,
    /// The most, or the last name, first.
    pub(super) is_descending: bool,
}

impl Order {
    /// The most first.
    pub(super) const fn most(column: usize) -> Self {
        Self { column, is_descending: true }
    }
}

/// What a page shows.
#[derive(Debug)]
pub(super) struct Sheet {
    /// What belongs to no row.
    pub(super) lines: Vec<String>,
    /// The same, for programs.
    pub(super) facts: Map<String, Value>,
    /// Something that an operator must see.
    pub(super) alarm: Option<String>,
    /// Of the table.
    pub(super) columns: &'static [Column],
    /// Of the table.
    pub(super) rows: Vec<Row>,
    /// What it means if there is no row.
    pub(super) nothing: &'static str,
}

impl Sheet {
    /// An empty one.
    pub(super) fn new(columns: &'static [Column], nothing: &'static str) -> Self {
        Self { lines: Vec::new(), facts: Map::new(), alarm: None, columns, rows: Vec::new(), nothing }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row { rank: 0, cells });
    }

    /// Adds a fact for programs.
    pub(super) fn fact(&mut self, key: &str, value: impl Into<Value>) {
        self.facts.insert(key.to_owned(), value.into());
    }

    /// Puts rows in order. Equal ones stay as they are.
    pub(super) fn sort(&mut self, order: Order) {
        self.rows.sort_by(|one, other| {
            let by_column = match (one.cells.get(order.column), other.cells.get(order.column)) {
                (Some(one), Some(other)) => one.compare(other),
                _ => Ordering::Equal,
            };
            let by_column = if order.is_descending { by_column.reverse() } else { by_column };
            one.rank.cmp(&other.rank).then(by_column)
        });
    }

    /// As text: the lines, then the table.
    pub(super) fn text(&self) -> String {
        let mut text: String = self.alarm.iter().chain(&self.lines).map(|line| format!("{line}\n")).collect();
        if self.rows.is_empty() {
            text += &format!("({})\n", self.nothing);
        } else {
            let columns: Vec<_> = self.columns.iter().map(|column| (column.heading, column.is_number)).collect();
            text += &table(&columns, self.rows.iter().map(|row| row.cells.iter().map(Cell::shown).collect()));
        }
        text
    }

    /// For programs: the facts, then the rows.
    pub(super) fn json(&self) -> Map<String, Value> {
        let cell = |(column, cell): (&Column, &Cell)| (column.key.to_owned(), cell.json());
        let row = |row: &Row| self.columns.iter().zip(&row.cells).map(cell).collect::<Map<_, _>>();
        let mut json = self.facts.clone();
        json.insert("alarm".to_owned(), self.alarm.clone().into());
        json.insert("rows".to_owned(), self.rows.iter().map(row).collect());
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_factor() {
        let cases = [
            (0.0, "0.0"),
            (7.54, "7.5"),
            (120.4, "120"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1250.0, "1.25k"),
            (99_960.0, "100k"),
            (10_000_000_000.0, "10.0G"),
            (-1500.0, "-1.50k"),
        ];
        for (number, want) in cases {
            assert_eq!(rounded(number), want, "{number}");
        }
    }

    const COLUMNS: &[Column] = &[name("NAME", "name"), number("PACKETS/S", "packets_per_second")];

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new(COLUMNS, "no ports");
        for (rank, name, rate) in [(1, "b", Some(5.0)), (1, "a", None), (0, "z\u{1b}", Some(1.0)), (1, "c", Some(5.0))]
        {
            sheet.rows.push(Row { rank, cells: vec![Cell::text(name), Cell::Rate(rate)] });
        }
        sheet
    }

    #[test]
    fn rows_are_in_order_by_rank_then_by_column() {
        let mut sheet = sheet();
        let names = |sheet: &Sheet| sheet.rows.iter().map(|row| row.cells[0].shown()).collect::<Vec<_>>().join(" ");
        sheet.sort(Order::most(1));
        assert_eq!(names(&sheet), "z\\u{1b} b c a", "what is not known is the least");
        sheet.sort(Order { column: 0, is_descending: false });
        assert_eq!(names(&sheet), "z\\u{1b} a b c");
        sheet.sort(Order { column: 9, is_descending: false });
        assert_eq!(names(&sheet), "z\\u{1b} a b c", "there is no such column");
    }

    #[test]
    fn a_sheet_both_ways() {
        let mut sheet = sheet();
        sheet.lines.push("4 ports".to_owned());
        sheet.fact("ports", 4);
        assert_eq!(
            sheet.text(),
            "4 ports\nNAME     PACKETS/S\nb              5.0\na                -\nz\\u{1b}        1.0\nc              5.0\n"
        );
        let json = Value::Object(sheet.json());
        assert_eq!((&json["ports"], &json["alarm"]), (&4.into(), &Value::Null));
        assert_eq!(json["rows"][0], serde_json::json!({ "name": "b", "packets_per_second": 5.0 }));
        sheet.rows.clear();
        assert_eq!(sheet.text(), "4 ports\n(no ports)\n");
    }
}
