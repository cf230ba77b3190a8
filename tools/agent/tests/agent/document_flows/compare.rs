//! Lines of tables, and the list of what differs between two sets of them.

use std::collections::{BTreeMap, BTreeSet};

/// Lines by table; groups are under [`GROUPS`].
pub(crate) type Lines = BTreeMap<String, BTreeSet<String>>;

/// Where groups are among tables.
pub(crate) const GROUPS: &str = "(groups)";

/// Lines that go together, each with its table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Difference {
    /// Rows of the table in docs/antrea.md that are the reason.
    pub(crate) rows: Vec<u32>,
    /// The first line: rows and words.
    pub(crate) title: String,
    /// What the document has and we do not.
    pub(crate) without: Vec<(String, String)>,
    /// What we have and the document does not.
    pub(crate) with: Vec<(String, String)>,
}

/// Reads a list: paragraphs of a title (`7,11: reason`) and lines, the document's behind `- `, ours
/// behind `+ `. `#` begins a remark.
pub(crate) fn differences(text: &str) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let of = |line: &str| (String::new(), line.to_owned());
        match (line.strip_prefix("- "), line.strip_prefix("+ "), all.last_mut()) {
            (Some(line), _, Some(last)) => last.without.push(of(line)),
            (_, Some(line), Some(last)) => last.with.push(of(line)),
            (None, None, _) => {
                let (rows, _) = line.split_once(": ").unwrap_or_else(|| panic!("no title: {line}"));
                let rows = rows.split(',').map(|row| row.parse().unwrap_or_else(|_| panic!("no row: {line}")));
                all.push(Difference { rows: rows.collect(), title: line.to_owned(), ..Difference::default() });
            }
            (_, _, None) => panic!("a line before any title: {line}"),
        }
    }
    all
}

/// What is wrong with `ours`, which is to be `document` but for the differences; and with these.
pub(crate) fn compare(document: &Lines, ours: &Lines, differences: &[Difference]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut expected = document.clone();
    for one in differences {
        for (table, line) in &one.without {
            if !expected.entry(table.clone()).or_default().remove(line) {
                complaints.push(format!("{:?}: the document has no\n    {line}", one.title));
            }
        }
    }
    for one in differences {
        for (table, line) in &one.with {
            let is_new = expected.entry(table.clone()).or_default().insert(line.clone());
            if !is_new || document.get(table).is_some_and(|lines| lines.contains(line)) {
                complaints.push(format!("{:?}: the document, or another difference, has\n    {line}", one.title));
            }
        }
        if one.without.is_empty() && one.with.is_empty() {
            complaints.push(format!("{:?} has no lines", one.title));
        }
    }
    let of = |line: &String| {
        let named = |lines: &[(String, String)]| lines.iter().any(|(_, other)| other == line);
        let known = differences.iter().find(|one| named(&one.without) || named(&one.with));
        known.map_or_else(String::new, |one| format!("    <- {:?}", one.title))
    };
    let none = BTreeSet::new();
    for table in expected.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
        let [want, have] = [&expected, ours].map(|lines| lines.get(table).unwrap_or(&none));
        let told = |lines: Vec<&String>, what: &str| -> Option<String> {
            let lines: Vec<String> = lines.into_iter().map(|line| format!("    {line}{}", of(line))).collect();
            (!lines.is_empty()).then(|| format!("{table}: {what}\n{}", lines.join("\n")))
        };
        complaints.extend(told(want.difference(have).collect(), "missing"));
        complaints.extend(told(have.difference(want).collect(), "extra"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(of: &[&str]) -> Lines {
        [("T".to_owned(), of.iter().map(|line| (*line).to_owned()).collect())].into()
    }

    /// Titles of complaints about a document of lines a and b.
    fn complaints(ours: &[&str], list: &str) -> Vec<String> {
        let in_table =
            |lines: Vec<(String, String)>| lines.into_iter().map(|(_, line)| ("T".to_owned(), line)).collect();
        let list = differences(list).into_iter().map(|one| Difference {
            without: in_table(one.without),
            with: in_table(one.with),
            ..one
        });
        let told = compare(&lines(&["a", "b"]), &lines(ours), &list.collect::<Vec<_>>());
        told.iter().map(|told| told.replace("\n    ", " ")).collect()
    }

    #[test]
    fn what_is_listed_may_differ_and_must() {
        let list = "# a remark\n3: a reason\n- b\n+ c\n";
        assert_eq!(complaints(&["a", "b"], ""), [""; 0]);
        assert_eq!(complaints(&["a", "c"], list), [""; 0]);
        assert_eq!(
            complaints(&["a", "b"], list),
            [r#"T: missing c    <- "3: a reason""#, r#"T: extra b    <- "3: a reason""#]
        );
        assert_eq!(complaints(&["a", "b", "d"], ""), ["T: extra d"]);
        assert_eq!(complaints(&["b"], ""), ["T: missing a"]);
    }

    #[test]
    fn a_difference_is_one_from_the_document() {
        assert_eq!(complaints(&["a", "b"], "3: x\n- d\n"), [r#""3: x": the document has no d"#]);
        assert_eq!(
            complaints(&["a", "b"], "3: x\n- b\n+ b\n"),
            [r#""3: x": the document, or another difference, has b"#]
        );
        assert_eq!(complaints(&["a", "b"], "3: x\n"), [r#""3: x" has no lines"#]);
    }
}
