//! How the services call the switch.

use super::status::{clip, status};
use crate::rights::{Identity, ServerState, current_request};
use crate::shares::{Limits, Peer, Pool, Shares, Taken, current};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::{Extensions, Status};
use vswitch_control::running::Running;
use vswitch_control::{Health, SwitchApi, SwitchError};
use vswitch_dataplane::meter::Rates;

/// Calls of the switch at a time that read, and as many that change something. They block, and
/// changes wait for each other anyway: more threads would only wait. Reads do not wait behind
/// changes, which wait for workers and devices.
pub(crate) const CALLS_MAX: usize = 8;

/// Of them, calls of one user, and those that only root may have.
const CALLS: Limits = Limits { total: CALLS_MAX, share: 6, reserve: 1 };

/// A call of the switch, which keeps its answer.
type Call = Box<dyn FnOnce(&dyn SwitchApi) + Send>;

/// The way from the services to the switch.
#[derive(Clone)]
pub(crate) struct Control {
    switch: Arc<dyn SwitchApi>,
    reads: Arc<Pool>,
    changes: Arc<Pool>,
    shares: Arc<Shares>,
    /// Is told of changes, to save them.
    running: Arc<Running>,
    /// Its listeners and its audit.
    pub(super) server: Arc<ServerState>,
    /// Becomes true when the server is to stop: streams without an end of their own end then.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Control {
    pub(crate) fn new(
        switch: Arc<dyn SwitchApi>,
        shares: Arc<Shares>,
        running: Arc<Running>,
        server: Arc<ServerState>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let [reads, changes] = [(); 2].map(|()| Arc::new(Pool::new(CALLS)));
        Self { switch, reads, changes, shares, running, server, stopping }
    }

    /// What is in force may have changed.
    pub(super) fn touch(&self) {
        self.running.touch();
    }

    /// Adds room for a message to that of the transaction or sync that is being collected, or says
    /// that there is none.
    pub(super) fn take_room(&self, room: &mut Option<Taken>, len: usize) -> Result<(), Status> {
        let taken = self.shares.collecting.try_take(current(), len).map_err(|full| {
            let text = format!("bytes of transactions being collected: {full}; write less at a time, or try again");
            Status::resource_exhausted(text)
        })?;
        match room {
            Some(room) => room.merge(taken),
            None => *room = Some(taken),
        }
        Ok(())
    }

    /// What one port may cost a worker.
    pub(crate) fn slow_path(&self) -> Rates {
        self.switch.slow_path()
    }

    /// The server itself.
    pub(crate) fn server(&self) -> &Arc<ServerState> {
        &self.server
    }

    /// How the switch is: on a blocking thread, past the queue of calls.
    pub(crate) async fn health(&self) -> Result<Health, Status> {
        let switch = Arc::clone(&self.switch);
        let health = tokio::task::spawn_blocking(move || switch.health()).await;
        let health = health.map(|health| self.server.health(health));
        health.map_err(|error| Status::internal(format!("the call failed inside the switch: {error}; report it")))
    }

    /// Asks the switch something, on a blocking thread. What waits for a worker or a device is
    /// [`Control::write`]'s.
    pub(crate) async fn read<R, F>(&self, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> R + Send + 'static,
    {
        self.answer(&self.reads, call).await
    }

    /// Makes the switch do something, on a blocking thread.
    pub(super) async fn write<R, F>(&self, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> R + Send + 'static,
    {
        self.answer(&self.changes, call).await
    }

    async fn answer<R, F>(&self, pool: &Arc<Pool>, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> R + Send + 'static,
    {
        // Locked when there is an answer, not during the call
        let answer = Arc::new(Mutex::new(None));
        let place = Arc::clone(&answer);
        self.run(pool, Box::new(move |switch| *place.lock() = Some(call(switch)))).await?;
        let answer = answer.lock().take();
        answer.ok_or_else(|| Status::internal("the call ended without an answer; report it"))
    }

    /// Runs a call on a blocking thread. One type of call for all of them, since the runtime's code
    /// is compiled once for each.
    async fn run(&self, pool: &Arc<Pool>, call: Call) -> Result<(), Status> {
        let permit = pool.take(current(), 1).await;
        let switch = Arc::clone(&self.switch);
        let done = tokio::task::spawn_blocking(move || {
            // Held by the call, not by the handler, which the client may cancel.
            let _permit = permit;
            call(&*switch);
        });
        done.await.map_err(|error| Status::internal(format!("the call failed inside the switch: {error}; report it")))
    }

    /// Asks the switch something that can fail.
    pub(super) async fn try_read<R, F>(&self, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> Result<R, SwitchError> + Send + 'static,
    {
        self.read(call).await?.map_err(|error| status(&error))
    }

    /// Changes the switch, and logs who asked for it and how it went.
    pub(super) async fn change<R, F>(&self, asked: Asked, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> Result<R, SwitchError> + Send + 'static,
    {
        let running = Arc::clone(&self.running);
        self.write(move |switch| {
            let result = call(switch);
            asked.log(result.as_ref().err().map(ToString::to_string).as_deref());
            // Late changes are made, too.
            running.touch();
            result
        })
        .await?
        .map_err(|error| status(&error))
    }

    /// Asks the switch for something that is to be known, and logs who did and how it went.
    pub(super) async fn use_logged<R, F>(&self, asked: Asked, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> Result<R, SwitchError> + Send + 'static,
    {
        self.write(move |switch| {
            let result = call(switch);
            asked.log_use(result.as_ref().err().map(ToString::to_string).as_deref());
            result
        })
        .await?
        .map_err(|error| status(&error))
    }
}

/// Who asked for what.
pub(super) struct Asked {
    rpc: &'static str,
    subject: String,
    uid: Option<u32>,
    pid: Option<i32>,
    /// Of a client without user and process.
    principal: Option<String>,
    /// Id of the call.
    request: Option<String>,
}

impl Asked {
    /// Takes the peer's credentials from the connection; names are quoted and cut, since anyone may
    /// have chosen them.
    pub(super) fn new(rpc: &'static str, extensions: &Extensions, names: &[&str]) -> Self {
        let identity = extensions.get::<Peer>().map(|peer| &*peer.identity);
        let names: Vec<String> = names.iter().map(|name| format!("{:?}", clip(name, 64))).collect();
        let subject = names.join(" ");
        let request = current_request().map(|request| {
            request.set_names(&subject);
            request.id.clone()
        });
        let (uid, pid) = (identity.and_then(Identity::uid), identity.and_then(Identity::pid));
        let principal = identity.and_then(Identity::remote);
        Self { rpc, subject, uid, pid, principal, request }
    }

    /// Logs how a change went. A client can be refused as often as it likes. An empty `left_out`
    /// limits the lines of a second, see the daemon's log.
    pub(super) fn log(&self, error: Option<&str>) {
        let Self { rpc, subject, uid, pid, principal, request } = self;
        match error {
            None => tracing::info!(rpc, subject, uid, pid, principal, request, "changed"),
            Some(error) => {
                let error = clip(error, 512);
                let left_out = tracing::field::Empty;
                tracing::warn!(rpc, subject, uid, pid, principal, request, %error, left_out, "refused");
            }
        }
    }

    /// Logs how a call went that changes nothing and is to be known: it sees packets or
    /// connections, or sends packets. A client may make such calls for each packet, so their lines
    /// are limited, too.
    pub(super) fn log_use(&self, error: Option<&str>) {
        let Self { rpc, subject, uid, pid, principal, request } = self;
        match error {
            None => {
                let left_out = tracing::field::Empty;
                tracing::info!(rpc, subject, uid, pid, principal, request, left_out, "done");
            }
            Some(_) => self.log(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_log_are_quoted_and_cut() {
        let long = "x".repeat(1 << 20);
        let asked = Asked::new("AddPort", &Extensions::new(), &["br0\nfake=1", &long]);
        assert!(asked.subject.starts_with(r#""br0\nfake=1" "xxx"#), "{:?}", asked.subject);
        assert!(asked.subject.len() < 100, "a name of 1 MiB became {} bytes", asked.subject.len());
    }
}
