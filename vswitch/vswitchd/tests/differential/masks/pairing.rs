//! Which decision of ours is about the same packet, at the same place of its way, as which one of
//! Open vSwitch's.
//!
//! Both print how a packet goes on: `ct(...),recirc(N)` is another decision, for packets of stage
//! N; `tnl_pop(...)` one about the inner packet. So a decision has a *place*: the forks that lead
//! to it, each by its number among those of the decision before. Decisions at one place are about
//! the same packet, unless several packets were under way (fragments). Then a pair is made only
//! where no other one fits.
//!
//! Open vSwitch ends a decision in three more cases, in which ours goes on: at the hash of a select
//! group, and where headers are to be read again. There its decision and the one that goes on count
//! as one.

use super::Decision;
use std::collections::BTreeMap;
use vswitch_flow::Field;

/// The forks that lead to a decision, each by its number among those of the decision before.
type Place = Vec<usize>;

/// Stands at the end of a place: the choice of a select group, which ends a decision of ours, too.
const CHOICE: usize = usize::MAX;

/// Longest place: Open vSwitch has packets at most six times in one `ct()` after the other.
const LONGEST: usize = 16;

/// Kinds of tunnels by the names of their ports.
pub(super) type Kinds = BTreeMap<String, String>;

/// A decision with others at its place.
#[derive(Clone, Debug)]
struct Placed {
    decision: Decision,
    /// It goes on in several ways.
    unclear: bool,
}

/// Decisions of one switch, by place.
struct Walk<'a> {
    all: &'a [Decision],
    kinds: &'a Kinds,
    places: BTreeMap<Place, Vec<Placed>>,
}

/// How a packet goes on.
#[derive(Debug, PartialEq, Eq)]
enum Fork<'a> {
    /// Behind `ct()`, at a stage.
    Connection(u128),
    /// At a stage, where nothing but the hash, or headers that are read again, is new.
    Same(u128),
    /// Out of a tunnel of this kind.
    Tunnel(&'a str),
}

/// What was paired.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Of ours, of Open vSwitch's.
    pub(super) pairs: Vec<(Decision, Decision)>,
    /// Of ours, without one beside them.
    pub(super) alone: Vec<Decision>,
    /// Pairs by place of which ours does not fit the packet.
    pub(super) strays: Vec<(Decision, Decision)>,
}

impl Pairs {
    /// Of decisions about one packet that came in by a port.
    pub(super) fn of(ours: &[Decision], theirs: &[Decision], kinds: &Kinds) -> Self {
        let (places, beside) = (Walk::places(ours, kinds), Walk::places(theirs, kinds));
        let mut found = Self::default();
        for decision in ours {
            let at = |placed: &&Placed| placed.decision.text == decision.text;
            let mut candidates: Vec<&Placed> = Vec::new();
            let mut crowd = 0;
            for (place, own) in places.iter().filter(|(_, own)| own.iter().any(|placed| at(&placed))) {
                for other in beside.get(place).into_iter().flatten() {
                    let same = |known: &&&Placed| known.decision.text == other.decision.text;
                    if candidates.iter().find(same).is_none() {
                        candidates.push(other);
                    }
                    crowd += own.iter().filter(|placed| placed.decision.fits(&other.decision)).count();
                }
            }
            let fitting: Vec<&&Placed> = candidates.iter().filter(|other| decision.fits(&other.decision)).collect();
            match (fitting.as_slice(), candidates.as_slice()) {
                ([other], _) if !other.unclear && crowd <= 1 => {
                    found.pairs.push((decision.clone(), other.decision.clone()));
                }
                ([], [other]) if !other.unclear => found.strays.push((decision.clone(), other.decision.clone())),
                _ => found.alone.push(decision.clone()),
            }
        }
        found
    }
}

impl<'a> Walk<'a> {
    fn places(all: &'a [Decision], kinds: &'a Kinds) -> BTreeMap<Place, Vec<Placed>> {
        let mut walk = Self { all, kinds, places: BTreeMap::new() };
        for decision in all {
            if decision.stage() == 0 && walk.kind_of(decision).is_none() {
                walk.visit(decision, &[], &[decision]);
            }
        }
        walk.places
    }

    /// The kind of tunnel that its packets came out of.
    fn kind_of<'b>(&'b self, decision: &'b Decision) -> Option<&'b str> {
        // Open vSwitch's are `genev_sys_6081`, `vxlan_sys_4789`, `gre_sys`.
        let theirs = decision.in_port.split_once("_sys").map(|(kind, _)| kind_of_word(kind));
        theirs.or_else(|| self.kinds.get(&decision.in_port).map(String::as_str))
    }

    /// Notes a decision at a place, and what follows.
    fn visit(&mut self, decision: &'a Decision, place: &[usize], before: &[&'a Decision]) {
        if place.len() >= LONGEST {
            return;
        }
        if decision.actions.starts_with("group:") {
            self.note(Placed { decision: decision.clone(), unclear: false }, &[place, &[CHOICE]].concat());
            return;
        }
        let mut whole = Placed { decision: decision.clone(), unclear: false };
        let mut number = 0;
        self.follow(decision, place, before, &mut number, &mut whole);
        if whole.decision.text != decision.text {
            self.note(Placed { decision: decision.clone(), unclear: false }, &[place, &[CHOICE]].concat());
        }
        self.note(whole, place);
    }

    fn note(&mut self, placed: Placed, place: &[usize]) {
        let there = self.places.entry(place.to_vec()).or_default();
        if there.iter().all(|known| known.decision.text != placed.decision.text) {
            there.push(placed);
        }
    }

    fn follow(
        &mut self,
        decision: &'a Decision,
        place: &[usize],
        before: &[&'a Decision],
        number: &mut usize,
        whole: &mut Placed,
    ) {
        for fork in forks(&decision.actions) {
            let next: Vec<&'a Decision> = self
                .all
                .iter()
                .filter(|next| match fork {
                    Fork::Connection(stage) | Fork::Same(stage) => next.stage() == stage,
                    Fork::Tunnel(kind) => next.stage() == 0 && self.kind_of(next) == Some(kind),
                })
                .filter(|next| !before.iter().any(|known| std::ptr::eq(*known, *next)))
                .collect();
            if let Fork::Same(_) = fork {
                match next.as_slice() {
                    [only] => {
                        whole.decision.and(only);
                        self.follow(only, place, &[before, &[*only]].concat(), number, whole);
                    }
                    _ => whole.unclear = true,
                }
            } else {
                let place = [place, &[*number]].concat();
                *number += 1;
                for next in next {
                    self.visit(next, &place, &[before, &[next]].concat());
                }
            }
        }
    }
}

fn kind_of_word(word: &str) -> &str {
    if word.starts_with("genev") { "geneve" } else { word }
}

/// In the order in which they happen.
fn forks(actions: &str) -> Vec<Fork<'_>> {
    let (mut forks, mut by_ct, mut at) = (Vec::new(), false, 0);
    while let Some(rest) = actions.get(at..).filter(|rest| !rest.is_empty()) {
        let inside = || rest.split_once('(').map_or("", |(_, rest)| rest.split([')', ',']).next().unwrap_or_default());
        let word = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        match word {
            "ct" => by_ct = true,
            "hash" if rest.starts_with("hash(") => by_ct = false,
            "recirc" => {
                let stage = super::datapath::plain(inside());
                forks.push(if by_ct { Fork::Connection(stage) } else { Fork::Same(stage) });
                by_ct = false;
            }
            "tnl_pop" => {
                let word = inside();
                forks.push(Fork::Tunnel(kind_of_word(word.split_once("_sys").map_or(word, |(kind, _)| kind))));
            }
            _ => {}
        }
        at += word.len().max(rest.chars().next().map_or(1, char::len_utf8));
    }
    forks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(stage: u128, in_port: &str, actions: &str) -> Decision {
        let text = format!("{stage} {in_port} {actions}");
        let mut decision = Decision { text, actions: actions.into(), in_port: in_port.into(), ..Decision::default() };
        decision.key.set(Field::RecircId, stage);
        decision.mask.add(Field::RecircId);
        decision
    }

    #[test]
    fn forks_are_read() {
        assert_eq!(forks("2,ct(commit,zone=1,nat(src=10.0.0.1,hash)),3"), []);
        assert_eq!(
            forks("ct,recirc(0x1),clone(ct(zone=2),recirc(0x2)),p2"),
            [Fork::Connection(1), Fork::Connection(2)]
        );
        assert_eq!(forks("ct(zone=1),hash(sym_l4(0)),recirc(0x5)"), [Fork::Same(5)]);
        assert_eq!(forks("pop_mpls(eth_type=0x800),recirc(0x6)"), [Fork::Same(6)]);
        assert_eq!(forks("br0,tnl_pop(genev_sys_6081)"), [Fork::Tunnel("geneve")]);
        assert_eq!(forks("tnl_pop(vxlan)"), [Fork::Tunnel("vxlan")]);
    }

    #[test]
    fn decisions_are_paired_by_the_way_that_leads_to_them() {
        let kinds = Kinds::from([("t11".into(), "geneve".into()), ("t12".into(), "vxlan".into())]);
        let ours = [
            decision(0, "p1", "tnl_pop(geneve)"),
            decision(0, "t11", "tnl_pop(vxlan),ct,recirc(0x1)"),
            decision(0, "t12", "p2"),
            decision(1, "t11", "group:7"),
            decision(1, "t11", "p3"),
        ];
        let theirs = [
            decision(9, "genev_sys_6081", "p3"),
            decision(8, "genev_sys_6081", "hash(sym_l4(0)),recirc(0x9)"),
            decision(0, "vxlan_sys_4789", "p2"),
            decision(0, "genev_sys_6081", "tnl_pop(vxlan_sys_4789),ct,recirc(0x8)"),
            decision(0, "p1", "tnl_pop(genev_sys_6081)"),
        ];
        let found = Pairs::of(&ours, &theirs, &kinds);
        let pairs: Vec<_> = found.pairs.iter().map(|(a, b)| (a.text.as_str(), b.text.as_str())).collect();
        let whole = format!("{} and {}", theirs[1].text, theirs[0].text);
        let expected =
            [(0, &theirs[4].text), (1, &theirs[3].text), (2, &theirs[2].text), (3, &theirs[1].text), (4, &whole)];
        assert_eq!(pairs, expected.map(|(i, text)| (ours[i].text.as_str(), text.as_str())));
        assert!(found.alone.is_empty() && found.strays.is_empty(), "{found:?}");
    }

    #[test]
    fn what_two_others_fit_is_left_alone() {
        let ours = [decision(0, "p1", "ct,recirc(0x1)"), decision(1, "p1", "p2"), decision(1, "p1", "p3")];
        let theirs = [decision(0, "p1", "ct,recirc(0x8)"), decision(8, "p1", "p2"), decision(8, "p1", "p3")];
        let found = Pairs::of(&ours, &theirs, &Kinds::default());
        assert_eq!((found.pairs.len(), found.alone.len()), (1, 2));
    }
}
