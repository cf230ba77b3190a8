//! `AddressGroup`: addresses that rules name together. It writes nothing itself: policies that name
//! it do.

use crate::address::parse_address;
use crate::object::policy::{Addresses, End};
use crate::key::{ObjectKind, Need};
use crate::limits::MEMBERS_MAX;
use crate::problem::{Code, Problems};
use crate::{Cidr, Claim, Desired, Facts, Family, Flush, Ids, Key, CompiledObject, Problem, Reference};
use hashbrown::HashSet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use vswitch_flow::SparseMatch;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::group_member::Member;


/// Addresses and Pods that rules name together.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressGroup {
    /// In order, each once.
    addresses: Vec<IpAddr>,
    /// Names of Pods, and where they are in the message.
    pods: Vec<(Arc<str>, usize)>,
    /// Some of its members are not known.
    incomplete: bool,
    made: Made,
}

/// Matches of addresses at one end, by family.
type Matches = [Vec<Arc<SparseMatch>>; 2];

/// Matches of the addresses at each end, once somebody asked: all rules that name the group have
/// them in common.
#[derive(Clone, Debug, Default)]
struct Made([OnceLock<Matches>; 3]);

impl PartialEq for Made {
    /// They follow from the addresses.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl AddressGroup {
    pub(crate) fn name_of(message: &v1::AddressGroup) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::AddressGroup, problems: &mut Problems) -> Option<Self> {
        let members = &message.members;
        if members.len() > MEMBERS_MAX {
            problems.push(Code::Limit, "members", format!("there are {}, at most {MEMBERS_MAX}", members.len()));
        }
        let members = members.get(..MEMBERS_MAX).unwrap_or(members);
        let mut addresses = Vec::with_capacity(members.len());
        let mut pods: Vec<(Arc<str>, usize)> = Vec::new();
        let mut known: HashSet<IpAddr> = HashSet::with_capacity(members.len());
        let mut names: HashSet<&str> = HashSet::new();
        for (at, member) in members.iter().enumerate() {
            match &member.member {
                None => problems.push(Code::Missing, format!("members[{at}]"), "it is neither a Pod nor an address"),
                Some(Member::Pod(name)) if name.is_empty() => {
                    problems.push(Code::Missing, format!("members[{at}].pod"), "it is empty");
                }
                Some(Member::Pod(name)) if !names.insert(name) => {
                    problems.twice(&format!("members[{at}].pod"), name);
                }
                Some(Member::Pod(name)) => pods.push((name.as_str().into(), at)),
                Some(Member::Address(text)) => match parse_address(text) {
                    Err(error) => problems.push(Code::Value, format!("members[{at}].address"), error),
                    Ok(address) if !known.insert(address) => {
                        problems.twice(&format!("members[{at}].address"), address);
                    }
                    Ok(address) => addresses.push(address),
                },
            }
        }
        addresses.sort_unstable();
        Some(Self { addresses, pods, incomplete: !problems.is_empty(), made: Made::default() })
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        let of = |(name, at): &(Arc<str>, usize)| Reference {
            key: Key { kind: ObjectKind::Pod, name: Arc::clone(name) },
            need: Need::May,
            field: format!("members[{at}].pod"),
        };
        self.pods.iter().map(of).collect()
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    pub(crate) fn judge(&self, _name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        for family in Family::BOTH.into_iter().filter(|family| !facts.node.has(*family)) {
            if let Some(address) = self.addresses.iter().find(|address| Family::of(address) == family) {
                problems.push(Code::Family, "members", format!("the Node has no addresses such as {address}"));
            }
        }
    }

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _facts: &Facts<'_>, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, _name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        for (name, at) in &self.pods {
            if facts.desired.pod(name).is_none() {
                compiled.degraded.push(Code::Pending, format!("members[{at}].pod"), format!("Pod {name} is not there yet"));
            }
        }
    }

    /// Whether it has members that are not known: entries that are wrong. Rules that deny mean
    /// everybody then.
    pub(crate) const fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// What matches its addresses, without those of Pods.
    pub(crate) fn matches(&self, end: End) -> &Matches {
        self.made.0[end as usize].get_or_init(|| {
            let mut heads = Addresses::new(end);
            let mut matches = Matches::default();
            for address in &self.addresses {
                matches[Family::of(address) as usize].push(heads.of(&Cidr::host(*address)));
            }
            matches
        })
    }

    /// Addresses of Pods that are there.
    pub(crate) fn addresses_of_pods(&self, facts: &Facts<'_>, to: &mut Vec<IpAddr>) {
        for (name, _) in &self.pods {
            to.extend(facts.pod(name).into_iter().flat_map(|pod| pod.addresses));
        }
    }

    /// Whether an address is of one of its members.
    pub(crate) fn has(&self, facts: &Facts<'_>, address: &IpAddr) -> bool {
        let mut pods = self.pods.iter().filter_map(|(name, _)| facts.pod(name));
        self.addresses.binary_search(address).is_ok() || pods.any(|pod| pod.addresses.contains(address))
    }

    /// How many addresses it has at most, Pods that are not there included.
    pub(crate) fn size(&self) -> u64 {
        self.addresses.len() as u64 + 2 * self.pods.len() as u64
    }
}
