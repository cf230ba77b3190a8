//! The plan as the switch sends it, read: texts become addresses, prefixes and names.
//!
//! What cannot be read is a problem (VALUE), and the rest is applied. The agent has rights that the
//! switch lacks. So it refuses a path below `/proc/sys` that leads elsewhere than to `net`, and
//! rules of nftables that leave their table or read a file.

use super::nft::TABLE;
use super::problem::{Code, Problem};
use std::fmt::Display;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;
use vswitch_proto::v1::MacAddress;

/// A thing of a plan, and the line that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item<T> {
    pub(super) line: String,
    pub(super) what: T,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) interface: String,
    pub(super) mac: [u8; 6],
    pub(super) up: bool,
}

/// A value below `/proc/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sysctl {
    pub(super) path: String,
    pub(super) value: String,
}

/// An address on an interface, or on the interface that has another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: Place,
    pub(super) address: IpAddr,
    pub(super) length: u8,
    pub(super) deprecated: bool,
}

/// Where an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Interface(String),
    Beside(IpAddr),
}

/// A permanent neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) interface: String,
    pub(super) address: IpAddr,
    pub(super) mac: [u8; 6],
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) destination: IpAddr,
    pub(super) length: u8,
    pub(super) table: u32,
    pub(super) via: Option<IpAddr>,
    pub(super) interface: Option<String>,
    pub(super) onlink: bool,
    /// Of the host's own packets.
    pub(super) source: Option<IpAddr>,
}

/// A routing rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) priority: u32,
    pub(super) ipv6: bool,
    pub(super) mark: u32,
    pub(super) mask: u32,
    pub(super) in_interface: String,
    pub(super) table: u32,
}

/// A plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) generation: u64,
    /// What is not in it may go.
    pub(super) complete: bool,
    pub(super) links: Vec<Item<Link>>,
    pub(super) sysctls: Vec<Item<Sysctl>>,
    pub(super) addresses: Vec<Item<Address>>,
    pub(super) neighbours: Vec<Item<Neighbour>>,
    pub(super) routes: Vec<Item<Route>>,
    pub(super) rules: Vec<Item<Rule>>,
    /// What is in nftables' table; None: it cannot be read, and the table stays as it is.
    pub(super) nft: Option<String>,
}

/// The table of routes that a lookup ends with.
pub(super) const MAIN: u32 = 254;

/// Reads a plan; what of it cannot be read is told.
pub(super) fn read(plan: v1::HostPlan) -> (Plan, Vec<Problem>) {
    let mut wrong = Vec::new();
    let mut read = Plan {
        generation: plan.generation,
        complete: plan.complete,
        links: items(plan.links, link, &mut wrong),
        sysctls: items(plan.sysctls, sysctl, &mut wrong),
        addresses: items(plan.addresses, address, &mut wrong),
        neighbours: items(plan.neighbours, neighbour, &mut wrong),
        routes: items(plan.routes, route, &mut wrong),
        rules: items(plan.rules, rule, &mut wrong),
        nft: None,
    };
    match nft(plan.nft) {
        Ok(rules) => read.nft = Some(rules),
        Err(reason) => wrong.push(Problem::new(Code::Value, TABLE, reason)),
    }
    (read, wrong)
}

fn items<M: Display, T>(messages: Vec<M>, read: fn(M) -> Result<T, String>, wrong: &mut Vec<Problem>) -> Vec<Item<T>> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        let line = message.to_string();
        match read(message) {
            Ok(what) => items.push(Item { line, what }),
            Err(reason) => wrong.push(Problem::new(Code::Value, &line, reason)),
        }
    }
    items
}

fn link(message: v1::HostLink) -> Result<Link, String> {
    Ok(Link { interface: name(message.interface)?, mac: mac(message.mac)?, up: message.up })
}

fn sysctl(message: v1::HostSysctl) -> Result<Sysctl, String> {
    let v1::HostSysctl { path, value } = message;
    let is_below_net = path.strip_prefix("net/").is_some_and(|rest| !rest.is_empty());
    if !is_below_net || path.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return Err("it is no path below net/".to_owned());
    }
    Ok(Sysctl { path, value })
}

fn address(message: v1::HostAddress) -> Result<Address, String> {
    let place = if message.interface.is_empty() {
        Place::Beside(ip(&message.beside)?)
    } else {
        Place::Interface(name(message.interface)?)
    };
    let (address, length) = prefix(&message.address)?;
    Ok(Address { place, address, length, deprecated: message.deprecated })
}

fn neighbour(message: v1::HostNeighbour) -> Result<Neighbour, String> {
    Ok(Neighbour { interface: name(message.interface)?, address: ip(&message.address)?, mac: mac(message.mac)? })
}

fn route(message: v1::HostRoute) -> Result<Route, String> {
    let (destination, length) = prefix(&message.destination)?;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let route = Route {
        destination,
        length,
        table: if message.table == 0 { MAIN } else { message.table },
        via: some(message.via).map(|via| ip(&via)).transpose()?,
        interface: some(message.interface).map(name).transpose()?,
        onlink: message.onlink,
        source: some(message.source).map(|source| ip(&source)).transpose()?,
    };
    if route.via.is_none() && route.interface.is_none() {
        return Err("it has neither a next hop nor an interface".to_owned());
    }
    if route.via.is_some_and(|via| via.is_ipv6() != destination.is_ipv6()) {
        return Err("its next hop is of another family".to_owned());
    }
    if route.source.is_some_and(|source| source.is_ipv6() != destination.is_ipv6()) {
        return Err("its source is of another family".to_owned());
    }
    Ok(route)
}

fn rule(message: v1::HostRule) -> Result<Rule, String> {
    let v1::HostRule { priority, ipv6, mark, mask, in_interface, table } = message;
    if !(1..=32765).contains(&priority) || table == 0 {
        return Err("its priority is 1 to 32765, its table not 0".to_owned());
    }
    Ok(Rule { priority, ipv6, mark, mask, in_interface: name(in_interface)?, table })
}

/// Rules that stay within the braces of their table. nft(8) reads files by `include`, and neither a
/// text nor a comment hides a brace.
fn nft(text: String) -> Result<String, String> {
    let (mut depth, mut is_quoted) = (0_u32, false);
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '{' if !is_quoted => depth += 1,
            '}' if !is_quoted && depth > 0 => depth -= 1,
            '{' | '}' | '#' | '\\' => return Err(format!("{letter:?} is not where it may be")),
            _ => {}
        }
    }
    let reads = text.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "include");
    if reads || is_quoted || depth > 0 { Err("it leaves its table".to_owned()) } else { Ok(text) }
}

/// Names of interfaces have at most 15 bytes.
fn name(text: String) -> Result<String, String> {
    let is_name = (1..=15).contains(&text.len()) && !["", ".", ".."].contains(&text.as_str());
    let is_plain = !text.contains(|letter: char| letter == '/' || letter.is_whitespace() || letter.is_control());
    if is_name && is_plain { Ok(text) } else { Err(format!("{text:?} is no name of an interface")) }
}

fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is no address"))
}

fn prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || format!("{text:?} is no address with a length");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address = ip(address)?;
    let length = length.parse().map_err(|_| wrong())?;
    if length > if address.is_ipv6() { 128 } else { 32 } { Err(wrong()) } else { Ok((address, length)) }
}

fn mac(message: Option<MacAddress>) -> Result<[u8; 6], String> {
    let octets = message.unwrap_or_default().octets;
    <[u8; 6]>::try_from(&*octets).map_err(|_| "it has no MAC address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_do_not_leave_their_table() {
        let good = "  chain a {\n    iifname \"gw\" ip daddr { 10.0.0.0/8 } accept\n  }\n";
        for text in ["", good] {
            assert_eq!(nft(text.to_owned()).as_deref(), Ok(text));
        }
        let escapes = [
            "}\nflush ruleset\ntable inet x {",
            "chain a {",
            "# {\n}",
            "\"{\" }",
            "chain a { include \"/etc/x\" }",
            "\"",
        ];
        for text in escapes {
            assert!(nft(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_and_the_rest_counts() {
        let sysctl = |path: &str| v1::HostSysctl { path: path.to_owned(), value: "1".to_owned() };
        let bad = ["kernel/core_pattern", "net/../kernel/panic", "/net/ipv4/ip_forward", "net/", "net//x"];
        let sysctls = bad.into_iter().chain(["net/ipv4/ip_forward"]).map(sysctl).collect();
        let route = |destination: &str, via: &str| v1::HostRoute {
            destination: destination.to_owned(),
            via: via.to_owned(),
            ..v1::HostRoute::default()
        };
        let routes = vec![route("10.0.0.0/33", "10.0.0.1"), route("10.0.0.0/8", "fd00::1"), route("10.0.0.0/8", "")];
        let (plan, wrong) = read(v1::HostPlan { sysctls, routes, ..v1::HostPlan::default() });
        assert_eq!((plan.sysctls.len(), plan.routes.len()), (1, 0));
        assert_eq!(wrong.len(), bad.len() + 3);
        assert!(wrong.iter().all(|problem| problem.code == Code::Value));
    }
}
