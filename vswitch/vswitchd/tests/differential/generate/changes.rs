//! What happens between packets: flows, groups and meters change, time goes on, ports go down and
//! up.

use super::program::{Program, control};
use super::rng::Rng;
use crate::scenario::{Command, PortChange, Step};

/// A meter of packets.
pub(crate) fn meter_line(id: u32, rng: &mut Rng) -> String {
    // A rate whose bucket fills in whole milliseconds (deviation meters-fill-up).
    let (rate, burst) = (rng.pick(&[1, 2, 4, 5]), rng.between(1, 8));
    if rng.chance(70) {
        format!("meter={id},pktps,burst,stats,bands=type=drop,rate={rate},burst_size={burst}")
    } else {
        format!("meter={id},kbps,burst,stats,bands=type=drop,rate={},burst_size={burst}", rate * 8)
    }
}

/// A random change.
pub(crate) fn random(program: &mut Program, rng: &mut Rng) -> Vec<Step> {
    let table = u8::try_from(rng.between(0, usize::from(program.last_table))).expect("small");
    match rng.below(10) {
        0..3 => vec![program.flow(table, rng)],
        3 => vec![control("del-flows", &filter(program, table, rng))],
        4 => {
            let matching = filter(program, table, rng);
            vec![control("mod-flows", &format!("{matching},actions=output:{}", rng.between(1, 6)))]
        }
        5 if !program.groups.is_empty() => {
            let id = rng.pick(&program.groups);
            vec![control("mod-group", &program.group_line(id, rng))]
        }
        6 if !program.meters.is_empty() => {
            let id = rng.pick(&program.meters);
            vec![control("mod-meter", &meter_line(id, rng))]
        }
        7 if program.features.groups => {
            let port = u32::try_from(rng.between(1, 3)).expect("small");
            vec![Step::Port(port, rng.pick(&[PortChange::Down, PortChange::Up]))]
        }
        8 if !program.groups.is_empty() && rng.chance(30) => {
            let at = rng.below(program.groups.len());
            let name = format!("group:{}", program.groups[at]);
            let twice = |line: &String| line.split([',', '(', ')', ' ', '=']).filter(|word| *word == name).count() > 1;
            // Open vSwitch 3.1 dies when a group goes that a flow uses twice.
            if program.lines.iter().any(twice) {
                return Vec::new();
            }
            let id = program.groups.remove(at);
            vec![control("del-groups", &format!("group_id={id}"))]
        }
        // Never such that a deadline falls on the moment of another step: what happens then is not
        // defined.
        _ if program.features.timeouts || program.features.meters => {
            vec![Step::Warp(u64::try_from(rng.between(1, 4) * 1000 + 137).expect("small"))]
        }
        _ => {
            let strict = Command::parse(&format!("--strict del-flows {}", exact(program, table, rng)));
            vec![Step::Control(strict)]
        }
    }
}

fn filter(program: &Program, table: u8, rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => format!("table={table},cookie={:#x}/0xf", rng.below(16)),
        1 => format!("table={table},{}", rng.pick(&["tcp", "udp", "ip", "ipv6", "arp", "dl_vlan=5"])),
        2 if !program.matches.is_empty() => {
            let matching = rng.pick(&program.matches).text();
            format!("table={table},{}", matching.trim_end_matches(',')).trim_end_matches(',').to_owned()
        }
        _ => format!("table={table},in_port={}", rng.between(1, 6)),
    }
}

fn exact(program: &Program, table: u8, rng: &mut Rng) -> String {
    let priorities = program.taken.iter().filter(|(t, _)| *t == table).map(|(_, p)| *p).collect::<Vec<_>>();
    let priority = if priorities.is_empty() { 5 } else { rng.pick(&priorities) };
    format!("table={table},priority={priority}")
}
