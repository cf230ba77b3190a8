//! The cluster of Antrea's pipeline document, from its YAML to flows: table by table those that the
//! document lists. What differs is in `data/differences.txt`, each line with its row of
//! `docs/antrea.md`, "Differences from the document", and nothing else may; what is listed there
//! and does not differ fails, too.

mod compare;
mod switch;

use compare::{Difference, Lines, compare, differences};
use std::collections::BTreeSet;
use std::path::Path;
use switch::Order;
use vswitch_antrea::NodeState;

/// A text of the repository, by its path from the top.
fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Flows and groups that the document lists, as dumps have them.
fn document(node_state: &NodeState) -> Lines {
    let mut lines = Lines::default();
    for file in ["antrea-flows.txt", "antrea-groups.txt"] {
        for line in text(&format!("vswitch/flow/tests/data/{file}")).lines().filter(|line| !line.trim().is_empty()) {
            let (table, line) = switch::normal(node_state, line);
            lines.entry(table).or_default().insert(line);
        }
    }
    lines
}

/// The list of differences, its lines as dumps have them.
fn listed(node_state: &NodeState) -> Vec<Difference> {
    let list = differences(&text("tools/agent/tests/data/differences.txt"));
    let normal = |lines: &[(String, String)]| lines.iter().map(|(_, line)| switch::normal(node_state, line)).collect();
    list.into_iter().map(|one| Difference { without: normal(&one.without), with: normal(&one.with), ..one }).collect()
}

/// Rows of the table of differences in docs/antrea.md.
fn rows() -> BTreeSet<u32> {
    let page = text("docs/antrea.md");
    let (_, behind) = page.split_once("## Differences from the document").expect("the page lists them");
    let section = behind.split("\n## ").next().unwrap_or_default();
    section.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse().ok()).collect()
}

#[test]
fn the_documents_cluster_becomes_the_documents_flows() {
    let mut numbers = BTreeSet::new();
    for order in [Order::Together, Order::Backwards] {
        let node_state = switch::of_the_documents_cluster(order);
        assert!(numbers.insert(switch::numbers(&node_state)), "other numbers in another order");
        let complaints = compare(&document(&node_state), &switch::lines(&node_state), &listed(&node_state));
        assert!(complaints.is_empty(), "{order:?}:\n{}", complaints.join("\n"));
    }
}

#[test]
fn all_of_the_document_is_compared() {
    let node_state = switch::of_the_documents_cluster(Order::Together);
    let (document, ours) = (document(&node_state), switch::lines(&node_state));
    assert_eq!(document.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>(), "the same tables");
    let flows: usize =
        document.iter().filter(|(table, _)| *table != compare::GROUPS).map(|(_, lines)| lines.len()).sum();
    assert_eq!((flows, document[compare::GROUPS].len()), (167, 3));
}

#[test]
fn every_difference_has_its_row_and_every_row_occurs() {
    let node_state = switch::of_the_documents_cluster(Order::Together);
    let (listed, rows) = (listed(&node_state), rows());
    assert_eq!(rows, (1..=16).collect(), "docs/antrea.md");
    let used: BTreeSet<u32> = listed.iter().flat_map(|one| one.rows.clone()).collect();
    assert_eq!(used, rows);
}
