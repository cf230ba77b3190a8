//! What documents that are wrong now said when they were right: it stays in force.

use crate::kinds::{Document, DocumentBody, DocumentKey};
use std::collections::HashMap;

/// Documents by the objects that they are about.
pub(super) type ByKey = HashMap<DocumentKey, Document>;

/// Splits documents of before into those that were right, and those that were wrong of which
/// something was left.
pub(super) fn split(before: &[Document]) -> (ByKey, ByKey) {
    let by_key = |document: &Document| (document.key.clone(), document.clone());
    let right = before.iter().filter(|document| document.is_understood()).map(by_key).collect();
    let is_part = |document: &&Document| !document.is_understood() && document.left.is_some();
    (right, before.iter().filter(is_part).map(by_key).collect())
}

/// Puts what documents said when they were right (`old`) in place of those that are wrong now, or
/// beside them if policies may select by what is not known of them. `parts` are wrong documents of
/// before of which something is left. Policies stay as they are: `project` holds them.
pub(super) fn keep<'a>(
    documents: &mut Vec<Document>,
    old: impl Fn(&DocumentKey) -> Option<&'a Document>,
    parts: &mut ByKey,
) {
    let mut beside = Vec::new();
    for document in documents.iter_mut().filter(|document| matches!(document.body, DocumentBody::Wrong { .. })) {
        let Some(old) = old(&document.key).filter(|_| !document.prefers_left()) else {
            let part = parts.remove(&document.key).filter(|_| document.left.is_none());
            document.left = document.left.take().or(part.and_then(|part| part.left));
            continue;
        };
        document.left = None;
        if document.is_in_doubt(old) {
            document.stand_beside(old);
            beside.push(old.clone());
        } else {
            document.clone_from(old);
        }
    }
    documents.extend(beside);
}
