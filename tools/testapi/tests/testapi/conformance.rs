//! One suite for both servers: this crate's, and a real one where `KUBEBUILDER_ASSETS` is set.

mod access;
mod custom;
mod objects;
mod on;
mod watching;

use std::sync::Arc;

use self::on::On;

/// Starts the parts side by side; each has a Namespace of its own.
macro_rules! parts {
    ($on:ident: $($module:ident::$part:ident),* $(,)?) => {
        [$({
            let on = $on.clone();
            (stringify!($module::$part), tokio::spawn(async move { $module::$part(&on).await }))
        }),*]
    };
}

/// A real server takes long to start: one test has one for all parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_do_the_same() {
    let mut failed = Vec::new();
    for server in on::servers() {
        let on = Arc::new(On::new(server).await);
        let parts = parts![on:
            objects::create_get_delete, objects::conflicts, objects::refusals, objects::pages, objects::selectors,
            objects::patches, objects::status, objects::finalizers, objects::events,
            watching::changes, watching::selectors, watching::versions,
            custom::definitions, access::tokens_and_rules,
        ];
        for (name, part) in parts {
            if part.await.is_err() {
                failed.push(format!("{name}, real: {}", on.server.is_real()));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
