//! Delegation of addresses: the plug-in `ipam.type` is started with the same variables.

use crate::config::Config;
use crate::environment::{Call, Command};
use crate::error::CniError;
use crate::{LEN_MAX, config};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use vswitch_proto::agent::v1::GetConfigResponse;

/// A plug-in that asks others, such as `dhcp`, may take long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The plug-in that is used if the configuration names none.
const HOST_LOCAL: &str = "host-local";

/// Stands for the Node's prefix where only releases matter: `host-local` needs one, and finds what
/// it gave by the container's id.
const ANY_PREFIX: &str = "192.0.2.0/24";

/// Characters of another program's words that are told on.
const WORDS_MAX: usize = 400;

/// What an IPAM plug-in has given.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Given {
    #[serde(default)]
    pub(crate) ips: Vec<Ip>,
    #[serde(default)]
    pub(crate) routes: Vec<Route>,
    pub(crate) dns: Option<Value>,
}

/// An address.
#[derive(Debug, Deserialize)]
pub(crate) struct Ip {
    pub(crate) address: String,
    #[serde(default)]
    pub(crate) gateway: String,
}

/// A route.
#[derive(Debug, Deserialize)]
pub(crate) struct Route {
    pub(crate) dst: String,
    #[serde(default)]
    pub(crate) gw: String,
}

/// What a plug-in says to VERSION.
#[derive(Default, Deserialize)]
struct Versions {
    #[serde(default, rename = "supportedVersions")]
    supported: Vec<String>,
}

/// An error, as a plug-in prints it.
#[derive(Deserialize)]
struct Printed {
    code: u32,
    #[serde(default)]
    msg: String,
    #[serde(default)]
    details: String,
}

/// The IPAM plug-in of a configuration.
pub(crate) struct Ipam<'a> {
    call: &'a Call,
    config: &'a Config,
    kind: String,
    section: Map<String, Value>,
}

impl<'a> Ipam<'a> {
    /// Of a configuration; `node` is what the agent has told of the Node, if it is there.
    pub(crate) fn new(call: &'a Call, config: &'a Config, node: Option<&GetConfigResponse>) -> Result<Self, CniError> {
        let mut section = config.ipam.clone();
        let kind = section.entry("type").or_insert_with(|| HOST_LOCAL.into());
        let Some(kind) = kind.as_str().filter(|kind| config_name(kind)).map(str::to_owned) else {
            return Err(CniError::config(format!("ipam.type {kind} is no name of a plug-in")));
        };
        if kind == HOST_LOCAL && !section.contains_key("ranges") && !section.contains_key("subnet") {
            section.insert("ranges".to_owned(), ranges(node));
        }
        Ok(Self { call, config, kind, section })
    }

    /// Whether addresses are of the Node's prefixes, and there are none.
    pub(crate) fn has_no_range(&self) -> bool {
        self.section.get("ranges").and_then(Value::as_array).is_some_and(Vec::is_empty)
    }

    /// Gives addresses to the container.
    pub(crate) async fn add(&self) -> Result<Given, CniError> {
        let text = self.run(Command::Add).await?;
        serde_json::from_slice(&text)
            .map_err(|error| CniError::decode(format!("IPAM {}: the result is none: {error}", self.kind)))
    }

    /// Takes back what the container has.
    pub(crate) async fn del(&self) -> Result<(), CniError> {
        self.run(Command::Del).await.map(drop)
    }

    /// Whether the container has what it was given.
    pub(crate) async fn check(&self) -> Result<(), CniError> {
        self.run(Command::Check).await.map(drop)
    }

    /// GC or STATUS. A plug-in that is older than these commands is content.
    pub(crate) async fn tell(&self) -> Result<(), CniError> {
        let said = self.run_as(Command::Version, self.config.version).await?;
        let known: Versions = serde_json::from_slice(&said).unwrap_or_default();
        if !known.supported.iter().any(|version| version == config::LATEST) {
            return Ok(());
        }
        self.run_as(self.call.command, self.config.version).await.map(drop)
    }

    /// Runs it. A plug-in that does not know the version yet is asked in the one before, whose
    /// results have the same form.
    async fn run(&self, command: Command) -> Result<Vec<u8>, CniError> {
        match self.run_as(command, self.config.version).await {
            Err(error) if error.code == 1 && self.config.version == config::LATEST => {
                self.run_as(command, "1.0.0").await
            }
            other => other,
        }
    }

    async fn run_as(&self, command: Command, version: &str) -> Result<Vec<u8>, CniError> {
        let program = self.program()?;
        let mut whole = self.config.whole.clone();
        whole.insert("cniVersion".to_owned(), version.into());
        whole.insert("ipam".to_owned(), Value::Object(self.section.clone()));
        let text = Value::Object(whole).to_string();
        let wrong = |what: &str| CniError::io(format!("IPAM {}: {what}", self.kind));
        let run = async {
            let mut child = tokio::process::Command::new(&program)
                .env("CNI_COMMAND", command.word())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let write = async {
                // A plug-in that does not read it is judged by its answer.
                if let Some(mut stdin) = stdin {
                    let _ = stdin.write_all(text.as_bytes()).await;
                }
            };
            let ((), said, complaint) = tokio::join!(write, all_of(stdout), all_of(stderr));
            let status = child.wait().await?;
            Ok::<_, std::io::Error>((status, said?, complaint?))
        };
        match tokio::time::timeout(TIMEOUT, run).await {
            Err(_) => Err(wrong("did not end within 60 s")),
            Ok(Err(error)) => Err(wrong(&format!("{}: {error}", program.display()))),
            Ok(Ok((status, said, _))) if status.success() => Ok(said),
            Ok(Ok((status, said, complaint))) => Err(match serde_json::from_slice::<Printed>(&said) {
                Ok(Printed { code, msg, details }) => {
                    let message = format!("IPAM {}: {msg}", self.kind);
                    CniError { code, message, details }
                }
                Err(_) => wrong(&format!("{status}: {}", words(&complaint))),
            }),
        }
    }

    fn program(&self) -> Result<PathBuf, CniError> {
        let mut found = self.call.path.iter().map(|dir| dir.join(&self.kind)).filter(|file| file.is_file());
        found.next().ok_or_else(|| {
            let dirs: Vec<_> = self.call.path.iter().map(|dir| dir.display().to_string()).collect();
            CniError::io(format!("there is no IPAM plug-in {} in {}", self.kind, dirs.join(":")))
                .hint("install it there, or name another one as ipam.type")
        })
    }
}

/// Whether this is the name of a plug-in, and no path.
fn config_name(kind: &str) -> bool {
    crate::environment::is_name(kind)
}

/// Ranges for `host-local`: the Node's prefixes, without the gateway's addresses.
fn ranges(node: Option<&GetConfigResponse>) -> Value {
    let Some(node) = node else { return json!([[{"subnet": ANY_PREFIX}]]) };
    let range = |cidr: &String| {
        let gateway = node.gateways.iter().find(|gateway| gateway.contains(':') == cidr.contains(':'));
        match gateway {
            Some(gateway) => json!([{"subnet": cidr, "gateway": gateway}]),
            None => json!([{"subnet": cidr}]),
        }
    };
    node.pod_cidrs.iter().map(range).collect()
}

async fn all_of(pipe: Option<impl AsyncReadExt + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(LEN_MAX).read_to_end(&mut text).await?;
    }
    Ok(text)
}

/// What a program said, cut.
fn words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.trim().chars().filter(|one| !one.is_control()).take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_the_nodes_prefixes() {
        let node = GetConfigResponse {
            pod_cidrs: vec!["10.10.0.0/24".to_owned(), "fd00::/64".to_owned()],
            gateways: vec!["10.10.0.9".to_owned()],
            ..GetConfigResponse::default()
        };
        let expected = json!([[{"subnet": "10.10.0.0/24", "gateway": "10.10.0.9"}], [{"subnet": "fd00::/64"}]]);
        assert_eq!(ranges(Some(&node)), expected);
        assert_eq!(ranges(None), json!([[{"subnet": ANY_PREFIX}]]));
    }
}
