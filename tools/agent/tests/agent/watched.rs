//! An agent that looks at files, without a switch.

use crate::common::{NODE, files, lines, object};
use std::collections::BTreeSet;
use std::fs;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::Options;
use vswitch_agent::project::text;
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{Direction, Kind, NetworkPolicy, RuleAction};

/// An agent, and the files that it reads: the Nodes of the document's cluster, and others.
pub struct Watched {
    pub dir: tempfile::TempDir,
    pub agent: Agent,
}

impl Watched {
    pub fn new(documents: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
        fs::write(dir.path().join("nodes.yaml"), nodes).expect("written");
        let agent = Agent::new(dir.path(), &[], NODE, Options::default());
        let mut watched = Self { dir, agent };
        watched.look();
        for (name, text) in documents {
            fs::write(watched.dir.path().join(name), text).expect("written");
        }
        watched.look();
        watched
    }

    /// Looks until what is new is read, and what is gone is forgotten.
    pub fn look(&mut self) {
        (0..3).for_each(|_| {
            self.agent.scan();
        });
    }

    pub fn write(&mut self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).expect("written");
        self.look();
    }

    pub fn remove(&mut self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).expect("removed");
        self.look();
    }

    /// Another agent that knows nothing of before.
    pub fn begin_anew(&mut self) {
        self.agent = Agent::new(self.dir.path(), &[], NODE, Options::default());
        self.look();
    }

    pub fn text(&self) -> String {
        text(self.agent.projection(), false)
    }

    pub fn lines(&self) -> Vec<String> {
        lines(self.agent.problems())
    }

    /// Whether a line has all of these words.
    pub fn tells(&self, words: &[&str]) -> bool {
        self.lines().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.agent.projection().objects.contains_key(&(kind as i32, name.to_owned()))
    }

    fn policies(&self) -> Vec<NetworkPolicy> {
        let objects = self.agent.projection().objects.values();
        let policy = |object: Option<&Object>| match object {
            Some(Object::NetworkPolicy(policy)) => Some(policy.clone()),
            _ => None,
        };
        objects.filter_map(|projected| policy(projected.object.object.as_ref())).collect()
    }

    /// Pods and addresses that rules of one action name as peers; those of rules for anybody are
    /// `*`.
    pub fn peers(&self, actions: &[RuleAction]) -> BTreeSet<String> {
        let mut peers = BTreeSet::new();
        for rule in self.policies().into_iter().flat_map(|policy| policy.rules) {
            if !actions.contains(&rule.action()) {
                continue;
            }
            let peer = rule.peer.unwrap_or_default();
            if peer.address_groups.is_empty() && peer.blocks.is_empty() {
                peers.insert("*".to_owned());
            }
            for group in peer.address_groups {
                let projection = self.agent.projection();
                let Object::AddressGroup(group) = object(projection, Kind::AddressGroup, &group) else {
                    panic!("a group")
                };
                peers.extend(group.members.clone().into_iter().filter_map(|member| member.member).map(|member| {
                    match member {
                        Member::Pod(text) | Member::Address(text) => text,
                    }
                }));
            }
        }
        peers
    }

    /// Whom rules deny.
    pub fn denied(&self) -> BTreeSet<String> {
        self.peers(&[RuleAction::Drop, RuleAction::Reject])
    }

    /// Whom rules allow.
    pub fn allowed(&self) -> BTreeSet<String> {
        self.peers(&[RuleAction::Allow])
    }

    /// Pods that policies of this name hold, or isolate, in what comes in.
    pub fn bound(&self, name: &str) -> BTreeSet<String> {
        let mut bound = BTreeSet::new();
        for policy in self.policies().into_iter().filter(|policy| policy.name == name) {
            let is_in =
                policy.isolates_ingress || policy.rules.iter().any(|rule| rule.direction() == Direction::Ingress);
            let of_rules = policy.rules.iter().flat_map(|rule| rule.applied_to.clone());
            for group in policy.applied_to.iter().cloned().chain(of_rules).filter(|_| is_in) {
                let Object::AppliedToGroup(group) = object(self.agent.projection(), Kind::AppliedToGroup, &group)
                else {
                    panic!("a group")
                };
                bound.extend(group.pods.clone());
            }
        }
        bound
    }
}
