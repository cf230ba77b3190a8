use super::*;
#[test]
fn load_115k() {
    let mut updates = Vec::new();
    for i in 0..5000u32 {
        for s in 0..10u32 {
            let m = matching(&[(Field::EthType, 0x800), (Field::NwSrc, (i * 16 + s) as u128)]);
            updates.push(Update::AddFlow(FlowSpec {
                matching: m,
                ..flow(10, 200, 0, i as u64, &[Action::Conjunction { id: i + 1, clause: 0, clauses: 3 }])
            }));
            let m = matching(&[(Field::EthType, 0x800), (Field::InPort, (i * 16 + s) as u128)]);
            updates.push(Update::AddFlow(FlowSpec {
                matching: m,
                ..flow(10, 200, 0, i as u64, &[Action::Conjunction { id: i + 1, clause: 1, clauses: 3 }])
            }));
        }
        for s in 0..2u32 {
            let m = matching(&[
                (Field::EthType, 0x800),
                (Field::NwProto, 6),
                (Field::TpDst, (i * 2 + s) as u128 & 0xffff),
                (Field::Reg1, i as u128),
            ]);
            updates.push(Update::AddFlow(FlowSpec {
                matching: m,
                ..flow(10, 200, 0, i as u64, &[Action::Conjunction { id: i + 1, clause: 2, clauses: 3 }])
            }));
        }
        let m = matching(&[(Field::EthType, 0x800), (Field::ConjId, i as u128 + 1)]);
        updates.push(Update::AddFlow(FlowSpec { matching: m, ..flow(10, 190, 0, i as u64, &[output(1)]) }));
    }
    fn cpu() -> f64 {
        let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        s.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
    }
    let mut bench = Bench::default();
    let t = cpu();
    bench.ok(&updates);
    eprintln!("load {} flows: {} ms cpu", updates.len(), cpu() - t);
    let t = cpu();
    bench.ok(&[add(10, 1, 1, 1, &[])]);
    eprintln!("one more: {} ms", cpu() - t);
    let t = cpu();
    let n = bench.state.flows(&FlowFilter::default(), Millis(0)).len();
    eprintln!("dump {n}: {} ms", cpu() - t);
    let mut all = vec![Update::ReplaceAll { meters: false }];
    all.extend(updates.clone());
    let t = cpu();
    bench.ok(&all);
    eprintln!("replace all equal: {} ms", cpu() - t);
    let mut bad = updates.clone();
    bad.push(add(254, 1, 1, 1, &[]));
    let t = cpu();
    bench.refused(&bad);
    eprintln!("refused over (with digests): {} ms", cpu() - t);
    let t = cpu();
    assert!(bench.apply(&bad).is_err());
    eprintln!("refused over: {} ms", cpu() - t);
    let t = cpu();
    bench.ok(&[delete(FlowFilter { cookie: 77, cookie_mask: u64::MAX, ..FlowFilter::default() })]);
    eprintln!("delete by cookie: {} ms", cpu() - t);
    let t = cpu();
    bench.ok(&[delete(FlowFilter { cookie: 76, cookie_mask: 0xffff_ffff, ..FlowFilter::default() })]);
    eprintln!("delete by masked cookie: {} ms", cpu() - t);
    let t = cpu();
    bench.ok(&[delete(FlowFilter::default())]);
    eprintln!("delete all: {} ms", cpu() - t);
}
