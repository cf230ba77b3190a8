//! One file of manifests: what it says, and what it said when that could be read.

use super::decode::decode;
use super::keep::{ByKey, keep, split};
use super::walk::Stamp;
use super::yaml;
use crate::kinds::{Document, DocumentBody, DocumentKey, understand, understand_unread};
use crate::problem::{Origin, Problem};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

/// Bytes of one file.
const FILE_LEN_MAX: u64 = 64 << 20;

/// Where files of the kernel are, of which some make a reader wait.
const KERNEL: [&str; 2] = ["/proc", "/sys"];

/// A file, and of a later run what the one before knew of it.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct File {
    /// When it was read.
    #[serde(skip)]
    pub(super) read: Option<Stamp>,
    /// As the last scan saw it.
    #[serde(skip)]
    pub(super) seen: Option<Stamp>,
    /// It is not being written.
    #[serde(skip)]
    pub(super) is_settled: bool,
    /// Scans since it was there.
    pub(super) missing: u32,
    /// What it says; of documents that are wrong now, what they said when they were right.
    pub(super) documents: Vec<Document>,
    /// Once it was known of each of its documents what it is about.
    pub(super) was_right: bool,
    /// A part of it that may be a policy cannot be read.
    pub(super) is_unsure: bool,
    /// What is wrong with it as it is.
    pub(super) problems: Vec<Problem>,
    /// Of the text that says all this; None: it is to be read again.
    pub(super) text: Option<u64>,
    /// What is stored of it is what it is.
    #[serde(skip)]
    pub(super) is_stored: bool,
    /// It changes at each scan.
    #[serde(skip)]
    pub(super) restless: Restless,
}

/// What is known of a file that is another one at each scan.
#[derive(Debug, Default)]
pub(super) struct Restless {
    /// Scans at which it was.
    pub(super) scans: u32,
    /// What it held at the last one.
    pub(super) bytes: Option<Vec<u8>>,
    /// A line that says so.
    pub(super) problem: Option<Problem>,
}

impl File {
    /// Reads it; whether that changes anything. `gone` is what files said that are not there any
    /// more: it may say the same.
    pub(super) fn read(&mut self, path: &Path, stamp: Stamp, gone: &ByKey) -> bool {
        match contents(path) {
            Ok(bytes) => {
                self.read = Some(stamp);
                self.take_bytes(path, &bytes, gone);
                true
            }
            Err(error) => {
                // What may be another time is tried again at the next scan.
                let is_lasting = [io::ErrorKind::InvalidData, io::ErrorKind::FileTooLarge].contains(&error.kind());
                self.read = is_lasting.then_some(stamp);
                let problems = vec![Origin::new(&shown(path), 0, "").error("", error.to_string())];
                let is_news = problems != self.problems;
                (self.problems, self.text) = (problems, None);
                self.is_stored &= !is_news;
                is_news
            }
        }
    }

    /// Takes over what bytes say; whether they are others than before. (The same, taken again,
    /// might be taken for something that is new.)
    pub(super) fn take_bytes(&mut self, path: &Path, bytes: &[u8], gone: &ByKey) -> bool {
        let hash = hash(bytes);
        if self.text == Some(hash) {
            return false;
        }
        (self.text, self.is_stored) = (Some(hash), false);
        let (name, (text, lost)) = (shown(path), decode(bytes));
        self.take(&name, &text, gone);
        let reason = "has bytes that are no UTF-8: a value with such bytes is wrong";
        self.problems.extend(lost.map(|line| Origin::new(&name, line, "").tolerated("", reason)));
        true
    }

    /// Takes over what a text says.
    pub(super) fn take(&mut self, name: &str, text: &str, gone: &ByKey) {
        let (mut trees, mut unread) = (Vec::new(), Vec::new());
        let (parts, unmarked) = yaml::read(text);
        for part in parts {
            match part {
                Ok(tree) => trees.push(tree),
                Err(part) => unread.push(part),
            }
        }
        if trees.is_empty() && unread.is_empty() {
            // Written and not filled yet, or cut off: nobody means that.
            self.problems = vec![Origin::new(name, 1, "").error("", "empty").hint("delete the file")];
            return;
        }
        let (mut documents, mut problems) = understand(name, trees);
        let seem: Vec<Vec<Document>> = unread.iter().map(|part| understand_unread(name, part)).collect();
        problems
            .extend(unread.into_iter().map(|part| Origin::new(name, part.error.line, "").error("", part.error.reason)));
        let reason = "is a document of its own, without `---` in front";
        problems.extend(unmarked.into_iter().map(|line| Origin::new(name, line, "").tolerated("", reason)));
        let (old, mut parts) = split(&self.documents);
        let wrong = self.documents.drain(..).filter(|old| !old.is_understood());
        let wrong: Vec<Document> = wrong.collect();
        let is_policy = |document: &Document| matches!(document.body, DocumentBody::WrongPolicy(_));
        let is_known = |seem: &Vec<Document>| !seem.is_empty() && !seem.iter().any(Document::may_be_any);
        let knows_all = seem.iter().all(is_known) && !documents.iter().any(Document::may_be_any);
        // What an unreadable part was is not known to be gone. A policy may be more than it was.
        self.is_unsure = !knows_all || seem.iter().flatten().any(|seem| is_policy(seem) && old.contains_key(&seem.key));
        let is_complete = knows_all && seem.is_empty() && documents.iter().all(Document::has_key);
        self.was_right |= knows_all;
        let is_news = |seem: &Document| old.get(&seem.key).is_none_or(|old| seem.is_in_doubt(old));
        documents.extend(seem.into_iter().flatten().filter(is_news));
        let keys: HashSet<DocumentKey> = documents.iter().map(|document| document.key.clone()).collect();
        // What may be a policy is the one that was here and is not found any more: that one stays.
        let is_lost = |old: &&Document| old.is_right_policy() && !keys.contains(&old.key);
        let suspects = documents.iter().filter(|document| document.is_suspect()).count();
        if suspects <= old.values().filter(is_lost).count() {
            documents.retain(|document| !document.is_suspect());
        }
        keep(&mut documents, |key| old.get(key).or_else(|| gone.get(key)), &mut parts);
        if is_complete {
            let (stay, told) = renamed(&documents, &old);
            documents.extend(stay);
            problems.extend(told);
        } else {
            documents.extend(old.into_values().filter(|old| !keys.contains(&old.key)));
        }
        if !knows_all {
            let stays = |old: &Document| match old.may_be_any() {
                true => old.is_suspect() && suspects == 0,
                false => !keys.contains(&old.key),
            };
            documents.extend(wrong.into_iter().filter(stays));
        }
        documents.retain(|document| !matches!(document.body, DocumentBody::LeftOut));
        (self.documents, self.problems) = (documents, problems);
    }

    /// Whether it may hold a policy of which nothing is known: it cannot be read, or is new and not
    /// read yet.
    pub(super) fn may_hold_more(&self) -> bool {
        self.missing == 0 && (self.is_unsure || !self.was_right)
    }
}

/// What a file said that may be there under another kind or namespace, which is not what anybody
/// meant: it stays, and policies select it in doubt.
fn renamed(documents: &[Document], old: &ByKey) -> (Vec<Document>, Vec<Problem>) {
    let (mut stay, mut told) = (Vec::new(), Vec::new());
    let keys: HashSet<&DocumentKey> = documents.iter().map(|document| &document.key).collect();
    let news: Vec<&Document> = documents.iter().filter(|document| !old.contains_key(&document.key)).collect();
    for old in old.values().filter(|old| !keys.contains(&old.key)) {
        let Some(new) = news.iter().find(|new| new.may_be(old)) else { continue };
        let reason = format!("may be {} of before, which stays as it was", old.origin.what);
        told.push(
            new.origin.error("", reason).hint("write its kind and namespace as before, or move it to another file"),
        );
        stay.extend(old.in_doubt(&new.origin));
        stay.push(old.clone());
    }
    (stay, told)
}

/// Whether two texts are one.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What a file holds. Only what answers at once is read: no read of a regular file waits for
/// somebody, but for those of the kernel (`/proc/kmsg`), and those of a mount whose server does not
/// answer.
pub(super) fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    let refused = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    if !metadata.is_file() {
        return refused("is no regular file".to_owned());
    }
    let real = fs::canonicalize(path)?;
    if KERNEL.iter().any(|kernel| real.starts_with(kernel)) {
        return refused(format!("is {}, a file of the kernel: not read", shown(&real)));
    }
    if metadata.len() > FILE_LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {FILE_LEN_MAX} bytes")));
    }
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
    const POLICY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\n";

    fn said(file: &File) -> Vec<(String, bool)> {
        let mut said: Vec<_> =
            file.documents.iter().map(|document| (document.key.1.clone(), document.is_understood())).collect();
        said.sort();
        said
    }

    #[test]
    fn what_cannot_be_read_now_is_tried_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.yaml");
        let stamp = Stamp::of(&fs::metadata(dir.path()).expect("there"));
        let (mut file, gone) = (File::default(), ByKey::new());
        assert!(file.read(&path, stamp, &gone) && !file.read(&path, stamp, &gone), "told once");
        assert_eq!((file.read, file.problems.len()), (None, 1));
        fs::write(&path, GOOD).expect("written");
        assert!(file.read(&path, stamp, &gone) && file.read == Some(stamp) && file.problems.is_empty());
        fs::write(&path, [0xff, 0xfe, 0xff]).expect("written");
        assert!(file.read(&path, stamp, &gone) && file.read == Some(stamp), "that will not be another time");
    }

    #[test]
    fn files_of_the_kernel_and_what_is_no_file_are_refused_by_name() {
        let dir = tempfile::tempdir().expect("a directory");
        for (i, end) in
            ["/proc/kmsg", "/proc/self/status", "/sys/kernel/uevent_seqnum", "/dev/null", "/"].iter().enumerate()
        {
            let path = dir.path().join(format!("{i}.yaml"));
            std::os::unix::fs::symlink(end, &path).expect("linked");
            let error = contents(&path).expect_err(end).to_string();
            assert!(
                error.contains(if i < 3 { "a file of the kernel" } else { "is no regular file" }),
                "{end}: {error}"
            );
        }
    }

    #[test]
    fn a_document_that_is_wrong_takes_no_other_one_with_it() {
        let mut file = File::default();
        let both = format!("{GOOD}---\n{}", GOOD.replace("name: a", "name: b"));
        let wrong = both.replacen("{name: b}", "{name: b, labels: 5}", 1).replacen("name: a", "name: c", 1);
        file.take("f", &wrong, &ByKey::new());
        assert_eq!(said(&file), [("b".to_owned(), false), ("c".to_owned(), true)]);
        assert!(file.was_right && !file.may_hold_more());
        file.take("f", &both, &ByKey::new());
        assert!(file.problems.is_empty());
        file.take("f", &wrong, &ByKey::new());
        let expected = [("b".to_owned(), false), ("b".to_owned(), true), ("c".to_owned(), true)];
        assert_eq!((said(&file), file.problems.len()), (expected.to_vec(), 1), "b is what it was, and in doubt");
        // What another file said that is not there any more.
        let gone = file.documents.iter().map(|document| (document.key.clone(), document.clone())).collect();
        let mut other = File::default();
        other.take("g", &wrong, &gone);
        assert_eq!(said(&other), expected);
    }

    #[test]
    fn a_part_that_is_no_yaml_is_what_its_text_says() {
        for (bad, is_blind, wrong) in [
            ("kind: [\n".to_owned(), true, 0),
            (format!("{POLICY}spec: [\n"), false, 1),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: [\n".to_owned(), false, 1),
            ("apiVersion: v1\nkind: List\nitems: [\n".to_owned(), true, 0),
        ] {
            let mut file = File::default();
            file.take("f", &format!("{GOOD}---\n{bad}"), &ByKey::new());
            assert_eq!((file.was_right, file.may_hold_more()), (!is_blind, is_blind), "{bad}");
            assert_eq!(said(&file).iter().filter(|(_, is_good)| !is_good).count(), wrong, "{bad}");
            assert!(said(&file).contains(&("a".to_owned(), true)) && file.problems.len() == 1, "{bad}");
        }
        let mut file = File::default();
        file.take("f", &format!("{GOOD}---\n{POLICY}spec: {{podSelector: {{}}}}\n"), &ByKey::new());
        file.take("f", &format!("{GOOD}---\n{POLICY}spec: {{podSelector: {{}}\n"), &ByKey::new());
        assert_eq!(said(&file), [("a".to_owned(), true), ("a/p".to_owned(), true)], "it stays");
        assert!(file.may_hold_more(), "and may be more now");
    }
}
