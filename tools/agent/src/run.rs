//! The program: files each period, a cluster when it has news, the switch when there is something
//! to tell.

use crate::agent::Agent;
use crate::cli::Cli;
use crate::cni::{Cni, Directories, Outcome};
use crate::devices::{self, Devices, Used};
use crate::drive::{DriveError, Driver, Options, Report, Standing};
use crate::export::{self, Export};
use crate::health::Checks;
use crate::host::run as host;
use crate::names::Names;
use crate::probe::{Condition, Probe};
use crate::problem::Problem;
use crate::project::text;
use crate::serving::Serving;
use crate::signals::Stop;
use crate::sources;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1::Kind;

/// The longest wait of a switch that refuses calls, in seconds: one second more each time.
const REFUSED_MAX: u32 = 10;

/// Something is wrong, or was refused.
const WRONG: u8 = 1;

/// The switch cannot be reached.
const UNREACHABLE: u8 = 3;

/// Runs as the arguments say; the exit code.
pub async fn run(cli: &Cli, out: &mut (dyn Write + Send)) -> u8 {
    if cli.host_plan {
        return host::print(cli, out).await;
    }
    if cli.host_clear {
        return host::clear(cli).await;
    }
    let Some(node) = &cli.node else { return host::run(cli).await };
    if !cli.host {
        return manifests(cli, node, out).await;
    }
    if cli.once {
        let told = manifests(cli, node, out).await;
        return if told == 0 { host::run(cli).await } else { told };
    }
    // A signal ends both. When another agent replaces this one, the host's part ends with it.
    tokio::select! {
        code = manifests(cli, node, out) => code,
        code = host::run(cli) => code,
    }
}

/// Tells the switch what manifests and the cluster declare.
async fn manifests(cli: &Cli, node: &str, out: &mut (dyn Write + Send)) -> u8 {
    if cli.flow_export.len() > export::TARGETS_MAX {
        tracing::error!("--flow-export: {} targets: give {} at most", cli.flow_export.len(), export::TARGETS_MAX);
        return WRONG;
    }
    let options = Options { is_strict: cli.strict, opens_anyway: cli.open_anyway };
    let wake = Arc::new(Notify::new());
    let (mut agent, following) = match sources::open(cli, node, options, &wake).await {
        Ok(opened) => opened,
        Err(reason) => {
            tracing::error!("{}", shown(&reason));
            return WRONG;
        }
    };
    let condition = Arc::new(Condition::new(following.clone()));
    let _probe = match cli.health {
        Some(address) => match Probe::open(address, Arc::clone(&condition)).await {
            Ok(probe) => Some(probe),
            Err(error) => {
                tracing::error!("--health {address}: {error}");
                return WRONG;
            }
        },
        None => None,
    };
    if !cli.no_state && !cli.print {
        agent = agent.remembering(&cli.state);
    }
    let period = Duration::from_millis(cli.period_ms);
    let is_listed = following.wait(cli).await;
    let cni = match attacher(cli, &wake).await {
        Ok(cni) => cni,
        Err(reason) => {
            tracing::error!("cni: {}", shown(&reason));
            return WRONG;
        }
    };
    if let Some(cni) = &cni {
        agent = agent.attaching(cni.attachments().1);
    }
    agent.scan();
    if !agent.unsettled().is_empty() || agent.is_forgetting() {
        tokio::time::sleep(period).await;
        agent.scan();
    }
    let mut told = Logged::default();
    told.problems(agent.problems());
    if cli.print {
        let is_written = out.write_all(text(agent.projection(), true).as_bytes()).and_then(|()| out.flush());
        let is_read = tell_unsettled(&agent) && is_listed;
        return if is_written.is_err() || agent.is_wrong() || !is_read { WRONG } else { 0 };
    }
    let mut driver = Driver::new(&cli.socket, options).knowing(agent.known_round());
    if cli.once {
        once(&mut agent, &mut driver, &mut told, is_listed).await
    } else {
        let checks = (!cli.no_health_checks).then(Checks::default);
        let names = Names::start(cli.socket.clone(), Arc::clone(condition.status()));
        let serving = Serving::start(cli, node, &following, &names);
        let devices = offering(cli, cni.as_ref());
        let export = exporting(cli, node, &condition);
        let problems = BTreeSet::new();
        let health = Health { checks, forwards: false, problems, condition, serving, devices, names, export };
        watch(&mut agent, &mut driver, &mut told, (health, cni), (period, &wake)).await
    }
}

/// The server of the CNI plug-in, if it is asked for.
async fn attacher(cli: &Cli, wake: &Arc<Notify>) -> Result<Option<Cni>, String> {
    let Some(socket) = &cli.cni else { return Ok(None) };
    let directories = Directories { devices: cli.vhost_dir.clone(), pods: cli.pods_dir.clone() };
    let cni = Cni::start((socket, &cli.cni_state), &cli.socket, directories, Arc::clone(wake)).await?;
    Ok(Some(cni.announcing(cli.cni_conf.clone())))
}

/// The device plug-in, if it is asked for.
fn offering(cli: &Cli, cni: Option<&Cni>) -> Option<Devices> {
    let kubelet = cli.device_plugin.as_ref()?;
    let used = cni.map_or_else(|| Used::by(|_| false), |cni| Used::by(cni.uses()));
    Some(Devices::start(devices::Config::new(kubelet, cli.vhost_devices, &cli.vhost_dir, used)))
}

/// The export of flows, if it is asked for.
fn exporting(cli: &Cli, node: &str, condition: &Condition) -> Option<Export> {
    if cli.flow_export.is_empty() {
        return None;
    }
    let config = export::Config {
        targets: cli.flow_export.clone(),
        active_seconds: cli.flow_export_active,
        idle_seconds: cli.flow_export_idle,
        tls: export::Tls {
            ca: cli.flow_export_ca.clone(),
            certificate: cli.flow_export_cert.clone(),
            key: cli.flow_export_key.clone(),
        },
    };
    Some(Export::start(&config, node, cli.socket.clone(), condition.status()))
}

/// Tells the server of the plug-in what became of the attachments of a change.
fn tell_attached(cni: &Cni, change: u64, agent: &Agent, driver: &Driver, told: &Logged) {
    let of = |name: &String| {
        let key = (Kind::Pod as i32, name.clone());
        let what = format!("Pod {name}");
        let refusal = told.objects.iter().find(|problem| problem.is_error() && *problem.origin.what == *what);
        let outcome = match (agent.projection().objects.contains_key(&key), refusal) {
            (false, _) => Outcome::NoDocument,
            (true, Some(problem)) => Outcome::Refused(problem.reason.clone()),
            (true, None) if driver.has(&key) => Outcome::Accepted,
            (true, None) => Outcome::Pending,
        };
        (name.clone(), outcome)
    };
    cni.told(change, agent.attachments().map(of).collect());
}

/// Health check NodePorts, whether the switch forwards, and how the agent is.
#[derive(Debug)]
struct Health {
    /// None: somebody else serves them.
    checks: Option<Checks>,
    /// The switch forwards by what this agent tells it.
    forwards: bool,
    problems: BTreeSet<Problem>,
    condition: Arc<Condition>,
    serving: Serving,
    devices: Option<Devices>,
    names: Names,
    export: Option<Export>,
}

impl Health {
    /// After a step of the driver; whether the switch forwards by all that the agent knows.
    fn follow(&mut self, agent: &Agent, driver: &Driver, step: &Result<Option<Report>, DriveError>) -> bool {
        let is_synced = driver.forwards() && driver.synced_round().is_some() && agent.standing() == Standing::Known;
        let is_ready = step.is_ok() && is_synced;
        self.condition.turn(is_ready);
        if let Some(devices) = &self.devices {
            devices.follow(driver.forwards());
        }
        let Some(checks) = &mut self.checks else { return is_ready };
        match step {
            Ok(_) => self.forwards = driver.forwards(),
            Err(DriveError::Unreachable { .. }) => self.forwards = false,
            Err(_) => {} // it goes on as it was told before
        }
        let problems = checks.follow(&agent.projection().health_checks, self.forwards);
        tell_new(&mut self.problems, &problems);
        is_ready
    }
}

async fn once(agent: &mut Agent, driver: &mut Driver, told: &mut Logged, is_listed: bool) -> u8 {
    let is_read = tell_unsettled(agent) && is_listed;
    match driver.step(agent.projection(), agent.standing()).await {
        Ok(Some(report)) => {
            let is_wrong = !is_read || agent.is_wrong() || report.is_refused() || !report.applied;
            agent.synced(driver.synced_round());
            told.report(&report);
            u8::from(is_wrong)
        }
        Ok(None) => WRONG, // there is no NodeConfig, or too little is known
        Err(error) => told.failure(&error),
    }
}

/// Tells which files have not been read, since they are being written all the time; whether there
/// are none.
fn tell_unsettled(agent: &Agent) -> bool {
    let files = agent.unsettled();
    for file in &files {
        tracing::error!("{}: is being written: not read", shown(&file.to_string_lossy()));
    }
    files.is_empty()
}

async fn watch(
    agent: &mut Agent,
    driver: &mut Driver,
    told: &mut Logged,
    (mut health, mut cni): (Health, Option<Cni>),
    (period, wake): (Duration, &Notify),
) -> u8 {
    let Ok(mut stop) = Stop::listen() else {
        tracing::error!("signals cannot be waited for");
        return WRONG;
    };
    let mut refusals = 0;
    loop {
        let was_refused = refusals;
        let change = cni.as_ref().map(|cni| {
            cni.follow(agent.projection().node.as_ref().map(|(node, _)| node));
            let (change, attachments) = cni.attachments();
            if agent.attach(attachments) {
                told.problems(agent.problems());
            }
            change
        });
        let step = driver.step(agent.projection(), agent.standing()).await;
        let is_ready = health.follow(agent, driver, &step);
        let is_told = step.is_ok();
        match step {
            Ok(Some(report)) => {
                agent.synced(driver.synced_round());
                told.report(&report);
            }
            Ok(None) => told.reached(),
            Err(error @ DriveError::Replaced(_)) => return told.failure(&error),
            Err(error) => {
                told.failure(&error);
                refusals += u32::from(!matches!(error, DriveError::Unreachable { .. }));
            }
        }
        if let (Some(cni), Some(change), true) = (&cni, change, is_told) {
            tell_attached(cni, change, agent, driver, told);
        }
        if let Some(cni) = cni.as_mut().filter(|_| is_ready) {
            cni.announce();
        }
        health.serving.follow(agent, told.all(), is_ready.then_some(&*driver));
        if let Some(book) = health.names.follow(agent)
            && let Some(export) = &health.export
        {
            export.follow(agent, book);
        }
        // What is refused as a whole, a large sync perhaps, is not sent again each period, nor at
        // each change.
        refusals = if refusals == was_refused { 0 } else { refusals.min(REFUSED_MAX) };
        let pause = period.max(Duration::from_secs(refusals.into()));
        let wake = (refusals == 0).then_some(wake);
        if stopped(&mut stop, pause, wake).await {
            return 0;
        }
        if agent.scan() {
            told.problems(agent.problems());
        }
    }
}

/// Waits for a period, or until something is new; whether to stop. What the switch has stays in
/// force.
async fn stopped(stop: &mut Stop, period: Duration, wake: Option<&Notify>) -> bool {
    let news = async {
        match wake {
            Some(wake) => wake.notified().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = tokio::time::sleep(period) => false,
        () = news => false,
        () = stop.asked() => true,
    }
}

/// What has been logged, so that it is logged once.
#[derive(Debug, Default)]
struct Logged {
    documents: BTreeSet<Problem>,
    objects: BTreeSet<Problem>,
    failure: String,
}

impl Logged {
    /// All that is wrong now.
    fn all(&self) -> impl Iterator<Item = &Problem> {
        self.documents.iter().chain(&self.objects)
    }

    fn problems(&mut self, problems: &[Problem]) {
        tell_new(&mut self.documents, problems);
    }

    fn report(&mut self, report: &Report) {
        self.reached();
        let counts: Vec<String> = report.counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        let what = if report.was_sync { "everything" } else { "changes" };
        let gate = if report.gate_open { "open" } else { "shut" };
        if !counts.is_empty() {
            tracing::info!("{what} told: {}; the gate is {gate}", shown(&counts.join(", ")));
        }
        if report.was_sync {
            tell_new(&mut self.objects, &report.problems);
        } else {
            // What was not sent is as it was.
            let mut all: BTreeSet<Problem> = report.problems.iter().cloned().collect();
            all.extend(self.objects.iter().filter(|problem| !report.about.contains(&problem.origin)).cloned());
            tell_new(&mut self.objects, &all.into_iter().collect::<Vec<_>>());
        }
    }

    fn reached(&mut self) {
        if !self.failure.is_empty() {
            tracing::info!("the switch answers");
            self.failure.clear();
        }
    }

    fn failure(&mut self, error: &DriveError) -> u8 {
        let text = shown(&error.to_string()).into_owned();
        if text != self.failure {
            tracing::error!("{text}");
            self.failure = text;
        }
        if let DriveError::Node(problems) = error {
            tell_new(&mut self.objects, problems);
        }
        if matches!(error, DriveError::Unreachable { .. }) { UNREACHABLE } else { WRONG }
    }
}

fn tell_new(told: &mut BTreeSet<Problem>, problems: &[Problem]) {
    for problem in problems.iter().filter(|problem| !told.contains(*problem)) {
        if problem.is_error() {
            tracing::error!("{problem}");
        } else {
            tracing::warn!("{problem}");
        }
    }
    *told = problems.iter().cloned().collect();
}
