//! A real API server: `etcd` and `kube-apiserver` from the directory `KUBEBUILDER_ASSETS`.
//!
//! That is the convention of Kubernetes' envtest. The flags are those that 1.20 and newer servers
//! take. The server makes its own certificates; `openssl` makes the key for service accounts. No
//! controller runs: a deleted Namespace stays Terminating, and Services get no endpoints.
//! Both programs end when [`RealServer`] is dropped. Their logs are in its directory until then.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client;
use crate::kubeconfig;
use crate::log::Entry;
use crate::rbac::User;

/// Variable that names the directory with the programs.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// A cold machine takes 20 seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Its log of requests, and what is in it: who asked for what.
const AUDIT_LOG: &str = "audit.log";
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";

/// A real API server that runs.
#[derive(Debug)]
pub struct RealServer {
    apiserver: Child,
    etcd: Child,
    directory: tempfile::TempDir,
    url: String,
    tokens: Vec<(String, User)>,
}

impl Drop for RealServer {
    fn drop(&mut self) {
        for child in [&mut self.apiserver, &mut self.etcd] {
            stop(child);
        }
    }
}

fn stop(child: &mut Child) {
    // It may have ended by itself, which is as good.
    let _ = child.kill();
    let _ = child.wait();
}

/// The directory with the programs, if the variable is set.
pub fn assets() -> Option<PathBuf> {
    std::env::var_os(ASSETS).filter(|path| !path.is_empty()).map(PathBuf::from)
}

impl RealServer {
    /// Starts a server with these tokens, and waits until it is ready. None: `KUBEBUILDER_ASSETS`
    /// is not set. The first token must be of the group `system:masters`.
    pub fn start(tokens: &[(String, User)]) -> io::Result<Option<Self>> {
        let Some(assets) = assets() else { return Ok(None) };
        let mut last = io::Error::other("not tried");
        // Another process may take a port between its choice and its use.
        for _ in 0..3 {
            match Self::try_start(&assets, tokens) {
                Ok(server) => return Ok(Some(server)),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn try_start(assets: &Path, tokens: &[(String, User)]) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        let [client, peer, secure] = ports()?;
        let client = format!("http://127.0.0.1:{client}");
        let etcd = start_etcd(assets, path, &client, &format!("http://127.0.0.1:{peer}"))?;
        let url = format!("https://127.0.0.1:{secure}");
        let apiserver = match start_apiserver(assets, path, &client, secure, tokens) {
            Ok(apiserver) => apiserver,
            Err(error) => {
                let mut etcd = etcd;
                stop(&mut etcd);
                return Err(error);
            }
        };
        let mut server = Self { apiserver, etcd, directory, url, tokens: tokens.to_vec() };
        server.wait_ready()?;
        Ok(server)
    }

    fn wait_ready(&mut self) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        let token = self.tokens.first().map(|(token, _)| token.clone());
        loop {
            let ended = [("kube-apiserver", self.apiserver.try_wait()?), ("etcd", self.etcd.try_wait()?)];
            for (name, status) in ended {
                if let Some(status) = status {
                    return Err(self.failed(&format!("{name} ended with {status}")));
                }
            }
            let config = self.kubeconfig_text(token.as_deref());
            if self.ca().exists() && client::is_ready(config) {
                return Ok(());
            }
            if Instant::now() > end {
                let why = self.failed(&format!("not ready within {} seconds", PATIENCE.as_secs()));
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A message with the ends of the logs.
    fn failed(&self, why: &str) -> io::Error {
        let mut message = why.to_owned();
        for name in ["kube-apiserver", "etcd"] {
            let text = fs::read_to_string(self.directory.path().join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(8).collect();
            let end: Vec<&str> = lines.into_iter().rev().collect();
            message = format!("{message}\n{name}:\n{}", end.join("\n"));
        }
        io::Error::other(message)
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// File with the certificate authority of the server.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("certs").join("apiserver.crt")
    }

    /// Tokens and their users.
    pub fn tokens(&self) -> &[(String, User)] {
        &self.tokens
    }

    /// The log of requests for objects. Queries are not in it, and no status of watches that go on.
    pub fn requests(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.directory.path().join(AUDIT_LOG)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter_map(|event| entry(&event)).collect()
    }

    /// Text of a kubeconfig with a token.
    pub fn kubeconfig_text(&self, token: Option<&str>) -> String {
        kubeconfig::text(&self.url, Some(&self.ca().to_string_lossy()), token)
    }
}

/// An event of the audit log (audit.k8s.io/v1), if it is about objects, and the one of its request.
/// Of watches that is the first one: 1.20 logs the next one at their ends.
fn entry(event: &Value) -> Option<Entry> {
    let of = event.get("objectRef")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let status = event["responseStatus"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let is_begun = event["stage"] == "RequestReceived";
    let is_it = if event["verb"] == "watch" { is_begun || status.is_some_and(|code| code >= 400) } else { !is_begun };
    if !is_it {
        return None;
    }
    let mut resource = text(&of["resource"]);
    for (mark, field) in [(".", "apiGroup"), ("/", "subresource")] {
        if let Some(part) = of[field].as_str().filter(|part| !part.is_empty()) {
            resource = format!("{resource}{mark}{part}");
        }
    }
    Some(Entry {
        verb: text(&event["verb"]),
        resource,
        namespace: text(&of["namespace"]),
        name: text(&of["name"]),
        user: text(&event["user"]["username"]),
        query: String::new(),
        status: status.unwrap_or(0),
    })
}

/// Three ports that are free now.
fn ports() -> io::Result<[u16; 3]> {
    let listeners =
        [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let [a, b, c] = &listeners;
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}

fn run(program: &Path, directory: &Path, name: &str, arguments: &[String]) -> io::Result<Child> {
    let log = File::create(directory.join(format!("{name}.log")))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().map_err(|error| io::Error::other(format!("{}: {error}", program.display())))
}

fn start_etcd(assets: &Path, directory: &Path, client: &str, peer: &str) -> io::Result<Child> {
    let data = directory.join("etcd");
    let arguments = [
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ];
    run(&assets.join("etcd"), directory, "etcd", &arguments)
}

fn start_apiserver(
    assets: &Path,
    directory: &Path,
    etcd: &str,
    port: u16,
    tokens: &[(String, User)],
) -> io::Result<Child> {
    let file = |name: &str| directory.join(name).display().to_string();
    let key = file("service-account.key");
    let made = Command::new("openssl").args(["genrsa", "-out", &key, "2048"]).output();
    let made = made.map_err(|error| {
        io::Error::other(format!("openssl: {error}: a real API server needs an RSA key; install openssl"))
    })?;
    if !made.status.success() {
        return Err(io::Error::other(format!("openssl: {}", String::from_utf8_lossy(&made.stderr))));
    }
    let line = |(i, (token, user)): (usize, &(String, User))| {
        format!("{token},{},uid{i},\"{}\"\n", user.name, user.groups.join(","))
    };
    fs::write(file("tokens.csv"), tokens.iter().enumerate().map(line).collect::<String>())?;
    fs::write(file("audit.yaml"), AUDIT_POLICY)?;
    let arguments = [
        format!("--audit-policy-file={}", file("audit.yaml")),
        format!("--audit-log-path={}", file(AUDIT_LOG)),
        format!("--etcd-servers={etcd}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--cert-dir={}", file("certs")),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={key}"),
        format!("--service-account-key-file={key}"),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
    ];
    run(&assets.join("kube-apiserver"), directory, "kube-apiserver", &arguments)
}
