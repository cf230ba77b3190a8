//! How a test hurts its clients: cuts, expired versions, refusals, gates, an absence, a restart.
//!
//! [`Hurt`] is the handle in the process. The endpoint `/testapi/hurt` takes the same as JSON, one
//! field for each method (`crate::control`).

use std::sync::Arc;

use crate::hurts::{Answer, Cut, Gate, Hurts};
use crate::state::Shared;

/// Hurts the clients of a server.
#[derive(Debug, Clone)]
pub struct Hurt {
    pub(crate) shared: Arc<Shared>,
}

impl Hurt {
    fn with(&self, run: impl FnOnce(&mut Hurts)) {
        run(&mut self.shared.lock().hurts);
    }

    /// Cuts all watches that are open.
    pub fn cut_watches(&self, cut: Cut) {
        self.shared.cut.send_modify(|(count, how)| {
            *count += 1;
            *how = cut;
        });
    }

    /// The next watches are told that their version is too old, by HTTP status or by an event.
    pub fn expire_watches(&self, times: u64, by_http: bool) {
        self.with(|hurts| {
            hurts.expired_watches = times;
            hurts.expired_by_http = by_http;
        });
    }

    /// Forgets the history: a watch from an older version, and a page of an older list, get 410.
    pub fn compact(&self) {
        self.shared.change(|state| {
            state.store.skip(1);
            state.store.compact();
        });
    }

    /// Answers requests wrongly.
    pub fn answer(&self, answer: Answer) {
        self.with(|hurts| hurts.answers.push(answer));
    }

    /// 429 with `Retry-After` for the next requests.
    pub fn too_many(&self, times: u64, retry_after: u64) {
        let (verb, resource) = (String::new(), String::new());
        self.answer(Answer { times, code: 429, retry_after: Some(retry_after), verb, resource });
    }

    /// Answers rightly again.
    pub fn answer_rightly(&self) {
        self.with(|hurts| hurts.answers.clear());
    }

    /// Lists of a resource (`plural.group`; empty: all) wait until [`Self::release_lists`].
    pub fn hold_lists(&self, resource: &str) {
        self.with(|hurts| {
            hurts.gates.insert(resource.to_owned(), Gate::new());
        });
    }

    /// Lets lists through.
    pub fn release_lists(&self, resource: &str) {
        self.with(|hurts| {
            if let Some(gate) = hurts.gates.remove(resource) {
                gate.open();
            }
        });
    }

    /// How many lists came to the gate.
    pub fn lists_held(&self, resource: &str) -> usize {
        let gate = self.shared.lock().hurts.gate(resource);
        gate.map_or(0, |gate| gate.waiting())
    }

    /// Refuses connections and cuts those that are open. Returns when the port is closed.
    pub fn away(&self) {
        self.shared.away.send_replace(true);
        self.wait_listening(false);
        self.cut_connections();
    }

    /// Accepts connections again. Returns when the port is open.
    pub fn back(&self) {
        self.shared.away.send_replace(false);
        self.wait_listening(true);
    }

    fn wait_listening(&self, wanted: bool) {
        let mut listening = self.shared.listening.lock();
        while *listening != wanted {
            self.shared.listening_changed.wait(&mut listening);
        }
    }

    /// Cuts all connections that are open. Returns when they are closed.
    pub fn cut_connections(&self) {
        let mut open = self.shared.open.lock();
        let mut now = 0;
        self.shared.connections.send_modify(|count| {
            *count += 1;
            now = *count;
        });
        while open.keys().any(|begun| *begun < now) {
            self.shared.open_changed.wait(&mut open);
        }
    }

    /// Cuts all connections and forgets the history. Objects stay.
    pub fn restart(&self) {
        self.compact();
        self.cut_connections();
    }

    /// Leaves a resource (`plural.group`) out of discovery. It is still served.
    pub fn hide(&self, resource: &str) {
        self.with(|hurts| {
            hurts.hidden.insert(resource.to_owned());
        });
    }

    /// Puts a resource back into discovery.
    pub fn show(&self, resource: &str) {
        self.with(|hurts| {
            hurts.hidden.remove(resource);
        });
    }

    /// Answers a verb of a resource (`plural.group`, or with `/status`) with 403.
    pub fn refuse(&self, verb: &str, resource: &str) {
        self.with(|hurts| {
            hurts.refused.insert((verb.to_owned(), resource.to_owned()));
        });
    }

    /// Takes [`Self::refuse`] back.
    pub fn permit(&self, verb: &str, resource: &str) {
        self.with(|hurts| {
            hurts.refused.remove(&(verb.to_owned(), resource.to_owned()));
        });
    }

    /// Leaves an object out of lists, and of the objects that a watch begins with.
    pub fn hold_back(&self, resource: &str, namespace: &str, name: &str) {
        let held = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.with(|hurts| {
            hurts.held.insert(held);
        });
    }

    /// Takes [`Self::hold_back`] back.
    pub fn give_back(&self, resource: &str, namespace: &str, name: &str) {
        let held = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.with(|hurts| {
            hurts.held.remove(&held);
        });
    }

    /// Watches stay open and say nothing.
    pub fn pause_watches(&self) {
        self.with(|hurts| hurts.paused = true);
    }

    /// Watches go on with what happened meanwhile.
    pub fn resume_watches(&self) {
        self.with(|hurts| hurts.paused = false);
        self.shared.revision.send_modify(|_| ());
    }

    /// Sends a bookmark to each watch that asked for them.
    pub fn bookmark(&self) {
        self.shared.bookmark.send_modify(|count| *count += 1);
    }

    /// Takes versions that no object shows, as other users of etcd do.
    pub fn skip_versions(&self, versions: u64) {
        self.shared.change(|state| state.store.skip(versions));
    }
}
