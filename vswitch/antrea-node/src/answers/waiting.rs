//! Packets that wait for an answer: each category has a store of its own, so that a storm of one
//! takes no place of another's.

use super::{gone, is_for};
use crate::AntreaError;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;
use vswitch_antrea::PacketCategory;
use vswitch_dataplane::limits::ANTREA_TO_ANSWER_MAX;
use vswitch_dataplane::pipeline::Received;
use vswitch_flow::FlowKey;
use vswitch_proto::antrea::v1;

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) bridge: Arc<str>,
    pub(super) until: Instant,
    /// Names it in the bridge; empty: it was a copy.
    pub(super) paused: Vec<u8>,
    pub(super) metadata: FlowKey,
    pub(super) received: Option<Received>,
}

/// Those of a category.
#[derive(Debug, Default)]
struct Store {
    packets: HashMap<u64, Packet>,
    /// The oldest first. Answered ones stay for a while: never more than others that may wait.
    order: VecDeque<u64>,
}

impl Store {
    fn put(&mut self, token: u64, packet: Packet) {
        while self.packets.len() >= ANTREA_TO_ANSWER_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.packets.remove(&oldest);
        }
        if self.order.len() >= 2 * ANTREA_TO_ANSWER_MAX {
            self.order.retain(|token| self.packets.contains_key(token));
        }
        self.packets.insert(token, packet);
        self.order.push_back(token);
    }

    fn expire(&mut self, now: Instant) {
        self.packets.retain(|_, packet| packet.until > now);
        while self.order.front().is_some_and(|oldest| !self.packets.contains_key(oldest)) {
            self.order.pop_front();
        }
    }
}

/// By category, and there by token.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    next: u64,
    /// Tokens of another run of the switch, or guessed ones, are none of ours.
    secret: RandomState,
    stores: HashMap<PacketCategory, Store>,
}

impl Waiting {
    /// Returns the packet's token. The oldest of too many gives way.
    pub(super) fn put(&mut self, category: PacketCategory, packet: Packet) -> u64 {
        self.next += 1;
        let token = self.secret.hash_one(self.next);
        self.stores.entry(category).or_default().put(token, packet);
        token
    }

    /// Those that have waited too long go.
    pub(super) fn expire(&mut self, category: PacketCategory, now: Instant) {
        if let Some(store) = self.stores.get_mut(&category) {
            store.expire(now);
        }
    }

    /// All but those of categories that are to be `kept` go: nobody hands them over any more.
    pub(super) fn keep(&mut self, kept: impl Fn(PacketCategory) -> bool) {
        self.stores.retain(|category, _| kept(*category));
    }

    /// The packet with a token, and its category, if this answer is one for it.
    ///
    /// # Errors
    /// When no packet has this token, or the verdict is none for it; then it waits still.
    pub(super) fn take(
        &mut self,
        token: &[u8],
        verdict: v1::PacketVerdict,
        now: Instant,
    ) -> Result<(PacketCategory, Packet), AntreaError> {
        let key = token.as_array().map_or(0, |token| u64::from_be_bytes(*token));
        let waits = |store: &Store| store.packets.get(&key).is_some_and(|packet| packet.until > now);
        let found = self.stores.iter_mut().find(|(_, store)| waits(store));
        let (category, store) = found.ok_or_else(|| gone(token))?;
        is_for(verdict, *category)?;
        let packet = store.packets.remove(&key).ok_or_else(|| gone(token))?;
        Ok((*category, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use v1::PacketVerdict::{Drop, Reject, Resume};

    fn packet(until: Instant) -> Packet {
        Packet { bridge: "br".into(), until, paused: Vec::new(), metadata: FlowKey::default(), received: None }
    }

    /// A token as it is told.
    fn put(waiting: &mut Waiting, category: PacketCategory, until: Instant) -> [u8; 8] {
        waiting.put(category, packet(until)).to_be_bytes()
    }

    #[test]
    fn a_storm_of_a_category_evicts_its_own_oldest_and_no_others() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        let dns = put(&mut waiting, PacketCategory::Dns, until);
        let rejects: Vec<_> =
            (0..=ANTREA_TO_ANSWER_MAX).map(|_| put(&mut waiting, PacketCategory::PolicyReject, until)).collect();
        assert!(waiting.take(&rejects[0], Reject, now).is_err(), "one too many came");
        for token in &rejects[1..] {
            assert!(waiting.take(token, Resume, now).is_err(), "no answer for it; it waits still");
            assert_eq!(waiting.take(token, Reject, now).expect("it waits").0, PacketCategory::PolicyReject);
        }
        assert_eq!(waiting.take(&dns, Resume, now).expect("it waits").0, PacketCategory::Dns);
    }

    #[test]
    fn answered_ones_take_no_place_and_are_forgotten() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        let first = put(&mut waiting, PacketCategory::Igmp, until);
        for _ in 0..3 * ANTREA_TO_ANSWER_MAX {
            let token = put(&mut waiting, PacketCategory::Igmp, until);
            waiting.take(&token, Drop, now).expect("it waits");
        }
        let order = waiting.stores[&PacketCategory::Igmp].order.len();
        assert!(order <= 2 * ANTREA_TO_ANSWER_MAX, "{order} tokens");
        waiting.take(&first, Drop, now).expect("only one waits at a time");
    }

    #[test]
    fn what_waits_too_long_or_is_handed_over_no_more_goes() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let late = put(&mut waiting, PacketCategory::Dns, now);
        let other = put(&mut waiting, PacketCategory::Dns, now + Duration::from_secs(1));
        assert!(waiting.take(&late, Drop, now).is_err());
        waiting.expire(PacketCategory::Dns, now);
        assert_eq!(waiting.stores[&PacketCategory::Dns].packets.len(), 1);
        waiting.keep(|category| category != PacketCategory::Dns);
        assert!(waiting.take(&other, Drop, now).is_err());
    }
}
