//! From a request to its answer: who asks, what for, may they, and then the verb.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::admit::Write;
use crate::body::Body;
use crate::control;
use crate::discovery;
use crate::error::ApiError;
use crate::log::Entry;
use crate::rbac::{self, Action, User};
use crate::read;
use crate::route::{self, Query};
use crate::selector::Selectors;
use crate::state::{Shared, State};
use crate::target::Target;
use crate::watch::Watch;
use crate::write::PatchKind;
use crate::yaml;

/// Kubernetes takes no larger body.
const LARGEST: usize = 3 << 20;

/// A status and a JSON object, or a watch.
enum Answer {
    Json(u16, Value),
    Watch(Watch),
}

/// Never fails: a fault is an answer.
pub(crate) async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (prefix, path) = route::split_token(parts.uri.path());
    let path = path.to_owned();
    let mut entry = Entry { query: parts.uri.query().unwrap_or_default().to_owned(), ..Entry::default() };
    let control = path.starts_with("/testapi/");
    let result = if control {
        control::answer(&shared, &parts.method, &path, body).await.map(|(code, value)| Answer::Json(code, value))
    } else {
        let came = Came { prefix, path: &path, method: &parts.method, headers: &parts.headers };
        serve(&shared, &came, body, &mut entry).await
    };
    let response = match result {
        Ok(Answer::Json(code, value)) => json_response(code, &value),
        Ok(Answer::Watch(watch)) => {
            entry.status = 200;
            note(&shared, entry.clone());
            return watch_response(shared, watch, &entry);
        }
        Err(error) => refusal(&error),
    };
    if !control {
        entry.status = response.status().as_u16();
        note(&shared, entry);
    }
    response
}

fn note(shared: &Shared, entry: Entry) {
    shared.log.lock().push(entry);
    shared.tell_news();
}

fn json_response(code: u16, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(Bytes::from(value.to_string()))));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn refusal(error: &ApiError) -> Response<Body> {
    let mut response = json_response(error.code, &error.body());
    if error.plain {
        *response.body_mut() = Body::Whole(Some(Bytes::from(error.message.clone())));
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from(seconds));
    }
    response
}

fn watch_response(shared: Arc<Shared>, watch: Watch, entry: &Entry) -> Response<Body> {
    // Few lines wait: a client that reads slowly holds the watch back, not the server's memory.
    let (sender, lines) = mpsc::channel(16);
    let every = shared.lock().options.bookmark_every;
    let number = shared.watches_begun.fetch_add(1, Ordering::Relaxed);
    shared.watches.lock().insert(number, entry.resource.clone());
    shared.tell_news();
    tokio::spawn(async move {
        watch.run(shared.clone(), sender, every).await;
        shared.watches.lock().remove(&number);
        shared.tell_news();
    });
    let mut response = Response::new(Body::Lines(lines));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

/// The user of a bearer token. Without tokens in the options, everybody is an administrator.
fn user(state: &State, came: &Came<'_>) -> Result<User, ApiError> {
    if state.options.tokens.is_empty() {
        return Ok(User::new("kubernetes-admin", &["system:masters"]));
    }
    let header = came.headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok());
    let bearer = header.and_then(|header| header.strip_prefix("Bearer "));
    let Some(token) = bearer.or(came.prefix.strip_prefix(route::TOKEN)) else {
        return Ok(User::anonymous());
    };
    let found = state.options.tokens.iter().find(|(one, _)| one == token);
    found.map(|(_, user)| user.clone()).ok_or_else(ApiError::unauthorized)
}

/// Kubernetes' verb of a request.
fn verb(method: &Method, target: &Target, query: &Query) -> Result<&'static str, ApiError> {
    let named = !target.name.is_empty();
    Ok(match *method {
        Method::GET if !named && query.is_set("watch") => "watch",
        Method::GET if named => "get",
        Method::GET => "list",
        // A new object of a kind that is in Namespaces needs its Namespace in the path.
        Method::POST if !named && (!target.namespace.is_empty() || !target.kind.namespaced) => "create",
        Method::PUT if named => "update",
        Method::PATCH if named => "patch",
        Method::DELETE if named && target.subresource.is_empty() => "delete",
        Method::DELETE if !named && (!target.namespace.is_empty() || !target.kind.namespaced) => "deletecollection",
        _ => return Err(ApiError::method()),
    })
}

/// The head of a request.
struct Came<'a> {
    /// Part of the path that holds a token; empty where there is none.
    prefix: &'a str,
    /// The path without it.
    path: &'a str,
    method: &'a Method,
    headers: &'a HeaderMap,
}

async fn serve(shared: &Arc<Shared>, came: &Came<'_>, body: Incoming, entry: &mut Entry) -> Result<Answer, ApiError> {
    let Came { path, method, headers, .. } = *came;
    entry.verb = method.as_str().to_lowercase();
    entry.resource = path.to_owned();
    let query = Query::parse(&entry.query);
    let (target, verb, gate) = {
        let mut state = shared.lock();
        let user = user(&state, came)?;
        entry.user.clone_from(&user.name);
        let Some(target) = route::target(&state.kinds, path) else {
            return other(&mut state, &user, came, entry);
        };
        let target = target?;
        let verb = verb(method, &target, &query)?;
        describe(entry, verb, &target);
        if let Some(error) = state.hurts.answer(verb, &entry.resource) {
            return Err(error);
        }
        authorize(&state, &user, verb, &target, &entry.resource)?;
        (target.clone(), verb, state.hurts.gate(&target.kind.resource()).filter(|_| verb == "list"))
    };
    let read = Limited::new(body, LARGEST).collect().await;
    let body =
        read.map_err(|_| ApiError::new(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"))?;
    if let Some(gate) = gate {
        gate.arrive();
        shared.tell_news();
        gate.pass().await;
    }
    acceptable(headers)?;
    let asked = Asked { target, query, media: media(headers), body: body.to_bytes() };
    if verb == "watch" {
        return Watch::begin(&mut shared.lock(), &asked.target, &asked.query).map(Answer::Watch);
    }
    shared.change(|state| asked.run(state, verb)).map(|(code, value)| Answer::Json(code, value))
}

fn describe(entry: &mut Entry, verb: &str, target: &Target) {
    verb.clone_into(&mut entry.verb);
    entry.resource = target.kind.resource();
    if !target.subresource.is_empty() {
        entry.resource = format!("{}/{}", entry.resource, target.subresource);
    }
    entry.namespace.clone_from(&target.namespace);
    entry.name.clone_from(&target.name);
}

/// Paths that belong to no object: health and discovery.
fn other(state: &mut State, user: &User, came: &Came<'_>, entry: &Entry) -> Result<Answer, ApiError> {
    let path = came.path;
    if let Some(error) = state.hurts.answer(&entry.verb, path) {
        return Err(error);
    }
    let admin = user.groups.iter().any(|group| group == "system:masters");
    let closed = state.options.rbac || user.name == "system:anonymous";
    if closed && !admin && !rbac::may_read(user, path) {
        let why = format!("forbidden: User \"{}\" cannot get path \"{path}\"", user.name);
        return Err(ApiError::new(403, "Forbidden", why));
    }
    if *came.method != Method::GET {
        return Err(ApiError::method());
    }
    if matches!(path, "/healthz" | "/livez" | "/readyz") {
        return Err(ApiError { plain: true, ..ApiError::new(200, "", "ok") });
    }
    discovery::answer(state, path, came.prefix).map(|value| Answer::Json(200, value)).ok_or_else(ApiError::no_such_path)
}

fn authorize(state: &State, user: &User, verb: &str, target: &Target, resource: &str) -> Result<(), ApiError> {
    let (kind, plural) = (&target.kind, target.resource());
    // A new Namespace has no Namespace of its own; one that is named is its own, as for Kubernetes.
    let namespace = if kind.is("", "namespaces") { &target.name } else { &target.namespace };
    let action = Action { verb, group: &kind.group, resource: &plural, namespace, name: &target.name };
    let allowed =
        if state.options.rbac { rbac::allowed(&state.store, user, &action) } else { user.name != "system:anonymous" };
    if allowed && !state.hurts.is_refused(verb, resource) {
        return Ok(());
    }
    Err(ApiError::forbidden(kind, &target.name, &rbac::refusal(user, &action)))
}

fn media(headers: &HeaderMap) -> String {
    let header = headers.get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim().to_owned()
}

fn acceptable(headers: &HeaderMap) -> Result<(), ApiError> {
    let accept = headers.get(http::header::ACCEPT).and_then(|header| header.to_str().ok()).unwrap_or_default();
    if accept.is_empty() || accept.contains("json") || accept.contains("*/*") || accept.contains("application/*") {
        return Ok(());
    }
    let what = "only the following media types are accepted: application/json";
    Err(ApiError::new(406, "NotAcceptable", what))
}

struct Asked {
    target: Target,
    query: Query,
    media: String,
    body: Bytes,
}

impl Asked {
    fn object(&self) -> Result<Value, ApiError> {
        match self.media.as_str() {
            "" | "application/json" => serde_json::from_slice(&self.body)
                .map_err(|error| ApiError::bad(format!("the body is not JSON: {error}"))),
            "application/yaml" => self.yaml(),
            _ => Err(ApiError::media("application/json, application/yaml")),
        }
    }

    fn yaml(&self) -> Result<Value, ApiError> {
        let wrong = |why: String| ApiError::bad(format!("the body is not YAML: {why}"));
        let text = std::str::from_utf8(&self.body).map_err(|error| wrong(error.to_string()))?;
        let mut documents = yaml::documents(text).map_err(wrong)?;
        if documents.len() == 1 {
            Ok(documents.swap_remove(0))
        } else {
            Err(wrong("it has not one document".to_owned()))
        }
    }

    fn write(&self, options: &Value) -> Write {
        let dry_run =
            self.query.get("dryRun") == "All" || options["dryRun"].as_array().is_some_and(|all| !all.is_empty());
        Write { dry_run, strict: self.query.get("fieldValidation") == "Strict", whole: false }
    }

    fn run(&self, state: &mut State, verb: &str) -> Result<(u16, Value), ApiError> {
        let (target, query) = (&self.target, &self.query);
        let write = self.write(&Value::Null);
        match verb {
            "get" => state.get(target, query).map(|object| (200, object)),
            "list" => state.list(target, query).map(|list| (200, list)),
            "create" => state.create(target, self.object()?, write).map(|object| (201, object)),
            "update" => state.update(target, self.object()?, write).map(|object| (200, object)),
            "patch" => self.patch(state),
            _ => {
                let options = if self.body.is_empty() { json!({}) } else { self.object()? };
                let dry_run = self.write(&options).dry_run;
                if verb == "delete" {
                    return state.delete(target, &options, dry_run).map(|object| (200, object));
                }
                let selectors = Selectors::parse(&target.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
                let items = state.delete_all(target, &selectors, dry_run)?;
                let metadata = json!({ "resourceVersion": state.store.revision().to_string() });
                Ok((200, read::list_of(target, &items, &metadata)))
            }
        }
    }

    fn patch(&self, state: &mut State) -> Result<(u16, Value), ApiError> {
        let kind = PatchKind::of(&self.media, &self.target.kind)?;
        let patch = if kind == PatchKind::Apply {
            self.yaml()?
        } else {
            serde_json::from_slice(&self.body)
                .map_err(|error| ApiError::bad(format!("error decoding patch: {error}")))?
        };
        let manager = self.query.get("fieldManager");
        if kind == PatchKind::Apply && manager.is_empty() {
            let message =
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(ApiError::new(422, "Invalid", message));
        }
        let (object, created) = state.patch(&self.target, kind, &patch, manager, self.write(&Value::Null))?;
        Ok((if created { 201 } else { 200 }, object))
    }
}
