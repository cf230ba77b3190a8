//! Get and list.
//!
//! A list goes in pages of one version: a continue token names the version and the last object. It
//! expires with the history. Lists at version "0" are whole, as Kubernetes' cache gives them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::route::Query;
use crate::selector::Selectors;
use crate::state::State;
use crate::store::Name;
use crate::target::Target;

/// A version that a client names: none for newest or any.
pub(crate) fn version(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let wrong =
        || ApiError::bad(format!("Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"));
    text.parse().map(Some).map_err(|_| wrong())
}

impl State {
    pub(crate) fn get(&self, target: &Target, query: &Query) -> Result<Value, ApiError> {
        self.not_ahead(query)?;
        Ok(target.present(&*self.find(target)?))
    }

    fn not_ahead(&self, query: &Query) -> Result<(), ApiError> {
        match version(query.get("resourceVersion"))? {
            Some(asked) if asked > self.store.revision() => {
                Err(ApiError::too_large_version(asked, self.store.revision()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn list(&self, target: &Target, query: &Query) -> Result<Value, ApiError> {
        let kind = &target.kind;
        let selectors = Selectors::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
        self.not_ahead(query)?;
        let (at, after) = self.place(query)?;
        let objects = self.store.at(&kind.bucket(), at).map_err(|error| {
            if query.get("continue").is_empty() {
                return error;
            }
            let what = "The provided continue parameter is too old to display a consistent list result.";
            ApiError::expired(format!("{what} You can start a new list without the continue parameter."))
        })?;
        let inside = |name: &Name| {
            (target.namespace.is_empty() || name.0 == target.namespace)
                && after.as_ref().is_none_or(|after| name > after)
                && !self.hurts.is_held(&kind.resource(), name)
        };
        let chosen: Vec<(&Name, &Arc<Value>)> =
            objects.iter().filter(|(name, object)| inside(name) && selectors.matches(object)).collect();
        let limit = query.get("limit").parse().unwrap_or(0_usize);
        let whole = limit == 0 || (query.get("resourceVersion") == "0" && query.get("continue").is_empty());
        let size = if whole { chosen.len() } else { limit.min(chosen.len()) };
        let mut metadata = json!({ "resourceVersion": at.to_string() });
        if size < chosen.len() {
            let (namespace, name) = chosen[size - 1].0;
            metadata["continue"] = json!(format!("{at}/{namespace}/{name}"));
            if selectors.is_empty() {
                metadata["remainingItemCount"] = json!(chosen.len() - size);
            }
        }
        let items: Vec<Value> = chosen[..size].iter().map(|(_, object)| self.item(target, object)).collect();
        Ok(list_of(target, &items, &metadata))
    }

    /// Items of kinds built in have no `apiVersion` and `kind` of their own.
    fn item(&self, target: &Target, object: &Value) -> Value {
        let mut object = target.present(object);
        if target.kind.builtin
            && let Some(map) = object.as_object_mut()
        {
            map.remove("apiVersion");
            map.remove("kind");
        }
        object
    }

    /// The version of a list, and the object behind which it begins.
    fn place(&self, query: &Query) -> Result<(u64, Option<Name>), ApiError> {
        let (token, asked) = (query.get("continue"), version(query.get("resourceVersion"))?);
        if token.is_empty() {
            let exact = query.get("resourceVersionMatch") == "Exact";
            return match asked {
                Some(asked) if exact => Ok((asked, None)),
                None if exact => {
                    Err(ApiError::bad("resourceVersionMatch is forbidden unless resourceVersion is provided"))
                }
                _ => Ok((self.store.revision(), None)),
            };
        }
        if asked.is_some() {
            return Err(ApiError::bad("specifying resource version is not allowed when using continue"));
        }
        let mut parts = token.splitn(3, '/');
        let at = parts.next().and_then(|at| at.parse().ok());
        match (at, parts.next(), parts.next()) {
            (Some(at), Some(namespace), Some(name)) => Ok((at, Some((namespace.to_owned(), name.to_owned())))),
            _ => Err(ApiError::bad("continue key is not valid")),
        }
    }
}

pub(crate) fn list_of(target: &Target, items: &[Value], metadata: &Value) -> Value {
    let api_version = target.kind.api_version(&target.version);
    json!({ "kind": format!("{}List", target.kind.kind), "apiVersion": api_version, "metadata": metadata, "items": items })
}
