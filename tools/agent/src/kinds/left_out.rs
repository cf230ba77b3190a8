//! Documents of kinds that are not read: misspelt ones, and those of others.

use super::misspelt::is_like_ours;
use super::read::{KINDS, KnownKind, Named, Read, meta, without_meta};
use super::{Document, DocumentBody, pod, unserved};
use crate::problem::Origin;
use crate::source::Tree;

impl Read<'_> {
    /// A document whose kind is misspelt, and that of no policy.
    pub(super) fn misspelt(&mut self, named: &Named, of: KnownKind, origin: Origin, mut tree: Tree) {
        let (kind, said) = (&named.words.kind, tree.get("kind").and_then(Tree::text).unwrap_or_default());
        let written = format!("{} {said}", named.words.api);
        let reason = format!("{:?} is no kind that is read; write {} {kind}", written.trim(), of.api);
        self.problems.push(origin.error(if said == kind { "apiVersion" } else { "kind" }, reason));
        let document = match meta(&mut tree, (kind, of.is_namespaced), &mut Vec::new()) {
            Err(_) => without_meta(named, origin, &mut tree),
            Ok(meta) => {
                let body = pod::wrong(kind == "Pod", true, &tree);
                let says_namespace = named.says_namespace(of);
                Document { key: named.key(&meta), origin, meta, says_namespace, body, left: None }
            }
        };
        self.documents.push(document);
    }

    /// A document of a kind that is not read.
    pub(super) fn left_out(&mut self, named: &Named, origin: Origin, tree: &Tree) {
        let (group, kind) = (named.group.as_str(), named.words.kind.as_str());
        if !unserved::is_silent(group, kind) {
            let reason = format!("{} {kind} is left out: {}", named.words.api, unserved::meaning(group, kind));
            self.problems.push(origin.tolerated("kind", reason).hint(format!("known kinds: {KINDS}")));
            if let Some(begin) = named.cut(origin.clone(), tree) {
                self.documents.push(begin);
                return;
            }
        }
        if is_like_ours(kind) {
            self.documents.push(Document { body: DocumentBody::LeftOut, ..named.wrong(origin, None) });
        }
    }
}
