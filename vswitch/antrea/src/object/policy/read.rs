//! `NetworkPolicy`, read: everything that is wrong with it by itself.

use super::{Action, BASELINE, Direction, LAST, NetworkPolicy, Order, Rule, peer, ports, salvage};
use crate::problem::{Code, Problems};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// As many as one clause flow has `conjunction`s.
const RULES_MAX: usize = 65_536;
/// Bytes of a rule's id and of its word for logs.
const WORD_MAX: usize = 253;
/// Bytes of what the engine is told.
const DEFINITION_MAX: usize = 4096;

/// Names in a list, in order: each is taken once, none may be empty.
pub(crate) fn names(field: &str, texts: &[String], problems: &mut Problems) -> Vec<Arc<str>> {
    let mut known: HashSet<&str> = HashSet::new();
    let mut names = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        if text.is_empty() {
            problems.push(Code::Missing, format!("{field}[{at}]"), "it is empty");
        } else if known.insert(text) {
            names.push(text.as_str().into());
        } else {
            problems.twice(&format!("{field}[{at}]"), text);
        }
    }
    names
}

/// Names of things that have a namespace.
pub(crate) fn check_names(field: &str, texts: &[String], problems: &mut Problems) {
    for (at, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty() && !is_namespaced(text)) {
        problems.push(Code::Value, format!("{field}[{at}]"), format!("{text:?} is not namespace/name"));
    }
}

fn is_namespaced(text: &str) -> bool {
    text.split_once('/').is_some_and(|(namespace, name)| !namespace.is_empty() && is_plain(name))
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

/// Reads it. With problems it is what is in force in its place ([`salvage`]); None: not even that
/// can be.
pub(super) fn read(message: &v1::NetworkPolicy, problems: &mut Problems) -> Option<NetworkPolicy> {
    let mut own = Problems::default();
    let order = order(message, &mut own);
    let contradicts = !own.is_empty();
    let applied_to = names("applied_to", &message.applied_to, &mut own);
    if message.rules.len() > RULES_MAX {
        own.push(Code::Limit, "rules", format!("there are {}, at most {RULES_MAX}", message.rules.len()));
    }
    let isolates = isolation(message, order, &applied_to, &mut own);
    let mut unbound = message.applied_to.iter().any(String::is_empty);
    let is_wrong = !own.is_empty();
    problems.extend(own);
    let mut reader = Rules { message, order, applied_to: &applied_to, places: [0, 0], known: HashMap::new(), rules: Vec::new(), unbound: false, denies: false };
    for at in 0..message.rules.len().min(RULES_MAX) {
        reader.read(at, problems);
    }
    let Rules { rules, unbound: of_rules, denies, .. } = reader;
    unbound |= of_rules;
    let ahead = contradicts || denies || order != Some(Order::K8s);
    if is_wrong || denies {
        return Some(salvage::withheld(message, order, ahead, unbound));
    }
    unbound |= applied_to.is_empty() && !isolates.is_empty();
    Some(NetworkPolicy { order: order?, applied_to, rules, isolates, log_isolation: message.log_isolation, held: Vec::new(), unbound })
}

fn isolation(message: &v1::NetworkPolicy, order: Option<Order>, applied_to: &[Arc<str>], problems: &mut Problems) -> Vec<Direction> {
    let mut isolates = Vec::new();
    for (field, given, direction) in [
        ("isolates_ingress", message.isolates_ingress, Direction::Ingress),
        ("isolates_egress", message.isolates_egress, Direction::Egress),
    ] {
        if given && matches!(order, Some(Order::Antrea { .. })) {
            problems.push(Code::Value, field, "only policies of K8s isolate");
        }
        isolates.extend(given.then_some(direction));
    }
    if message.log_isolation && matches!(order, Some(Order::Antrea { .. })) {
        problems.push(Code::Value, "log_isolation", "only policies of K8s isolate");
    }
    // A policy without rules that isolates nothing says nothing; that is no reason to want a group.
    if applied_to.is_empty() && !isolates.is_empty() {
        problems.push(Code::Missing, "applied_to", "it isolates nobody");
    }
    isolates
}

/// Rules on their way.
struct Rules<'a> {
    message: &'a v1::NetworkPolicy,
    order: Option<Order>,
    applied_to: &'a [Arc<str>],
    places: [u32; 2],
    /// By id: where it is in the message.
    known: HashMap<Arc<str>, usize>,
    rules: Vec<Rule>,
    /// One does not say what it is applied to.
    unbound: bool,
    /// One of a K8s policy is wrong and may deny.
    denies: bool,
}

impl Rules<'_> {
    /// The rule at a place of the message, or what stands for it.
    fn read(&mut self, at: usize, problems: &mut Problems) {
        let (messages, field) = (&self.message.rules, format!("rules[{at}]"));
        let Some(message) = messages.get(at) else { return };
        let before = self.known.get(message.id.as_str()).and_then(|other| messages.get(*other));
        if !message.id.is_empty() && before == Some(message) {
            return problems.twice(&field, format!("rule {:?}", message.id));
        }
        let mut own = Problems::default();
        let places = self.places;
        let read = rule(&field, at, message, self.order, &mut self.places, &mut own);
        if let Some(rule) = &read {
            if self.known.contains_key(&rule.id) {
                own.push(Code::Duplicate, format!("{field}.id"), format!("{:?} is the id of two rules", &*rule.id));
            }
            self.known.entry(Arc::clone(&rule.id)).or_insert(at);
        }
        if self.applied_to.is_empty() && message.applied_to.is_empty() {
            let reason = "neither the policy nor the rule says what it is applied to";
            own.push(Code::Missing, format!("{field}.applied_to"), reason);
            self.unbound = true;
        }
        self.unbound |= message.applied_to.iter().any(String::is_empty);
        let is_right = own.is_empty();
        problems.extend(own);
        match read.filter(|_| is_right) {
            Some(rule) => self.rules.push(rule),
            None if self.order == Some(Order::K8s) => {
                let action = v1::RuleAction::try_from(message.action);
                self.denies |= !matches!(action, Ok(v1::RuleAction::Unspecified | v1::RuleAction::Allow));
            }
            None => {
                let known = self.places != places;
                let applied_to = names("", &message.applied_to, &mut Problems::default());
                for mut rule in salvage::instead(message, at, &applied_to, &mut self.places, known) {
                    while self.known.contains_key(&rule.id) {
                        rule.id = format!("{}+", rule.id).into();
                    }
                    self.known.insert(Arc::clone(&rule.id), at);
                    self.rules.push(rule);
                }
            }
        }
    }
}

/// Kind, tier, priority, and the name that must agree with them.
fn order(message: &v1::NetworkPolicy, problems: &mut Problems) -> Option<Order> {
    let kind = v1::PolicyKind::try_from(message.kind);
    let (prefix, namespaced, is_antrea) = match kind {
        Ok(v1::PolicyKind::K8s) => ("np:", true, false),
        Ok(v1::PolicyKind::Antrea) => ("anp:", true, true),
        Ok(v1::PolicyKind::AntreaCluster) => ("acnp:", false, true),
        Ok(v1::PolicyKind::Unspecified) => {
            problems.push(Code::Missing, "kind", "it is not given");
            return None;
        }
        Err(_) => {
            problems.push(Code::Value, "kind", format!("there is no kind {}", message.kind));
            return None;
        }
    };
    let rest = message.name.strip_prefix(prefix);
    let fits = rest.is_some_and(|rest| if namespaced { is_namespaced(rest) } else { is_plain(rest) });
    if !fits && !message.name.is_empty() {
        let form = if namespaced { "namespace/name" } else { "name" };
        problems.push(Code::Value, "name", format!("{:?} is not {prefix}{form}, as its kind has it", message.name));
    }
    if !is_antrea {
        for (field, given) in [("tier", message.tier != 0), ("priority", message.priority != 0.0)] {
            if given {
                problems.push(Code::Value, field, "policies of K8s have none");
            }
        }
        return Some(Order::K8s);
    }
    if message.tier > LAST {
        problems.push(Code::Range, "tier", format!("{} is not 0 to {LAST}", message.tier));
    }
    if !(0.0..=10000.0).contains(&message.priority) {
        problems.push(Code::Range, "priority", format!("{} is not 0.0 to 10000.0", message.priority));
    }
    Some(Order::Antrea { tier: message.tier, priority: message.priority })
}

fn rule(
    field: &str,
    at: usize,
    message: &v1::Rule,
    order: Option<Order>,
    places: &mut [u32; 2],
    problems: &mut Problems,
) -> Option<Rule> {
    let is_antrea = matches!(order, Some(Order::Antrea { .. }) | None);
    let direction = direction(field, message, problems);
    let action = action(field, message, order, problems);
    for (name, text, most) in [("id", &message.id, WORD_MAX), ("log_label", &message.log_label, WORD_MAX)] {
        if text.len() > most {
            let reason = format!("it is {} bytes long, at most {most}", text.len());
            problems.push(Code::Value, format!("{field}.{name}"), reason);
        }
    }
    let default = v1::RulePeer::default();
    let peer = message.peer.as_ref().unwrap_or(&default);
    let peer = peer::read(&format!("{field}.peer"), peer, direction, is_antrea, problems);
    let mut terms: Vec<ports::Ports> = Vec::new();
    let mut known: HashSet<ports::Ports> = HashSet::new();
    for (at, port) in message.ports.iter().enumerate() {
        let field = format!("{field}.ports[{at}]");
        let Some(term) = ports::read(&field, port, problems) else { continue };
        if known.insert(term.clone()) {
            terms.push(term);
        } else {
            problems.twice(&field, "it");
        }
    }
    multicast(field, &terms, &peer, (is_antrea, action), problems);
    l7(field, message, action, &terms, problems);
    if !message.l7_protocols.is_empty() && message.ports.is_empty() {
        // The engine reads TCP, whatever its port.
        terms.push(ports::Ports::TCP);
    }
    let applied_to = names(&format!("{field}.applied_to"), &message.applied_to, problems);
    let direction = direction?;
    let place = &mut places[direction as usize];
    let id = match (message.id.is_empty(), direction) {
        (false, _) => message.id.as_str().into(),
        (true, Direction::Ingress) => format!("ingress-{place}").into(),
        (true, Direction::Egress) => format!("egress-{place}").into(),
    };
    *place += 1;
    Some(Rule {
        id,
        at,
        direction,
        place: *place - 1,
        action: action?,
        peer,
        ports: terms,
        applied_to,
        logging: message.logging,
        l7: !message.l7_protocols.is_empty(),
        whole: false,
    })
}

/// What a rule about multicast may say. (Antrea refuses the same.)
fn multicast(
    field: &str,
    terms: &[ports::Ports],
    peer: &peer::Peer,
    (is_antrea, action): (bool, Option<Action>),
    problems: &mut Problems,
) {
    let multicast = terms.iter().filter(|term| term.is_multicast()).count();
    if multicast != 0 && (multicast != terms.len() || !is_antrea) {
        let reason = "multicast needs a rule of its own, of Antrea's policies";
        problems.push(Code::Value, format!("{field}.ports"), reason);
    }
    let decides = matches!(action, None | Some(Action::Allow | Action::Drop));
    if !decides && (multicast != 0 || peer.has_groups()) {
        let reason = "a group's packets are no connections: nobody is refused, and no policy of K8s is about them; use Allow or Drop";
        problems.push(Code::Value, format!("{field}.action"), reason);
    }
    if *peer != peer::Peer::Anybody && terms.iter().any(|term| matches!(term, ports::Ports::Igmp { .. })) {
        let reason = "a rule about IGMP has no other side: name the group in ports, and nobody here";
        problems.push(Code::Value, format!("{field}.peer"), reason);
    }
}

fn direction(field: &str, message: &v1::Rule, problems: &mut Problems) -> Option<Direction> {
    let field = format!("{field}.direction");
    match v1::Direction::try_from(message.direction) {
        Ok(v1::Direction::Ingress) => Some(Direction::Ingress),
        Ok(v1::Direction::Egress) => Some(Direction::Egress),
        Ok(v1::Direction::Unspecified) => {
            problems.push(Code::Missing, field, "it is not given");
            None
        }
        Err(_) => {
            problems.push(Code::Value, field, format!("there is no direction {}", message.direction));
            None
        }
    }
}

fn action(field: &str, message: &v1::Rule, order: Option<Order>, problems: &mut Problems) -> Option<Action> {
    let field = format!("{field}.action");
    let action = match v1::RuleAction::try_from(message.action) {
        Ok(v1::RuleAction::Unspecified | v1::RuleAction::Allow) => Action::Allow,
        Ok(v1::RuleAction::Drop) => Action::Drop,
        Ok(v1::RuleAction::Reject) => Action::Reject,
        Ok(v1::RuleAction::Pass) => Action::Pass,
        Err(_) => {
            problems.push(Code::Value, field, format!("there is no action {}", message.action));
            return None;
        }
    };
    match order {
        Some(Order::K8s) if action != Action::Allow => {
            problems.push(Code::Value, field, "policies of K8s only allow");
        }
        Some(Order::Antrea { tier: BASELINE.., .. }) if action == Action::Pass => {
            problems.push(Code::Value, field, "behind the baseline tier there is nothing to pass to");
        }
        _ => {}
    }
    Some(action)
}

/// What the engine is to check is for allowed TCP connections.
fn l7(field: &str, message: &v1::Rule, action: Option<Action>, terms: &[ports::Ports], problems: &mut Problems) {
    if message.l7_protocols.is_empty() {
        return;
    }
    let all = format!("{field}.l7_protocols");
    if action.is_some_and(|action| action != Action::Allow) {
        problems.push(Code::Value, &*all, "only rules of action Allow have any");
    }
    if !terms.iter().all(ports::Ports::is_tcp) {
        problems.push(Code::Value, format!("{field}.ports"), "the engine reads TCP: name only ports of TCP, or none for all of them");
    }
    for (at, protocol) in message.l7_protocols.iter().enumerate() {
        let length = protocol.definition.len();
        if length > DEFINITION_MAX {
            let reason = format!("it is {length} bytes long, at most {DEFINITION_MAX}");
            problems.push(Code::Value, format!("{all}[{at}].definition"), reason);
        }
    }
}
