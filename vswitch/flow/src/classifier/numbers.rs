//! Sets of the numbers of conjunctions: lists, or bitmaps.

/// Sets of up to so many numbers are always lists.
const SHORT: usize = 64;

/// The conjunctions of `clauses` clauses that a match's entries are clause `clause` of.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) clauses: u8,
    pub(super) clause: u8,
    pub(super) numbers: Numbers,
}

/// A set of numbers.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    /// Sorted.
    Short(Vec<u32>),
    /// A bitmap, a word per block (those at the end may be missing), and the number of bits.
    Long(Vec<u64>, usize),
}

impl Numbers {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(list) => list.len(),
            Self::Long(_, len) => *len,
        }
    }

    #[inline]
    pub(super) fn contains(&self, number: u32) -> bool {
        match self {
            Self::Short(list) => list.binary_search(&number).is_ok(),
            Self::Long(words, _) => {
                let (block, bit) = split(number);
                words.get(block).is_some_and(|word| word >> bit & 1 != 0)
            }
        }
    }

    /// All numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let (short, long) = match self {
            Self::Short(list) => (&list[..], &[][..]),
            Self::Long(words, _) => (&[][..], &words[..]),
        };
        let long = (0u32..).step_by(64).zip(long).flat_map(|(first, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(first + bit)
            })
        });
        short.iter().copied().chain(long)
    }

    /// Adds the numbers to a bitmap of all blocks.
    pub(super) fn add_to(&self, bitmap: &mut [u64]) {
        match self {
            Self::Short(list) => {
                for number in list {
                    let (block, bit) = split(*number);
                    bitmap[block] |= 1 << bit;
                }
            }
            Self::Long(words, _) => bitmap.iter_mut().zip(words).for_each(|(all, word)| *all |= word),
        }
    }

    /// Adds one that is not there.
    pub(super) fn insert(&mut self, number: u32, blocks: usize) {
        // A bitmap takes 8 bytes per block, a list 4 per number: at most 8 times as much.
        let (block, bit) = split(number);
        if let Self::Short(list) = self
            && list.len() >= SHORT.max(blocks / 4)
        {
            let mut words = vec![0; blocks];
            self.add_to(&mut words);
            *self = Self::Long(words, self.len());
        }
        match self {
            Self::Short(list) => {
                let (Ok(at) | Err(at)) = list.binary_search(&number);
                list.insert(at, number);
            }
            Self::Long(words, len) => {
                if words.len() <= block {
                    words.resize(blocks.max(block + 1), 0);
                }
                words[block] |= 1 << bit;
                *len += 1;
            }
        }
    }

    /// Removes one that is there.
    pub(super) fn remove(&mut self, number: u32) {
        match self {
            Self::Short(list) => {
                if let Ok(at) = list.binary_search(&number) {
                    list.remove(at);
                }
            }
            Self::Long(words, len) => {
                let (block, bit) = split(number);
                words[block] &= !(1 << bit);
                *len -= 1;
                if *len <= SHORT / 2 {
                    *self = Self::Short(self.iter().collect());
                }
            }
        }
    }
}

/// Block and bit of a number.
pub(super) fn split(number: u32) -> (usize, u32) {
    (number as usize / 64, number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn numbers_are_a_set_whether_short_or_long(
            numbers in prop::collection::vec(0u32..1_000, 0..400), removed in prop::collection::vec(0u32..1_000, 0..1_000),
            blocks in 16usize..800,
        ) {
            let (mut set, mut model) = (Numbers::Short(Vec::new()), BTreeSet::new());
            for number in numbers {
                if model.insert(number) {
                    set.insert(number, blocks);
                }
            }
            let added = (0..1_000).filter(|n| set.contains(*n)).collect::<BTreeSet<_>>();
            prop_assert_eq!(&added, &model);
            for number in removed {
                if model.remove(&number) {
                    set.remove(number);
                }
                prop_assert_eq!(set.contains(number), false);
            }
            let mut bitmap = vec![0; blocks];
            set.add_to(&mut bitmap);
            let bitmap = Numbers::Long(bitmap, model.len());
            for set in [set, bitmap] {
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(set.len(), model.len());
            }
        }
    }

    #[test]
    fn a_set_takes_the_form_that_fits() {
        let mut set = Numbers::Short(Vec::new());
        (0..64).for_each(|n| set.insert(n * 5, 100));
        assert!(matches!(set, Numbers::Short(_)), "64 numbers");
        set.insert(1, 100);
        assert!(matches!(set, Numbers::Long(..)), "65 numbers");
        (20..64).for_each(|n| set.remove(n * 5));
        assert!(matches!(&set, Numbers::Short(list) if list.len() == 21), "few are left: {set:?}");
    }
}
