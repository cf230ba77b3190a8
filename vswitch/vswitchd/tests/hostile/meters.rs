//! T06: rates and weights at their ends.

use crate::bed::{BRIDGE, Bed, udp};

/// How many of so many packets pass.
fn pass(bed: &mut Bed, packets: u16) -> usize {
    (0..packets).filter(|_| !bed.ports("p1", &udp(1)).is_empty()).count()
}

/// The lowest rate, the highest, and the highest burst. (0 is refused: it would let nothing pass,
/// which drop says better.)
#[test]
fn rates_at_their_ends() {
    let mut bed = Bed::new(2);
    let meter = |text: &str| format!("meter add meter=1,{text}");
    // One a second, and what was not used for a thousand years is not saved up.
    bed.load(&[&meter("pktps,burst,band=type=drop,rate=1,burst_size=1"), "actions=meter:1,output:2"]);
    assert_eq!(pass(&mut bed, 5), 1);
    bed.warp(999);
    assert_eq!(pass(&mut bed, 5), 0);
    bed.warp(1);
    assert_eq!(pass(&mut bed, 5), 1);
    bed.warp(1000 * 365 * 86_400 * 1000);
    assert_eq!(pass(&mut bed, 5), 1);
    let drops = bed.drops(BRIDGE, "p1");
    assert_eq!(drops.into_iter().collect::<Vec<_>>(), [("meter".to_owned(), 17)]);
    let shown = bed.vsctl("meter-stats", &[], None).expect("statistics");
    assert!(
        shown.contains("packet_in_count:20 byte_in_count:1200") && shown.contains("packet_count:17 byte_count:1020"),
        "{shown}"
    );
    // Less than a packet a second: 1 kbit/s are 125 bytes; a packet of 60 passes while there is
    // that much.
    bed.load(&[&meter("kbps,burst,band=type=drop,rate=1,burst_size=1"), "actions=meter:1,output:2"]);
    assert_eq!(pass(&mut bed, 5), 2);
    for text in [
        "pktps,band=type=drop,rate=4294967295",
        "pktps,burst,band=type=drop,rate=4294967295,burst_size=4294967295",
        "kbps,band=type=drop,rate=4294967295",
        "kbps,burst,band=type=drop,rate=1,burst_size=4294967295",
        "pktps,burst,band=type=drop,rate=4294967295,burst_size=1",
    ] {
        bed.load(&[&meter(text), "actions=meter:1,output:2"]);
        // The burst of one packet is used up by the first: the clock stands.
        let wanted = if text.ends_with("=1") { 1 } else { 50 };
        assert_eq!(pass(&mut bed, 50), wanted, "{text}");
        bed.warp(400 * 365 * 86_400 * 1000);
        assert_eq!(pass(&mut bed, 50), wanted, "{text}, 400 years later");
    }
    bed.settle();
}

/// Eight bands, of which the highest rate that is exceeded counts; a ninth is refused.
#[test]
fn bands_are_bounded() {
    let mut bed = Bed::new(2);
    let bands = |n: u32| {
        let band = |i: u32| format!("type=drop,rate={},burst_size={}", i, i);
        format!("meter add meter=1,pktps,burst,bands={}", (1..=n).map(band).collect::<Vec<_>>().join(","))
    };
    let limit = bed.limits().bands_max;
    bed.load(&[&bands(limit), "actions=meter:1,output:2"]);
    assert_eq!(pass(&mut bed, 20), 1, "the strictest band");
    let refused = bed.refused(&[&bands(limit + 1).replace("meter=1", "meter=2")]);
    assert!(refused.contains("OFPMMFC_OUT_OF_BANDS"), "{refused}");
    bed.settle();
}

/// Weights of 0, all of them 0, and 65,535 beside 1.
#[test]
fn weights_at_their_ends() {
    let mut bed = Bed::new(3);
    for method in ["", "selection_method=hash,fields(udp_src),", "selection_method=dp_hash,"] {
        let group = |a: u32, b: u32| {
            format!("group add group_id=1,type=select,{method}bucket=weight:{a},output:2,bucket=weight:{b},output:3")
        };
        let split = |bed: &mut Bed, a: u32, b: u32| {
            bed.load(&[&group(a, b), "actions=group:1"]);
            let mut out = [0; 2];
            for source in 0..300 {
                for port in bed.ports("p1", &udp(source)) {
                    out[usize::from(port == "p3")] += 1;
                }
            }
            out
        };
        assert_eq!(split(&mut bed, 0, 65535), [0, 300], "{method}");
        assert_eq!(split(&mut bed, 0, 1), [0, 300], "{method}");
        // (Open vSwitch drops, too.)
        assert_eq!(split(&mut bed, 0, 0), [0, 0], "{method}");
        assert_eq!(bed.fate(&udp(1)), (Vec::new(), "no_bucket".to_owned()), "{method}");
        let [few, many] = split(&mut bed, 1, 65535);
        assert!(few + many == 300 && few <= 5, "{method}: {few}, {many}");
        let [one, other] = split(&mut bed, 65535, 65535);
        assert!(one + other == 300 && (90..=210).contains(&one), "{method}: {one}, {other}");
    }
    bed.load(&["group add group_id=1,type=select", "actions=group:1"]);
    assert_eq!(bed.fate(&udp(1)), (Vec::new(), "no_bucket".to_owned()), "no bucket at all");
    bed.settle();
}
