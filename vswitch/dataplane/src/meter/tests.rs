//! Meters with an injected clock. Numbers marked "observed" are Open vSwitch's.

use super::*;

fn meter(pktps: bool, burst: bool, bands: &[Band]) -> Meter {
    Meter::new(MeterSpec { id: 1, pktps, burst, stats: true, bands: bands.to_vec() }, Millis(1000))
}

fn drop(rate: u32, burst: u32) -> Band {
    Band { kind: BandKind::Drop, rate, burst }
}

/// How many of `count` packets of `len` bytes pass at a moment.
fn passed(meter: &Meter, count: usize, len: usize, now: u64) -> usize {
    (0..count).filter(|_| meter.run(len, Millis(now)) == MeterVerdict::Pass).count()
}

#[test]
fn rates_and_bursts() {
    // pktps, burst flag, rate, burst, length, then (millisecond, packets, how many pass).
    type Case = (&'static str, bool, bool, u32, u32, usize, &'static [(u64, usize, usize)]);
    let cases: &[Case] = &[
        ("observed", true, true, 2, 3, 60, &[(1000, 8, 3), (2000, 8, 2), (12_000, 8, 3)]),
        (
            "a burst of a second of rate",
            true,
            false,
            5,
            0,
            60,
            &[(1000, 8, 5), (1199, 8, 0), (1200, 8, 1), (9000, 8, 5)],
        ),
        ("a burst that was not asked for is ignored", true, false, 2, 50, 60, &[(1000, 8, 2)]),
        (
            "the clock does not go back",
            true,
            false,
            1,
            0,
            60,
            &[(5000, 2, 1), (4000, 2, 0), (5999, 2, 0), (6000, 2, 1)],
        ),
        // 8 kbit/s: a bucket of 8,000 bits holds 10 packets of 100 bytes, and a millisecond brings
        // 8 bits.
        (
            "kilobits",
            false,
            false,
            8,
            0,
            100,
            &[(1000, 20, 10), (1099, 1, 0), (1100, 2, 1), (1150, 1, 0), (1200, 1, 1)],
        ),
        ("a packet larger than the bucket never passes", false, true, 1, 1, 1500, &[(1000, 1, 0), (99_000, 1, 0)]),
        ("the largest numbers", true, true, u32::MAX, u32::MAX, 60, &[(1000, 100, 100), (u64::MAX, 100, 100)]),
        ("slow and deep", true, true, 1, u32::MAX, 60, &[(1000, 9, 9), (u64::MAX, 9, 9)]),
    ];
    for (name, pktps, burst, rate, size, len, steps) in cases {
        let meter = meter(*pktps, *burst, &[drop(*rate, *size)]);
        for (at, count, passes) in *steps {
            assert_eq!(passed(&meter, *count, *len, *at), *passes, "{name}: at {at} ms");
        }
    }
}

#[test]
fn the_band_with_the_highest_exceeded_rate_acts() {
    let remark = Band { kind: BandKind::DscpRemark { precedence: 1 }, rate: 2, burst: 0 };
    let meter = meter(true, false, &[remark, drop(4, 0)]);
    let verdicts: Vec<MeterVerdict> = (0..6).map(|_| meter.run(100, Millis(1000))).collect();
    let (pass, remark) = (MeterVerdict::Pass, MeterVerdict::Remark(1));
    assert_eq!(verdicts, [pass, pass, remark, remark, MeterVerdict::Drop, MeterVerdict::Drop]);
    let stats = MeterStats { packets: 6, bytes: 600, bands: vec![(2, 200), (2, 200)] };
    assert_eq!(meter.stats(), stats);
    let changed = meter.modified(meter.spec.clone(), Millis(9000));
    assert_eq!((changed.created_ms(), changed.stats().packets), (1000, 0), "a new meter with the old duration");
}

#[test]
fn remark_stays_in_its_class() {
    let cases = [(10, 1, 12), (10, 2, 14), (12, 1, 14), (14, 1, 14), (18, 255, 22), (34, 1, 36), (38, 2, 38)];
    for (dscp, by, result) in cases {
        assert_eq!(remark(dscp, by), result, "{dscp} by {by}");
    }
    let assured: Vec<u8> = (0..64).filter(|dscp| remark(*dscp, 2) != *dscp).collect();
    assert_eq!(assured, [10, 12, 18, 20, 26, 28, 34, 36], "all others stay");
}

#[test]
fn no_token_is_given_twice() {
    let meter = meter(true, true, &[drop(1000, 10)]);
    let total: usize = std::thread::scope(|scope| {
        let run = || (0..2000).map(|i| passed(&meter, 3, 60, 1000 + i / 2)).sum::<usize>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    // A second of 1,000 packets and a burst of 10; not all of it need be used.
    assert!((10..=1010).contains(&total), "{total} passed");
    assert_eq!(meter.stats().packets, 4 * 2000 * 3);
}
