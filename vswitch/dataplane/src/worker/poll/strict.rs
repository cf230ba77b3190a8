//! Strict ports: malformed packets are dropped by name before anything is looked up.

use crate::packet::strict;
use crate::port::PortId;
use crate::worker::Walk;
use vswitch_dpdk::Burst;

impl Walk {
    /// Drops the malformed packets of a burst that came in by a strict port, and counts them; the
    /// others stay, in order.
    #[cold]
    #[inline(never)]
    pub(in crate::worker) fn refuse_malformed(&mut self, burst: &mut Burst, port: PortId) {
        // What comes in by a port that is down is dropped, whatever it is: by the loops that
        // follow.
        let Some(view) = self.snapshot.port(port).filter(|view| view.admin_up) else { return };
        let counters = &view.shared.counters[self.worker];
        for mbuf in std::mem::take(burst).drain() {
            match strict::check(&mbuf) {
                None => {
                    let _ = burst.push(mbuf); // there is room: it was one burst
                }
                Some(reason) => {
                    counters.rx_packets.add(1);
                    counters.rx_bytes.add(mbuf.len() as u64);
                    self.outputs.drop_packet(&counters.rx_drops, reason, mbuf);
                }
            }
        }
    }
}
