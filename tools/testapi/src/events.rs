//! Events: one store under two groups. The core group names their fields otherwise than
//! `events.k8s.io/v1`, and Kubernetes converts between both.

use serde_json::Value;

/// Field of the core group, field of `events.k8s.io/v1`.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
];

pub(crate) fn from_core(event: &mut Value) {
    FIELDS.iter().for_each(|(core, new)| rename(event, core, new));
}

pub(crate) fn to_core(event: &mut Value) {
    FIELDS.iter().for_each(|(core, new)| rename(event, new, core));
}

fn rename(event: &mut Value, from: &str, to: &str) {
    if let Some(map) = event.as_object_mut()
        && let Some(value) = map.remove(from)
    {
        map.insert(to.to_owned(), value);
    }
}
