//! Options of zones.

use super::words;
use crate::client::Client;
use crate::output::{Answer, Done, Report};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

/// `ct-set-zone-options`.
pub(super) async fn set(client: &Client, words: &[String]) -> Answer {
    let request = words::zone_options(words)?;
    client.answer(client.conntrack().await?.set_zone_options(request).await)?;
    Ok(Box::new(Done))
}

/// `ct-get-zone-options`.
pub(super) async fn show(client: &Client, words: &[String]) -> Answer {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let request = v1::GetZoneOptionsRequest { zones: words::zones(&words)? };
    let answer = client.answer(client.conntrack().await?.get_zone_options(request).await)?;
    Ok(Box::new(Options(answer)))
}

/// A line for each zone: what ct-set-zone-options takes.
struct Options(v1::GetZoneOptionsResponse);

impl Report for Options {
    fn text(&self) -> String {
        let mut text = String::new();
        for zone in &self.0.zones {
            let on = zone.established_after_answer();
            let _ = writeln!(text, "zone={},established_after_answer={on}", zone.zone);
        }
        text
    }

    fn json(&self) -> Value {
        let zone = |zone: &v1::ZoneOptions| json!({ "zone": zone.zone, "established_after_answer": zone.established_after_answer() });
        self.0.zones.iter().map(zone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_both_ways() {
        let zone = |zone, on| v1::ZoneOptions { zone, established_after_answer: Some(on) };
        let options = Options(v1::GetZoneOptionsResponse { zones: vec![zone(5, true), zone(7, false)] });
        let text = options.text();
        assert_eq!(text, "zone=5,established_after_answer=true\nzone=7,established_after_answer=false\n");
        let want = json!([
            { "zone": 5, "established_after_answer": true }, { "zone": 7, "established_after_answer": false },
        ]);
        assert_eq!(options.json(), want);
        let again = |line: &str| words::zone_options(&[line.to_owned()]).expect("what is shown can be set").zones;
        assert_eq!(text.lines().flat_map(again).collect::<Vec<_>>(), options.0.zones);
    }
}
