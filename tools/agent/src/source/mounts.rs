//! Directories whose file system is another one than that of the files that were read there: a
//! mount has gone, or a new one lies over it.
//!
//! **Where**: between [`super::walk`] and [`super::Directory`], at each scan.
//!
//! **Limits**: only within a run. The number of a file system may change when the machine boots.

use super::walk::Place;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is told of such a directory.
const REASON: &str =
    "is another file system now, without files that were there: is something not mounted? They stay in force";

/// File systems of directories, as they were when all that was known of them was there.
#[derive(Debug, Default)]
pub(super) struct Mounts(BTreeMap<PathBuf, Place>);

impl Mounts {
    /// Directories that are on another file system than before, and lack a file that was known
    /// there. `lacks` says so of a directory. A link that leads elsewhere is meant.
    pub(super) fn moved(
        &mut self,
        found: &BTreeMap<PathBuf, Place>,
        lacks: &dyn Fn(&Path) -> bool,
    ) -> Vec<(PathBuf, String)> {
        let mut moved: Vec<(PathBuf, String)> = Vec::new();
        for (dir, place) in found {
            let is_other = |old: &Place| old.real == place.real && old.device != place.device;
            if self.0.get(dir).is_some_and(is_other) && lacks(dir) {
                // What lies below it is not told again.
                if !moved.iter().any(|(above, _)| dir.starts_with(above)) {
                    moved.push((dir.clone(), REASON.to_owned()));
                }
            } else {
                self.0.insert(dir.clone(), place.clone());
            }
        }
        self.0.retain(|dir, _| found.contains_key(dir) || lacks(dir));
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(places: &[(&str, &str, u64)]) -> BTreeMap<PathBuf, Place> {
        let place = |(dir, real, device): &(&str, &str, u64)| {
            (PathBuf::from(dir), Place { real: real.into(), device: *device })
        };
        places.iter().map(place).collect()
    }

    fn moved(mounts: &mut Mounts, places: &[(&str, &str, u64)], lacks: &[&str]) -> Vec<PathBuf> {
        let lacks = |dir: &Path| lacks.iter().any(|file| Path::new(file).starts_with(dir));
        mounts.moved(&found(places), &lacks).into_iter().map(|(dir, _)| dir).collect()
    }

    #[test]
    fn a_mount_that_goes_is_told_until_its_files_are_there() {
        let mut mounts = Mounts::default();
        let (with, without) = ([("/d", "/d", 1), ("/d/m", "/d/m", 2)], [("/d", "/d", 1), ("/d/m", "/d/m", 1)]);
        assert!(moved(&mut mounts, &with, &["/d/m/new.yaml"]).is_empty(), "nothing was known of it");
        for _ in 0..3 {
            assert_eq!(moved(&mut mounts, &without, &["/d/m/a.yaml"]), [Path::new("/d/m")]);
        }
        assert!(moved(&mut mounts, &with, &[]).is_empty());
        assert_eq!(moved(&mut mounts, &without, &["/d/m/a.yaml"]), [Path::new("/d/m")]);
        assert!(moved(&mut mounts, &without, &[]).is_empty(), "its files are there: it has moved");
        assert!(moved(&mut mounts, &without, &["/d/m/a.yaml"]).is_empty(), "a file was deleted");
    }

    #[test]
    fn the_topmost_is_told_and_a_link_may_lead_elsewhere() {
        let mut mounts = Mounts::default();
        assert!(moved(&mut mounts, &[("/d", "/d", 1), ("/d/s", "/d/s", 1), ("/d/l", "/x", 1)], &[]).is_empty());
        let lacks = ["/d/s/a.yaml"];
        assert_eq!(moved(&mut mounts, &[("/d", "/d", 2), ("/d/s", "/d/s", 2)], &lacks), [Path::new("/d")]);
        assert!(moved(&mut mounts, &[("/d", "/d", 1), ("/d/l", "/y", 7)], &["/d/l/a.yaml"]).is_empty());
    }

    #[test]
    fn a_directory_that_was_away_for_a_scan_is_known_still() {
        let mut mounts = Mounts::default();
        assert!(moved(&mut mounts, &[("/d", "/d", 1), ("/d/m", "/d/m", 2)], &[]).is_empty());
        assert!(moved(&mut mounts, &[("/d", "/d", 1)], &["/d/m/a.yaml"]).is_empty());
        assert_eq!(moved(&mut mounts, &[("/d", "/d", 1), ("/d/m", "/d/m", 1)], &["/d/m/a.yaml"]), [Path::new("/d/m")]);
    }
}
