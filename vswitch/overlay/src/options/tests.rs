use super::*;
use proptest::prelude::*;

fn map(text: &str) -> OptionMap {
    let mut map = OptionMap::default();
    map.add(&parse(text).expect(text)).expect(text);
    map
}

fn values(given: &[(usize, u128)]) -> Values {
    let mut values = Values::default();
    for (field, value) in given {
        values.present |= 1 << field;
        values.values[*field] = *value;
    }
    values
}

const TWO: &str = "{class=0xffff,type=0x80,len=4}->tun_metadata0,{class=0x102,type=1,len=8}->tun_metadata3";

#[test]
fn the_text_is_that_of_ovs_ofctl() {
    assert_eq!(
        map(TWO).dump(),
        " max option space=128 max fields=8\n allocated option space=12\n\n mapping table:\n  class  type  length  match field\n ------  ----  ------  --------------\n 0xffff  0x80       4  tun_metadata0\n  0x102   0x1       8  tun_metadata3\n"
    );
    let again: Vec<String> = map(TWO).iter().map(Mapping::to_string).collect();
    assert_eq!(map(&again.join(",")), map(TWO));
    let odd = " { class=0x1 , type=010,len=4}->tun_metadata7 {len=16,class=2,type=0xFF}->tun_metadata1, ";
    let mappings =
        [Mapping { class: 1, kind: 8, len: 4, field: 7 }, Mapping { class: 2, kind: 255, len: 16, field: 1 }];
    assert_eq!(parse(odd), Ok(mappings.to_vec()));
}

#[test]
fn what_is_no_mapping_is_refused() {
    let long = "{class=1,type=1,len=4}->".repeat(100);
    let nonsense = [
        "",
        " , ",
        "foo",
        "{class=1,type=9,len=4}",
        "{class=1,type=9,len=4}->reg0",
        "{class=1,type=9,len=4}->tun_metadata",
        "{class=1,type=9,len=4}->tun_metadata+1",
        "{class=1,type=9,len=4}->tun_metadata1x",
        "{class=1,len=4}->tun_metadata6",
        "{class=1,type=1,type=2,len=4}->tun_metadata6",
        "{class=1,type=0x103,len=4}->tun_metadata6",
        "{class=0x10000,type=1,len=4}->tun_metadata6",
        "{class=-1,type=1,len=4}->tun_metadata6",
        "{class=0x,type=1,len=4}->tun_metadata6",
        "{class=09,type=1,len=4}->tun_metadata6",
        "{class=99999999999999999999,type=1,len=4}->tun_metadata6",
        "}{class=1,type=1,len=4->tun_metadata6",
        "{é=1}->tun_metadata6",
        long.as_str(),
    ];
    for text in nonsense {
        assert!(matches!(parse(text), Err(MapError::Syntax(_))), "{text}: {:?}", parse(text));
    }
    assert_eq!(parse("{class=1,type=1,len=4}->tun_metadata8"), Err(MapError::Field(8)));
    assert_eq!(parse("{class=1,type=1,len=256}->tun_metadata1"), Err(MapError::Length(256)));
}

#[test]
fn a_map_changes_as_a_whole_or_not_at_all() {
    let refused = [
        ("{class=1,type=1,len=4}->tun_metadata1,{class=2,type=1,len=5}->tun_metadata2", MapError::Length(5)),
        ("{class=1,type=1,len=4}->tun_metadata1,{class=2,type=1,len=20}->tun_metadata2", MapError::Length(20)),
        ("{class=1,type=1,len=4}->tun_metadata1,{class=2,type=1,len=4}->tun_metadata3", MapError::Mapped(3)),
        ("{class=1,type=1,len=4}->tun_metadata1,{class=1,type=1,len=8}->tun_metadata2", MapError::Duplicate(1, 1)),
        (
            "{class=1,type=1,len=4}->tun_metadata1,{class=0x102,type=1,len=8}->tun_metadata2",
            MapError::Duplicate(0x102, 1),
        ),
    ];
    for (text, error) in refused {
        let mut changed = map(TWO);
        assert_eq!(changed.add(&parse(text).expect(text)), Err(error.clone()), "{text}");
        assert_eq!(changed, map(TWO), "{text}");
        assert!(error.code().starts_with("NXTTMFC_"), "{error}");
    }
    let eight = Mapping { class: 1, kind: 1, len: 4, field: 8 };
    assert_eq!(map(TWO).add(&[eight]), Err(MapError::Field(8)));
    assert_eq!(map(TWO).remove(&[eight]), Err(MapError::Field(8)));

    let mut changed = map(TWO);
    let list =
        parse("{class=0xffff,type=0x80,len=4}->tun_metadata0,{class=1,type=1,len=8}->tun_metadata3").expect("two");
    let there = *map(TWO).field(3).expect("mapped");
    assert_eq!(changed.remove(&list), Err(MapError::Another { given: list[1], there }));
    assert_eq!(changed, map(TWO));
    let unmapped = Mapping { field: 7, ..list[0] };
    assert_eq!((changed.remove(&[list[0], unmapped]), changed.iter().count()), (Ok(()), 1));
    assert_eq!((changed.field(0), changed.field(3), changed.field(8)), (None, Some(&there), None));
    assert_eq!((changed.remove(&[]), changed), (Ok(()), OptionMap::default()));
}

#[test]
fn values_are_sent_as_open_vswitch_does() {
    // Seen on the wire of ovs-vswitchd 3.1.
    let sent = [0xff, 0xff, 0x80, 1, 0x12, 0x34, 0x56, 0x78, 1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0xab, 0xcd];
    assert_eq!(map(TWO).encode(&values(&[(0, 0x1234_5678), (3, 0xabcd)])), sent);
    assert_eq!(map(TWO).encode(&values(&[(0, 0xff_0000_0001)])), [0xff, 0xff, 0x80, 1, 0, 0, 0, 1], "what fits");
    assert_eq!(map(TWO).encode(&values(&[(3, 0)])), [1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0], "there, and 0");
    assert_eq!(map(TWO).encode(&values(&[(5, 1)])), [], "not mapped");
    let flag = map("{class=1,type=1,len=0}->tun_metadata2");
    assert_eq!(flag.encode(&values(&[(2, 0)])), [0, 1, 1, 0]);
    assert_eq!(flag.decode(&[0, 1, 1, 0]), Ok(values(&[(2, 0)])));
}

#[test]
fn options_are_judged_as_rfc_8926_says() {
    let map = map(TWO);
    let known = [0xff, 0xff, 0x80, 1, 0, 0, 0, 5];
    let cases: [(&str, &[u8], _); 9] = [
        ("nothing", &[], Ok(values(&[]))),
        ("a known critical one", &known, Ok(values(&[(0, 5)]))),
        ("reserved bits beside the length", &[0xff, 0xff, 0x80, 0xe1, 0, 0, 0, 5], Ok(values(&[(0, 5)]))),
        ("an unknown one", &[0xff, 0xff, 0, 1, 0, 0, 0, 5], Ok(values(&[]))),
        ("an unknown critical one", &[0xff, 0xfe, 0x80, 1, 0, 0, 0, 5], Err(OptionError::Critical)),
        ("a known one of another length", &[0xff, 0xff, 0x80, 2, 0, 0, 0, 5, 0, 0, 0, 5], Err(OptionError::Length)),
        ("one that ends behind the end", &[0xff, 0xff, 0x80, 1], Err(OptionError::Short)),
        ("half a header", &[0xff, 0xff], Err(OptionError::Short)),
        ("an unknown one that ends behind the end", &[1, 1, 1, 31, 0, 0, 0, 0], Err(OptionError::Short)),
    ];
    for (what, options, expected) in cases {
        assert_eq!(map.decode(options), expected, "{what}");
    }
    let twice = [known.as_slice(), &[0xff, 0xff, 0x80, 1, 0, 0, 0, 6]].concat();
    assert_eq!(map.decode(&twice), Ok(values(&[(0, 6)])), "the last one counts");
    let unknown_first = [&[0, 1, 1, 0], known.as_slice()].concat();
    assert_eq!(map.decode(&unknown_first), Ok(values(&[(0, 5)])), "behind an unknown one");
}

fn maps() -> impl Strategy<Value = OptionMap> {
    proptest::collection::vec((0..4_u16, any::<u8>(), 0..5_u8, 0..8_u8), 0..10).prop_map(|mappings| {
        let mut map = OptionMap::default();
        for (class, kind, words, field) in mappings {
            let _ = map.add(&[Mapping { class, kind, len: words * 4, field }]);
        }
        map
    })
}

proptest! {
    /// What is encoded is decoded again, cut to the lengths of the map.
    #[test]
    fn values_come_through(map in maps(), present in any::<u8>(), given in any::<[u128; FIELDS]>()) {
        let encoded = map.encode(&Values { present, values: given });
        let mut expected = Values::default();
        for mapping in map.iter().filter(|mapping| present >> mapping.field & 1 != 0) {
            let field = usize::from(mapping.field);
            let bits = u32::from(mapping.len) * 8;
            expected.present |= 1 << field;
            expected.values[field] = given[field] & 1_u128.checked_shl(bits).map_or(u128::MAX, |above| above - 1);
        }
        prop_assert_eq!(map.decode(&encoded), Ok(expected));
        prop_assert!(encoded.len() <= SPACE_MAX);
    }

    /// Whatever the bytes are, there is an answer, and no value is longer than its option.
    #[test]
    fn any_bytes_are_decoded(map in maps(), bytes in proptest::collection::vec(0..8_u8, 0..256)) {
        if let Ok(values) = map.decode(&bytes) {
            for mapping in map.iter().filter(|mapping| mapping.len < 16) {
                prop_assert_eq!(values.values[usize::from(mapping.field)] >> (mapping.len * 8), 0);
            }
        }
    }

    /// Whatever the text is, there is an answer.
    #[test]
    fn any_text_is_parsed(text in "[{}a-z0-9=,>_ -]{0,60}|\\{class=[0-9x]{1,6},type=[0-9]{1,3},len=[0-9]{1,3}\\}->tun_metadata[0-9]{1,2}") {
        if let Ok(mappings) = parse(&text) {
            let again: Vec<String> = mappings.iter().map(Mapping::to_string).collect();
            prop_assert_eq!(parse(&again.join(",")), Ok(mappings));
        }
    }
}
