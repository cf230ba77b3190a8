//! Which conjunction a packet completes, from the clauses that it matches. See
//! [`super::Classifier::lookup`].

use super::conjunction::{Registry, band};
use super::numbers::List;
use super::subtable::Slot;

/// The id of the best conjunction above a priority that is complete among these matches.
pub(super) fn complete<T>(slots: &[&Slot<T>], registry: &Registry, above: Option<u16>) -> Option<u32> {
    let mut lists: Vec<&List> = slots.iter().flat_map(|slot| &slot.lists).collect();
    lists.sort_unstable_by_key(|list| (list.clauses, list.clause));
    let mut best = Best { slots, registry, above, numbers: Vec::new() };
    for same in lists.chunk_by(|a, b| a.clauses == b.clauses) {
        let sets: Vec<&[&List]> = same.chunk_by(|a, b| a.clause == b.clause).collect();
        let all = same.first().is_some_and(|list| usize::from(list.clauses) == sets.len());
        if all {
            intersect(&sets, &mut best);
        }
    }
    best.id()
}

/// Finds what is in all of these sets, each the union of some lists.
fn intersect<T>(sets: &[&[&List]], best: &mut Best<'_, T>) {
    let len = |set: &[&List]| set.iter().map(|list| list.numbers.len()).sum::<usize>();
    let Some((shortest, set)) = sets.iter().enumerate().min_by_key(|(_, set)| len(set)) else { return };
    // A number costs about as much as two words.
    if len(set) > best.registry.blocks() / 2 {
        return intersect_bitmaps(sets, best);
    }
    for number in set.iter().flat_map(|list| list.numbers.iter()) {
        let mut others = sets.iter().enumerate().filter(|(i, _)| *i != shortest);
        if others.all(|(_, set)| set.iter().any(|list| list.numbers.contains(number))) {
            best.offer(number);
        }
    }
}

/// Likewise where all sets are long.
fn intersect_bitmaps<T>(sets: &[&[&List]], best: &mut Best<'_, T>) {
    let registry = best.registry;
    let mut all = vec![u64::MAX; registry.blocks()];
    let mut set = vec![0; registry.blocks()];
    for lists in sets {
        set.fill(0);
        lists.iter().for_each(|list| list.numbers.add_to(&mut set));
        all.iter_mut().zip(&set).for_each(|(all, word)| *all &= word);
    }
    if all.iter().fold(0, |any, word| any | word) == 0 {
        return;
    }
    #[allow(clippy::cast_possible_truncation)] // numbers are 32 bits
    for (at, block) in registry.order() {
        if best.above.is_some_and(|above| at < band(above)) {
            return;
        }
        let mut left = all[block];
        while left != 0 {
            best.offer(block as u32 * 64 + left.trailing_zeros());
            left &= left - 1;
        }
    }
}

/// The best complete conjunctions so far.
struct Best<'a, T> {
    slots: &'a [&'a Slot<T>],
    registry: &'a Registry,
    /// What to beat.
    above: Option<u16>,
    /// All of one priority.
    numbers: Vec<u32>,
}

impl<T> Best<'_, T> {
    /// Considers one whose clauses are all there.
    fn offer(&mut self, number: u32) {
        let conjunction = self.registry.get(number);
        let equal = !self.numbers.is_empty() && Some(conjunction.priority) == self.above;
        if !equal && Some(conjunction.priority) <= self.above {
            return;
        }
        if conjunction.ambiguous != 0 && !self.is_represented(number, conjunction.clauses) {
            return;
        }
        if !equal {
            self.numbers.clear();
            self.above = Some(conjunction.priority);
        }
        self.numbers.push(number);
    }

    /// Whether each clause can have a match of its own: augmenting paths from clauses to matches.
    fn is_represented(&self, number: u32, clauses: u8) -> bool {
        let is = |clause: u8, slot: &Slot<T>| {
            let mut lists = slot.lists.iter();
            lists.any(|list| list.clauses == clauses && list.clause == clause && list.numbers.contains(number))
        };
        let can: Vec<Vec<usize>> = (0..clauses)
            .map(|clause| (0..self.slots.len()).filter(|slot| is(clause, self.slots[*slot])).collect())
            .collect();
        let mut holder = vec![None; self.slots.len()];
        (0..can.len()).all(|clause| place(clause, &can, &mut holder, &mut vec![false; self.slots.len()]))
    }

    /// The best one's id. Of several: the one that is listed first in the entry with the shortest
    /// list that lists one.
    fn id(mut self) -> Option<u32> {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        let (first, more) = self.numbers.split_first()?;
        let first = self.registry.get(*first);
        if more.is_empty() {
            return Some(first.id);
        }
        let mut names: Vec<(u32, u8)> =
            self.numbers.iter().map(|n| self.registry.get(*n)).map(|c| (c.id, c.clauses)).collect();
        names.sort_unstable();
        let mut rows: Vec<_> = self.slots.iter().filter_map(|slot| slot.rows.get(first.priority)).collect();
        rows.sort_unstable_by_key(|row| (row.entry.clauses.len(), row.seq));
        let mut listed = rows.iter().flat_map(|row| row.entry.clauses.iter());
        listed.find(|c| names.binary_search(&(c.id, c.clauses)).is_ok()).map(|c| c.id)
    }
}

/// Gives a clause a slot, moving others if need be.
fn place(clause: usize, can: &[Vec<usize>], holder: &mut [Option<usize>], seen: &mut [bool]) -> bool {
    for &slot in &can[clause] {
        if !std::mem::replace(&mut seen[slot], true) && holder[slot].is_none_or(|other| place(other, can, holder, seen))
        {
            holder[slot] = Some(clause);
            return true;
        }
    }
    false
}
