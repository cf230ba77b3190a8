//! `ControlService`.

use super::api::Control;
use crate::rights::{ListenerKind, ListenerState, ServerState, TlsState};
use tonic::{Request, Response, Status};
use vswitch_control::config::Role;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/control.proto`.
pub(crate) struct Listening(pub(crate) Control);

const fn role(role: Role) -> v1::Role {
    match role {
        Role::Read => v1::Role::Read,
        Role::Operate => v1::Role::Operate,
        Role::Admin => v1::Role::Admin,
    }
}

fn certificate(tls: &TlsState) -> v1::ListenerCertificate {
    let certificate = tls.certificate.lock().clone();
    v1::ListenerCertificate {
        file: certificate.file.display().to_string(),
        not_after: certificate.not_after,
        reloads: certificate.reloads,
        error: certificate.error,
    }
}

fn listener(state: &ListenerState) -> v1::Listener {
    let (connections, accepted, denied) = state.counts();
    let refusals = state.tls.iter().flat_map(TlsState::refusals);
    let refusals = refusals.map(|(reason, count)| v1::HandshakeRefusals { reason: reason.word().to_owned(), count });
    v1::Listener {
        name: state.name.clone(),
        kind: match state.kind {
            ListenerKind::Unix => v1::ListenerKind::Unix,
            ListenerKind::Tls => v1::ListenerKind::Tls,
        }
        .into(),
        role: role(state.role).into(),
        mapped: state.is_mapped,
        connections: u32::try_from(connections).unwrap_or(u32::MAX),
        accepted,
        denied,
        certificate: state.tls.as_ref().map(certificate),
        refusals: refusals.collect(),
    }
}

/// What is told of the server's listeners.
pub(super) fn listeners(server: &ServerState) -> v1::ListListenersResponse {
    let listeners = server.listeners.iter().map(|state| listener(state)).collect();
    v1::ListListenersResponse { listeners, audit_lost: server.audit.lost() }
}

#[tonic::async_trait]
impl v1::control_service_server::ControlService for Listening {
    async fn list_listeners(
        &self,
        _: Request<v1::ListListenersRequest>,
    ) -> Result<Response<v1::ListListenersResponse>, Status> {
        Ok(Response::new(listeners(&self.0.server)))
    }
}
