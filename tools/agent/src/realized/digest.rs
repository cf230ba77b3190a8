//! Digests of policies in force: over UIDs and generations, by parts of all policies.
//!
//! A digest is the exclusive or of the hashes of its entries. So order does not matter, and an
//! entry goes as it came. Agents of all versions hash alike.

use crate::hash::mixed;

/// Parts. A policy that changes keeps the others of its part from being confirmed anew until
/// reports have followed; what was confirmed before stays.
pub(super) const PARTS: usize = 64;

/// The part of a policy.
pub(super) fn part(uid: &str) -> usize {
    usize::try_from(mixed(uid.bytes()) % PARTS as u64).unwrap_or_default()
}

/// What lists of policies have in place of a UID. Two policies may share one.
pub(super) fn short(uid: &str) -> u32 {
    u32::try_from(mixed(uid.bytes()) >> 32).unwrap_or_default()
}

/// What a policy of a generation adds to the digest of its part.
pub(super) fn entry(uid: &str, generation: i64) -> u64 {
    mixed(uid.bytes().chain([0]).chain(generation.to_be_bytes()))
}

/// The digests of all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digests(pub(super) [u64; PARTS]);

impl Default for Digests {
    fn default() -> Self {
        Self([0; PARTS])
    }
}

impl Digests {
    /// Adds a policy, or takes it away.
    pub(super) fn toggle(&mut self, uid: &str, generation: i64) {
        self.0[part(uid)] ^= entry(uid, generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_all_versions_hash_alike() {
        let uid = "0f0d9b62-8f5c-4a4e-9d0c-3f5f0a6b7c8d";
        assert_eq!((part(uid), short(uid), entry(uid, 3)), (35, 0x82a8_5c91, 0x8a78_3e96_256d_aad7));
    }

    #[test]
    fn an_older_policy_beside_a_newer_one_is_not_the_other_way_round() {
        let digests = |of: &[(&str, i64)]| {
            let mut digests = Digests::default();
            of.iter().for_each(|(uid, generation)| digests.toggle(uid, *generation));
            digests.0.iter().fold(0, |all, part| all ^ part)
        };
        for i in 0..200 {
            let [one, two] = [format!("u{i}"), format!("u{}", i + 1)];
            assert_ne!(digests(&[(&one, 1), (&two, 2)]), digests(&[(&one, 2), (&two, 1)]));
        }
        assert_eq!(digests(&[("a", 1), ("a", 1)]), 0, "what comes and goes leaves nothing");
    }
}
