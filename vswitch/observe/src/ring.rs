//! The last observations, and those who follow.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;
use vswitch_proto::antrea::v1::{Observation, ObservationKind};

/// Places of a lane of a ring that keeps less: what followers may fall behind.
const PLACES_MIN: usize = 1024;
/// Observations that a follower takes at a time.
const BATCH: usize = 256;
/// Connections have a lane of their own.
const LANES: usize = 2;

/// Observations in the order in which they came.
#[derive(Debug, Default)]
struct Lane {
    items: VecDeque<Arc<Observation>>,
    /// How many went before the oldest.
    gone: u64,
}

impl Lane {
    /// The observation at a place, counted since the start.
    fn get(&self, place: u64) -> Option<&Arc<Observation>> {
        self.items.get(usize::try_from(place.checked_sub(self.gone)?).ok()?)
    }

    /// The last so many.
    fn last(&self, count: usize) -> impl Iterator<Item = &Arc<Observation>> {
        self.items.range(self.items.len().saturating_sub(count)..)
    }

    fn end(&self) -> u64 {
        self.gone + self.items.len() as u64
    }
}

#[derive(Debug, Default)]
struct State {
    lanes: [Lane; LANES],
    /// Number of the last one.
    last: u64,
}

impl State {
    /// The lane and its place of the next observation, by number, at or behind these places.
    fn next(&self, at: &[u64; LANES]) -> Option<(usize, &Arc<Observation>)> {
        let found =
            self.lanes.iter().zip(at).enumerate().filter_map(|(lane, (own, place))| Some((lane, own.get(*place)?)));
        found.min_by_key(|(_, observation)| observation.number)
    }
}

/// Which lane an observation is in.
fn lane_of(observation: &Observation) -> usize {
    usize::from(matches!(observation.kind(), ObservationKind::Begin | ObservationKind::End))
}

/// The last observations, by number.
#[derive(Debug)]
pub struct Ring {
    state: Mutex<State>,
    told: watch::Sender<()>,
    keeps: usize,
}

impl Ring {
    /// Keeps so many of connections, and as many of all else. 0: it keeps none, and serves those
    /// who follow.
    #[must_use]
    pub fn new(keeps: usize) -> Self {
        Self { state: Mutex::default(), told: watch::Sender::default(), keeps }
    }

    /// How many it keeps.
    #[must_use]
    pub const fn keeps(&self) -> usize {
        self.keeps
    }

    /// Takes observations, and gives them their numbers.
    pub fn push(&self, observations: Vec<Observation>) {
        if observations.is_empty() {
            return;
        }
        let places = self.keeps.max(PLACES_MIN);
        let mut state = self.state.lock();
        for mut observation in observations {
            state.last += 1;
            observation.number = state.last;
            let lane = &mut state.lanes[lane_of(&observation)];
            if lane.items.len() >= places {
                lane.items.pop_front();
                lane.gone += 1;
            }
            lane.items.push_back(Arc::new(observation));
        }
        drop(state);
        self.told.send_modify(|()| ());
    }

    /// Time of the oldest that is kept, in milliseconds since 1970. None: none is.
    #[must_use]
    pub fn oldest_unix_ms(&self) -> Option<u64> {
        let state = self.state.lock();
        let oldest = state.lanes.iter().filter_map(|lane| lane.last(self.keeps).next());
        oldest.map(|observation| observation.unix_ms).min()
    }

    /// All that are kept, by number, and a follower of what comes behind them.
    #[must_use]
    pub fn read(self: &Arc<Self>) -> (Vec<Arc<Observation>>, Follower) {
        // Before the places are read: what comes meanwhile is a change.
        let told = self.told.subscribe();
        let state = self.state.lock();
        let at = [0, 1].map(|lane: usize| state.lanes[lane].end());
        let kept = state.lanes.iter().flat_map(|lane| lane.last(self.keeps));
        let mut kept: Vec<Arc<Observation>> = kept.map(Arc::clone).collect();
        drop(state);
        kept.sort_unstable_by_key(|observation| observation.number);
        (kept, Follower { ring: Arc::clone(self), at, told })
    }
}

/// What a follower is told at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// By number; may be none.
    pub items: Vec<Arc<Observation>>,
    /// How many left the ring before the follower read them.
    pub behind: u64,
}

/// Reads what comes. It holds up neither the ring nor other followers.
#[derive(Debug)]
pub struct Follower {
    ring: Arc<Ring>,
    at: [u64; LANES],
    told: watch::Receiver<()>,
}

impl Follower {
    /// What came since the last call, a part of it if it is much.
    fn take(&mut self) -> Batch {
        let state = self.ring.state.lock();
        let mut batch = Batch::default();
        for (at, lane) in self.at.iter_mut().zip(&state.lanes) {
            batch.behind += lane.gone.saturating_sub(*at);
            *at = lane.gone.max(*at);
        }
        while batch.items.len() < BATCH
            && let Some((lane, observation)) = state.next(&self.at)
        {
            batch.items.push(Arc::clone(observation));
            self.at[lane] += 1;
        }
        batch
    }

    /// What came since the last call, a part of it if it is much. None: nothing has.
    pub fn take_now(&mut self) -> Option<Batch> {
        let batch = self.take();
        (!batch.items.is_empty() || batch.behind > 0).then_some(batch)
    }

    /// What comes next, as soon as something does. To be dropped at any time: nothing is lost.
    pub async fn next(&mut self) -> Batch {
        loop {
            // Seen before it is looked for: what comes meanwhile is a change.
            self.told.mark_unchanged();
            let batch = self.take();
            if !batch.items.is_empty() || batch.behind > 0 {
                return batch;
            }
            // The ring lives as long as this does.
            let _ = self.told.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(kind: ObservationKind, count: usize) -> Vec<Observation> {
        vec![Observation { kind: kind.into(), unix_ms: 7, ..Observation::default() }; count]
    }

    async fn next(follower: &mut Follower) -> (Vec<u64>, u64) {
        let batch = tokio::time::timeout(Duration::from_secs(5), follower.next()).await.expect("something within 5 s");
        (batch.items.iter().map(|observation| observation.number).collect(), batch.behind)
    }

    #[tokio::test]
    async fn followers_read_by_number_and_wake_up() {
        let ring = Arc::new(Ring::new(10));
        ring.push(of(ObservationKind::Drop, 2));
        let (kept, mut follower) = ring.read();
        assert_eq!(kept.iter().map(|one| one.number).collect::<Vec<_>>(), [1, 2]);
        let small = Arc::new(Ring::new(1));
        small.push(of(ObservationKind::Drop, 3));
        assert_eq!(small.read().0.iter().map(|one| one.number).collect::<Vec<_>>(), [3], "no more than it keeps");
        assert_eq!(ring.oldest_unix_ms(), Some(7));
        let (told, ()) = tokio::join!(next(&mut follower), async {
            ring.push(of(ObservationKind::Begin, 1).into_iter().chain(of(ObservationKind::Policy, 2)).collect());
        });
        assert_eq!(told, (vec![3, 4, 5], 0));
        ring.push(of(ObservationKind::End, 1));
        assert_eq!(next(&mut follower).await, (vec![6], 0));
        let nothing = tokio::time::timeout(Duration::from_millis(20), follower.next()).await;
        assert!(nothing.is_err(), "all is read");
    }

    #[tokio::test]
    async fn who_falls_behind_loses_and_holds_up_no_other() {
        let ring = Arc::new(Ring::new(2000));
        let ((_, mut slow), (_, mut fast)) = (ring.read(), ring.read());
        ring.push(of(ObservationKind::Drop, 5));
        assert_eq!(next(&mut fast).await.0.len(), 5);
        ring.push(of(ObservationKind::Begin, 2300));
        let mut read = (0, 0);
        while read.0 < 2000 {
            let (items, behind) = next(&mut fast).await;
            read = (read.0 + items.len(), read.1 + behind);
        }
        assert_eq!(read, (2000, 300));
        let (items, behind) = next(&mut slow).await;
        assert_eq!((&items[..5], items[5], behind), (&[1, 2, 3, 4, 5][..], 306, 300), "no drop is pushed out");
        assert_eq!(items.len(), BATCH);
    }

    #[tokio::test]
    async fn a_ring_that_keeps_nothing_serves_followers() {
        let ring = Arc::new(Ring::new(0));
        ring.push(of(ObservationKind::Drop, 3));
        let (kept, mut follower) = ring.read();
        assert_eq!((kept.len(), ring.oldest_unix_ms()), (0, None));
        ring.push(of(ObservationKind::Drop, 1));
        assert_eq!(next(&mut follower).await, (vec![4], 0));
    }
}
