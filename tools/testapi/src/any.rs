//! One suite on both: the server of this crate, or a real one.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::client;
use crate::log::Entry;
use crate::options::Options;
use crate::rbac::User;
use crate::real::{ASSETS, RealServer};
use crate::server::Server;

/// A server of this crate, or a real one.
#[derive(Debug)]
pub enum AnyServer {
    /// In memory.
    Fake(Server),
    /// `kube-apiserver` and `etcd`.
    Real(RealServer),
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub code: u16,
    /// The object; null where the answer is no JSON.
    pub body: Value,
    /// The answer as it came.
    pub text: String,
}

impl Reply {
    /// The object's resourceVersion; empty where it has none.
    pub fn version(&self) -> String {
        self.body["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
    }
}

/// The lines of a watch.
#[derive(Debug)]
pub struct WatchLines {
    body: Body,
    rest: BytesMut,
}

impl WatchLines {
    /// The next event; None at the end of the stream; an error where the stream broke.
    pub async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                return serde_json::from_slice(&line).map(Some).map_err(|error| error.to_string());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.rest.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Some(Err(error)) => return Err(error.to_string()),
                None if self.rest.is_empty() => return Ok(None),
                None => return Err("the stream ended within a line".to_owned()),
            }
        }
    }
}

impl AnyServer {
    /// The server of this crate, and behind it a real one if `KUBEBUILDER_ASSETS` is set; else one
    /// line says that it is skipped. Both enforce RBAC. The first token must be of the group
    /// `system:masters`.
    pub fn both(tokens: &[(&str, &str, &[&str])]) -> std::io::Result<Vec<Self>> {
        let add = |options: Options, one: &(&str, &str, &[&str])| options.token(one.0, one.1, one.2);
        let options = tokens.iter().fold(Options { rbac: true, ..Options::default() }, add);
        let users: Vec<(String, User)> = options.tokens.clone();
        let mut servers = vec![Self::Fake(Server::start(options)?)];
        match RealServer::start(&users)? {
            Some(real) => servers.push(Self::Real(real)),
            None => skipped(),
        }
        Ok(servers)
    }

    /// It is `kube-apiserver`.
    pub fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    /// Its URL.
    pub fn url(&self) -> String {
        match self {
            Self::Fake(server) => server.url(),
            Self::Real(server) => server.url().to_owned(),
        }
    }

    /// The log of requests for objects.
    pub fn requests(&self) -> Vec<Entry> {
        match self {
            Self::Fake(server) => server.requests(),
            Self::Real(server) => server.requests(),
        }
    }

    fn config(&self, token: Option<&str>) -> String {
        match self {
            Self::Fake(server) => server.kubeconfig_text(token),
            Self::Real(server) => server.kubeconfig_text(token),
        }
    }

    /// Writes a kubeconfig with a token.
    pub fn kubeconfig(&self, path: &Path, token: Option<&str>) -> std::io::Result<()> {
        std::fs::write(path, self.config(token))
    }

    /// A client of kube-rs that does not retry.
    pub async fn client(&self, token: Option<&str>) -> Result<Client, String> {
        client::of(&self.config(token)).await
    }

    /// One request. `media` is the type of the body.
    pub async fn call(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<Reply, String> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut request = Request::builder().method(method).uri(path);
        if !bytes.is_empty() {
            request = request.header(http::header::CONTENT_TYPE, media);
        }
        let request = request.body(Body::from(bytes)).map_err(|error| error.to_string())?;
        let response = client.send(request).await.map_err(|error| format!("{error:?}"))?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Reply { code, body: serde_json::from_str(&text).unwrap_or_default(), text })
    }

    /// Begins a watch. An error is the answer's status and text.
    pub async fn watch(&self, client: &Client, path: &str) -> Result<WatchLines, String> {
        let request = Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
        let response = client.send(request).await.map_err(|error| format!("{error:?}"))?;
        let code = response.status();
        let body = response.into_body();
        if !code.is_success() {
            let bytes = body.collect_bytes().await.map_err(|error| error.to_string())?;
            return Err(format!("{code}: {}", String::from_utf8_lossy(&bytes)));
        }
        Ok(WatchLines { body, rest: BytesMut::new() })
    }
}

/// The one line of a test that has no real server.
#[allow(clippy::print_stderr, reason = "a test says what it skips")]
fn skipped() {
    eprintln!("skipped on a real API server: {ASSETS} is not set");
}
