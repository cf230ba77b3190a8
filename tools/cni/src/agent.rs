//! Calls of `vswitch-agent`.

use crate::config::Config;
use crate::environment::Call;
use crate::error::CniError;
use std::error::Error;
use std::future::Future;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use vswitch_proto::agent::v1::cni_service_client::CniServiceClient;
use vswitch_proto::agent::v1::{AttachmentRef, PodRef};

/// For connecting, and for each call. The agent gives up by itself before.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The agent.
pub(crate) type Agent = CniServiceClient<Channel>;

/// Connects. Error 11 if nobody listens.
pub(crate) async fn connect(config: &Config) -> Result<Agent, CniError> {
    let socket = config.socket.display();
    let away = |reason: String| {
        CniError::again(format!("the agent cannot be reached: {socket}: {reason}"))
            .hint("is vswitch-agent running on this Node, with --cni?")
    };
    let endpoint = Endpoint::from_shared(format!("unix://{socket}")).map_err(|error| away(innermost(&error)))?;
    match tokio::time::timeout(TIMEOUT, endpoint.connect()).await {
        Err(_) => Err(away("no answer".to_owned())),
        Ok(Err(error)) => Err(away(innermost(&error))),
        Ok(Ok(channel)) => Ok(CniServiceClient::new(channel)),
    }
}

/// Waits for an answer. Error 11 if none comes.
pub(crate) async fn answer<T>(call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, CniError> {
    match tokio::time::timeout(TIMEOUT, call).await {
        Err(_) => Err(CniError::again("the agent has not answered within 30 s")),
        Ok(Err(status)) => Err(CniError::again(format!("the agent cannot be asked: {}", status.message()))),
        Ok(Ok(response)) => Ok(response.into_inner()),
    }
}

/// The interface that a call is about.
pub(crate) fn attachment(call: &Call) -> Option<AttachmentRef> {
    Some(AttachmentRef { container: call.container.clone(), interface: call.interface.clone() })
}

/// The Pod that a call is about.
pub(crate) fn pod(call: &Call) -> Option<PodRef> {
    let pod = call.pod.clone();
    Some(PodRef { namespace: pod.namespace, name: pod.name, uid: pod.uid })
}

/// The reason behind reasons: of a connection, what the kernel said.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
