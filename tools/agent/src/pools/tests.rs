use super::*;
use crate::kinds::external_ip_pool::SubnetInfo;
use crate::kinds::selector::Selector;
use proptest::prelude::*;

fn cidr(text: &str) -> IpRange {
    IpRange { cidr: Some(text.to_owned()), ..IpRange::default() }
}

fn from_to(start: &str, end: &str) -> IpRange {
    IpRange { start: Some(start.to_owned()), end: Some(end.to_owned()), ..IpRange::default() }
}

fn pool(ranges: Vec<IpRange>) -> Spec {
    Spec { ip_ranges: ranges, ..Spec::default() }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn claim(egress: &str, pool: &str, address: Option<&str>) -> Claim {
    Claim { egress: egress.to_owned(), pool: pool.to_owned(), address: address.map(ip) }
}

fn all(pool: &Spec) -> Vec<String> {
    let mut taken = BTreeSet::new();
    while let Some(address) = free(pool, &taken).filter(|_| taken.len() < 10) {
        taken.insert(address);
    }
    taken.iter().map(ToString::to_string).collect()
}

#[test]
fn addresses_of_ranges() {
    for (range, expected) in [
        (cidr("192.0.2.0/30"), vec!["192.0.2.1", "192.0.2.2"]),
        (cidr("192.0.2.6/31"), vec!["192.0.2.6", "192.0.2.7"]),
        (cidr("192.0.2.6/32"), vec!["192.0.2.6"]),
        (cidr("2001:db8::/126"), vec!["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
        (cidr("2001:db8::5/128"), vec!["2001:db8::5"]),
        (from_to("192.0.2.254", "192.0.3.1"), vec!["192.0.2.254", "192.0.2.255", "192.0.3.0", "192.0.3.1"]),
        (from_to("255.255.255.254", "255.255.255.255"), vec!["255.255.255.254", "255.255.255.255"]),
    ] {
        let of = pool(vec![range.clone()]);
        assert_eq!(all(&of), expected, "{range:?}");
        assert!(expected.iter().all(|text| is_of(&of, ip(text))), "{range:?}");
    }
    assert!(!is_of(&pool(vec![cidr("192.0.2.0/24")]), ip("192.0.2.255")));
    assert!(!is_of(&pool(vec![cidr("0.0.0.0/0")]), ip("2001:db8::1")));
    let info = SubnetInfo { gateway: "192.0.2.1".to_owned(), prefix_length: 24, vlan: 0 };
    let with_router = Spec { subnet_info: Some(info), ..pool(vec![cidr("192.0.2.0/30")]) };
    assert_eq!(all(&with_router), ["192.0.2.2"]);
}

#[test]
fn what_an_egress_gets() {
    let pools = BTreeMap::from([
        ("a".to_owned(), pool(vec![cidr("192.0.2.0/30")])),
        ("b".to_owned(), pool(vec![cidr("192.0.2.0/29")])),
    ]);
    let claims = [
        claim("e1", "a", None),
        claim("e2", "a", None),
        claim("e3", "a", Some("192.0.2.1")),
        claim("e4", "b", None),
        claim("e5", "none", None),
        claim("e6", "a", Some("192.0.2.9")),
    ];
    let given = allocate(&pools, &claims, &BTreeSet::from([ip("192.0.2.3")]));
    let expected = [
        ("e1", Ok(ip("192.0.2.2"))),
        ("e2", Err(NoAddress::Full)),
        ("e3", Ok(ip("192.0.2.1"))),
        ("e4", Ok(ip("192.0.2.4"))),
        ("e5", Err(NoAddress::NoPool)),
        ("e6", Err(NoAddress::Outside)),
    ];
    assert_eq!(given, expected.map(|(name, result)| (name.to_owned(), result)).into());
}

#[test]
fn nodes_that_the_pool_does_not_select_have_nothing() {
    let labels = |rack: &str| Labels::from([("rack".to_owned(), rack.to_owned())]);
    let ready = BTreeMap::from([("n1".to_owned(), labels("a")), ("n2".to_owned(), labels("b"))]);
    let select = |rack: &str| Spec {
        node_selector: Selector { match_labels: labels(rack), ..Selector::default() },
        ..pool(vec![cidr("192.0.2.0/24")])
    };
    for last in 1..=50 {
        let address = IpAddr::from([192, 0, 2, last]);
        assert_eq!(node(&select("b"), address, &ready), Some("n2"));
        assert_eq!(node(&select("c"), address, &ready), None);
        assert_eq!(node(&select("no value of a label"), address, &ready), None);
    }
}

#[test]
fn nodes_have_about_as_many_addresses_each() {
    let ready: BTreeMap<String, Labels> = (0..5).map(|i| (format!("worker-{i}"), Labels::new())).collect();
    let of = pool(vec![cidr("10.0.0.0/16")]);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for i in 0..5000_u32 {
        let address = IpAddr::from(Ipv4Addr::from_bits(0x0a00_0001 + i));
        *counts.entry(node(&of, address, &ready).expect("a Node")).or_default() += 1;
    }
    // 1000 each; a spread of 5 standard deviations.
    assert!(counts.len() == 5 && counts.values().all(|count| (859..=1141).contains(count)), "{counts:?}");
}

proptest! {
    /// Whatever is claimed, nobody gets what another one has, and all that is given is of the pool.
    #[test]
    fn no_address_is_given_twice(claims in prop::collection::vec((0..40_u8, 0..3_u8, prop::option::of(0..40_u8)), 0..60)) {
        let names = ["a", "b", "c"];
        let pools: BTreeMap<String, Spec> = [
            ("a".to_owned(), pool(vec![cidr("192.0.2.0/29"), from_to("192.0.2.20", "192.0.2.25")])),
            ("b".to_owned(), pool(vec![from_to("192.0.2.4", "192.0.2.22")])),
        ].into();
        let mut all: BTreeMap<String, Claim> = BTreeMap::new();
        for (egress, pool, address) in claims {
            let name = format!("e{egress}");
            let address = address.map(|last| IpAddr::from([192, 0, 2, last]));
            all.insert(name.clone(), Claim { egress: name, pool: names[usize::from(pool)].to_owned(), address });
        }
        let claims: Vec<Claim> = all.into_values().collect();
        let given = allocate(&pools, &claims, &BTreeSet::new());
        let mut seen: BTreeSet<IpAddr> = claims.iter().filter_map(|claim| claim.address).collect();
        for claim in claims.iter().filter(|claim| claim.address.is_none()) {
            if let Ok(address) = given[&claim.egress] {
                prop_assert!(seen.insert(address), "{address} twice");
                prop_assert!(is_of(&pools[&claim.pool], address));
            }
        }
        // In any order of claims, and again with what was given, it is the same.
        let reversed: Vec<Claim> = claims.iter().rev().cloned().collect();
        prop_assert_eq!(&allocate(&pools, &reversed, &BTreeSet::new()), &given);
        let settled: Vec<Claim> = claims.iter().map(|claim| {
            Claim { address: claim.address.or_else(|| given[&claim.egress].ok()), ..claim.clone() }
        }).collect();
        prop_assert_eq!(&allocate(&pools, &settled, &BTreeSet::new()), &given);
    }

    /// When a Node leaves, only its addresses move; when it comes back, they come back.
    #[test]
    fn few_addresses_move(count in 2..12_usize, gone in any::<prop::sample::Index>(), addresses in prop::collection::vec(any::<u32>(), 1..50)) {
        let of = pool(vec![cidr("0.0.0.0/0")]);
        let all: BTreeMap<String, Labels> = (0..count).map(|i| (format!("n{i}"), Labels::new())).collect();
        let gone = format!("n{}", gone.index(count));
        let mut rest = all.clone();
        rest.remove(&gone);
        for bits in addresses {
            let address = IpAddr::from(Ipv4Addr::from_bits(bits));
            let (before, after) = (node(&of, address, &all), node(&of, address, &rest));
            prop_assert!(after.is_some_and(|after| after != gone));
            prop_assert!(before == after || before == Some(gone.as_str()));
        }
    }
}
