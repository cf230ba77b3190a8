//! The last changes of a table: so that a decision can tell that they have nothing to do with it.

use crate::limits::{CHANGE_MATCHES_MAX, CHANGES_LOGGED_MAX};
use std::sync::Arc;
use vswitch_flow::SparseMatch;

/// Matches of the rules that a change added, removed or replaced.
pub type ChangedMatches = Arc<[Arc<SparseMatch>]>;

/// The last changes of a table, each with the number (of a world, or an epoch) that it was
/// published with. A value: cloned with its table.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog {
    /// From the oldest.
    changes: Vec<(u64, ChangedMatches)>,
    /// Of changes up to this number it does not know all.
    before: u64,
}

impl ChangeLog {
    /// Notes a change, or that the last one got another number.
    pub fn note(&mut self, number: u64, matches: &ChangedMatches) {
        if matches.len() > CHANGE_MATCHES_MAX {
            self.forget(number);
            return;
        }
        if let Some((last, of)) = self.changes.last_mut()
            && Arc::ptr_eq(of, matches)
        {
            *last = number;
            return;
        }
        if self.changes.len() >= CHANGES_LOGGED_MAX {
            self.before = self.changes.remove(0).0;
        }
        self.changes.push((number, Arc::clone(matches)));
    }

    /// What this change was, or any before it, nobody knows.
    pub fn forget(&mut self, number: u64) {
        self.changes.clear();
        self.before = number;
    }

    /// Matches of all rules that changed after this number; None: not all of them are known.
    pub fn since(&self, number: u64) -> Option<impl Iterator<Item = &SparseMatch>> {
        let changes = self.changes.iter().filter(move |(at, _)| *at > number);
        (number >= self.before).then(|| changes.flat_map(|(_, matches)| matches.iter().map(|matching| &**matching)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_flow::{Field, FlowKey, FlowMask};

    fn matching(mark: u128) -> Arc<SparseMatch> {
        let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
        key.set(Field::PktMark, mark);
        mask.add(Field::PktMark);
        Arc::new(SparseMatch::new(&key, &mask))
    }

    fn marks(log: &ChangeLog, number: u64) -> Option<Vec<u128>> {
        Some(log.since(number)?.map(|matching| matching.get(Field::PktMark).0).collect())
    }

    #[test]
    fn what_came_after_a_number_is_known_or_not() {
        let mut log = ChangeLog::default();
        assert_eq!(marks(&log, 0), Some(vec![]));
        for number in 1..=CHANGES_LOGGED_MAX as u64 {
            log.note(number * 10, &[matching(number.into())].into());
        }
        let (end, last) = (CHANGES_LOGGED_MAX as u64 * 10, CHANGES_LOGGED_MAX as u128);
        assert_eq!(marks(&log, 0).map(|marks| marks.len()), Some(CHANGES_LOGGED_MAX));
        assert_eq!(marks(&log, end - 11), Some(vec![last - 1, last]));
        assert_eq!(marks(&log, end - 10), Some(vec![last]));
        assert_eq!(marks(&log, end), Some(vec![]));
        let another: ChangedMatches = [matching(77), matching(78)].into();
        log.note(5000, &another);
        log.note(5001, &another);
        assert_eq!(marks(&log, 5000), Some(vec![77, 78]), "numbered anew");
        assert_eq!((marks(&log, 9), marks(&log, 10).is_some()), (None, true), "the first one gave way");
        log.note(6000, &vec![matching(1); CHANGE_MATCHES_MAX + 1].into());
        assert_eq!((marks(&log, 5999), marks(&log, 6000)), (None, Some(vec![])), "too many");
        log.note(6001, &another);
        log.forget(6002);
        assert_eq!((marks(&log, 6001), marks(&log, 6002)), (None, Some(vec![])));
    }
}
