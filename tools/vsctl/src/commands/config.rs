//! The configuration in force: printed, compared, changed.

use crate::cli::Config;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Done, Report};
use serde_json::{Value, json};
use std::io::{self, Read};
use std::path::Path;
use vswitch_proto::v1;

/// Bytes of a file that are read: more than the switch takes.
const FILE_LEN_MAX: u64 = 8 << 20;

pub(super) async fn ask(client: &Client, verb: &Config) -> Answer {
    Ok(match verb {
        Config::Export => {
            let answer = client.configs().await?.get_config(v1::GetConfigRequest {}).await;
            let v1::GetConfigResponse { text, left_out } = client.answer(answer)?;
            Box::new(Exported { text, left_out })
        }
        Config::Apply { file, dry_run, confirm } => apply(client, file, *dry_run, confirm.unwrap_or(0)).await?,
        Config::Diff { file: Some(file) } => apply(client, file, true, 0).await?,
        Config::Diff { file: None } => {
            let state = state(client).await?;
            let v1::GetConfigStateResponse { changes, restart, refused, problems, .. } = state;
            let changes = v1::ApplyConfigResponse { changes, restart, refused, warnings: problems, pending: false };
            Box::new(Changes { changes, dry_run: true, seconds: 0 })
        }
        Config::Confirm => confirm(client, false).await?,
        Config::Rollback => confirm(client, true).await?,
        Config::State => Box::new(State(state(client).await?)),
    })
}

async fn apply(client: &Client, file: &Path, dry_run: bool, seconds: u32) -> Answer {
    let (name, text) = read(file)?;
    let request = v1::ApplyConfigRequest { text, name, dry_run, confirm_seconds: seconds };
    let answer = client.configs().await?.apply_config(request).await;
    Ok(Box::new(Changes { changes: client.answer(answer)?, dry_run, seconds }))
}

async fn confirm(client: &Client, revert: bool) -> Answer {
    let answer = client.configs().await?.confirm_config(v1::ConfirmConfigRequest { revert }).await;
    client.answer(answer)?;
    Ok(Box::new(Done))
}

async fn state(client: &Client) -> Result<v1::GetConfigStateResponse, Error> {
    client.answer(client.configs().await?.get_config_state(v1::GetConfigStateRequest {}).await)
}

/// The name and the text of a file.
fn read(file: &Path) -> Result<(String, String), Error> {
    let is_stdin = file == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { file.display().to_string() };
    let mut text = String::new();
    let read = if is_stdin {
        io::stdin().lock().take(FILE_LEN_MAX).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(FILE_LEN_MAX).read_to_string(&mut text))
    };
    match read {
        Ok(_) => Ok((name, text)),
        Err(error) => Err(Error::Input { name, error }),
    }
}

/// `config export`.
struct Exported {
    text: String,
    left_out: Vec<String>,
}

impl Report for Exported {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn json(&self) -> Value {
        json!({ "text": self.text, "left_out": self.left_out })
    }
}

/// What has changed, or would.
struct Changes {
    changes: v1::ApplyConfigResponse,
    dry_run: bool,
    seconds: u32,
}

/// Lines of changes, what needs a restart, and what an agent owns.
fn lines(changes: &[String], restart: &[String], refused: &[String]) -> String {
    let plain = changes.iter().map(|change| format!("{change}\n"));
    let restart = restart.iter().map(|change| format!("needs a restart: {change}\n"));
    let refused = refused.iter().map(|change| format!("belongs to an agent: {change}\n"));
    plain.chain(restart).chain(refused).collect()
}

impl Report for Changes {
    fn text(&self) -> String {
        let v1::ApplyConfigResponse { changes, restart, refused, pending, .. } = &self.changes;
        let mut text = lines(changes, restart, refused);
        if text.is_empty() {
            text = "nothing differs\n".to_owned();
        }
        if *pending {
            text += &format!("taken back in {} s, unless you run: vsctl config confirm\n", self.seconds);
        }
        text
    }

    fn json(&self) -> Value {
        let v1::ApplyConfigResponse { changes, restart, refused, warnings, pending } = &self.changes;
        json!({
            "dry_run": self.dry_run,
            "changes": changes,
            "restart": restart,
            "refused": refused,
            "warnings": warnings,
            "pending": pending,
        })
    }

    fn warnings(&self) -> Vec<String> {
        self.changes.warnings.clone()
    }
}

/// `config state`.
struct State(v1::GetConfigStateResponse);

impl Report for State {
    fn text(&self) -> String {
        let v1::GetConfigStateResponse { last, changes, restart, refused, problems } = &self.0;
        let mut text = match last {
            None => "last apply: none since the start\n".to_owned(),
            Some(last) => {
                let by = match last.source.as_str() {
                    "client" => format!("a client ({})", last.client),
                    source => format!("the {source}"),
                };
                let left = last.seconds_left.map(|left| format!(", {left} s left")).unwrap_or_default();
                let count = last.changes.len();
                format!(
                    "last apply: {}{left}; {count} changes by {by}, at {} s since 1970\n",
                    last.state,
                    last.unix_ms / 1000
                )
            }
        };
        let differences = lines(changes, restart, refused);
        text += match (differences.is_empty(), problems.is_empty()) {
            (_, false) => "the file of the start is wrong:\n",
            (true, true) => "the file of the start: nothing differs\n",
            (false, true) => "the file of the start would change:\n",
        };
        problems.iter().for_each(|problem| text += &format!("  {problem}\n"));
        differences.lines().for_each(|line| text += &format!("  {line}\n"));
        text
    }

    fn json(&self) -> Value {
        let v1::GetConfigStateResponse { last, changes, restart, refused, problems } = &self.0;
        let last = last.as_ref().map(|last| {
            json!({
                "source": last.source,
                "client": last.client,
                "unix_ms": last.unix_ms,
                "changes": last.changes,
                "state": last.state,
                "seconds_left": last.seconds_left,
            })
        });
        json!({ "last": last, "changes": changes, "restart": restart, "refused": refused, "problems": problems })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_both_ways() {
        let mut report = Changes { changes: v1::ApplyConfigResponse::default(), dry_run: true, seconds: 0 };
        assert_eq!(report.text(), "nothing differs\n");
        report.changes.changes.push("add port p0 (tap) to bridge br0".to_owned());
        report.changes.restart.push("[dpdk] memory_mb 512 -> 1024".to_owned());
        (report.changes.pending, report.seconds) = (true, 60);
        assert_eq!(
            report.text(),
            "add port p0 (tap) to bridge br0\nneeds a restart: [dpdk] memory_mb 512 -> 1024\n\
             taken back in 60 s, unless you run: vsctl config confirm\n"
        );
        assert_eq!(report.json()["changes"], json!(["add port p0 (tap) to bridge br0"]));
    }

    #[test]
    fn the_state_both_ways() {
        let mut state = State(v1::GetConfigStateResponse::default());
        assert_eq!(state.text(), "last apply: none since the start\nthe file of the start: nothing differs\n");
        state.0.last = Some(v1::AppliedConfig {
            source: "client".to_owned(),
            client: "uid=0".to_owned(),
            unix_ms: 1000,
            changes: vec!["x".to_owned()],
            state: "waits for confirmation".to_owned(),
            seconds_left: Some(9),
        });
        state.0.changes.push("delete port p0 of bridge br0".to_owned());
        assert_eq!(
            state.text(),
            "last apply: waits for confirmation, 9 s left; 1 changes by a client (uid=0), at 1 s since 1970\n\
             the file of the start would change:\n  delete port p0 of bridge br0\n"
        );
        assert_eq!(state.json()["last"]["seconds_left"], 9);
    }
}
