//! `vswitch-cni`: the CNI plug-in of the switch.
//!
//! A container runtime starts it for each call of the CNI specification
//! (<https://www.cni.dev/docs/spec/>): 0.3.1, 0.4.0, 1.0.0 and 1.1.0.
//!
//! **Design**: `environment` and `config` read the call, `ipam` delegates addresses to another
//! plug-in, `agent` asks `vswitch-agent` to do the work, `result` says what came of it.
//! `commands` has one function for each command. The plug-in itself changes nothing of the Node
//! but two kinds of files: a note of a DEL that the agent has not heard of, and the device
//! information of a vhost-user socket (`device_info`).
//!
//! **Limits**: a configuration and an answer of an IPAM plug-in have 1 MiB at most. The agent has
//! 30 s for a call, an IPAM plug-in 60 s.
//!
//! **Threads**: one.
#![forbid(unsafe_code)]

mod agent;
mod commands;
mod config;
mod device_info;
mod environment;
mod error;
mod ipam;
mod result;

use environment::Call;
use error::CniError;
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// Bytes of a configuration, or of an answer.
const LEN_MAX: u64 = 1 << 20;

fn main() -> ExitCode {
    let mut text = Vec::new();
    let read = io::stdin().take(LEN_MAX + 1).read_to_end(&mut text);
    let (said, code) = match read {
        Err(error) => (Err(CniError::io(format!("the standard input cannot be read: {error}"))), 1),
        Ok(len) if len as u64 > LEN_MAX => (Err(CniError::decode("the configuration is longer than 1 MiB")), 1),
        Ok(_) => {
            let said = answer(&text);
            let code = u8::from(said.is_err());
            (said, code)
        }
    };
    let text = match said {
        Ok(Some(value)) => value.to_string(),
        Ok(None) => String::new(),
        Err(error) => error.json(config::version_of(&text)).to_string(),
    };
    let mut out = io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if written.is_err() { ExitCode::FAILURE } else { ExitCode::from(code) }
}

/// What one call comes to.
fn answer(text: &[u8]) -> Result<Option<serde_json::Value>, CniError> {
    let call = Call::read(|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CniError::io(format!("no runtime: {error}")))?;
    runtime.block_on(commands::run(&call, text))
}
