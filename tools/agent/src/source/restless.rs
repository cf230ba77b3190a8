//! A file that is another one at each scan. It is read all the same, as far as it is certain that
//! it is not being written.

use super::decode::decode;
use super::file::{File, contents, shown};
use super::keep::ByKey;
use super::walk::Stamp;
use crate::kinds::DocumentKey;
use crate::problem::{Origin, Problem};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Scans after which it is read.
const SCANS: u32 = 5;

impl File {
    /// Reads it, if it has changed at each scan for some time; whether that changes anything. What
    /// it holds counts if it held the same at the scan before. So does what is right as a whole,
    /// about the same objects as at the scan before, and no more or less of the same text.
    pub(super) fn read_restless(&mut self, path: &Path, stamp: Stamp, gone: &ByKey) -> bool {
        self.restless.scans = self.restless.scans.saturating_add(1);
        if self.restless.scans < SCANS {
            return false;
        }
        let is_news = self.restless.problem.is_none();
        let reason = "changes at each look: counts if its text stays the same, or is right as a whole each time";
        self.restless.problem = Some(Origin::new(&shown(path), 0, "").warning("", reason));
        let Ok(bytes) = contents(path) else { return is_news };
        let is_one = fs::metadata(path).is_ok_and(|metadata| Stamp::of(&metadata) == stamp);
        let before = self.restless.bytes.replace(bytes.clone());
        let is_good = |before: Vec<u8>| {
            let is_part = before.starts_with(&bytes) || bytes.starts_with(&before);
            let objects = || right(path, &bytes);
            before == bytes || (is_one && !is_part && objects().is_some() && objects() == right(path, &before))
        };
        self.is_settled = before.is_some_and(is_good);
        let is_taken = self.is_settled && self.take_bytes(path, &bytes, gone);
        is_news || is_taken
    }
}

/// Objects of a text; None: something of it is wrong.
fn right(path: &Path, bytes: &[u8]) -> Option<BTreeSet<DocumentKey>> {
    let (text, lost) = decode(bytes);
    let mut file = File::default();
    file.take(&shown(path), &text, &ByKey::new());
    let is_right = lost.is_none() && !file.problems.iter().any(Problem::is_error);
    is_right.then(|| file.documents.into_iter().map(|document| document.key).collect())
}
