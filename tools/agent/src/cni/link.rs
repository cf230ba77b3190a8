//! Interfaces, addresses and routes of one network namespace, by netlink.

use super::record::{Address, Route};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use rtnetlink::{Error, Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::pin::pin;
use tokio_stream::StreamExt;

/// The kernel's error numbers that say that something is not there, or is there already.
const ENODEV: i32 = 19;

/// The way to the kernel, for one namespace.
#[derive(Clone, Debug)]
pub(super) struct Netlink(Handle);

/// An interface as it is.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) mac: Vec<u8>,
    pub(super) mtu: u32,
    pub(super) is_up: bool,
}

impl Netlink {
    /// Of the namespace of this thread. Must be called within a runtime.
    pub(super) fn open() -> io::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    /// An interface by its name.
    pub(super) async fn link(&self, name: &str) -> io::Result<Option<Link>> {
        let mut found = pin!(self.0.link().get().match_name(name.to_owned()).execute());
        match found.next().await {
            Some(Ok(message)) => Ok(Some(link_of(&message))),
            Some(Err(error)) if io_error(error.clone()).raw_os_error() == Some(ENODEV) => Ok(None),
            Some(Err(error)) => Err(io_error(error)),
            None => Ok(None),
        }
    }

    /// Makes a pair: `host` here, `inner` in another namespace.
    pub(super) async fn add_pair(
        &self,
        host: &str,
        inner: &str,
        netns: &File,
        mac: [u8; 6],
        mtu: u32,
    ) -> io::Result<()> {
        let peer = rtnetlink::LinkMessageBuilder::<LinkUnspec>::new()
            .name(inner.to_owned())
            .mtu(mtu)
            .address(mac.to_vec())
            .setns_by_fd(netns.as_raw_fd())
            .build();
        let pair = LinkVeth::new(host, inner).mtu(mtu).set_info_data(InfoData::Veth(InfoVeth::Peer(peer))).build();
        self.0.link().add(pair).execute().await.map_err(io_error)
    }

    /// Sets an interface up; `is_silent`: the kernel answers no ARP there.
    pub(super) async fn set_up(&self, index: u32, is_silent: bool) -> io::Result<()> {
        let change = rtnetlink::LinkMessageBuilder::<LinkUnspec>::new().index(index).up();
        let change = if is_silent { change.arp(false) } else { change };
        self.0.link().set(change.build()).execute().await.map_err(io_error)
    }

    pub(super) async fn remove(&self, index: u32) -> io::Result<()> {
        self.0.link().del(index).execute().await.map_err(io_error)
    }

    /// Adds an address, which is usable at once.
    pub(super) async fn add_address(&self, index: u32, address: &Address) -> io::Result<()> {
        let mut request = self.0.address().add(index, address.address, address.length);
        if address.address.is_ipv6() {
            request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        request.execute().await.map_err(io_error)
    }

    /// Addresses of an interface, with their lengths.
    pub(super) async fn addresses(&self, index: u32) -> io::Result<Vec<(IpAddr, u8)>> {
        let mut all = Vec::new();
        let mut found = pin!(self.0.address().get().set_link_index_filter(index).execute());
        while let Some(message) = found.next().await {
            let message = message.map_err(io_error)?;
            let address = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            });
            all.extend(address.map(|address| (address, message.header.prefix_len)));
        }
        Ok(all)
    }

    /// Adds a route. Its gateway is on the interface, whatever the prefix of the address is.
    pub(super) async fn add_route(&self, index: u32, route: &Route) -> io::Result<()> {
        let message = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(route.destination, route.length)
            .and_then(|message| message.gateway(route.gateway))
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.0.route().add(message.output_interface(index).onlink().build()).execute().await.map_err(io_error)
    }

    /// Whether a route by this interface is there.
    pub(super) async fn has_route(&self, index: u32, route: &Route) -> io::Result<bool> {
        let ask = match route.destination {
            IpAddr::V4(_) => RouteMessageBuilder::<Ipv4Addr>::new().build(),
            IpAddr::V6(_) => RouteMessageBuilder::<Ipv6Addr>::new().build(),
        };
        let mut found = pin!(self.0.route().get(ask).execute());
        let mut is_there = false;
        while let Some(message) = found.next().await {
            is_there |= is_it(&message.map_err(io_error)?, index, route);
        }
        Ok(is_there)
    }
}

fn link_of(message: &LinkMessage) -> Link {
    let is_up = message.header.flags.contains(LinkFlags::Up);
    let mut link = Link { index: message.header.index, mac: Vec::new(), mtu: 0, is_up };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(octets) => link.mac.clone_from(octets),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            _ => {}
        }
    }
    link
}

fn is_it(message: &RouteMessage, index: u32, route: &Route) -> bool {
    let is_same = |found: &RouteAddress, wanted: IpAddr| match found {
        RouteAddress::Inet(found) => IpAddr::V4(*found) == wanted,
        RouteAddress::Inet6(found) => IpAddr::V6(*found) == wanted,
        _ => false,
    };
    let (mut to, mut by, mut leaves) = (route.length == 0, false, false);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(found) => to = is_same(found, route.destination),
            RouteAttribute::Gateway(found) => by = is_same(found, route.gateway),
            RouteAttribute::Oif(found) => leaves = *found == index,
            _ => {}
        }
    }
    to && by && leaves && message.header.destination_prefix_length == route.length
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::NetlinkError(error) => error.to_io(),
        other => io::Error::other(format!("netlink: {other}")),
    }
}
