//! What became of calls: how many, with which codes, how long they took; and what streams lost.
//!
//! **Where in the walk**: nowhere; [`CountLayer`] stands in front of the shares of clients, so that
//! it counts calls that those refuse, too.
//!
//! **Design**: the methods are known when the server starts: those of the descriptors. A call of
//! any other path counts as [`OTHER`], so clients cannot add to the list. Each count is an atomic
//! number. A call ends with its trailers. One that is dropped before has been given up by its
//! client. Durations are of calls with one message each way: a stream lasts as long as its reader
//! likes.
//!
//! What streams lose is counted for the whole process ([`lose`]): a stream knows no server.
//!
//! **Limits**: memory for the methods and codes that there are.
//!
//! **Threads**: any; no lock.

mod layer;
mod losses;

pub(crate) use layer::CountLayer;
pub(crate) use losses::{StreamKind, lose};

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tonic::Code;
use vswitch_proto::{Method, v1};

/// Calls of methods that there are not.
const OTHER: &str = "other";

/// Codes of gRPC, 0 to 16.
const CODES: usize = 17;

/// Upper ends of the classes of durations, in milliseconds.
const UP_TO_MS: [f64; 14] =
    [0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0];

/// Methods of reflection, whose crate shows no descriptors of itself.
const REFLECTION: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Counts of calls.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The last one is [`OTHER`].
    methods: Vec<Counts>,
    /// Places in `methods`.
    by_name: HashMap<String, usize>,
    /// Calls by duration; the last class has no upper end.
    durations: [AtomicU64; UP_TO_MS.len() + 1],
    timed_us: AtomicU64,
}

/// Of one method.
#[derive(Debug)]
struct Counts {
    method: Method,
    in_progress: AtomicU64,
    codes: [AtomicU64; CODES],
}

impl Calls {
    /// None yet, of the methods that the server has.
    pub(crate) fn new() -> Self {
        let described = [vswitch_proto::FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET];
        // They are part of the program, and tests decode them.
        let mut methods: Vec<Method> =
            described.iter().flat_map(|set| vswitch_proto::methods(set).unwrap_or_default()).collect();
        methods.extend(REFLECTION.map(|name| Method { name: name.to_owned(), streams: true }));
        methods.sort();
        methods.push(Method { name: OTHER.to_owned(), streams: true });
        let by_name = methods.iter().enumerate().map(|(at, method)| (method.name.clone(), at)).collect();
        let counts = |method| Counts { method, in_progress: AtomicU64::new(0), codes: Default::default() };
        Self {
            methods: methods.into_iter().map(counts).collect(),
            by_name,
            durations: Default::default(),
            timed_us: AtomicU64::new(0),
        }
    }

    /// The place of a method, by the path of its requests.
    fn place(&self, path: &str) -> usize {
        let name = path.strip_prefix('/').unwrap_or(path);
        self.by_name.get(name).copied().unwrap_or(self.methods.len() - 1)
    }

    fn ended(&self, place: usize, code: Code, took: Duration) {
        let Some(counts) = self.methods.get(place) else { return };
        if let Some(count) = counts.codes.get(code as usize) {
            count.fetch_add(1, Relaxed);
        }
        if !counts.method.streams {
            let ms = took.as_secs_f64() * 1000.0;
            let class = UP_TO_MS.iter().position(|up_to| ms <= *up_to).unwrap_or(UP_TO_MS.len());
            self.durations[class].fetch_add(1, Relaxed);
            self.timed_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        }
        counts.in_progress.fetch_sub(1, Relaxed);
    }

    /// As `GetCalls` answers.
    pub(crate) fn read(&self) -> v1::GetCallsResponse {
        let methods = self.methods.iter().map(Counts::read);
        let mut calls = 0;
        let durations: Vec<v1::CallDuration> = UP_TO_MS
            .iter()
            .zip(&self.durations)
            .map(|(&up_to_ms, count)| {
                calls += count.load(Relaxed);
                v1::CallDuration { up_to_ms, calls }
            })
            .collect();
        let beyond = self.durations.last().map_or(0, |count| count.load(Relaxed));
        v1::GetCallsResponse {
            methods: methods.filter(|method| method.in_progress > 0 || !method.codes.is_empty()).collect(),
            timed_calls: calls + beyond,
            durations,
            timed_us: self.timed_us.load(Relaxed),
            losses: losses::read(),
        }
    }
}

impl Counts {
    fn read(&self) -> v1::MethodCalls {
        let counted = (0..).zip(&self.codes).map(|(code, count)| (code, count.load(Relaxed)));
        let codes = counted.filter(|(_, calls)| *calls > 0);
        v1::MethodCalls {
            method: self.method.name.clone(),
            in_progress: self.in_progress.load(Relaxed),
            codes: codes.map(|(code, calls)| v1::CallCode { code: name(code), calls }).collect(),
        }
    }
}

/// The name of a code, as gRPC's documents have it: `Code::NotFound` is `NOT_FOUND`.
fn name(code: i32) -> String {
    let mut name = String::new();
    for (at, letter) in format!("{:?}", Code::from_i32(code)).char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_grpcs_names() {
        assert_eq!(
            [0, 1, 4, 5, 8, 16].map(name),
            ["OK", "CANCELLED", "DEADLINE_EXCEEDED", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED"]
        );
    }

    #[test]
    fn all_services_of_the_server_are_known() {
        let calls = Calls::new();
        let place = |path: &str| calls.methods[calls.place(path)].method.name.clone();
        for known in [
            "vswitch.v1.StatisticsService/GetCalls",
            "antrea.v1.SyncService/Sync",
            "grpc.health.v1.Health/Check",
            REFLECTION[0],
        ] {
            assert_eq!(place(&format!("/{known}")), known);
        }
        assert_eq!(["/", "/x/y", "/vswitch.v1.PortService/Add", "other"].map(place), [OTHER; 4]);
    }
}
