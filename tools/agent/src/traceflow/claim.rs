//! Whose a Traceflow is, and its tag.
//!
//! **Design**: an agent claims by a status patch that names the version it has read. So one of two
//! agents with the source's Pod wins. Two Traceflows may get one tag at the same time. Their agents
//! look at all Traceflows once more after the claim: the later claim gives its tag back. A version
//! tells which one is later, and so does a result, which nobody has before its claim.

use super::object::{Phase, Traceflow};
use super::{Shared, status};
use crate::feedback::second;
use k8s_openapi::jiff::Timestamp;
use kube::Error;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Tags: six bits of the DSCP, without 0.
const TAG_MAX: u32 = 63;

/// Claims a Traceflow. None: it is somebody else's, there is no tag, or it is over by now.
pub(super) async fn claim(shared: &Shared, object: &Traceflow) -> Result<Option<Traceflow>, Error> {
    if let Err(reason) = object.request(vswitch_proto::antrea::v1::TraceflowRole::Sender, None) {
        status::fail(&shared.api, object, &reason).await;
        return Ok(None);
    }
    let Some(tag) = free_tag(&all(shared).await?, Some(object)) else { return Ok(None) };
    let status = json!({"phase": "Running", "dataplaneTag": tag, "startTime": second(Timestamp::now())});
    let Some(claimed) = write(shared, object, status).await? else { return Ok(None) };
    if all(shared).await?.iter().any(|other| precedes(other, &claimed)) {
        write(shared, &claimed, json!({"phase": "Pending", "dataplaneTag": null, "startTime": null})).await?;
        return Ok(None);
    }
    Ok(Some(claimed))
}

/// Writes a status if nobody has changed the object; None: somebody has.
async fn write(shared: &Shared, object: &Traceflow, status: Value) -> Result<Option<Traceflow>, Error> {
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": object.version}, "status": status}));
    match shared.api.patch_status(&object.name, &PatchParams::default(), &patch).await {
        Ok(written) => Ok(Some(Traceflow::of(&written))),
        Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn all(shared: &Shared) -> Result<Vec<Traceflow>, Error> {
    let list = shared.api.list(&ListParams::default()).await?;
    Ok(list.items.iter().map(Traceflow::of).collect())
}

/// The lowest tag that no other Traceflow than `object` has.
pub(super) fn free_tag<'a>(all: impl IntoIterator<Item = &'a Traceflow>, object: Option<&Traceflow>) -> Option<u32> {
    let is_it = |other: &Traceflow| object.is_some_and(|object| object.uid == other.uid);
    let others = all.into_iter().filter(|other| other.phase == Phase::Running && !is_it(other));
    let taken: BTreeSet<u32> = others.map(|other| other.tag).collect();
    (1..=TAG_MAX).find(|tag| !taken.contains(tag))
}

/// Whether another Traceflow had the tag of `claimed` before.
fn precedes(other: &Traceflow, claimed: &Traceflow) -> bool {
    let is_rival = other.phase == Phase::Running && other.uid != claimed.uid && other.tag == claimed.tag;
    let version = |of: &Traceflow| of.version.parse::<u64>().unwrap_or(0);
    is_rival && (!other.results.is_empty() || version(other) < version(claimed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(uid: &str, version: u64, tag: u32) -> Traceflow {
        let spec = Ok(super::super::object::Spec::default());
        let (version, results, started) = (version.to_string(), Vec::new(), None);
        Traceflow { name: uid.into(), uid: uid.into(), version, phase: Phase::Running, tag, started, spec, results }
    }

    #[test]
    fn the_lowest_free_tag_is_taken_until_there_is_none() {
        let new = Traceflow { phase: Phase::New, ..running("new", 1, 0) };
        let mut all =
            vec![running("a", 2, 1), running("b", 3, 3), Traceflow { phase: Phase::Done, ..running("c", 4, 2) }];
        assert_eq!(free_tag(&all, Some(&new)), Some(2));
        all.extend((1..=TAG_MAX).map(|tag| running(&format!("t{tag}"), 5, tag)));
        assert_eq!(free_tag(&all, Some(&new)), None);
    }

    #[test]
    fn of_two_claims_of_one_tag_the_later_one_gives_way() {
        let [early, late] = [running("a", 10, 7), running("b", 12, 7)];
        assert!(precedes(&early, &late) && !precedes(&late, &early));
        // The earlier one has a result by now, which made its version the later one.
        let busy = Traceflow { results: vec![json!({})], ..running("a", 20, 7) };
        assert!(precedes(&busy, &late));
        assert!(!precedes(&late, &late), "nobody gives way to itself");
        assert!(!precedes(&running("c", 1, 8), &late), "another tag");
    }
}
