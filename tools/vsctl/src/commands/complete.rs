//! `__complete`: what may follow an unfinished command line, for the scripts of `completion`.
//!
//! **Where in the walk.** A shell runs it when its user presses the tabulator.
//!
//! **Design.** One line per candidate: the word, a tabulator, what it means. The line `:files` asks
//! the shell for names of files.
//!
//! **Limits.** The switch has 300 ms to answer. What goes wrong gives no candidates and no word: a
//! command line is no place for errors.

use crate::cli::{DEFAULT_SOCKET, Noun, Wanted, wanted};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use vswitch_net_types::shown;
use vswitch_proto::{antrea, v1};

/// Time for the switch to tell names.
const PATIENCE: Duration = Duration::from_millis(300);

/// Candidates for the last word.
pub(super) async fn complete(words: &[String]) -> Answer {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let lines = match wanted(&words) {
        Wanted::Words(words) => words.into_iter().map(|(word, about)| line(&word, &about)).collect(),
        Wanted::Files => vec![":files".to_owned()],
        Wanted::Unknown => Vec::new(),
        Wanted::Names(front, noun) => {
            let client = Client::by_socket(socket(&words));
            let names = tokio::time::timeout(PATIENCE, names(&client, noun)).await;
            let names = names.ok().and_then(Result::ok).unwrap_or_default();
            names.into_iter().map(|(name, about)| line(&format!("{front}{name}"), &about)).collect()
        }
    };
    Ok(Box::new(Candidates(lines)))
}

/// One line, whatever the texts hold.
fn line(word: &str, about: &str) -> String {
    format!("{}\t{}", shown(word), shown(about.lines().next().unwrap_or_default()))
}

/// The socket that the unfinished words name.
fn socket(words: &[&str]) -> PathBuf {
    let apart = words.windows(2).find(|pair| pair[0] == "--socket").map(|pair| pair[1]);
    let given = words.iter().find_map(|word| word.strip_prefix("--socket=")).or(apart);
    let environment = || std::env::var_os("VSWITCH_SOCKET").map(PathBuf::from);
    given.map(PathBuf::from).or_else(environment).unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET))
}

/// Names, each with what it means.
async fn names(client: &Client, noun: Noun) -> Result<Vec<(String, String)>, Error> {
    Ok(match noun {
        Noun::Bridges => {
            bridges(client).await?.into_iter().map(|bridge| (name(&bridge), "bridge".to_owned())).collect()
        }
        Noun::Ports(bridge) => {
            let all = bridges(client).await?.into_iter();
            let mine = all.filter(|one| bridge.is_empty() || name(one) == bridge).flat_map(|bridge| bridge.ports);
            mine.map(|port| (port.config.unwrap_or_default().name, format!("{} port", port.r#type))).collect()
        }
        Noun::Tables(bridge) => tables(client, bridge).await?,
        Noun::TableMatches(bridge) => {
            let tables = tables(client, bridge).await?.into_iter();
            tables.map(|(name, about)| (format!("table={name}"), about)).collect()
        }
        Noun::Parts => {
            let answer = client.answer(client.statistics().await?.get_health(v1::GetHealthRequest {}).await)?;
            answer.parts.into_iter().map(|part| (part.name, String::new())).collect()
        }
        Noun::Pods => {
            let request = antrea::v1::ListPodsRequest::default();
            let mut parts = client.answer(client.antrea_pods().await?.list_pods(request).await)?;
            let mut names = Vec::new();
            while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
                names.extend(part.pods.into_iter().filter_map(|state| Some((state.pod?.name, "Pod".to_owned()))));
            }
            names
        }
        Noun::Policies => {
            let request = antrea::v1::ListNetworkPoliciesRequest::default();
            let call = client.antrea_policies().await?.list_network_policies(request).await;
            let mut parts = client.answer(call)?;
            let mut names = Vec::new();
            while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
                let policies = part.policies.into_iter();
                names.extend(policies.filter_map(|state| Some((state.policy?.name, "policy".to_owned()))));
            }
            names
        }
    })
}

async fn bridges(client: &Client) -> Result<Vec<v1::Bridge>, Error> {
    Ok(client.answer(client.bridges().await?.list_bridges(v1::ListBridgesRequest {}).await)?.bridges)
}

fn name(bridge: &v1::Bridge) -> String {
    bridge.config.as_ref().map_or(String::new(), |config| config.name.clone())
}

/// Tables with a name.
async fn tables(client: &Client, bridge: String) -> Result<Vec<(String, String)>, Error> {
    let answer = client.answer(client.tables().await?.list_tables(v1::ListTablesRequest { bridge }).await)?;
    let named = answer.tables.into_iter().filter(|table| !table.name.is_empty());
    Ok(named.map(|table| (table.name, format!("table {}", table.number))).collect())
}

struct Candidates(Vec<String>);

impl Report for Candidates {
    fn text(&self) -> String {
        self.0.iter().map(|line| format!("{line}\n")).collect()
    }

    fn json(&self) -> Value {
        json!(self.0)
    }
}
