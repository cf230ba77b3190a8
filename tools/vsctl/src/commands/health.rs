//! `health`, `health-show`: whether the switch forwards and obeys, and how its parts are.

use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report, table};
use serde_json::{Value, json};
use std::time::Duration;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use vswitch_proto::v1;

/// Time for the switch to say how its parts are.
const PARTS_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn health(client: &Client, part: Option<&str>) -> Answer {
    let request = HealthCheckRequest { service: part.unwrap_or_default().to_owned() };
    let answer = client.answer(client.health().await?.check(request).await)?;
    // A switch of before version 0.3 cannot say, and one whose clients are many lets this call
    // wait. Its health is what was asked for.
    let mut statistics = client.statistics().await?;
    let parts = tokio::time::timeout(PARTS_TIMEOUT, statistics.get_health(v1::GetHealthRequest {})).await;
    let mut parts = match parts {
        Ok(Ok(answer)) => answer.into_inner().parts,
        _ => Vec::new(),
    };
    parts.retain(|one| part.is_none_or(|part| part == one.name));
    Ok(Box::new(Health(answer.status(), parts)))
}

pub(super) async fn show(client: &Client) -> Answer {
    let answer = client.answer(client.statistics().await?.get_health(v1::GetHealthRequest {}).await)?;
    Ok(Box::new(Parts(answer)))
}

/// `health`.
struct Health(ServingStatus, Vec<v1::HealthPart>);

impl Report for Health {
    fn text(&self) -> String {
        format!("{}\n", self.0.as_str_name())
    }

    fn json(&self) -> Value {
        let mut health = json!({ "status": self.0.as_str_name() });
        let warnings = self.warnings();
        if !warnings.is_empty() {
            health["warnings"] = warnings.into();
        }
        health
    }

    /// Parts that are not good, whether the whole suffers or not.
    fn warnings(&self) -> Vec<String> {
        let bad = self.1.iter().filter(|part| part.condition() != v1::HealthCondition::Good);
        bad.map(|part| format!("{} is {}: {}", part.name, word(part.condition()), part.reason)).collect()
    }

    fn verdict(&self) -> Result<(), Error> {
        if self.0 == ServingStatus::Serving { Ok(()) } else { Err(Error::Unhealthy) }
    }
}

/// `health-show`.
struct Parts(v1::GetHealthResponse);

const fn word(condition: v1::HealthCondition) -> &'static str {
    match condition {
        v1::HealthCondition::Good => "good",
        v1::HealthCondition::Degraded => "degraded",
        v1::HealthCondition::Failing => "failing",
        v1::HealthCondition::Unspecified => "unknown",
    }
}

impl Report for Parts {
    fn text(&self) -> String {
        let row =
            |part: &v1::HealthPart| vec![part.name.clone(), word(part.condition()).to_owned(), part.reason.clone()];
        table(&[("PART", false), ("CONDITION", false), ("REASON", false)], self.0.parts.iter().map(row))
    }

    fn json(&self) -> Value {
        let part = |part: &v1::HealthPart| json!({ "name": part.name, "condition": word(part.condition()), "reason": part.reason });
        json!({ "serving": self.0.serving, "parts": self.0.parts.iter().map(part).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, condition: v1::HealthCondition, reason: &str) -> v1::HealthPart {
        v1::HealthPart { name: name.to_owned(), condition: condition.into(), reason: reason.to_owned() }
    }

    #[test]
    fn only_a_serving_switch_is_healthy() {
        let health = |status| Health(status, Vec::new());
        assert!(health(ServingStatus::Serving).verdict().is_ok());
        assert_eq!(health(ServingStatus::Serving).text(), "SERVING\n");
        assert!(health(ServingStatus::Serving).warnings().is_empty());
        for status in [ServingStatus::NotServing, ServingStatus::Unknown, ServingStatus::ServiceUnknown] {
            assert!(matches!(health(status).verdict(), Err(Error::Unhealthy)), "{status:?}");
        }
        assert_eq!(health(ServingStatus::NotServing).json(), json!({ "status": "NOT_SERVING" }));
        let parts = vec![
            part("workers", v1::HealthCondition::Good, ""),
            part("disk", v1::HealthCondition::Degraded, "state: full"),
        ];
        let full = Health(ServingStatus::Serving, parts);
        assert!(full.verdict().is_ok());
        assert_eq!(full.warnings(), ["disk is degraded: state: full"]);
        assert_eq!(full.json(), json!({ "status": "SERVING", "warnings": ["disk is degraded: state: full"] }));
    }

    #[test]
    fn parts_both_ways() {
        let parts = vec![
            part("workers", v1::HealthCondition::Failing, "worker-1 has no heartbeat since 1200 ms"),
            part("log", v1::HealthCondition::Good, ""),
        ];
        let parts = Parts(v1::GetHealthResponse { serving: false, parts, up_ms: 0 });
        let want = "\
PART     CONDITION  REASON
workers  failing    worker-1 has no heartbeat since 1200 ms
log      good       \n";
        assert_eq!(parts.text().replace(" \n", "\n").trim_end(), want.trim_end());
        assert_eq!(parts.json()["parts"][1], json!({ "name": "log", "condition": "good", "reason": "" }));
        assert_eq!(parts.json()["serving"], json!(false));
    }
}
