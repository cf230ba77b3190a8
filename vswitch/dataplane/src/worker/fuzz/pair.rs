//! Two switches that get the same: one with caches, one that looks up every packet in its tables.
//! The second one is the meaning of a program.

use super::words::GROUPS;
use crate::pipeline::state::{FlowInfo, GroupInfo, TableInfo};
use crate::pipeline::{Interest, PacketIn, Subscription};
use crate::time::Millis;
use crate::worker::bed::Bed;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_conntrack::Connection;
use vswitch_flow::spec::FlowFilter;
use vswitch_flow::text::{NoNames, parse_bundle_line};

/// What happens to a switch.
#[derive(Clone, Debug)]
pub(in crate::worker) enum Step {
    /// A port receives packets.
    Packets(usize, Vec<Vec<u8>>),
    /// A flow is added.
    Flow(String),
    /// Flows of a table go.
    Delete(&'static str, u8),
    /// One of the changes of groups.
    Group(usize),
    /// A port's link.
    Link(usize, bool),
    /// Nothing is sent to a port.
    Flag(usize, bool),
    /// Two ports exchange their numbers.
    Renumber(usize, usize),
    /// A flow of the start is added as it was.
    Again(usize),
    /// So many milliseconds pass.
    Time(u64),
    /// A worker has time for its caches.
    Tend,
}

/// A bed with a controller.
struct Watched {
    bed: Bed,
    controller: Subscription,
}

/// What can be seen of a bed.
type Seen = (Vec<FlowInfo>, Vec<GroupInfo>, Vec<TableInfo>, Vec<crate::observe::PortTotals>, Vec<Connection>);

impl Watched {
    fn new(cache: bool) -> Self {
        let bed = Bed::new(4);
        bed.shared.enable(cache);
        // One of the two zones.
        bed.walk.conntrack.tracker().set_established_after_answer(1, true);
        let controller = bed.packet_ins.subscribe(Interest::of(0)).expect("a subscription");
        Self { bed, controller }
    }

    fn apply(&mut self, step: &Step, start: &[String]) {
        let bed = &mut self.bed;
        match step {
            Step::Packets(port, frames) => bed.receive_in(*port, frames, 32),
            Step::Flow(line) => bed.bundle(line),
            Step::Delete(matching, table) => bed.bundle(&format!("flow delete table={table},{matching}")),
            Step::Group(i) => bed.bundle(GROUPS[*i]),
            Step::Link(port, up) => {
                bed.facts[port - 1].link_up.store(*up, Relaxed);
                bed.changes.link_changed();
            }
            Step::Flag(port, on) => {
                bed.facts[port - 1].no_forward = *on;
                bed.publish();
            }
            Step::Renumber(a, b) => {
                let (number, other) = (bed.facts[a - 1].number, bed.facts[b - 1].number);
                (bed.facts[a - 1].number, bed.facts[b - 1].number) = (other, number);
                bed.publish();
            }
            Step::Again(i) => bed.bundle(&start[i % start.len()]),
            Step::Time(ms) => {
                bed.now = Millis(bed.now.0 + ms);
                bed.fdb.age(bed.now.seconds());
                bed.expire();
            }
            Step::Tend => (0..20).for_each(|_| bed.walk.maintain(bed.now)),
        }
    }

    fn packet_ins(&mut self) -> Vec<(u8, Vec<u8>, String)> {
        let describe = |packet_in: PacketIn| {
            let PacketIn { table, cookie, reason, userdata, metadata, packet, .. } = packet_in;
            (table, packet, format!("{cookie} {reason:?} {userdata:?} {metadata:?}"))
        };
        std::iter::from_fn(|| self.controller.receiver.try_recv().ok()).map(describe).collect()
    }

    fn seen(&mut self) -> Seen {
        self.bed.collector.collect();
        let (program, now) = (self.bed.state.program(), self.bed.now);
        let flows = program.flows(&FlowFilter::default(), now);
        let totals = (1..=4).map(|port| self.bed.totals(port)).collect();
        (flows, program.group_infos(None, now), self.bed.state.tables(), totals, self.bed.connections())
    }
}

impl Bed {
    /// A line of a bundle file; one that is refused changes nothing.
    fn bundle(&mut self, line: &str) {
        if let Ok(update) = parse_bundle_line(line, &NoNames) {
            let _ = self.try_write(&[update.value]);
        }
    }
}

/// How packets were decided.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Megaflows that a change of what they used spared.
    pub spared: u64,
    /// Megaflows that were decided anew, and stayed.
    pub survived: u64,
    /// Packets that were translated with caches.
    pub translated: u64,
    /// All packets.
    pub received: u64,
}

/// Runs a program with caches and without: it begins with these flows, and the steps follow.
///
/// # Errors
/// What differs.
pub(in crate::worker) fn compare(start: &[String], steps: &[Step]) -> Result<Tally, String> {
    let (mut cached, mut plain) = (Watched::new(true), Watched::new(false));
    for watched in [&mut cached, &mut plain] {
        GROUPS[..3].iter().for_each(|line| watched.bed.bundle(line));
        start.iter().for_each(|line| watched.bed.bundle(line));
    }
    for (i, step) in steps.iter().enumerate() {
        cached.apply(step, start);
        plain.apply(step, start);
        let mut found = same("sent", &cached.bed.sent(), &plain.bed.sent())
            .and_then(|()| same("packet-ins", &cached.packet_ins(), &plain.packet_ins()));
        if i % 3 == 0 || i + 1 == steps.len() {
            found = found.and_then(|()| same_seen(&cached.seen(), &plain.seen()));
        }
        found.map_err(|found| format!("step {i}, {step:?}, of\n{}\nthen {steps:#?}\n{found}", start.join("\n")))?;
    }
    same("mbufs in use", &(cached.bed.pool.in_use(), plain.bed.pool.in_use()), &(0, 0))?;
    let (spared, survived, _) = cached.bed.asked();
    Ok(Tally { spared, survived, translated: cached.bed.decided().2, received: plain.bed.decided().2 })
}

fn same_seen(cached: &Seen, plain: &Seen) -> Result<(), String> {
    same("flows", &cached.0, &plain.0)?;
    same("groups", &cached.1, &plain.1)?;
    same("tables", &cached.2, &plain.2)?;
    same("ports", &cached.3, &plain.3)?;
    same("connections", &cached.4, &plain.4)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, cached: &T, plain: &T) -> Result<(), String> {
    if cached == plain { Ok(()) } else { Err(format!("{what}: with caches\n{cached:?}\nwithout\n{plain:?}")) }
}
