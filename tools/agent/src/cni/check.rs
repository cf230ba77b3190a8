//! CHECK: everything of an attachment is as it was made.

use super::failure::{Outcome as Done, kernel, missing, unknown};
use super::link::Netlink;
use super::names::mac_text;
use super::ports::{PortError, name, owner};
use super::record::Record;
use super::shared::Shared;
use super::{failure, names, netns, vhost};
use std::fs::File;
use std::io;
use vswitch_net_types::shown;
use vswitch_proto::agent::v1::CheckRequest;

/// CHECK.
pub(super) async fn check(shared: &Shared, request: CheckRequest) -> Done<()> {
    let key = names::key(request.attachment)?;
    let _lock = shared.lock(&key).await;
    let Some(record) = shared.record(&key) else { return Err(unknown(format!("{key} is not attached"))) };
    if request.netns != record.netns {
        return Err(missing(format!("network namespace {:?} is not that of {key}", shown(&request.netns))));
    }
    for text in &request.addresses {
        let is_its =
            |(address, length)| record.addresses.iter().any(|one| (one.address, one.length) == (address, length));
        if !names::prefix(text).is_some_and(is_its) {
            return Err(missing(format!("address {:?} of prevResult is not that of {key}", shown(text))));
        }
    }
    whole(shared, &record).await
}

/// Whether file, port, and interfaces or directory are there.
pub(super) async fn whole(shared: &Shared, record: &Record) -> Done<()> {
    let key = &record.key;
    if !shared.store.has(key) {
        return Err(missing(format!("the file of {key} is not there")));
    }
    let (file, id) = netns::open(&record.netns).await?;
    if id != record.netns_id {
        return Err(unknown(format!("network namespace {:?} is another one by now", shown(&record.netns))));
    }
    match &record.vhost {
        Some(vhost) => vhost::check(vhost)?,
        None => interfaces(shared, record, &file).await?,
    }
    port(shared, record).await
}

/// Whether the pair of interfaces is there, with addresses and routes.
async fn interfaces(shared: &Shared, record: &Record, netns: &File) -> Done<()> {
    let (wrong, key) = (|error: io::Error| kernel("the kernel cannot be asked", &error), &record.key);
    let Some(host) = shared.kernel.link(&record.host).await.map_err(wrong)? else {
        return Err(missing(format!("interface {} of the Node is not there", record.host)));
    };
    if !host.is_up {
        return Err(missing(format!("interface {} of the Node is down", record.host)));
    }
    let inside = netns::inside(netns, Netlink::open).await.map_err(wrong)?;
    let Some(link) = inside.link(&key.interface).await.map_err(wrong)? else {
        return Err(missing(format!("interface {} of the container is not there", key.interface)));
    };
    if !link.is_up {
        return Err(missing(format!("interface {} of the container is down", key.interface)));
    }
    if link.mac != record.mac {
        let (is, was) = (mac_text(&link.mac), mac_text(&record.mac));
        return Err(missing(format!("interface {} has MAC address {is}, not {was}", key.interface)));
    }
    if link.mtu != record.mtu {
        return Err(missing(format!("interface {} has MTU {}, not {}", key.interface, link.mtu, record.mtu)));
    }
    let addresses = inside.addresses(link.index).await.map_err(wrong)?;
    if let Some(one) = record.addresses.iter().find(|one| !addresses.contains(&(one.address, one.length))) {
        return Err(missing(format!("address {}/{} is not there", one.address, one.length)));
    }
    for route in &record.routes {
        if !inside.has_route(link.index, route).await.map_err(wrong)? {
            let (to, by) = (format!("{}/{}", route.destination, route.length), route.gateway);
            return Err(missing(format!("route {to} via {by} is not there")));
        }
    }
    Ok(())
}

async fn port(shared: &Shared, record: &Record) -> Done<()> {
    let ports = match shared.ports.list(&record.bridge).await {
        Ok(ports) => ports,
        Err(PortError::Away(words)) => return Err(failure::again(format!("the switch cannot be asked: {words}"))),
        Err(PortError::Refused(words)) => return Err(missing(format!("bridge {}: {words}", record.bridge))),
    };
    match ports.iter().find(|port| name(port) == record.host) {
        Some(port) if owner(port).as_ref() != Some(&record.key) => {
            Err(missing(format!("port {} of the switch is somebody else's", record.host)))
        }
        Some(port) => match &port.error {
            Some(error) => Err(missing(format!("port {} of the switch is not open: {error}", record.host))),
            None => Ok(()),
        },
        None => Err(missing(format!("port {} of the switch is not there", record.host))),
    }
}
