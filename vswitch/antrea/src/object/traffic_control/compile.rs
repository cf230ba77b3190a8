//! What a `TrafficControl` writes: marks of its Pods' packets, and how they come back.

use super::{Action, TrafficControl};
use crate::object::Object;
use crate::problem::Code;
use crate::{Facts, Key, ObjectKind, CompiledObject, Problem};

pub(super) fn compile(control: &TrafficControl, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    if let Some(back) = &control.back {
        let back = facts.in_port(back);
        let line = format!("table=Classifier, priority=200,{back} actions=set_field:0x6/0xf->reg0,goto_table:L3Forwarding");
        compiled.shared(facts, "back from where it was led", &line);
    }
    if control.pods.is_empty() {
        compiled.degraded.push(Code::Empty, "pods", "it applies to no Pod");
    }
    let Some(target) = facts.load_port(&control.target, "reg9") else { return };
    // A packet may be of two Pods with different controls: of equal priorities a redirect counts.
    let (more, mark) = match control.action {
        Action::Mirror => (0, "0x400000/0xc00000"),
        Action::Redirect => (1, "0x800000/0xc00000"),
    };
    let priority = 200 + 2 * u16::from(control.priority) + more;
    let actions = format!("{target},set_field:{mark}->reg4,goto_table:IngressSecurityClassifier");
    for (at, pod) in control.pods.iter().enumerate() {
        let field = format!("pods[{at}]");
        if facts.desired.pod(pod).is_none() {
            compiled.degraded.push(Code::Pending, field, format!("Pod {pod} is not there yet"));
            continue;
        }
        let Some(there) = facts.pod(pod) else { continue };
        let (ingress, egress) = counts(control, name, pod, &field, facts, compiled);
        let Some(number) = facts.ports.number(&there.port) else { continue };
        if ingress {
            let line = format!("table=TrafficControl, priority={priority},reg1={number:#x} actions={actions}");
            compiled.own(facts, "packets to the Pod", &line);
        }
        if egress {
            let line = format!("table=TrafficControl, priority={priority},in_port={number} actions={actions}");
            compiled.own(facts, "packets from the Pod", &line);
        }
    }
}

/// In which directions it counts for a Pod: of several with the same right, the one with the lowest
/// name does.
fn counts(control: &TrafficControl, name: &str, pod: &str, field: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) -> (bool, bool) {
    let (mut ingress, mut egress) = (control.ingress, control.egress);
    let of = Key::new(ObjectKind::Pod, pod);
    let others = facts.desired.referrers(&of);
    for key in others.filter(|key| key.kind == ObjectKind::TrafficControl && *key.name < *name) {
        let Some(Object::TrafficControl(other)) = facts.desired.get(key).map(|entry| &entry.object) else { continue };
        let (loses_ingress, loses_egress) = control.contends(other);
        if ingress && loses_ingress || egress && loses_egress {
            let reason = format!("{key} has the same priority and action for Pod {pod}");
            compiled.degraded.add(Problem::new(Code::Conflict, field, reason).other(key.clone()));
        }
        ingress &= !loses_ingress;
        egress &= !loses_egress;
        if !ingress && !egress {
            break;
        }
    }
    (ingress, egress)
}
