//! The text of nftables' table `inet vswitch`.

use crate::Family;
use std::fmt::Write;

/// Rules by the chain that they are in.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Packets that the host does not track.
    pub(super) untracked: Vec<String>,
    /// Marks of packets that come in.
    pub(super) marks: Vec<String>,
    /// Destinations of connections of others.
    pub(super) destinations: Vec<String>,
    /// Destinations of the host's own connections.
    pub(super) own: Vec<String>,
    /// Sources of connections that leave.
    pub(super) sources: Vec<String>,
}

impl Table {
    /// What is between the braces of the table; empty: there are no rules.
    pub(super) fn text(&self) -> String {
        let chains = [
            ("untracked", "filter hook prerouting priority raw", &self.untracked),
            ("marks", "filter hook prerouting priority mangle", &self.marks),
            ("destinations", "nat hook prerouting priority dstnat", &self.destinations),
            ("own-destinations", "nat hook output priority -100", &self.own),
            ("sources", "nat hook postrouting priority srcnat", &self.sources),
        ];
        let mut text = String::new();
        for (name, hook, rules) in chains.into_iter().filter(|(_, _, rules)| !rules.is_empty()) {
            let _ = writeln!(text, "  chain {name} {{\n    type {hook}; policy accept;");
            for rule in rules {
                let _ = writeln!(text, "    {rule}");
            }
            text.push_str("  }\n");
        }
        text
    }
}

/// A family's word in nft.
pub(super) const fn ip(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// A set without a name.
pub(super) fn set(items: impl Iterator<Item = String>) -> String {
    format!("{{ {} }}", items.collect::<Vec<_>>().join(", "))
}
