//! Lines that the log writes about itself, in the form of all others. They pass no filter: they say
//! what is missing.

use serde_json::{Map, Value};
use std::fmt::Write;
use tracing::Level;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// A line, its end included; as a JSON object, or as text.
pub(super) fn notice(
    as_json: bool,
    level: Level,
    target: &str,
    message: &str,
    fields: &[(&'static str, Value)],
) -> Vec<u8> {
    let mut time = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut time)); // a String takes all
    let mut line = if as_json {
        let mut object = Map::new();
        object.insert("timestamp".to_owned(), time.into());
        object.insert("level".to_owned(), level.as_str().into());
        object.insert("message".to_owned(), message.into());
        object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        object.insert("target".to_owned(), target.into());
        Value::Object(object).to_string()
    } else {
        let mut line = format!("{time} {level:>5} {target}: {message}");
        for (name, value) in fields {
            let _ = write!(line, " {name}={value}");
        }
        line
    };
    line.push('\n');
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let fields = [("left_out", 7.into()), ("rpc", "Add\n\"Port".into())];
        let text = notice(false, Level::WARN, "vswitchd::log", "as before", &fields);
        let text = String::from_utf8(text).expect("text");
        assert!(text.ends_with("  WARN vswitchd::log: as before left_out=7 rpc=\"Add\\n\\\"Port\"\n"), "{text}");
        let json = notice(true, Level::INFO, "vswitchd::log", "as before", &fields);
        assert_eq!(json.iter().filter(|byte| **byte == b'\n').count(), 1);
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!((&json["level"], &json["left_out"]), (&"INFO".into(), &7.into()));
        assert_eq!((&json["rpc"], &json["message"]), (&"Add\n\"Port".into(), &"as before".into()));
    }
}
