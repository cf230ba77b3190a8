//! `port-caps`: what the devices of ports can do in the switch's place.

use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Columns, Report, table};
use serde_json::{Value, json};
use tonic::Status;
use vswitch_net_types::shown;
use vswitch_proto::v1;

pub(super) async fn show(client: &Client, bridge: &str, name: Option<&str>) -> Answer {
    let request = v1::ListPortsRequest { bridge: bridge.to_owned() };
    let mut ports = client.answer(client.ports().await?.list_ports(request).await)?.ports;
    if let Some(name) = name {
        ports.retain(|port| port.config.as_ref().is_some_and(|config| config.name == name));
        if ports.is_empty() {
            return Err(Error::Refused(Box::new(Status::not_found(format!("bridge {bridge:?} has no port {name:?}")))));
        }
    }
    Ok(Box::new(Caps(ports)))
}

/// `port-caps`.
struct Caps(Vec<v1::Port>);

const COLUMNS: Columns<'_> = &[
    ("PORT", false),
    ("CAPABILITY", false),
    ("ASKED", false),
    ("OFFERED", false),
    ("USED", false),
    ("SOFTWARE", true),
];

impl Report for Caps {
    fn text(&self) -> String {
        let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
        let rows = self.0.iter().flat_map(|port| {
            let name = port.config.as_ref().map_or("", |config| &config.name);
            port.capabilities.iter().map(move |capability| {
                let software = capability.software_packets.map_or_else(|| "-".to_owned(), |n| n.to_string());
                let flags = [capability.asked, capability.offered, capability.used].map(yes);
                [vec![shown(name).into_owned(), shown(&capability.name).into_owned()], flags.to_vec(), vec![software]]
                    .concat()
            })
        });
        table(COLUMNS, rows)
    }

    fn json(&self) -> Value {
        let capability = |capability: &v1::PortCapability| {
            json!({
                "name": capability.name,
                "asked": capability.asked,
                "offered": capability.offered,
                "used": capability.used,
                "software_packets": capability.software_packets,
            })
        };
        let port = |port: &v1::Port| {
            json!({
                "name": port.config.as_ref().map(|config| &config.name),
                "type": port.r#type,
                "capabilities": port.capabilities.iter().map(capability).collect::<Vec<_>>(),
            })
        };
        self.0.iter().map(port).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_capability() {
        let capability = |name: &str, used, software_packets| v1::PortCapability {
            name: name.to_owned(),
            asked: true,
            offered: true,
            used,
            software_packets,
        };
        let capabilities = vec![capability("tx-csum", false, Some(12)), capability("mergeable", true, None)];
        let config = Some(v1::PortConfig { name: "vm0".to_owned(), ..v1::PortConfig::default() });
        let caps = Caps(vec![v1::Port { config, capabilities, ..v1::Port::default() }]);
        assert_eq!(
            caps.text(),
            "PORT  CAPABILITY  ASKED  OFFERED  USED  SOFTWARE\n\
             vm0   tx-csum     yes    yes      no          12\n\
             vm0   mergeable   yes    yes      yes          -\n"
        );
        assert_eq!(caps.json()[0]["capabilities"][0]["software_packets"], 12);
    }
}
