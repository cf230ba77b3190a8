//! The straight road through a burst: packets of connections that have programs, one after the other, and nothing else in the loop.
//!
//! What a packet costs here is how many instructions it takes. So whatever else a packet may need makes the run halt, and is [`Walk::tables_burst`](super::Walk)'s, which
//! comes back for the rest of the burst; and each family has its own copy of the loop's body, where all that hangs on the family is known.

use super::step::Step;
use crate::cache::{Cache, Kind, Program};
use crate::dpdk::Mbuf;
use crate::observe::Fallback;
use crate::pipeline::Changes;
use crate::port::PortId;
use vswitch_flow::action::PortNo;
use vswitch_flow::extract::Layers;

/// Why a run has halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// There are no more packets, or something has changed.
    Between,
    /// The next packet has no program, as far as is known.
    NoProgram,
    /// Its program was not replayed.
    Fallback(Fallback),
}

impl Step<'_> {
    /// Replays the packets of a burst from slot `first` on. Returns how many, and why not more; the next one is in its slot, as it was.
    #[inline(never)] // registers of its own
    pub(super) fn run(
        &mut self,
        cache: &Cache,
        slots: &mut [Option<Mbuf>],
        first: usize,
        changes: &Changes,
        from: (PortId, PortNo),
    ) -> (usize, Halt) {
        if !cache.is_located() {
            return (0, Halt::NoProgram);
        }
        let (Some(keys), Some(slots)) = (cache.keys.get(first..), slots.get_mut(first..)) else {
            return (0, Halt::Between);
        };
        let mut replayed = 0;
        for (key, slot) in keys.iter().zip(slots) {
            if !cache.is_synced(changes) {
                break;
            }
            let done = match key.kind() {
                Kind::V4 => self.go(cache, cache.located_v4(key), slot, key.layers_v4(), from),
                Kind::V6 => self.go(cache, cache.located_v6(key), slot, key.layers_v6(), from),
                Kind::None => Err(Halt::NoProgram),
            };
            if let Err(halt) = done {
                return (replayed, halt);
            }
            replayed += 1;
        }
        (replayed, Halt::Between)
    }

    /// One packet.
    #[inline(always)] // once for each family
    fn go<const A: usize>(
        &mut self,
        cache: &Cache,
        program: Option<Program<'_, A>>,
        slot: &mut Option<Mbuf>,
        layers: Layers,
        from: (PortId, PortNo),
    ) -> Result<(), Halt> {
        let Some(program) = program else { return Err(Halt::NoProgram) };
        self.next_packet();
        match program {
            Program::Simple(program) => self.replay_simple(cache, program, slot, layers, from),
            Program::Rare(program) => self.replay_rare(cache, program, slot, layers, from),
        }
        .map_err(Halt::Fallback)
    }
}
