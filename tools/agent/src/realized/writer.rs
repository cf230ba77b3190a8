//! The holder's task: it watches reports, and writes statuses that differ.
//!
//! **Design**: nothing is done while another agent holds the Lease. The holder lists the reports
//! once and watches them. When something has changed it judges all policies, and compares what
//! their statuses are to say with what they say. What differs is written, some in a turn. A status
//! is written on condition that nobody changed the object since it was read; else the next turn
//! looks again. A kind whose status may not be written, or that has none, rests for a while.

use super::reporter::{ANNOTATION, LABEL, lease_name, leases};
use super::verdict::Judge;
use super::{News, Report, Timing, status};
use crate::feedback::{ANSWER_MAX, second};
use crate::lease::Term;
use crate::source::cluster::{Backoff, ObjectStatus, Standing};
use futures_util::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Client, Error};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use vswitch_net_types::shown;

/// Reports that are taken: ten times the Nodes of the largest cluster that is supported.
const REPORTS_MAX: usize = 5000;

/// Waits of a server that is busy or away.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Follows the Lease for ever.
pub(super) async fn follow(client: Client, term: Term, mut inbox: watch::Receiver<News>, timing: Timing) {
    let mut turn = tokio::time::interval(timing.turn);
    loop {
        turn.tick().await;
        if term.is_held() && Holder::new(client.clone(), term.clone(), timing).run(&mut inbox).await.is_none() {
            return;
        }
        if inbox.has_changed().is_err() {
            return; // the agent ends
        }
    }
}

/// A write of a status.
struct Written {
    wanted: ObjectStatus,
    /// Not again before.
    pause: Instant,
    /// The same not again before.
    again: Instant,
}

struct Holder {
    client: Client,
    term: Term,
    timing: Timing,
    judge: Judge,
    /// Reports of a list that has not ended.
    listing: BTreeSet<String>,
    is_listed: bool,
    /// Something has changed since all policies were judged.
    is_dirty: bool,
    judged: Option<Instant>,
    number: Option<u64>,
    /// Statuses that differ, by the places of their objects in the news.
    differing: Vec<(usize, ObjectStatus)>,
    /// By UIDs.
    written: HashMap<String, Written>,
    /// Kinds that rest, and what was told of them.
    resting: HashMap<(String, String), (Instant, String)>,
    backoff: Backoff,
    /// No write before.
    not_before: Option<Instant>,
    told: String,
}

impl Holder {
    fn new(client: Client, term: Term, timing: Timing) -> Self {
        Self {
            client,
            term,
            timing,
            judge: Judge::new(),
            listing: BTreeSet::new(),
            is_listed: false,
            is_dirty: true,
            judged: None,
            number: None,
            differing: Vec::new(),
            written: HashMap::new(),
            resting: HashMap::new(),
            backoff: Backoff::new(WAITS[0], WAITS[1]),
            not_before: None,
            told: String::new(),
        }
    }

    /// Until another agent holds the Lease. None: the agent ends.
    async fn run(mut self, inbox: &mut watch::Receiver<News>) -> Option<()> {
        let config = watcher::Config::default().labels(&format!("{}={}", LABEL.0, LABEL.1)).page_size(500);
        let mut events = watch_objects(leases(self.client.clone()).0, config).default_backoff().boxed();
        let mut turn = tokio::time::interval(self.timing.turn);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        inbox.mark_changed();
        let mut news = News::default();
        loop {
            tokio::select! {
                event = events.next() => self.take(event?),
                changed = inbox.changed() => {
                    changed.ok()?;
                    news = inbox.borrow_and_update().clone();
                    self.is_dirty = true;
                }
                _ = turn.tick() => {
                    if !self.term.is_held() {
                        return Some(());
                    }
                    // Until the agent knows all kinds itself, it judges nothing.
                    if self.is_listed && news.number > 0 {
                        self.judge(&news);
                        self.write(&news).await;
                    }
                }
            }
        }
    }

    /// Takes over an event of the watch of reports.
    fn take(&mut self, event: Result<Event<DynamicObject>, watcher::Error>) {
        // A Lease that is none of an agent's name says nothing.
        let node = |lease: &DynamicObject| {
            let holder = lease.data.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
            let is_own = lease.metadata.name.as_deref() == Some(lease_name(holder).as_str());
            if is_own { holder.to_owned() } else { String::new() }
        };
        match event {
            Ok(Event::Init) => self.listing.clear(),
            Ok(Event::InitApply(lease)) => {
                self.listing.insert(node(&lease));
                self.report(&node(&lease), &lease);
            }
            Ok(Event::InitDone) => {
                let gone = self.judge.names().into_iter().filter(|name| !self.listing.contains(name));
                gone.collect::<Vec<_>>().iter().for_each(|name| self.judge.gone(name));
                (self.is_listed, self.is_dirty) = (true, true);
                self.judge.begins();
            }
            Ok(Event::Apply(lease)) => self.report(&node(&lease), &lease),
            Ok(Event::Delete(lease)) => {
                self.judge.gone(&node(&lease));
                self.is_dirty = true;
            }
            Err(error) => self.tell(format!("reports of the agents (Leases) cannot be watched: {error}")),
        }
    }

    fn report(&mut self, node: &str, lease: &DynamicObject) {
        let annotations = lease.metadata.annotations.as_ref();
        let text = annotations.and_then(|annotations| annotations.get(ANNOTATION));
        if !node.is_empty() && (self.judge.len() < REPORTS_MAX || self.judge.has(node)) {
            self.judge.report(node, text.and_then(|text| Report::of(text)), Instant::now());
            self.is_dirty = true;
        }
    }

    /// Tells once.
    fn tell(&mut self, failure: String) {
        if failure != self.told {
            tracing::warn!("{}", shown(&failure));
            self.told = failure;
        }
    }

    /// Finds out which statuses differ.
    fn judge(&mut self, news: &News) {
        // Nodes fall silent without a word.
        let is_due = self.judged.is_none_or(|judged| judged.elapsed() >= self.timing.silent / 10);
        if !self.is_dirty && !is_due {
            return;
        }
        (self.is_dirty, self.judged) = (false, Some(Instant::now()));
        let policies = || news.standings.iter().filter(|standing| status::class(standing).is_some());
        if self.number != Some(news.number) {
            self.judge.policies(policies());
            self.number = Some(news.number);
            let there_are: BTreeSet<&str> = news.standings.iter().map(|of| of.object.uid.as_str()).collect();
            self.written.retain(|uid, _| there_are.contains(uid.as_str()));
        }
        let reports = self.judge.reports(&news.nodes);
        let time = (self.timing.silent, Instant::now());
        let wanted = |standing: &Standing| match status::class(standing) {
            Some(_) => {
                let verdict = reports.verdict(standing, time);
                let stays = verdict.is_doubtful() && status::is_realized(standing);
                (!stays).then(|| status::of_policy(standing, &verdict))
            }
            None => status::of_other(standing, news),
        };
        let all = news.standings.iter().enumerate();
        let differing = all.filter_map(|(place, standing)| Some((place, standing, wanted(standing)?)));
        let differing = differing.filter(|(_, standing, wanted)| !status::has(standing, wanted));
        self.differing = differing.map(|(place, _, wanted)| (place, wanted)).collect();
    }

    /// Whether a status is to be written now.
    fn is_due(&self, standing: &Standing, wanted: &ObjectStatus, now: Instant) -> bool {
        let kind = (standing.object.api_version.clone(), standing.object.kind.clone());
        let is_resting = self.resting.get(&kind).is_some_and(|(until, _)| now < *until);
        let is_paused = self
            .written
            .get(&standing.object.uid)
            .is_some_and(|written| now < written.pause || (written.wanted == *wanted && now < written.again));
        !is_resting && !is_paused
    }

    /// Writes some of what differs.
    async fn write(&mut self, news: &News) {
        if self.not_before.is_some_and(|time| Instant::now() < time) {
            return;
        }
        let mut left = self.timing.burst;
        for (place, wanted) in std::mem::take(&mut self.differing) {
            let Some(standing) = news.standings.get(place) else { continue };
            let now = Instant::now();
            if left == 0 || !self.term.is_held() || self.not_before.is_some() || !self.is_due(standing, &wanted, now) {
                self.differing.push((place, wanted));
                continue;
            }
            left -= 1;
            let result = tokio::time::timeout(ANSWER_MAX, write(&self.client, standing, &wanted)).await;
            self.wrote(standing, wanted, result.ok());
        }
        self.not_before = self.not_before.filter(|time| Instant::now() < *time);
    }

    /// Takes note of a write. None: there was no answer.
    fn wrote(&mut self, standing: &Standing, wanted: ObjectStatus, result: Option<Result<(), Error>>) {
        let now = Instant::now();
        let (pause, mut again) = (now + self.timing.of_object, now + self.timing.again);
        let of = &standing.object;
        let kind = (of.api_version.clone(), of.kind.clone());
        let mut rest = |failure: String| {
            let before = self.resting.insert(kind.clone(), (again, failure.clone()));
            if before.is_none_or(|(_, told)| told != failure) {
                tracing::warn!("the status of {} ({}) cannot be written: {}", kind.1, kind.0, shown(&failure));
            }
        };
        match result {
            Some(Ok(())) => {
                self.backoff.reset();
                self.resting.remove(&kind);
            }
            // It has changed, or is gone: the next look tells.
            Some(Err(Error::Api(status))) if status.code == 409 => again = pause,
            Some(Err(Error::Api(status))) if [401, 403, 404, 405].contains(&status.code) => {
                rest(status.message.clone());
            }
            Some(Err(Error::Api(status))) if status.code != 429 && status.code < 500 => {
                // The server will not take it, however often it is asked.
                self.tell(format!("the status of {} {} is not taken: {}", of.kind, of.name, status.message));
            }
            failed => {
                let why = match failed {
                    Some(Err(error)) => error.to_string(),
                    _ => format!("no answer in {} s", ANSWER_MAX.as_secs()),
                };
                self.tell(format!("statuses of policies cannot be written: {why}"));
                self.not_before = Some(now + self.backoff.next());
                return;
            }
        }
        self.written.insert(of.uid.clone(), Written { wanted, pause, again });
    }
}

/// Writes a status, unless the object has become another one.
async fn write(client: &Client, standing: &Standing, wanted: &ObjectStatus) -> Result<(), Error> {
    let of = &standing.object;
    let (group, version) = of.api_version.split_once('/').unwrap_or(("", &of.api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: of.api_version.clone(),
        kind: of.kind.clone(),
        plural: standing.plural.to_owned(),
    };
    let api: Api<DynamicObject> = if of.namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), &of.namespace, &resource)
    };
    let Some(object) = api.get_opt(&of.name).await? else { return Ok(()) };
    let meta = &object.metadata;
    if meta.uid.as_ref() != Some(&of.uid) || meta.generation.unwrap_or(0) != standing.generation {
        return Ok(());
    }
    let old = object.data.get("status").unwrap_or(&Value::Null);
    let version = meta.resource_version.as_deref().unwrap_or_default();
    let patch = status::patch(standing, wanted, (old, version), &second(Timestamp::now()));
    api.patch_status(&of.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
}
