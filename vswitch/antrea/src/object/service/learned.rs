//! Learned flows that must go: how they are found, and known.

use crate::{Facts, Family, Flush, Table};
use std::net::IpAddr;
use vswitch_flow::spec::{FlowFilter, FlowSpec, Update};
use vswitch_flow::text::{FlowCommand, parse_flow};
use vswitch_flow::{Action, Field, FlowKey};

use super::Protocol;

/// Priority of what DSR learns: connections, not clients.
const CONNECTION: u16 = 210;

impl Flush {
    /// Learned flows of the Service's place, to whatever endpoint. Empty: this is not about learned
    /// flows.
    #[must_use]
    pub fn learned(&self, facts: &Facts<'_>) -> Vec<FlowFilter> {
        let (Self::Affinity { protocol, address, port, .. } | Self::Clients { protocol, address, port }) = self else {
            return Vec::new();
        };
        let Some(protocol) = Protocol::ALL.into_iter().find(|known| known.number() == *protocol) else {
            return Vec::new();
        };
        if !Table::SessionAffinity.exists(facts.features()) {
            return Vec::new();
        }
        let node = facts.node.node_port_addresses.iter().chain(&facts.node.virtual_node_port).copied();
        let node = node.filter(|address| facts.node.has(Family::of(address)));
        let addresses: Vec<IpAddr> = address.map_or_else(|| node.collect(), |address| vec![address]);
        let filter = |address: IpAddr| {
            let family = Family::of(&address);
            let (table, of, field) = (Table::SessionAffinity.name(), protocol.of(family), family.destination());
            let line = format!("table={table},{of},{field}={address},tp_dst={port}");
            match parse_flow(&line, FlowCommand::Delete, facts).map(|parsed| parsed.value) {
                Ok(Update::DeleteFlows(filter)) => Some(filter),
                _ => None,
            }
        };
        addresses.into_iter().filter_map(filter).collect()
    }

    /// Whether one of those leads clients on to the endpoint, or whichever one
    /// ([`Flush::Clients`]). A connection that the endpoint's Node answers lives on by its flow if
    /// it is not of UDP, as all connections do.
    #[must_use]
    pub fn leads_on(&self, flow: &FlowSpec) -> bool {
        if matches!(self, Self::Clients { .. }) {
            return flow.priority != CONNECTION;
        }
        let Self::Affinity { protocol, endpoint: Some((address, port)), .. } = self else { return false };
        if flow.priority == CONNECTION && *protocol != Protocol::Udp.number() {
            return false;
        }
        let mut key = FlowKey::default();
        for action in &*flow.actions {
            if let Action::SetField { field, value, mask } = action {
                key.set_masked(*field, *value, *mask);
            }
        }
        let register = |number| Field::reg(number).map_or(0, |field| key.get(field));
        let there = match address {
            IpAddr::V4(v4) => register(3) == u128::from(u32::from(*v4)),
            IpAddr::V6(v6) => key.get(Field::Xxreg3) == u128::from(*v6),
        };
        there && register(4) & 0xffff == u128::from(*port)
    }

    /// What the transaction itself can delete: learned flows of places that are gone.
    pub(crate) fn deletes(&self, facts: &Facts<'_>) -> Vec<Update> {
        match self {
            Self::Affinity { endpoint: None, .. } => {
                self.learned(facts).into_iter().map(Update::DeleteFlows).collect()
            }
            _ => Vec::new(),
        }
    }
}
