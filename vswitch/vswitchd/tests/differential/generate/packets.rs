//! Random packets: what a flow matches, what the universe has, and what is broken.

use super::fields::Proto;
use super::matches::{Match, random_kind, random_port};
use super::rng::Rng;
use super::universe::Universe;
use crate::frame::{Frame, Kind};

/// A packet and the port it comes from, made for one of these matches mostly.
pub(crate) fn random(matches: &[Match], universe: &Universe, rng: &mut Rng) -> (u32, Vec<u8>) {
    let aim = (!matches.is_empty() && rng.chance(75)).then(|| rng.pick(matches));
    let kind = match aim.as_ref().map(|aim| aim.proto) {
        Some(Proto::Of(Kind::Ip)) => rng.pick(&[Kind::Ip, Kind::Tcp, Kind::Udp, Kind::Icmp]),
        Some(Proto::Of(Kind::Ip6)) => rng.pick(&[Kind::Ip6, Kind::Tcp6, Kind::Udp6, Kind::Icmp6, Kind::Ns]),
        Some(Proto::Of(kind)) => kind,
        _ => random_kind(rng),
    };
    let mut frame = from_universe(kind, universe, rng);
    let mut port = random_port(rng);
    if let Some(aim) = aim {
        aim.fit(&mut frame, rng);
        port = aim.in_port.unwrap_or(port);
    }
    if rng.chance(12) {
        breakage(&mut frame, rng);
    }
    let mut bytes = frame.bytes();
    if rng.chance(6) {
        for _ in 0..rng.between(1, 3) {
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
        }
    }
    (port, bytes)
}

fn from_universe(kind: Kind, universe: &Universe, rng: &mut Rng) -> Frame {
    let mut frame = Frame::new(kind);
    frame.smac = universe.mac(rng);
    frame.dmac = universe.mac(rng);
    for _ in 0..rng.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 2, 3]) {
        let tpid = rng.pick(&[0x8100, 0x8100, 0x88a8]);
        frame.vlans.push((tpid, universe.tci(rng) & 0xefff));
    }
    let v6 = kind.is_v6();
    let mut address = || if v6 { universe.v6(rng) } else { universe.v4(rng) };
    (frame.src, frame.dst) = (address(), address());
    frame.target = universe.v6(rng);
    frame.sport = universe.port(rng);
    frame.dport = universe.port(rng);
    frame.ttl = rng.pick(&[0, 1, 2, 63, 64, 255]);
    frame.tos = rng.pick(&[0, 0, 0x28, 0xb8, 1, 3]);
    frame.flags = rng.pick(&[0x2, 0x12, 0x10, 0x18, 0x11, 0x4, 0xfff, 0]);
    frame.label = rng.pick(&[0, 0x12345, 0xfffff]);
    frame.id = 7;
    frame.sha = universe.mac(rng);
    frame.tha = universe.mac(rng);
    frame.op = rng.pick(&[1, 2, 1, 2, 3]);
    if let Some(sll) = &mut frame.sll {
        *sll = universe.mac(rng);
    }
    if let Some(tll) = &mut frame.tll {
        *tll = universe.mac(rng);
    }
    frame.len = rng.pick(&[0, 1, 18, 18, 18, 47, 100, 600]);
    if v6 && rng.chance(15) {
        frame.ext = (0..rng.between(1, 3)).map(|_| rng.pick(&[0, 43, 51, 60])).collect();
    }
    if rng.chance(5) {
        frame.frag = rng.pick(&[0, 5]);
        frame.more = rng.chance(50);
        if v6 {
            frame.ext = vec![44];
        }
    }
    frame
}

/// Makes something wrong, or odd.
fn breakage(frame: &mut Frame, rng: &mut Rng) {
    let len = frame.bytes().len();
    match rng.below(14) {
        0 => frame.cut = Some(rng.between(14, len)),
        1 => frame.cut = Some(rng.between(14, len.min(60))),
        2 => frame.ihl = Some(rng.pick(&[0, 4, 6, 15])),
        3 => frame.iplen = Some(rng.pick(&[0, 19, 20, 27, 28, 1000])),
        4 => frame.version = Some(rng.pick(&[0, 4, 5, 6])),
        5 => frame.doff = Some(rng.pick(&[0, 4, 6, 15])),
        6 => frame.udplen = Some(rng.pick(&[0, 7, 9, 3000])),
        7 => frame.badsum = true,
        8 => frame.nosum = true,
        9 => frame.badipsum = true,
        10 => frame.pad = rng.between(1, 40),
        11 => frame.options = rng.pick(&[4, 12, 40]),
        12 => frame.ethertype = Some(rng.pick(&[0x8100, 0x88a8, 0x0800, 0x86dd, 0x0806, 0x8847, 40, 0x05ff])),
        _ => frame.proto = Some(rng.pick(&[0, 1, 6, 17, 44, 58, 59, 132, 255])),
    }
}
