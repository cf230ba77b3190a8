//! DEL, GC, and whatever else ends an attachment.

use super::failure::{Outcome as Done, kernel};
use super::record::{Key, Record};
use super::shared::Shared;
use super::{names, vhost};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use vswitch_net_types::shown;
use vswitch_proto::agent::v1::{AttachmentRef, GcRequest};

/// The switch has this time to let the Pod go before its port goes.
const POD_TIME: Duration = Duration::from_secs(3);

/// An attachment that is younger is not garbage: its runtime may not have noted it yet.
const YOUNG: Duration = Duration::from_secs(300);

/// Detaches an interface. It may be called any number of times.
pub(super) async fn del(shared: &Shared, attachment: Option<AttachmentRef>) -> Done<()> {
    let key = names::key(attachment)?;
    let _lock = shared.lock(&key).await;
    match shared.record(&key) {
        Some(record) => remove(shared, &record).await,
        None => files(shared, &key),
    }
}

/// Detaches what is not in the list; how many that were.
pub(super) async fn gc(shared: &Shared, request: GcRequest) -> Done<u32> {
    let valid: BTreeSet<Key> =
        request.valid.into_iter().map(|one| Key { container: one.container, interface: one.interface }).collect();
    let containers: BTreeSet<&String> = valid.iter().map(|key| &key.container).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (mut removed, mut failed) = (0, None);
    for record in shared.records() {
        let age = now.saturating_sub(Duration::from_millis(record.created));
        // Multus has called for a further interface, and the list may be another runtime's.
        let is_beside = !record.key.is_own() && containers.contains(&record.key.container);
        if record.network != request.network || valid.contains(&record.key) || is_beside || age < YOUNG {
            continue;
        }
        let _lock = shared.lock(&record.key).await;
        match remove(shared, &record).await {
            Ok(()) => removed += 1,
            Err(failure) => failed = Some(failure),
        }
    }
    failed.map_or(Ok(removed), Err)
}

/// Removes everything of an attachment: the Pod first, the file last.
pub(super) async fn remove(shared: &Shared, record: &Record) -> Done<()> {
    let change = shared.withdraw(&record.key);
    if record.pod.is_some() {
        shared.told_by(change, Instant::now() + POD_TIME, |_| true).await;
    }
    // A switch that is away has no port, or `sweep` deletes it.
    if let Err(error) = shared.ports.delete(&record.bridge, &record.host).await {
        tracing::debug!("cni: port {}: {}", record.host, shown(error.words()));
    }
    match &record.vhost {
        Some(vhost) => vhost::clear(vhost).await?,
        None => interface(shared, record).await?,
    }
    files(shared, &record.key)?;
    shared.forget(&record.key);
    Ok(())
}

/// Removes the pair of interfaces.
async fn interface(shared: &Shared, record: &Record) -> Done<()> {
    let wrong = |error| kernel("the interface cannot be removed", &error);
    if let Some(link) = shared.kernel.link(&record.host).await.map_err(wrong)? {
        let removed = shared.kernel.remove(link.index).await;
        // It may have gone with its container meanwhile.
        if removed.is_err() && shared.kernel.link(&record.host).await.map_err(wrong)?.is_some() {
            removed.map_err(wrong)?;
        }
    }
    Ok(())
}

fn files(shared: &Shared, key: &Key) -> Done<()> {
    shared.store.remove(key).map_err(|error| kernel("the attachment's file cannot be removed", &error))
}
