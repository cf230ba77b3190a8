//! Changes of the kernel's tables wake the agent before its period is over.
//!
//! What the kernel tells is not read: the next look compares everything. Neighbours are left out,
//! since learned ones change all the time. Where the kernel tells nothing, the period counts.

use rtnetlink::MulticastGroup;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_stream::StreamExt;

/// `NFNLGRP_NFTABLES`
const NFTABLES: u32 = 7;
/// Bytes of a notification that are taken; the rest is of no interest.
const NOTIFICATION_LEN: usize = 8192;
/// Pause after an error of a socket, such as notifications that were lost.
const PAUSE: Duration = Duration::from_millis(200);

const GROUPS: [MulticastGroup; 7] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];

/// Has `wake` be notified of changes, as long as the runtime lives. Must be called within one.
pub(super) fn on_changes(wake: &Arc<Notify>) {
    for result in [routes(Arc::clone(wake)), tables(Arc::clone(wake))] {
        if let Err(error) = result {
            tracing::warn!("host: changes are seen only each period: {error}");
        }
    }
}

fn routes(wake: Arc<Notify>) -> io::Result<()> {
    let (connection, _, mut changes) = rtnetlink::new_multicast_connection(&GROUPS)?;
    tokio::spawn(connection);
    tokio::spawn(async move {
        while changes.next().await.is_some() {
            wake.notify_one();
        }
    });
    Ok(())
}

fn tables(wake: Arc<Notify>) -> io::Result<()> {
    let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
    socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
    socket.socket_mut().add_membership(NFTABLES)?;
    tokio::spawn(async move {
        let mut buffer = Vec::with_capacity(NOTIFICATION_LEN);
        loop {
            buffer.clear();
            if socket.recv(&mut buffer).await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
            wake.notify_one();
        }
    });
    Ok(())
}
