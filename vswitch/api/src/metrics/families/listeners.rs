//! Listeners of the control plane, their certificates, and the audit.

use super::super::family::{Family, counter, gauge};

pub(super) static FAMILIES: &[Family] = &[
    gauge(
        "vswitch_listener_connections",
        "Connections of clients that are open, by listener.",
        &["listener"],
        "ControlService.ListListeners listeners.connections",
        |reading, samples| {
            for listener in &reading.listeners.listeners {
                samples.push(&[&listener.name], listener.connections);
            }
        },
    ),
    counter(
        "vswitch_listener_accepted_total",
        "Connections of clients that were accepted, by listener.",
        &["listener"],
        "ControlService.ListListeners listeners.accepted",
        |reading, samples| {
            for listener in &reading.listeners.listeners {
                samples.push(&[&listener.name], listener.accepted);
            }
        },
    ),
    counter(
        "vswitch_listener_denied_total",
        "Calls that were refused for want of a role, by listener.",
        &["listener"],
        "ControlService.ListListeners listeners.denied",
        |reading, samples| {
            for listener in &reading.listeners.listeners {
                samples.push(&[&listener.name], listener.denied);
            }
        },
    ),
    counter(
        "vswitch_listener_refused_total",
        "Clients that TLS refused, by listener and reason; only reasons that happened.",
        &["listener", "reason"],
        "ControlService.ListListeners listeners.refusals",
        |reading, samples| {
            for listener in &reading.listeners.listeners {
                for refusals in &listener.refusals {
                    samples.push(&[&listener.name, &refusals.reason], refusals.count);
                }
            }
        },
    ),
    gauge(
        "vswitch_listener_certificate_end_timestamp_seconds",
        "End of the validity of a listener's certificate, in seconds since 1970.",
        &["listener"],
        "ControlService.ListListeners listeners.certificate.not_after",
        |reading, samples| {
            for listener in &reading.listeners.listeners {
                if let Some(certificate) = &listener.certificate {
                    // Before 1970 it was over, too.
                    samples.push(&[&listener.name], u64::try_from(certificate.not_after).unwrap_or_default());
                }
            }
        },
    ),
    counter(
        "vswitch_audit_lost_total",
        "Records of the audit file that were lost.",
        &[],
        "ControlService.ListListeners audit_lost",
        |reading, samples| samples.push(&[], reading.listeners.audit_lost),
    ),
];
