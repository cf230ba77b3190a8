//! What Open vSwitch 3.1.0 said about some 2,500 packets, errors and waits (made up by
//! `ovs31_tracker.py`, asked of its userspace datapath with a stopped clock).
//!
//! `ovs31.txt`: `packet | request | outcome` as [`super::talk`] reads and writes them, `wait MS`,
//! and `--` where a table begins empty. `orig ?`: it did not say.

use super::talk::Talk;

/// What it did not say, or cannot be seen in what it said.
fn comparable(outcome: &str, like: &str) -> String {
    let outcome = outcome.split(" inner ").next().unwrap_or_default();
    let unknown = like.contains(" orig ?");
    match outcome.split_once(" orig ") {
        Some((state, rest)) if unknown => {
            let rewritten = rest.split_once(" as ").map_or(String::new(), |(_, rewritten)| format!(" as {rewritten}"));
            format!("{state}{rewritten}")
        }
        _ => outcome.into(),
    }
}

/// What has happened since the table was empty.
#[derive(Default)]
struct Since {
    /// Connections were translated.
    translated: bool,
    /// The table is another one from here on, because we chose otherwise. What finds no tuple is
    /// refused. A connection whose answers are taken gets another port unasked. ICMP identifiers
    /// are translated. Of a translated connection that a SYN opens again nothing stays behind, so
    /// that it keeps its port.
    deviates: bool,
}

impl Since {
    fn look(&mut self, talk: &Talk, request: &str, outcome: &str) {
        let connections = talk.connections();
        let identifiers = connections.iter().any(|c| c.original.is_icmp() && c.original.src.port != c.reply.src.port);
        self.translated |= connections.iter().any(|c| c.reply != c.original.reversed());
        let replaced = self.translated && talk.tracker.counts().replaced > 0;
        let unasked = outcome.starts_with("new") && outcome.contains("snat") && !request.contains("src=");
        self.deviates |= outcome.starts_with("refused") || identifiers || replaced || unasked;
    }
}

#[test]
fn packets_are_tracked_as_by_open_vswitch() {
    let (mut talk, mut compared, mut left_out, mut since) = (Talk::new(256), 0, 0, Since::default());
    for (number, line) in include_str!("ovs31.txt").lines().enumerate() {
        if line == "--" {
            (talk, since) = (Talk::new(256), Since::default());
            continue;
        }
        if let Some(ms) = line.strip_prefix("wait ") {
            talk.now += ms.parse::<u64>().unwrap();
            continue;
        }
        let mut parts = line.split(" | ");
        let (packet, request, expected) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let got = talk.ct(packet, request);
        since.look(&talk, request, &got);
        if since.deviates {
            left_out += 1;
            continue;
        }
        // An original tuple of the same ends is no news, of ICMP it is that of the other type.
        let ends = packet.split(' ').find(|word| word.contains('>')).unwrap();
        let got = got.replace(&format!(" orig {ends}"), "");
        let (got, expected) = (comparable(&got, expected), comparable(expected, expected));
        assert_eq!(got, expected, "line {}: {packet} meets ct({request})\n{}", number + 1, talk.dump().join("\n"));
        compared += 1;
    }
    println!("{compared} packets compared, {left_out} left out");
    assert!(compared > 1500 && left_out < compared / 5, "{compared} compared, {left_out} left out");
}
