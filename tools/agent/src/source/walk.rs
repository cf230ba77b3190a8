//! What there is below a directory.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Directories within each other.
const DEPTH_MAX: usize = 8;

/// What a file is known by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    len: u64,
    inode: u64,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            len: metadata.len(),
            inode: metadata.ino(),
        }
    }

    /// Whether nobody has written or named the file for `period`.
    pub(super) fn is_older(&self, now: SystemTime, period: Duration) -> bool {
        let until = now.checked_sub(period).and_then(|until| until.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let until = (i64::try_from(until.as_secs()).unwrap_or(i64::MAX), i64::from(until.subsec_nanos()));
        self.modified.max(self.changed) <= until
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Manifests.
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// What cannot be read, and why: nobody knows what there is.
    pub(super) bad: Vec<(PathBuf, String)>,
    /// Directories that could be read, and where they are.
    pub(super) directories: BTreeMap<PathBuf, Place>,
}

/// Where a directory is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// Without links.
    pub(super) real: PathBuf,
    /// Its file system.
    pub(super) device: u64,
}

/// Manifests of `dir` and below. `is_known` says whether something was found at or below a path
/// before.
pub(super) fn walk(dir: &Path, is_known: &dyn Fn(&Path) -> bool) -> Found {
    let mut walk = Walk { found: Found::default(), above: Vec::new(), is_known };
    match fs::metadata(dir) {
        Ok(metadata) => walk.directory(dir, &metadata),
        Err(error) => walk.bad(dir, error.to_string()),
    }
    walk.found
}

struct Walk<'a> {
    found: Found,
    /// Device and inode of the directories that this is in.
    above: Vec<(u64, u64)>,
    is_known: &'a dyn Fn(&Path) -> bool,
}

impl Walk<'_> {
    fn bad(&mut self, path: &Path, reason: String) {
        self.found.bad.push((path.to_owned(), reason));
    }

    fn directory(&mut self, dir: &Path, metadata: &Metadata) {
        let id = (metadata.dev(), metadata.ino());
        if self.above.contains(&id) {
            return; // a link in a circle: it is being read
        }
        if self.above.len() > DEPTH_MAX {
            return self.bad(dir, format!("directories within each other deeper than {DEPTH_MAX}"));
        }
        self.above.push(id);
        match self.entries(dir) {
            Ok(true) if (self.is_known)(dir) => {
                let reason = "is empty, and had files: is something not mounted? They stay in force";
                self.bad(dir, reason.to_owned());
            }
            Ok(_) => {
                if let Ok(real) = fs::canonicalize(dir) {
                    self.found.directories.insert(dir.to_owned(), Place { real, device: metadata.dev() });
                }
            }
            Err(error) => self.bad(dir, error.to_string()),
        }
        self.above.pop();
    }

    /// Whether there are none.
    fn entries(&mut self, dir: &Path) -> io::Result<bool> {
        let mut is_empty = true;
        for entry in fs::read_dir(dir)? {
            is_empty = false;
            self.entry(entry?.path());
        }
        Ok(is_empty)
    }

    fn entry(&mut self, path: PathBuf) {
        if path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.')) {
            return;
        }
        let is_manifest = path
            .extension()
            .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known)));
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => self.directory(&path, &metadata),
            Ok(metadata) if metadata.is_file() && is_manifest => {
                self.found.files.insert(path, Stamp::of(&metadata));
            }
            // What had manifests, or has the name of one, and is another thing now.
            Ok(_) if is_manifest || (self.is_known)(&path) => {
                self.bad(&path, "is no file or directory of manifests".to_owned());
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Without a link it went meanwhile. A link to nothing is not absence: what it means
                // may be back soon, a directory of manifests among it, whose name says nothing.
                if fs::symlink_metadata(&path).is_ok() {
                    self.bad(&path, "a link to nothing".to_owned());
                }
            }
            Err(error) => self.bad(&path, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn circles_end_and_what_is_too_deep_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut deep = dir.path().to_owned();
        for _ in 0..DEPTH_MAX {
            deep.push("d");
        }
        fs::create_dir_all(&deep).expect("made");
        fs::write(deep.join("a.yaml"), "").expect("written");
        symlink(dir.path(), deep.join("circle")).expect("linked");
        let found = walk(dir.path(), &|_| false);
        assert_eq!((found.files.len(), found.bad), (1, vec![]));
        fs::create_dir(deep.join("d")).expect("made");
        let found = walk(dir.path(), &|_| false);
        assert_eq!(found.bad, [(deep.join("d"), "directories within each other deeper than 8".to_owned())]);
    }

    #[test]
    fn what_is_no_file_is_told_if_it_could_be_a_manifest_or_had_some() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["dev.yaml", "dev"] {
            symlink("/dev/null", dir.path().join(name)).expect("linked");
        }
        fs::write(dir.path().join("was"), "x").expect("written");
        let bad = |is_known: &dyn Fn(&Path) -> bool| {
            let found = walk(dir.path(), is_known);
            assert!(found.files.is_empty());
            found.bad.iter().map(|(path, _)| path.file_name().expect("one").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(bad(&|_| false), ["dev.yaml"]);
        let mut known = bad(&|path| path.ends_with("was") || path.ends_with("dev"));
        known.sort();
        assert_eq!(known, ["dev", "dev.yaml", "was"]);
    }

    #[test]
    fn a_stamp_is_as_old_as_its_later_time() {
        let stamp = Stamp { modified: (10, 0), changed: (20, 5), len: 0, inode: 0 };
        let at = |seconds: u64, nanos: u32| UNIX_EPOCH + Duration::new(seconds, nanos);
        let is_older = |now| stamp.is_older(now, Duration::from_secs(2));
        assert_eq!([at(1, 0), at(15, 0), at(22, 4), at(22, 5)].map(is_older), [false, false, false, true]);
    }
}
