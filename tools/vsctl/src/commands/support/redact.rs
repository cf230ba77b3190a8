//! Takes secrets out of texts.
//!
//! **Design**: a text is a secret by its form (a private key, a token of a known service), or by
//! the name in front of it (`password = ...`). What is taken out is counted. The rest of the line
//! stays, so that a reader sees that there was something.
//!
//! **Limits**: a secret without a name and without a form is not seen. Therefore the answer asks
//! the user to look through the files.

use regex::{Captures, Regex};
use std::sync::LazyLock;

const REDACTED: &str = "<redacted>";

/// Forms of secrets. A group `kept` stays in front of what is taken out.
static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let name = r"(?:[\w.-]*(?:passw(?:or)?d|passphrase|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization|psk|community|session[_-]?id)[\w.-]*)";
    let patterns = [
        // PEM: everything but certificates and public keys, which are no secrets.
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)".to_owned(),
        // Bearer and Basic, wherever they are.
        r"(?i)(?P<kept>\b(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}".to_owned(),
        // User and password in an address.
        r"(?P<kept>\w+://)[^\s/@:]+:[^\s/@]+@".to_owned(),
        // A quoted value behind a name: JSON, TOML, YAML, logs. The name may be quoted, too.
        format!(r#"(?i)(?P<kept>\b{name}["']?\s*[:=]\s*)"(?:[^"\\\n]|\\.)*""#),
        format!(r"(?i)(?P<kept>\b{name}['\x22]?\s*[:=]\s*)'[^'\n]*'"),
        // One without quotes, up to a blank or the end of a list.
        format!(r#"(?i)(?P<kept>\b{name}["']?\s*[:=]\s*)[^\s"'<,;}}\]][^\s,;}}\]]*"#),
        // An option of a command line with its value.
        format!(r"(?i)(?P<kept>--{name}\s+)[^\s-]\S*"),
        // Tokens that tell what they are: JWT, GitHub, AWS, Slack, Google.
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*".to_owned(),
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})".to_owned(),
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b".to_owned(),
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}".to_owned(),
        r"\bAIza[A-Za-z0-9_-]{30,}".to_owned(),
        r"\$(?:1|2[aby]|5|6|y|gy|7)\$[^\s:\x22]{8,}".to_owned(),
    ];
    patterns.iter().map(|pattern| Regex::new(pattern).expect("a pattern of ours")).collect()
});

/// The text without secrets, and how many there were.
pub(super) fn redact(text: String) -> (String, usize) {
    let mut count = 0;
    let text = FORMS.iter().fold(text, |text, form| {
        let taken = form.replace_all(&text, |found: &Captures<'_>| {
            count += 1;
            format!("{}{REDACTED}", found.name("kept").map_or("", |kept| kept.as_str()))
        });
        match taken {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(taken) => taken,
        }
    });
    (text, count)
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn secrets_go_and_names_stay() {
        for (text, want) in [
            ("password = \"a b\\\"c\"", "password = <redacted>"),
            ("db_password=hunter2 next=1", "db_password=<redacted> next=1"),
            ("{\"apiKey\": \"x\", \"name\": \"y\"}", "{\"apiKey\": <redacted>, \"name\": \"y\"}"),
            (
                "external_ids = { token = 'abc', owner = \"n/p\" }",
                "external_ids = { token = <redacted>, owner = \"n/p\" }",
            ),
            ("Authorization: Bearer abcdefghijk", "Authorization: <redacted> <redacted>"),
            ("sent bearer abcdefghijk.lm", "sent bearer <redacted>"),
            ("https://user:pw@host/x", "https://<redacted>host/x"),
            ("run --secret-token abc --other d", "run --secret-token <redacted> --other d"),
            ("a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b", "a <redacted> b"),
            ("-----BEGIN PRIVATE KEY-----\ncut", "<redacted>"),
            ("ghp_0123456789abcdefghijKLMN", "<redacted>"),
            ("root:$6$salt1234$hash:1", "root:<redacted>:1"),
        ] {
            let (told, count) = redact(text.to_owned());
            assert_eq!(told, want);
            assert!(count >= 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "token bucket of 1000 packets\n",
            "port pod-a: tx_full=3 no_mbuf=0",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "udp://10.0.0.1:4789",
        ] {
            assert_eq!(redact(text.to_owned()), (text.to_owned(), 0));
        }
    }

    /// Cookies of flows are no secrets, and a bundle without them is of no use.
    #[test]
    fn cookies_of_flows_stay() {
        let flow = "cookie=0x1020000000000, duration=5s, table=0, n_packets=0, priority=200,ip actions=drop\n";
        assert_eq!(redact(flow.to_owned()), (flow.to_owned(), 0));
    }

    #[test]
    fn a_long_text_takes_little_time() {
        let line = "cookie=0x10, table=28, priority=200,ip,nw_src=10.0.0.1 actions=drop\n";
        assert_eq!(redact(line.repeat(10_000)).1, 0);
    }
}
