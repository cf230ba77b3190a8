use super::*;
use proptest::prelude::*;

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn user(prefix: &str, port: u32, gateway: Option<&str>, source: Option<&str>) -> UserRoute {
    UserRoute { prefix: cidr(prefix), port, gateway: gateway.map(ip), source: source.map(ip) }
}

/// Two ports: 7 has addresses of both families, 8 a second network.
fn routes() -> Routes {
    let mut routes = Routes::default();
    let seven = [cidr("192.168.1.1/24"), cidr("192.168.1.2/24"), cidr("10.0.0.1/8"), cidr("2001:db8::1/64")];
    routes.set_addresses(7, &seven).expect("addresses");
    routes.set_addresses(8, &[cidr("172.16.0.1/16")]).expect("addresses");
    routes
}

fn way(routes: &Routes, to: &str) -> Option<(u32, Option<String>, String)> {
    let route = routes.lookup(ip(to))?;
    Some((route.port, route.gateway.map(|gateway| gateway.to_string()), route.source.to_string()))
}

fn told(port: u32, gateway: Option<&str>, source: &str) -> Option<(u32, Option<String>, String)> {
    Some((port, gateway.map(str::to_owned), source.to_owned()))
}

#[test]
fn addresses_have_a_length() {
    assert_eq!(cidr("10.1.2.3"), Cidr { address: ip("10.1.2.3"), len: 32 });
    assert_eq!(cidr("2001:db8::1/0").network(), ip("::"));
    assert_eq!((cidr("10.1.2.3/0").network(), cidr("10.1.2.3/15").network()), (ip("0.0.0.0"), ip("10.0.0.0")));
    assert_eq!(cidr("2001:db8::1/127").to_string(), "2001:db8::1/127");
    assert!(cidr("10.1.2.3/8").contains(ip("10.9.9.9")) && !cidr("10.1.2.3/8").contains(ip("11.0.0.0")));
    assert!(!cidr("0.0.0.0/0").contains(ip("::")), "another family");
    let wrong =
        ["", "/", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/+8", "10.0.0.1/-1", "10.0.0/8", "::1/129", "::1/256", "1/8/8"];
    for text in wrong {
        assert_eq!(text.parse::<Cidr>(), Err(CidrError::Syntax), "{text}");
        assert_eq!(Cidr::of_port(text), Err(CidrError::Syntax), "{text}, of a port");
    }
    assert_eq!(Cidr::of_port("10.1.2.3/32"), Ok(cidr("10.1.2.3")));
    for (text, hint) in [
        ("10.1.2.3", "10.1.2.3 has no length: write 10.1.2.3/24, or whatever is on its link"),
        ("fd00::1", "fd00::1 has no length: write fd00::1/64, or whatever is on its link"),
    ] {
        assert_eq!(Cidr::of_port(text).map_err(|error| error.to_string()), Err(hint.to_owned()));
    }
}

#[test]
fn the_longest_prefix_wins_and_users_come_before_links() {
    let mut routes = routes();
    assert_eq!(way(&routes, "192.168.1.99"), told(7, None, "192.168.1.1"));
    assert_eq!(way(&routes, "2001:db8::99"), told(7, None, "2001:db8::1"));
    assert_eq!(way(&routes, "8.8.8.8"), None);
    for route in [
        user("0.0.0.0/0", 8, Some("172.16.0.254"), None),
        user("192.168.0.0/16", 8, Some("172.16.0.253"), None),
        user("192.168.1.0/24", 7, Some("10.0.0.254"), None),
        user("192.168.1.77/32", 7, None, Some("10.0.0.1")),
        user("::/0", 7, Some("2001:db8::fe"), None),
    ] {
        routes.add(route).unwrap_or_else(|error| panic!("{route:?}: {error}"));
    }
    assert_eq!(way(&routes, "8.8.8.8"), told(8, Some("172.16.0.254"), "172.16.0.1"));
    assert_eq!(way(&routes, "192.168.2.1"), told(8, Some("172.16.0.253"), "172.16.0.1"));
    assert_eq!(way(&routes, "192.168.1.99"), told(7, Some("10.0.0.254"), "192.168.1.1"), "a user's, of equal length");
    assert_eq!(way(&routes, "192.168.1.77"), told(7, None, "10.0.0.1"));
    assert_eq!(way(&routes, "172.16.4.4"), told(8, None, "172.16.0.1"), "a default route hides no link");
    assert_eq!(way(&routes, "2a00::1"), told(7, Some("2001:db8::fe"), "2001:db8::1"));
    let found = |to| routes.lookup_listed(ip(to)).map(|route| (route.prefix.to_string(), route.user));
    assert_eq!(found("8.8.8.8"), Some(("0.0.0.0/0".to_owned(), true)));
    assert_eq!(found("172.16.4.4"), Some(("172.16.0.0/16".to_owned(), false)));
    let listed: Vec<String> = routes.iter().map(|route| format!("{} {}", route.prefix, route.user)).collect();
    let expected = [
        "192.168.1.77/32 true",
        "192.168.1.0/24 true",
        "192.168.1.0/24 false",
        "172.16.0.0/16 false",
        "192.168.0.0/16 true",
        "10.0.0.0/8 false",
        "0.0.0.0/0 true",
        "2001:db8::/64 false",
        "::/0 true",
    ];
    assert_eq!(listed, expected);
    let before = routes.clone();
    assert_eq!(routes.remove(cidr("192.168.1.0/24")), Ok(()));
    assert_eq!(routes.remove(cidr("192.168.1.0/24")), Err(RouteError::Missing), "the connected one stays");
    assert_eq!(way(&routes, "192.168.1.99"), told(7, None, "192.168.1.1"));
    assert_eq!(way(&before, "192.168.1.99"), told(7, Some("10.0.0.254"), "192.168.1.1"), "a clone is of its time");
}

#[test]
fn what_contradicts_itself_is_refused() {
    use RouteError as E;
    let too_long = Cidr { address: ip("0.0.0.0"), len: 33 };
    let mut routes = routes();
    routes.add(user("11.0.0.0/8", 7, Some("10.0.0.254"), None)).expect("a route");
    let refused = [
        (user("11.0.0.0/8", 8, Some("172.16.0.9"), None), E::Exists),
        (user("12.0.0.1/8", 7, Some("10.0.0.254"), None), E::HostBits(cidr("12.0.0.1/8"))),
        (user("12.0.0.0/8", 7, Some("2001:db8::2"), None), E::Family(Part::Gateway, ip("2001:db8::2"))),
        (user("12.0.0.0/8", 7, None, Some("2001:db8::1")), E::Family(Part::Source, ip("2001:db8::1"))),
        (user("12.0.0.0/8", 7, None, None), E::NoSource(cidr("12.0.0.0/8"))),
        (user("12.0.0.0/8", 7, Some("172.16.0.9"), None), E::Unreachable(ip("172.16.0.9"))),
        (user("12.0.0.0/8", 9, Some("172.16.0.9"), None), E::Unreachable(ip("172.16.0.9"))),
        (user("12.0.0.0/8", 7, Some("10.0.0.254"), Some("10.0.0.2")), E::NotOurs(ip("10.0.0.2"))),
        (user("12.0.0.0/8", 7, Some("224.0.0.1"), None), E::NotHost(Part::Gateway, ip("224.0.0.1"))),
        (user("12.0.0.0/8", 7, None, Some("127.0.0.1")), E::NotHost(Part::Source, ip("127.0.0.1"))),
        (UserRoute { prefix: too_long, ..user("::/0", 7, None, None) }, E::Length(too_long)),
    ];
    for (route, error) in refused {
        assert_eq!(routes.add(route), Err(error), "{route:?}");
    }
    let parts =
        [E::Exists, E::Unreachable(ip("1.1.1.1")), E::NotOurs(ip("1.1.1.1")), E::NotHost(Part::Source, ip("::"))];
    assert_eq!(parts.map(|error| error.part().name()), ["prefix", "gateway", "source", "source"]);
    assert_eq!(routes.remove(Cidr { address: ip("11.0.0.0"), len: 200 }), Err(E::Missing));
    for address in ["0.0.0.0/8", "255.255.255.255/8", "127.0.0.1/8", "239.1.1.1/8", "ff02::1/64", "::1/128", "::/0"] {
        assert_eq!(routes.set_addresses(9, &[cidr(address)]), Err(E::Address), "{address}");
    }
    assert_eq!(routes.iter().count(), 5);
}

#[test]
fn routes_without_a_source_are_not_used() {
    let mut routes = routes();
    routes.add(user("0.0.0.0/0", 8, Some("172.16.0.254"), None)).expect("a route");
    routes.add(user("9.0.0.0/8", 7, Some("10.0.0.254"), Some("192.168.1.2"))).expect("a route");
    routes.set_addresses(7, &[cidr("10.0.0.5/8")]).expect("an address");
    assert_eq!(way(&routes, "9.9.9.9"), told(8, Some("172.16.0.254"), "172.16.0.1"), "its source is gone");
    assert_eq!(way(&routes, "192.168.1.9"), told(8, Some("172.16.0.254"), "172.16.0.1"));
    assert_eq!(routes.iter().filter(|route| route.user && route.source.is_none()).count(), 1);
    assert_eq!((routes.owner(ip("10.0.0.5")), routes.owner(ip("192.168.1.1"))), (Some(7), None));
    routes.set_addresses(7, &[cidr("192.168.1.2/24")]).expect("an address");
    assert_eq!(way(&routes, "9.9.9.9"), told(7, Some("10.0.0.254"), "192.168.1.2"), "it is back");
    for port in [7, 8] {
        routes.set_addresses(port, &[]).expect("nothing");
    }
    assert_eq!((routes.lookup(ip("9.9.9.9")), routes.addresses(7), routes.iter().count()), (None, &[][..], 2));
}

#[test]
fn there_is_a_limit() {
    let mut routes = Routes::default();
    routes.set_addresses(1, &[cidr("10.0.0.1/8")]).expect("an address");
    let nth = |i: u32| Cidr { address: std::net::Ipv4Addr::from_bits(0x0b00_0000 + (i << 8)).into(), len: 24 };
    let gateway = Some(ip("10.0.0.2"));
    for i in 1..4096 {
        let route = UserRoute { prefix: nth(i), port: 1, gateway, source: None };
        routes.add(route).unwrap_or_else(|error| panic!("number {i}: {error}"));
    }
    let more = UserRoute { prefix: nth(4096), port: 1, gateway, source: None };
    assert_eq!(routes.add(more), Err(RouteError::Full));
    assert_eq!(routes.set_addresses(2, &[cidr("10.0.0.3/8")]), Err(RouteError::Full));
    assert_eq!(routes.set_addresses(1, &[cidr("10.0.0.3/8")]), Ok(()), "another one instead");
    assert_eq!(routes.remove(nth(1)), Ok(()));
    assert_eq!(routes.add(more), Ok(()));
}

/// A prefix of few addresses, so that many contain each other.
fn prefixes() -> impl Strategy<Value = Cidr> {
    let few = (0..16_u8, prop_oneof![0..9_u8, 24..33_u8]).prop_map(|(bits, len)| {
        let address = [bits << 4, 0, 0, bits].into();
        Cidr { address: Cidr { address, len }.network(), len }
    });
    let few_v6 = (0..16_u8, prop_oneof![0..9_u8, 120..129_u8]).prop_map(|(bits, len)| {
        let mut octets = [0; 16];
        (octets[0], octets[15]) = (bits << 4, bits);
        Cidr { address: Cidr { address: octets.into(), len }.network(), len }
    });
    prop_oneof![few, few_v6]
}

proptest! {
    /// As a list that is looked through.
    #[test]
    fn lookups_agree_with_a_list(
        steps in proptest::collection::vec((prefixes(), any::<bool>()), 0..60),
        asked in proptest::collection::vec(prefixes(), 20),
    ) {
        let mut routes = Routes::default();
        let own = [cidr("100.0.0.1/8"), cidr("a000::1/8")];
        routes.set_addresses(1, &own).expect("addresses");
        let mut list: Vec<Cidr> = Vec::new();
        for (prefix, remove) in steps {
            let index = list.iter().position(|other| *other == prefix);
            if remove {
                let expected = index.map_or(Err(RouteError::Missing), |i| { list.remove(i); Ok(()) });
                prop_assert_eq!(routes.remove(prefix), expected);
            } else {
                let source = Some(own[usize::from(prefix.address.is_ipv6())].address);
                let route = UserRoute { prefix, port: 1, gateway: None, source };
                let expected = index.map_or_else(|| { list.push(prefix); Ok(()) }, |_| Err(RouteError::Exists));
                prop_assert_eq!(routes.add(route), expected);
            }
        }
        prop_assert_eq!(routes.iter().filter(|route| route.user).count(), list.len());
        for Cidr { address, .. } in asked {
            let best = list.iter().filter(|prefix| prefix.contains(address)).map(|prefix| prefix.len).max();
            let link = own.iter().filter(|cidr| cidr.contains(address)).map(|cidr| cidr.len).max();
            let found = routes.lookup(address).map(|route| route.source);
            let expected = best.max(link).map(|_| own[usize::from(address.is_ipv6())].address);
            prop_assert_eq!(found, expected, "to {}", address);
        }
    }
}
