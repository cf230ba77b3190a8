//! What an agent knows, as its tasks take it.

use super::{News, Report, status};
use crate::agent::Agent;
use crate::assign::usage;
use crate::feedback::Refusal;
use crate::project::{Key, groups_of};
use crate::source::cluster::{Handle, ObjectRef, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vswitch_proto::antrea::v1::Kind;

/// Makes news of what an agent knows.
#[derive(Debug, Default)]
pub struct View {
    number: u64,
    changes: Option<u64>,
    standings: Arc<Vec<Standing>>,
}

/// What is refused: by the agent, by object; and by the switch, by key. The latter is None while
/// the switch has not been told everything.
pub type Refusals<'a> = (&'a BTreeMap<ObjectRef, BTreeSet<Refusal>>, Option<&'a BTreeSet<Key>>);

impl View {
    /// What an agent of `node` knows.
    pub fn news(&mut self, agent: &Agent, node: &str, handle: &Handle, (by_agent, by_switch): Refusals<'_>) -> News {
        let wrong: BTreeMap<&str, &str> = by_agent
            .iter()
            .map(|(object, refusals)| {
                (object.uid.as_str(), refusals.first().map_or("", |refusal| refusal.note.as_str()))
            })
            .collect();
        // Until then objects that a list has yet to say are missing.
        if handle.knows_all()
            && let Some((changes, standings)) = handle.standings(self.changes)
        {
            (self.changes, self.standings) = (Some(changes), Arc::new(standings));
            self.number += 1;
        }
        let model = agent.model();
        let report = by_switch.filter(|_| agent.counts() && self.number > 0);
        News {
            report: report.map(|by_switch| self.report(agent, &wrong, by_switch)),
            node_uid: model.nodes.get(node).map(|node| node.meta.uid.clone()).unwrap_or_default(),
            number: self.number,
            standings: Arc::clone(&self.standings),
            nodes: model.nodes.keys().cloned().collect(),
            wrong: wrong.into_keys().map(str::to_owned).collect(),
            usage: usage(model),
        }
    }

    fn report(&self, agent: &Agent, wrong: &BTreeMap<&str, &str>, by_switch: &BTreeSet<Key>) -> Report {
        let projection = agent.projection();
        let features = projection.node.as_ref().and_then(|(node, _)| node.features.as_ref());
        let is_off = features.and_then(|features| features.antrea_policy) == Some(false);
        let by_switch = refused_policies(agent, by_switch);
        let mut report = Report::new();
        for standing in self.standings.iter() {
            let Some(class) = status::class(standing) else { continue };
            let object = &standing.object;
            let space = if object.namespace.is_empty() { String::new() } else { format!("{}/", object.namespace) };
            let key = (Kind::NetworkPolicy as i32, format!("{}:{space}{}", class.prefix(), object.name));
            let why = match wrong.get(object.uid.as_str()) {
                Some(why) => Some(*why),
                None if by_switch.contains(&key.1) => Some("the switch refuses it, or a group of it"),
                None => is_off.then_some("features.antreaPolicy of the NodeConfig is off"),
            };
            match why {
                Some(why) => report.refuse(&object.uid, standing.generation, why),
                None => report.tell(&object.uid, standing.generation, projection.objects.contains_key(&key)),
            }
        }
        report
    }
}

/// Policies that the switch refuses, or of which it refuses a group.
fn refused_policies(agent: &Agent, by_switch: &BTreeSet<Key>) -> BTreeSet<String> {
    if by_switch.is_empty() {
        return BTreeSet::new();
    }
    let policies = agent.projection().objects.iter().filter(|((kind, _), _)| *kind == Kind::NetworkPolicy as i32);
    let is_refused = |(key, projected): &(&Key, &crate::project::Projected)| {
        by_switch.contains(key) || groups_of(&projected.object).iter().any(|group| by_switch.contains(group))
    };
    policies.filter(is_refused).map(|((_, name), _)| name.clone()).collect()
}
