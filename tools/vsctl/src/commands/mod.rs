//! What is asked of the switch, and how the answers look. One file per noun, like the API.

mod about;
mod antrea;
mod bridge;
mod calls;
mod caps;
mod capture;
mod complete;
mod config;
mod conntrack;
mod doctor;
mod drops;
mod events;
mod fdb;
mod health;
mod limits;
mod listeners;
mod log;
mod observe;
mod perf;
mod pipeline;
mod port;
mod rates;
mod shell;
mod statistics;
mod support;
#[cfg(test)]
mod testing;
mod top;
mod tunnel;
mod watch;
mod worker;

use crate::cli::{Antrea, Cli, Command, Format};
use crate::client::Client;
use crate::error::{self, Error};
use crate::output::{Answer, Reply, Report, print};
use crate::yaml::Documents;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Does what the arguments say, and writes the answer.
pub(crate) fn run(cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(cli)?;
    let mut documents;
    let out: &mut dyn Write = if cli.manner.format == Format::Yaml {
        documents = Documents::new(out);
        &mut documents
    } else {
        out
    };
    runtime.block_on(async {
        if let Some(every) = cli.manner.watch {
            return watch::repeat(&client, cli, every, out).await;
        }
        let mut counted = Counted { out, bytes: 0 };
        let report = once(&client, cli, &mut counted).await?;
        if !cli.json && std::io::stdout().is_terminal() {
            let nothing = cli.manner.listing.filter(|_| counted.bytes == 0).map(|listing| listing.nothing.to_owned());
            if let Some(note) = nothing.or_else(|| report?.note()) {
                error::note(&note);
            }
        }
        Ok(())
    })
}

/// A writer that knows whether anything was written.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Asks once, and writes the answer. The report, if it was one.
async fn once(client: &Client, cli: &Cli, out: &mut dyn Write) -> Result<Option<Box<dyn Report>>, Error> {
    let asking = ask(client, cli, out);
    let reply = match time_of(cli) {
        None => asking.await?,
        Some(timeout) => {
            let reply = tokio::time::timeout(timeout, asking).await;
            reply.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??
        }
    };
    let report = reply.report().await?;
    if let Some(report) = &report {
        deliver(&**report, cli, out)?;
    }
    Ok(report)
}

/// Prints a report, and says whether it is good news.
fn deliver(report: &dyn Report, cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    let warnings = report.warnings();
    if !cli.json {
        error::warn(&warnings);
    } else if !warnings.is_empty() && !report.json().is_object() {
        error::warn_json(&warnings);
    }
    print(report, cli.json, out)?;
    report.verdict()
}

/// How long the reply may take: the timeout, and what a command is to take of itself. None: the
/// command sees to that.
fn time_of(cli: &Cli) -> Option<Duration> {
    let own = match &cli.command {
        // Each of their parts has the timeout.
        Command::Pipeline(_) | Command::SupportBundle(_) => return None,
        Command::WorkerPerfShow { interval, .. } => interval.unwrap_or_default(),
        Command::Top(args) => args.interval,
        Command::Antrea { verb: Antrea::TraceFlow(args) } => args.takes(),
        _ => Duration::ZERO,
    };
    Some(cli.timeout + own)
}

async fn ask<'a>(client: &'a Client, cli: &'a Cli, out: &'a mut dyn Write) -> Result<Reply<'a>, Error> {
    let answer: Answer = match &cli.command {
        Command::PortEvents { existing, count } => {
            let lines = events::follow(client, *existing, *count, cli.timeout, cli.json, out);
            return Ok(Reply::stream(lines));
        }
        Command::Capture(command) => return Ok(Reply::stream(capture::run(client, command, cli, out))),
        Command::Observe(args) => return Ok(Reply::stream(observe::follow(client, args, cli, out))),
        Command::Drops(command) => return drops::ask(client, command, cli, out).await,
        Command::Top(args) => return top::ask(client, args, cli).await,
        Command::Conntrack(command) => return conntrack::ask(client, command, cli, out).await,
        Command::Antrea { verb } => return antrea::ask(client, verb, cli, out).await,
        Command::Pipeline(command) => return pipeline::ask(client, command, cli, out).await,
        Command::Show => bridge::show(client).await,
        Command::AddBr(bridge) => bridge::add(client, bridge).await,
        Command::DelBr(name) => bridge::delete(client, &name.bridge).await,
        Command::ListBr => bridge::list(client).await,
        Command::SetFailMode { bridge, mode } => bridge::set_fail_mode(client, bridge, *mode).await,
        Command::SetStrict { bridge, strict } => bridge::set_strict(client, bridge, *strict).await,
        Command::AddPort(port) => port::add(client, port).await,
        Command::DelPort { bridge, name } => port::delete(client, bridge, name).await,
        Command::ListPorts(name) => port::list(client, &name.bridge).await,
        Command::ModPort(change) => port::modify(client, change).await,
        Command::PortCaps { bridge, port } => caps::show(client, bridge, port.as_deref()).await,
        Command::DumpPorts { bridge, port } => statistics::dump_ports(client, bridge, port.as_deref()).await,
        Command::FdbShow(name) => fdb::show(client, &name.bridge).await,
        Command::FdbFlush(filter) => fdb::flush(client, filter).await,
        Command::FdbAdd { bridge, port, vlan, mac } => fdb::add(client, bridge, port, *vlan, *mac).await,
        Command::FdbDel { bridge, vlan, mac } => fdb::delete(client, bridge, *vlan, *mac).await,
        Command::FdbStats(name) => fdb::stats(client, &name.bridge).await,
        Command::WorkerShow => worker::show(client).await,
        Command::WorkerPerfShow { interval, total } => perf::show(client, *interval, *total).await,
        Command::WorkerClear => worker::clear(client).await,
        Command::WorkerRxqShow => worker::rxq_show(client).await,
        Command::WorkerRxqPin { port, queue, core } => worker::rxq_pin(client, port, *queue, *core).await,
        Command::WorkerRxqRebalance => worker::rebalance(client).await,
        Command::MempoolShow => statistics::mempool(client).await,
        Command::Limits { port } => limits::show(client, port.as_deref()).await,
        Command::LogShow => statistics::log(client).await,
        Command::Log { verb } => log::ask(client, verb).await,
        Command::Config { verb } => config::ask(client, verb).await,
        Command::CallsShow => calls::show(client).await,
        Command::Names { pod } => observe::list(client, pod.as_deref()).await,
        Command::DropReasons => about::drop_reasons(client).await,
        Command::Capabilities => about::capabilities(client).await,
        Command::Health { part } => health::health(client, part.as_deref()).await,
        Command::HealthShow => health::show(client).await,
        Command::SupportBundle(args) => support::collect(client, args, cli).await,
        Command::Doctor(args) => doctor::examine(client, args).await,
        Command::ListenerShow => listeners::show(client).await,
        Command::Version => about::version(client).await,
        Command::Completion { shell } => Ok(Box::new(shell::completion(*shell))),
        Command::Complete { words } => complete::complete(words).await,
        Command::Man { verb } => Ok(Box::new(shell::man(verb.as_deref())?)),
        Command::Tunnel(command) => tunnel::ask(client, command).await,
        Command::Testing(command) => pipeline::ask_dummy(client, command).await,
    };
    answer.map(Reply::Report)
}
