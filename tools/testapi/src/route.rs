//! Paths and queries.

use std::collections::BTreeMap;

use crate::error::ApiError;
use crate::kinds::Kinds;
use crate::target::Target;

/// In front of a path it brings a bearer token: `kubectl` sends no header over plain HTTP.
pub(crate) const TOKEN: &str = "/testapi/as/";

/// The part of a path that holds a token, and the rest.
pub(crate) fn split_token(path: &str) -> (&str, &str) {
    let Some(behind) = path.strip_prefix(TOKEN) else { return ("", path) };
    path.split_at(TOKEN.len() + behind.find('/').unwrap_or(behind.len()))
}

/// Parameters of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        };
        Self(text.split('&').filter(|piece| !piece.is_empty()).map(pair).collect())
    }

    /// Empty where it is not given.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub(crate) fn is_set(&self, key: &str) -> bool {
        matches!(self.get(key), "1" | "true" | "True" | "t" | "T" | "TRUE")
    }
}

/// Percent decoding, with `+` for a space.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let digits = text.get(i + 1..i + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[i], digits) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                i += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        i += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The objects that a path names. None: the path is not one of objects.
pub(crate) fn target(kinds: &Kinds, path: &str) -> Option<Result<Target, ApiError>> {
    let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts[..] {
        ["api", version, ref rest @ ..] => ("", version, rest),
        ["apis", group, version, ref rest @ ..] => (group, version, rest),
        _ => return None,
    };
    let found = |plural: &str, namespace: &str, name: &str, subresource: &str| {
        let kind = kinds.find(group, version, plural).ok_or_else(ApiError::no_such_path)?;
        if kind.namespaced && namespace.is_empty() && !name.is_empty() || !kind.namespaced && !namespace.is_empty() {
            return Err(ApiError::no_such_path());
        }
        let target = Target {
            kind: kind.clone(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        };
        let known = matches!(subresource, "") || (subresource == "status" && target.has_status());
        if known { Ok(target) } else { Err(ApiError::no_such_path()) }
    };
    match rest {
        [] => None,
        ["namespaces", name, "status"] if group.is_empty() => Some(found("namespaces", "", name, "status")),
        ["namespaces", namespace, plural] => Some(found(plural, namespace, "", "")),
        ["namespaces", namespace, plural, name] => Some(found(plural, namespace, name, "")),
        ["namespaces", namespace, plural, name, sub] => Some(found(plural, namespace, name, sub)),
        [plural] => Some(found(plural, "", "", "")),
        [plural, name] => Some(found(plural, "", name, "")),
        [plural, name, sub] => Some(found(plural, "", name, sub)),
        _ => Some(Err(ApiError::no_such_path())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let kinds = Kinds::default();
        let named = |path: &str| {
            let target = target(&kinds, path)?.ok()?;
            Some(format!("{} {} {}", target.resource(), target.namespace, target.name))
        };
        for (path, wanted) in [
            ("/api/v1/pods", "pods  "),
            ("/api/v1/namespaces", "namespaces  "),
            ("/api/v1/namespaces/d", "namespaces  d"),
            ("/api/v1/namespaces/d/status", "namespaces/status  d"),
            ("/api/v1/namespaces/d/pods", "pods d "),
            ("/api/v1/namespaces/d/pods/p%2e", "pods d p."),
            ("/api/v1/namespaces/d/pods/p/status", "pods/status d p"),
            ("/apis/apps/v1/namespaces/d/daemonsets", "daemonsets d "),
        ] {
            assert_eq!(named(path).as_deref(), Some(wanted), "{path}");
        }
        for wrong in ["/api", "/api/v1", "/api/v2/pods", "/api/v1/pods/p", "/api/v1/namespaces/d/nodes", "/x/y/z"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tokens_in_paths() {
        assert_eq!(split_token("/testapi/as/abc/api/v1"), ("/testapi/as/abc", "/api/v1"));
        assert_eq!(split_token("/testapi/as/abc"), ("/testapi/as/abc", ""));
        assert_eq!(split_token("/api/v1"), ("", "/api/v1"));
    }

    #[test]
    fn queries() {
        let query = Query::parse("watch=1&labelSelector=a%3Db%2Cc+in+(d)&x");
        assert!(query.is_set("watch") && !query.is_set("x"));
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert_eq!(decode("%zz%4"), "%zz%4");
    }
}
