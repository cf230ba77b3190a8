//! Metadata of objects: names, times, and identifiers.

use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::cause::Cause;

/// Text at a pointer; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The time in RFC 3339, in seconds.
pub(crate) fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days of the civil calendar, in eras of 400 years that begin on the first of March.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Numbers for uids and generated names.
#[derive(Debug, Default)]
pub(crate) struct Random {
    hasher: RandomState,
    count: u64,
}

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.count += 1;
        self.hasher.hash_one(self.count)
    }

    pub(crate) fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        let (high, middle, low) = (a >> 32, (a >> 16) & 0xffff, a & 0xfff);
        format!("{high:08x}-{middle:04x}-4{low:03x}-a{:03x}-{:012x}", (b >> 48) & 0xfff, b & 0xffff_ffff_ffff)
    }

    /// Five characters, of those that Kubernetes takes for `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        let letters = b"bcdfghjklmnpqrstvwxz2456789";
        let mut number = self.next();
        let mut letter = || {
            let one = letters[usize::try_from(number % letters.len() as u64).unwrap_or(0)];
            number /= letters.len() as u64;
            char::from(one)
        };
        (0..5).map(|_| letter()).collect()
    }
}

/// What is wrong with a name. Names of RBAC objects are free but for the path's own characters.
pub(crate) fn name_fault(name: &str, rbac: bool, label: bool) -> Option<Cause> {
    if name.is_empty() {
        let message = "Required value: name or generateName is required".to_owned();
        return Some(Cause { field: "metadata.name".to_owned(), reason: "FieldValueRequired", message });
    }
    let value = Value::from(name);
    if rbac {
        let wrong = matches!(name, "." | "..") || name.contains(['/', '%']);
        return wrong.then(|| Cause::invalid("metadata.name", &value, "may not contain '/' or '%'"));
    }
    let (limit, what) = if label { (63, "label") } else { (253, "subdomain") };
    let fits = name.len() <= limit && (!label || !name.contains('.')) && name.split('.').all(is_label);
    let why = format!("a lowercase RFC 1123 {what} must consist of lower case alphanumeric characters, '-' or '.'");
    (!fits).then(|| Cause::invalid("metadata.name", &value, &why))
}

fn is_label(label: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

/// What is wrong with labels: keys with an optional prefix, values of at most 63 characters.
pub(crate) fn label_faults(object: &Value, causes: &mut Vec<Cause>) {
    let fits = |text: &str| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        text.len() <= 63 && text.chars().all(inner) && ends(text.chars().next()) && ends(text.chars().last())
    };
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        let (prefix, name) = key.rsplit_once('/').map_or((None, key.as_str()), |(prefix, name)| (Some(prefix), name));
        if !fits(name) || prefix.is_some_and(|prefix| name_fault(prefix, false, false).is_some()) {
            let why = "name part must consist of alphanumeric characters, '-', '_' or '.'";
            causes.push(Cause::invalid("metadata.labels", &Value::from(key.as_str()), why));
        }
        if !value.as_str().is_some_and(|value| value.is_empty() || fits(value)) {
            let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'";
            causes.push(Cause::invalid("metadata.labels", value, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for right in ["a", "a-1", "a.b-c.d", "0"] {
            assert!(name_fault(right, false, false).is_none(), "{right}");
        }
        for wrong in ["", "A", "-a", "a-", "a..b", "a_b", "a/b", &"a".repeat(254)] {
            assert!(name_fault(wrong, false, false).is_some(), "{wrong}");
        }
        assert!(name_fault("a.b", false, true).is_some());
        assert!(name_fault("system:a", true, false).is_none());
        assert!(name_fault("a/b", true, false).is_some());
    }

    #[test]
    fn time_and_uids_have_their_forms() {
        let now = now();
        assert_eq!((now.len(), now.starts_with("20"), now.ends_with('Z')), (20, true, true), "{now}");
        let mut random = Random::default();
        assert_eq!(random.uid().len(), 36);
        assert_ne!(random.uid(), random.uid());
        assert_ne!(random.suffix(), random.suffix());
    }
}
