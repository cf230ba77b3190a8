//! The endpoint by which another process hurts this server's clients and reads the log.
//!
//! `POST /testapi/hurt` takes one object with one field, named as the method of [`Hurt`] in camel
//! case. `GET /testapi/requests` gives the log. Neither asks for a token.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::hurt::Hurt;
use crate::hurts::{Answer, Cut};
use crate::state::Shared;

pub(crate) async fn answer(
    shared: &Arc<Shared>,
    method: &Method,
    path: &str,
    body: Incoming,
) -> Result<(u16, Value), ApiError> {
    match (method.as_str(), path) {
        ("GET", "/testapi/requests") => {
            let entry = |one: &crate::log::Entry| {
                json!({
                    "verb": one.verb, "resource": one.resource, "namespace": one.namespace, "name": one.name,
                    "user": one.user, "query": one.query, "status": one.status,
                })
            };
            Ok((200, shared.log.lock().iter().map(entry).collect()))
        }
        ("POST", "/testapi/hurt") => {
            let read = Limited::new(body, 65_536).collect().await;
            let body = read.map_err(|error| ApiError::bad(error.to_string()))?.to_bytes();
            let order: Value = serde_json::from_slice(&body).map_err(|error| ApiError::bad(error.to_string()))?;
            let one = order.as_object().and_then(|map| map.iter().next());
            let (name, given) = one.ok_or_else(|| ApiError::bad("give one object with the name of a method"))?;
            hurt(&Hurt { shared: shared.clone() }, name, given)?;
            Ok((200, json!({})))
        }
        _ => Err(ApiError::no_such_path()),
    }
}

fn hurt(hurt: &Hurt, name: &str, given: &Value) -> Result<(), ApiError> {
    let word = |field: &str| given[field].as_str().unwrap_or_default();
    let number = |field: &str, default: u64| given[field].as_u64().unwrap_or(default);
    let flag = |field: &str| given[field].as_bool().unwrap_or_default();
    let (verb, resource) = (word("verb"), word("resource"));
    match name {
        "cutWatches" if flag("expired") => hurt.cut_watches(Cut::Expired),
        "cutWatches" => hurt.cut_watches(if flag("midLine") { Cut::MidLine } else { Cut::Clean }),
        "expireWatches" => hurt.expire_watches(number("times", 1), flag("byHttp")),
        "compact" => hurt.compact(),
        "answer" => hurt.answer(Answer {
            times: number("times", 1),
            code: u16::try_from(number("code", 503)).unwrap_or(503),
            retry_after: given["retryAfter"].as_u64(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
        }),
        "answerRightly" => hurt.answer_rightly(),
        "holdLists" => hurt.hold_lists(resource),
        "releaseLists" => hurt.release_lists(resource),
        "away" => {
            // Nobody can call it back over the network: it comes back by itself.
            let (hurt, seconds) = (hurt.clone(), number("seconds", 10));
            std::thread::spawn(move || {
                hurt.away();
                std::thread::sleep(Duration::from_secs(seconds));
                hurt.back();
            });
        }
        "cutConnections" => hurt.cut_connections(),
        "restart" => hurt.restart(),
        "hide" => hurt.hide(resource),
        "show" => hurt.show(resource),
        "refuse" => hurt.refuse(verb, resource),
        "permit" => hurt.permit(verb, resource),
        "holdBack" => hurt.hold_back(resource, word("namespace"), word("name")),
        "giveBack" => hurt.give_back(resource, word("namespace"), word("name")),
        "pauseWatches" => hurt.pause_watches(),
        "resumeWatches" => hurt.resume_watches(),
        "bookmark" => hurt.bookmark(),
        "skipVersions" => hurt.skip_versions(number("versions", 1)),
        _ => return Err(ApiError::bad(format!("{name}: there is no such method"))),
    }
    Ok(())
}
