//! `diff-flows`: the flows of two bridges or files, in normal form.

use super::flows::{self, texts};
use super::source::{Line, Source};
use crate::client::Client;
use crate::error::{BadUpdate, Error};
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use vswitch_proto::v1;

/// Lines that are normalized per call.
const LINES: usize = 4096;

/// What a flow is known by: table, priority and match.
type Key = (u32, std::cmp::Reverse<u32>, String);

/// What may differ of it: cookie, timeouts, importance, flags, actions; the rest of its line.
type Flows = BTreeMap<Key, String>;

/// One side of a comparison.
enum Side {
    Bridge(String),
    File(Source),
}

impl Side {
    /// Like ovs-ofctl: what begins with / or . or exists is a file. Here `-` is one too.
    fn new(name: &str) -> Self {
        let path = Path::new(name);
        if name == "-" || name.starts_with(['/', '.']) || path.is_file() {
            Self::File(Source::file(path))
        } else {
            Self::Bridge(name.to_owned())
        }
    }

    fn bridge(&self) -> Option<&str> {
        match self {
            Self::Bridge(name) => Some(name),
            Self::File(_) => None,
        }
    }
}

pub(super) async fn diff(client: &Client, first: &str, second: &str, names: bool) -> Answer {
    let sides = [Side::new(first), Side::new(second)];
    // Files name the ports and tables of the bridge that they are compared with.
    let bridge = sides.iter().find_map(Side::bridge).unwrap_or_default().to_owned();
    let mut flows = Vec::new();
    for side in sides {
        flows.push(match side {
            Side::Bridge(bridge) => of_bridge(client, &bridge, names).await?,
            Side::File(source) => of_file(client, source, &bridge, names).await?,
        });
    }
    let [second, first] = [flows.pop().unwrap_or_default(), flows.pop().unwrap_or_default()];
    Ok(Box::new(Diff::new(&first, &second)))
}

async fn of_bridge(client: &Client, bridge: &str, names: bool) -> Result<Flows, Error> {
    let form = v1::Form::Text.into();
    let request = v1::ListFlowsRequest { bridge: bridge.to_owned(), form, names, ..Default::default() };
    let (entries, _) = flows::list(client, request).await?;
    Ok(entries.into_iter().filter_map(|entry| entry.flow).map(|flow| split(&flow)).collect())
}

async fn of_file(client: &Client, source: Source, bridge: &str, names: bool) -> Result<Flows, Error> {
    let name = source.name().into_owned();
    let mut lines = Vec::new();
    let take = |Line { number, text }| {
        lines.push(v1::Line { tag: number, text });
        true
    };
    source.read(take).map_err(|error| Error::Input { name: name.clone(), error })?;
    let mut service = client.pipeline().await?;
    let (mut flows, mut bad) = (Flows::new(), Vec::new());
    for part in lines.chunks(LINES) {
        let form = v1::Form::Text.into();
        let request = v1::NormalizeFlowsRequest { bridge: bridge.to_owned(), lines: part.to_vec(), form, names };
        for normalized in client.answer(service.normalize_flows(request).await)?.flows {
            let status = normalized.status.unwrap_or_default();
            match normalized.flow.and_then(|entry| entry.flow) {
                Some(flow) => flows.extend([split(&flow)]),
                None => bad.push(BadUpdate::new(&name, &status)),
            }
        }
    }
    if bad.is_empty() { Ok(flows) } else { Err(Error::Updates { count: bad.len() as u64, updates: bad }) }
}

/// A flow's key, and the rest as ovs-ofctl's diff-flows prints it.
fn split(flow: &v1::Flow) -> (Key, String) {
    let (matching, actions) = texts(flow);
    let mut rest = String::new();
    if flow.cookie != 0 {
        rest += &format!("cookie={:#x} ", flow.cookie);
    }
    let numbers =
        [("idle_timeout", flow.idle_timeout), ("hard_timeout", flow.hard_timeout), ("importance", flow.importance)];
    for (word, number) in numbers {
        if number != 0 {
            rest += &format!("{word}={number} ");
        }
    }
    // Beyond ovs-ofctl: replace-flows makes a flow anew when its flags differ.
    for word in flows::flag_words(flow) {
        rest += &format!("{word} ");
    }
    rest += &format!("actions={actions}");
    let table = flow.table;
    ((table, std::cmp::Reverse(flow.priority.unwrap_or(PRIORITY_DEFAULT)), matching.to_owned()), rest)
}

/// Priority that is not printed.
const PRIORITY_DEFAULT: u32 = 32768;

/// Lines that differ.
struct Diff(Vec<String>);

impl Diff {
    fn new(first: &Flows, second: &Flows) -> Self {
        let mut keys: Vec<&Key> = first.keys().chain(second.keys().filter(|key| !first.contains_key(*key))).collect();
        keys.sort();
        let mut lines = Vec::new();
        for key in keys {
            let (old, new) = (first.get(key), second.get(key));
            if old != new {
                lines.extend(old.map(|rest| line('-', key, rest)));
                lines.extend(new.map(|rest| line('+', key, rest)));
            }
        }
        Self(lines)
    }
}

fn line(sign: char, (table, std::cmp::Reverse(priority), matching): &Key, rest: &str) -> String {
    let table = if *table == 0 { String::new() } else { format!("table={table} ") };
    let priority = if *priority == PRIORITY_DEFAULT { String::new() } else { format!("priority={priority}") };
    let comma = if priority.is_empty() || matching.is_empty() { "" } else { "," };
    format!("{sign}{table}{priority}{comma}{matching} {rest}")
}

impl Report for Diff {
    fn text(&self) -> String {
        self.0.iter().map(|line| format!("{line}\n")).collect()
    }

    fn json(&self) -> Value {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for line in &self.0 {
            let list = if line.starts_with('-') { &mut removed } else { &mut added };
            list.push(&line[1..]);
        }
        json!({ "equal": self.0.is_empty(), "removed": removed, "added": added })
    }

    fn verdict(&self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Differ) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(table: u32, priority: u32, matching: &str, actions: &str) -> v1::Flow {
        v1::Flow {
            table,
            priority: Some(priority),
            matching: Some(v1::flow::Matching::MatchText(matching.to_owned())),
            doing: Some(v1::flow::Doing::ActionsText(actions.to_owned())),
            ..Default::default()
        }
    }

    fn flows(list: &[v1::Flow]) -> Flows {
        list.iter().map(split).collect()
    }

    #[test]
    fn differences_are_those_of_ovs_ofctl() {
        // The lines that ovs-ofctl 3.1 prints for the same flows; only their order across
        // priorities is ours, and that flags count.
        let same = v1::Flow { cookie: 5, ..flow(1, 10, "tcp", "output:2") };
        let flags = Some(v1::FlowFlags { send_flow_rem: true, ..Default::default() });
        let flagged = v1::Flow { idle_timeout: 5, flags, ..flow(1, 11, "tcp", "output:2") };
        let gone =
            v1::Flow { cookie: 5, idle_timeout: 5, hard_timeout: 6, importance: 3, ..flow(3, 11, "tcp", "output:2") };
        let first = [flow(0, 10, "ip", "output:1"), same.clone(), flagged.clone(), flow(1, 0, "", "drop"), gone];
        let second = [
            flow(0, 10, "ip", "output:2"),
            same,
            flow(2, 32768, "", "output:2"),
            v1::Flow { flags: None, ..flagged },
            v1::Flow { hard_timeout: 9, ..flow(1, 0, "", "drop") },
        ];
        let want = "\
-priority=10,ip actions=output:1
+priority=10,ip actions=output:2
-table=1 priority=11,tcp idle_timeout=5 send_flow_rem actions=output:2
+table=1 priority=11,tcp idle_timeout=5 actions=output:2
-table=1 priority=0 actions=drop
+table=1 priority=0 hard_timeout=9 actions=drop
+table=2  actions=output:2
-table=3 priority=11,tcp cookie=0x5 idle_timeout=5 hard_timeout=6 importance=3 actions=output:2
";
        let diff = Diff::new(&flows(&first), &flows(&second));
        assert_eq!(diff.text(), want);
        assert!(matches!(diff.verdict(), Err(Error::Differ)));
        assert_eq!(diff.json()["added"].as_array().map(Vec::len), Some(4));
        let none = Diff::new(&flows(&first), &flows(&first));
        assert_eq!((none.text().as_str(), none.verdict().is_ok()), ("", true));
        assert_eq!(none.json(), json!({ "equal": true, "removed": [], "added": [] }));
    }

    #[test]
    fn sides() {
        for (name, bridge) in [("br0", Some("br0")), ("/br0", None), ("./br0", None), ("-", None)] {
            assert_eq!(Side::new(name).bridge(), bridge, "{name}");
        }
        let file = tempfile::NamedTempFile::new_in(".").expect("a file");
        let name = file.path().file_name().and_then(|name| name.to_str()).expect("a name");
        assert_eq!(Side::new(name).bridge(), None, "a file that exists");
    }
}
