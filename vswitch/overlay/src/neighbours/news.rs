//! How much news of known neighbours may cost: each makes all decisions that lead into tunnels be
//! compared with what would be decided now.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Changes per second of all neighbours together.
pub(super) const NEWS_PER_S: u64 = 10;
/// Such changes at once. A failover of some tens of hosts at a time is taken as it comes.
pub(super) const NEWS_AT_ONCE: u64 = 50;

const EACH_MS: u64 = 1000 / NEWS_PER_S;

/// A bucket of tokens that anybody may take from.
#[derive(Debug, Default)]
pub(super) struct News {
    /// When all that was taken will have come back: milliseconds.
    even: AtomicU64,
}

impl News {
    /// Takes a token, if there is one.
    pub(super) fn take(&self, now_ms: u64) -> bool {
        let taken = |even: u64| {
            let even = even.max(now_ms);
            (even - now_ms <= (NEWS_AT_ONCE - 1) * EACH_MS).then_some(even + EACH_MS)
        };
        self.even.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Neighbours;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    #[test]
    fn tokens_come_back_one_by_one_and_no_more_than_there_were() {
        let news = News::default();
        let take = |now_ms| (0..1000).filter(|_| news.take(now_ms)).count() as u64;
        assert_eq!(take(5), NEWS_AT_ONCE);
        assert_eq!((take(5 + EACH_MS - 1), take(5 + EACH_MS)), (0, 1));
        assert_eq!(take(5 + 8 * EACH_MS), 7);
        assert_eq!(take(1_000_000), NEWS_AT_ONCE);
    }

    /// However many quarrel over their addresses, what is known changes only so often; and who was
    /// held off is not forgotten.
    #[test]
    fn news_of_all_neighbours_together_is_bounded() {
        const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
        const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
        const HOSTS: u32 = 500;
        let notices = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&notices);
        let table = Neighbours::new(move || {
            counted.fetch_add(1, Relaxed);
        });
        let ip = |i: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + i));
        for i in 0..HOSTS {
            assert!(table.ask(1, ip(i), 0) && table.learn(1, ip(i), A, 0), "neighbour {i}");
        }
        assert_eq!((table.stats().held_off, notices.load(Relaxed)), (0, 500), "first answers are no news");
        let mut now = 0;
        for second in 1..=21 {
            now = 1000 * second;
            for i in 0..HOSTS {
                table.learn(1, ip(i), if second % 2 == 1 { B } else { A }, now);
            }
        }
        let (changes, held_off) = (notices.load(Relaxed) - 500, table.stats().held_off);
        let bounds = NEWS_PER_S * 20..=NEWS_AT_ONCE + NEWS_PER_S * 21;
        assert!(bounds.contains(&changes) && held_off > 0, "{changes} changes, {held_off} held off");

        // One that was held off is asked when it is used, and the answer counts when there is room
        // for it.
        let last = table.entry(1, ip(HOSTS - 1)).expect("it is known");
        assert_eq!(last.mac(), Some(A), "the others said B first");
        assert!(last.used(now), "what is known of it may be wrong");
        assert!(table.learn(1, ip(HOSTS - 1), B, now + 10_000), "the quarrel is over");
        assert!(!last.used(now + 11_000), "it is known again");
        table.age(now + 11_000);
        assert_eq!(table.stats().entries, 500, "nobody was forgotten by that");
    }
}
