//! Tunnels: routes, neighbours, Geneve's options.

use super::port::usage;
use crate::cli::Tunnel;
use crate::client::Client;
use crate::error::Error;
use crate::output::{self, Answer, Done, Report};
use clap::error::ErrorKind;
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_overlay::options::{self, Mapping};
use vswitch_proto::v1;

pub(super) async fn ask(client: &Client, command: &Tunnel) -> Answer {
    let mut service = client.tunnels().await?;
    Ok(match command {
        Tunnel::RouteShow => {
            Box::new(Routes(client.answer(service.list_routes(v1::ListRoutesRequest {}).await)?.routes))
        }
        Tunnel::RouteAdd { prefix, port, words } => {
            let route = Some(route(prefix, port, words)?);
            client.answer(service.add_route(v1::AddRouteRequest { route }).await)?;
            Box::new(Done)
        }
        Tunnel::RouteDel { prefix } => {
            client.answer(service.delete_route(v1::DeleteRouteRequest { prefix: prefix.clone() }).await)?;
            Box::new(Done)
        }
        Tunnel::RouteLookup { address } => {
            let request = v1::LookupRouteRequest { address: address.clone() };
            Box::new(Found(client.answer(service.lookup_route(request).await)?.route.unwrap_or_default()))
        }
        Tunnel::TnlNeighShow { statistics } => {
            let answer = client.answer(service.list_neighbours(v1::ListNeighboursRequest {}).await)?;
            let statistics = statistics.then(|| answer.statistics.unwrap_or_default());
            Box::new(Neighbours { neighbours: answer.neighbours, statistics })
        }
        Tunnel::TnlNeighSet { bridge, address, mac } => {
            let mac = Some(v1::MacAddress { octets: mac.to_vec() });
            let request = v1::SetNeighbourRequest { bridge: bridge.clone(), address: address.clone(), mac };
            client.answer(service.set_neighbour(request).await)?;
            Box::new(Done)
        }
        Tunnel::TnlNeighFlush { bridge } => {
            let request = v1::FlushNeighboursRequest { bridge: bridge.clone() };
            Box::new(Flushed(client.answer(service.flush_neighbours(request).await)?.flushed))
        }
        Tunnel::TnlPortsShow => {
            let answer = client.answer(service.list_tunnel_listeners(v1::ListTunnelListenersRequest {}).await)?;
            Box::new(Listeners(answer.listeners))
        }
        Tunnel::AddTlvMap { bridge, mappings } => {
            let request = v1::AddOptionsRequest { bridge: bridge.clone(), mappings: self::mappings(mappings)? };
            client.answer(service.add_options(request).await)?;
            Box::new(Done)
        }
        Tunnel::DelTlvMap { bridge, mappings } => {
            let mappings = mappings.as_deref().map(self::mappings).transpose()?.unwrap_or_default();
            client
                .answer(service.delete_options(v1::DeleteOptionsRequest { bridge: bridge.clone(), mappings }).await)?;
            Box::new(Done)
        }
        Tunnel::DumpTlvMap { bridge } => {
            let request = v1::ListOptionsRequest { bridge: bridge.clone() };
            Box::new(Options(client.answer(service.list_options(request).await)?.mappings))
        }
    })
}

/// A route as the words of the command line have it.
fn route(prefix: &str, port: &str, more: &[String]) -> Result<v1::Route, Error> {
    let mut route = v1::Route { prefix: prefix.to_owned(), port: port.to_owned(), ..Default::default() };
    for word in more {
        let (field, value) = match word.strip_prefix("src=") {
            Some(source) => (&mut route.source, source),
            None => (&mut route.gateway, word.as_str()),
        };
        if field.replace(value.to_owned()).is_some() {
            return Err(usage(ErrorKind::ArgumentConflict, format!("{word}: one gateway, and one src=, at most")));
        }
    }
    Ok(route)
}

/// `{class=0xffff,type=0,len=4}->tun_metadata0[,...]`.
fn mappings(text: &str) -> Result<Vec<v1::OptionMapping>, Error> {
    let message = |mapping: Mapping| {
        let Mapping { class, kind, len, field } = mapping;
        v1::OptionMapping {
            option_class: class.into(),
            option_type: kind.into(),
            length: len.into(),
            field: field.into(),
        }
    };
    let read = options::parse(text).map_err(|error| usage(ErrorKind::ValueValidation, error))?;
    Ok(read.into_iter().map(message).collect())
}

/// `route-show`: the lines of `ovs-appctl ovs/route/show`.
struct Routes(Vec<v1::Route>);

/// Whether somebody added a route, or it came with an address.
const fn kind_of(user: bool) -> &'static str {
    if user { "User" } else { "Cached" }
}

fn route_line(route: &v1::Route) -> String {
    let mut line = format!("{} dev {}", route.prefix, route.port);
    for (word, value) in [("GW", &route.gateway), ("SRC", &route.source)] {
        if let Some(value) = value {
            let _ = write!(line, " {word} {value}");
        }
    }
    line
}

fn route_json(route: &v1::Route) -> Value {
    json!({
        "prefix": route.prefix,
        "port": route.port,
        "gateway": route.gateway,
        "source": route.source,
        "user": route.user,
    })
}

impl Report for Routes {
    fn text(&self) -> String {
        let mut text = "Route Table:\n".to_owned();
        for route in &self.0 {
            let _ = writeln!(text, "{}: {}", kind_of(route.user), route_line(route));
        }
        text
    }

    fn json(&self) -> Value {
        self.0.iter().map(route_json).collect()
    }
}

/// `route-lookup`: the lines of `ovs-appctl ovs/route/lookup`, and which route it is.
struct Found(v1::Route);

impl Report for Found {
    fn text(&self) -> String {
        let v1::Route { prefix, port, gateway, source, user } = &self.0;
        let source = source.as_deref().unwrap_or_default();
        // Open vSwitch prints this for IPv4, too.
        let gateway = gateway.as_deref().unwrap_or("::");
        format!("src {source}\ngateway {gateway}\ndev {port}\nprefix {prefix}\nroute {}\n", kind_of(*user))
    }

    fn json(&self) -> Value {
        route_json(&self.0)
    }
}

/// `tnl-neigh-show`: the columns of `ovs-appctl tnl/neigh/show`, and numbers if they are asked for.
struct Neighbours {
    neighbours: Vec<v1::Neighbour>,
    statistics: Option<v1::NeighbourStatistics>,
}

impl Report for Neighbours {
    fn text(&self) -> String {
        let mut text = format!("{:<46}{:<20}Bridge\n{}\n", "IP", "MAC", "=".repeat(74));
        // Those that have not answered yet are for programs (--json).
        for neighbour in self.neighbours.iter().filter(|neighbour| neighbour.mac.is_some()) {
            let mac = output::mac(neighbour.mac.as_ref());
            let _ = writeln!(text, "{:<46}{mac:<20}{}", neighbour.address, neighbour.bridge);
        }
        if let Some(numbers) = &self.statistics {
            let v1::NeighbourStatistics { pending, changed, held_off, refused, expired, evicted } = numbers;
            let _ = writeln!(
                text,
                "pending:{pending} changed:{changed} held_off:{held_off} refused:{refused} expired:{expired} evicted:{evicted}"
            );
        }
        text
    }

    fn json(&self) -> Value {
        let one = |neighbour: &v1::Neighbour| {
            json!({
                "bridge": neighbour.bridge,
                "address": neighbour.address,
                "mac": neighbour.mac.as_ref().map(|mac| output::mac(Some(mac))),
                "age": neighbour.age_seconds,
            })
        };
        let neighbours: Value = self.neighbours.iter().map(one).collect();
        let Some(numbers) = &self.statistics else { return neighbours };
        json!({
            "neighbours": neighbours,
            "statistics": {
                "pending": numbers.pending,
                "changed": numbers.changed,
                "held_off": numbers.held_off,
                "refused": numbers.refused,
                "expired": numbers.expired,
                "evicted": numbers.evicted,
            },
        })
    }
}

/// `tnl-neigh-flush`.
struct Flushed(u64);

impl Report for Flushed {
    fn text(&self) -> String {
        format!("flushed {} neighbours\n", self.0)
    }

    fn json(&self) -> Value {
        json!({ "flushed": self.0 })
    }
}

/// `tnl-ports-show`.
struct Listeners(Vec<v1::TunnelListener>);

impl Report for Listeners {
    fn text(&self) -> String {
        let lines = self.0.iter().map(|listener| format!("{} ({})\n", listener.name, listener.port));
        format!("Listening ports:\n{}", lines.collect::<String>())
    }

    fn json(&self) -> Value {
        self.0.iter().map(|listener| json!({ "name": listener.name, "port": listener.port })).collect()
    }
}

/// `dump-tlv-map`: the columns of `ovs-ofctl dump-tlv-map`.
struct Options(Vec<v1::OptionMapping>);

impl Report for Options {
    fn text(&self) -> String {
        let mut text = " class  type  length  match field\n ------  ----  ------  --------------\n".to_owned();
        for v1::OptionMapping { option_class, option_type, length, field } in &self.0 {
            // As C's %#x has it: 0 without a prefix.
            let hex = |number: &u32| if *number == 0 { "0".to_owned() } else { format!("{number:#x}") };
            let (class, kind) = (hex(option_class), hex(option_type));
            let _ = writeln!(text, " {class:>6}  {kind:>4}  {length:>6}  tun_metadata{field}");
        }
        text
    }

    fn json(&self) -> Value {
        let one = |mapping: &v1::OptionMapping| {
            json!({
                "class": mapping.option_class,
                "type": mapping.option_type,
                "length": mapping.length,
                "field": mapping.field,
            })
        };
        self.0.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_one_or_many() {
        let text = "{class=0xffff,type=0,len=4}->tun_metadata0,{class=258, type=0x80, len=16}->tun_metadata7";
        let mapping =
            |option_class, option_type, length, field| v1::OptionMapping { option_class, option_type, length, field };
        assert_eq!(mappings(text).expect("good"), [mapping(0xffff, 0, 4, 0), mapping(258, 128, 16, 7)]);
        let octal = "{class=0377,type=010,len=4}->tun_metadata1";
        assert_eq!(mappings(octal).expect("as strtoul has it"), [mapping(255, 8, 4, 1)]);
        for (bad, part) in [
            ("", "is no mapping"),
            ("class=1", "is no mapping"),
            ("{class=1,type=2}->tun_metadata0", "is no mapping"),
            ("{class=1,type=2,len=4}->reg0", "is no mapping"),
            ("{class=08,type=2,len=4}->tun_metadata0", "is no mapping"),
            ("{class=1,type=2,len=4}->tun_metadata8", "there is no field tun_metadata8"),
            ("{}{}", "is no mapping"),
        ] {
            let said = mappings(bad).expect_err(bad).to_string();
            assert!(said.contains(part), "{bad}: {said}");
        }
    }

    #[test]
    fn neighbours_are_told_with_numbers_only_if_asked_for() {
        let (bridge, address) = ("br0".to_owned(), "10.0.0.2".to_owned());
        let mac = Some(v1::MacAddress { octets: vec![2, 0, 0, 0, 0, 9] });
        let neighbours = vec![v1::Neighbour { bridge, address, mac, age_seconds: 5 }];
        let line = format!("{:<46}{:<20}br0\n", "10.0.0.2", "02:00:00:00:00:09");
        let plain = Neighbours { neighbours: neighbours.clone(), statistics: None };
        assert!(plain.text().ends_with(&line), "{}", plain.text());
        assert_eq!(plain.json()[0]["age"], 5);
        let numbers = v1::NeighbourStatistics { changed: 3, held_off: 4, ..Default::default() };
        let counted = Neighbours { neighbours, statistics: Some(numbers) };
        let last = "pending:0 changed:3 held_off:4 refused:0 expired:0 evicted:0\n";
        assert!(counted.text().ends_with(&(line + last)), "{}", counted.text());
        let json = counted.json();
        assert_eq!((&json["neighbours"][0]["age"], &json["statistics"]["held_off"]), (&json!(5), &json!(4)));
    }

    #[test]
    fn routes_are_told_like_open_vswitchs() {
        let words = ["10.0.0.1".to_owned(), "src=1.1.1.1".to_owned()];
        let route = route("1.2.0.0/16", "br0", &words).expect("good");
        assert_eq!(route_line(&route), "1.2.0.0/16 dev br0 GW 10.0.0.1 SRC 1.1.1.1");
        let lookup = |gateway: Option<&str>, user| {
            let gateway = gateway.map(str::to_owned);
            Found(v1::Route { gateway, user, ..route.clone() }).text()
        };
        let lines = "src 1.1.1.1\ngateway 10.0.0.1\ndev br0\nprefix 1.2.0.0/16\nroute User\n";
        assert_eq!(lookup(Some("10.0.0.1"), true), lines);
        let lines = "src 1.1.1.1\ngateway ::\ndev br0\nprefix 1.2.0.0/16\nroute Cached\n";
        assert_eq!(lookup(None, false), lines);
        let text = Routes(vec![v1::Route { user: true, ..route }]).text();
        assert_eq!(text, "Route Table:\nUser: 1.2.0.0/16 dev br0 GW 10.0.0.1 SRC 1.1.1.1\n");
        assert!(super::route("1.2.0.0/16", "br0", &["1.1.1.1".to_owned(), "1.1.1.2".to_owned()]).is_err());
    }
}
