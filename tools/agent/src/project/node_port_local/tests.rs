//! Which ports are chosen, and how they are written.

use super::*;

fn key(pod: &str, port: u16, protocol: Transport) -> PodPort {
    PodPort { pod: pod.to_owned(), port, protocol }
}

fn given(
    wanted: &[PodPort],
    claims: &NodePorts,
    real: &[u16],
    range: RangeInclusive<u16>,
    ports: &mut NodePorts,
) -> usize {
    let real = real.iter().map(|port| (Transport::Tcp, *port)).collect();
    allocate(wanted.iter(), claims, &real, &range, ports).len()
}

#[test]
fn a_port_stays_while_it_is_wanted_and_free() {
    let wanted: Vec<PodPort> = (0..50).map(|at| key(&format!("a/{at}"), 80, Transport::Tcp)).collect();
    let mut ports = NodePorts::new();
    assert_eq!(given(&wanted, &NodePorts::new(), &[], 61000..=61049, &mut ports), 0);
    assert_eq!(ports.values().collect::<BTreeSet<_>>().len(), 50);
    let before = ports.clone();
    // Fewer are wanted, then all again: those that stayed have theirs.
    given(&wanted[..25], &NodePorts::new(), &[], 61000..=61049, &mut ports);
    assert_eq!(ports.len(), 25);
    given(&wanted, &NodePorts::new(), &[], 61000..=61049, &mut ports);
    assert!(wanted[..25].iter().all(|key| ports[key] == before[key]));
    // A NodePort takes one away, and a full range leaves one without.
    let taken = before[&wanted[0]];
    assert_eq!(given(&wanted, &NodePorts::new(), &[taken], 61000..=61049, &mut ports), 1);
    assert!(!ports.contains_key(&wanted[0]));
    // One port may be of TCP and of UDP.
    let both = [key("a/x", 53, Transport::Tcp), key("a/x", 53, Transport::Udp)];
    let mut ports = NodePorts::new();
    assert_eq!(given(&both, &NodePorts::new(), &[], 61000..=61000, &mut ports), 0);
    // Another range: all move.
    given(&wanted, &before, &[], 40000..=40100, &mut ports);
    assert!(ports.values().all(|port| (40000..=40100).contains(port)));
}

#[test]
fn an_annotation_is_believed_if_nobody_else_has_or_claims_its_port() {
    let [one, two, three] = ["a/1", "a/2", "a/3"].map(|pod| key(pod, 80, Transport::Tcp));
    let wanted = [one.clone(), two.clone(), three];
    let claim = |all: &[(&PodPort, u16)]| all.iter().map(|(key, port)| ((*key).clone(), *port)).collect::<NodePorts>();
    let begun = |claims: &NodePorts, real: &[u16]| {
        let mut ports = NodePorts::new();
        given(&wanted, claims, real, 61000..=62000, &mut ports);
        ports
    };
    let chosen = begun(&NodePorts::new(), &[]);
    assert_eq!(begun(&claim(&[(&one, 61500)]), &[])[&one], 61500);
    // Claimed twice, a NodePort, out of the range, not wanted.
    assert_eq!(begun(&claim(&[(&one, 61500), (&two, 61500)]), &[]), chosen);
    assert_eq!(begun(&claim(&[(&one, 61500)]), &[61500]), chosen);
    assert_eq!(begun(&claim(&[(&one, 80)]), &[]), chosen);
    assert_eq!(begun(&claim(&[(&key("a/4", 80, Transport::Tcp), 61500)]), &[]), chosen);
    // A claim takes nothing from a port that is remembered.
    let mut ports = claim(&[(&one, 61007)]);
    given(&wanted, &claim(&[(&two, 61007)]), &[], 61000..=62000, &mut ports);
    assert_eq!((ports[&one], ports[&two] != 61007), (61007, true));
    // Who had its own port by its hash has it, whoever else claims it.
    assert_eq!(begun(&claim(&[(&one, chosen[&one]), (&two, chosen[&one])]), &[])[&one], chosen[&one]);
}

#[test]
fn an_annotation_is_as_antrea_writes_it() {
    let entry = |node_ip: &str, ip_family: &str| Entry {
        pod_port: 8080,
        node_ip: node_ip.to_owned(),
        node_port: 61002,
        protocol: Transport::Tcp,
        ip_family: ip_family.to_owned(),
    };
    let text = serde_json::to_string(&[entry("10.10.10.10", "IPv4")]).unwrap();
    let want = r#"[{"podPort":8080,"nodeIP":"10.10.10.10","nodePort":61002,"protocol":"tcp","ipFamily":"IPv4"}]"#;
    assert_eq!(text, want);
    let older = r#"[{"podPort":8080,"nodeIP":"10.10.10.10","nodePort":61002,"protocol":"tcp","protocols":["tcp"]}]"#;
    assert_eq!(serde_json::from_str::<Vec<Entry>>(older).unwrap(), [entry("10.10.10.10", "")]);
}
