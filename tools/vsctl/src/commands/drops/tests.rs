//! What a switch could have told of drops, both ways.

use super::*;
use vswitch_pcapng::TEXT_MAX;
use vswitch_proto::v1::watch_drops_response::Update;

fn count(port: &str, reason: &str, total: u64, pod: &str) -> v1::PortDrops {
    v1::PortDrops {
        bridge: "br0".to_owned(),
        port: port.to_owned(),
        direction: v1::DropDirection::In.into(),
        reason: reason.to_owned(),
        class: "policy".to_owned(),
        total,
        rates: Some(v1::DropRates { last_1s: 2.0, last_10s: 1.5, last_60s: 0.25 }),
        external_ids: [("zone".to_owned(), "a".to_owned())].into(),
        pod: pod.to_owned(),
    }
}

fn sample() -> v1::DropSample {
    v1::DropSample {
        reason: "rule_drop".to_owned(),
        class: "policy".to_owned(),
        bridge: "br0".to_owned(),
        port: "web".to_owned(),
        direction: v1::DropDirection::In.into(),
        core: 3,
        unix_ms: 45_296_007,
        length: 1500,
        packet: vec![0xde, 0xad],
        decider: Some(v1::DropDecider {
            bridge: "br0".to_owned(),
            table: 28,
            table_name: "IngressMetric".to_owned(),
            cookie: Some(0x77),
            policy: "np:shop/web".to_owned(),
            policy_rule: "deny".to_owned(),
            default_deny: false,
        }),
        pod: "shop/web".to_owned(),
    }
}

#[test]
fn counts_both_ways() {
    let counts = Counts(vec![
        count("p1", "rule_drop", 7, "shop/web"),
        v1::PortDrops { rates: None, ..count("p2", "rejected", 1, "") },
    ]);
    let want = "\
BRIDGE  PORT  WAY  REASON     CLASS   DROPS    1 S   10 S   60 S  POD
br0     p1    in   rule_drop  policy      7  2.0/s  1.5/s  0.2/s  shop/web
br0     p2    in   rejected   policy      1      -      -      -  -
";
    assert_eq!(counts.text(), want);
    let json = counts.json();
    assert_eq!((&json["drops"][0]["total"], &json["drops"][0]["rates"]["last_10s"]), (&json!(7), &json!(1.5)));
    assert_eq!((&json["drops"][1]["rates"], &json["drops"][0]["external_ids"]["zone"]), (&json!(null), &json!("a")));
}

#[test]
fn sums_have_the_most_first_and_say_of_what() {
    let drops = [count("p1", "rule_drop", 7, "a/b"), count("p1", "meter", 70, "a/b"), count("p2", "rule_drop", 5, "")];
    let of = |by| Sums { by, sums: sums(by, &drops) };
    let want = "\
PORT    DROPS    1 S   10 S   60 S  WHY
br0/p1     77  4.0/s  3.0/s  0.5/s  meter 70, rule_drop 7
br0/p2      5  2.0/s  1.5/s  0.2/s  rule_drop 5
";
    assert_eq!(of(DropsBy::Port).text(), want);
    let want = "\
REASON     DROPS    1 S   10 S   60 S
meter         70  2.0/s  1.5/s  0.2/s
rule_drop     12  4.0/s  3.0/s  0.5/s
";
    assert_eq!(of(DropsBy::Reason).text(), want);
    assert_eq!(of(DropsBy::Pod).json()["drops"][0]["name"], "a/b");
    assert_eq!(of(DropsBy::Pod).json()["drops"][1]["name"], "-");
}

#[test]
fn samples_name_their_policy() {
    let said = "drop: rule_drop; class policy; table 28 (IngressMetric); cookie 0x77; policy np:shop/web rule deny; pod shop/web";
    assert_eq!(words::comment(&sample()), said);
    assert_eq!(words::line(&sample()), format!("12:34:56.007 br0 web in core=3 len=1500 {said} packet=dead"));
    let mut isolated = sample();
    let decider = isolated.decider.as_mut().expect("it has one");
    (decider.policy_rule, decider.default_deny, decider.table_name) = (String::new(), true, String::new());
    isolated.pod.clear();
    let said = "drop: rule_drop; class policy; table 28; cookie 0x77; policy np:shop/web (default deny)";
    assert_eq!(words::comment(&isolated), said);
    let missed = v1::DropDecider { table: 5, ..v1::DropDecider::default() };
    let missed = v1::DropSample { decider: Some(missed), reason: "table_miss".to_owned(), ..isolated };
    assert_eq!(words::comment(&missed), "drop: table_miss; class policy; table 5");
    assert_eq!(words::sample_json(&missed)["decider"]["cookie"], json!(null));
    assert_eq!(words::sample_json(&sample())["packet"], "dead");
    assert!(said.len() < TEXT_MAX);
}

#[test]
fn a_capture_has_an_interface_for_each_port_and_way_and_says_what_it_lacks() {
    let mut file = Vec::new();
    let mut capture = capture::Capture::new(Box::new(&mut file)).expect("a file");
    let out = v1::DropSample { direction: v1::DropDirection::Out.into(), ..sample() };
    for sample in [sample(), out.clone(), sample(), out] {
        capture.add(&Update::Sample(sample)).expect("written");
    }
    let one = v1::DropsNotSampled { reason: "rule_drop".to_owned(), suppressed: 90, lost: 2 };
    assert_eq!(
        words::not_told(&v1::DropsNotTold { reasons: vec![one.clone()] }),
        "not shown so far: rule_drop 90 and 2 lost"
    );
    capture.add(&Update::NotTold(v1::DropsNotTold { reasons: vec![one] })).expect("counted");
    capture.end().expect("written");
    // Blocks: kind and length, both of 4 bytes.
    let (mut kinds, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes"));
        kinds.push(word(at));
        at += word(at + 4) as usize;
    }
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 1, 6, 6, 6, 5, 5, 1, 5]);
    assert!(file.windows(4).any(|window| window == 92_u32.to_le_bytes()), "what was not told");
}
