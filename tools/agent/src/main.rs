//! `vswitch-agent`: reads Kubernetes manifests, and tells vswitchd what is to be on this Node.
#![forbid(unsafe_code)]

use clap::Parser;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use vswitch_agent::cli::Cli;
use vswitch_agent::{run, signals};

/// What is logged by default. What the client of the API server logs, the agent tells itself.
const LEVEL: &str = "info,kube_client=off,kube_runtime=off";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LEVEL));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    logs.with_ansi(io::stderr().is_terminal()).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    match runtime {
        Ok(runtime) => ExitCode::from(runtime.block_on(async {
            signals::ignore_unused();
            run::run(&cli, &mut io::stdout()).await
        })),
        Err(error) => {
            tracing::error!("no runtime: {error}");
            ExitCode::FAILURE
        }
    }
}
