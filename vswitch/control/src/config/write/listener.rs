//! Listeners of `[control]`.

use super::{Pair, array, quote, quoted_path, strings};
use crate::config::listener_value::{ListenEndpoint, ListenerConfig, Role};
use std::fmt::Display;

/// All listeners, as the value of one key.
pub(super) fn write(listeners: &[ListenerConfig]) -> Option<Pair> {
    (!listeners.is_empty()).then(|| ("listener", array(listeners.iter().map(inline))))
}

/// One listener, as an inline table.
fn inline(listener: &ListenerConfig) -> String {
    let mut pairs: Vec<Pair> = match &listener.endpoint {
        ListenEndpoint::Unix(unix) => {
            let mut pairs = vec![("path", quoted_path(&unix.path)), ("mode", format!("0o{:o}", unix.mode))];
            pairs.extend(unix.owner.as_ref().map(|owner| ("owner", quote(&owner.to_string()))));
            pairs.extend(unix.group.as_ref().map(|group| ("group", quote(&group.to_string()))));
            pairs.extend(roles("users", &unix.users));
            pairs.extend(roles("groups", &unix.groups));
            pairs
        }
        ListenEndpoint::Tls(tls) => {
            let files = [("cert", &tls.cert), ("key", &tls.key), ("client_ca", &tls.client_ca)];
            let files: Vec<String> = files.map(|(key, path)| format!("{key} = {}", quoted_path(path))).into();
            let mut pairs =
                vec![("address", quote(&tls.address.to_string())), ("tls", format!("{{ {} }}", files.join(", ")))];
            pairs.extend(roles("sans", &tls.sans));
            pairs
        }
    };
    pairs.push(("role", quote(listener.role.word())));
    let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Roles of names. None: there is no mapping.
fn roles(key: &'static str, mapped: &[(impl Display, Role)]) -> Option<Pair> {
    let mapped: Vec<(String, String)> =
        mapped.iter().map(|(who, role)| (who.to_string(), role.word().to_owned())).collect();
    (!mapped.is_empty()).then(|| (key, strings(mapped.iter().map(|(who, role)| (who, role)))))
}
