//! What is known of a cluster, for a later run: an agent may start while the API server is away.
//!
//! **Design**: the objects of a kind are spread over a fixed number of files by a hash of their
//! names. A change writes one file of each kind that changed, at most once in [`SAVE_EVERY`].

use super::{Cluster, Kept};
use crate::hash::fnv;
use crate::kinds::Document;
use crate::source::Store;
use crate::source::cluster::table::kinds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Between two times of saving: objects change several times a second in a large cluster, and each
/// file is brought to the disk. An agent that restarts meanwhile is blind till it has listed all.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// An object as it is saved.
#[derive(Debug, Deserialize, Serialize)]
struct Saved {
    name: String,
    uid: String,
    documents: Vec<Document>,
}

/// The file of an object among those of its kind. Later agents find it there.
pub(super) fn shard(name: &str, shards: usize) -> usize {
    usize::try_from(fnv(name.bytes()) % shards.max(1) as u64).unwrap_or_default()
}

impl Cluster {
    pub(super) fn load_from(&mut self, store: &mut Store) {
        for kind in kinds() {
            let name = kind.name();
            for part in 0..kind.shards {
                let Some((saved, _)) = store.read::<Vec<Saved>>(&Store::name_of_objects(&name, part)) else { continue };
                let objects = self.objects.entry(name.clone()).or_default();
                for Saved { name, uid, documents } in saved {
                    objects.insert(name, Kept { uid, documents, problems: Vec::new() });
                }
                self.shared.loaded(name.clone());
            }
        }
    }

    pub(super) fn store_to(&mut self, store: &mut Store, names: &mut BTreeSet<String>) -> bool {
        if !self.unsaved.is_empty() {
            // Once all is known, that is saved at once.
            let is_news = !self.was_blind && !self.has_saved_all;
            if !is_news && self.saved.is_some_and(|saved| saved.elapsed() < SAVE_EVERY) {
                return false; // it is asked again at the next scan
            }
            self.saved = Some(Instant::now());
        }
        let unsaved = std::mem::take(&mut self.unsaved);
        for kind in kinds() {
            let name = kind.name();
            let Some(objects) = self.objects.get(&name) else { continue };
            let used: BTreeSet<usize> = objects.keys().map(|object| shard(object, kind.shards)).collect();
            for part in used {
                let file = Store::name_of_objects(&name, part);
                let key = (name.clone(), part);
                if unsaved.contains(&key) {
                    let of_part = objects.iter().filter(|(object, _)| shard(object, kind.shards) == part);
                    let mut saved: Vec<(&String, &String, &Vec<Document>)> =
                        of_part.map(|(name, kept)| (name, &kept.uid, &kept.documents)).collect();
                    saved.sort_by_key(|(name, ..)| *name);
                    let saved: Vec<SavedRef<'_>> =
                        saved.into_iter().map(|(name, uid, documents)| SavedRef { name, uid, documents }).collect();
                    if !store.write(&file, saved) {
                        self.unsaved.insert(key);
                    }
                }
                names.insert(file);
            }
        }
        self.has_saved_all |= !self.was_blind && self.unsaved.is_empty();
        self.unsaved.is_empty()
    }
}

/// An object to be saved.
#[derive(Serialize)]
struct SavedRef<'a> {
    name: &'a str,
    uid: &'a str,
    documents: &'a [Document],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_objects_are_those_of_agents_before() {
        let shards: Vec<usize> =
            ["", "a", "default/web-7d4b9", "kube-system/coredns"].map(|name| shard(name, 64)).into();
        assert_eq!(shards, [37, 12, 26, 55]);
        assert!(Store::is_of_cluster(&Store::name_of_objects("pods", 3)));
    }
}
