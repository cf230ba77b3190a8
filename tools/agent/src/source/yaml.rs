//! Text to trees: events of the YAML parser, put together with their lines.

use super::tree::{Entry, Tree, Value, plain};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
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

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self { line: error.marker().line().max(1), reason: error.info().to_owned() }
    }
}

/// The documents of a file; empty ones are left out.
pub fn documents(text: &str) -> Result<Vec<Tree>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder { parser: Parser::new_from_str(text), anchors: BTreeMap::new(), nodes: 0 };
    let mut documents = Vec::new();
    loop {
        match builder.next()? {
            (Event::StreamEnd, _) => return Ok(documents),
            (Event::DocumentStart(_), _) => {
                builder.anchors.clear();
                let first = builder.next()?;
                let tree = builder.tree(first, 0)?;
                if tree.value != Value::Null {
                    documents.push(tree);
                }
            }
            _ => {}
        }
    }
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, (Tree, usize)>,
    nodes: usize,
}

type Spanned<'a> = (Event<'a>, Span);

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<Spanned<'a>, YamlError> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
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
        let line = span.start.line().max(1);
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
            let line = span.start.line().max(1);
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
