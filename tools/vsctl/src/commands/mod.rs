//! What is asked of the switch, and how the answers look. One file per noun, like the API.

mod about;
mod antrea;
mod bridge;
mod caps;
mod conntrack;
mod events;
mod fdb;
mod perf;
mod pipeline;
mod port;
mod shell;
mod statistics;
#[cfg(test)]
mod testing;
mod tunnel;
mod worker;

pub(crate) use pipeline::BadLine;

use crate::cli::{Antrea, Cli, Command, Conntrack, Pipeline};
use crate::client::Client;
use crate::error::{self, Error};
use crate::output::{Report, print};
use std::io::Write;
use std::time::Duration;

/// What a command comes to.
type Answer = Result<Box<dyn Report>, Error>;

/// Does what the arguments say, and writes the answer.
pub(crate) fn run(cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(&cli.socket);
    runtime.block_on(async {
        if let Command::PortEvents { existing, count } = &cli.command {
            return events::follow(&client, *existing, *count, cli.timeout, cli.json, out).await;
        }
        if let Command::Conntrack(Conntrack::MonitorConntrack { connections, shown, count }) = &cli.command {
            let (statistics, more, count) = (shown.statistics, cli.more > 0, *count);
            let (timeout, as_json) = (cli.timeout, cli.json);
            let telling = conntrack::Telling { connections, statistics, more, count, timeout, as_json };
            return conntrack::follow(&client, telling, out).await;
        }
        if let Command::Antrea { verb: Antrea::Rules(rules) } = &cli.command
            && let Some(period) = rules.watch
        {
            return antrea::follow(&client, rules, period, cli, out).await;
        }
        match &cli.command {
            Command::Antrea { verb: Antrea::Events(args) } => {
                return antrea::follow_events(&client, args, cli, out).await;
            }
            Command::Antrea { verb: Antrea::Records(args) } if args.follow => {
                return antrea::follow_records(&client, args, cli, out).await;
            }
            _ => {}
        }
        let report = match &cli.command {
            Command::Pipeline(Pipeline::Monitor(monitor)) => {
                return pipeline::follow(&client, monitor, cli.timeout, cli.json, out).await;
            }
            Command::Pipeline(command) => pipeline::ask(&client, command, cli).await?,
            command => {
                let timeout = cli.timeout + asked_to_take(command);
                let answer = tokio::time::timeout(timeout, ask(&client, command, cli)).await;
                answer.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??
            }
        };
        let warnings = report.warnings();
        if !cli.json {
            error::warn(&warnings);
        } else if !warnings.is_empty() && !report.json().is_object() {
            error::warn_json(&warnings);
        }
        print(&*report, cli.json, out)?;
        report.verdict()
    })
}

/// How long a command is to take of itself, beside the answers that it waits for.
fn asked_to_take(command: &Command) -> Duration {
    match command {
        Command::WorkerPerfShow { interval, .. } => interval.unwrap_or_default(),
        Command::Antrea { verb: Antrea::TraceFlow(args) } => args.takes(),
        _ => Duration::ZERO,
    }
}

async fn ask(client: &Client, command: &Command, cli: &Cli) -> Answer {
    match command {
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
        Command::DropReasons => about::drop_reasons(client).await,
        Command::Capabilities => about::capabilities(client).await,
        Command::Health => about::health(client).await,
        Command::Version => about::version(client).await,
        Command::Completion { shell } => Ok(Box::new(shell::completion(*shell))),
        Command::Man { verb } => Ok(Box::new(shell::man(verb.as_deref())?)),
        Command::Conntrack(command) => conntrack::ask(client, command, cli).await,
        Command::Tunnel(command) => tunnel::ask(client, command).await,
        Command::Antrea { verb } => antrea::ask(client, verb, cli.json).await,
        Command::Testing(command) => pipeline::ask_dummy(client, command).await,
        // `run` has taken them.
        Command::PortEvents { .. } | Command::Pipeline(_) => Ok(Box::new(crate::output::Done)),
    }
}
