//! What is not told: packets that a meter dropped before anybody was told of them, or that came
//! faster than they were read.

use super::Antrea;
use vswitch_proto::antrea::v1::EventKind;

/// Of one controller, as counted last.
#[derive(Debug)]
pub(super) struct Limit {
    /// To be told with these events.
    kind: EventKind,
    /// None: it has no meter.
    meter: Option<u32>,
    /// What the meter had dropped; None: it was not looked at yet.
    dropped: Option<u64>,
    /// What the queue had lost.
    lost: u64,
}

impl Limit {
    pub(super) const fn new(kind: EventKind, meter: Option<u32>) -> Self {
        Self { kind, meter, dropped: None, lost: 0 }
    }

    /// Tells what came to it since the last look; `lost` is what the queue has lost by now.
    pub(super) fn look(&mut self, antrea: &Antrea, bridge: &str, lost: u64) {
        antrea.events.limit(self.kind, lost.saturating_sub(self.lost));
        self.lost = lost;
        let Some(meter) = self.meter else { return };
        // Without a bridge the stream ends soon.
        let Ok(meters) = antrea.switch.meters(bridge, Some(meter)) else { return };
        let dropped: u64 = meters.iter().flat_map(|meter| &meter.bands).map(|(packets, _)| packets).sum();
        // A meter that was made anew counts from 0.
        let before = self.dropped.replace(dropped).unwrap_or(dropped);
        antrea.events.limit(self.kind, if dropped < before { dropped } else { dropped - before });
    }
}
