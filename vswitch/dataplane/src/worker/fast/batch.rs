//! Batches of a burst: packets of connections that have programs, one after the other, and nothing
//! else in the loop.
//!
//! What a packet costs here is how many instructions it takes. So whatever else a packet may need
//! ends the batch, and is [`Walk::tables_burst`](crate::worker::Walk)'s, which comes back for the
//! rest of the burst; and each family has its own copy of the loop's body, where all that hangs on
//! the family is known.

use crate::cache::{Cache, Compact, CompactKind, Entry, Simple};
use crate::observe::Fallback;
use crate::port::PortId;
use crate::worker::fast::replay::{Replayed, Taken};
use crate::worker::step::StepContext;
use vswitch_dpdk::Mbuf;
use vswitch_flow::action::PortNo;

/// Why a batch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Halt {
    /// There are no more packets, or the last one may have changed something for the next one.
    Between,
    /// The next packet has no program, as far as is known.
    NoProgram,
    /// Its program was not replayed.
    Fallback(Fallback),
}

impl StepContext<'_> {
    /// Replays the packets of a burst from slot `first` on. Returns how many, and why not more; the
    /// next one is in its slot, as it was. Afterwards this may be inside of a section
    /// ([`vswitch_conntrack::Owner`]).
    #[inline(never)] // registers of its own
    pub(in crate::worker) fn replay_batch(
        &mut self,
        cache: &Cache,
        slots: &mut [Option<Mbuf>],
        first: usize,
        from: (PortId, PortNo),
    ) -> (usize, Halt) {
        if !cache.is_located() {
            return (0, Halt::NoProgram);
        }
        let (Some(keys), Some(slots)) = (cache.keys.get(first..), slots.get_mut(first..)) else {
            return (0, Halt::Between);
        };
        // From here on whoever leaves something behind says so: most packets do not.
        self.next_packet();
        let n = keys.len().min(slots.len());
        let (keys, slots) = (&keys[..n], &mut slots[..n]);
        let mut taken = Taken::default();
        let (mut done, mut why) = (n, Halt::Between);
        // One count for both, and for how many were replayed.
        for i in 0..n {
            match self.go_any(cache, &mut slots[i], &keys[i], from, &mut taken) {
                Ok(Replayed::AsBefore | Replayed::Apart) => continue,
                Ok(Replayed::Changed) => done = i + 1,
                Err(halt) => (done, why) = (i, halt),
            }
            break;
        }
        self.settle(&mut taken);
        (done, why)
    }

    /// One packet, of whatever family.
    #[inline(always)] // into the loops over a burst
    pub(in crate::worker) fn go_any<'c>(
        &mut self,
        cache: &'c Cache,
        slot: &mut Option<Mbuf>,
        key: &Compact,
        from: (PortId, PortNo),
        taken: &mut Taken<'c>,
    ) -> Result<Replayed, Halt> {
        match key.kind() {
            CompactKind::V4 => self.go(cache, cache.located_v4(key), slot, key, from, taken),
            CompactKind::V6 => self.go(cache, cache.located_v6(key), slot, key, from, taken),
            CompactKind::None => Err(Halt::NoProgram),
        }
    }

    /// One packet.
    #[inline(always)] // once for each family
    fn go<'c, const A: usize>(
        &mut self,
        cache: &'c Cache,
        entry: Option<&'c Entry<A>>,
        slot: &mut Option<Mbuf>,
        key: &Compact,
        from: (PortId, PortNo),
        taken: &mut Taken<'c>,
    ) -> Result<Replayed, Halt> {
        let done = match entry {
            Some(Entry::Program { path, link, fused }) => {
                let program = Simple { path, link, fused };
                self.replay_simple(cache, program, slot, key, from, taken)
            }
            Some(Entry::Rare { program, .. }) => self.replay_rare(cache, program, slot, key, from),
            _ => return Err(Halt::NoProgram),
        };
        if done == Ok(Replayed::Apart) {
            self.next_packet();
        }
        done.map_err(Halt::Fallback)
    }
}
