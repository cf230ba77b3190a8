//! What nobody tells: the switch has begun without its ports, or a container has gone without DEL.

use super::ports::{PortError, name, owner};
use super::record::{Key, Record};
use super::shared::Shared;
use super::{netns, remove};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use vswitch_net_types::shown;

/// Between two looks. A switch that was restarted has its ports again in about this time.
const PERIOD: Duration = Duration::from_secs(1);

/// For the port of one attachment.
const PORT_TIME: Duration = Duration::from_secs(5);

/// Looks again and again.
pub(super) async fn forever(shared: Arc<Shared>) {
    let mut told = BTreeSet::new();
    loop {
        containers(&shared).await;
        ports(&shared, &mut told).await;
        tokio::time::sleep(PERIOD).await;
    }
}

/// Whether the runtime has ended a container: by its note, or since its network namespace is gone.
pub(super) fn has_gone(shared: &Shared, record: &Record) -> bool {
    shared.store.is_deleted(&record.key) || netns::id_at(&record.netns) != Some(record.netns_id)
}

/// Whether a container may be there, although its network namespace is not at its path.
async fn is_alive(shared: &Shared, record: &Record) -> bool {
    match &record.vhost {
        // An agent that does not see the namespace, since it is not mounted here, sees the pair:
        // that goes with the namespace only.
        None => matches!(shared.kernel.link(&record.host).await, Ok(Some(_)) | Err(_)),
        // A socket stays. Then there is something at the path that is no namespace of a network.
        Some(_) => netns::id_at(&record.netns).is_some_and(|(device, _)| device != record.netns_id.0),
    }
}

/// Removes attachments of containers that are gone.
async fn containers(shared: &Shared) {
    for record in shared.records() {
        if !has_gone(shared, &record) {
            continue;
        }
        let _lock = shared.lock(&record.key).await;
        let is_alive = is_alive(shared, &record).await;
        let is_over = shared.store.is_deleted(&record.key) || (!is_alive && shared.is_made(&record.key));
        if is_over && shared.record(&record.key).as_ref() == Some(&record) {
            tracing::info!("cni: {} has gone: it is removed", record.key);
            if let Err(failure) = remove::remove(shared, &record).await {
                tracing::warn!("cni: {}: {}", record.key, shown(&failure.message));
            }
        }
    }
}

/// Makes ports that are missing, and deletes those whose attachment has gone.
async fn ports(shared: &Shared, told: &mut BTreeSet<Key>) {
    let mut bridges: BTreeSet<String> = shared.records().into_iter().map(|record| record.bridge).collect();
    bridges.extend(shared.node().map(|node| node.bridge));
    for bridge in bridges {
        // A switch that is away is asked again.
        let Ok(ports) = shared.ports.list(&bridge).await else { continue };
        let owned: Vec<(Key, &str)> = ports.iter().filter_map(|port| Some((owner(port)?, name(port)))).collect();
        for (key, port) in &owned {
            let _lock = shared.lock(key).await;
            if shared.record(key).is_none_or(|record| record.host != *port) {
                match shared.ports.delete(&bridge, port).await {
                    Ok(()) => tracing::info!("cni: port {port} of {key} has no attachment: it is deleted"),
                    Err(error) => tracing::debug!("cni: port {port}: {}", shown(error.words())),
                }
            }
        }
        let has = |record: &Record| owned.iter().any(|(key, port)| (key, *port) == (&record.key, &record.host));
        for record in shared.records().into_iter().filter(|record| record.bridge == bridge && !has(record)) {
            port(shared, &record, told).await;
        }
    }
}

async fn port(shared: &Shared, record: &Record, told: &mut BTreeSet<Key>) {
    let _lock = shared.lock(&record.key).await;
    let is_there = match &record.vhost {
        None => matches!(shared.kernel.link(&record.host).await, Ok(Some(_))),
        Some(vhost) => vhost.directory.is_dir(),
    };
    if !is_there || !shared.is_made(&record.key) {
        return;
    }
    // An ADD may have made it since the list was taken.
    let Ok(ports) = shared.ports.list(&record.bridge).await else { return };
    if ports.iter().any(|port| owner(port).as_ref() == Some(&record.key) && name(port) == record.host) {
        return;
    }
    match shared.ports.add(record, Instant::now() + PORT_TIME).await {
        Ok(()) => {
            told.remove(&record.key);
            tracing::info!("cni: port {} is made again", record.host);
        }
        Err(PortError::Away(_)) => {}
        Err(PortError::Refused(words)) => {
            if told.insert(record.key.clone()) {
                tracing::error!("cni: port {} cannot be made again: {}", record.host, shown(&words));
            }
        }
    }
}
