//! The kernel's interfaces, addresses, neighbours, routes and routing rules, by netlink.
//!
//! Errors are those of the kernel, as [`io::Error`] with its number. Dumps are checked by the
//! kernel (`NETLINK_GET_STRICT_CHK`), so that it sends only routes of the protocol that is asked
//! for.

use super::messages::{self, PROTOCOL};
use super::plan::{Address, Neighbour, Route, Rule};
use super::there::{There, ThereAddress, ThereRoute};
use rtnetlink::Handle;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::neighbour::NeighbourMessage;
use rtnetlink::packet_route::route::{RouteMessage, RouteProtocol};
use rtnetlink::packet_route::rule::RuleMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use std::io;
use std::net::IpAddr;
use tokio_stream::StreamExt;

/// The way to the kernel.
#[derive(Clone, Debug)]
pub(super) struct Kernel(Handle);

const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];

impl Kernel {
    /// Must be called within a runtime.
    pub(super) fn open() -> io::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection_with_strict_check()?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    /// Looks at everything.
    pub(super) async fn look(&self) -> io::Result<There> {
        let mut there = There::default();
        for found in self.dump(Message::GetLink(LinkMessage::default())).await? {
            if let Message::NewLink(found) = found {
                there.interfaces.extend(messages::interface(&found));
            }
        }
        for family in FAMILIES {
            let mut ask = AddressMessage::default();
            ask.header.family = family;
            for found in self.dump(Message::GetAddress(ask)).await? {
                if let Message::NewAddress(found) = found {
                    there.addresses.extend(messages::there_address(&found));
                }
            }
            let mut ask = NeighbourMessage::default();
            ask.header.family = family;
            for found in self.dump(Message::GetNeighbour(ask)).await? {
                if let Message::NewNeighbour(found) = found {
                    there.neighbours.extend(messages::there_neighbour(&found));
                }
            }
            there.routes.extend(self.routes(family, |ask| ask.header.protocol = RouteProtocol::Other(PROTOCOL)).await?);
            let mut ask = RuleMessage::default();
            ask.header.family = family;
            for found in self.dump(Message::GetRule(ask)).await? {
                if let Message::NewRule(found) = found {
                    there.rules.extend(messages::there_rule(&found));
                }
            }
        }
        there.routes.retain(|found| found.ours);
        Ok(there)
    }

    async fn routes(&self, family: AddressFamily, narrow: impl Fn(&mut RouteMessage)) -> io::Result<Vec<ThereRoute>> {
        let mut ask = RouteMessage::default();
        ask.header.address_family = family;
        narrow(&mut ask);
        let found = self.dump(Message::GetRoute(ask)).await?;
        Ok(found
            .iter()
            .filter_map(|found| if let Message::NewRoute(found) = found { messages::there_route(found) } else { None })
            .collect())
    }

    /// The route of somebody else to the same destination, in the same table.
    pub(super) async fn foreign(&self, wanted: &Route) -> io::Result<Option<ThereRoute>> {
        let family = if wanted.destination.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let table = wanted.table;
        let routes = self.routes(family, |ask| messages::in_table(ask, table)).await?;
        Ok(routes.into_iter().find(|found| !found.ours && found.is_to(wanted)))
    }

    pub(super) async fn add_address(&self, address: &Address, index: u32) -> io::Result<()> {
        self.change(Message::NewAddress(messages::address(address, index)), NLM_F_CREATE | NLM_F_EXCL).await
    }

    pub(super) async fn remove_address(&self, there: &ThereAddress) -> io::Result<()> {
        self.change(Message::DelAddress(messages::bare_address(there.address, there.length, there.index)), 0).await
    }

    pub(super) async fn set_neighbour(&self, neighbour: &Neighbour, index: u32) -> io::Result<()> {
        let message = messages::neighbour(neighbour.address, Some(neighbour.mac), index);
        self.change(Message::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE).await
    }

    pub(super) async fn remove_neighbour(&self, address: IpAddr, index: u32) -> io::Result<()> {
        self.change(Message::DelNeighbour(messages::neighbour(address, None, index)), 0).await
    }

    pub(super) async fn add_route(&self, route: &Route, index: Option<u32>) -> io::Result<()> {
        self.change(Message::NewRoute(messages::route(route, index, None)), NLM_F_CREATE | NLM_F_EXCL).await
    }

    pub(super) async fn remove_route(&self, there: &ThereRoute) -> io::Result<()> {
        self.change(Message::DelRoute(messages::route_to_remove(there)), 0).await
    }

    pub(super) async fn add_rule(&self, rule: &Rule) -> io::Result<()> {
        self.change(Message::NewRule(messages::rule(rule)), NLM_F_CREATE | NLM_F_EXCL).await
    }

    pub(super) async fn remove_rule(&self, rule: &Rule) -> io::Result<()> {
        self.change(Message::DelRule(messages::rule(rule)), 0).await
    }

    pub(super) async fn set_link(&self, index: u32, mac: Option<&[u8]>, up: Option<bool>) -> io::Result<()> {
        self.change(Message::SetLink(messages::link(index, mac, up)), 0).await
    }

    async fn change(&self, message: Message, flags: u16) -> io::Result<()> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut answers = self.0.clone().request(request).map_err(lost)?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(error.to_io());
            }
        }
        Ok(())
    }

    async fn dump(&self, message: Message) -> io::Result<Vec<Message>> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut answers = self.0.clone().request(request).map_err(lost)?;
        let mut found = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => found.push(message),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                _ => {}
            }
        }
        Ok(found)
    }
}

#[allow(clippy::needless_pass_by_value)] // an argument of map_err
fn lost(error: rtnetlink::Error) -> io::Error {
    io::Error::other(format!("netlink: {error}"))
}
