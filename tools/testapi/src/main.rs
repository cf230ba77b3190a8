//! `vswitch-testapi`: the API server for tests as a process of its own.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use vswitch_testapi::{Options, Server, yaml};

/// An API server of Kubernetes for tests: in memory, over plain HTTP.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Address to listen at; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Write a kubeconfig to this file, with the first token.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Load all manifests of this directory first: CustomResourceDefinitions and others.
    #[arg(long, value_name = "DIR")]
    crds: Vec<PathBuf>,
    /// Accept this bearer token: TOKEN=USER or TOKEN=USER=GROUP,GROUP.
    #[arg(long, value_name = "TOKEN=USER")]
    token: Vec<String>,
    /// Enforce the roles and bindings in the store.
    #[arg(long)]
    rbac: bool,
    /// Changes that the history keeps.
    #[arg(long, default_value_t = 10_000)]
    history: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cli = Cli::parse();
    let mut options = Options { listen: cli.listen, rbac: cli.rbac, history: cli.history, ..Options::default() };
    for one in &cli.token {
        let (token, rest) = one.split_once('=').ok_or("--token: give TOKEN=USER or TOKEN=USER=GROUP,GROUP")?;
        let (user, groups) = rest.split_once('=').unwrap_or((rest, ""));
        let groups: Vec<&str> = groups.split(',').filter(|group| !group.is_empty()).collect();
        options = options.token(token, user, &groups);
    }
    let server = Server::start(options)?;
    for directory in &cli.crds {
        load(&server, directory)?;
    }
    if let Some(path) = &cli.kubeconfig_out {
        server.kubeconfig(path)?;
    }
    writeln!(io::stdout(), "listening on {}", server.address())?;
    io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}

fn load(server: &Server, directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let listed = std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json"));
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        for document in yaml::documents(&text).map_err(|error| format!("{}: {error}", file.display()))? {
            server.apply(document).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    Ok(())
}
