//! Egresses and TrafficControls.

use super::listing::Listed;
use super::parts;
use super::words::{cookie, count, count_json, or_dash, or_none, some};
use crate::client::Client;
use crate::error::Error;
use crate::output::Columns;
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;

/// Egresses by name, or all.
pub(super) async fn egresses(client: &Client, names: &[String]) -> Result<Vec<v1::EgressState>, Error> {
    let request = v1::ListEgressesRequest { names: names.to_vec() };
    let answer = client.antrea_egresses().await?.list_egresses(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.egresses).collect())
}

/// TrafficControls by name, or all.
pub(super) async fn controls(client: &Client, names: &[String]) -> Result<Vec<v1::TrafficControlState>, Error> {
    let request = v1::ListTrafficControlsRequest { names: names.to_vec() };
    let answer = client.antrea_traffic_controls().await?.list_traffic_controls(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.traffic_controls).collect())
}

/// Who translates.
const fn translation(translation: v1::EgressTranslation) -> &'static str {
    match translation {
        v1::EgressTranslation::Unspecified => "default",
        v1::EgressTranslation::Switch => "switch",
        v1::EgressTranslation::Host => "host",
    }
}

/// `egress`.
impl Listed for v1::EgressState {
    const COLUMNS: Columns<'static> = &[
        ("NAME", false),
        ("ADDRESS", false),
        ("NODE", false),
        ("PODS", true),
        ("TRANSLATION", false),
        ("MARK", true),
        ("METER", true),
        ("KBIT/S", true),
        ("SENT PACKETS", true),
        ("BYTES", true),
        ("DROPPED", true),
    ];
    const NOUN: &'static str = "Egress";
    const VERB: &'static str = "egress";

    fn name(&self) -> &str {
        self.egress.as_ref().map_or("", |egress| &egress.name)
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let egress = self.egress.clone().unwrap_or_default();
        let (packets, bytes) = count(self.sent.as_ref());
        let translation = translation(egress.translation()).to_owned();
        vec![vec![
            egress.name,
            egress.address,
            or_dash(egress.node),
            egress.pods.len().to_string(),
            translation,
            or_none(self.mark),
            or_none(self.meter),
            or_none(egress.bandwidth.map_or(0, |bandwidth| bandwidth.rate_kbps)),
            packets.to_string(),
            bytes.to_string(),
            count(self.dropped.as_ref()).0.to_string(),
        ]]
    }

    fn json(&self) -> Value {
        let egress = self.egress.clone().unwrap_or_default();
        let bandwidth = |told: v1::EgressBandwidth| json!({ "rate_kbps": told.rate_kbps, "burst_kb": told.burst_kb });
        json!({
            "name": egress.name,
            "address": egress.address,
            "node": some(egress.node.clone()),
            "pods": egress.pods,
            "translation": translation(egress.translation()),
            "bandwidth": egress.bandwidth.map(bandwidth),
            "mark": some(self.mark),
            "meter": some(self.meter),
            "cookie": cookie(self.cookie),
            "sent": count_json(self.sent.as_ref()),
            "dropped": count_json(self.dropped.as_ref()),
        })
    }
}

/// Which packets.
const fn direction(direction: v1::TrafficDirection) -> &'static str {
    match direction {
        v1::TrafficDirection::Unspecified => "unknown",
        v1::TrafficDirection::Ingress => "ingress",
        v1::TrafficDirection::Egress => "egress",
        v1::TrafficDirection::Both => "both",
    }
}

/// What happens to them.
const fn action(action: v1::TrafficControlAction) -> &'static str {
    match action {
        v1::TrafficControlAction::Unspecified => "unknown",
        v1::TrafficControlAction::Mirror => "mirror",
        v1::TrafficControlAction::Redirect => "redirect",
    }
}

/// `traffic-controls`.
impl Listed for v1::TrafficControlState {
    const COLUMNS: Columns<'static> = &[
        ("NAME", false),
        ("DIRECTION", false),
        ("ACTION", false),
        ("TARGET", false),
        ("RETURN", false),
        ("PRIORITY", true),
        ("PODS", true),
        ("MARKED PACKETS", true),
        ("BYTES", true),
    ];
    const NOUN: &'static str = "TrafficControl";
    const VERB: &'static str = "traffic-controls";

    fn name(&self) -> &str {
        self.traffic_control.as_ref().map_or("", |control| &control.name)
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let control = self.traffic_control.clone().unwrap_or_default();
        let (packets, bytes) = count(self.marked.as_ref());
        let (direction, action) = (direction(control.direction()), action(control.action()));
        vec![vec![
            control.name,
            direction.to_owned(),
            action.to_owned(),
            control.target_port,
            or_dash(control.return_port),
            control.priority.to_string(),
            control.pods.len().to_string(),
            packets.to_string(),
            bytes.to_string(),
        ]]
    }

    fn json(&self) -> Value {
        let control = self.traffic_control.clone().unwrap_or_default();
        json!({
            "name": control.name,
            "direction": direction(control.direction()),
            "action": action(control.action()),
            "target_port": control.target_port,
            "return_port": some(control.return_port.clone()),
            "priority": control.priority,
            "pods": control.pods,
            "cookie": cookie(self.cookie),
            "marked": count_json(self.marked.as_ref()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::Listing;
    use super::*;
    use crate::output::Report;
    use vswitch_proto::v1::Count;

    #[test]
    fn egresses_both_ways() {
        let egress = |name: &str, node: &str, bandwidth| v1::Egress {
            name: name.to_owned(),
            address: "192.168.77.112".to_owned(),
            node: node.to_owned(),
            pods: vec!["default/web".to_owned(), "default/db".to_owned()],
            translation: v1::EgressTranslation::Host.into(),
            bandwidth,
        };
        let rate = v1::EgressBandwidth { rate_kbps: 1000, burst_kb: 2000 };
        let here = v1::EgressState {
            egress: Some(egress("egress-web", "worker-0", Some(rate))),
            mark: 1,
            meter: 1,
            cookie: 0x20,
            sent: Some(Count { packets: 5, bytes: 500 }),
            dropped: Some(Count { packets: 2, bytes: 200 }),
        };
        let nowhere = v1::EgressState { egress: Some(egress("later", "", None)), ..Default::default() };
        let listing = Listing::new(vec![here, nowhere], &[]);
        let want = "\
NAME        ADDRESS         NODE      PODS  TRANSLATION  MARK  METER  KBIT/S  SENT PACKETS  BYTES  DROPPED
egress-web  192.168.77.112  worker-0     2  host            1      1    1000             5    500        2
later       192.168.77.112  -            2  host            -      -       -             0      0        0
";
        assert_eq!(listing.text(), want);
        let json = listing.json();
        assert_eq!(json[0]["bandwidth"], json!({ "rate_kbps": 1000, "burst_kb": 2000 }));
        assert_eq!(
            (&json[1]["node"], &json[1]["mark"], &json[1]["bandwidth"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }

    #[test]
    fn traffic_controls_both_ways() {
        let control = v1::TrafficControl {
            name: "redirect-web".to_owned(),
            pods: vec!["default/web".to_owned()],
            direction: v1::TrafficDirection::Both.into(),
            action: v1::TrafficControlAction::Redirect.into(),
            target_port: "tap0".to_owned(),
            return_port: "tap1".to_owned(),
            priority: 3,
        };
        let marked = Some(Count { packets: 7, bytes: 700 });
        let listing =
            Listing::new(vec![v1::TrafficControlState { traffic_control: Some(control), cookie: 48, marked }], &[]);
        let want = "\
NAME          DIRECTION  ACTION    TARGET  RETURN  PRIORITY  PODS  MARKED PACKETS  BYTES
redirect-web  both       redirect  tap0    tap1           3     1               7    700
";
        assert_eq!(listing.text(), want);
        let want = json!([{
            "name": "redirect-web", "direction": "both", "action": "redirect", "target_port": "tap0",
            "return_port": "tap1", "priority": 3, "pods": ["default/web"], "cookie": "0x30",
            "marked": { "packets": 7, "bytes": 700 },
        }]);
        assert_eq!(listing.json(), want);
    }
}
