//! One Traceflow on this Node: as its sender, or as one that looks for its tag.

use super::object::Traceflow;
use super::status::{self, Written, is_over};
use super::{READY_MAX, SPREAD, Shared};
use crate::drive::channel;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vswitch_proto::antrea::v1::run_traceflow_response::Update;
use vswitch_proto::antrea::v1::traceflow_service_client::TraceflowServiceClient;
use vswitch_proto::antrea::v1::{self, TraceflowRole as Role};

/// This Node's part of a Traceflow. Dropped, it ends, and the switch forgets the tag.
pub(super) struct Session {
    uid: String,
    tag: u32,
    /// The newest state of the object.
    object: watch::Sender<Traceflow>,
    task: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    /// Sends the packet of a Traceflow that this Node has claimed.
    pub(super) fn send(shared: Shared, object: &Traceflow) -> Self {
        Self::start(object, |inbox| tokio::spawn(send(shared, inbox)))
    }

    /// Looks for the tag of another Node's.
    pub(super) fn receive(shared: Shared, object: &Traceflow) -> Self {
        Self::start(object, |inbox| tokio::spawn(receive(shared, inbox)))
    }

    fn start(object: &Traceflow, task: impl FnOnce(watch::Receiver<Traceflow>) -> JoinHandle<()>) -> Self {
        let (sender, inbox) = watch::channel(object.clone());
        Self { uid: object.uid.clone(), tag: object.tag, object: sender, task: task(inbox) }
    }

    /// Whether it is of this Traceflow, which still runs.
    pub(super) fn is_of(&self, object: &Traceflow) -> bool {
        object.phase == super::Phase::Running && object.uid == self.uid && object.tag == self.tag
    }

    /// Takes over what has become of the object.
    pub(super) fn tell(&self, object: &Traceflow) {
        self.object.send_if_modified(|old| {
            let is_new = old.version != object.version;
            *old = object.clone();
            is_new
        });
    }
}

async fn send(shared: Shared, mut inbox: watch::Receiver<Traceflow>) {
    let object = inbox.borrow().clone();
    let limit = Duration::from_secs(u64::from(object.timeout_seconds()) + 1);
    let run = async {
        wait_for_receiver(&shared, &object, &mut inbox).await;
        let address = remote_address(&shared, &object).await?;
        let observed = run(&shared, &object, Role::Sender, address.as_deref()).await?;
        let result = status::result(&shared.node, Role::Sender, &observed);
        let written = Written { result: Some(result), ..Written::default() };
        write(&shared, &object, &written).await?;
        // The Node where it ends tells the rest.
        let _ = inbox.wait_for(|object| is_over(&object.results)).await;
        Ok::<(), String>(())
    };
    let end = match tokio::time::timeout(limit, run).await {
        Ok(end) => end,
        Err(_) => Err("timeout: nobody has seen the end of the packet".to_owned()),
    };
    let written = Written { end: Some(end), ..Written::default() };
    if let Err(reason) = write(&shared, &object, &written).await {
        tracing::warn!("Traceflow {}: {reason}", object.name);
    }
}

/// Waits until the agent of the destination's Node looks for the tag.
async fn wait_for_receiver(shared: &Shared, object: &Traceflow, inbox: &mut watch::Receiver<Traceflow>) {
    if object.ends_at(&shared.local.borrow()) {
        return;
    }
    if object.spec.as_ref().is_ok_and(|spec| spec.destination.is_pod()) {
        let is_ready = |object: &Traceflow| object.results.iter().any(|result| result["role"] == "receiver");
        // Without an answer the packet goes all the same, and this Node's part is told.
        let _ = tokio::time::timeout(READY_MAX, inbox.wait_for(is_ready)).await;
    } else {
        tokio::time::sleep(SPREAD).await;
    }
}

/// The address of a destination that is a Pod of another Node: the switch does not know its name.
async fn remote_address(shared: &Shared, object: &Traceflow) -> Result<Option<String>, String> {
    let Some((namespace, name)) = object.destination_pod() else { return Ok(None) };
    if object.ends_at(&shared.local.borrow()) {
        return Ok(None);
    }
    let pods: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), namespace, &pod_resource());
    let pod = pods.get_opt(name).await.map_err(|error| error.to_string())?;
    let pod = pod.ok_or_else(|| format!("spec.destination: there is no Pod {namespace}/{name}"))?;
    let addresses = pod.data.pointer("/status/podIPs").and_then(Value::as_array);
    let addresses: Vec<&str> = addresses.into_iter().flatten().filter_map(|address| address["ip"].as_str()).collect();
    let address = object.choose(&addresses).map(str::to_owned);
    address
        .map(Some)
        .ok_or_else(|| format!("spec.destination: Pod {namespace}/{name} has no address of the family yet"))
}

fn pod_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"))
}

async fn receive(shared: Shared, inbox: watch::Receiver<Traceflow>) {
    let object = inbox.borrow().clone();
    let observed = run(&shared, &object, Role::Receiver, None).await;
    let told = match observed {
        Ok(observed) if observed.is_empty() => return,
        Ok(observed) => status::result(&shared.node, Role::Receiver, &observed),
        Err(reason) => return tracing::debug!("Traceflow {}: {reason}", object.name),
    };
    let written = Written { result: Some(told), ..Written::default() };
    if let Err(reason) = write(&shared, &object, &written).await {
        tracing::warn!("Traceflow {}: {reason}", object.name);
    }
}

async fn write(shared: &Shared, object: &Traceflow, written: &Written) -> Result<(), String> {
    status::write(&shared.api, &object.name, &object.uid, written).await.map_err(|error| error.to_string())
}

/// Has the switch run it, until the switch says that it is over.
async fn run(
    shared: &Shared,
    object: &Traceflow,
    role: Role,
    address: Option<&str>,
) -> Result<Vec<v1::TraceflowObservation>, String> {
    let channel = channel(&shared.socket).await.map_err(|error| error.to_string())?;
    let request = v1::RunTraceflowRequest { traceflow: Some(object.request(role, address)?) };
    let refused = |status: tonic::Status| format!("the switch of Node {}: {}", shared.node, status.message());
    let mut stream = TraceflowServiceClient::new(channel).run_traceflow(request).await.map_err(refused)?.into_inner();
    let mut observed = Vec::new();
    while let Some(message) = stream.message().await.map_err(refused)? {
        match message.update {
            Some(Update::Started(_)) if role == Role::Receiver && object.ends_at(&shared.local.borrow()) => {
                // The sender waits for this.
                let written = Written { result: Some(status::result(&shared.node, role, &[])), ..Written::default() };
                write(shared, object, &written).await?;
            }
            Some(Update::Observation(observation)) => observed.push(observation),
            Some(Update::Finished(_)) => break,
            _ => {}
        }
    }
    Ok(observed)
}
