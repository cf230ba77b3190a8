//! Multicast groups.

use super::listing::Listed;
use super::parts;
use super::words::{count, count_json, list, or_none, problem, some};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Columns, Done, Warned};
use serde_json::{Value, json};
use tonic::Status;
use vswitch_proto::antrea::v1;

/// Groups by address, or all.
pub(super) async fn groups(client: &Client, addresses: &[String]) -> Result<Vec<v1::MulticastGroupState>, Error> {
    let request = v1::ListMulticastGroupsRequest { addresses: addresses.to_vec() };
    let answer = client.antrea_multicast().await?.list_multicast_groups(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.groups).collect())
}

/// What Pods sent and received, by name, or all.
pub(super) async fn pods(client: &Client, pods: &[String]) -> Result<Vec<v1::MulticastPodStatistics>, Error> {
    let request = v1::ListMulticastStatisticsRequest { pods: pods.to_vec() };
    let answer = client.antrea_multicast().await?.list_multicast_statistics(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.pods).collect())
}

/// `set-multicast`.
pub(super) async fn set(client: &Client, interval: Option<u32>, versions: &[u32]) -> Answer {
    let config =
        v1::MulticastConfig { query_interval_seconds: interval.unwrap_or(0), query_versions: versions.to_vec() };
    let request = v1::SetMulticastConfigRequest { config: Some(config) };
    client.answer(client.antrea_multicast().await?.set_multicast_config(request).await)?;
    Ok(Box::new(Done))
}

/// `set-multicast-group`.
pub(super) async fn set_group(client: &Client, address: String, pods: &[String], nodes: &[String]) -> Answer {
    let mut multicast = client.antrea_multicast().await?;
    let result = if pods.is_empty() && nodes.is_empty() {
        let request = v1::DeleteMulticastGroupsRequest { options: None, addresses: vec![address] };
        client.answer(multicast.delete_multicast_groups(request).await)?.result
    } else {
        let group = v1::MulticastGroup { address, pods: pods.to_vec(), nodes: nodes.to_vec() };
        let request = v1::ApplyMulticastGroupsRequest { options: None, groups: vec![group] };
        client.answer(multicast.apply_multicast_groups(request).await)?.result
    };
    written(result.unwrap_or_default())
}

/// What became of a group; refused is an error.
fn written(result: v1::WriteResult) -> Answer {
    let problems = |status: &v1::ObjectStatus| status.problems.iter().map(problem).collect::<Vec<_>>();
    let told: Vec<String> = result.statuses.iter().flat_map(problems).collect();
    if !result.applied && !told.is_empty() {
        return Err(Error::Refused(Box::new(Status::invalid_argument(told.join("\n")))));
    }
    let warnings = result.statuses.into_iter().flat_map(|status| status.warnings);
    Ok(Box::new(Warned(told.into_iter().chain(warnings).collect())))
}

/// A member, as a word: `default/web:v3`.
fn member(member: &v1::MulticastMember) -> String {
    format!("{}:v{}", member.pod, member.version)
}

/// `multicast`.
impl Listed for v1::MulticastGroupState {
    const COLUMNS: Columns<'static> = &[
        ("GROUP", false),
        ("PODS", false),
        ("NODES", false),
        ("GROUP ID", true),
        ("LED PACKETS", true),
        ("BYTES", true),
    ];
    const NOUN: &'static str = "multicast group";
    const VERB: &'static str = "multicast";

    fn name(&self) -> &str {
        self.group.as_ref().map_or("", |group| &group.address)
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let group = self.group.clone().unwrap_or_default();
        let (packets, bytes) = count(self.forwarded.as_ref());
        let heard: Vec<String> = self.members.iter().map(member).collect();
        let pods = if heard.is_empty() { list(&group.pods) } else { list(&heard) };
        let numbers = [or_none(self.group_id), packets.to_string(), bytes.to_string()];
        vec![[group.address, pods, list(&group.nodes)].into_iter().chain(numbers).collect()]
    }

    fn json(&self) -> Value {
        let group = self.group.clone().unwrap_or_default();
        let member = |told: &v1::MulticastMember| json!({ "pod": told.pod, "version": told.version, "expires_in_ms": told.expires_in_ms });
        json!({
            "address": group.address,
            "pods": group.pods,
            "nodes": group.nodes,
            "members": self.members.iter().map(member).collect::<Vec<_>>(),
            "group_id": some(self.group_id),
            "forwarded": count_json(self.forwarded.as_ref()),
        })
    }
}

/// `multicast --pods`.
impl Listed for v1::MulticastPodStatistics {
    const COLUMNS: Columns<'static> =
        &[("POD", false), ("SENT PACKETS", true), ("BYTES", true), ("RECEIVED PACKETS", true), ("BYTES", true)];
    const NOUN: &'static str = "Pod";
    const VERB: &'static str = "pods";

    fn name(&self) -> &str {
        &self.pod
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let (sent, received) = (count(self.sent.as_ref()), count(self.received.as_ref()));
        let numbers = [sent.0, sent.1, received.0, received.1].map(|number| number.to_string());
        vec![[self.pod.clone()].into_iter().chain(numbers).collect()]
    }

    fn json(&self) -> Value {
        json!({ "pod": self.pod, "sent": count_json(self.sent.as_ref()), "received": count_json(self.received.as_ref()) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::Listing;
    use super::*;
    use crate::output::Report;
    use vswitch_proto::v1::Count;

    #[test]
    fn groups_both_ways() {
        let member = |pod: &str, version| v1::MulticastMember { pod: pod.to_owned(), version, expires_in_ms: 1500 };
        let joined = v1::MulticastGroupState {
            group: Some(v1::MulticastGroup {
                address: "239.1.1.1".to_owned(),
                pods: vec!["default/web".to_owned()],
                nodes: vec!["worker-1".to_owned()],
            }),
            members: vec![member("default/web", 3)],
            group_id: 7,
            forwarded: Some(Count { packets: 5, bytes: 500 }),
        };
        let said = v1::MulticastGroup { address: "239.1.1.2".to_owned(), ..Default::default() };
        let said = v1::MulticastGroupState { group: Some(said), ..Default::default() };
        let listing = Listing::new(vec![joined, said], &[]);
        let want = "\
GROUP      PODS            NODES     GROUP ID  LED PACKETS  BYTES
239.1.1.1  default/web:v3  worker-1         7            5    500
239.1.1.2  -               -                -            0      0
";
        assert_eq!(listing.text(), want);
        let json = listing.json();
        assert_eq!(json[0]["members"], json!([{ "pod": "default/web", "version": 3, "expires_in_ms": 1500 }]));
        assert_eq!((&json[1]["group_id"], &json[1]["members"]), (&Value::Null, &json!([])));
    }

    #[test]
    fn a_group_that_is_refused_is_an_error_and_one_that_does_nothing_yet_is_odd() {
        let problem =
            v1::Problem { field: "pods[0]".to_owned(), reason: "there is no Pod a/b".to_owned(), ..Default::default() };
        let status = v1::ObjectStatus { problems: vec![problem], ..Default::default() };
        let result = |applied| v1::WriteResult { applied, statuses: vec![status.clone()], ..Default::default() };
        let refused = written(result(false)).err().expect("an error").to_string();
        assert!(refused.contains("there is no Pod a/b"), "{refused}");
        let odd = written(result(true)).expect("an answer").warnings();
        assert_eq!(odd, [refused]);
    }

    #[test]
    fn what_pods_did_both_ways() {
        let (sent, received) = (Count { packets: 1, bytes: 46 }, Count { packets: 2, bytes: 92 });
        let pod =
            v1::MulticastPodStatistics { pod: "default/web".to_owned(), sent: Some(sent), received: Some(received) };
        let listing = Listing::new(vec![pod], &[]);
        assert_eq!(listing.text().lines().nth(1), Some("default/web             1     46                 2     92"));
        assert_eq!(listing.json()[0]["received"], json!({ "packets": 2, "bytes": 92 }));
    }
}
