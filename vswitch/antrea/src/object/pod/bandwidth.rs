//! Limits of a Pod: what it receives, and what it sends. Each is a meter.
//!
//! Packets from the Pod meet theirs in the first table, before anything is looked up for them: a
//! Pod that sends too much costs least there. Packets to the Pod meet theirs in `Output`, where all
//! ways to it end, and then the same table again: [`METERED`] says that they did. So a packet is
//! judged once, whether it is mirrored, comes back from an engine or from the Pod itself. What a
//! `TrafficControl` redirects, or an engine reads first, is not yet on its way to the Pod.
//!
//! A Pod without limits has no flows here.

#[cfg(test)]
mod tests;

use super::Pod;
use crate::ids::MeterKey;
use crate::object::egress::Bandwidth;
use crate::problem::{Code, Problems};
use crate::{CompiledObject, Facts, Family, Ids, Problem};
use vswitch_proto::antrea::v1;

/// The least burst: a frame of 64 KiB with its header and a tag, which is one packet here if its
/// receiver splits it. In a smaller bucket it never fits.
const BURST_MIN_KB: u32 = 525;
/// The least burst that is chosen: four such frames, so that TCP sends on while one is judged.
const BURST_CHOSEN_MIN_KB: u32 = 2200;
/// A chosen burst is what the rate brings in this part of a second. TCP's least retransmission
/// timeout (200 ms in Linux) fits: after one, the bucket has what was not sent meanwhile.
const BURST_PART: u32 = 4;

/// reg4[31]: the packet has met the meter of its receiver.
const METERED: &str = "0x80000000/0x80000000->reg4";
/// It has not, and is not redirected (reg4[23]).
const UNMETERED: &str = "reg4=0/0x80800000";
/// reg0: it leaves by the port in reg1.
const OUT: &str = "reg0=0x200000/0x600000";

/// A limit, with its burst.
pub(super) fn read(field: &str, message: Option<&v1::PodBandwidth>, problems: &mut Problems) -> Option<Bandwidth> {
    let v1::PodBandwidth { rate_kbps, burst_kb } = *message?;
    if rate_kbps == 0 {
        problems.push(Code::Range, format!("{field}.rate_kbps"), format!("0: 1 to {}", u32::MAX));
    }
    if burst_kb != 0 && burst_kb < BURST_MIN_KB {
        let reason = format!("{burst_kb}: {BURST_MIN_KB} to {}, or 0 to have one chosen", u32::MAX);
        problems.push(Code::Range, format!("{field}.burst_kb"), reason);
    }
    let chosen = (rate_kbps / BURST_PART).max(BURST_CHOSEN_MIN_KB);
    Some(Bandwidth { rate_kbps, burst_kb: if burst_kb == 0 { chosen } else { burst_kb } })
}

fn key(pod: &str, ingress: bool) -> MeterKey {
    MeterKey { pod: pod.into(), ingress }
}

/// Meters for the limits that there are.
pub(super) fn claim(pod: &Pod, name: &str, ids: &mut Ids) -> Result<(), Problem> {
    for (limit, ingress) in [(pod.ingress, true), (pod.egress, false)] {
        match limit {
            Some(_) => drop(ids.claim_meter(&key(name, ingress))?),
            None => ids.release_meter(&key(name, ingress)),
        }
    }
    Ok(())
}

/// The Pod is gone.
pub(crate) fn release(name: &str, ids: &mut Ids) {
    [true, false].iter().for_each(|ingress| ids.release_meter(&key(name, *ingress)));
}

/// Writes meters, and flows that lead to them.
pub(super) fn compile(pod: &Pod, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let Some(port) = facts.ports.number(&pod.port) else { return };
    let mut meter = |limit: Option<Bandwidth>, ingress: bool| {
        let Bandwidth { rate_kbps, burst_kb } = limit?;
        let id = facts.ids.meter(&key(name, ingress))?;
        compiled.meter(&format!("meter={id},kbps,burst,stats,bands=type=drop,rate={rate_kbps},burst_size={burst_kb}"));
        Some(id)
    };
    let (ingress, egress) = (meter(pod.ingress, true), meter(pod.egress, false));
    if let Some(id) = egress {
        sent(id, port, facts, compiled);
    }
    if let Some(id) = ingress {
        received(id, port, facts, compiled);
    }
}

/// What the port sends, as it comes in.
fn sent(id: u32, port: u32, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let node = facts.node;
    let mut own = |line: String| {
        compiled.own(facts, "from the Pod, no faster than this", &format!("table=PipelineRootClassifier, priority=205,{line}"));
    };
    for family in node.families.iter().copied() {
        let ip = family.ip();
        let zone =
            if node.features.pod_vlans { format!("set_field:{:#x}->reg8,", node.zone(family)) } else { String::new() };
        own(format!("{ip},in_port={port} actions=meter:{id},{zone}goto_table:Classifier"));
    }
    if node.has(Family::V4) {
        own(format!("arp,in_port={port} actions=meter:{id},goto_table:ARPSpoofGuard"));
    }
}

/// What leaves by the port.
fn received(id: u32, port: u32, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let mut own = |line: String| compiled.own(facts, "to the Pod, no faster than this", &line);
    let again = format!("meter:{id},set_field:{METERED},resubmit(,Output)");
    let to = format!("reg1={port:#x},{UNMETERED}");
    if facts.node.l7.is_some() {
        // An engine's connections have ct_mark[7], and it has no part in those of a Pod
        // with itself (ct_mark[6]). What it returns has source 7.
        own(format!("table=Output, priority=220,ct_mark=0/0x80,{OUT},{to} actions={again}"));
        own(format!("table=Output, priority=222,ct_mark=0xc0/0xc0,{OUT},{to} actions={again}"));
        own(format!("table=Output, priority=221,reg0=0x200007/0x60000f,{to} actions={again}"));
    } else {
        own(format!("table=Output, priority=220,{OUT},{to} actions={again}"));
    }
    own(format!("table=MulticastOutput, priority=205,{OUT},reg1={port:#x} actions=meter:{id},output:{port}"));
    // No port gets back what it sent.
    own(format!("table=MulticastOutput, priority=206,in_port={port},{OUT},reg1={port:#x} actions=output:{port}"));
}
