//! Policies by which captured packets were dropped.
//!
//! **Design.** The switch tells the cookie of the rule that dropped a packet. The policy behind a
//! cookie is asked for once, as long as the capture goes on.
//!
//! **Limits.** 1024 cookies. The rule by which policies of Kubernetes isolate a Pod has a cookie of
//! none: what it drops has no name here. Samples of drops have it.

use crate::client::Client;
use std::collections::HashMap;
use std::time::Duration;
use vswitch_proto::antrea::v1::find_objects_request::Flow;
use vswitch_proto::antrea::v1::{FindObjectsRequest, Kind};
use vswitch_proto::v1;

/// Cookies that are asked for.
const COOKIES_MAX: usize = 1024;

/// Packets wait meanwhile: an answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Names by cookies.
pub(super) struct Policies<'a> {
    /// The switch; none: there is no Node, or it does not answer this.
    client: Option<&'a Client>,
    /// None: the cookie is of no policy.
    known: HashMap<u64, Option<String>>,
}

impl<'a> Policies<'a> {
    /// Of this switch. Nothing is known yet.
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client: Some(client), known: HashMap::new() }
    }

    /// The comments of packets: why and where each was dropped. Empty: it was not.
    pub(super) async fn comments(&mut self, records: &[v1::CaptureRecord]) -> Vec<String> {
        let mut comments = Vec::with_capacity(records.len());
        for record in records {
            comments.push(match &record.drop {
                None => String::new(),
                Some(drop) => {
                    self.learn(drop).await;
                    let policy = drop.cookie.and_then(|cookie| self.known.get(&cookie)?.as_deref());
                    comment(drop, policy)
                }
            });
        }
        comments
    }

    /// Asks for the policy of a cookie, if that has not been done.
    async fn learn(&mut self, drop: &v1::CaptureDrop) {
        let (Some(client), Some(cookie)) = (self.client, drop.cookie) else { return };
        if cookie == 0 || self.known.contains_key(&cookie) || self.known.len() >= COOKIES_MAX {
            return;
        }
        match tokio::time::timeout(PATIENCE, policy(client, cookie)).await {
            Ok(Ok(policy)) => {
                self.known.insert(cookie, policy);
            }
            // The next one would be refused, too.
            Ok(Err(_)) | Err(_) => self.client = None,
        }
    }
}

/// The policy of a cookie.
async fn policy(client: &Client, cookie: u64) -> Result<Option<String>, crate::error::Error> {
    let request = FindObjectsRequest { flow: Some(Flow::Cookie(cookie)) };
    let found = client.answer(client.antrea_sync().await?.find_objects(request).await)?;
    let policies = found.objects.into_iter().filter(|object| object.kind() == Kind::NetworkPolicy);
    Ok(policies.map(|object| object.name).next())
}

/// What is known of a drop: `drop: rule_drop; table 28; cookie 0x1f; policy np:shop/web`.
fn comment(drop: &v1::CaptureDrop, policy: Option<&str>) -> String {
    let mut comment = format!("drop: {}", drop.reason);
    if let Some(table) = drop.table {
        comment += &format!("; table {table}");
    }
    if let Some(cookie) = drop.cookie {
        comment += &format!("; cookie {cookie:#x}");
    }
    if let Some(policy) = policy {
        comment += &format!("; policy {policy}");
    }
    comment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(cookie: Option<u64>) -> v1::CaptureRecord {
        let drop = v1::CaptureDrop { reason: "rule_drop".to_owned(), outbound: false, table: Some(28), cookie };
        v1::CaptureRecord { drop: Some(drop), ..Default::default() }
    }

    #[tokio::test]
    async fn comments_have_what_is_known() {
        let client = Client::by_socket("/nonexistent/vswitch.sock".into());
        let mut policies = Policies::new(&client);
        policies.known.insert(0x1f, Some("np:shop/web".to_owned()));
        let records = [dropped(Some(0x1f)), v1::CaptureRecord::default(), dropped(Some(0x20)), dropped(None)];
        let want = [
            "drop: rule_drop; table 28; cookie 0x1f; policy np:shop/web",
            "",
            "drop: rule_drop; table 28; cookie 0x20",
            "drop: rule_drop; table 28",
        ];
        assert_eq!(policies.comments(&records).await, want);
        assert!(policies.client.is_none(), "a switch that does not answer is asked once");
    }
}
