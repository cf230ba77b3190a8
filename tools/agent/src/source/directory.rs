//! A directory of manifests: what its files say, as long as they can be read.

use super::yaml::documents;
use crate::kinds::{Document, understand};
use crate::problem::{Origin, Problem};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of one file.
const FILE_LEN_MAX: u64 = 64 << 20;

/// Directories within each other; links in a circle end here.
const DEPTH_MAX: usize = 8;

/// Manifests of a directory, and single files beside it. Files are known by name, size, inode and times; no file is read while it is being written: one that has
/// changed is read when it has been the same for one scan.
#[derive(Debug)]
pub struct Directory {
    dir: PathBuf,
    beside: Vec<PathBuf>,
    files: BTreeMap<PathBuf, File>,
    unreadable: Vec<Problem>,
    scanned: bool,
}

#[derive(Debug, Default)]
struct File {
    /// When it was read.
    read: Option<Stamp>,
    /// As the last scan saw it.
    seen: Option<Stamp>,
    /// What it said when it was last right.
    good: Vec<Document>,
    /// It was right once.
    was_right: bool,
    /// What is wrong with it as it is.
    problems: Vec<Problem>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    len: u64,
    inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            len: metadata.len(),
            inode: metadata.ino(),
        }
    }
}

impl Directory {
    /// Manifests of `dir` and below, and those of `beside`.
    pub fn new(dir: &Path, beside: &[PathBuf]) -> Self {
        let (dir, beside) = (dir.to_owned(), beside.to_owned());
        Self { dir, beside, files: BTreeMap::new(), unreadable: Vec::new(), scanned: false }
    }

    /// Looks for changes; whether there are any. What cannot be read keeps its last good content.
    pub fn scan(&mut self) -> bool {
        let mut found = BTreeMap::new();
        let mut unreadable = Vec::new();
        walk(&self.dir, DEPTH_MAX, &mut found, &mut unreadable);
        for path in &self.beside {
            match fs::metadata(path) {
                Ok(metadata) => {
                    found.insert(path.clone(), Stamp::of(&metadata));
                }
                Err(error) => unreadable.push((path.clone(), error)),
            }
        }
        let is_below = |file: &Path| unreadable.iter().any(|(path, _)| file.starts_with(path));
        let before = self.files.len();
        self.files.retain(|path, _| found.contains_key(path) || is_below(path));
        let mut changed = before != self.files.len();
        for (path, stamp) in found {
            let file = self.files.entry(path.clone()).or_default();
            let is_settled = !self.scanned || file.seen == Some(stamp);
            file.seen = Some(stamp);
            if is_settled && file.read != Some(stamp) {
                file.read = Some(stamp);
                read(&path, file);
                changed = true;
            }
        }
        self.scanned = true;
        let unreadable: Vec<_> = unreadable
            .iter()
            .map(|(path, error)| Origin::new(&shown(path), 0, "").error("", error.to_string()))
            .collect();
        changed |= unreadable != self.unreadable;
        self.unreadable = unreadable;
        changed
    }

    /// Documents in force.
    pub fn documents(&self) -> Vec<Document> {
        self.files.values().flat_map(|file| file.good.iter().cloned()).collect()
    }

    /// Whether something is wrong of which nobody knows what it said when it was right.
    pub fn is_blind(&self) -> bool {
        !self.unreadable.is_empty() || self.files.values().any(|file| !file.was_right)
    }

    /// What is wrong with files as they are.
    pub fn problems(&self) -> Vec<Problem> {
        self.unreadable.iter().chain(self.files.values().flat_map(|file| &file.problems)).cloned().collect()
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn walk(dir: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Stamp>, bad: &mut Vec<(PathBuf, io::Error)>) {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return bad.push((dir.to_owned(), error)),
    };
    for entry in entries {
        let path = match entry {
            Ok(entry) => entry.path(),
            Err(error) => return bad.push((dir.to_owned(), error)),
        };
        if path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        let is_manifest = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() && depth > 0 => walk(&path, depth - 1, found, bad),
            Ok(metadata) if metadata.is_file() && is_manifest => {
                found.insert(path, Stamp::of(&metadata));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {} // it went meanwhile
            Err(error) => bad.push((path, error)),
        }
    }
}

fn read(path: &Path, file: &mut File) {
    let name = shown(path);
    match contents(path).map_err(|error| Origin::new(&name, 0, "").error("", error.to_string())) {
        Ok(text) => {
            let (documents, problems) = file_documents(&name, &text);
            if problems.is_empty() {
                file.good = documents;
                file.was_right = true;
            }
            file.problems = problems;
        }
        Err(problem) => file.problems = vec![problem],
    }
}

fn contents(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_LEN_MAX {
        return Err(io::Error::other(format!("longer than {FILE_LEN_MAX} bytes")));
    }
    fs::read_to_string(path)
}

/// What the text of a file says, and what is wrong with it.
fn file_documents(name: &str, text: &str) -> (Vec<Document>, Vec<Problem>) {
    match documents(text) {
        Ok(trees) => understand(name, trees),
        Err(error) => (Vec::new(), vec![Origin::new(name, error.line, "").error("", error.reason)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";

    fn names(directory: &Directory) -> Vec<String> {
        directory.documents().iter().map(|document| document.meta.name.clone()).collect()
    }

    #[test]
    fn a_file_that_is_wrong_keeps_what_it_said() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("a.yaml");
        fs::write(&file, GOOD).expect("written");
        let mut directory = Directory::new(dir.path(), &[]);
        assert!(directory.scan() && !directory.scan());
        assert_eq!((names(&directory), directory.problems()), (vec!["a".to_owned()], vec![]));

        fs::write(&file, format!("{GOOD}---\nkind: [\n")).expect("written");
        assert!(!directory.scan(), "it may be being written");
        assert!(directory.scan(), "now it is not");
        assert_eq!(names(&directory), ["a"]);
        let problems = directory.problems();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().starts_with(&format!("{}:", file.display())), "{}", problems[0]);

        fs::write(&file, GOOD.replace("name: a", "name: b")).expect("written");
        assert!(!directory.scan() && directory.scan() && !directory.scan());
        assert_eq!((names(&directory), directory.problems()), (vec!["b".to_owned()], vec![]));

        fs::remove_file(&file).expect("removed");
        assert!(directory.scan());
        assert_eq!(names(&directory), [""; 0]);
    }

    #[test]
    fn a_directory_that_cannot_be_read_keeps_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).expect("made");
        fs::write(inner.join("a.yaml"), GOOD).expect("written");
        fs::write(inner.join("ignored.txt"), "x: [").expect("written");
        fs::write(inner.join(".hidden.yaml"), "x: [").expect("written");
        let mut directory = Directory::new(&inner, &[]);
        assert!(directory.scan());
        assert_eq!((names(&directory), directory.problems().len()), (vec!["a".to_owned()], 0));
        fs::rename(&inner, dir.path().join("away")).expect("moved");
        assert!(directory.scan());
        assert_eq!((names(&directory), directory.problems().len()), (vec!["a".to_owned()], 1));
    }
}
