//! Names in rules: what the reader of DNS answers knows, and how it comes into the rules.
//!
//! Flows of rules with names send answers for their Pods to controller [`CONTROLLER`], where they
//! wait. The reader ([`reader`]) parses them; what they say of names that rules mean goes into the
//! clauses of these rules by one transaction, and when every worker has it, the answers go on. So a
//! Pod that has its answer can connect. What came while one transaction runs shares the next. An
//! answer that says nothing new goes on at once.
//!
//! **Locks**: the cache has one of its own, held for the time of a lookup. It is taken behind the
//! node state's; the reader, which learns for each answer, never has the node state's, and never
//! waits for it: rounds are written by [`Antrea::write_names`] on a blocking thread.
//!
//! **Limits**: those of [`vswitch_antrea::fqdn`];
//! [`PAUSED_MAX`](vswitch_dataplane::limits::PAUSED_MAX) answers wait; each as long as
//! `wait_ms_max`. What is beyond is dropped, and its client asks again.

mod reader;

use super::{Antrea, AntreaError, State};
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::Notify;
use vswitch_antrea::fqdn::{Cache, Changes};
use vswitch_antrea::{Desired, NameLimits, Node, ObjectKind, PacketCategory, Pattern};
use vswitch_control::SwitchApi;
use vswitch_control::switch::pipeline::PacketStream;
use vswitch_dataplane::limits::TRANSACTION_UPDATES_MAX;
use vswitch_dataplane::pipeline::Interest;
use vswitch_dataplane::time::Millis;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::EventKind;

pub use reader::read;

/// Controller id of answers to questions for names.
pub(super) const CONTROLLER: u16 = 62375;
/// What their flow says of them.
pub(super) const USERDATA: u8 = 2;

/// Answers of a bridge.
#[derive(Debug)]
struct Feed {
    bridge: String,
    packets: PacketStream,
    /// How long one may wait.
    wait: Duration,
}

/// What the reader is to read from now on.
#[derive(Debug)]
enum Order {
    Read(Feed),
    Nothing,
}

/// What the reader and the node state have in common.
#[derive(Debug, Default)]
pub(super) struct Names {
    cache: Mutex<Cache>,
    /// [`Desired::patterns_version`] that the cache has.
    version: AtomicU64,
    /// For the reader, once.
    order: Mutex<Option<Order>>,
    /// The bridge whose answers are read, and how long they may wait.
    reads: Mutex<Option<(String, NameLimits)>>,
    /// There is an order, or something to write.
    wake: Notify,
    counters: Counters,
}

/// Answers since the start of the switch.
#[derive(Debug, Default)]
struct Counters {
    /// That came.
    answers: AtomicU64,
    /// That waited for their addresses.
    waited: AtomicU64,
    /// That went on unread: no DNS message, or not a whole one.
    unread: AtomicU64,
    /// That were dropped: they had waited too long, or their addresses could not be written.
    dropped: AtomicU64,
    /// That did not even come to the reader.
    lost: AtomicU64,
}

impl Names {
    /// Rules may have changed. Under the node state's lock.
    pub(super) fn follow(&self, desired: &Desired) {
        let version = desired.patterns_version();
        if self.version.swap(version, Relaxed) != version {
            self.cache.lock().set_patterns(desired.patterns().cloned());
            self.wake.notify_one();
        }
    }

    /// The Node is gone, and with it all rules and names.
    pub(super) fn reset(&self) {
        let mut cache = self.cache.lock();
        cache.set_patterns(std::iter::empty());
        cache.clear();
        self.version.store(0, Relaxed);
        drop(cache);
        self.attach(None);
    }

    fn attach(&self, feed: Option<(Feed, NameLimits)>) {
        *self.reads.lock() = feed.as_ref().map(|(feed, limits)| (feed.bridge.clone(), *limits));
        *self.order.lock() = Some(feed.map_or(Order::Nothing, |(feed, _)| Order::Read(feed)));
        self.wake.notify_one();
    }

    /// Answers of this Node's bridge are read from now on, unless its agent does that. Before its
    /// flows are written: what nobody reads is dropped.
    ///
    /// # Errors
    /// When the bridge has too many subscribers.
    pub(super) fn read_for(&self, switch: &dyn SwitchApi, node: &Node) -> Result<(), AntreaError> {
        self.cache.lock().set_limits(node.names);
        if node.taken_over.contains(&PacketCategory::Dns) {
            self.attach(None);
        } else if !matches!(&*self.reads.lock(), Some((bridge, limits)) if *bridge == node.bridge && *limits == node.names)
        {
            let packets = switch.subscribe_packets(&node.bridge, Interest::of(CONTROLLER))?;
            let wait = Duration::from_millis(node.names.wait_ms.into());
            let feed = Feed { bridge: node.bridge.clone(), packets, wait };
            self.attach(Some((feed, node.names)));
        }
        Ok(())
    }

    /// What is known, and what became of answers.
    pub(super) fn state(&self) -> v1::NameState {
        let cache = self.cache.lock();
        let (names, addresses, evicted) = cache.sizes();
        let Counters { answers, waited, unread, dropped, lost } = &self.counters;
        v1::NameState {
            names: names as u64,
            addresses: addresses as u64,
            evicted,
            memory: cache.memory() as u64,
            answers: answers.load(Relaxed),
            answers_waited: waited.load(Relaxed),
            answers_unread: unread.load(Relaxed),
            answers_dropped: dropped.load(Relaxed),
            answers_lost: lost.load(Relaxed),
        }
    }
}

impl Antrea {
    /// Writes the next round of addresses, if there is one. Returns its number, and whether it is
    /// in the rules.
    fn write_names(&self) -> Option<(u64, bool)> {
        let mut state = self.state.lock();
        let (round, changes) = self.names.cache.lock().take()?;
        let count = changes.len();
        let done = match self.write_round(&mut state, changes) {
            Ok(()) => true,
            Err(reason) => {
                tracing::error!(
                    names = count,
                    reason,
                    "addresses of names could not be written; they are forgotten, and clients ask again"
                );
                false
            }
        };
        self.names.cache.lock().landed(done);
        Some((round, done))
    }

    fn write_round(&self, state: &mut State, changes: Changes) -> Result<(), String> {
        let bridge = state.bridge().map_err(|error| error.to_string())?;
        let plan = state.node_state.plan_names(changes).map_err(|problems| {
            problems
                .all()
                .first()
                .map_or_else(String::new, |problem| format!("{}: {}", problem.code.name(), problem.reason))
        })?;
        if state.gate_open && !plan.updates.is_empty() {
            let written = if plan.updates.len() > TRANSACTION_UPDATES_MAX {
                Err(format!("{} changes at once, at most {TRANSACTION_UPDATES_MAX}", plan.updates.len()))
            } else {
                self.write_flows(&bridge, &plan.updates).map(|_| ()).map_err(|error| error.to_string())
            };
            if let Err(reason) = written {
                state.node_state.revert(plan);
                return Err(reason);
            }
            if self.events.are_read(EventKind::ObjectChanged) {
                // Traceflows are compiled with everything.
                let policies = plan.compiled().filter(|key| key.kind == ObjectKind::NetworkPolicy);
                self.tell_objects(state, &policies.cloned().collect());
            }
        }
        state.node_state.settle(plan);
        Ok(())
    }

    /// Names that a pattern means (None: all), in order, with their addresses and the rules that
    /// use them.
    pub fn fqdns(&self, pattern: Option<&Pattern>) -> Vec<v1::Fqdn> {
        let state = self.state.lock();
        let names = self.names.cache.lock().list(pattern);
        let (now, desired) = (Millis::now().0, state.node_state.desired());
        let rules = |name: &str| {
            let mut rules = Vec::new();
            for key in desired.meaning(name) {
                let Some(policy) = desired.network_policy(&key.name) else { continue };
                rules.extend(policy.rules_meaning(name).map(|rule| v1::RuleRef {
                    policy: key.name.to_string(),
                    rule: rule.to_owned(),
                    number: state.node_state.ids().rule_by_name(&key.name, rule).unwrap_or(0),
                }));
            }
            rules
        };
        let fqdn = |(name, addresses): (std::sync::Arc<str>, Vec<(std::net::IpAddr, u64)>)| v1::Fqdn {
            rules: rules(&name),
            name: name.to_string(),
            addresses: addresses
                .into_iter()
                .map(|(address, over)| v1::FqdnAddress {
                    address: address.to_string(),
                    expires_in_ms: over.saturating_sub(now),
                })
                .collect(),
        };
        names.into_iter().map(fqdn).collect()
    }
}
