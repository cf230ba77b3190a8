//! Address groups and applied-to groups.

use super::listing::Listed;
use super::parts;
use super::words::list;
use crate::client::Client;
use crate::error::Error;
use crate::output::Columns;
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::group_member::Member;

/// Members that a line tells, if the group was not asked for by name.
const MEMBERS_MAX: usize = 4;

/// A group of either kind.
pub(super) enum Group {
    /// Peers of rules.
    Address(v1::AddressGroup),
    /// What policies are applied to.
    AppliedTo(v1::AppliedToGroup),
}

/// Groups by name, or all: address groups first.
pub(super) async fn groups(client: &Client, names: &[String]) -> Result<Vec<Group>, Error> {
    let request = v1::ListGroupsRequest { names: names.to_vec() };
    let answer = client.antrea_policies().await?.list_groups(request).await;
    let (mut groups, mut applied_to) = (Vec::new(), Vec::new());
    for part in parts(client, answer).await? {
        groups.extend(part.address_groups.into_iter().map(Group::Address));
        applied_to.extend(part.applied_to_groups.into_iter().map(Group::AppliedTo));
    }
    groups.append(&mut applied_to);
    Ok(groups)
}

impl Group {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Address(_) => "address-group",
            Self::AppliedTo(_) => "applied-to-group",
        }
    }

    /// Members: Pods and Services by kind and name, addresses as they are.
    fn members(&self) -> Vec<String> {
        match self {
            Self::Address(group) => {
                let member = |member: &v1::GroupMember| match &member.member {
                    Some(Member::Pod(pod)) => Some(format!("pod/{pod}")),
                    Some(Member::Address(address)) => Some(address.clone()),
                    None => None,
                };
                group.members.iter().filter_map(member).collect()
            }
            Self::AppliedTo(group) => {
                let pods = group.pods.iter().map(|pod| format!("pod/{pod}"));
                pods.chain(group.services.iter().map(|service| format!("service/{service}"))).collect()
            }
        }
    }
}

/// `groups`.
impl Listed for Group {
    const COLUMNS: Columns<'static> = &[("KIND", false), ("NAME", false), ("COUNT", true), ("MEMBERS", false)];
    const NOUN: &'static str = "group";
    const VERB: &'static str = "groups";

    fn name(&self) -> &str {
        match self {
            Self::Address(group) => &group.name,
            Self::AppliedTo(group) => &group.name,
        }
    }

    fn rows(&self, is_asked_for: bool) -> Vec<Vec<String>> {
        let members = self.members();
        let row = |members_told: String| {
            vec![self.kind().to_owned(), self.name().to_owned(), members.len().to_string(), members_told]
        };
        if is_asked_for && !members.is_empty() {
            return members.iter().map(|member| row(member.clone())).collect();
        }
        let more = members.len().saturating_sub(MEMBERS_MAX);
        let mut told = list(&members[..members.len() - more]);
        if more > 0 {
            told.push_str(&format!(" and {more} more"));
        }
        vec![row(told)]
    }

    fn json(&self) -> Value {
        json!({ "kind": self.kind(), "name": self.name(), "members": self.members() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::Listing;
    use super::*;
    use crate::output::Report;

    fn groups() -> Vec<Group> {
        let pod = Member::Pod("default/web".to_owned());
        let addresses = (1..=5).map(|i| Member::Address(format!("10.0.0.{i}")));
        let members = std::iter::once(pod).chain(addresses).map(|member| v1::GroupMember { member: Some(member) });
        let address = v1::AddressGroup { name: "clients".to_owned(), members: members.collect() };
        let applied = v1::AppliedToGroup {
            name: "webs".to_owned(),
            pods: vec!["default/web".to_owned()],
            services: vec!["default/db".to_owned()],
        };
        vec![Group::Address(address), Group::AppliedTo(applied), Group::AppliedTo(v1::AppliedToGroup::default())]
    }

    #[test]
    fn long_groups_are_cut_unless_they_are_asked_for() {
        let want = "\
KIND              NAME     COUNT  MEMBERS
address-group     clients      6  pod/default/web,10.0.0.1,10.0.0.2,10.0.0.3 and 2 more
applied-to-group  webs         2  pod/default/web,service/default/db
applied-to-group               0  -
";
        assert_eq!(Listing::new(groups(), &[]).text(), want);
        let asked = Listing::new(groups(), &["clients".to_owned()]);
        let text = asked.text();
        assert_eq!(text.lines().filter(|line| line.contains("clients")).count(), 6, "{text}");
        let json = asked.json();
        assert_eq!(
            json[1],
            json!({ "kind": "applied-to-group", "name": "webs", "members": ["pod/default/web", "service/default/db"] })
        );
    }
}
