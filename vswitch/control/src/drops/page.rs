//! The page docs/drop-reasons.md, made of the reasons and their explanations.

use super::explain;
use std::fmt::Write;
use vswitch_dataplane::observe::{DropClass, DropReason};

/// Columns of a line.
const WIDTH: usize = 100;

const HEAD: &str = "\
# Drop reasons

Each packet that the switch drops has one reason. `vsctl drops` counts them, and
[Drops](drops.md) describes the commands. `vsctl drops explain REASON` prints one paragraph of this
page.

This page is made by `cargo run -p vswitch-control --example drop-reasons > docs/drop-reasons.md`.
";

const fn heading(class: DropClass) -> (&'static str, &'static str) {
    match class {
        DropClass::Policy => ("Policy", "A rule or a check of addresses denies the packet."),
        DropClass::Pipeline => ("Pipeline", "The flows, groups and bridges lead the packet nowhere."),
        DropClass::Resource => ("Resource", "Something of the switch, a guest or the kernel was used up."),
        DropClass::Malformed => ("Malformed", "The bytes of the packet are not what a host may send."),
        DropClass::Link => ("Link", "A peer, a device or the network behind it has a fault."),
        DropClass::Config => ("Config", "The configuration of a port, a bridge or a tunnel drops it."),
        DropClass::Limit => ("Limit", "A port, a zone or a meter has had its rate or its share."),
    }
}

/// Adds a paragraph, in lines of [`WIDTH`] columns. `first` begins it, `indent` its other lines.
fn paragraph(page: &mut String, first: &str, indent: &str, text: &str) {
    let (mut line, mut is_first) = (first.to_owned(), true);
    for word in text.split(' ') {
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(page, "{line}");
            line = format!("{indent}{word}");
        } else {
            if !is_first {
                line.push(' ');
            }
            line.push_str(word);
        }
        is_first = false;
    }
    let _ = writeln!(page, "{line}");
}

/// The page.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for class in DropClass::ALL {
        let (title, sentence) = heading(*class);
        let _ = writeln!(page, "\n## {title}\n\n{sentence}");
        for reason in DropReason::ALL.iter().filter(|reason| reason.class() == *class) {
            let explanation = explain(*reason);
            let _ = writeln!(page, "\n### {}\n", reason.name());
            paragraph(&mut page, "", "", reason.sentence());
            let _ = writeln!(page);
            for (word, text) in
                [("Cause", explanation.cause), ("Look at", explanation.look), ("Change", explanation.change)]
            {
                paragraph(&mut page, &format!("- {word}: "), "  ", text);
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_documents_is_this_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/drop-reasons.md");
        let there = std::fs::read_to_string(file).unwrap_or_default();
        assert!(there == page(), "run: cargo run -p vswitch-control --example drop-reasons > docs/drop-reasons.md");
    }
}
