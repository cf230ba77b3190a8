//! Label selectors: what they select, and a text that is equal for equal ones.

use crate::kinds::Labels;
use crate::kinds::selector::{Expression, Operator, Selector};
use crate::kinds::wellformed::{is_key, is_value};

/// Whether labels are selected.
pub fn matches(selector: &Selector, labels: &Labels) -> bool {
    let pairs = selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
    pairs && selector.match_expressions.iter().all(|expression| holds(expression, labels))
}

fn holds(expression: &Expression, labels: &Labels) -> bool {
    let value = labels.get(&expression.key);
    match expression.operator {
        Operator::In => value.is_some_and(|value| expression.values.contains(value)),
        Operator::NotIn => value.is_none_or(|value| !expression.values.contains(value)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
    }
}

/// What is wrong with a selector: path of the field and reason.
pub fn check(selector: &Selector) -> Result<(), (String, String)> {
    for (key, value) in &selector.match_labels {
        if !is_key(key) {
            return Err(("matchLabels".to_owned(), format!("{key:?} is no key of a label")));
        }
        if !is_value(value) {
            return Err((format!("matchLabels.{key}"), format!("{value:?} is no value of a label")));
        }
    }
    for (i, expression) in selector.match_expressions.iter().enumerate() {
        if !is_key(&expression.key) {
            let reason = format!("{:?} is no key of a label", expression.key);
            return Err((format!("matchExpressions[{i}].key"), reason));
        }
        if let Some(value) = expression.values.iter().find(|value| !is_value(value)) {
            return Err((format!("matchExpressions[{i}].values"), format!("{value:?} is no value of a label")));
        }
        let wants = matches!(expression.operator, Operator::In | Operator::NotIn);
        if wants == expression.values.is_empty() {
            let reason =
                if wants { "is required with In and NotIn" } else { "must not be given with Exists and DoesNotExist" };
            return Err((format!("matchExpressions[{i}].values"), reason.to_owned()));
        }
    }
    Ok(())
}

/// A selector as text: `app=web,env in (a,b),!x`; `*` selects all.
pub fn text(selector: &Selector) -> String {
    let mut parts: Vec<String> =
        selector.match_labels.iter().map(|(key, value)| format!("{}={}", word(key), word(value))).collect();
    parts.extend(selector.match_expressions.iter().map(|expression| {
        let key = word(&expression.key);
        let mut values: Vec<String> = expression.values.iter().map(|value| word(value)).collect();
        values.sort();
        values.dedup();
        let values = values.join(",");
        match expression.operator {
            Operator::In => format!("{key} in ({values})"),
            Operator::NotIn => format!("{key} notin ({values})"),
            Operator::Exists => key,
            Operator::DoesNotExist => format!("!{key}"),
        }
    }));
    parts.sort();
    parts.dedup();
    if parts.is_empty() { "*".to_owned() } else { parts.join(",") }
}

/// A label as it is, or quoted where it could be taken for something else.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{documents, typed};

    fn selector(yaml: &str) -> Selector {
        typed(&documents(yaml).expect("YAML")[0]).expect("a selector")
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn operators() {
        let web = labels(&[("app", "web"), ("env", "prod")]);
        for (yaml, expected) in [
            ("matchLabels: {app: web}", true),
            ("matchLabels: {app: web, env: test}", false),
            ("matchLabels:", true),
            ("matchExpressions: [{key: app, operator: In, values: [db, web]}]", true),
            ("matchExpressions: [{key: app, operator: In, values: [db]}]", false),
            ("matchExpressions: [{key: app, operator: NotIn, values: [db]}]", true),
            ("matchExpressions: [{key: x, operator: NotIn, values: [db]}]", true),
            ("matchExpressions: [{key: env, operator: Exists}]", true),
            ("matchExpressions: [{key: x, operator: Exists}]", false),
            ("matchExpressions: [{key: env, operator: DoesNotExist}]", false),
            ("matchExpressions: [{key: x, operator: DoesNotExist}]", true),
        ] {
            assert_eq!(matches(&selector(yaml), &web), expected, "{yaml}");
            assert_eq!(check(&selector(yaml)), Ok(()), "{yaml}");
        }
        assert!(check(&selector("matchExpressions: [{key: x, operator: In}]")).is_err());
        assert!(check(&selector("matchExpressions: [{key: x, operator: Exists, values: [a]}]")).is_err());
    }

    #[test]
    fn keys_and_values_of_labels() {
        for (key, expected) in [
            ("app", true),
            ("app.kubernetes.io/name", true),
            ("A_b.c-d", true),
            ("a/b/c", false),
            ("", false),
            ("/a", false),
            ("a/", false),
            ("A/b", false),
            ("-a", false),
            ("a b", false),
        ] {
            assert_eq!(is_key(key), expected, "{key}");
        }
        assert!(is_value("") && is_value("v1.2_x") && !is_value("a/b") && !is_value(&"x".repeat(64)));
        assert!(check(&selector("matchLabels: {a/b/c: x}")).is_err());
        assert!(check(&selector("matchExpressions: [{key: a, operator: In, values: ['-']}]")).is_err());
    }

    #[test]
    fn equal_selectors_have_one_text_and_others_another() {
        let long = "matchLabels: {b: '2', a: '1'}\nmatchExpressions: [{key: z, operator: DoesNotExist}, {key: e, operator: In, values: [y, x]}]";
        assert_eq!(text(&selector(long)), "!z,a=1,b=2,e in (x,y)");
        assert_eq!(text(&Selector::default()), "*");
        let tricky = selector("matchLabels: {a: '1,b=2'}");
        assert_ne!(text(&tricky), text(&selector("matchLabels: {a: '1', b: '2'}")));
    }
}
