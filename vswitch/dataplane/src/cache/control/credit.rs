//! Counters of rules, groups and tables.

use crate::group::GroupStats;
use crate::pipeline::Credit;
use crate::time::Millis;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

impl Credit {
    /// Adds packets, the last one seen at `used`. From any thread.
    pub fn add(&self, packets: u64, bytes: u64, used: Millis) {
        let add = |to: &(AtomicU64, AtomicU64)| {
            to.0.fetch_add(packets, Relaxed);
            to.1.fetch_add(bytes, Relaxed);
        };
        let group = |stats: &GroupStats| {
            stats.packets.fetch_add(packets, Relaxed);
            stats.bytes.fetch_add(bytes, Relaxed);
        };
        match self {
            Self::Rule(stats) => {
                stats.packets.fetch_add(packets, Relaxed);
                stats.bytes.fetch_add(bytes, Relaxed);
                stats.used_ms.fetch_max(used.0, Relaxed);
            }
            Self::Bucket(stats, bucket) => {
                group(stats);
                if let Some(bucket) = stats.buckets.get(*bucket) {
                    add(bucket);
                }
            }
            Self::Group(stats) => group(stats),
            Self::AllBuckets(stats) => {
                group(stats);
                stats.buckets.iter().for_each(add);
            }
            Self::Longer(credit, more) => credit.add(packets, bytes + packets * u64::from(*more), used),
            Self::Table(stats, matched) => {
                stats.lookups.fetch_add(packets, Relaxed);
                if *matched {
                    stats.matches.fetch_add(packets, Relaxed);
                }
            }
        }
    }
}
