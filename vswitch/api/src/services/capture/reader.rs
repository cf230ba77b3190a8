//! From workers' copies to messages.

use vswitch_control::switch::capture::Capture;
use vswitch_dataplane::capture::{Buffer, Point, Totals, id_of};
use vswitch_dataplane::observe::{Direction, DropSample};
use vswitch_dataplane::time::unix_ns;
use vswitch_dpdk::lcore;
use vswitch_proto::v1;

/// Packets that died, at most, in one message.
const DROPS_TOGETHER: usize = 1024;

/// Two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// TSC cycles, and how many there are in a second.
    pub(super) cycles: u64,
    pub(super) hz: u64,
    /// Nanoseconds since 1970.
    pub(super) ns: u64,
}

/// Now.
pub(super) fn now() -> Moment {
    Moment { cycles: lcore::cycles(), hz: lcore::tsc_hz(), ns: unix_ns() }
}

impl Moment {
    /// The time at which the cycle counter stood there, not long ago.
    pub(super) fn time_of(self, cycles: u64) -> u64 {
        let ago = u128::from(self.cycles.saturating_sub(cycles)) * 1_000_000_000 / u128::from(self.hz.max(1));
        self.ns.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
    }
}

/// What one caller has got.
#[derive(Debug)]
pub(super) struct Reader {
    left: u64,
    /// By interface: packets that were sent to the caller.
    captured: Vec<u64>,
    /// By interface: packets that died and did not fit the match.
    left_out: Vec<u64>,
    /// Time of the last record: later ones are not earlier.
    last: u64,
}

/// The interfaces of a capture.
pub(super) fn interfaces(capture: &Capture) -> Vec<v1::CaptureInterface> {
    let interfaces = capture.session.spec().interfaces.iter().zip(&capture.numbers);
    let interface = |(interface, number): (&vswitch_dataplane::capture::Interface, &u32)| v1::CaptureInterface {
        port: interface.name.clone(),
        number: *number,
        point: match interface.point {
            Point::Rx => v1::CapturePoint::Rx.into(),
            Point::Tx => v1::CapturePoint::Tx.into(),
            Point::Drop => v1::CapturePoint::Drop.into(),
        },
    };
    interfaces.map(interface).collect()
}

impl Reader {
    /// For a caller that wants so many packets.
    pub(super) fn new(capture: &Capture, count: u64) -> Self {
        let zeros = vec![0; capture.numbers.len()];
        Self { left: count, captured: zeros.clone(), left_out: zeros, last: 0 }
    }

    /// Whether the caller has all packets that it wanted.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// The packets of one buffer of each worker, by time. None: there were no buffers. Beyond what
    /// the caller wants buffers are emptied only.
    pub(super) fn next(&mut self, capture: &Capture, now: Moment) -> Option<Vec<v1::CaptureRecord>> {
        let mut records = Vec::new();
        let mut any = capture.session.read(|_, buffer| take(buffer, now, &mut records));
        for _ in 0..DROPS_TOGETHER {
            let Some((interface, sample)) = capture.session.read_drop(&mut self.left_out) else { break };
            any = true;
            records.push(drop_record(interface, &sample, now));
        }
        // Stable: records of one worker keep their order.
        records.sort_by_key(|record: &v1::CaptureRecord| record.time);
        records.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        for record in &mut records {
            self.last = record.time.max(self.last);
            record.time = self.last;
            self.captured[record.interface as usize] += 1;
        }
        self.left -= records.len() as u64;
        any.then_some(records)
    }

    /// What became of all packets so far. It is exact once the capture has ended and all buffers
    /// are read.
    pub(super) fn statistics(&self, capture: &Capture) -> Vec<v1::CaptureStatistics> {
        let of = |((totals, captured), left_out): ((Totals, &u64), &u64)| v1::CaptureStatistics {
            captured: *captured,
            filtered: totals.passed.saturating_sub(totals.copied + totals.missed) + left_out,
            not_copied: totals.missed,
            beyond_count: totals.copied.saturating_sub(captured + left_out),
            refused: totals.refused,
        };
        let totals = capture.session.totals().into_iter();
        totals.zip(&self.captured).zip(&self.left_out).map(of).collect()
    }
}

/// Adds the packets of a buffer that their ports took.
fn take(buffer: &Buffer, now: Moment, records: &mut Vec<v1::CaptureRecord>) {
    let taken = buffer.records().filter(|(record, _)| record.refused.is_none());
    records.extend(taken.map(|(record, bytes)| v1::CaptureRecord {
        interface: record.interface.into(),
        time: now.time_of(record.cycles),
        data: bytes.to_vec(),
        length: record.length,
        packet_id: record.id,
        drop: None,
    }));
}

/// A packet that died.
fn drop_record(interface: u16, sample: &DropSample, now: Moment) -> v1::CaptureRecord {
    let rule = sample.decider.filter(|decider| decider.matched);
    v1::CaptureRecord {
        interface: interface.into(),
        time: now.time_of(sample.cycles),
        data: sample.bytes().to_vec(),
        length: u32::try_from(sample.len).unwrap_or(u32::MAX),
        packet_id: id_of(sample.tag),
        drop: Some(v1::CaptureDrop {
            reason: sample.reason.name().to_owned(),
            outbound: sample.direction == Direction::Out,
            table: sample.decider.map(|decider| decider.table.into()),
            cookie: rule.map(|decider| decider.cookie),
        }),
    }
}
