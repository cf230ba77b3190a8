//! Meters.

use super::*;

#[test]
fn meters_come_change_and_go() {
    let mut bench = Bench::default();
    bench.ok(&[add_meter(9), add_meter(1), add(0, 5, 1, 1, &[Action::Meter(1)])]);
    bench.state.program().meters[&1].run(100, Millis(0));
    let shown = |bench: &Bench| -> Vec<_> {
        let infos = bench.state.meters(None, Millis(bench.now));
        infos.iter().map(|m| (m.meter.id, m.duration_ms, m.flow_count, m.packets, m.bytes, m.bands.len())).collect()
    };
    bench.now = 2000;
    assert_eq!(shown(&bench), [(1, 2000, 1, 1, 100, 1), (9, 2000, 0, 0, 0, 1)]);
    bench.ok(&[Update::ModifyMeter(meter(1, 5)), Update::DeleteMeters(Some(9)), Update::DeleteMeters(Some(77))]);
    assert_eq!(shown(&bench), [(1, 2000, 1, 0, 0, 1)], "observed: counters start over, the duration goes on");
    assert_eq!(bench.ok(&[Update::DeleteMeters(None)]), [1]);
    assert!(bench.flows().is_empty());
}

#[test]
fn bad_meters_are_refused_by_name() {
    let with = |burst, bands: &[(u32, u32)]| {
        let band = |(rate, burst): &(u32, u32)| Band { kind: BandKind::Drop, rate: *rate, burst: *burst };
        Update::AddMeter(MeterSpec { burst, bands: bands.iter().map(band).collect(), ..meter(2, 1) })
    };
    let remark = Band { kind: BandKind::DscpRemark { precedence: 0 }, rate: 1, burst: 0 };
    let cases = [
        ("exists", add_meter(1), "OFPMMFC_METER_EXISTS"),
        ("id 0", add_meter(0), "OFPMMFC_INVALID_METER"),
        ("id of all", add_meter(0xffff_ffff), "OFPMMFC_INVALID_METER"),
        ("modify nothing", Update::ModifyMeter(meter(7, 1)), "OFPMMFC_UNKNOWN_METER"),
        ("no bands", with(false, &[]), "OFPMMFC_OUT_OF_BANDS"),
        ("nine bands", with(false, &[(1, 0); 9]), "OFPMMFC_OUT_OF_BANDS"),
        ("rate 0", with(false, &[(1, 0), (0, 0)]), "OFPMMFC_BAD_RATE"),
        ("burst 0", with(true, &[(1, 0)]), "OFPMMFC_BAD_BURST"),
        ("burst without the flag", with(false, &[(1, 1)]), "OFPMMFC_BAD_BURST"),
        ("remark by nothing", Update::AddMeter(MeterSpec { bands: vec![remark], ..meter(2, 1) }), "OFPMMFC_BAD_BAND"),
    ];
    for (name, update, code) in cases {
        let mut bench = Bench::default();
        bench.ok(&[add_meter(1)]);
        assert_eq!(bench.refused(&[add_meter(5), update]), (1, code), "{name}");
    }
    Bench::default().ok(&[add_meter(0xffff_0000), with(true, &[(u32::MAX, u32::MAX); 8])]);
}
