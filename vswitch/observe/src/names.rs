//! What addresses are called, by the agent's word.

use parking_lot::RwLock;
use prost::Message;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use vswitch_proto::antrea::v1::{Name, NameProblem};

/// Bytes of a name, as in its message.
pub const NAME_LEN_MAX: usize = 4096;
/// Names of a part of the list.
const PART: usize = 256;

/// What there is room for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Names.
    pub names: usize,
    /// Bytes of all of them, as in their messages.
    pub bytes: usize,
}

/// There is no room for a name; those before it are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesError {
    /// Place of the name in the call.
    pub index: usize,
    /// Which limit is reached.
    pub what: &'static str,
    /// The limit.
    pub limit: usize,
}

#[derive(Debug)]
struct Entry {
    /// Without its address.
    name: Arc<Name>,
    round: u64,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<IpAddr, Entry>,
    bytes: usize,
}

impl Kept {
    fn remove(&mut self, address: &IpAddr) {
        if let Some(entry) = self.entries.remove(address) {
            self.bytes -= entry.bytes;
        }
    }
}

/// Names by address. They decide nothing.
#[derive(Debug)]
pub struct Names {
    kept: RwLock<Kept>,
    limits: Limits,
}

/// An address of an agent's text; or what is wrong with it.
fn parse(text: &str) -> Result<IpAddr, String> {
    match text.parse() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("{text:?} is an IPv4 address in IPv6 form; write it as IPv4"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!("{:?} is no address; write 10.10.0.24 or fd00::18", shown(text))),
    }
}

/// The beginning of a text that may be of any length.
fn shown(text: &str) -> &str {
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= 64).last().unwrap_or_default();
    if text.len() <= 64 { text } else { &text[..end] }
}

fn judge(name: &Name) -> Result<IpAddr, String> {
    let address = parse(&name.address)?;
    let length = name.encoded_len();
    if length > NAME_LEN_MAX {
        return Err(format!("it has {length} bytes; at most {NAME_LEN_MAX}: leave labels out"));
    }
    if name.pod.is_empty() && name.service.is_empty() && name.node.is_empty() {
        return Err("it names no Pod, no Service and no Node; give one of them".to_owned());
    }
    Ok(address)
}

impl Names {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { kept: RwLock::default(), limits }
    }

    /// Takes names of a round; with `complete` those of lower rounds go. Those that are wrong are
    /// left out, and told. Says how many there are then.
    ///
    /// # Errors
    /// When there is no room for one. Those before it are taken.
    pub fn apply(&self, names: Vec<Name>, round: u64, complete: bool) -> Result<(Vec<NameProblem>, usize), NamesError> {
        let mut problems = Vec::new();
        let mut kept = self.kept.write();
        if complete {
            // What they take is free for the new ones.
            let old = kept.entries.iter().filter(|(_, own)| own.round < round).map(|(at, _)| *at);
            let old: Vec<IpAddr> = old.collect();
            old.iter().for_each(|address| kept.remove(address));
        }
        for (index, mut name) in names.into_iter().enumerate() {
            let address = match judge(&name) {
                Ok(address) => address,
                Err(reason) => {
                    problems.push(NameProblem { index: u32::try_from(index).unwrap_or(u32::MAX), reason });
                    continue;
                }
            };
            name.address.clear();
            let bytes = name.encoded_len();
            let before = kept.entries.get(&address).map_or(0, |entry| entry.bytes);
            if before == 0 && kept.entries.len() >= self.limits.names {
                return Err(NamesError { index, what: "names", limit: self.limits.names });
            }
            if kept.bytes - before + bytes > self.limits.bytes {
                return Err(NamesError { index, what: "bytes of names", limit: self.limits.bytes });
            }
            kept.bytes = kept.bytes - before + bytes;
            kept.entries.insert(address, Entry { name: Arc::new(name), round, bytes });
        }
        Ok((problems, kept.entries.len()))
    }

    /// Takes names away. Says which texts are no addresses; then nothing goes.
    ///
    /// # Errors
    /// Places of the texts, and what is wrong with them.
    pub fn delete(&self, addresses: &[String]) -> Result<(), Vec<(usize, String)>> {
        let judged: Vec<_> = addresses.iter().map(|text| parse(text)).collect();
        let wrong: Vec<_> =
            judged.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref().err()?.clone()))).collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let mut kept = self.kept.write();
        judged.into_iter().flatten().for_each(|address| kept.remove(&address));
        Ok(())
    }

    /// What an address is called.
    #[must_use]
    pub fn get(&self, address: &IpAddr) -> Option<Arc<Name>> {
        self.kept.read().entries.get(address).map(|entry| Arc::clone(&entry.name))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.read().entries.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next names behind an address, in the order of addresses, and where to go on. None:
    /// there are no more. `pod`: only that one's, "namespace/name"; empty: all.
    #[must_use]
    pub fn list(&self, behind: Option<IpAddr>, pod: &str) -> Option<(Vec<Name>, IpAddr)> {
        let kept = self.kept.read();
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut names, mut last) = (Vec::new(), None);
        for (address, entry) in kept.entries.range((from, Bound::Unbounded)) {
            last = Some(*address);
            let is_meant = pod
                .split_once('/')
                .is_none_or(|(namespace, name)| entry.name.namespace == namespace && entry.name.pod == name);
            if is_meant {
                names.push(Name { address: address.to_string(), ..(*entry.name).clone() });
            }
            if names.len() == PART {
                break;
            }
        }
        Some((names, last?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(address: &str, pod: &str) -> Name {
        Name { address: address.to_owned(), namespace: "shop".to_owned(), pod: pod.to_owned(), ..Name::default() }
    }

    fn names() -> Names {
        Names::new(Limits { names: 3, bytes: 200 })
    }

    fn listed(names: &Names, pod: &str) -> Vec<String> {
        let listed = names.list(None, pod).map(|(names, _)| names).unwrap_or_default();
        listed.into_iter().map(|name| format!("{} {}", name.address, name.pod)).collect()
    }

    #[test]
    fn names_come_change_and_go() {
        let names = names();
        let wrong = vec![name("10.0.0.1", "a"), name("10.0.0", "b"), name("::ffff:1.2.3.4", "c"), name("fd00::1", "")];
        let (problems, kept) = names.apply(wrong, 1, false).expect("room");
        assert_eq!((problems.iter().map(|one| one.index).collect::<Vec<_>>(), kept), (vec![1, 2, 3], 1));
        assert!(problems[0].reason.contains("10.0.0"), "{problems:?}");
        names.apply(vec![name("fd00::1", "six"), name("10.0.0.1", "other")], 1, false).expect("room");
        assert_eq!(listed(&names, ""), ["10.0.0.1 other", "fd00::1 six"]);
        assert_eq!(listed(&names, "shop/six"), ["fd00::1 six"]);
        assert_eq!(names.get(&"10.0.0.1".parse().expect("an address")).expect("a name").address, "");
        names.apply(vec![name("10.0.0.2", "new")], 2, true).expect("room");
        assert_eq!(listed(&names, ""), ["10.0.0.2 new"], "those of round 1 are gone");
        let wrong = names.delete(&["10.0.0.2".to_owned(), "x".to_owned()]).expect_err("no address");
        assert_eq!((wrong[0].0, names.len()), (1, 1));
        names.delete(&["10.0.0.2".to_owned(), "10.0.0.9".to_owned()]).expect("addresses");
        assert!(names.is_empty() && names.list(None, "").is_none());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let names = names();
        let many = (1..=4).map(|last| name(&format!("10.0.0.{last}"), "p")).collect();
        let full = names.apply(many, 1, false).expect_err("3 at most");
        assert_eq!((full.index, full.what, full.limit, names.len()), (3, "names", 3, 3));
        let long = name("10.0.0.1", &"x".repeat(190));
        assert_eq!(names.apply(vec![long], 1, false).expect_err("200 bytes").what, "bytes of names");
        let (problems, _) = names.apply(vec![name("10.0.0.1", &"x".repeat(5000))], 1, false).expect("left out");
        assert!(problems[0].reason.contains("4096"), "{problems:?}");
        // A new round takes the place of the old one.
        let other = (5..=7).map(|last| name(&format!("10.0.0.{last}"), "p")).collect();
        assert_eq!(names.apply(other, 2, true).expect("room").1, 3);
    }

    #[test]
    fn long_lists_come_in_parts() {
        let names = Names::new(Limits { names: 1000, bytes: 1 << 20 });
        let many = (0..600).map(|at: u16| name(&std::net::Ipv4Addr::from(u32::from(at)).to_string(), "p")).collect();
        names.apply(many, 1, false).expect("room");
        let (mut behind, mut parts) = (None, Vec::new());
        while let Some((part, last)) = names.list(behind, "") {
            parts.push(part.len());
            behind = Some(last);
        }
        assert_eq!(parts, [256, 256, 88]);
    }
}
