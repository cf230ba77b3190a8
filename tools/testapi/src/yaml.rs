//! YAML to JSON, for manifests that tests and the command line load. No anchors, no tags.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Nesting that no manifest comes near.
const DEPTH: usize = 100;

/// The documents of a text; empty ones are left out.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut reader = Reader(Parser::new_from_str(text));
    let mut documents = Vec::new();
    loop {
        match reader.next()? {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(_) => {
                let first = reader.next()?;
                let document = reader.value(first, 0)?;
                if !document.is_null() {
                    documents.push(document);
                }
            }
            _ => {}
        }
    }
}

struct Reader<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.0.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(format!("line {}: {}", error.marker().line(), error.info())),
            None => Ok(Event::StreamEnd),
        }
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, String> {
        if depth > DEPTH {
            return Err(format!("nested deeper than {DEPTH}"));
        }
        match event {
            Event::Scalar(text, style, ..) => Ok(scalar(&text, style)),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => return Ok(Value::Array(items)),
                        event => items.push(self.value(event, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut map = Map::new();
                loop {
                    let key: Cow<'a, str> = match self.next()? {
                        Event::MappingEnd => return Ok(Value::Object(map)),
                        Event::Scalar(key, ..) => key,
                        _ => return Err("a key that is no text".to_owned()),
                    };
                    let first = self.next()?;
                    let value = self.value(first, depth + 1)?;
                    if map.insert(key.clone().into_owned(), value).is_some() {
                        return Err(format!("key {key:?} twice"));
                    }
                }
            }
            _ => Err("anchors and unfinished values are not read".to_owned()),
        }
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::from(text);
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let numeric = digits.starts_with(|c: char| c.is_ascii_digit());
            let number = text.strip_prefix('+').unwrap_or(text);
            match (number.parse::<i64>(), number.parse::<f64>()) {
                (Ok(whole), _) if numeric => Value::from(whole),
                (_, Ok(float)) if numeric => Value::from(float),
                _ => Value::from(text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_become_json() {
        let text = "a: 1\nb: [x, \"2\", 2.5, -3, ~, true, 1.2.3.4, 'no']\n---\n---\nc:\n  d: |\n    text\n  e: {}\n";
        let wanted = [
            json!({ "a": 1, "b": ["x", "2", 2.5, -3, null, true, "1.2.3.4", "no"] }),
            json!({ "c": { "d": "text\n", "e": {} } }),
        ];
        assert_eq!(documents(text).unwrap(), wanted);
        assert!(documents("a: 1\na: 2").is_err());
        assert!(documents("a: [").is_err());
    }
}
