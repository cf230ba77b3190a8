//! What a capture has come to.

use serde_json::{Value, json};
use vswitch_proto::v1;

/// Why it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has as many packets as were asked for.
    Count,
    /// Its time is over.
    Seconds,
    /// None of its ports is left.
    Ports,
    /// The user or the reader of the packets ended it.
    Interrupted,
}

impl End {
    /// As the switch says it.
    pub(super) const fn of(end: v1::CaptureEnd) -> Self {
        match end {
            v1::CaptureEnd::Count => Self::Count,
            v1::CaptureEnd::Seconds => Self::Seconds,
            v1::CaptureEnd::Ports => Self::Ports,
            v1::CaptureEnd::Unspecified => Self::Interrupted,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Seconds => "seconds",
            Self::Ports => "ports",
            Self::Interrupted => "interrupted",
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::Count => "all packets that were asked for",
            Self::Seconds => "its time is over",
            Self::Ports => "none of its ports is left",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Interfaces of a capture, and what became of their packets.
#[derive(Debug)]
pub(super) struct Summary {
    started: v1::CaptureStarted,
    /// By interface, as the switch said it last.
    told: Vec<v1::CaptureStatistics>,
    /// By interface: packets that came.
    captured: Vec<u64>,
    /// Why it has ended.
    pub(super) end: End,
}

impl Summary {
    /// Nothing has come yet.
    pub(super) fn new(started: v1::CaptureStarted) -> Self {
        let captured = vec![0; started.interfaces.len()];
        let told = vec![v1::CaptureStatistics::default(); started.interfaces.len()];
        Self { started, told, captured, end: End::Interrupted }
    }

    /// Counts packets of interfaces that there are, and returns them.
    pub(super) fn count(&mut self, records: v1::CaptureRecords) -> Vec<v1::CaptureRecord> {
        let mut records = records.records;
        records.retain(|record| match self.captured.get_mut(record.interface as usize) {
            Some(captured) => {
                *captured += 1;
                true
            }
            None => false,
        });
        records
    }

    /// What the switch says.
    pub(super) fn note(&mut self, mut statistics: Vec<v1::CaptureStatistics>) {
        statistics.resize_with(self.captured.len(), Default::default);
        self.told = statistics;
    }

    /// By interface. What came is counted here: the switch may have said it earlier.
    pub(super) fn statistics(&self) -> Vec<v1::CaptureStatistics> {
        let of =
            |(told, captured): (&v1::CaptureStatistics, &u64)| v1::CaptureStatistics { captured: *captured, ..*told };
        self.told.iter().zip(&self.captured).map(of).collect()
    }

    /// One line, and one for each kind of loss.
    pub(super) fn text(&self) -> String {
        let sum = |of: fn(&v1::CaptureStatistics) -> u64| self.statistics().iter().map(of).sum::<u64>();
        let mut text = format!("{} packets captured: {}\n", sum(|each| each.captured), self.end.sentence());
        let missed = sum(|each| each.not_copied);
        if missed > 0 {
            text += &format!("{missed} packets not copied: give --match, --snaplen or fewer ports\n");
        }
        let refused = sum(|each| each.refused);
        if refused > 0 {
            text += &format!("{refused} packets refused by ports, and not captured\n");
        }
        text
    }

    /// The same, by interface.
    pub(super) fn json(&self) -> Value {
        let interface = |(interface, statistics): (&v1::CaptureInterface, v1::CaptureStatistics)| {
            json!({
                "port": interface.port,
                "number": interface.number,
                "point": match interface.point() {
                    v1::CapturePoint::Rx => "rx",
                    v1::CapturePoint::Tx => "tx",
                    v1::CapturePoint::Drop => "drop",
                    v1::CapturePoint::Unspecified => "unknown",
                },
                "captured": statistics.captured,
                "filtered": statistics.filtered,
                "not_copied": statistics.not_copied,
                "beyond_count": statistics.beyond_count,
                "refused": statistics.refused,
            })
        };
        let interfaces = self.started.interfaces.iter().zip(self.statistics()).map(interface);
        json!({ "ended": self.end.word(), "interfaces": interfaces.collect::<Vec<_>>() })
    }
}
