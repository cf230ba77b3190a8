//! A task that follows one kind: it lists it by pages, and watches it from there on.
//!
//! `kube::runtime::watcher` lists, watches, and lists again when the server has forgotten (410).
//! The task begins a new list, too, when a watch says what cannot be read: events might be lost.

use super::object::Object;
use super::state::{Failure, Shared};
use super::table::Kind;
use super::told::Told;
use super::wire::{Backoff, Pace, Wire};
use futures_util::StreamExt;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::HashMap;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a page of a list may take.
const PAGE_MAX: Duration = Duration::from_secs(90);

/// Waits after failures.
const WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(30)];

/// How long to wait when there is too much.
const OVERFULL_WAIT: Duration = Duration::from_secs(60);

/// Letters of a reason.
const REASON_LEN_MAX: usize = 300;

/// UID and resourceVersion of an object: while they are the same it says the same.
type Version = (String, String);

/// What is known of a kind that is followed.
#[derive(Debug)]
pub(super) struct Follower {
    kind: &'static Kind,
    version: &'static str,
    shared: Arc<Shared>,
    /// Objects that the agent knows.
    known: HashMap<String, Version>,
    /// A list that has not ended.
    listing: Option<Listing>,
    was_listed: bool,
}

#[derive(Debug, Default)]
struct Listing {
    versions: HashMap<String, Version>,
    news: HashMap<String, Option<Told>>,
}

impl Follower {
    pub(super) fn new(kind: &'static Kind, version: &'static str, shared: Arc<Shared>) -> Self {
        Self { kind, version, shared, known: HashMap::new(), listing: None, was_listed: false }
    }

    /// Follows the kind for ever.
    pub(super) async fn run(mut self, client: Client) {
        let pace = Arc::new(Pace::default());
        let watched = Some((self.kind, Arc::clone(&self.shared)));
        let client = Wire { client, watched, pace: Arc::clone(&pace) }.into_client();
        let resource = ApiResource {
            group: self.kind.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.kind.api(self.version),
            kind: self.kind.kind.to_owned(),
            plural: self.kind.plural.to_owned(),
        };
        let api: Api<Object> = Api::all_with(client, &resource);
        let mut backoff = Backoff::new(WAITS[0], WAITS[1]);
        loop {
            self.listing = None;
            let wait = self.follow(&api, &mut backoff, &pace).await;
            tokio::time::sleep(wait.max(pace.left())).await;
        }
    }

    /// Follows it until it has to be listed again; how long to wait before.
    async fn follow(&mut self, api: &Api<Object>, backoff: &mut Backoff, pace: &Pace) -> Duration {
        let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
        loop {
            let event = if self.listing.is_some() || !self.was_listed {
                tokio::time::timeout(PAGE_MAX, events.next()).await
            } else {
                Ok(events.next().await)
            };
            match event {
                Ok(Some(Ok(event))) => {
                    let is_progress = !matches!(event, Event::Init);
                    if let Err(failure) = self.take(event) {
                        self.shared.overfull(self.kind, failure);
                        return OVERFULL_WAIT;
                    }
                    if is_progress {
                        backoff.reset();
                    }
                }
                Ok(Some(Err(error))) => {
                    self.shared.fails(self.kind, failure_of(&error));
                    let wait = backoff.next();
                    if is_relist(&error) {
                        return wait;
                    }
                    tokio::time::sleep(wait.max(pace.left())).await;
                }
                Ok(None) => return backoff.next(),
                Err(_) => {
                    let reason = format!("a page of the list takes longer than {} s", PAGE_MAX.as_secs());
                    self.shared.fails(self.kind, Failure { reason, is_refused: false });
                    return backoff.next();
                }
            }
        }
    }

    /// Takes over an event. A list counts when it has ended.
    pub(super) fn take(&mut self, event: Event<Object>) -> Result<(), Failure> {
        match event {
            Event::Init => self.listing = Some(Listing::default()),
            Event::InitApply(object) => {
                let (name, version) = named(&object);
                let is_same = !version.1.is_empty() && self.known.get(&name) == Some(&version);
                let told = (!is_same).then(|| self.told(object));
                let listing = self.listing.get_or_insert_default();
                listing.versions.insert(name.clone(), version);
                if told.is_some() {
                    listing.news.insert(name, told);
                }
                if listing.versions.len() > self.kind.max {
                    self.listing = None;
                    return Err(self.too_many());
                }
            }
            Event::InitDone => {
                let Listing { versions, mut news } = self.listing.take().unwrap_or_default();
                let gone = self.known.keys().filter(|name| !versions.contains_key(*name));
                news.extend(gone.map(|name| (name.clone(), None)));
                self.known = versions;
                self.shared.listed(self.kind, news, !self.was_listed);
                self.was_listed = true;
            }
            Event::Apply(object) => {
                let (name, version) = named(&object);
                if self.known.len() >= self.kind.max && !self.known.contains_key(&name) {
                    return Err(self.too_many());
                }
                self.known.insert(name.clone(), version);
                self.shared.changes(self.kind, name, Some(self.told(object)));
            }
            Event::Delete(object) => {
                let (name, _) = named(&object);
                self.known.remove(&name);
                self.shared.changes(self.kind, name, None);
            }
        }
        Ok(())
    }

    fn told(&self, object: Object) -> Told {
        Told::of(self.kind, self.version, object, self.shared.gives_ports)
    }

    fn too_many(&self) -> Failure {
        let reason = format!("there are more than {}, the most that an agent takes", self.kind.max);
        Failure { reason, is_refused: true }
    }
}

fn named(object: &Object) -> (String, Version) {
    (object.full_name(), (object.uid().to_owned(), object.version().to_owned()))
}

/// Whether events may be lost, so that a new list is needed.
pub(super) fn is_relist(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        // A connection that broke: the watch goes on from the last event.
        watcher::Error::WatchFailed(kube::Error::ReadEvents(_) | kube::Error::HyperError(_)) => false,
        watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_) | watcher::Error::NoResourceVersion => true,
        watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_) => false,
    }
}

pub(super) fn failure_of(error: &watcher::Error) -> Failure {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => failure(error),
        watcher::Error::WatchError(status) => answer(status.code, &status.message),
        watcher::Error::NoResourceVersion => {
            Failure { reason: "the server says no resourceVersion".to_owned(), is_refused: false }
        }
    }
}

/// Why a request failed, in a line.
pub(super) fn failure(error: &kube::Error) -> Failure {
    if let kube::Error::Api(status) = error {
        return answer(status.code, &status.message);
    }
    let (mut reason, mut inner) = (error.to_string(), error.source());
    while let Some(error) = inner {
        let text = error.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
        inner = error.source();
    }
    Failure { reason: shortened(&reason), is_refused: false }
}

fn answer(code: u16, message: &str) -> Failure {
    let is_refused = [401, 403].contains(&code);
    let hint = match code {
        401 => "; is the token, or the certificate, of the agent valid?",
        403 => "; its account needs the verbs list and watch for it",
        _ => "",
    };
    Failure { reason: format!("the server says {code}, {}{hint}", shortened(message.trim())), is_refused }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(REASON_LEN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
