//! A persistent client of `ovs-appctl`'s socket: JSON-RPC without a process per command.

use super::{ANSWER_LIMIT, hangs};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to a daemon's control socket.
#[derive(Debug)]
pub(crate) struct UnixCtl {
    stream: UnixStream,
    received: Vec<u8>,
    next_id: u64,
}

impl UnixCtl {
    /// Connects.
    pub(crate) fn connect(path: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self { stream, received: Vec::new(), next_id: 0 })
    }

    /// Runs a command that must succeed.
    ///
    /// # Panics
    /// When it fails.
    pub(crate) fn run(&mut self, method: &str, params: &[&str]) -> String {
        self.call(method, params).unwrap_or_else(|error| panic!("{method} {params:?}: {error}"))
    }

    /// Runs a command; what it says when it fails is the error.
    pub(crate) fn call(&mut self, method: &str, params: &[&str]) -> Result<String, String> {
        self.send(method, params);
        self.answer()
    }

    /// Sends a command without waiting for its answer.
    pub(crate) fn send(&mut self, method: &str, params: &[&str]) {
        let request = json!({ "id": self.next_id, "method": method, "params": params });
        self.next_id += 1;
        self.stream.write_all(request.to_string().as_bytes()).expect("ovs-vswitchd reads its control socket");
    }

    /// The answer to the oldest command without one.
    pub(crate) fn answer(&mut self) -> Result<String, String> {
        self.try_answer().unwrap_or_else(|| hangs("its control socket"))
    }

    /// Does not wait for answers much longer than this.
    pub(crate) fn set_patience(&self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).expect("a timeout");
    }

    /// Like [`UnixCtl::answer`]; none: it has not come yet.
    pub(crate) fn try_answer(&mut self) -> Option<Result<String, String>> {
        let mut chunk = [0; 16384];
        loop {
            let mut values = serde_json::Deserializer::from_slice(&self.received).into_iter::<Value>();
            match values.next() {
                Some(Ok(answer)) => {
                    let used = values.byte_offset();
                    self.received.drain(..used);
                    return Some(match (answer["result"].as_str(), answer["error"].as_str()) {
                        (Some(result), _) => Ok(result.to_owned()),
                        (None, error) => Err(error.unwrap_or("no result").trim_end().to_owned()),
                    });
                }
                Some(Err(error)) if !error.is_eof() => panic!("ovs-vswitchd's control socket speaks no JSON: {error}"),
                _ => {}
            }
            let n = match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
                n => n.expect("ovs-vswitchd's control socket can be read"),
            };
            assert!(n > 0, "ovs-vswitchd has closed its control socket: it died");
            self.received.extend_from_slice(&chunk[..n]);
        }
    }
}
