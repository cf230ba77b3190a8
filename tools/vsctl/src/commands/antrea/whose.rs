//! Whose a flow, a cookie or a rule's number is.

use super::super::port::usage;
use super::listing::cells;
use super::words::{ISOLATION, cookie, object, or_none, some};
use crate::cli::kind_word;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Columns, Report};
use clap::error::ErrorKind;
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::find_objects_request::Flow;

/// `whose`.
pub(super) async fn show(client: &Client, text: &str) -> Answer {
    let asked = asked(text)?;
    let request = v1::FindObjectsRequest { flow: Some(asked.clone()) };
    let found = client.answer(client.antrea_sync().await?.find_objects(request).await)?;
    Ok(Box::new(Whose { asked, found }))
}

/// What a text means: a number of a rule, a cookie, else a flow.
fn asked(text: &str) -> Result<Flow, Error> {
    // Lines of `vsctl antrea flows` have their purpose behind a #.
    let text = text.split(" #").next().unwrap_or_default().trim();
    let wrong = |message: String| usage(ErrorKind::ValueValidation, message);
    if text.is_empty() {
        let message = "give a flow as dumped, a cookie such as 0x1008000000005, or a rule's number (conj_id)";
        return Err(wrong(message.to_owned()));
    }
    let is_alone = |text: &str| !text.contains([',', ' ', '=']);
    if let Some(value) =
        text.strip_prefix("cookie=").or(Some(text)).filter(|value| value.starts_with("0x") && is_alone(value))
    {
        let digits = value.trim_start_matches("0x");
        let read = u64::from_str_radix(digits, 16);
        return read
            .map(Flow::Cookie)
            .map_err(|_| wrong(format!("{value:?} is no cookie; give at most 16 hexadecimal digits behind 0x")));
    }
    let number = text.strip_prefix("conj_id=").unwrap_or(text);
    if number.bytes().all(|byte| byte.is_ascii_digit()) {
        let read = number.parse().map(Flow::RuleNumber);
        return read.map_err(|_| {
            wrong(format!("{number} is no rule's number, which has 32 bits; cookies are given as 0x..."))
        });
    }
    if is_alone(text) && !matches!(text, "ip" | "ipv6" | "arp" | "tcp" | "udp" | "sctp" | "icmp") {
        let message = format!(
            "{text:?} is no flow, cookie or number; give a flow as dumped (table=Output,priority=200,ip), 0x... or the number of a rule"
        );
        return Err(wrong(message));
    }
    // Only table, priority and match count; but a flow has actions.
    let actions = if text.contains("actions=") { "" } else { " actions=drop" };
    Ok(Flow::Line(format!("{text}{actions}")))
}

struct Whose {
    asked: Flow,
    found: v1::FindObjectsResponse,
}

const COLUMNS: Columns<'_> = &[("OBJECT", false), ("RULE", false), ("NUMBER", true)];

impl Whose {
    /// Objects, but for policies of which rules are told.
    fn objects(&self) -> impl Iterator<Item = &v1::ObjectRef> {
        let has_rules = |object: &v1::ObjectRef| {
            object.kind() == v1::Kind::NetworkPolicy && self.found.rules.iter().any(|rule| rule.policy == object.name)
        };
        self.found.objects.iter().filter(move |object| !has_rules(object))
    }

    fn nobody(&self) -> String {
        match &self.asked {
            Flow::Line(_) => "nobody's: not a flow of Antrea's, or one of the tables' own\n".to_owned(),
            Flow::Cookie(number) => {
                let cookie = cookie(*number);
                format!(
                    "nobody's: no object has the cookie {cookie}; flows that several share have one of no object: give the flow itself\n"
                )
            }
            Flow::RuleNumber(number) => {
                format!("nobody's: no rule has the number {number}; `vsctl antrea rules` lists them\n")
            }
        }
    }
}

impl Report for Whose {
    fn text(&self) -> String {
        if self.found.objects.is_empty() && self.found.rules.is_empty() {
            return self.nobody();
        }
        let objects = self.objects().map(|told| vec![object(told), String::new(), String::new()]);
        let policy = kind_word(v1::Kind::NetworkPolicy);
        let rule = |rule: &v1::RuleRef| {
            let id = if rule.rule.is_empty() { ISOLATION.to_owned() } else { rule.rule.clone() };
            vec![format!("{policy}/{}", rule.policy), id, or_none(rule.number)]
        };
        cells(COLUMNS, objects.chain(self.found.rules.iter().map(rule)))
    }

    fn json(&self) -> Value {
        let rule = |rule: &v1::RuleRef| json!({ "policy": rule.policy, "rule": some(rule.rule.clone()), "number": some(rule.number) });
        json!({
            "objects": self.found.objects.iter().map(object).collect::<Vec<_>>(),
            "rules": self.found.rules.iter().map(rule).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cookies_and_numbers_are_told_apart() {
        let line = |text: &str| Flow::Line(text.to_owned());
        for (text, want) in [
            ("0x1008000000005", Flow::Cookie(0x1_0080_0000_0005)),
            ("cookie=0x10", Flow::Cookie(16)),
            ("7", Flow::RuleNumber(7)),
            (" conj_id=7 ", Flow::RuleNumber(7)),
            ("ip", line("ip actions=drop")),
            ("table=Output,priority=200,ip", line("table=Output,priority=200,ip actions=drop")),
            (
                " cookie=0x10, table=4, ip actions=output:1  # the Pod; shared",
                line("cookie=0x10, table=4, ip actions=output:1"),
            ),
            ("cookie=0x10,table=4", line("cookie=0x10,table=4 actions=drop")),
            ("conj_id=7,ip", line("conj_id=7,ip actions=drop")),
        ] {
            assert_eq!(asked(text).unwrap_or_else(|error| panic!("{text}: {error}")), want, "{text}");
        }
        for (text, part) in [
            ("", "give a flow as dumped"),
            (" # only a comment", "give a flow as dumped"),
            ("0x", "is no cookie"),
            ("0x11111111111111111", "at most 16 hexadecimal digits"),
            ("4294967296", "cookies are given as 0x"),
            ("web", "\"web\" is no flow, cookie or number"),
        ] {
            let told = asked(text).expect_err(text).to_string();
            assert!(told.contains(part), "{text}: {told}");
        }
    }

    #[test]
    fn owners_both_ways() {
        let reference = |kind: v1::Kind, name: &str| v1::ObjectRef { kind: kind.into(), name: name.to_owned() };
        let rule = |rule: &str, number| v1::RuleRef { policy: "np:a/b".to_owned(), rule: rule.to_owned(), number };
        let objects = vec![
            reference(v1::Kind::Pod, "default/web"),
            reference(v1::Kind::NetworkPolicy, "np:a/b"),
            reference(v1::Kind::NetworkPolicy, "acnp:c"),
        ];
        let rules = vec![rule("ingress-0", 7), rule("", 0)];
        let whose = Whose { asked: Flow::RuleNumber(7), found: v1::FindObjectsResponse { objects, rules } };
        let want = "\
OBJECT           RULE         NUMBER
pod/default/web
policy/acnp:c
policy/np:a/b    ingress-0         7
policy/np:a/b    (isolation)       -
";
        assert_eq!(whose.text(), want);
        let want = json!({
            "objects": ["pod/default/web", "policy/np:a/b", "policy/acnp:c"],
            "rules": [
                { "policy": "np:a/b", "rule": "ingress-0", "number": 7 },
                { "policy": "np:a/b", "rule": null, "number": null },
            ],
        });
        assert_eq!(whose.json(), want);
    }

    #[test]
    fn nobody_is_an_answer() {
        for (asked, part) in [
            (Flow::Line("ip actions=drop".to_owned()), "not a flow of Antrea's"),
            (Flow::Cookie(16), "the cookie 0x10"),
            (Flow::RuleNumber(9), "no rule has the number 9; `vsctl antrea rules` lists them"),
        ] {
            let whose = Whose { asked, found: v1::FindObjectsResponse::default() };
            assert!(whose.text().contains(part), "{}", whose.text());
            assert_eq!(whose.json(), json!({ "objects": [], "rules": [] }));
        }
    }
}
