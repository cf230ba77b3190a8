//! The log: its filter, and what became of its lines.

use super::statistics::Lines;
use crate::cli::Log;
use crate::client::Client;
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use vswitch_proto::v1;

pub(super) async fn ask(client: &Client, verb: &Log) -> Answer {
    let (filter, seconds) = match verb {
        Log::Show => {
            let answer = client.answer(client.logs().await?.get_log_filter(v1::GetLogFilterRequest {}).await)?;
            let lines = client.answer(client.statistics().await?.get_log(v1::GetLogRequest {}).await)?;
            let lines = Some(Lines(lines.log.unwrap_or_default()));
            return Ok(Box::new(Shown { filter: answer.filter.unwrap_or_default(), lines }));
        }
        Log::Set { filter, span } => (filter.clone(), span.unwrap_or(0)),
        Log::Reset => (String::new(), 0),
    };
    let request = v1::SetLogFilterRequest { filter, seconds };
    let answer = client.answer(client.logs().await?.set_log_filter(request).await)?;
    Ok(Box::new(Shown { filter: answer.filter.unwrap_or_default(), lines: None }))
}

/// The filter, and the counts of lines if they were asked for.
struct Shown {
    filter: v1::LogFilter,
    lines: Option<Lines>,
}

impl Report for Shown {
    fn text(&self) -> String {
        let v1::LogFilter { filter, configured, seconds_left } = &self.filter;
        let until = seconds_left.map(|left| format!(" for {left} s, then {configured}")).unwrap_or_default();
        let lines = self.lines.as_ref().map(Report::text).unwrap_or_default();
        format!("filter: {filter}{until}\n{lines}")
    }

    fn json(&self) -> Value {
        let v1::LogFilter { filter, configured, seconds_left } = &self.filter;
        let mut value = json!({ "filter": filter, "configured": configured, "seconds_left": seconds_left });
        if let Some(lines) = &self.lines {
            value["lines"] = lines.json();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let filter =
            v1::LogFilter { filter: "debug".to_owned(), configured: "info".to_owned(), seconds_left: Some(59) };
        let mut shown = Shown { filter, lines: None };
        assert_eq!(shown.text(), "filter: debug for 59 s, then info\n");
        assert_eq!(shown.json(), json!({ "filter": "debug", "configured": "info", "seconds_left": 59 }));
        shown.filter.seconds_left = None;
        shown.lines = Some(Lines(v1::LogState::default()));
        let text = shown.text();
        assert!(text.starts_with("filter: debug\nlost lines: error=0 ") && text.ends_with("reader: reads\n"), "{text}");
        assert_eq!((&shown.json()["seconds_left"], &shown.json()["lines"]["left_out"]), (&Value::Null, &json!(0)));
    }
}
