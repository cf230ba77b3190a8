//! Ports of attachments, by `vswitch.v1.PortService`.
//!
//! Each port has the attachment's key among its external ids. By that the agent knows its own: it
//! never changes or removes another port.

use super::record::{Key, Record};
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use vswitch_proto::v1::port_config::Kind;
use vswitch_proto::v1::port_service_client::PortServiceClient;
use vswitch_proto::v1::{
    AddPortRequest, AfPacketPort, DeletePortRequest, ListPortsRequest, Port, PortConfig, VhostUserMode, VhostUserPort,
};

/// The external id of the agent's ports.
const OWNER: &str = "vswitch.io/cni";

/// A call. The switch has bounds of its own for devices.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Between two attempts while the switch starts.
const RETRY: Duration = Duration::from_millis(200);

/// Why there is no answer, or another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortError {
    /// The switch is not there, or not ready: later it may be.
    Away(String),
    /// It refuses.
    Refused(String),
}

impl PortError {
    pub(super) fn words(&self) -> &str {
        match self {
            Self::Away(words) | Self::Refused(words) => words,
        }
    }
}

/// The switch's ports.
#[derive(Debug)]
pub(super) struct Ports {
    socket: PathBuf,
}

impl Ports {
    pub(super) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    async fn client(&self) -> Result<PortServiceClient<Channel>, PortError> {
        let socket = self.socket.display();
        let away = |error: &dyn Error| PortError::Away(format!("{socket}: {}", innermost(error)));
        let endpoint = Endpoint::from_shared(format!("unix://{socket}")).map_err(|error| away(&error))?;
        let channel = endpoint.timeout(TIMEOUT).connect().await.map_err(|error| away(&error))?;
        // (A bridge of 1024 ports with external ids.)
        Ok(PortServiceClient::new(channel).max_decoding_message_size(64 << 20))
    }

    /// All ports of a bridge.
    pub(super) async fn list(&self, bridge: &str) -> Result<Vec<Port>, PortError> {
        let request = ListPortsRequest { bridge: bridge.to_owned() };
        let answer = self.client().await?.list_ports(request).await;
        answer.map(|answer| answer.into_inner().ports).map_err(|status| wrong(&status))
    }

    /// Adds the port of an attachment; waits until `deadline` for a switch that is not ready.
    pub(super) async fn add(&self, record: &Record, deadline: Instant) -> Result<(), PortError> {
        loop {
            match self.add_once(record).await {
                Err(PortError::Away(words)) if Instant::now() + RETRY >= deadline => {
                    return Err(PortError::Away(words));
                }
                Err(PortError::Away(_)) => tokio::time::sleep(RETRY).await,
                other => return other,
            }
        }
    }

    async fn add_once(&self, record: &Record) -> Result<(), PortError> {
        let kind = match &record.vhost {
            None => Kind::AfPacket(AfPacketPort { interface: record.host.clone() }),
            Some(vhost) => Kind::VhostUser(VhostUserPort {
                path: vhost.socket().display().to_string(),
                mode: VhostUserMode::Client.into(),
                queues: Some(vhost.queues),
                ..VhostUserPort::default()
            }),
        };
        let port = PortConfig {
            name: record.host.clone(),
            underlay: Some(false),
            external_ids: HashMap::from([(OWNER.to_owned(), record.key.to_string())]),
            kind: Some(kind),
            ..PortConfig::default()
        };
        let request = AddPortRequest { bridge: record.bridge.clone(), port: Some(port) };
        match self.client().await?.add_port(request).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::AlreadyExists => {
                let ports = self.list(&record.bridge).await?;
                let is_it = |port: &Port| owner(port).as_ref() == Some(&record.key) && name(port) == record.host;
                if ports.iter().any(is_it) { Ok(()) } else { Err(PortError::Refused(status.message().to_owned())) }
            }
            Err(status) => Err(wrong(&status)),
        }
    }

    /// Deletes a port of the agent's; one that is not there is deleted already.
    pub(super) async fn delete(&self, bridge: &str, name: &str) -> Result<(), PortError> {
        let request = DeletePortRequest { bridge: bridge.to_owned(), name: name.to_owned() };
        match self.client().await?.delete_port(request).await {
            Err(status) if status.code() != Code::NotFound => Err(wrong(&status)),
            _ => Ok(()),
        }
    }
}

/// The attachment that a port is of, if it is the agent's.
pub(super) fn owner(port: &Port) -> Option<Key> {
    let text = port.config.as_ref()?.external_ids.get(OWNER)?;
    let (container, interface) = text.split_once(':')?;
    Some(Key { container: container.to_owned(), interface: interface.to_owned() })
}

/// The name of a port.
pub(super) fn name(port: &Port) -> &str {
    port.config.as_ref().map_or("", |config| &config.name)
}

fn wrong(status: &Status) -> PortError {
    let words = status.message().to_owned();
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => PortError::Away(words),
        // It is stopping, or the port's device was not ready.
        Code::FailedPrecondition => PortError::Away(words),
        _ => PortError::Refused(words),
    }
}

fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
