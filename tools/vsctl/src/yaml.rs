//! JSON values as YAML 1.2.
//!
//! **Where in the walk.** Last: what a verb writes as JSON passes through `Documents` with
//! `--output yaml`.
//!
//! **Design.** Each JSON value becomes a document in block style. Strings that could be read as
//! something else are quoted as in JSON, which YAML reads alike.
//!
//! **Limits.** `Documents` holds one value at a time, whole.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write};

/// A writer of JSON values, one after the other, that become documents of YAML.
pub(crate) struct Documents<'a> {
    out: &'a mut dyn Write,
    pending: Vec<u8>,
}

impl<'a> Documents<'a> {
    /// To this writer.
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, pending: Vec::new() }
    }
}

impl Write for Documents<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Writes the values that are whole; every answer and every line of a stream ends with a flush.
    fn flush(&mut self) -> io::Result<()> {
        let mut values = serde_json::Deserializer::from_slice(&self.pending).into_iter::<Value>();
        let mut end = 0;
        while let Some(Ok(value)) = values.next() {
            end = values.byte_offset();
            self.out.write_all(document(&value).as_bytes())?;
        }
        self.pending.drain(..end);
        self.out.flush()
    }
}

/// A document with its mark.
pub(crate) fn document(value: &Value) -> String {
    let mut text = "---".to_owned();
    inner(value, 0, &mut text);
    text
}

/// What follows a mark, a key or a dash, to the end of its last line.
fn inner(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(pairs) if !pairs.is_empty() => {
            text.push('\n');
            for (key, value) in pairs {
                pair(key, value, indent, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            for value in items {
                item(value, indent, text);
            }
        }
        other => {
            let _ = writeln!(text, " {}", scalar(other));
        }
    }
}

fn pair(key: &str, value: &Value, indent: usize, text: &mut String) {
    let _ = write!(text, "{:indent$}{}:", "", string(key));
    inner(value, indent + 2, text);
}

fn item(value: &Value, indent: usize, text: &mut String) {
    let _ = write!(text, "{:indent$}-", "");
    let mut nested = String::new();
    inner(value, indent + 2, &mut nested);
    // The first line of what is nested stands behind the dash.
    match nested.strip_prefix('\n') {
        Some(lines) => {
            let _ = write!(text, " {}", lines.trim_start_matches(' '));
        }
        None => text.push_str(&nested),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        other => other.to_string(),
    }
}

/// Words that YAML, or YAML 1.1, reads as something else than a string.
const RESERVED: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "n"];

fn string(text: &str) -> String {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
    let lower = text.to_ascii_lowercase();
    if first && plain && lower != "y" && !RESERVED.contains(&lower.as_str()) {
        return text.to_owned();
    }
    let quoted = Value::from(text).to_string();
    // What YAML does not take as it is.
    let strange = |letter: char| {
        letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    quoted.chars().fold(String::new(), |mut escaped, letter| {
        if strange(letter) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(letter));
        } else {
            escaped.push(letter);
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_blocks() {
        let value = json!([
            { "name": "br0", "ports": [{ "n": 1, "link": true }, { "n": 2.5, "link": null }], "ids": {}, "list": [] },
            ["a", ["b"]],
            "no", "1", "a: b", "", "x\u{1b}\u{85}\"",
        ]);
        let want = "\
---
- name: br0
  ports:
    - \"n\": 1
      link: true
    - \"n\": 2.5
      link: null
  ids: {}
  list: []
- - a
  - - b
- \"no\"
- \"1\"
- \"a: b\"
- \"\"
- \"x\\u001b\\u0085\\\"\"
";
        assert_eq!(document(&value), want);
        assert_eq!(document(&json!({ "ok": true })), "---\nok: true\n");
        assert_eq!(document(&json!([])), "--- []\n");
    }

    #[test]
    fn a_stream_is_a_document_per_value_as_soon_as_it_is_whole() {
        let mut out = Vec::new();
        let mut documents = Documents::new(&mut out);
        documents.write_all(b"{\"a\":1}\n{\"b\"").expect("written");
        documents.flush().expect("flushed");
        assert_eq!(documents.pending, b"\n{\"b\"");
        documents.write_all(b":[2]}\n").expect("written");
        documents.flush().expect("flushed");
        drop(documents);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), "---\na: 1\n---\nb:\n  - 2\n");
    }
}
