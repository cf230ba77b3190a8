//! `[observe]`.

use super::super::{Compat, MetricsAddress};
use super::{expect, good};

#[test]
fn metrics_have_an_address_or_none() {
    assert_eq!(good("[observe]\n").observe.metrics, None);
    for (text, expected) in [
        ("127.0.0.1:9477", MetricsAddress::Tcp(([127, 0, 0, 1], 9477).into())),
        ("[::1]:9477", MetricsAddress::Tcp((std::net::Ipv6Addr::LOCALHOST, 9477).into())),
        ("0.0.0.0:80", MetricsAddress::Tcp(([0, 0, 0, 0], 80).into())),
        ("unix:/run/vswitch/metrics.sock", MetricsAddress::Unix("/run/vswitch/metrics.sock".into())),
    ] {
        let config = good(&format!("[observe]\nmetrics = {text:?}\ncompat = [\"antrea\", \"ovs\", \"ovs\"]\n"));
        assert_eq!(config.observe.metrics.as_ref().map(ToString::to_string).as_deref(), Some(text));
        assert_eq!(config.observe.metrics, Some(expected));
        assert_eq!(config.observe.compat, [Compat::Antrea, Compat::Ovs], "each once");
    }
}

#[test]
fn what_is_no_address_is_refused() {
    let long = format!("unix:/{}", "x".repeat(107));
    for text in ["", "9477", "localhost:9477", "127.0.0.1", "127.0.0.1:0", "unix:", "unix:a", "unix:/", "/a", &long] {
        let shown = if text == long { format!("\"unix:/{}...\"", "x".repeat(58)) } else { format!("{text:?}") };
        let line = format!(
            "f:2:11: metrics: {shown} is no address; write \"unix:/run/vswitch/metrics.sock\", or an IP address and a \
             port: \"127.0.0.1:9477\""
        );
        expect(&format!("[observe]\nmetrics = {text:?}\n"), &[line.as_str()]);
    }
    expect(
        "[observe]\ncompat = [\"ovs\", \"hubble\"]\n",
        &["f:2:10: compat: \"hubble\" is no set of names; use some of: ovs, antrea"],
    );
}

#[test]
fn the_ring_has_a_size() {
    let config = good("[observe]\nring = 0\nring_connections = true\nrule_metrics = true\n").observe;
    assert_eq!((config.ring, config.ring_connections, config.rule_metrics), (0, true, true));
    let config = good("").observe;
    assert_eq!((config.ring, config.ring_connections, config.rule_metrics), (4096, false, false));
    expect(
        "[observe]\nring = 65537\nring_connections = 1\n",
        &[
            "f:2:8: ring: 65537 is out of range; use 0 to 65536",
            "f:3:20: ring_connections: is an integer, must be true or false; write ring_connections = true",
        ],
    );
}
