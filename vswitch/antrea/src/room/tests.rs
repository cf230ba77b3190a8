//! Rooms.

use crate::testing::{document, document_node, dump_of, room};

#[test]
fn misses_are_the_documents() {
    let room = room(&document_node(), Vec::new());
    for table in
        ["PipelineRootClassifier", "SessionAffinity", "ServiceLB", "L3Forwarding", "EgressMark", "SNAT", "Output"]
    {
        let miss = |lines: std::collections::BTreeSet<String>| -> Vec<String> {
            lines.into_iter().filter(|line| line.contains("priority=0 ")).collect()
        };
        assert_eq!(miss(dump_of(&room, &[table])), miss(document(&room, table)), "{table}");
    }
}
