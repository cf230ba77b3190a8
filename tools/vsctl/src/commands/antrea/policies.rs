//! Policies.

use super::listing::{Listed, Listing};
use super::rules;
use super::words::{cookie, list, some};
use crate::client::Client;
use crate::output::{Answer, Columns};
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;

/// `policies`.
pub(super) async fn show(client: &Client, names: &[String], pod: Option<&str>) -> Answer {
    let found = super::find_policies(client, names, pod).await?;
    // With a Pod, a policy that is not told may still be there: it is not applied to this one.
    let names = if pod.is_some() { &[] } else { names };
    Ok(Box::new(Listing::new(found, names)))
}

const fn kind(kind: v1::PolicyKind) -> &'static str {
    match kind {
        v1::PolicyKind::Unspecified => "unknown",
        v1::PolicyKind::K8s => "k8s",
        v1::PolicyKind::Antrea => "antrea",
        v1::PolicyKind::AntreaCluster => "antrea-cluster",
    }
}

/// Directions that a Kubernetes policy isolates its Pods in.
fn isolates(policy: &v1::NetworkPolicy) -> Vec<&'static str> {
    let directions = [("ingress", policy.isolates_ingress), ("egress", policy.isolates_egress)];
    directions.into_iter().filter(|(_, isolates)| *isolates).map(|(word, _)| word).collect()
}

impl Listed for v1::NetworkPolicyState {
    const COLUMNS: Columns<'static> = &[
        ("NAME", false),
        ("KIND", false),
        ("TIER", true),
        ("PRIORITY", true),
        ("RULES", true),
        ("ISOLATES", false),
        ("APPLIED TO", false),
        ("NEW", true),
        ("PACKETS", true),
        ("BYTES", true),
    ];
    const NOUN: &'static str = "policy";
    const VERB: &'static str = "policies";

    fn name(&self) -> &str {
        self.policy.as_ref().map_or("", |policy| &policy.name)
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let policy = self.policy.clone().unwrap_or_default();
        let is_k8s = policy.kind() == v1::PolicyKind::K8s;
        let own = |text: String| if is_k8s { "-".to_owned() } else { text };
        let statistics = || self.rules.iter().filter_map(|rule| rule.statistics.as_ref());
        let mut groups = policy.applied_to.clone();
        let of_rules = self.rules.iter().filter_map(|state| state.rule.as_ref()).flat_map(|rule| &rule.applied_to);
        for group in of_rules {
            if !groups.contains(group) {
                groups.push(group.clone());
            }
        }
        vec![vec![
            self.name().to_owned(),
            kind(policy.kind()).to_owned(),
            own(policy.tier.to_string()),
            own(policy.priority.to_string()),
            self.rules.len().to_string(),
            list(&isolates(&policy)),
            list(&groups),
            statistics().map(|rule| rule.new_packets).sum::<u64>().to_string(),
            statistics().map(|rule| rule.packets).sum::<u64>().to_string(),
            statistics().map(|rule| rule.bytes).sum::<u64>().to_string(),
        ]]
    }

    fn json(&self) -> Value {
        let policy = self.policy.clone().unwrap_or_default();
        let is_k8s = policy.kind() == v1::PolicyKind::K8s;
        json!({
            "name": policy.name,
            "uid": some(policy.uid.clone()),
            "kind": kind(policy.kind()),
            "tier": (!is_k8s).then_some(policy.tier),
            "priority": (!is_k8s).then_some(policy.priority),
            "applied_to": policy.applied_to,
            "isolates": isolates(&policy),
            "log_isolation": policy.log_isolation,
            "cookie": cookie(self.cookie),
            "rules": self.rules.iter().map(rules::json).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::tests::policies;
    use super::*;
    use crate::output::Report;

    #[test]
    fn policies_both_ways() {
        let listing = Listing::new(policies(), &[]);
        let want = "\
NAME              KIND    TIER  PRIORITY  RULES  ISOLATES  APPLIED TO  NEW  PACKETS  BYTES
anp:default/deny  antrea    50       5.5      2  -         webs,dbs      3       30   3000
np:default/web    k8s        -         -      0  ingress   webs          0        0      0
";
        assert_eq!(listing.text(), want);
        let json = listing.json();
        assert_eq!((&json[0]["tier"], &json[0]["priority"], &json[0]["uid"]), (&json!(50), &json!(5.5), &json!("u-1")));
        assert_eq!((&json[1]["tier"], &json[1]["isolates"]), (&Value::Null, &json!(["ingress"])));
        assert_eq!((&json[0]["rules"][0]["id"], &json[0]["rules"][1]["number"]), (&json!("AllowToDB"), &json!(8)));
    }
}
