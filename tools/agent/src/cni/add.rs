//! ADD.

use super::check;
use super::failure::{Outcome as Done, again, config, hint, kernel, refused, taken};
use super::link::Netlink;
use super::names::mac_text;
use super::netns::{self, NetnsId};
use super::ports::PortError;
use super::record::{Address, Pod, Record, Route, VhostUser};
use super::remove;
use super::shared::{Conflict, Outcome, Shared};
use super::{names, sweep, vhost};
use crate::attach::FURTHER_MAX;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use vswitch_net_types::shown;
use vswitch_proto::agent::v1::{
    AddRequest, Attached, GetConfigRequest, GetConfigResponse, IpConfig, Route as SaidRoute,
};

/// For all of it. (The plug-in waits 30 s.)
const TIME: Duration = Duration::from_secs(25);

/// For a Pod's way into the switch, at least.
const POD_TIME: Duration = Duration::from_secs(5);

/// Names that are tried on the Node.
const ATTEMPTS: u8 = 8;

/// What IPAM needs, and the attachment if it is there.
pub(super) async fn config_of(shared: &Shared, request: GetConfigRequest) -> Done<GetConfigResponse> {
    let mut attached = None;
    let node = match request.attachment {
        // For DEL, which does without.
        None => shared.node().unwrap_or_default(),
        attachment => {
            let (key, pod) = (names::key(attachment)?, names::pod(request.pod)?);
            let vhost = shared.directories.read(request.vhost_user.as_ref(), &key, pod.as_ref())?;
            let _lock = shared.lock(&key).await;
            if let Some(record) = shared.record(&key) {
                let (_, netns) = netns::open(&request.netns).await?;
                let place = (request.netns.as_str(), netns);
                attached = Some(existing(shared, &record, place, pod.as_ref(), vhost.as_ref()).await?);
            }
            shared.node_by(Instant::now() + TIME).await?
        }
    };
    Ok(GetConfigResponse {
        failure: None,
        pod_cidrs: node.pod_cidrs,
        gateways: node.gateways.iter().map(ToString::to_string).collect(),
        attached,
    })
}

/// An attachment that is there already: ADD has come twice.
async fn existing(
    shared: &Shared,
    record: &Record,
    netns: (&str, NetnsId),
    pod: Option<&Pod>,
    vhost: Option<&VhostUser>,
) -> Done<Attached> {
    let other = |what: &str| Err(taken(format!("{} is attached already, with another {what}", record.key)));
    if netns.1 != record.netns_id || netns.0 != record.netns {
        return other("network namespace");
    }
    if pod != record.pod.as_ref() {
        return other("Pod");
    }
    if vhost != record.vhost.as_ref() {
        return other("mode, queues, socketOwner or deviceID");
    }
    check::whole(shared, record).await?;
    attached(shared, record).await
}

/// Attaches an interface, or leaves nothing.
pub(super) async fn add(shared: &Shared, request: AddRequest) -> Done<Attached> {
    let (key, pod) = (names::key(request.attachment)?, names::pod(request.pod)?);
    if !names::is_name(&request.network) {
        return Err(config(format!("network {:?} is no name", shown(&request.network))));
    }
    if request.mtu != 0 && !(576..=9702).contains(&request.mtu) {
        return Err(config(format!("mtu {} is none: 576 to 9702", request.mtu)));
    }
    let vhost = shared.directories.read(request.vhost_user.as_ref(), &key, pod.as_ref())?;
    let deadline = Instant::now() + TIME;
    let _lock = shared.lock(&key).await;
    let node = shared.node_by(deadline).await?;
    let (netns, netns_id) = netns::open(&request.netns).await?;
    let addresses = names::addresses(&request.addresses, &node.gateways)?;
    let routes = names::routes(&request.routes, &addresses, key.is_own())?;
    if let Some(record) = shared.record(&key) {
        if (&record.addresses, &record.routes) != (&addresses, &routes) {
            return Err(taken(format!("{key} is attached already, with other addresses or routes")));
        }
        let place = (request.netns.as_str(), netns_id);
        return existing(shared, &record, place, pod.as_ref(), vhost.as_ref()).await;
    }
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let record = Record {
        key,
        network: request.network,
        netns: request.netns,
        netns_id,
        pod,
        host: String::new(),
        bridge: node.bridge,
        mac: names::mac(&addresses),
        mtu: if request.mtu == 0 { node.mtu } else { request.mtu },
        addresses,
        routes,
        vhost,
        created: u64::try_from(created).unwrap_or(u64::MAX),
    };
    let record = reserved(shared, record).await?;
    match make(shared, &record, &netns, deadline).await {
        Ok(attached) => Ok(attached),
        Err(failure) => {
            if let Err(also) = remove::remove(shared, &record).await {
                tracing::warn!("cni: {}: cannot be undone: {}", record.key, shown(&also.message));
            }
            Err(failure)
        }
    }
}

/// The record with a name on the Node, on the disk.
async fn reserved(shared: &Shared, mut record: Record) -> Done<Record> {
    for attempt in 0..ATTEMPTS {
        record.host = names::host_interface(&record.key, record.pod.as_ref(), attempt);
        match shared.reserve(&record) {
            Ok(()) => {
                if let Err(error) = shared.store.save(&record) {
                    shared.forget(&record.key);
                    return Err(kernel("the attachment cannot be saved", &error));
                }
                return Ok(record);
            }
            Err(Conflict::Name) => {}
            // IPAM or kubelet say that it is free: the runtime has not told of its end.
            Err(Conflict::Address(_, other) | Conflict::Directory(other)) if sweep::has_gone(shared, &other) => {
                remove::remove(shared, &other).await?;
            }
            Err(Conflict::Address(address, other)) => {
                let message = format!("address {address} is that of {}", other.key);
                return Err(hint(taken(message), "is another IPAM configuration used beside this one?"));
            }
            Err(Conflict::Directory(other)) => {
                let message = format!("the directory of the socket is that of {}", other.key);
                return Err(hint(taken(message), "does the Pod ask for as many devices as it has such interfaces?"));
            }
            Err(Conflict::Many) => {
                return Err(taken(format!("the container has {FURTHER_MAX} further interfaces: more are not served")));
            }
        }
    }
    Err(taken(format!("no name on the Node is free for {}", record.key)))
}

async fn make(shared: &Shared, record: &Record, netns: &File, deadline: Instant) -> Done<Attached> {
    match &record.vhost {
        Some(vhost) => vhost::prepare(vhost).await?,
        None => interfaces(shared, record, netns).await?,
    }
    shared.ports.add(record, deadline).await.map_err(|error| match error {
        PortError::Away(words) => again(format!("the switch has made no port: {words}")),
        PortError::Refused(words) => refused(format!("the switch refuses port {}: {words}", record.host)),
    })?;
    let change = shared.made(&record.key);
    if let Some(pod) = record.object() {
        told(shared, &pod, change, deadline.max(Instant::now() + POD_TIME)).await?;
    }
    attached(shared, record).await
}

/// Waits until the switch has the Pod. A Pod without a document is in doubt: no packet passes.
async fn told(shared: &Shared, pod: &str, change: u64, deadline: Instant) -> Done<()> {
    let is_known = |outcome: Option<&Outcome>| outcome.is_some_and(|outcome| *outcome != Outcome::Pending);
    match shared.told_by(change, deadline, |told| is_known(told.pods.get(pod))).await {
        None => {
            let last = shared.last_told();
            let why = if last.change >= change { "does not know all policies yet" } else { "cannot tell it" };
            Err(again(format!("the switch does not have Pod {pod}: the agent {why}")))
        }
        Some(told) => match told.pods.get(pod) {
            Some(Outcome::Refused(words)) => Err(refused(format!("the switch refuses Pod {pod}: {words}"))),
            _ => Ok(()),
        },
    }
}

/// Makes the pair of interfaces, with addresses and routes.
async fn interfaces(shared: &Shared, record: &Record, netns: &File) -> Done<()> {
    let (host, inner) = (record.host.as_str(), record.key.interface.as_str());
    let wrong = |what: &'static str| move |error: io::Error| kernel(what, &error);
    // The name is this attachment's own: what has it was left by an agent that was killed.
    if let Some(left) = shared.kernel.link(host).await.map_err(wrong("an interface cannot be read"))? {
        shared.kernel.remove(left.index).await.map_err(wrong("an interface that was left cannot be removed"))?;
    }
    let inside = netns::inside(netns, Netlink::open).await.map_err(wrong("netlink in the container"))?;
    if inside.link(inner).await.map_err(wrong("the container's interfaces cannot be read"))?.is_some() {
        return Err(taken(format!("the container has an interface {inner} already")));
    }
    let pair = shared.kernel.add_pair(host, inner, netns, record.mac, record.mtu).await;
    pair.map_err(wrong("the pair of interfaces cannot be made"))?;
    // The Node's kernel sees the packets, too. It is not to answer.
    set(&format!("{host}/disable_ipv6"), "1").map_err(wrong("IPv6 cannot be turned off on the Node's end"))?;
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let link = shared.kernel.link(host).await.and_then(|link| link.ok_or_else(gone));
    let index = link.map_err(wrong("the Node's end cannot be read"))?.index;
    shared.kernel.set_up(index, true).await.map_err(wrong("the Node's end cannot be set up"))?;
    if record.addresses.iter().any(|one| one.address.is_ipv6()) {
        let name = inner.to_owned();
        let values = move || {
            set(&format!("{name}/disable_ipv6"), "0")?;
            set(&format!("{name}/accept_dad"), "0")?;
            set(&format!("{name}/accept_ra"), "0")
        };
        netns::inside(netns, values).await.map_err(wrong("IPv6 cannot be turned on in the container"))?;
    }
    let link = inside.link(inner).await.and_then(|link| link.ok_or_else(gone));
    let index = link.map_err(wrong("the container's end cannot be read"))?.index;
    inside.set_up(index, false).await.map_err(wrong("the container's end cannot be set up"))?;
    for address in &record.addresses {
        inside.add_address(index, address).await.map_err(wrong("an address cannot be added"))?;
    }
    for route in &record.routes {
        inside.add_route(index, route).await.map_err(wrong("a route cannot be added"))?;
    }
    Ok(())
}

/// Sets a value of IPv6, unless it is so already. A kernel without IPv6 has none.
fn set(path: &str, value: &str) -> io::Result<()> {
    let file = Path::new("/proc/sys/net/ipv6/conf").join(path);
    match fs::read_to_string(&file) {
        Ok(is) if is.trim() == value => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => fs::write(&file, value),
    }
}

/// What a runtime is told of an attachment.
async fn attached(shared: &Shared, record: &Record) -> Done<Attached> {
    let (mut host_mac, mut socket) = (String::new(), String::new());
    if let Some(vhost) = &record.vhost {
        socket = vhost.socket().display().to_string();
    } else {
        let link = shared.kernel.link(&record.host).await;
        let link = link.map_err(|error| kernel("the Node's end cannot be read", &error))?;
        host_mac = mac_text(&link.ok_or_else(|| again(format!("interface {} has gone", record.host)))?.mac);
    }
    let ip = |one: &Address| IpConfig {
        address: format!("{}/{}", one.address, one.length),
        gateway: one.gateway.map(|gateway| gateway.to_string()).unwrap_or_default(),
    };
    let route = |one: &Route| SaidRoute {
        destination: format!("{}/{}", one.destination, one.length),
        gateway: one.gateway.to_string(),
    };
    Ok(Attached {
        host_interface: record.host.clone(),
        host_mac,
        mac: mac_text(&record.mac),
        mtu: record.mtu,
        netns: record.netns.clone(),
        addresses: record.addresses.iter().map(ip).collect(),
        routes: record.routes.iter().map(route).collect(),
        socket,
    })
}
