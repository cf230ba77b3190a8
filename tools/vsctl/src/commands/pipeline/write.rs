//! Changes: a stream of lines, all or nothing.

use super::source::{Line, Source};
use crate::client::Client;
use crate::error::{BadUpdate, Error, place};
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use vswitch_proto::v1::update::Update as Kind;
use vswitch_proto::v1::{self, LineKind, UpdateOutcome};

/// Updates per message at most.
const MESSAGE_UPDATES: usize = 2048;
/// Bytes of text in a message at most.
const MESSAGE_LEN: usize = 1 << 19;

/// Messages that wait for the switch: what is read ahead of it.
const MESSAGES_QUEUED: usize = 4;

/// Warnings that are told.
const WARNINGS_MAX: usize = 20;

/// A transaction to be sent.
pub(super) struct Change<'a> {
    pub(super) bridge: &'a str,
    /// Updates before the lines.
    pub(super) first: Vec<Kind>,
    /// What the lines ask for.
    pub(super) kind: LineKind,
    pub(super) source: Source,
}

/// Sends a transaction. The timeout counts from the end of its lines.
pub(super) async fn write(client: &Client, change: Change<'_>, timeout: Duration) -> Answer {
    let Change { bridge, first, kind, source } = change;
    let name = source.name().into_owned();
    let mut service = tokio::time::timeout(timeout, client.pipeline())
        .await
        .map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??;
    let (messages, receiver) = mpsc::channel(MESSAGES_QUEUED);
    let mut batch = Batch { bridge: bridge.to_owned(), kind, messages, updates: Vec::new(), len: 0 };
    batch.updates.extend(first.into_iter().map(|update| v1::Update { tag: 0, update: Some(update) }));
    let reading = tokio::task::spawn_blocking(move || {
        // What ends without commit is not applied. The stream ends when the batch goes: not before
        // it is known here why, lest the switch's word for that be the first one.
        let read = source.read(|line| batch.add(line)).map(|()| batch.send(true));
        (read, batch)
    });
    let call = service.write(ReceiverStream::new(receiver));
    tokio::pin!(call);
    let answer = tokio::select! {
        biased;
        // The switch need not wait for the end to refuse.
        answer = &mut call => answer,
        read = reading => {
            let (read, batch) = read.map_err(std::io::Error::other)?;
            read.map_err(|error| Error::Input { name: name.clone(), error })?;
            drop(batch);
            tokio::time::timeout(timeout, call)
                .await
                .map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))?
        }
    };
    let response = client.answer(answer)?;
    if response.applied { Ok(Box::new(Applied::new(&name, response))) } else { Err(refusal(&name, &response)) }
}

/// Lines on their way to the switch.
struct Batch {
    bridge: String,
    kind: LineKind,
    messages: mpsc::Sender<v1::WriteRequest>,
    updates: Vec<v1::Update>,
    len: usize,
}

impl Batch {
    /// Adds a line. False: the switch takes no more.
    fn add(&mut self, Line { number, text }: Line) -> bool {
        self.len += text.len();
        let update = Kind::Line(v1::LineUpdate { kind: self.kind.into(), line: text });
        self.updates.push(v1::Update { tag: number, update: Some(update) });
        (self.updates.len() < MESSAGE_UPDATES && self.len < MESSAGE_LEN) || self.send(false)
    }

    fn send(&mut self, commit: bool) -> bool {
        self.len = 0;
        let updates = std::mem::take(&mut self.updates);
        let message = v1::WriteRequest { bridge: self.bridge.clone(), updates, commit };
        self.messages.blocking_send(message).is_ok()
    }
}

fn refusal(name: &str, response: &v1::WriteResponse) -> Error {
    let bad = |status: &&v1::UpdateStatus| {
        matches!(status.outcome(), UpdateOutcome::Invalid | UpdateOutcome::Refused) && !status.reason.is_empty()
    };
    let updates = response.statuses.iter().filter(bad).map(|status| BadUpdate::new(name, status));
    Error::Updates { updates: updates.collect(), count: response.refused }
}

/// A transaction that was applied.
struct Applied {
    updates: u64,
    affected: u64,
    /// Updates that have warnings.
    warned: u64,
    /// Those that the switch told, each with the number of its update among those that have any.
    warnings: Vec<(u64, String)>,
}

impl Applied {
    fn new(name: &str, response: v1::WriteResponse) -> Self {
        let warned = response.statuses.into_iter().filter(|status| !status.warnings.is_empty());
        let line = |(status, number): (v1::UpdateStatus, u64)| {
            let place = place(name, status.tag);
            status.warnings.into_iter().map(move |warning| (number, format!("{place}{warning}"))).collect::<Vec<_>>()
        };
        let warnings: Vec<_> = warned.zip(1..).flat_map(line).collect();
        // The switch leaves texts out when there are many.
        let warned = warnings.last().map_or(0, |(number, _)| *number).max(response.warned);
        Self { updates: response.updates, affected: response.affected, warned, warnings }
    }
}

impl Report for Applied {
    fn text(&self) -> String {
        String::new()
    }

    fn json(&self) -> Value {
        let warnings: Vec<_> = self.warnings.iter().map(|(_, warning)| warning).collect();
        json!({
            "ok": true,
            "updates": self.updates,
            "affected": self.affected,
            "warned": self.warned,
            "warnings": warnings,
        })
    }

    fn warnings(&self) -> Vec<String> {
        let told = self.warnings.iter().take(WARNINGS_MAX);
        let updates = told.clone().next_back().map_or(0, |(number, _)| *number);
        let mut warnings: Vec<_> = told.map(|(_, warning)| warning.clone()).collect();
        if self.warned > updates {
            warnings.push(format!("and {} more with warnings", self.warned - updates));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response() -> v1::WriteResponse {
        let status = |outcome: UpdateOutcome, tag, reason: &str| v1::UpdateStatus {
            outcome: outcome.into(),
            tag,
            reason: reason.to_owned(),
            ..Default::default()
        };
        let invalid = v1::UpdateStatus {
            column: 9,
            field: "nw_src".to_owned(),
            hint: "did you mean nw_src?".to_owned(),
            code: "INVALID".to_owned(),
            ..status(UpdateOutcome::Invalid, 7, "no such field: nw_srk")
        };
        let refused = v1::UpdateStatus {
            code: "OFPBAC_BAD_OUT_GROUP".to_owned(),
            ..status(UpdateOutcome::Refused, 9, "group 5 does not exist")
        };
        let cut = status(UpdateOutcome::Invalid, 10, "");
        let statuses = vec![status(UpdateOutcome::NotApplied, 1, ""), invalid, refused, cut];
        v1::WriteResponse { applied: false, statuses, updates: 4, refused: 3, ..Default::default() }
    }

    #[test]
    fn a_refusal_names_file_line_column_and_what_to_do() {
        let error = refusal("flows.txt", &response());
        let want = "flows.txt:7: column 9: no such field: nw_srk; did you mean nw_src?\n\
                    flows.txt:9: OFPBAC_BAD_OUT_GROUP: group 5 does not exist\n\
                    and 1 more";
        assert_eq!(error.to_string(), want);
        let text = refusal("", &response()).to_string();
        assert!(text.starts_with("column 9: no such field"), "{text}");
    }

    #[test]
    fn warnings_name_their_line_and_are_bounded() {
        let status = |tag| v1::UpdateStatus { tag, warnings: vec!["odd".to_owned()], ..Default::default() };
        let response = v1::WriteResponse { statuses: (1..=22).map(status).collect(), ..Default::default() };
        let applied = Applied::new("-", response);
        let warnings = applied.warnings();
        assert_eq!(
            (warnings.len(), warnings[0].as_str(), warnings[20].as_str()),
            (21, "-:1: odd", "and 2 more with warnings")
        );
        assert_eq!(applied.json()["warnings"].as_array().map(Vec::len), Some(22));
        // The switch knows of more than it tells.
        let response =
            v1::WriteResponse { statuses: (1..=1000).map(status).collect(), warned: 3000, ..Default::default() };
        assert_eq!(Applied::new("-", response).warnings()[20], "and 2980 more with warnings");
        let response = v1::WriteResponse { statuses: vec![status(1)], warned: 1, ..Default::default() };
        assert_eq!(Applied::new("-", response).warnings(), ["-:1: odd"]);
    }

    #[test]
    fn lines_are_sent_in_bounded_messages() {
        let (messages, mut receiver) = mpsc::channel(64);
        let mut batch =
            Batch { bridge: "br0".to_owned(), kind: LineKind::AddFlow, messages, updates: Vec::new(), len: 0 };
        for number in 1..=5000 {
            assert!(batch.add(Line { number, text: format!("priority={number}") }));
        }
        assert!(batch.add(Line { number: 5001, text: "x".repeat(MESSAGE_LEN) }));
        batch.send(true);
        drop(batch);
        let mut sizes = Vec::new();
        let mut tags = Vec::new();
        while let Ok(message) = receiver.try_recv() {
            assert_eq!(message.bridge, "br0");
            sizes.push((message.updates.len(), message.commit));
            tags.extend(message.updates.iter().map(|update| update.tag));
        }
        assert_eq!((sizes, tags), (vec![(2048, false), (2048, false), (905, false), (0, true)], (1..=5001).collect()));
    }
}
