//! `DummyService`, for tests.

use super::api::Control;
use super::status::status;
use super::watch::until_stopped;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};
use vswitch_dataplane::port::dummy::Sent;
use vswitch_proto::v1;

/// Steps that a warp may have: a day in seconds, ten times over.
const STEPS_MAX: u64 = 864_000;

/// See `proto/vswitch/v1/dummy.proto`.
pub(crate) struct Dummies(pub(crate) Control);

type Message = Result<v1::ReceiveResponse, Status>;

fn sent(sent: Sent) -> v1::SentPacket {
    v1::SentPacket { port: sent.port.to_string(), packet: sent.packet }
}

/// One packet after the other, until the client has no more, goes away, or a packet cannot be
/// handed in.
async fn receive(control: Control, mut requests: Streaming<v1::ReceiveRequest>, messages: mpsc::Sender<Message>) {
    loop {
        let answer = match requests.message().await {
            Ok(Some(v1::ReceiveRequest { port, packet })) => {
                let received = control.write(move |switch| switch.dummy_receive(&port, &packet)).await;
                received.and_then(|received| received.map_err(|error| status(&error)))
            }
            Ok(None) => return,
            Err(status) => Err(status),
        };
        let answer = answer.map(|all| v1::ReceiveResponse { sent: all.into_iter().map(sent).collect() });
        let failed = answer.is_err();
        if messages.send(answer).await.is_err() || failed {
            return;
        }
    }
}

#[tonic::async_trait]
impl v1::dummy_service_server::DummyService for Dummies {
    type ReceiveStream = BoxStream<v1::ReceiveResponse>;

    async fn receive(
        &self,
        request: Request<Streaming<v1::ReceiveRequest>>,
    ) -> Result<Response<Self::ReceiveStream>, Status> {
        let (control, requests) = (self.0.clone(), request.into_inner());
        let answering = |messages| receive(control, requests, messages);
        Ok(Response::new(until_stopped(self.0.stopping.clone(), answering)))
    }

    async fn set_link(&self, request: Request<v1::SetLinkRequest>) -> Result<Response<v1::SetLinkResponse>, Status> {
        let v1::SetLinkRequest { port, up } = request.into_inner();
        self.0.try_read(move |switch| switch.dummy_link(&port, up)).await?;
        Ok(Response::new(v1::SetLinkResponse {}))
    }

    async fn stop_time(&self, _: Request<v1::StopTimeRequest>) -> Result<Response<v1::StopTimeResponse>, Status> {
        self.0.try_read(|switch| switch.time_stop()).await?;
        Ok(Response::new(v1::StopTimeResponse {}))
    }

    async fn warp_time(&self, request: Request<v1::WarpTimeRequest>) -> Result<Response<v1::WarpTimeResponse>, Status> {
        let v1::WarpTimeRequest { milliseconds, step_milliseconds } = request.into_inner();
        let step = if step_milliseconds == 0 { milliseconds } else { step_milliseconds };
        if step != 0 && milliseconds.div_ceil(step) > STEPS_MAX {
            let problem = format!("{milliseconds} ms are too many steps of {step} ms");
            let error = vswitch_dataplane::port::FieldError::new("step_milliseconds", problem, "make longer steps");
            return Err(super::status::invalid(&[error]));
        }
        let warp = move |switch: &dyn vswitch_control::SwitchApi| {
            let mut left = milliseconds;
            while left > 0 {
                let now = step.min(left);
                switch.time_warp(now)?;
                left -= now;
            }
            Ok(())
        };
        self.0.try_read(warp).await?;
        Ok(Response::new(v1::WarpTimeResponse {}))
    }

    async fn panic(&self, request: Request<v1::PanicRequest>) -> Result<Response<v1::PanicResponse>, Status> {
        let v1::PanicRequest { port, sending } = request.into_inner();
        self.0.try_read(move |switch| switch.dummy_panic(&port, sending)).await?;
        Ok(Response::new(v1::PanicResponse {}))
    }

    async fn set_cache(&self, request: Request<v1::SetCacheRequest>) -> Result<Response<v1::SetCacheResponse>, Status> {
        let v1::SetCacheRequest { enabled, flush } = request.into_inner();
        let set = move |switch: &dyn vswitch_control::SwitchApi| {
            enabled.into_iter().for_each(|on| switch.cache_enable(on));
            if flush {
                switch.cache_flush();
            }
        };
        self.0.read(set).await?;
        Ok(Response::new(v1::SetCacheResponse {}))
    }
}
