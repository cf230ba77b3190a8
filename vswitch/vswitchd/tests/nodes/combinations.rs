//! Configurations: each value of a property with each value of each other one, wherever a Node may
//! be so.

use crate::objects::{Families, Layout, Mode, Proxy};
use std::collections::BTreeSet;

/// How many values each property has.
const SIZES: [usize; 15] = [4, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2];

type Choice = [usize; SIZES.len()];

fn layout(choice: &Choice) -> Layout {
    let on = |at: usize| choice[at] == 1;
    Layout {
        mode: [Mode::Encap, Mode::NoEncap, Mode::Hybrid, Mode::PolicyOnly][choice[0]],
        families: [Families::V4, Families::V6, Families::Both][choice[1]],
        proxy: [Proxy::Off, Proxy::On, Proxy::All][choice[2]],
        plain: on(3),
        without_cidr: on(4),
        egress: on(5),
        shaping: on(6),
        l7: on(7),
        traffic_control: on(8),
        multicast: on(9),
        dsr: on(10),
        uplink: on(11),
        vlans: on(12),
        records: on(13),
        probe: on(14),
    }
}

/// What the interface's comments say a Node may be.
fn may_be(layout: &Layout) -> bool {
    let tunneled = matches!(layout.mode, Mode::Encap | Mode::Hybrid);
    let v4 = layout.families != Families::V6;
    (!layout.without_cidr || layout.mode == Mode::PolicyOnly)
        && (!layout.egress || tunneled)
        && (!layout.shaping || layout.egress)
        && (!layout.l7 || !layout.plain)
        && (!layout.multicast || v4 && !layout.vlans)
        && (!layout.dsr || layout.proxy == Proxy::All && layout.mode == Mode::Encap && v4)
        && (!layout.vlans || layout.uplink && layout.mode != Mode::PolicyOnly)
}

/// Numbers without a pattern, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }

    fn choice(&mut self) -> Choice {
        loop {
            let choice = SIZES.map(|size| self.below(size));
            if may_be(&layout(&choice)) {
                return choice;
            }
        }
    }
}

type Pair = (usize, usize, usize, usize);

fn pairs(choice: &Choice) -> impl Iterator<Item = Pair> + use<'_> {
    let others = |first: usize| (first + 1..SIZES.len()).map(move |second| (first, second));
    (0..SIZES.len()).flat_map(others).map(|(first, second)| (first, choice[first], second, choice[second]))
}

/// All pairs that there are.
fn possible() -> BTreeSet<Pair> {
    let mut all = BTreeSet::new();
    let mut choice: Choice = [0; SIZES.len()];
    loop {
        if may_be(&layout(&choice)) {
            all.extend(pairs(&choice));
        }
        let Some(at) = (0..SIZES.len()).find(|at| choice[*at] + 1 < SIZES[*at]) else { return all };
        choice[at] += 1;
        choice[..at].fill(0);
    }
}

/// Configurations that have all pairs, and `more` besides.
pub(crate) fn layouts(more: usize) -> Vec<Layout> {
    let (mut open, mut numbers) = (possible(), Numbers(7));
    let mut layouts = Vec::new();
    while let Some(next) = open.first().copied() {
        // The best of some, of which each has a pair that is open.
        let with = |choice: &Choice| choice[next.0] == next.1 && choice[next.2] == next.3;
        let mut candidates = Vec::new();
        while candidates.len() < 30 {
            let mut choice = numbers.choice();
            (choice[next.0], choice[next.2]) = (next.1, next.3);
            if with(&choice) && may_be(&layout(&choice)) {
                candidates.push(choice);
            }
        }
        let news = |choice: &Choice| pairs(choice).filter(|pair| open.contains(pair)).count();
        let best = candidates.into_iter().max_by_key(news).expect("some");
        open.retain(|pair| best[pair.0] != pair.1 || best[pair.2] != pair.3);
        layouts.push(layout(&best));
    }
    layouts.extend((0..more).map(|_| layout(&numbers.choice())));
    layouts
}

#[test]
fn every_pair_is_there() {
    let layouts = layouts(0);
    assert!((20..100).contains(&layouts.len()), "{}", layouts.len());
    let has = |is: fn(&Layout) -> bool| assert!(layouts.iter().any(is));
    has(|layout| layout.mode == Mode::PolicyOnly && !layout.without_cidr);
    has(|layout| layout.dsr && layout.l7);
    has(|layout| layout.families == Families::V6 && layout.egress);
    has(|layout| layout.vlans && layout.traffic_control);
}
