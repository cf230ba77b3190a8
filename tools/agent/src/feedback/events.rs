//! Events on objects that are refused, as `kubectl describe` shows them.
//!
//! **Design**: the name of an Event is a hash of its object's UID, its reason and its text. Agents
//! of all Nodes that refuse an object alike find one Event, and nobody writes it twice. An Event
//! whose last time is older than [`REFRESH`] is counted up. API servers forget it after an hour.
//!
//! **Limits**: [`BURST_MAX`] Events in a row, [`OF_OBJECT_MAX`] for an object, [`OBJECTS_MAX`]
//! objects. Texts are cut at [`NOTE_LEN_MAX`] bytes.

use super::Refusal;
use crate::source::cluster::ObjectRef;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// Events in a row: the API server has others to serve.
pub(super) const BURST_MAX: usize = 50;

/// Events of one object: the first ones say what to do.
const OF_OBJECT_MAX: usize = 8;

/// Objects with Events.
const OBJECTS_MAX: usize = 1000;

/// Bytes of a text: what the API server takes (Event API, `note`).
const NOTE_LEN_MAX: usize = 1024;

/// An Event is counted up after this time. API servers keep one for an hour by default.
const REFRESH: Duration = Duration::from_secs(30 * 60);

/// What the server refuses is written again after this time: a namespace may have a quota of
/// Events.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// Refusals in a turn after which the rest waits for the next one.
const REFUSALS_MAX: usize = 8;

/// Bytes of a name before the hash: with it, it is a DNS subdomain, which has 253 at most.
const NAME_LEN_MAX: usize = 200;

/// What the agent calls itself.
const COMPONENT: &str = "vswitch-agent";

/// Events of refusals.
pub(super) struct Events {
    client: Client,
    node: String,
    /// When each one is due again.
    told: HashMap<(ObjectRef, Refusal), Instant>,
    /// The last turn left some.
    has_more: bool,
}

impl Events {
    pub(super) fn new(client: Client, node: &str) -> Self {
        Self { client, node: node.to_owned(), told: HashMap::new(), has_more: false }
    }

    /// Whether there are some that wait for the next turn.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Writes what the cluster has not been told.
    pub(super) async fn follow(&mut self, refusals: &BTreeMap<ObjectRef, BTreeSet<Refusal>>) -> Result<(), Error> {
        let wanted = refusals.iter().take(OBJECTS_MAX);
        let wanted =
            wanted.flat_map(|(object, of)| of.iter().take(OF_OBJECT_MAX).map(move |refusal| (object, refusal)));
        let wanted: BTreeSet<_> = wanted.map(|(object, refusal)| (object.clone(), refusal.clone())).collect();
        self.told.retain(|key, _| wanted.contains(key));
        let is_due = |key: &(ObjectRef, Refusal)| self.told.get(key).is_none_or(|due| *due <= Instant::now());
        let mut due: Vec<_> = wanted.into_iter().filter(is_due).collect();
        self.has_more = due.len() > BURST_MAX;
        due.truncate(BURST_MAX);
        let (mut refusals, mut first) = (0, None);
        for key in due {
            let pause = match self.write(&key.0, &key.1).await {
                Ok(()) => REFRESH,
                // The object's namespace is going, or the text is not taken: nothing is to be done.
                Err(Error::Api(status)) if [404, 422].contains(&status.code) => REFRESH,
                Err(Error::Api(status)) if status.code == 403 && status.message.contains("being terminated") => REFRESH,
                // One that is refused holds up no other one.
                Err(error @ Error::Api(_)) if is_refused(&error) && refusals < REFUSALS_MAX => {
                    refusals += 1;
                    first = first.or(Some(error));
                    REFUSED_PAUSE
                }
                Err(error) => return Err(first.unwrap_or(error)),
            };
            self.told.insert(key, Instant::now() + pause);
        }
        first.map_or(Ok(()), Err)
    }

    async fn write(&self, object: &ObjectRef, refusal: &Refusal) -> Result<(), Error> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Event"));
        let namespace = if object.namespace.is_empty() { "default" } else { &object.namespace };
        let events: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let name = name(object, refusal);
        let now = Timestamp::now();
        let mut event = DynamicObject::new(&name, &resource).within(namespace);
        event.data = self.data(object, refusal, now);
        match events.create(&PostParams::default(), &event).await {
            Err(Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {}
            result => return result.map(|_| ()),
        }
        let old = events.get(&name).await?;
        let last =
            old.data.get("lastTimestamp").and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
        let refresh = SignedDuration::try_from(REFRESH).unwrap_or(SignedDuration::MAX);
        if last.is_some_and(|last| now.duration_since(last) < refresh) {
            return Ok(()); // another agent has told it
        }
        let count = old.data.get("count").and_then(Value::as_i64).unwrap_or(1).saturating_add(1);
        let patch = json!({"count": count, "lastTimestamp": second(now)});
        events.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
    }

    fn data(&self, object: &ObjectRef, refusal: &Refusal, now: Timestamp) -> Value {
        let mut about = json!({
            "apiVersion": object.api_version,
            "kind": object.kind,
            "name": object.name,
            "uid": object.uid,
        });
        if !object.namespace.is_empty() {
            about["namespace"] = json!(object.namespace);
        }
        json!({
            "involvedObject": about,
            "type": "Warning",
            "reason": refusal.reason,
            "message": &refusal.note[..refusal.note.floor_char_boundary(NOTE_LEN_MAX)],
            "source": {"component": COMPONENT, "host": self.node},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.node,
            "firstTimestamp": second(now),
            "lastTimestamp": second(now),
            "count": 1,
        })
    }
}

/// Whether the server has judged the request, and will judge it alike soon.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code < 500 && ![401, 429].contains(&status.code))
}

/// A time as `metav1.Time` has it: of whole seconds.
pub(crate) fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as `metav1.MicroTime` has it.
pub(crate) fn micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The name that all agents give to an Event.
fn name(object: &ObjectRef, refusal: &Refusal) -> String {
    let mut hasher = DefaultHasher::new();
    (object, refusal).hash(&mut hasher);
    let stem = &object.name[..object.name.floor_char_boundary(NAME_LEN_MAX)];
    format!("{}.{:016x}", stem.trim_end_matches(['.', '-']), hasher.finish())
}
