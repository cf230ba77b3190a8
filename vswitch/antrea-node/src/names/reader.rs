//! The reader of DNS answers.

use super::{Antrea, Counters, Feed, Order, USERDATA};
use crate::changes::Learned;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use vswitch_antrea::dns;
use vswitch_antrea::tell::Packet;
use vswitch_control::SwitchError;
use vswitch_dataplane::limits::PAUSED_MAX;
use vswitch_dataplane::pipeline::PacketIn;
use vswitch_dataplane::time::Millis;
use vswitch_proto::antrea::v1::EventKind;

/// Answers that are read at a time before something else has its turn, and that go on at a time.
const BATCH: usize = 256;
/// Time between two looks at what is over: what ends within it shares a transaction.
const EXPIRY_PERIOD: Duration = Duration::from_millis(250);
/// Something may be due though nothing has happened: the clock of a test was warped.
const IDLE: Duration = Duration::from_secs(1);
/// Time after a round that could not be written.
const RETRY: Duration = Duration::from_secs(1);
/// What was learned and nobody was told of yet, at most.
const LEARNED_MAX: usize = 4096;
/// Time between two reports of what was lost.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// An answer that waits until rules have its addresses.
struct Waiting {
    token: Vec<u8>,
    /// The round that brings them.
    round: u64,
    until: Instant,
}

struct Reader {
    antrea: Arc<Antrea>,
    feed: Option<Feed>,
    /// Losses of the feed that are counted already.
    lost_before: u64,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    /// Those that may go on.
    ready: VecDeque<Vec<u8>>,
    /// Fragments that wait for others, and streams.
    assembly: dns::Assembly<Vec<u8>>,
    writing: Option<JoinHandle<Option<(u64, bool)>>>,
    resuming: Option<JoinHandle<(usize, Result<usize, SwitchError>)>>,
    /// What those who watch are to be told; by a thread that may wait for the node state.
    learned: Vec<Learned>,
    telling: Option<JoinHandle<()>>,
    /// No round is written before.
    not_before: Instant,
    expired: Instant,
    reported: Instant,
    /// Dropped or lost at the last report.
    told: u64,
}

/// Reads answers until the switch stops.
pub async fn read(antrea: Arc<Antrea>, mut stopping: watch::Receiver<bool>) {
    let now = Instant::now();
    let mut reader = Reader {
        antrea: Arc::clone(&antrea),
        feed: None,
        lost_before: 0,
        waiting: VecDeque::new(),
        ready: VecDeque::new(),
        assembly: dns::Assembly::default(),
        writing: None,
        resuming: None,
        learned: Vec::new(),
        telling: None,
        not_before: now,
        expired: now,
        reported: now,
        told: 0,
    };
    loop {
        let pause = reader.pause(Instant::now());
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = antrea.names.wake.notified() => reader.attach(),
            written = ended(&mut reader.writing) => reader.written(written),
            resumed = ended(&mut reader.resuming) => reader.resumed(resumed),
            _ = ended(&mut reader.telling) => {} // a panic is told by its hook
            packet = next(&mut reader.feed) => reader.packets(packet),
            () = tokio::time::sleep(pause) => {}
        }
        reader.turn(Instant::now());
    }
}

/// What a job came to; never, if there is none.
async fn ended<T>(job: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    let Some(handle) = job else { return std::future::pending().await };
    let result = handle.await;
    *job = None;
    result
}

/// The next answer; never, if there is no feed. None: there will be none any more.
async fn next(feed: &mut Option<Feed>) -> Option<PacketIn> {
    match feed {
        Some(feed) => feed.packets.receiver.recv().await,
        None => std::future::pending().await,
    }
}

impl Reader {
    fn counters(&self) -> &Counters {
        &self.antrea.names.counters
    }

    /// Other answers are to be read, perhaps. Those of before that wait cannot go on any more.
    fn attach(&mut self) {
        let feed = match self.antrea.names.order.lock().take() {
            Some(Order::Read(feed)) => Some(feed),
            Some(Order::Nothing) => None,
            None => return,
        };
        self.count_lost();
        let same = matches!((&self.feed, &feed), (Some(old), Some(new)) if old.bridge == new.bridge);
        if !same {
            self.drop_answers(self.waiting.len() + self.ready.len() + self.assembly.waiting());
            self.waiting.clear();
            self.ready.clear();
            self.assembly.clear();
        }
        (self.feed, self.lost_before) = (feed, 0);
    }

    /// An answer, and those that came with it.
    fn packets(&mut self, first: Option<PacketIn>) {
        let Some(first) = first else {
            // The bridge is gone: the Node will be another one.
            self.feed = None;
            return;
        };
        let mut packets = vec![first];
        if let Some(feed) = &mut self.feed {
            let more = std::iter::from_fn(|| feed.packets.receiver.try_recv().ok());
            packets.extend(more.take(BATCH - 1));
        }
        let wait = self.feed.as_ref().map_or(Duration::ZERO, |feed| feed.wait);
        let (until, now) = (Instant::now() + wait, Millis::now().0);
        for packet in packets {
            // Copies of others' flows do not wait for us, and are not believed.
            if packet.token.is_empty() || *packet.userdata != [USERDATA] {
                continue;
            }
            self.counters().answers.fetch_add(1, Relaxed);
            let put = self.assembly.put(&packet.packet, packet.token, now);
            self.drop_answers(put.given_up.len());
            if put.on.is_empty() {
                continue;
            }
            match self.learn(&packet.packet, &put.messages, now) {
                Some(round) => {
                    self.counters().waited.fetch_add(put.on.len() as u64, Relaxed);
                    self.waiting.extend(put.on.into_iter().map(|token| Waiting { token, round, until }));
                }
                None => self.ready.extend(put.on),
            }
        }
        self.keep_to_limit();
    }

    /// What messages say, and the packet that was the last of them; returns the round that it has
    /// to wait for.
    fn learn(&mut self, packet: &[u8], messages: &[Vec<u8>], now: u64) -> Option<u64> {
        let is_watched = self.antrea.events.are_read(EventKind::FqdnLearned);
        let (mut round, mut is_read, mut learned) = (None, false, Vec::new());
        for message in messages {
            let Ok(answers) = dns::read(message) else { continue };
            is_read = true;
            let mut cache = self.antrea.names.cache.lock();
            for answer in answers {
                round = round.max(cache.learn(&answer, now));
                if is_watched && !answer.addresses.is_empty() && cache.means(&answer.name) {
                    let ttl = answer.addresses.iter().map(|(_, ttl)| cache.held_seconds(*ttl)).min();
                    learned.push((answer, ttl.unwrap_or_default()));
                }
            }
        }
        if !is_read {
            self.counters().unread.fetch_add(1, Relaxed);
        }
        self.learned(packet, learned);
        round
    }

    /// Keeps what those who watch are to be told, if there is room.
    fn learned(&mut self, packet: &[u8], answers: Vec<(dns::Answer, u32)>) {
        if answers.is_empty() {
            return;
        }
        let node_state = LEARNED_MAX.saturating_sub(self.learned.len());
        self.antrea.events.lose(EventKind::FqdnLearned, answers.len().saturating_sub(node_state) as u64);
        let asker = Packet::read(packet).map(|packet| packet.tuple.destination);
        let learned = answers.into_iter().take(node_state).map(|(answer, ttl)| Learned { answer, ttl, asker });
        self.learned.extend(learned);
    }

    /// The oldest of too many cannot go on any more anyway.
    fn keep_to_limit(&mut self) {
        let over = (self.waiting.len() + self.ready.len()).saturating_sub(PAUSED_MAX);
        let waiting = over.min(self.waiting.len());
        self.waiting.drain(..waiting);
        self.ready.drain(..(over - waiting).min(self.ready.len()));
        self.drop_answers(over);
    }

    fn drop_answers(&self, count: usize) {
        self.counters().dropped.fetch_add(count as u64, Relaxed);
    }

    /// A round was written, or not.
    fn written(&mut self, written: Result<Option<(u64, bool)>, JoinError>) {
        let (round, done) = match written {
            Ok(Some(written)) => written,
            // There was nothing to write: it was reset.
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "writing addresses of names failed inside the switch; report it");
                self.antrea.names.cache.lock().landed(false);
                (u64::MAX, false)
            }
        };
        // What it had may be part of what others wait for.
        let round = if done { round } else { u64::MAX };
        if !done {
            self.not_before = Instant::now() + RETRY;
        }
        let now = Instant::now();
        let mut dropped = 0;
        for answer in std::mem::take(&mut self.waiting) {
            if answer.round > round {
                self.waiting.push_back(answer);
            } else if done && answer.until > now {
                self.ready.push_back(answer.token);
            } else {
                dropped += 1;
            }
        }
        self.drop_answers(dropped);
    }

    /// Answers went on, or not.
    fn resumed(&mut self, resumed: Result<(usize, Result<usize, SwitchError>), JoinError>) {
        let Ok((asked, result)) = resumed else { return };
        let done = result.unwrap_or_else(|error| {
            tracing::debug!(%error, "DNS answers could not go on");
            0
        });
        self.drop_answers(asked.saturating_sub(done));
    }

    /// Until when nothing is due by itself.
    fn pause(&self, now: Instant) -> Duration {
        let waits = self.waiting.front().map(|answer| answer.until.saturating_duration_since(now));
        let (due, next) = {
            let cache = self.antrea.names.cache.lock();
            (cache.is_due(), cache.next_expiry())
        };
        let retries = (due && self.writing.is_none()).then(|| self.not_before.saturating_duration_since(now));
        let expires = next.map(|next| {
            let time = Duration::from_millis(next.saturating_sub(Millis::now().0));
            time.max((self.expired + EXPIRY_PERIOD).saturating_duration_since(now))
        });
        [waits, retries, expires].into_iter().flatten().fold(IDLE, Duration::min)
    }

    /// Whatever is due now.
    fn turn(&mut self, now: Instant) {
        let late = self.waiting.iter().take_while(|answer| answer.until <= now).count();
        self.waiting.drain(..late);
        self.drop_answers(late);
        if now.saturating_duration_since(self.expired) >= EXPIRY_PERIOD {
            self.expired = now;
            let over = Millis::now().0;
            self.antrea.names.cache.lock().expire(over);
            let late = self.assembly.expire(over).len();
            self.drop_answers(late);
        }
        if self.writing.is_none() && now >= self.not_before && self.antrea.names.cache.lock().is_due() {
            let antrea = Arc::clone(&self.antrea);
            self.writing = Some(tokio::task::spawn_blocking(move || antrea.write_names()));
        }
        if self.telling.is_none() && !self.learned.is_empty() {
            let (antrea, learned) = (Arc::clone(&self.antrea), std::mem::take(&mut self.learned));
            self.telling = Some(tokio::task::spawn_blocking(move || antrea.tell_learned(learned)));
        }
        if self.resuming.is_none() && !self.ready.is_empty() {
            let tokens: Vec<Vec<u8>> = self.ready.drain(..self.ready.len().min(BATCH)).collect();
            match self.feed.as_ref().map(|feed| feed.bridge.clone()) {
                None => self.drop_answers(tokens.len()),
                Some(bridge) => {
                    let switch = Arc::clone(&self.antrea.switch);
                    let resume = move || (tokens.len(), switch.resume_packets(&bridge, &tokens));
                    self.resuming = Some(tokio::task::spawn_blocking(resume));
                }
            }
        }
        self.report(now);
    }

    fn count_lost(&mut self) {
        let lost = self.feed.as_ref().map_or(0, |feed| feed.packets.lost.load(Relaxed));
        self.counters().lost.fetch_add(lost.saturating_sub(self.lost_before), Relaxed);
        self.lost_before = lost;
    }

    fn report(&mut self, now: Instant) {
        self.count_lost();
        if now.saturating_duration_since(self.reported) < REPORT_PERIOD {
            return;
        }
        self.reported = now;
        let (dropped, lost) = (self.counters().dropped.load(Relaxed), self.counters().lost.load(Relaxed));
        if dropped + lost > self.told {
            self.told = dropped + lost;
            tracing::warn!(
                dropped,
                lost,
                "DNS answers for Pods with rules about names did not go on; their clients ask again"
            );
        }
    }
}
