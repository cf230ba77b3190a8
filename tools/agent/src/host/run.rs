//! The commands: `--host` follows the plan, `--host-plan` prints it, `--host-clear` ends it.

use super::apply::Host;
use super::kernel::Kernel;
use super::plan::{self, Plan};
use super::problem::Problem;
use super::state::State;
use super::wake;
use crate::cli::Cli;
use crate::drive::{Client, DriveError};
use crate::signals::Stop;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1::HostPlan;

/// The exit codes of `run`.
const WRONG: u8 = 1;
const UNREACHABLE: u8 = 3;
/// The agent reports at each change, and in this time at least.
const REPORT: Duration = Duration::from_secs(10);
/// The host is looked at, too, while a switch does not answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Changes of the kernel come in bursts, the agent's own among them.
const SETTLE: Duration = Duration::from_millis(200);

/// Follows the plan until a signal, or once; the exit code.
pub async fn run(cli: &Cli) -> u8 {
    let host = State::open(&cli.state).and_then(|state| {
        let kernel = Kernel::open().map_err(|error| format!("netlink: {error}"))?;
        Ok(Host::new(kernel, state))
    });
    let host = match host {
        Ok(host) => host,
        Err(reason) => {
            tracing::error!("host: {}", shown(&reason));
            return WRONG;
        }
    };
    let mut follower = Follower { host, switch: Switch::new(&cli.socket), plan: None, reported: None };
    if cli.once { follower.once().await } else { follower.follow(Duration::from_millis(cli.period_ms)).await }
}

/// Prints the plan; the exit code.
pub async fn print(cli: &Cli, out: &mut (dyn Write + Send)) -> u8 {
    let plan = match Switch::new(&cli.socket).plan(0).await {
        Ok(plan) => plan.unwrap_or_default(),
        Err(error) => {
            tracing::error!("{}", shown(&error.to_string()));
            return if matches!(error, DriveError::Unreachable { .. }) { UNREACHABLE } else { WRONG };
        }
    };
    let text = if cli.json { format!("{:#}\n", json(&plan)) } else { text(&plan) };
    u8::from(out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err())
}

/// Has the host be as before; the exit code.
pub async fn clear(cli: &Cli) -> u8 {
    let result = match State::open(&cli.state).map(|state| (state, Kernel::open())) {
        Ok((state, Ok(kernel))) => Host::clear(kernel, state).await.map_err(|error| error.to_string()),
        Ok((_, Err(error))) => Err(format!("netlink: {error}")),
        Err(reason) => Err(reason),
    };
    match result {
        Ok(problems) => {
            problems.iter().for_each(|problem| tracing::error!("host: {problem}"));
            u8::from(!problems.is_empty())
        }
        Err(reason) => {
            tracing::error!("host: {}", shown(&reason));
            WRONG
        }
    }
}

fn text(plan: &HostPlan) -> String {
    let whole = if plan.complete { "complete" } else { "not complete: the gate is shut" };
    format!("# generation {:016x}, {whole}\n{plan}", plan.generation)
}

fn json(plan: &HostPlan) -> Value {
    let mac = |mac: &Option<vswitch_proto::v1::MacAddress>| {
        let octets = mac.iter().flat_map(|mac| &mac.octets);
        octets.map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
    };
    json!({
        "generation": format!("{:016x}", plan.generation),
        "complete": plan.complete,
        "links": plan.links.iter().map(|one| json!({
            "interface": one.interface, "mac": mac(&one.mac), "up": one.up,
        })).collect::<Vec<_>>(),
        "sysctls": plan.sysctls.iter().map(|one| json!({"path": one.path, "value": one.value})).collect::<Vec<_>>(),
        "addresses": plan.addresses.iter().map(|one| json!({
            "interface": one.interface, "beside": one.beside, "address": one.address, "deprecated": one.deprecated,
        })).collect::<Vec<_>>(),
        "neighbours": plan.neighbours.iter().map(|one| json!({
            "interface": one.interface, "address": one.address, "mac": mac(&one.mac),
        })).collect::<Vec<_>>(),
        "routes": plan.routes.iter().map(|one| json!({
            "destination": one.destination, "via": one.via, "interface": one.interface, "table": one.table,
            "onlink": one.onlink,
        })).collect::<Vec<_>>(),
        "rules": plan.rules.iter().map(|one| json!({
            "priority": one.priority, "ipv6": one.ipv6, "mark": one.mark, "mask": one.mask,
            "in_interface": one.in_interface, "table": one.table,
        })).collect::<Vec<_>>(),
        "nft": plan.nft,
    })
}

/// The switch, which may come and go.
struct Switch<'a> {
    socket: &'a Path,
    client: Option<Client>,
}

impl<'a> Switch<'a> {
    const fn new(socket: &'a Path) -> Self {
        Self { socket, client: None }
    }

    async fn client(&mut self) -> Result<&mut Client, DriveError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(self.socket).await?,
        };
        Ok(self.client.insert(client))
    }

    /// The plan, if it is another one than this generation.
    async fn plan(&mut self, generation: u64) -> Result<Option<HostPlan>, DriveError> {
        let socket = self.socket;
        let late = |_| DriveError::Unreachable { socket: socket.to_owned(), reason: "no answer".to_owned() };
        let ask = async { self.client().await?.host_plan(generation).await };
        let result = tokio::time::timeout(ANSWER, ask).await.map_err(late).flatten();
        if matches!(result, Err(DriveError::Unreachable { .. })) {
            self.client = None;
        }
        result
    }
}

struct Follower<'a> {
    host: Host,
    switch: Switch<'a>,
    plan: Option<(Plan, Vec<Problem>)>,
    reported: Option<Instant>,
}

impl Follower<'_> {
    async fn once(&mut self) -> u8 {
        let asked = self.ask().await;
        if let Err(error) = asked {
            tracing::error!("{}", shown(&error.to_string()));
            return if matches!(error, DriveError::Unreachable { .. }) { UNREACHABLE } else { WRONG };
        }
        let is_done = self.look().await;
        self.report().await;
        u8::from(!is_done || self.host.told.is_wrong())
    }

    async fn follow(&mut self, period: Duration) -> u8 {
        let Ok(mut stop) = Stop::listen() else {
            tracing::error!("signals cannot be waited for");
            return WRONG;
        };
        let wake = Arc::new(Notify::new());
        wake::on_changes(&wake);
        let mut failure = String::new();
        loop {
            let told = self.ask().await.err().map(|error| shown(&error.to_string()).into_owned()).unwrap_or_default();
            if told != failure && !told.is_empty() {
                tracing::error!("host: {told}");
            } else if told != failure {
                tracing::info!("host: the switch answers");
            }
            failure = told;
            self.look().await;
            self.report().await;
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = wake.notified() => tokio::time::sleep(SETTLE).await,
                () = stop.asked() => return 0,
            }
        }
    }

    /// Asks for the plan. Without an answer the last one counts.
    async fn ask(&mut self) -> Result<(), DriveError> {
        let generation = self.plan.as_ref().map_or(0, |(plan, _)| plan.generation);
        if let Some(new) = self.switch.plan(generation).await? {
            let (new, wrong) = plan::read(new);
            if generation != new.generation {
                tracing::info!("host: plan {:016x}", new.generation);
            }
            self.plan = Some((new, wrong));
        }
        Ok(())
    }

    /// Whether the host was looked at.
    async fn look(&mut self) -> bool {
        let Some((plan, wrong)) = &self.plan else { return false };
        if let Err(error) = self.host.look(plan, wrong.clone()).await {
            tracing::error!("host: {}", shown(&error.to_string()));
            return false;
        }
        true
    }

    async fn report(&mut self) {
        let is_due = self.reported.is_none_or(|at| at.elapsed() >= REPORT) || self.host.told.is_new;
        let Some((plan, _)) = self.plan.as_ref().filter(|_| is_due) else { return };
        let problems = self.host.told.to_proto();
        let report = async { self.switch.client().await?.report_host(plan.generation, problems).await };
        if let Ok(Ok(())) = tokio::time::timeout(ANSWER, report).await {
            self.reported = Some(Instant::now());
            self.host.told.is_new = false;
        }
    }
}
