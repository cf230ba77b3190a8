//! `NameService`.

use super::Observer;
use crate::services::status::{invalid, invalid_paths};
use crate::services::watch::until_stopped;
use std::sync::Arc;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_dataplane::limits::OBSERVE_NAMES_PER_CALL;
use vswitch_dataplane::port::FieldError;
use vswitch_observe::NamesError;
use vswitch_proto::antrea::v1;

/// [`v1::name_service_server::NameService`].
pub(crate) struct AddressNames(pub(crate) Arc<Observer>);

/// Refuses a call with more than it may have.
fn check(field: &'static str, count: usize) -> Result<(), Status> {
    if count <= OBSERVE_NAMES_PER_CALL {
        return Ok(());
    }
    let hint = format!("use at most {OBSERVE_NAMES_PER_CALL} in a call");
    Err(invalid(&[FieldError::new(field, format!("{count} are too many"), hint)]))
}

impl AddressNames {
    /// On a blocking thread: a call may have thousands of names.
    async fn with<R: Send + 'static>(&self, call: impl FnOnce(&Observer) -> R + Send + 'static) -> Result<R, Status> {
        let observer = Arc::clone(&self.0);
        self.0.control.read(move |_| call(&observer)).await
    }
}

#[tonic::async_trait]
impl v1::name_service_server::NameService for AddressNames {
    type ListNamesStream = BoxStream<v1::ListNamesResponse>;

    async fn apply_names(
        &self,
        request: Request<v1::ApplyNamesRequest>,
    ) -> Result<Response<v1::ApplyNamesResponse>, Status> {
        let v1::ApplyNamesRequest { names, round, complete } = request.into_inner();
        check("names", names.len())?;
        let applied = self.with(move |observer| observer.names.apply(names, round, complete)).await?;
        let (problems, kept) = applied.map_err(|NamesError { index, what, limit }| {
            let text =
                format!("names[{index}]: {what}: the limit of {limit} is reached; the names before it are taken");
            Status::resource_exhausted(text)
        })?;
        Ok(Response::new(v1::ApplyNamesResponse { problems, kept: u32::try_from(kept).unwrap_or(u32::MAX) }))
    }

    async fn delete_names(
        &self,
        request: Request<v1::DeleteNamesRequest>,
    ) -> Result<Response<v1::DeleteNamesResponse>, Status> {
        let addresses = request.into_inner().addresses;
        check("addresses", addresses.len())?;
        let deleted = self.with(move |observer| observer.names.delete(&addresses)).await?;
        deleted.map_err(|wrong| {
            let wrong: Vec<_> = wrong.into_iter().map(|(at, problem)| (format!("addresses[{at}]"), problem)).collect();
            invalid_paths(wrong.iter().map(|(field, problem)| (field.as_str(), problem.as_str())))
        })?;
        Ok(Response::new(v1::DeleteNamesResponse {}))
    }

    async fn list_names(
        &self,
        request: Request<v1::ListNamesRequest>,
    ) -> Result<Response<Self::ListNamesStream>, Status> {
        let pod = request.into_inner().pod;
        if !pod.is_empty() && !pod.contains('/') {
            let problem = format!("{pod:?} has no namespace");
            return Err(invalid(&[FieldError::new("pod", problem, "write \"namespace/name\"")]));
        }
        let observer = Arc::clone(&self.0);
        let fill = move |messages: tokio::sync::mpsc::Sender<_>| async move {
            let mut behind = None;
            while let Some((names, last)) = observer.names.list(behind, &pod) {
                behind = Some(last);
                if !names.is_empty() && messages.send(Ok(v1::ListNamesResponse { names })).await.is_err() {
                    return;
                }
            }
        };
        Ok(Response::new(until_stopped(self.0.control.stopping.clone(), fill)))
    }
}
