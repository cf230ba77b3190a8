//! Text to trees: events of the YAML parser, put together with their lines.

use super::tree::{Entry, Tree, Value, plain};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Nesting that no manifest comes near; deeper would cost stack.
const DEPTH_MAX: usize = 64;

/// Nodes of one file, those that aliases repeat included: a short file must not become a long one.
const NODES_MAX: usize = 2_000_000;

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
}

/// What the text of a document says of itself at the places where people write it; a guess.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// `apiVersion`.
    pub api: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Two of them are written, or two `metadata`: the object may be of another namespace.
    pub has_other_namespace: bool,
}

impl Words {
    fn of(text: &str) -> Self {
        let mut words = Self::default();
        let (mut in_metadata, mut has_metadata) = (false, false);
        for line in text.lines() {
            let is_top = !line.starts_with([' ', '\t', '-', '#', '}', ']']) && !line.is_empty();
            let begins = is_top && line.starts_with("metadata:");
            words.has_other_namespace |= begins && has_metadata;
            has_metadata |= begins;
            if is_top {
                in_metadata = begins;
            }
            let top = |key: &str| if is_top { word(line, key) } else { None };
            let below = |key: &str| if in_metadata { word(line, key) } else { None };
            for namespace in words_of(line, "namespace").filter(|_| in_metadata) {
                words.has_other_namespace |= !words.namespace.is_empty() && words.namespace != namespace;
                if words.namespace.is_empty() {
                    namespace.clone_into(&mut words.namespace);
                }
            }
            let found = [top("apiVersion"), top("kind"), below("name")];
            let fields = [&mut words.api, &mut words.kind, &mut words.name];
            for (field, found) in fields.into_iter().zip(found) {
                if let (true, Some(found)) = (field.is_empty(), found) {
                    found.clone_into(field);
                }
            }
        }
        words
    }
}

/// The word behind the first `key:` in a line.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    words_of(line, key).next()
}

/// The words behind each `key:` in a line.
fn words_of<'a>(line: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let colon = format!("{key}:");
    let places: Vec<usize> = line.match_indices(&colon).map(|(at, _)| at).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_key = move |at: &usize| !line[..*at].chars().next_back().is_some_and(is_part);
    let behind = places.into_iter().filter(is_key).map(move |at| {
        let rest = line[at + colon.len()..].trim_start().trim_start_matches(['\'', '"']);
        &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
    });
    behind.filter(|word| !word.is_empty())
}

/// The documents of a file, if all of them are YAML; empty ones are left out.
pub fn documents(text: &str) -> Result<Vec<Tree>, YamlError> {
    parts(text).into_iter().map(|part| part.map_err(|unread| unread.error)).collect()
}

/// The documents of a file, each by itself: one that is no YAML takes no other one with it. Empty ones are left out.
pub fn parts(text: &str) -> Vec<Result<Tree, Unread>> {
    let (mut parts, mut nodes) = (Vec::new(), 0);
    for (before, part) in split(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        match of_part(part, before, &mut nodes) {
            Ok(trees) => parts.extend(trees.into_iter().map(Ok)),
            Err(error) => parts.push(Err(Unread { error, words: Words::of(part) })),
        }
    }
    parts
}

/// Texts of documents and the number of lines before each. Neither a quoted text nor a block can hold the lines that divide documents.
fn split(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut begin, mut first, mut at) = (Vec::new(), 0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = |marker: &str| {
            line.strip_prefix(marker).is_some_and(|rest| rest.trim_start().len() < rest.len() || rest.is_empty())
        };
        let end = if is_marker("...") { at + line.len() } else { at };
        if is_marker("---") || is_marker("...") {
            parts.push((first, &text[begin..end]));
            (begin, first) = (end, number + usize::from(end > at));
        }
        at += line.len();
    }
    parts.push((first, &text[begin..]));
    let says_something =
        |part: &&str| part.lines().any(|line| !line.trim().is_empty() && !line.starts_with(['#', '%']));
    parts.retain(|(_, part)| says_something(part));
    parts
}

/// Documents of the text of one.
fn of_part(text: &str, before: usize, nodes: &mut usize) -> Result<Vec<Tree>, YamlError> {
    let parser = Parser::new_from_str(text);
    let mut builder = Builder { parser, before, anchors: BTreeMap::new(), nodes: *nodes };
    let result = builder.documents();
    *nodes = builder.nodes;
    result
}

impl Builder<'_> {
    fn documents(&mut self) -> Result<Vec<Tree>, YamlError> {
        let mut documents = Vec::new();
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(documents),
                (Event::DocumentStart(_), _) => {
                    self.anchors.clear();
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
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_ref(), line)?, anchor),
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.as_ref(), "seq", line)?;
                (Value::List(self.list(depth)?), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.as_ref(), "map", line)?;
                (Value::Map(self.map(depth)?), anchor)
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
        let mut keys = std::collections::BTreeSet::new();
        loop {
            let (event, span) = self.next()?;
            let line = self.before + span.start.line().max(1);
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(YamlError { line, reason: "a key that is no text".to_owned() }),
            };
            if !keys.insert(key.clone()) {
                return Err(YamlError { line, reason: format!("key {key:?} twice") });
            }
            let first = self.next()?;
            let value = self.tree(first, depth + 1)?;
            entries.push(Entry { key, line, value });
        }
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>, line: usize) -> Result<Value, YamlError> {
    if tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str") {
        return Ok(Value::Text(text.to_owned()));
    }
    refuse_tag(tag, "", line)?;
    Ok(if style == ScalarStyle::Plain { plain(text) } else { Value::Text(text.to_owned()) })
}

fn refuse_tag(tag: Option<&Cow<'_, Tag>>, good: &str, line: usize) -> Result<(), YamlError> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == good) => {
            Err(YamlError { line, reason: format!("tag {}{} means nothing here", tag.handle, tag.suffix) })
        }
        _ => Ok(()),
    }
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
