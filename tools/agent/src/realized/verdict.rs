//! Whether policies are realized, by what Nodes report.
//!
//! **Design**: the holder has the digests of all policies that it sees. A part has a version, which
//! grows when a policy of it comes, changes or goes. Of each Node it is known at which version of a
//! part the digests were equal last. A policy is confirmed on a Node if they were equal since the
//! policy has its generation. So a change of one policy takes nothing back of the others.
//!
//! A holder that begins knows of no earlier version. Where a Node that reported before it differs
//! in a part, nothing is known of the part's policies there: a status that says Realized stays.

use super::Report;
use super::digest::{Digests, PARTS, entry, part, short};
use crate::source::cluster::Standing;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Where a policy is realized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Nodes that report.
    pub(super) nodes: usize,
    /// Nodes on which it is to be in force.
    pub(super) desired: usize,
    /// Those on which it is.
    pub(super) current: usize,
    /// Nodes that were not told yet.
    pub(super) untold: usize,
    /// Those of them of which nothing is known: they reported before this holder began.
    pub(super) unknown: usize,
    /// Nodes that refuse it, or say nothing any more.
    pub(super) failed: usize,
    /// Nodes that refuse it.
    pub(super) refused: usize,
    /// The first of those that have failed, and why.
    pub(super) why: String,
}

impl Verdict {
    /// Whether a Node that counts as one that was not told may have been, and no other one speaks
    /// against it.
    pub(super) fn is_doubtful(&self) -> bool {
        self.unknown > 0 && self.unknown == self.untold && self.failed == 0
    }
}

#[derive(Debug)]
struct Policy {
    generation: i64,
    /// The version of its part in which it got the generation.
    since: u64,
}

#[derive(Debug)]
struct Node {
    report: Report,
    /// Of each part, the last version at which this Node had all of it in force.
    equal: [u64; PARTS],
    /// When its report was written last.
    written: Instant,
    /// It reported before this holder began.
    is_early: bool,
}

/// Reports of Nodes, and the policies that they are about.
pub(super) struct Reports<'a> {
    policies: &'a HashMap<String, Policy>,
    nodes: Vec<(&'a String, &'a Node)>,
}

/// What the holder knows of policies and Nodes.
#[derive(Debug)]
pub(super) struct Judge {
    digests: Digests,
    versions: [u64; PARTS],
    policies: HashMap<String, Policy>,
    nodes: BTreeMap<String, Node>,
    /// All reports were listed once.
    has_begun: bool,
}

impl Judge {
    pub(super) fn new() -> Self {
        Self {
            digests: Digests::default(),
            versions: [1; PARTS],
            policies: HashMap::new(),
            nodes: BTreeMap::new(),
            has_begun: false,
        }
    }

    /// All reports were listed: what comes now is of Nodes that are new.
    pub(super) fn begins(&mut self) {
        self.has_begun = true;
    }

    /// Takes over which policies there are.
    pub(super) fn policies<'a>(&mut self, all: impl Iterator<Item = &'a Standing>) {
        let now: HashMap<&str, i64> = all.map(|standing| (standing.object.uid.as_str(), standing.generation)).collect();
        let mut changed = BTreeSet::new();
        let digests = &mut self.digests;
        self.policies.retain(|uid, policy| {
            let stays = now.get(uid.as_str()) == Some(&policy.generation);
            if !stays {
                digests.toggle(uid, policy.generation);
                changed.insert(part(uid));
            }
            stays
        });
        let new: Vec<(&str, i64)> = now.into_iter().filter(|(uid, _)| !self.policies.contains_key(*uid)).collect();
        changed.extend(new.iter().map(|(uid, _)| part(uid)));
        for part in changed {
            self.versions[part] += 1;
        }
        for (uid, generation) in new {
            self.digests.toggle(uid, generation);
            let since = self.versions[part(uid)];
            self.policies.insert(uid.to_owned(), Policy { generation, since });
        }
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        names.iter().for_each(|name| self.compare(name));
    }

    /// Takes over what a Node reports. None: that cannot be read.
    pub(super) fn report(&mut self, node: &str, report: Option<Report>, now: Instant) {
        let report = report.unwrap_or_default();
        let (mut equal, mut is_early) = ([0; PARTS], !self.has_begun);
        if let Some(before) = self.nodes.get(node) {
            (equal, is_early) = (before.equal, before.is_early);
            // A policy that is not refused any more was not compared before.
            let freed = before.report.refused.keys().filter(|uid| !report.refused.contains_key(*uid));
            freed.for_each(|uid| equal[part(uid)] = 0);
        }
        self.nodes.insert(node.to_owned(), Node { report, equal, written: now, is_early });
        self.compare(node);
    }

    /// A Node reports no more: its report is gone.
    pub(super) fn gone(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Nodes with a report.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a Node has a report.
    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Names of Nodes with a report.
    pub(super) fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Finds out which parts a Node has in force.
    fn compare(&mut self, name: &str) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let mut expected = self.digests;
        for uid in node.report.refused.keys() {
            if let Some(policy) = self.policies.get(uid) {
                expected.0[part(uid)] ^= entry(uid, policy.generation);
            }
        }
        for place in 0..PARTS {
            if expected.0[place] == node.report.in_force.0[place] {
                node.equal[place] = self.versions[place];
            } else if node.report.has_more {
                // One that is refused may not be named.
                node.equal[place] = 0;
            }
        }
    }

    /// Reports of the Nodes that there are.
    pub(super) fn reports<'a>(&'a self, there_are: &BTreeSet<String>) -> Reports<'a> {
        let nodes = self.nodes.iter().filter(|(name, _)| there_are.contains(*name));
        Reports { policies: &self.policies, nodes: nodes.collect() }
    }
}

impl Reports<'_> {
    /// Where a policy is realized. Nodes are silent by `now` that have written nothing for so long.
    pub(super) fn verdict(&self, standing: &Standing, (silent, now): (Duration, Instant)) -> Verdict {
        let (uid, generation) = (standing.object.uid.as_str(), standing.generation);
        let (part, short) = (part(uid), short(uid));
        let policy = self.policies.get(uid).filter(|policy| policy.generation == generation);
        let mut verdict = Verdict { nodes: self.nodes.len(), ..Verdict::default() };
        for (name, node) in &self.nodes {
            let refused = node.report.refused.get(uid);
            if refused.is_none() && policy.is_some_and(|policy| node.equal[part] >= policy.since) {
                let binds = usize::from(node.report.binds(short));
                verdict.desired += binds;
                verdict.current += binds;
                continue;
            }
            verdict.desired += 1;
            let is_silent = now.saturating_duration_since(node.written) >= silent;
            let why = match refused.filter(|refused| refused.generation == generation) {
                Some(refused) => {
                    verdict.refused += 1;
                    refused.why.as_str()
                }
                None if is_silent => "its agent says nothing",
                None => {
                    verdict.untold += 1;
                    let is_unknown = refused.is_none() && node.is_early && node.equal[part] == 0;
                    verdict.unknown += usize::from(is_unknown);
                    continue;
                }
            };
            verdict.failed += 1;
            if verdict.failed == 1 {
                verdict.why = format!("{name}: {why}");
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::cluster::ObjectRef;

    fn policy(uid: &str, generation: i64) -> Standing {
        let object = ObjectRef { uid: uid.to_owned(), ..ObjectRef::default() };
        Standing { object, plural: "", generation, status: Default::default() }
    }

    fn report(of: &[(&str, i64)], refused: &[(&str, i64)]) -> Option<Report> {
        let mut report = Report::new();
        of.iter().for_each(|(uid, generation)| report.tell(uid, *generation, true));
        refused.iter().for_each(|(uid, generation)| report.refuse(uid, *generation, "why"));
        Some(report)
    }

    /// `current/desired`, untold and failed Nodes.
    fn verdict(judge: &Judge, uid: &str, generation: i64, after: u64) -> (String, usize, usize) {
        let there_are = ["n1", "n2"].map(str::to_owned).into();
        let time = (Duration::from_secs(100), Instant::now() + Duration::from_secs(after));
        let of = judge.reports(&there_are).verdict(&policy(uid, generation), time);
        (format!("{}/{}", of.current, of.desired), of.untold, of.failed)
    }

    fn is(counts: &str, untold: usize, failed: usize) -> (String, usize, usize) {
        (counts.to_owned(), untold, failed)
    }

    #[test]
    fn a_policy_is_realized_where_its_generation_was_told() {
        let now = Instant::now();
        let mut judge = Judge::new();
        judge.policies([policy("a", 1)].iter());
        assert_eq!(verdict(&judge, "a", 1, 0), is("0/0", 0, 0), "nobody reports");
        judge.report("n1", report(&[("a", 1)], &[]), now);
        judge.report("n2", report(&[], &[]), now);
        judge.report("gone", report(&[], &[]), now);
        assert_eq!(verdict(&judge, "a", 1, 0), is("1/2", 1, 0), "n2 was told nothing");
        judge.report("n2", report(&[("a", 1)], &[]), now);
        assert_eq!(verdict(&judge, "a", 1, 0), is("2/2", 0, 0));
        judge.policies([policy("a", 2)].iter());
        assert_eq!(verdict(&judge, "a", 2, 0), is("0/2", 2, 0), "a new generation");
        judge.report("n1", report(&[("a", 2)], &[]), now);
        assert_eq!(verdict(&judge, "a", 2, 0), is("1/2", 1, 0));
        assert_eq!(verdict(&judge, "a", 2, 200), is("1/2", 0, 1), "n2 says nothing for too long");
        judge.report("n2", None, now);
        assert_eq!(verdict(&judge, "a", 2, 0), is("1/2", 1, 0), "nobody understands n2");
        judge.gone("n2");
        assert_eq!(verdict(&judge, "a", 2, 200), is("1/1", 0, 0), "what was told stays told");
        assert_eq!(verdict(&judge, "other", 1, 0).1, 1, "a policy that the judge does not know");
    }

    #[test]
    fn a_change_of_one_policy_takes_nothing_back_of_the_others() {
        let now = Instant::now();
        let mut judge = Judge::new();
        // Two policies of one part.
        let other = (0..).map(|i| format!("o{i}")).find(|uid| part(uid) == part("a")).expect("there is one");
        judge.policies([policy("a", 1), policy(&other, 1)].iter());
        judge.report("n1", report(&[("a", 1), (&other, 1)], &[]), now);
        judge.policies([policy("a", 1), policy(&other, 2)].iter());
        assert_eq!(verdict(&judge, "a", 1, 0), is("1/1", 0, 0));
        assert_eq!(verdict(&judge, &other, 2, 0), is("0/1", 1, 0));
        // A holder that begins then knows it when the Node has followed.
        let mut later = Judge::new();
        later.policies([policy("a", 1), policy(&other, 2)].iter());
        later.report("n1", report(&[("a", 1), (&other, 1)], &[]), now);
        assert_eq!(verdict(&later, "a", 1, 0), is("0/1", 1, 0));
        let is_doubtful = |judge: &Judge| {
            let there_are = ["n1", "n2"].map(str::to_owned).into();
            judge.reports(&there_are).verdict(&policy("a", 1), (Duration::from_secs(100), now)).is_doubtful()
        };
        assert!(is_doubtful(&later), "the holder before may have known");
        later.begins();
        later.report("n2", report(&[], &[]), now);
        assert!(!is_doubtful(&later), "a new Node was not told");
        later.gone("n2");
        later.report("n1", report(&[(&other, 1)], &[("a", 1)]), now);
        assert!(!is_doubtful(&later), "it is refused");
        later.report("n1", report(&[("a", 1), (&other, 2)], &[]), now);
        assert_eq!(verdict(&later, "a", 1, 0), is("1/1", 0, 0));
    }

    #[test]
    fn a_policy_that_is_refused_is_realized_only_when_it_was_told_afterwards() {
        let now = Instant::now();
        let mut judge = Judge::new();
        judge.policies([policy("a", 1)].iter());
        judge.report("n1", report(&[("a", 1)], &[]), now);
        judge.policies([policy("a", 2)].iter());
        judge.report("n1", report(&[], &[("a", 1)]), now);
        assert_eq!(verdict(&judge, "a", 2, 0), is("0/1", 1, 0), "it refused an older one");
        judge.report("n1", report(&[], &[("a", 2)]), now);
        assert_eq!(verdict(&judge, "a", 2, 0), is("0/1", 0, 1));
        judge.report("n1", report(&[], &[]), now);
        assert_eq!(verdict(&judge, "a", 2, 0), is("0/1", 1, 0), "neither refused nor told");
        judge.report("n1", report(&[("a", 2)], &[]), now);
        assert_eq!(verdict(&judge, "a", 2, 0), is("1/1", 0, 0));
        // It is refused now, and others are named in its place.
        let mut more = report(&[], &[]).expect("one");
        more.has_more = true;
        judge.report("n1", Some(more), now);
        assert_eq!(verdict(&judge, "a", 2, 0), is("0/1", 1, 0));
    }

    #[test]
    fn judges_agree_with_the_truth_over_random_histories() {
        let mut seed = 7_u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let uids: Vec<String> = (0..12).map(|i| format!("u{i}")).collect();
        let (mut judge, now) = (Judge::new(), Instant::now());
        let mut generations = [1_i64; 12];
        // What each Node was told, and refuses.
        let mut told = [[(0_i64, false); 12]; 2];
        for _ in 0..20_000 {
            let i = usize::try_from(below(12)).expect("small");
            match below(3) {
                0 => generations[i] += 1,
                node => {
                    let node = usize::try_from(node - 1).expect("small");
                    told[node][i] = (generations[i], below(4) == 0);
                    let mut report = Report::new();
                    for (uid, (generation, is_refused)) in uids.iter().zip(told[node]) {
                        if is_refused {
                            report.refuse(uid, generation, "why");
                        } else {
                            report.tell(uid, generation, true);
                        }
                    }
                    judge.report(["n1", "n2"][node], Some(report), now);
                }
            }
            let all: Vec<Standing> = uids.iter().zip(generations).map(|(uid, of)| policy(uid, of)).collect();
            judge.policies(all.iter());
            for (i, standing) in all.iter().enumerate() {
                let current = told.iter().filter(|node| node[i] == (generations[i], false)).count();
                let said = verdict(&judge, &standing.object.uid, generations[i], 0);
                let said: usize = said.0.split('/').next().and_then(|text| text.parse().ok()).expect("a number");
                assert!(said <= current, "realized on {current}, and said to be on {said}");
            }
        }
    }
}
