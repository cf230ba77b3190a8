//! A directory of manifests: what its files say, as long as they can be read.

use super::file::{File, shown};
use super::keep::ByKey;
use super::mounts::Mounts;
use super::walk::{Found, Stamp, walk};
use super::{Source, Store};
use crate::kinds::{Document, DocumentKey};
use crate::problem::{Origin, Problem};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What is younger may be being written.
const SETTLED: Duration = Duration::from_secs(2);

/// Scans after which a file that is not there is taken to be gone: one that has another name by now
/// is read at the second, too.
const MISSING_MAX: u32 = 2;

/// Manifests of a directory, and single files beside it. Files are known by name, size, inode and
/// times; no file is read while it is being written: one that has changed is read when it has been
/// the same for one scan, and at the first scan if it is old enough.
#[derive(Debug)]
pub struct Directory {
    /// None: there are single files only.
    dir: Option<PathBuf>,
    beside: Vec<PathBuf>,
    files: BTreeMap<PathBuf, File>,
    unreadable: Vec<Problem>,
    /// What is not there any more, and counts still.
    kept: Vec<Problem>,
    scanned: bool,
    mounts: Mounts,
}

impl Directory {
    /// Manifests of `dir` and below, and those of `beside`.
    pub fn new(dir: &Path, beside: &[PathBuf]) -> Self {
        Self::of(Some(dir.to_owned()), beside)
    }

    /// Single files.
    pub fn files(files: &[PathBuf]) -> Self {
        Self::of(None, files)
    }

    fn of(dir: Option<PathBuf>, beside: &[PathBuf]) -> Self {
        let beside = beside.to_owned();
        let (unreadable, kept, mounts) = (Vec::new(), Vec::new(), Mounts::default());
        Self { dir, beside, files: BTreeMap::new(), unreadable, kept, scanned: false, mounts }
    }

    fn find(&mut self) -> Found {
        let is_known = |path: &Path| self.files.keys().any(|file| file.starts_with(path));
        let mut found = self.dir.as_deref().map(|dir| walk(dir, &is_known)).unwrap_or_default();
        let lacks = |dir: &Path| self.files.keys().any(|file| file.starts_with(dir) && !found.files.contains_key(file));
        let moved = self.mounts.moved(&found.directories, &lacks);
        found.bad.extend(moved);
        for path in &self.beside {
            match fs::metadata(path) {
                Ok(metadata) => {
                    found.files.insert(path.clone(), Stamp::of(&metadata));
                }
                Err(error) => found.bad.push((path.clone(), error.to_string())),
            }
        }
        found
    }

    /// Forgets files that are gone, but not while there is one of which nobody knows what it says:
    /// it may say the same. Whether that changes anything.
    fn forget(&mut self, found: &Found) -> bool {
        let is_below = |file: &Path| found.bad.iter().any(|(path, _)| file.starts_with(path));
        for (path, file) in &mut self.files {
            if !found.files.contains_key(path) {
                let missing = if is_below(path) { 0 } else { (file.missing + 1).min(MISSING_MAX) };
                file.is_stored &= missing == file.missing;
                file.missing = missing;
            }
        }
        let is_open = |file: &File| file.missing == 0 && !(file.is_settled && file.was_right);
        let open = self.files.iter().find(|(_, file)| is_open(file)).map(|(path, _)| shown(path));
        let count = self.files.len();
        let mut kept = Vec::new();
        if let Some(open) = open {
            let gone = self.files.iter().filter(|(_, file)| file.missing >= MISSING_MAX);
            let reason = format!("is not there any more; what it said stays until {open} is right");
            kept.extend(gone.map(|(path, _)| Origin::new(&shown(path), 0, "").warning("", &reason)));
        } else {
            self.files.retain(|_, file| file.missing < MISSING_MAX);
        }
        let changed = kept != self.kept || count != self.files.len();
        self.kept = kept;
        changed
    }
}

impl Source for Directory {
    /// Begins with what an earlier run knew of its files: what they say now are changes.
    fn load(&mut self, store: &mut Store, other: &str) {
        let is_file = |name: &&String| **name != other && !Store::is_of_cluster(name);
        let names: Vec<String> = store.names().filter(is_file).cloned().collect();
        for name in names {
            let Some(((path, mut file), is_of_this)) = store.read::<(Vec<u8>, File)>(&name) else { continue };
            let path = PathBuf::from(OsString::from_vec(path));
            // Another version may understand the same text otherwise.
            file.text = file.text.filter(|_| is_of_this);
            file.is_stored = true;
            self.files.insert(path, file);
        }
    }

    fn store(&mut self, store: &mut Store, names: &mut BTreeSet<String>) -> bool {
        let mut is_stored = true;
        for (path, file) in &mut self.files {
            let name = Store::name_of(path);
            if !file.is_stored {
                file.is_stored = store.write(&name, (path.as_os_str().as_bytes(), &*file));
                is_stored &= file.is_stored;
            }
            names.insert(name);
        }
        is_stored
    }

    /// Whether a file that is not there is about to be forgotten.
    fn is_forgetting(&self) -> bool {
        self.files.values().any(|file| file.missing > 0 && file.missing < MISSING_MAX)
    }

    /// Looks for changes; whether there are any. What cannot be read keeps its last good content.
    fn scan(&mut self) -> bool {
        let found = self.find();
        let now = SystemTime::now();
        let mut changed = false;
        let gone = self.files.values().filter(|file| file.missing > 0).flat_map(|file| &file.documents);
        let gone: ByKey = gone.map(|document| (document.key.clone(), document.clone())).collect();
        for (path, stamp) in &found.files {
            let file = self.files.entry(path.clone()).or_default();
            if std::mem::take(&mut file.missing) > 0 {
                (changed, file.is_stored) = (true, false);
            }
            file.is_settled = if self.scanned { file.seen == Some(*stamp) } else { stamp.is_older(now, SETTLED) };
            file.seen = Some(*stamp);
            if !file.is_settled {
                changed |= file.read_restless(path, *stamp, &gone);
                continue;
            }
            changed |= std::mem::take(&mut file.restless).problem.is_some();
            if file.read != Some(*stamp) {
                changed |= file.read(path, *stamp, &gone);
            }
        }
        self.scanned = true;
        changed |= self.forget(&found);
        let unreadable = found.bad.iter().map(|(path, reason)| Origin::new(&shown(path), 0, "").error("", reason));
        let unreadable: Vec<Problem> = unreadable.collect();
        changed |= unreadable != self.unreadable;
        self.unreadable = unreadable;
        changed
    }

    /// What a file that is not there any more said, one that is there may say by now. One that
    /// disputes it is not what has become of that file.
    fn documents_after(&self, is_disputed: &dyn Fn(&DocumentKey) -> bool) -> Vec<Document> {
        let files = || self.files.values().filter(|file| file.missing == 0);
        let there: HashSet<_> = files().flat_map(|file| &file.documents).map(|document| &document.key).collect();
        let gone = self.files.values().filter(|file| file.missing > 0).flat_map(|file| &file.documents);
        // (Of what may be any policy nobody knows whether it is the same.)
        let is_of_gone = |document: &&Document| {
            document.is_suspect() || !there.contains(&document.key) || is_disputed(&document.key)
        };
        let gone = gone.filter(is_of_gone);
        files().flat_map(|file| &file.documents).chain(gone).cloned().collect()
    }

    /// Whether there is something of which nobody knows what it says or said.
    fn is_blind(&self) -> bool {
        !self.unreadable.is_empty() || self.files.values().any(|file| !file.was_right)
    }

    /// Whether something that cannot be read may hold a policy of which nothing is known.
    fn may_hold_more(&self) -> bool {
        !self.unreadable.is_empty() || self.files.values().any(File::may_hold_more)
    }

    /// Files that may be being written: they are not read yet.
    fn unsettled(&self) -> Vec<PathBuf> {
        let files = self.files.iter().filter(|(_, file)| file.missing == 0 && !file.is_settled);
        files.map(|(path, _)| path.clone()).collect()
    }

    /// What is wrong with files as they are.
    fn problems(&self) -> Vec<Problem> {
        let files = self.files.values().flat_map(|file| file.problems.iter().chain(&file.restless.problem));
        self.unreadable.iter().chain(&self.kept).chain(files).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const GOOD: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";

    fn documents(directory: &Directory) -> Vec<Document> {
        directory.documents_after(&|_| false)
    }

    fn names(directory: &Directory) -> Vec<String> {
        documents(directory).iter().map(|document| document.meta.name.clone()).collect()
    }

    fn lines(directory: &Directory) -> Vec<String> {
        directory.problems().iter().map(ToString::to_string).collect()
    }

    /// A directory with these files, and what is in it.
    fn scene(files: &[(&str, &str)]) -> (tempfile::TempDir, Directory) {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        }
        let mut directory = Directory::new(dir.path(), &[]);
        directory.scan();
        directory.scan();
        (dir, directory)
    }

    #[test]
    fn a_file_that_is_wrong_keeps_what_it_said() {
        let (dir, mut directory) = scene(&[("a.yaml", GOOD), ("z.yaml", "kind: List\napiVersion: v1\nitems: []\n")]);
        let file = dir.path().join("a.yaml");
        assert!(!directory.scan());
        assert_eq!((names(&directory), lines(&directory)), (vec!["a".to_owned()], vec![]));

        fs::write(&file, format!("{GOOD}---\nkind: [\n")).expect("written");
        assert!(!directory.scan(), "it may be being written");
        assert!(directory.scan(), "now it is not");
        assert_eq!(names(&directory), ["a"]);
        let problems = lines(&directory);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with(&format!("{}:", file.display())), "{}", problems[0]);

        fs::write(&file, GOOD.replace("name: a", "name: b")).expect("written");
        assert!(!directory.scan() && directory.scan() && !directory.scan());
        assert_eq!((names(&directory), lines(&directory)), (vec!["b".to_owned()], vec![]));

        for text in ["", "# nothing\n", "---\n---\n"] {
            fs::write(&file, text).expect("written");
            assert!(!directory.scan() && directory.scan());
            assert_eq!(names(&directory), ["b"], "{text:?}");
            assert_eq!(lines(&directory), [format!("{}:1: empty; delete the file", file.display())]);
            assert!(!directory.is_blind());
        }

        fs::remove_file(&file).expect("removed");
        assert!(!directory.scan(), "it may have another name");
        assert_eq!(names(&directory), ["b"]);
        assert!(directory.scan());
        assert_eq!((names(&directory), lines(&directory)), (vec![], vec![]));
    }

    #[test]
    fn what_is_young_is_not_read_at_the_first_scan_and_the_empty_is_wrong() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("a.yaml"), "").expect("written");
        let mut directory = Directory::new(dir.path(), &[]);
        assert!(!directory.scan() && directory.is_blind());
        assert_eq!(directory.unsettled(), [dir.path().join("a.yaml")]);
        assert!(directory.scan() && directory.is_blind() && directory.unsettled().is_empty());
        assert_eq!(lines(&directory).len(), 1);
        std::thread::sleep(SETTLED + Duration::from_millis(20));
        let mut second = Directory::new(dir.path(), &[]);
        assert!(second.scan() && second.unsettled().is_empty());
    }

    #[test]
    fn a_file_with_another_name_says_the_same_all_the_time() {
        let (dir, mut directory) = scene(&[("a.yaml", GOOD)]);
        for (from, to) in [("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")] {
            fs::rename(dir.path().join(from), dir.path().join(to)).expect("renamed");
            for _ in 0..4 {
                directory.scan();
                assert_eq!((names(&directory), lines(&directory)), (vec!["a".to_owned()], vec![]));
            }
        }
        // Under another name it is wrong: what it said stays until it is right, and does not count
        // twice then.
        fs::rename(dir.path().join("a.yaml"), dir.path().join("b.yaml")).expect("renamed");
        fs::write(dir.path().join("c.yaml"), "kind: [").expect("written");
        for _ in 0..4 {
            directory.scan();
            assert_eq!(names(&directory), ["a"]);
        }
        let [name, open] = ["a.yaml", "c.yaml"].map(|name| dir.path().join(name).display().to_string());
        let expected = format!("{name}: is not there any more; what it said stays until {open} is right");
        assert!(lines(&directory).contains(&expected), "{:?}", lines(&directory));
        fs::remove_file(dir.path().join("c.yaml")).expect("removed");
        directory.scan();
        directory.scan();
        assert_eq!((names(&directory), lines(&directory)), (vec!["a".to_owned()], vec![]));
        assert_eq!(directory.files.len(), 1);
    }

    #[test]
    fn a_link_to_nothing_is_what_cannot_be_read_from_the_start_whatever_its_name() {
        for name in ["pol", "pol.d", "p.yaml", "README"] {
            let dir = tempfile::tempdir().expect("a directory");
            fs::write(dir.path().join("a.yaml"), GOOD).expect("written");
            symlink("nowhere", dir.path().join(name)).expect("linked");
            let mut directory = Directory::new(dir.path(), &[]);
            directory.scan();
            directory.scan();
            assert!(directory.is_blind() && lines(&directory)[0].ends_with("a link to nothing"), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_keeps_all() {
        let ignored = [("inner/ignored.txt", "x: ["), ("inner/.hidden.yaml", "x: [")];
        let (dir, mut directory) = scene(&[("inner/a.yaml", GOOD), ignored[0], ignored[1], ("b.yaml", GOOD)]);
        let (inner, away) = (dir.path().join("inner"), dir.path().join("away"));
        assert_eq!((documents(&directory).len(), lines(&directory).len()), (2, 0));

        // Not mounted: it is there, and nothing is in it.
        fs::rename(&inner, &away).expect("moved");
        fs::create_dir(&inner).expect("made");
        fs::rename(&away, dir.path().join(".away")).expect("moved");
        for _ in 0..3 {
            directory.scan();
            assert_eq!(documents(&directory).len(), 2);
            let expected =
                format!("{}: is empty, and had files: is something not mounted? They stay in force", inner.display());
            assert_eq!(lines(&directory), [expected]);
        }
        // A link to nothing, in place of the directory and of a file.
        fs::remove_dir(&inner).expect("removed");
        symlink("nowhere", &inner).expect("linked");
        fs::remove_file(dir.path().join("b.yaml")).expect("removed");
        symlink("nowhere", dir.path().join("b.yaml")).expect("linked");
        symlink("nowhere", dir.path().join("README")).expect("linked");
        for _ in 0..3 {
            directory.scan();
            assert_eq!(documents(&directory).len(), 2);
            assert!(directory.is_blind() && lines(&directory).len() == 3, "{:?}", lines(&directory));
        }
        // The whole is not there.
        let root = dir.path().to_owned();
        let elsewhere = root.with_extension("elsewhere");
        fs::rename(&root, &elsewhere).expect("moved");
        directory.scan();
        directory.scan();
        assert_eq!((documents(&directory).len(), lines(&directory).len()), (2, 1));
        fs::rename(&elsewhere, &root).expect("moved back");
    }
}
