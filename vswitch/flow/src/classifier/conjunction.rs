//! Clauses, indexed. Every conjunction of a priority (its id and number of clauses) has a number;
//! every match has, per clause, the set of the numbers that its entries are that clause of. Which
//! conjunctions a packet completes is then an intersection of such sets.
//!
//! Numbers are dense, so that long sets are bitmaps; and they are given out in blocks of 64 that
//! hold similar priorities, so that an intersection of bitmaps can go from the highest priorities
//! down and end early.

use super::Clause;
use super::numbers::{List, Numbers, split};
use super::shape::fold;
use super::shards::{Hashed, Shards};
use super::subtable::Slot;
use std::cmp::Reverse;
use std::sync::Arc;

/// What a number stands for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conjunction {
    pub(super) id: u32,
    pub(super) priority: u16,
    pub(super) clauses: u8,
    /// Entries with clauses of it.
    entries: u32,
    /// Entries with more than one clause of it.
    pub(super) ambiguous: u32,
}

/// Sixty-four numbers of similar priorities.
#[derive(Clone, Debug)]
struct Block {
    /// Bits of those in use.
    live: u64,
    conjunctions: [Conjunction; 64],
}

/// The number of a conjunction.
#[derive(Clone, Debug)]
struct Name {
    id: u32,
    priority: u16,
    clauses: u8,
    number: u32,
}

impl Name {
    fn hash_of(priority: u16, id: u32, clauses: u8) -> u64 {
        fold(fold(u64::from(id) ^ 0x5851_f42d_4c95_7f2d) ^ u64::from(priority) << 8 ^ u64::from(clauses))
    }
}

impl Hashed for Name {
    fn hash(&self) -> u64 {
        Self::hash_of(self.priority, self.id, self.clauses)
    }
}

/// All conjunctions of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry {
    names: Shards<Name>,
    blocks: Vec<Arc<Block>>,
    /// Which blocks hold what, the highest priorities first: a band of priorities, and a block.
    order: Vec<(Reverse<u16>, u32)>,
    /// Blocks without numbers in use.
    free: Vec<u32>,
}

/// The band of similar priorities that a priority belongs to.
pub(super) fn band(priority: u16) -> u16 {
    priority / 256
}

impl Registry {
    /// What a number stands for.
    pub(super) fn get(&self, number: u32) -> &Conjunction {
        let (block, bit) = split(number);
        &self.blocks[block].conjunctions[bit as usize]
    }

    /// Bands and blocks, the highest first.
    pub(super) fn order(&self) -> impl Iterator<Item = (u16, usize)> {
        self.order.iter().map(|(band, block)| (band.0, *block as usize))
    }

    /// Number of blocks: a bitmap has a word for each.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn find(&self, priority: u16, id: u32, clauses: u8) -> Option<u32> {
        let fits = |name: &Name| name.id == id && name.priority == priority && name.clauses == clauses;
        self.names.find(Name::hash_of(priority, id, clauses), fits).map(|name| name.number)
    }

    /// Changes the clauses of a match's entry of some priority.
    pub(super) fn change<T>(&mut self, slot: &mut Slot<T>, priority: u16, old: &[Clause], new: &[Clause]) {
        let (old, new) = (groups(old), groups(new));
        let (mut from, mut to) = (old.iter().peekable(), new.iter().peekable());
        while let Some(name) = from.peek().map(|g| g.name()).into_iter().chain(to.peek().map(|g| g.name())).min() {
            let from = from.next_if(|g| g.name() == name).map_or(0, |g| g.which);
            let to = to.next_if(|g| g.name() == name).map_or(0, |g| g.which);
            if from != to {
                self.change_group(slot, priority, name, from, to);
            }
        }
    }

    fn change_group<T>(&mut self, slot: &mut Slot<T>, priority: u16, name: (u32, u8), from: u64, to: u64) {
        let (id, clauses) = name;
        let number = self.find(priority, id, clauses).unwrap_or_else(|| self.add(priority, id, clauses));
        for clause in (0..clauses).filter(|clause| (from ^ to) >> clause & 1 != 0) {
            slot.change_list(clauses, clause, number, to >> clause & 1 != 0, self.blocks.len());
        }
        let (block, bit) = split(number);
        let conjunction = &mut Arc::make_mut(&mut self.blocks[block]).conjunctions[bit as usize];
        conjunction.entries = conjunction.entries + u32::from(to != 0) - u32::from(from != 0);
        conjunction.ambiguous =
            conjunction.ambiguous + u32::from(to.count_ones() > 1) - u32::from(from.count_ones() > 1);
        if conjunction.entries == 0 {
            self.remove(number);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // numbers are fewer than clauses in memory
    fn add(&mut self, priority: u16, id: u32, clauses: u8) -> u32 {
        let band = Reverse(band(priority));
        let end = self.order.partition_point(|(at, _)| *at <= band);
        let mut same = self.order[..end].iter().rev().take_while(|(at, _)| *at == band).map(|(_, block)| *block);
        let block = same.find(|block| self.blocks[*block as usize].live != u64::MAX).unwrap_or_else(|| {
            let block = self.free.pop().unwrap_or_else(|| {
                self.blocks.push(Arc::new(Block { live: 0, conjunctions: [Conjunction::default(); 64] }));
                self.blocks.len() as u32 - 1
            });
            self.order.insert(end, (band, block));
            block
        });
        let place = Arc::make_mut(&mut self.blocks[block as usize]);
        let bit = place.live.trailing_ones();
        place.live |= 1 << bit;
        place.conjunctions[bit as usize] = Conjunction { id, priority, clauses, entries: 0, ambiguous: 0 };
        let number = block * 64 + bit;
        self.names.insert(Name { id, priority, clauses, number });
        number
    }

    #[allow(clippy::cast_possible_truncation)] // as above
    fn remove(&mut self, number: u32) {
        let Conjunction { id, priority, clauses, .. } = *self.get(number);
        self.names.remove(Name::hash_of(priority, id, clauses), |name| name.number == number);
        let (block, bit) = split(number);
        let place = Arc::make_mut(&mut self.blocks[block]);
        place.live &= !(1 << bit);
        if place.live == 0 {
            self.order.retain(|(_, at)| *at as usize != block);
            self.free.push(block as u32);
        }
    }
}

/// The clauses that an entry is of one conjunction.
struct Group {
    id: u32,
    clauses: u8,
    /// Bit `k`: it is clause `k`.
    which: u64,
}

impl Group {
    fn name(&self) -> (u32, u8) {
        (self.id, self.clauses)
    }
}

/// In order of their names.
fn groups(clauses: &[Clause]) -> Vec<Group> {
    let valid = clauses.iter().filter(|clause| clause.is_valid());
    let mut groups: Vec<Group> = valid.map(|c| Group { id: c.id, clauses: c.clauses, which: 1 << c.clause }).collect();
    groups.sort_by_key(Group::name);
    groups.dedup_by(|next, kept| {
        let same = next.name() == kept.name();
        if same {
            kept.which |= next.which;
        }
        same
    });
    groups
}

impl<T> Slot<T> {
    fn change_list(&mut self, clauses: u8, clause: u8, number: u32, add: bool, blocks: usize) {
        let at = self.lists.binary_search_by_key(&(clauses, clause), |list| (list.clauses, list.clause));
        match (at, add) {
            (Ok(at), true) => self.lists[at].numbers.insert(number, blocks),
            (Ok(at), false) => {
                self.lists[at].numbers.remove(number);
                if self.lists[at].numbers.len() == 0 {
                    self.lists.remove(at);
                }
            }
            (Err(at), true) => self.lists.insert(at, List { clauses, clause, numbers: Numbers::Short(vec![number]) }),
            (Err(_), false) => {}
        }
    }
}
