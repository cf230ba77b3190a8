//! `NetworkPolicyService`.

use super::apply::keys;
use super::{AntreaServices, how, list, statistics};
use crate::services::api::Asked;
use crate::services::list::parts;
use crate::services::status::invalid;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_antrea::{Key, ObjectKind, Table, is_of_rule};
use vswitch_antrea_node::{Shown, Wanted};
use vswitch_dataplane::port::FieldError;
use vswitch_flow::Field;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Rules per message of counters.
const CHUNK: usize = 1024;
/// Milliseconds between two messages of counters: not given.
const PERIOD_MS: u32 = 10_000;
/// Counters that listings of policies look at.
const RULES: Wanted = Wanted { tables: &[], groups: false, meters: false, rules: true };

fn policies(shown: &Shown<'_>, names: &[String], pod: &str) -> Vec<v1::NetworkPolicyState> {
    let applied: Option<BTreeSet<String>> =
        (!pod.is_empty()).then(|| list::policies_of(shown, &Key::new(ObjectKind::Pod, pod)).into_iter().collect());
    let counters = statistics::by_number(shown);
    let mut states = Vec::new();
    for (key, message) in list::of(shown, ObjectKind::NetworkPolicy, names) {
        let Object::NetworkPolicy(policy) = message else { continue };
        if applied.as_ref().is_some_and(|applied| !applied.contains(&policy.name)) {
            continue;
        }
        let Some(read) = shown.desired().network_policy(&key.name) else { continue };
        let rule = |(id, at): (&str, usize)| {
            let rule = policy.rules.get(at).cloned().unwrap_or_default();
            rule_state(shown, key, v1::Rule { id: id.to_owned(), ..rule }, &counters)
        };
        let rules = read.rule_ids().map(rule).collect();
        let policy = v1::NetworkPolicy { rules: Vec::new(), ..policy.clone() };
        states.push(v1::NetworkPolicyState { policy: Some(policy), rules, cookie: shown.cookie(key) });
    }
    states
}

fn rule_state(
    shown: &Shown<'_>,
    policy: &Key,
    rule: v1::Rule,
    counters: &BTreeMap<u32, v1::RuleStatistics>,
) -> v1::RuleState {
    let number = shown.ids().rule_by_name(&policy.name, &rule.id).unwrap_or(0);
    let flows = shown.node_state.store().compiled(policy).map(|compiled| compiled.flows()).unwrap_or_default();
    let mine = || flows.iter().filter(|flow| number != 0 && is_of_rule(&flow.flow, number));
    let action = mine().find(|flow| flow.flow.matching.get(Field::ConjId).1 != 0);
    let members = mine().filter(|flow| flow.purpose.starts_with("clause")).count() as u64;
    let key = vswitch_antrea::RuleKey { policy: policy.name.clone(), rule: rule.id.as_str().into() };
    let reference = v1::RuleRef { policy: policy.name.to_string(), rule: rule.id.clone(), number };
    let statistics = counters.get(&number).cloned().unwrap_or_default();
    v1::RuleState {
        number,
        table: action.and_then(|flow| Table::by_number(flow.id.table)).map_or("", Table::name).to_owned(),
        priority: action.map_or(0, |flow| flow.id.priority.into()),
        l7_vlan: shown.ids().vlan(&key).unwrap_or(0),
        members,
        statistics: Some(v1::RuleStatistics { rule: Some(reference), ..statistics }),
        rule: Some(rule),
    }
}

fn groups(shown: &Shown<'_>, names: &[String]) -> Vec<Object> {
    let of = |kind| list::of(shown, kind, names).into_iter().map(|(_, message)| message.clone());
    of(ObjectKind::AddressGroup).chain(of(ObjectKind::AppliedToGroup)).collect()
}

/// Members that one call adds and removes: what an address group holds.
const MEMBERS_MAX: usize = vswitch_antrea::limits::MEMBERS_MAX;

/// A member, however it is written.
#[derive(PartialEq, Eq, Hash)]
enum Member<'a> {
    Address(IpAddr),
    Named(&'a str),
    Nothing,
}

fn member(member: &v1::GroupMember) -> Member<'_> {
    use v1::group_member::Member as Told;
    match &member.member {
        Some(Told::Address(text)) => text.parse().map_or(Member::Named(text), Member::Address),
        Some(Told::Pod(name)) => Member::Named(name),
        None => Member::Nothing,
    }
}

/// A group as it is to be after an update; None: it is not there.
fn updated(current: Option<&Object>, update: &v1::AddressGroupUpdate) -> Option<Object> {
    let Some(Object::AddressGroup(group)) = current else { return None };
    let gone: HashSet<Member<'_>> = update.remove.iter().map(member).collect();
    let mut there = HashSet::new();
    let kept = group.members.iter().filter(|one| !gone.contains(&member(one))).chain(&update.add);
    let members = kept.filter(|one| there.insert(member(one))).cloned().collect();
    Some(Object::AddressGroup(v1::AddressGroup { name: group.name.clone(), members }))
}

/// What is wrong with updates by themselves.
fn check_updates(updates: &[v1::AddressGroupUpdate]) -> Result<(), Status> {
    let wrong = |problem: String, hint: &str| Err(invalid(&[FieldError::new("updates", problem, hint)]));
    let mut names = HashSet::new();
    for (at, update) in updates.iter().enumerate() {
        if update.add.len() + update.remove.len() > MEMBERS_MAX {
            return wrong(format!("updates[{at}] has more than {MEMBERS_MAX} members"), "use more than one call");
        }
        if !names.insert(&update.name) {
            return wrong(format!("updates[{at}]: {:?} is there twice", update.name), "name each group once");
        }
        let gone: HashSet<Member<'_>> = update.remove.iter().map(member).collect();
        if update.add.iter().any(|one| gone.contains(&member(one))) {
            let problem = format!("updates[{at}]: {:?}: a member is to be there and to be gone", update.name);
            return wrong(problem, "say one of both");
        }
    }
    Ok(())
}

#[tonic::async_trait]
impl v1::network_policy_service_server::NetworkPolicyService for AntreaServices {
    type ListNetworkPoliciesStream = BoxStream<v1::ListNetworkPoliciesResponse>;
    type ListGroupsStream = BoxStream<v1::ListGroupsResponse>;
    type WatchRuleStatisticsStream = BoxStream<v1::WatchRuleStatisticsResponse>;
    type ListFqdnsStream = BoxStream<v1::ListFqdnsResponse>;

    async fn apply_network_policies(
        &self,
        request: Request<v1::ApplyNetworkPoliciesRequest>,
    ) -> Result<Response<v1::ApplyNetworkPoliciesResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let how = how(request.options)?;
        let policies = request.policies.into_iter().map(Object::NetworkPolicy);
        let address_groups = request.address_groups.into_iter().map(Object::AddressGroup);
        let applied_to_groups = request.applied_to_groups.into_iter().map(Object::AppliedToGroup);
        let objects = policies.chain(address_groups).chain(applied_to_groups).collect();
        let result = self.write("ApplyNetworkPolicies", &extensions, objects, Vec::new(), how).await?;
        Ok(Response::new(v1::ApplyNetworkPoliciesResponse { result: Some(result) }))
    }

    async fn delete_network_policies(
        &self,
        request: Request<v1::DeleteNetworkPoliciesRequest>,
    ) -> Result<Response<v1::DeleteNetworkPoliciesResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let mut gone = keys(ObjectKind::NetworkPolicy, &request.policies);
        gone.extend(keys(ObjectKind::AddressGroup, &request.address_groups));
        gone.extend(keys(ObjectKind::AppliedToGroup, &request.applied_to_groups));
        let how = how(request.options)?;
        let result = self.write("DeleteNetworkPolicies", &extensions, Vec::new(), gone, how).await?;
        Ok(Response::new(v1::DeleteNetworkPoliciesResponse { result: Some(result) }))
    }

    async fn update_address_groups(
        &self,
        request: Request<v1::UpdateAddressGroupsRequest>,
    ) -> Result<Response<v1::UpdateAddressGroupsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        check_updates(&request.updates)?;
        let how = how(request.options)?;
        let asked = Asked::new("UpdateAddressGroups", &extensions, &[&request.updates.len().to_string()]);
        let make = move |antrea: &vswitch_antrea_node::Antrea| {
            antrea.write_made(how, |desired| {
                let group = |update: &v1::AddressGroupUpdate| {
                    let key = Key::new(ObjectKind::AddressGroup, &update.name);
                    updated(desired.get(&key).map(|entry| &entry.message), update).ok_or(key)
                };
                request.updates.iter().map(group).collect()
            })
        };
        let result = self.change(asked, make).await?;
        Ok(Response::new(v1::UpdateAddressGroupsResponse { result: Some(result) }))
    }

    async fn list_network_policies(
        &self,
        request: Request<v1::ListNetworkPoliciesRequest>,
    ) -> Result<Response<Self::ListNetworkPoliciesStream>, Status> {
        let v1::ListNetworkPoliciesRequest { names, pod } = request.into_inner();
        let states = self.read(move |antrea| antrea.show(RULES, |shown| policies(shown, &names, &pod))).await?;
        Ok(Response::new(parts(states, 64, |state| state, |policies| v1::ListNetworkPoliciesResponse { policies })))
    }

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> Result<Response<Self::ListGroupsStream>, Status> {
        let names = request.into_inner().names;
        let found = self.read(move |antrea| antrea.show(Wanted::default(), |shown| groups(shown, &names))).await?;
        let message = |groups: Vec<Object>| {
            let mut response = v1::ListGroupsResponse::default();
            for group in groups {
                match group {
                    Object::AddressGroup(group) => response.address_groups.push(group),
                    Object::AppliedToGroup(group) => response.applied_to_groups.push(group),
                    _ => {}
                }
            }
            response
        };
        Ok(Response::new(parts(found, 64, |group| group, message)))
    }

    async fn watch_rule_statistics(
        &self,
        request: Request<v1::WatchRuleStatisticsRequest>,
    ) -> Result<Response<Self::WatchRuleStatisticsStream>, Status> {
        let v1::WatchRuleStatisticsRequest { period_ms, policies } = request.into_inner();
        let period_ms = if period_ms == 0 { PERIOD_MS } else { period_ms };
        if !(100..=3_600_000).contains(&period_ms) {
            let problem = format!("{period_ms} is out of range");
            return Err(invalid(&[FieldError::new("period_ms", problem, "use 100 to 3600000")]));
        }
        let policies: std::sync::Arc<BTreeSet<String>> = std::sync::Arc::new(policies.into_iter().collect());
        let (sender, receiver) = mpsc::channel(4);
        let (services, mut stopping) = (self.clone(), self.control.stopping.clone());
        tokio::spawn(async move {
            let mut before = BTreeMap::new();
            loop {
                let wanted = std::sync::Arc::clone(&policies);
                let read =
                    services.read(move |antrea| antrea.show(RULES, |shown| statistics::rules(shown, &wanted))).await;
                let now = match read {
                    Ok(now) => now,
                    Err(status) => {
                        let _ = sender.send(Err(status)).await;
                        return;
                    }
                };
                for message in messages(&before, &now) {
                    if sender.send(Ok(message)).await.is_err() {
                        return;
                    }
                }
                before = now;
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(period_ms.into())) => {}
                    () = sender.closed() => return,
                    _ = stopping.wait_for(|stopping| *stopping) => return,
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list_fqdns(
        &self,
        request: Request<v1::ListFqdnsRequest>,
    ) -> Result<Response<Self::ListFqdnsStream>, Status> {
        let pattern = match request.into_inner().pattern {
            text if text.is_empty() => None,
            text => Some(vswitch_antrea::Pattern::parse(&text).map_err(|reason| {
                invalid(&[FieldError::new("pattern", reason, "www.example.com, *.example.com, or nothing for all")])
            })?),
        };
        let found = self.read(move |antrea| Ok(antrea.fqdns(pattern.as_ref()))).await?;
        Ok(Response::new(parts(found, 256, |fqdn| fqdn, |fqdns| v1::ListFqdnsResponse { fqdns })))
    }
}

/// What changed, in messages of bounded size; one at least, so that who watches knows when it was.
fn messages(
    before: &BTreeMap<u32, v1::RuleStatistics>,
    now: &BTreeMap<u32, v1::RuleStatistics>,
) -> Vec<v1::WatchRuleStatisticsResponse> {
    let (changed, removed) = statistics::difference(before, now);
    let unix_ms = vswitch_dataplane::time::unix_ms();
    let mut messages: Vec<v1::WatchRuleStatisticsResponse> = changed
        .chunks(CHUNK)
        .map(|rules| v1::WatchRuleStatisticsResponse { unix_ms, rules: rules.to_vec(), removed: Vec::new() })
        .collect();
    if messages.is_empty() {
        messages.push(v1::WatchRuleStatisticsResponse { unix_ms, ..v1::WatchRuleStatisticsResponse::default() });
    }
    for (at, gone) in removed.chunks(CHUNK).enumerate() {
        match messages.get_mut(at) {
            Some(message) => message.removed = gone.to_vec(),
            None => {
                let removed = gone.to_vec();
                messages.push(v1::WatchRuleStatisticsResponse { unix_ms, rules: Vec::new(), removed });
            }
        }
    }
    messages
}
