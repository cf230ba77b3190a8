//! Text to trees: events of the YAML parser, put together with their lines.

use super::split::{split, without_markers};
use super::tree::{Entry, Tree, Value, WrongValue, plain};
use super::words::Words;
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Nesting that no manifest comes near; deeper would cost stack.
const DEPTH_MAX: usize = 64;

/// Nodes of one file, those that aliases repeat included: a short file must not become a long one.
const NODES_MAX: usize = 2_000_000;

/// What stands for bytes that are no UTF-8.
const NO_UTF8: char = char::REPLACEMENT_CHARACTER;

/// Fields by which a document says what it is.
const HEADS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Why a file is no YAML.
#[derive(Debug, PartialEq, Eq)]
pub struct YamlError {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// A document that is no YAML.
#[derive(Debug, PartialEq, Eq)]
pub struct Unread {
    /// Why.
    pub error: YamlError,
    /// What it seems to be all the same.
    pub words: Words,
    /// All of it.
    pub text: String,
}

/// The documents of a file, if all of them are YAML in which all values are some; empty ones are
/// left out.
pub fn documents(text: &str) -> Result<Vec<Tree>, YamlError> {
    let trees: Vec<Tree> = parts(text).into_iter().collect::<Result<_, _>>().map_err(|unread| unread.error)?;
    match trees.iter().find_map(Tree::first_wrong) {
        Some((line, reason)) => Err(YamlError { line, reason: reason.to_owned() }),
        None => Ok(trees),
    }
}

/// The documents of a file, each by itself: one that is no YAML takes no other one with it. Empty
/// ones are left out.
pub fn parts(text: &str) -> Vec<Result<Tree, Unread>> {
    read(text).0
}

/// The same, and lines of documents that have no `---` in front.
pub(super) fn read(text: &str) -> (Vec<Result<Tree, Unread>>, Vec<usize>) {
    let (mut parts, mut unmarked, mut nodes) = (Vec::new(), Vec::new(), 0);
    for (before, part) in split(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let begun = nodes;
        let (whole, repeats) = of_part(part, before, &mut nodes);
        let several = if whole.is_err() || repeats { without_markers(part) } else { Vec::new() };
        if several.len() < 2 {
            add(&mut parts, whole);
            continue;
        }
        nodes = begun;
        unmarked.extend(several.iter().skip(1).map(|(lines, _)| before + lines + 1));
        for (lines, part) in several {
            add(&mut parts, of_part(part, before + lines, &mut nodes).0);
        }
    }
    (parts, unmarked)
}

fn add(parts: &mut Vec<Result<Tree, Unread>>, part: Result<Vec<Tree>, Unread>) {
    match part {
        Ok(trees) => parts.extend(trees.into_iter().map(Ok)),
        Err(unread) => parts.push(Err(unread)),
    }
}

/// Documents of the text of one; and whether it says `apiVersion` or `kind` again.
fn of_part(text: &str, before: usize, nodes: &mut usize) -> (Result<Vec<Tree>, Unread>, bool) {
    let parser = Parser::new_from_str(text);
    let (heads, anchors) = (Vec::new(), BTreeMap::new());
    let mut builder = Builder { parser, before, anchors, nodes: *nodes, heads, repeats: false };
    let result = builder.documents();
    *nodes = builder.nodes;
    let heads = builder.heads;
    let unread = |error| Unread { error, words: Words::of_part(text, heads), text: text.to_owned() };
    (result.map_err(unread), builder.repeats)
}

impl Builder<'_> {
    fn documents(&mut self) -> Result<Vec<Tree>, YamlError> {
        let mut documents = Vec::new();
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(documents),
                (Event::DocumentStart(_), _) => {
                    self.anchors.clear();
                    self.heads.clear();
                    let first = self.next()?;
                    let tree = self.tree(first, 0)?;
                    if tree.value != Value::Null {
                        documents.push(tree);
                    }
                }
                _ => {}
            }
        }
    }
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Lines of the file before its text.
    before: usize,
    anchors: BTreeMap<usize, (Tree, usize)>,
    nodes: usize,
    /// What the document that is being read has said of what it is.
    heads: Vec<Entry>,
    /// A document says again what it is.
    repeats: bool,
}

type Spanned<'a> = (Event<'a>, Span);

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<Spanned<'a>, YamlError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let line = self.before + error.marker().line().max(1);
                Err(YamlError { line, reason: error.info().to_owned() })
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn count(&mut self, nodes: usize, line: usize) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            return Err(YamlError { line, reason: format!("more than {NODES_MAX} values in one file") });
        }
        Ok(())
    }

    fn tree(&mut self, (event, span): Spanned<'a>, depth: usize) -> Result<Tree, YamlError> {
        let line = self.before + span.start.line().max(1);
        if depth > DEPTH_MAX {
            return Err(YamlError { line, reason: format!("nested deeper than {DEPTH_MAX}") });
        }
        let before = self.nodes;
        self.count(1, line)?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_ref(), line), anchor),
            Event::SequenceStart(anchor, tag) => {
                let list = Value::List(self.list(depth)?);
                (tagged(list, tag.as_ref(), "seq", line), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                let map = Value::Map(self.map(depth)?);
                (tagged(map, tag.as_ref(), "map", line), anchor)
            }
            Event::Alias(anchor) => {
                let Some((tree, nodes)) = self.anchors.get(&anchor).cloned() else {
                    return Err(YamlError { line, reason: "an alias within its own anchor".to_owned() });
                };
                self.count(nodes, line)?;
                return Ok(Tree { line, value: tree.value });
            }
            _ => return Err(YamlError { line, reason: "the document ends in the middle of a value".to_owned() }),
        };
        let tree = Tree { line, value };
        if anchor > 0 {
            self.anchors.insert(anchor, (tree.clone(), self.nodes - before));
        }
        Ok(tree)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Tree>, YamlError> {
        let mut list = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(list),
                event => list.push(self.tree(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, YamlError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places = BTreeMap::new();
        loop {
            let (event, span) = self.next()?;
            let line = self.before + span.start.line().max(1);
            let key = match event {
                Event::MappingEnd => return Ok(merged(entries)),
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(YamlError { line, reason: "a key that is no text".to_owned() }),
            };
            let first = self.next()?;
            let mut value = self.tree(first, depth + 1)?;
            if key.contains(NO_UTF8) {
                value = Tree { line, value: wrong("has a key with bytes that are no UTF-8".to_owned(), vec![value]) };
            }
            self.head(depth, &key, line, &value);
            match places.get(&key).copied() {
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push(Entry { key, line, value });
                }
                Some(place) => {
                    let first: &mut Entry = &mut entries[place];
                    if !first.value.or(Tree { line, ..value }) {
                        return Err(YamlError { line, reason: format!("key {key:?} again and again") });
                    }
                }
            }
        }
    }

    /// Takes note of what a document says it is.
    fn head(&mut self, depth: usize, key: &str, line: usize, value: &Tree) {
        if depth == 0 && HEADS.contains(&key) {
            self.repeats |= key != HEADS[2] && self.heads.iter().any(|head| head.key == key);
            self.heads.push(Entry { key: key.to_owned(), line, value: value.clone() });
        }
    }
}

/// A map with what its key `<<` names, which `kubectl` reads: entries of a map or of several that
/// it does not have itself (YAML 1.1, type `merge`). What is no such map stays an entry.
fn merged(mut entries: Vec<Entry>) -> Vec<Entry> {
    let is_map = |tree: &Tree| matches!(tree.value, Value::Map(_));
    let is_merge = |entry: &Entry| {
        entry.key == "<<"
            && match &entry.value.value {
                Value::Map(_) => true,
                Value::List(list) => !list.is_empty() && list.iter().all(is_map),
                _ => false,
            }
    };
    let Some(at) = entries.iter().position(is_merge) else { return entries };
    let sources = match entries.remove(at).value.value {
        Value::List(list) => list.into_iter().map(|tree| tree.value).collect(),
        map => vec![map],
    };
    for source in sources {
        let Value::Map(more) = source else { continue };
        for entry in more {
            if entries.iter().all(|known| known.key != entry.key) {
                entries.push(entry);
            }
        }
    }
    entries
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>, line: usize) -> Value {
    if text.contains(NO_UTF8) {
        let reason = "has bytes that are no UTF-8".to_owned();
        return Value::Wrong(Box::new(WrongValue { reason, values: Vec::new(), text: text.to_owned() }));
    }
    if tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str") {
        return Value::Text(text.to_owned());
    }
    let value = if style == ScalarStyle::Plain { plain(text) } else { Value::Text(text.to_owned()) };
    tagged(value, tag, "", line)
}

/// A value, if its tag is none but the usual one.
fn tagged(value: Value, tag: Option<&Cow<'_, Tag>>, good: &str, line: usize) -> Value {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == good) => {
            let reason = format!("tag {}{} means nothing here", tag.handle, tag.suffix);
            wrong(reason, vec![Tree { line, value }])
        }
        _ => value,
    }
}

fn wrong(reason: String, values: Vec<Tree>) -> Value {
    Value::Wrong(Box::new(WrongValue { reason, values, text: String::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_know_their_lines() {
        let trees = documents("# nothing\n---\na: 1\nb:\n  - x: true\n---\n---\n\nc: 'y'\n").expect("it is YAML");
        assert_eq!(trees.len(), 2, "an empty document is none");
        assert_eq!(trees[0].line, 3);
        let Value::List(list) = &trees[0].get("b").expect("b").value else { panic!("a sequence") };
        assert_eq!((list[0].line, list[0].get("x").map(|x| &x.value)), (5, Some(&Value::Bool(true))));
        assert_eq!((trees[1].line, trees[1].get("c").and_then(Tree::text)), (9, Some("y")));
    }

    #[test]
    fn a_document_that_is_no_yaml_takes_no_other_one_with_it() {
        let bad = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: b}\nspec: [\n";
        let text = format!(
            "%YAML 1.2\n--- # first\na: |\n  x\n   ---\n--- {{b: 1}}\n---\n{bad}---\n# nothing\n...\nc: '---'\n"
        );
        let parts = parts(&text);
        let trees: Vec<_> = parts.iter().filter_map(|part| part.as_ref().ok()).collect();
        let lines = [("a", 3), ("b", 6), ("c", 15)].map(|(key, line)| (Some(key), line));
        let key = |tree: &&Tree| match &tree.value {
            Value::Map(entries) => entries.first().map(|entry| (entry.key.clone(), entry.line)),
            _ => None,
        };
        let found: Vec<_> = trees.iter().filter_map(key).collect();
        assert_eq!(found.iter().map(|(key, line)| (Some(key.as_str()), *line)).collect::<Vec<_>>(), lines);
        let unread: Vec<_> = parts.iter().filter_map(|part| part.as_ref().err()).collect();
        assert_eq!(unread.len(), 1);
        assert!((8..=12).contains(&unread[0].error.line), "{unread:?}");
        let words = &unread[0].words;
        assert_eq!(
            [&words.api, &words.kind, &words.namespace, &words.name].map(String::as_str),
            ["networking.k8s.io/v1", "NetworkPolicy", "b", "p"]
        );
        let text = "kind: Pod\nmetadata:\n  labels: {x: y}\n  name: 'a'\nspec: {namespace: other, x\n";
        let words = Words::of(text);
        assert_eq!((words.kind.as_str(), words.name.as_str(), words.namespace.as_str()), ("Pod", "a", ""));
    }

    #[test]
    fn a_map_has_what_its_merge_key_names_and_it_does_not_say_itself() {
        let one = |text: &str| documents(text).expect("right").remove(0);
        let plain = one("a: {x: 1, y: 2}\nb: {x: 1, y: 3, z: 4}\nc: {w: 5, x: 1, y: 2}\n");
        let merged = one("a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4, <<: *a}\nc: {w: 5, <<: [*a, *b], }\n");
        let value = |tree: &Tree, path: &[&str]| tree.all(path)[0].value.clone();
        for path in [["b", "x"], ["b", "y"], ["b", "z"], ["c", "w"], ["c", "x"], ["c", "y"]] {
            assert_eq!(value(&merged, &path), value(&plain, &path), "{path:?}");
        }
        assert_eq!(value(&merged, &["c", "z"]), value(&plain, &["b", "z"]));
        assert!(merged.all(&["b", "<<"]).is_empty());
        for text in ["a: {<<: 5}\n", "a: {<<: [5]}\n", "a: {<<: []}\n"] {
            assert_eq!(one(text).all(&["a", "<<"]).len(), 1, "{text}");
        }
    }

    #[test]
    fn anchors_are_copies_and_do_not_explode() {
        let trees = documents("a: &x {k: 1}\nb: *x\n").expect("it is YAML");
        assert_eq!(trees[0].at(&["b", "k"]).map(|k| &k.value), Some(&Value::Int(1)));
        let mut bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for i in 1..12 {
            let item = format!("*a{}", i - 1);
            bomb += &format!("a{i}: &a{i} [{}]\n", vec![item; 10].join(", "));
        }
        let error = documents(&bomb).expect_err("a bomb");
        assert!(error.reason.contains("more than"), "{error:?}");
    }

    #[test]
    fn what_is_no_yaml_names_its_line() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: [1\n", 2),
            ("a:\n  b: 1\n c: 2\n", 3),
            ("a: !!binary x\n", 1),
            ("? [a]\n: 1\n", 1),
        ] {
            let error = documents(text).expect_err(text);
            assert!(error.line.abs_diff(line) <= 1, "{text:?}: {error:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(documents(&deep).is_err());
    }
}
