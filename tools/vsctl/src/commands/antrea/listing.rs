//! Objects of a kind as a table or as JSON, and the names that were asked for in vain.

use crate::error::Error;
use crate::output::{Columns, Report, table};
use serde_json::Value;
use tonic::Status;
use vswitch_net_types::shown;

/// Names in a refusal.
const MISSING_MAX: usize = 20;

/// A kind of object as a verb lists it.
pub(super) trait Listed {
    /// Columns of its table.
    const COLUMNS: Columns<'static>;
    /// What one of them is.
    const NOUN: &'static str;
    /// The verb that lists all of them.
    const VERB: &'static str;
    /// Its name.
    fn name(&self) -> &str;
    /// Its rows in the table; `is_asked_for`: by its name.
    fn rows(&self, is_asked_for: bool) -> Vec<Vec<String>>;
    /// For programs.
    fn json(&self) -> Value;
}

/// Objects, and the names that were asked for: none means all.
pub(super) struct Listing<T> {
    objects: Vec<T>,
    names: Vec<String>,
}

impl<T: Listed> Listing<T> {
    pub(super) fn new(objects: Vec<T>, names: &[String]) -> Self {
        Self { objects, names: names.to_vec() }
    }

    /// The error for names that are nobody's, if there are any.
    pub(super) fn missing(&self) -> Option<Error> {
        let is_missing = |name: &&String| !self.objects.iter().any(|object| object.name() == name.as_str());
        let missing: Vec<_> = self.names.iter().filter(is_missing).map(|name| format!("{name:?}")).collect();
        if missing.is_empty() {
            return None;
        }
        let more = missing.len().saturating_sub(MISSING_MAX);
        let mut told = missing[..missing.len() - more].join(", ");
        if more > 0 {
            told.push_str(&format!(" and {more} more"));
        }
        let told = format!("no {} {told}; `vsctl antrea {}` lists them", T::NOUN, T::VERB);
        Some(Error::Refused(Box::new(Status::not_found(told))))
    }
}

impl<T: Listed> Report for Listing<T> {
    fn text(&self) -> String {
        let is_asked_for = !self.names.is_empty();
        let rows = self.objects.iter().flat_map(|object| object.rows(is_asked_for));
        cells(T::COLUMNS, rows)
    }

    fn json(&self) -> Value {
        self.objects.iter().map(Listed::json).collect()
    }

    fn verdict(&self) -> Result<(), Error> {
        self.missing().map_or(Ok(()), Err)
    }
}

/// A table of words of an agent's making.
pub(super) fn cells(columns: Columns<'_>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let row = |row: Vec<String>| row.iter().map(|cell| shown(cell).into_owned()).collect();
    table(columns, rows.into_iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Thing(&'static str);

    impl Listed for Thing {
        const COLUMNS: Columns<'static> = &[("NAME", false), ("ASKED", true)];
        const NOUN: &'static str = "thing";
        const VERB: &'static str = "things";

        fn name(&self) -> &str {
            self.0
        }

        fn rows(&self, is_asked_for: bool) -> Vec<Vec<String>> {
            vec![vec![self.0.to_owned(), u8::from(is_asked_for).to_string()]]
        }

        fn json(&self) -> Value {
            json!({ "name": self.0 })
        }
    }

    #[test]
    fn names_that_are_nobodys_are_told() {
        let names = ["a", "x", "y"].map(str::to_owned);
        let listing = Listing::new(vec![Thing("a")], &names);
        assert_eq!(listing.text(), "NAME  ASKED\na         1\n");
        assert_eq!(listing.json(), json!([{ "name": "a" }]));
        let told = listing.verdict().expect_err("two are missing").to_string();
        assert_eq!(told, "no thing \"x\", \"y\"; `vsctl antrea things` lists them");
        assert!(Listing::new(vec![Thing("a")], &names[..1]).verdict().is_ok());
        assert!(Listing::<Thing>::new(Vec::new(), &[]).verdict().is_ok(), "none is no error if all were asked for");
        let many: Vec<_> = (0..22).map(|i| i.to_string()).collect();
        let told = Listing::<Thing>::new(Vec::new(), &many).verdict().expect_err("all are missing").to_string();
        assert!(told.contains("\"19\" and 2 more;"), "{told}");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        assert_eq!(Listing::new(vec![Thing("a\u{1b}[2J")], &[]).text(), "NAME        ASKED\na\\u{1b}[2J      0\n");
    }
}
