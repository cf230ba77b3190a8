//! What an agent reports of its switch, and the text of it. Texts come from other Nodes: what is
//! not understood says nothing.

use super::digest::{Digests, PARTS, short};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vswitch_net_types::shown;

/// Refusals that a report names.
pub(super) const REFUSED_MAX: usize = 200;

/// Policies that bind a Pod of a Node, of which it says which ones.
pub(super) const BINDS_MAX: usize = 2000;

/// Bytes of a reason.
const WHY_LEN_MAX: usize = 160;

/// Bytes of a text that is read: a third of what the annotations of an object may take.
const TEXT_LEN_MAX: usize = 80 << 10;

/// The form of the text.
const FORM: u64 = 1;

/// A policy that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) generation: i64,
    pub(super) why: String,
}

/// What a Node's switch has in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Digests of policies in force. Those that are refused are not in them.
    pub(super) in_force: Digests,
    /// Policies that bind a Pod of the Node, shortened. None: too many to say.
    binds: Option<BTreeSet<u32>>,
    /// Policies that the switch or the agent refuses, by their UIDs.
    pub(super) refused: BTreeMap<String, Refused>,
    /// More is refused than is named.
    pub(super) has_more: bool,
}

impl Report {
    /// Of a switch that has nothing in force.
    pub fn new() -> Self {
        Self { binds: Some(BTreeSet::new()), ..Self::default() }
    }

    /// Adds a policy that is in force.
    pub fn tell(&mut self, uid: &str, generation: i64, binds_pods: bool) {
        self.in_force.toggle(uid, generation);
        if let Some(binds) = self.binds.as_mut().filter(|_| binds_pods) {
            binds.insert(short(uid));
            if binds.len() > BINDS_MAX {
                self.binds = None;
            }
        }
    }

    /// Adds a policy that is refused.
    pub fn refuse(&mut self, uid: &str, generation: i64, why: &str) {
        if self.refused.len() >= REFUSED_MAX {
            self.has_more = true;
            return;
        }
        let why = why[..why.floor_char_boundary(WHY_LEN_MAX)].to_owned();
        self.refused.insert(uid.to_owned(), Refused { generation, why });
    }

    /// Whether a policy, shortened, binds a Pod of the Node, as far as the report says.
    pub(super) fn binds(&self, short: u32) -> bool {
        self.binds.as_ref().is_none_or(|binds| binds.contains(&short))
    }

    /// As the annotation says it.
    pub(super) fn text(&self) -> String {
        let digests: String = self.in_force.0.iter().map(|digest| format!("{digest:016x}")).collect();
        let binds = self.binds.as_ref();
        let binds: Option<String> = binds.map(|binds| binds.iter().map(|short| format!("{short:08x}")).collect());
        let refused = self.refused.iter().map(|(uid, of)| json!([uid, of.generation, of.why]));
        json!({
            "form": FORM,
            "inForce": digests,
            "binds": binds,
            "refused": refused.collect::<Vec<_>>(),
            "refusesMore": self.has_more,
        })
        .to_string()
    }

    /// Of a text; None: it says nothing that is understood.
    pub(super) fn of(text: &str) -> Option<Self> {
        let value: Value = Some(text).filter(|text| text.len() <= TEXT_LEN_MAX).and_then(|text| {
            // (Nobody else writes it, and a wrong one is as good as none.)
            serde_json::from_str(text).ok()
        })?;
        if value["form"].as_u64() != Some(FORM) {
            return None;
        }
        let digests = numbers(value["inForce"].as_str()?, 16)?;
        let binds = match &value["binds"] {
            Value::Null => None,
            binds => {
                Some(numbers(binds.as_str()?, 8)?.into_iter().filter_map(|short| u32::try_from(short).ok()).collect())
            }
        };
        let refused = |entry: &Value| {
            let (uid, generation, why) = (entry[0].as_str()?, entry[1].as_i64()?, entry[2].as_str()?);
            let why = shown(&why[..why.floor_char_boundary(WHY_LEN_MAX)]).into_owned();
            Some((uid.to_owned(), Refused { generation, why }))
        };
        let listed = value["refused"].as_array()?;
        let refused: BTreeMap<String, Refused> = listed.iter().take(REFUSED_MAX).filter_map(refused).collect();
        let has_more = value["refusesMore"].as_bool()? || refused.len() < listed.len();
        let in_force = Digests(<[u64; PARTS]>::try_from(digests).ok()?);
        Some(Self { in_force, binds, refused, has_more })
    }
}

/// Numbers of so many hexadecimal digits each.
fn numbers(text: &str, digits: usize) -> Option<Vec<u64>> {
    let bytes = text.as_bytes();
    let number = |digits: &[u8]| {
        let digits =
            std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        u64::from_str_radix(digits?, 16).ok()
    };
    bytes.len().is_multiple_of(digits).then_some(())?;
    bytes.chunks(digits).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_the_report_again() {
        let mut report = Report::new();
        assert_eq!(Report::of(&report.text()), Some(report.clone()));
        report.tell("u1", 3, true);
        report.tell("u2", 1, false);
        report.refuse("u3", 2, &"ä".repeat(200));
        let read = Report::of(&report.text()).expect("it is one");
        assert_eq!(read, report);
        assert!(read.binds(short("u1")) && !read.binds(short("u2")) && read.refused["u3"].why.len() == WHY_LEN_MAX);
    }

    #[test]
    fn what_is_too_much_is_said_to_be_more() {
        let mut report = Report::new();
        for i in 0..3000 {
            report.refuse(&format!("r{i}"), 1, "why");
            report.tell(&format!("u{i}"), 1, true);
        }
        assert_eq!((report.refused.len(), report.has_more), (REFUSED_MAX, true));
        assert!(report.binds(short("any")) && report.text().len() < TEXT_LEN_MAX);
        assert_eq!(Report::of(&report.text()), Some(report));
    }

    #[test]
    fn texts_that_lie_say_nothing() {
        let right: Value = serde_json::from_str(&Report::new().text()).expect("JSON");
        let with = |field: &str, value: Value| {
            let mut text = right.clone();
            text[field] = value;
            text.to_string()
        };
        for text in [
            String::new(),
            "[]".to_owned(),
            with("form", json!(2)),
            with("inForce", json!("00")),
            with("inForce", json!("+".repeat(16 * PARTS))),
            with("inForce", json!("ä".repeat(8 * PARTS))),
            with("binds", json!("123")),
            with("binds", json!({})),
            with("refused", json!({})),
            with("refusesMore", json!(0)),
            with("refused", json!(["x".repeat(TEXT_LEN_MAX)])),
        ] {
            assert_eq!(Report::of(&text), None, "{text:.100}");
        }
        let odd = Report::of(&with("refused", json!([["u", 1, "a\nb"], ["u"], 5]))).expect("it is one");
        assert_eq!((odd.refused.len(), odd.refused["u"].why.as_str(), odd.has_more), (1, "a\\nb", true));
    }
}
