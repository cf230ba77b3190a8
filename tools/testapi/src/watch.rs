//! Watches: the changes of the history behind a version, as a stream of lines.
//!
//! A watch reads the history whenever the store's version rises, and keeps the version that it has
//! read up to. So it holds no queue. A watch whose place fell out of the history ends with 410.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::body::Broken;
use crate::cause::Cause;
use crate::error::ApiError;
use crate::hurts::Cut;
use crate::read;
use crate::route::Query;
use crate::selector::Selectors;
use crate::state::{Shared, State};
use crate::store::Change;
use crate::target::Target;

type Lines = mpsc::Sender<Result<Bytes, Broken>>;

#[derive(Debug)]
pub(crate) struct Watch {
    target: Target,
    selectors: Selectors,
    seen: u64,
    bookmarks: bool,
    timeout: Option<Duration>,
    /// Lines that come before all changes.
    first: Vec<Bytes>,
}

fn line(what: &str, object: &Value) -> Bytes {
    let mut text = json!({ "type": what, "object": object }).to_string();
    text.push('\n');
    Bytes::from(text)
}

impl Watch {
    /// An expired version is an event of the stream, as Kubernetes' cache answers it.
    pub(crate) fn begin(state: &mut State, target: &Target, query: &Query) -> Result<Self, ApiError> {
        let selectors = Selectors::parse(&target.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
        let asked = read::version(query.get("resourceVersion"))?;
        let seconds = query.get("timeoutSeconds").parse().ok().filter(|seconds| *seconds > 0);
        let mut watch = Self {
            target: target.clone(),
            selectors,
            seen: asked.unwrap_or(state.store.revision()),
            bookmarks: query.is_set("allowWatchBookmarks"),
            timeout: seconds.map(Duration::from_secs),
            first: Vec::new(),
        };
        let streaming = query.get("sendInitialEvents");
        let streamed = streaming_list(state, query, &watch)?;
        if asked.is_none() && streaming != "false" || streamed {
            watch.seen = state.store.revision();
            watch.first = watch.initial(state);
            if streamed {
                watch.first.push(watch.bookmark(true));
            }
        }
        match state.hurts.expire_watch() {
            Some(true) => return Err(ApiError::expired("too old resource version")),
            Some(false) => watch.seen = 0,
            None => {}
        }
        Ok(watch)
    }

    fn initial(&self, state: &State) -> Vec<Bytes> {
        let kind = &self.target.kind;
        let namespace = &self.target.namespace;
        let all = state.store.all(&kind.bucket());
        let inside = all.filter(|(name, object)| {
            (namespace.is_empty() || name.0 == *namespace)
                && self.selectors.matches(object)
                && !state.hurts.is_held(&kind.resource(), name)
        });
        inside.map(|(_, object)| line("ADDED", &self.target.present(object))).collect()
    }

    fn bookmark(&self, initial: bool) -> Bytes {
        let kind = &self.target.kind;
        let mut metadata = json!({ "resourceVersion": self.seen.to_string(), "creationTimestamp": null });
        if initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let api_version = kind.api_version(&self.target.version);
        line("BOOKMARK", &json!({ "kind": kind.kind, "apiVersion": api_version, "metadata": metadata }))
    }

    /// The lines since the last call. False: the stream ends behind them.
    fn next(&mut self, state: &State) -> (Vec<Bytes>, bool) {
        let mut lines = std::mem::take(&mut self.first);
        if state.hurts.paused {
            self.first = lines;
            return (Vec::new(), true);
        }
        match state.store.since(self.seen) {
            Ok(changes) => lines.extend(changes.filter_map(|change| self.event(change))),
            Err(error) => {
                lines.push(line("ERROR", &error.body()));
                return (lines, false);
            }
        }
        self.seen = state.store.revision();
        let kind = &self.target.kind;
        (lines, state.kinds.find(&kind.group, &self.target.version, &kind.plural).is_some())
    }

    fn event(&self, change: &Change) -> Option<Bytes> {
        let namespace = &self.target.namespace;
        let other = !namespace.is_empty() && change.name.0 != *namespace;
        if other || change.bucket != self.target.kind.bucket() {
            return None;
        }
        let chosen = |object: &Option<Arc<Value>>| {
            object.as_ref().filter(|object| self.selectors.matches(object)).map(|object| self.target.present(object))
        };
        match (chosen(&change.before), chosen(&change.after)) {
            (None, Some(after)) => Some(line("ADDED", &after)),
            (Some(_), Some(after)) => Some(line("MODIFIED", &after)),
            (Some(mut before), None) => {
                before["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                Some(line("DELETED", &before))
            }
            (None, None) => None,
        }
    }

    /// Writes lines until the client, the timeout or a cut ends it.
    pub(crate) async fn run(mut self, shared: Arc<Shared>, lines: Lines, every: Duration) {
        let mut revision = shared.revision.subscribe();
        let mut cut = shared.cut.subscribe();
        let mut asked = shared.bookmark.subscribe();
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        let timeout = self.timeout;
        let ends = async move {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(ends);
        let mut bookmark = false;
        loop {
            let (ready, goes_on, silent) = {
                let state = shared.lock();
                let (ready, goes_on) = self.next(&state);
                (ready, goes_on, state.hurts.paused)
            };
            for line in ready {
                if lines.send(Ok(line)).await.is_err() {
                    return;
                }
            }
            if !goes_on {
                return;
            }
            // Behind what was ready: it names the version that the store had when asked.
            if bookmark && !silent {
                self.send_bookmark(&lines).await;
                bookmark = false;
            }
            bookmark |= tokio::select! {
                () = lines.closed() => return,
                changed = revision.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    false
                }
                _ = cut.changed() => {
                    let how = cut.borrow_and_update().1;
                    return send_cut(&lines, how).await;
                }
                _ = asked.changed() => true,
                _ = ticks.tick() => true,
                () = &mut ends => {
                    self.send_bookmark(&lines).await;
                    return;
                }
            };
        }
    }

    async fn send_bookmark(&self, lines: &Lines) {
        if self.bookmarks {
            // A client that is gone is seen by the loop.
            let _ = lines.send(Ok(self.bookmark(false))).await;
        }
    }
}

async fn send_cut(lines: &Lines, how: Cut) {
    let sent = match how {
        Cut::Clean => return,
        Cut::Expired => lines.send(Ok(line("ERROR", &ApiError::expired("too old resource version").body()))).await,
        Cut::MidLine => match lines.send(Ok(Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"apiV"))).await {
            Ok(()) => lines.send(Err(Broken)).await,
            gone => gone,
        },
    };
    // A client that is gone has no need of it.
    let _ = sent;
}

/// Whether the client asked for a list within the watch, and may.
fn streaming_list(state: &State, query: &Query, watch: &Watch) -> Result<bool, ApiError> {
    let kind = &watch.target.kind;
    let refuse = |field: &str, why: &str| {
        let cause = Cause::forbidden(field, why);
        let mut error = ApiError::invalid(kind, "", &[cause]);
        error.message = error.message.replacen(&kind.kind, "ListOptions.meta.k8s.io", 1);
        error
    };
    match query.get("sendInitialEvents") {
        "" => Ok(false),
        _ if !state.options.streaming_lists => {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            Err(refuse("sendInitialEvents", why))
        }
        _ if query.get("resourceVersionMatch") != "NotOlderThan" => {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            Err(refuse("resourceVersionMatch", why))
        }
        "true" => Ok(true),
        _ => Ok(false),
    }
}
