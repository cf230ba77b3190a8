//! Tells the switch: everything at first and after a lost connection, what has changed otherwise.

mod client;
mod known;
mod reduced;
mod report;
mod session;

use crate::problem::{Origin, Problem};
use crate::project::{Key, Projection};
pub(crate) use client::{Client, channel};
use session::{Change, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tonic::{Code, Status};
use vswitch_proto::antrea::v1;

/// What was refused is tried again after this time: what it lacked, such as a port, may have come.
const RETRY: Duration = Duration::from_secs(10);

/// The switch is asked this often whether it is still the one that was told.
const CHECK: Duration = Duration::from_secs(2);

/// Bytes of an increment; beyond, everything is sent, which may come in parts. (The switch takes 16
/// MiB.)
const INCREMENT_LEN_MAX: usize = 8 << 20;

/// How refusals are taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// One refused object refuses all.
    pub is_strict: bool,
    /// The gate opens whatever is wrong.
    pub opens_anyway: bool,
}

/// How far the documents are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Of each it is known what it is about. What is wrong is left out, stays as it was, or is
    /// held: the gate may open.
    Known,
    /// Something cannot be read, and nobody knows what it said before: what the switch has of it
    /// must not go. So nothing goes that this agent has not told itself, and the gate stays shut,
    /// since a policy may be in it.
    Blind,
}

/// How telling went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Everything was sent, not only what had changed.
    pub was_sync: bool,
    /// Whether anything was applied.
    pub applied: bool,
    /// What was refused, and what has no effect yet.
    pub problems: Vec<Problem>,
    /// Documents of what was sent.
    pub about: BTreeSet<Origin>,
    /// Objects by outcome.
    pub counts: BTreeMap<String, u64>,
    /// Packets pass, as far as is known.
    pub gate_open: bool,
}

impl Report {
    /// Whether anything was refused.
    pub fn is_refused(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }
}

/// Why nothing could be told.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The switch is not there, or does not answer.
    #[error("{socket:?}: {reason}")]
    Unreachable {
        /// Its socket.
        socket: PathBuf,
        /// What happened.
        reason: String,
    },
    /// Another agent has taken over.
    #[error("another agent has begun round {0}: it has taken over")]
    Replaced(u64),
    /// The switch refused a call as a whole.
    #[error("the switch refuses {call}: {reason}")]
    Refused {
        /// Which one.
        call: &'static str,
        /// Why, with gRPC's name of the code.
        reason: String,
    },
    /// It refused what the Node is.
    #[error("the switch refuses the NodeConfig")]
    Node(Vec<Problem>),
}

/// The switch, and what it has been told.
#[derive(Debug)]
pub struct Driver {
    socket: PathBuf,
    options: Options,
    session: Option<Session>,
    /// This agent has told a switch everything once: what it knows is complete.
    has_synced: bool,
    /// The round in which an earlier run of this agent has done so.
    known: Option<u64>,
    /// That nothing is written has been logged.
    is_waiting: bool,
    /// When what was refused was tried again.
    retried: Option<Instant>,
    retry: Duration,
}

impl Driver {
    /// The switch behind `socket`; it is asked for at the first `step`.
    pub fn new(socket: &Path, options: Options) -> Self {
        let socket = socket.to_owned();
        let known = None;
        Self {
            socket,
            options,
            session: None,
            has_synced: false,
            known,
            is_waiting: false,
            retried: None,
            retry: RETRY,
        }
    }

    /// The same, but for the time after which what was refused is tried again.
    #[must_use]
    pub fn retrying(self, retry: Duration) -> Self {
        Self { retry, ..self }
    }

    /// Whether packets pass by what this agent has told the switch, as far as is known.
    pub fn forwards(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.gate_open)
    }

    /// Tells the switch what it does not know yet; None: nothing.
    pub async fn step(&mut self, projection: &Projection, standing: Standing) -> Result<Option<Report>, DriveError> {
        let result = self.attempt(projection, standing).await;
        if let Err(DriveError::Unreachable { .. } | DriveError::Refused { .. } | DriveError::Node(_)) = &result {
            self.session = None; // whatever came of it, the next attempt tells everything
        }
        result
    }

    async fn attempt(&mut self, projection: &Projection, standing: Standing) -> Result<Option<Report>, DriveError> {
        let Some((node, origin)) = &projection.node else { return Ok(None) };
        self.check().await?;
        let Some(mut session) = self.session.take() else {
            let Some((session, report)) = self.begin(projection, node, origin, standing).await? else {
                return Ok(None);
            };
            self.session = Some(session);
            return Ok(Some(report));
        };
        if standing == Standing::Blind && !self.has_synced && session.gate_open {
            // Somebody has opened the gate meanwhile, or what was to be told as a whole was refused
            self.wait();
            self.session = Some(session);
            return Ok(None);
        }
        let is_due = self.retried.is_none_or(|retried| retried.elapsed() >= self.retry);
        let retries = is_due || session.frees(projection);
        if retries {
            self.retried = Some(Instant::now());
        }
        let node_problems = session.renew(node, origin, retries).await?;
        let report = self.differ(&mut session, projection, standing, retries).await;
        self.session = Some(session);
        match report {
            Ok(None) if !node_problems.is_empty() => {
                Ok(Some(Report { problems: node_problems, about: [origin.clone()].into(), ..Report::default() }))
            }
            Ok(Some(mut report)) => {
                report.problems.extend(node_problems);
                Ok(Some(report))
            }
            Err(DriveError::Refused { call, reason }) => {
                // Because somebody else has begun a later round?
                if let Some(session) = &mut self.session {
                    session.checked = Instant::now().checked_sub(CHECK).unwrap_or(session.checked);
                }
                self.check().await?;
                Err(DriveError::Refused { call, reason })
            }
            report => report,
        }
    }

    /// Tells a switch that nothing is known of: everything, or, blind, what is known. None:
    /// nothing, since packets pass by what the switch has already, and groups of which a part is
    /// not known would be written smaller than they are.
    async fn begin(
        &mut self,
        projection: &Projection,
        node: &v1::NodeConfig,
        origin: &Origin,
        standing: Standing,
    ) -> Result<Option<(Session, Report)>, DriveError> {
        let mut client = Client::connect(&self.socket).await?;
        let state = client.state().await?;
        self.has_synced |= self.known.is_some_and(|round| round > 0 && round == state.round);
        if standing == Standing::Blind && !self.has_synced && state.gate_open {
            self.wait();
            return Ok(None);
        }
        self.is_waiting = false;
        self.retried = Some(Instant::now());
        let (has, left_out) = if state.initialized || self.options.is_strict {
            match client.initialize(node, origin, state.round.saturating_add(1)).await {
                Ok(()) => (node.clone(), Vec::new()),
                // It goes on with what it has.
                Err(DriveError::Node(problems)) if !self.options.is_strict => (client.node().await?, problems),
                Err(error) => return Err(error),
            }
        } else {
            reduced::initialize(&mut client, node, origin, state.round.saturating_add(1)).await?
        };
        let mut session = Session::new(client, has);
        session.refused_node = (!left_out.is_empty()).then(|| node.clone());
        session.is_reduced = !left_out.is_empty() && !state.initialized;
        let mut report = if standing == Standing::Blind {
            (session.is_partial, session.round, session.gate_open) = (true, state.round, state.gate_open);
            let change = session.change(projection, true);
            self.increments(&mut session, projection, change).await?
        } else {
            self.sync(&mut session, projection, standing).await?
        };
        report.problems.extend(left_out);
        Ok(Some((session, report)))
    }

    fn wait(&mut self) {
        if !std::mem::replace(&mut self.is_waiting, true) {
            tracing::warn!(
                "packets pass, and nobody knows what a wrong document said when it was right: the switch stays as it is"
            );
        }
    }

    /// Tells what has changed, or everything if that is called for.
    async fn differ(
        &mut self,
        session: &mut Session,
        projection: &Projection,
        standing: Standing,
        retries: bool,
    ) -> Result<Option<Report>, DriveError> {
        let change = session.change(projection, retries);
        if standing == Standing::Blind {
            // What was refused as a whole goes as a whole, or not at all.
            if change.is_empty() || (session.is_behind && !retries) {
                return Ok(None);
            }
            return self.increments(session, projection, change).await.map(Some);
        }
        let is_due = retries && (session.is_behind || !session.gate_open);
        let again = is_due || session.is_mended(projection);
        if change.is_empty() && !session.is_partial && !again {
            Ok(None)
        } else if session.is_partial || session.is_behind || !session.gate_open || change.len() > INCREMENT_LEN_MAX {
            self.sync(session, projection, standing).await.map(Some)
        } else {
            self.increments(session, projection, change).await.map(Some)
        }
    }

    /// Whether the switch is still the one that was told. If not, all has to be told again.
    async fn check(&mut self) -> Result<(), DriveError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if session.checked.elapsed() < CHECK {
            return Ok(());
        }
        session.checked = Instant::now();
        let state = session.client.state().await?;
        // By what it knew before it started, or not at all until somebody syncs.
        let is_told = !session.is_partial && !session.is_behind;
        let is_another = is_told && (state.restored || (session.gate_open && !state.gate_open));
        session.gate_open |= !self.has_synced && state.gate_open;
        if session.round > 0 && state.round > session.round {
            return Err(DriveError::Replaced(state.round));
        }
        if !state.initialized || state.round < session.round || is_another {
            tracing::info!("the switch has begun anew: everything is told again");
            self.session = None;
        }
        Ok(())
    }

    fn mode(&self) -> v1::WriteMode {
        if self.options.is_strict { v1::WriteMode::AllOrNothing } else { v1::WriteMode::ValidOnly }
    }

    async fn sync(
        &mut self,
        session: &mut Session,
        projection: &Projection,
        standing: Standing,
    ) -> Result<Report, DriveError> {
        self.retried = Some(Instant::now());
        let gate = match (self.options.opens_anyway, standing) {
            (true, _) => v1::GateChange::OpenAnyway,
            (false, Standing::Known) => v1::GateChange::Open,
            (false, Standing::Blind) => v1::GateChange::Keep,
        };
        let begun = session.client.state().await?.round;
        if session.round > 0 && begun > session.round {
            return Err(DriveError::Replaced(begun));
        }
        let objects = projection.objects.values().map(|projected| projected.object.clone()).collect();
        let answer = session.client.sync(begun + 1, self.mode(), gate, objects).await?;
        let result = answer.result.unwrap_or_default();
        let refused = report::refused(&result);
        session.gate_open = answer.gate_open;
        // By what had been told before this.
        let before = |key: &Key| session.told.get(key).map(|was| was.origin.clone());
        let report = report::report(&result, projection, &before, true, session.gate_open);
        session.is_behind = !result.applied && !refused.is_empty();
        if session.is_behind {
            session.refused.clear();
            session.kept.clear();
            session.refuse(projection.objects.iter(), session.gone(projection));
        } else {
            self.has_synced = true;
            session.round = begun + 1;
            session.is_partial = false;
            session.adopt(projection.objects.iter().collect(), Vec::new(), &refused, true);
        }
        Ok(report)
    }

    /// One increment, or several if it is too long for one; what others refer to comes first.
    async fn increments(
        &mut self,
        session: &mut Session,
        projection: &Projection,
        change: Change<'_>,
    ) -> Result<Report, DriveError> {
        let mut all = Report { gate_open: session.gate_open, ..Report::default() };
        session.is_behind = false;
        for part in change.parts() {
            if session.is_behind {
                session.refuse(part.put.iter().copied(), part.gone);
                continue;
            }
            let report = self.increment(session, projection, &part).await?;
            all.applied |= report.applied;
            all.problems.extend(report.problems);
            all.about.extend(report.about);
            for (outcome, count) in report.counts {
                *all.counts.entry(outcome).or_default() += count;
            }
        }
        Ok(all)
    }

    async fn increment(
        &mut self,
        session: &mut Session,
        projection: &Projection,
        change: &Change<'_>,
    ) -> Result<Report, DriveError> {
        let objects = change.put.iter().map(|(_, projected)| projected.object.clone()).collect();
        let remove = change.gone.iter().map(|(kind, name)| v1::ObjectRef { kind: *kind, name: name.clone() }).collect();
        let options = v1::WriteOptions { mode: self.mode().into(), round: session.round, dry_run: false };
        let result = session.client.apply(options, objects, remove).await?;
        let refused = report::refused(&result);
        // One that was refused is named by its document as it goes.
        let is_gone = |key: &Key| change.gone.contains(key);
        let was = |key: &Key| session.told.get(key).or_else(|| session.refused.get(key).filter(|_| is_gone(key)));
        let before = |key: &Key| was(key).map(|was| was.origin.clone());
        let mut report = report::report(&result, projection, &before, false, session.gate_open);
        report.about = change.put.iter().map(|(_, projected)| projected.origin.clone()).collect();
        report.about.extend(change.gone.iter().filter_map(before));
        if result.applied || refused.is_empty() {
            session.adopt(change.put.clone(), change.gone.clone(), &refused, false);
        } else {
            session.is_behind = true;
            session.refuse(change.put.iter().copied(), change.gone.clone());
        }
        Ok(report)
    }
}

/// The error of a call.
fn refused(socket: &Path, call: &'static str, status: &Status) -> DriveError {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
            DriveError::Unreachable { socket: socket.to_owned(), reason: format!("{call}: {}", status.message()) }
        }
        code => DriveError::Refused { call, reason: format!("{code:?}: {}", status.message()) },
    }
}
