//! The other side of a rule: `RulePeer`.

use super::fqdn::{self, Pattern};
use super::{Direction, check_names, names};
use crate::Cidr;
use crate::problem::{Code, Problems};
use std::sync::Arc;
use vswitch_proto::antrea::v1;

const FQDNS_MAX: usize = 64;

/// Who.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Peer {
    Anybody,
    /// Any of these, which may be none at all.
    Some { groups: Vec<Arc<str>>, blocks: Vec<Cidr>, patterns: Vec<Pattern> },
    /// By whatever way they are asked.
    Services(Vec<Arc<str>>),
}

impl Peer {
    /// Whether one of its blocks is about multicast groups. (All of a family's addresses are not
    /// about them.)
    pub(super) fn has_groups(&self) -> bool {
        let is_group = |block: &Cidr| block.length() > 0 && block.address().is_multicast();
        matches!(self, Self::Some { blocks, .. } if blocks.iter().any(is_group))
    }
}

pub(super) fn read(
    field: &str,
    message: &v1::RulePeer,
    direction: Option<Direction>,
    is_antrea: bool,
    problems: &mut Problems,
) -> Peer {
    let groups = names(&format!("{field}.address_groups"), &message.address_groups, problems);
    let mut blocks = Vec::new();
    for (at, block) in message.blocks.iter().enumerate() {
        blocks.extend(block_of(&format!("{field}.blocks[{at}]"), block, problems));
    }
    blocks.sort();
    blocks.dedup();
    let patterns = fqdn::read(&format!("{field}.fqdns"), &message.fqdns, FQDNS_MAX, problems);
    check_names(&format!("{field}.services"), &message.services, problems);
    let services = names(&format!("{field}.services"), &message.services, problems);
    for (name, given) in [("fqdns", !message.fqdns.is_empty()), ("services", !message.services.is_empty())] {
        let field = format!("{field}.{name}");
        if given && direction == Some(Direction::Ingress) {
            problems.push(Code::Value, &*field, "only rules of direction egress may name them");
        }
        if given && !is_antrea {
            problems.push(Code::Value, &*field, "only Antrea's policies may name them");
        }
    }
    let others = !message.address_groups.is_empty() || !message.blocks.is_empty() || !message.fqdns.is_empty();
    match (message.services.is_empty(), others) {
        (true, false) => Peer::Anybody,
        (true, true) => Peer::Some { groups, blocks, patterns },
        (false, others) => {
            if others {
                problems.push(Code::Value, format!("{field}.services"), "they cannot be named together with others");
            }
            Peer::Services(services)
        }
    }
}

fn block_of(field: &str, message: &v1::IpBlock, problems: &mut Problems) -> Vec<Cidr> {
    let whole = if message.cidr.is_empty() {
        problems.push(Code::Missing, format!("{field}.cidr"), "there is no prefix");
        None
    } else {
        problems.take(&format!("{field}.cidr"), message.cidr.parse::<Cidr>())
    };
    let mut holes = Vec::new();
    for (at, text) in message.except_cidrs.iter().enumerate() {
        let field = format!("{field}.except_cidrs[{at}]");
        let Some(hole) = problems.take(&field, text.parse::<Cidr>()) else { continue };
        if whole.is_some_and(|whole| !whole.covers(&hole)) {
            problems.push(Code::Value, field, format!("{text} is not within {}", message.cidr));
        } else if whole == Some(hole) {
            let reason = format!("{text} is all of {}: name a part of it, or leave the block out", message.cidr);
            problems.push(Code::Value, field, reason);
        }
        holes.push(hole);
    }
    whole.map(|whole| without(whole, &holes)).unwrap_or_default()
}

/// What is left of a prefix: few prefixes, in order.
fn without(whole: Cidr, holes: &[Cidr]) -> Vec<Cidr> {
    let mut left = Vec::new();
    cut(whole, &holes.iter().collect::<Vec<_>>(), &mut left);
    left
}

/// At most as deep as an address has bits.
fn cut(whole: Cidr, holes: &[&Cidr], left: &mut Vec<Cidr>) {
    let holes: Vec<&Cidr> = holes.iter().copied().filter(|hole| hole.overlaps(&whole)).collect();
    if holes.is_empty() {
        left.push(whole);
    } else if !holes.iter().any(|hole| hole.covers(&whole)) {
        whole.halves().into_iter().flatten().for_each(|half| cut(half, &holes, left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_cut_out() {
        let cidr = |text: &str| text.parse::<Cidr>().unwrap_or_else(|error| panic!("{error}"));
        let cut = |whole: &str, holes: &[&str]| -> Vec<String> {
            let holes: Vec<Cidr> = holes.iter().copied().map(cidr).collect();
            without(cidr(whole), &holes).iter().map(ToString::to_string).collect()
        };
        assert_eq!(cut("10.0.0.0/8", &[]), ["10.0.0.0/8"]);
        assert_eq!(cut("10.0.0.0/24", &["10.0.0.0/26"]), ["10.0.0.64/26", "10.0.0.128/25"]);
        assert_eq!(cut("10.0.0.0/30", &["10.0.0.1/32", "10.0.0.1/32"]), ["10.0.0.0", "10.0.0.2/31"]);
        assert_eq!(cut("10.0.0.0/24", &["10.0.0.0/24"]), [""; 0]);
        assert_eq!(cut("0.0.0.0/0", &["10.0.0.0/8"]).len(), 8);
        assert_eq!(cut("::/0", &["fd00::1/128"]).len(), 128);
        assert_eq!(cut("fd00::/63", &["fd00::/64"]), ["fd00:0:0:1::/64"]);
    }
}
