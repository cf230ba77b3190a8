//! What to do about words that cannot be meant.
//!
//! **Where in the walk.** `parse` hands over what clap refused.
//!
//! **Design.** Three kinds of advice: the nearest verbs, at most three; the line of vsctl for a
//! line of Open vSwitch's tools (`ovs`); the usage of the verb, where clap leaves it out.

use super::description::description;
use super::{WITH_VALUE, ovs};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::ffi::OsString;
use vswitch_net_types::suggest::nearest;

/// Verbs that are suggested.
const SUGGESTED_MAX: usize = 3;

/// The error with advice; the words are those of the command line.
pub(super) fn advise(mut error: Error, words: &[OsString]) -> Error {
    let mut command = description();
    command.build();
    let words: Vec<&str> = words.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    let verb = deepest(&command, &words);
    if error.kind() == ErrorKind::InvalidSubcommand {
        suggest(&mut error, verb);
    }
    if let Some(line) = ovs::advice(&words) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(line)]));
    }
    if error.get(ContextKind::Usage).is_none() {
        let usage = verb.clone().render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

/// Nearest verbs; where there are few, or none is near, all of them.
fn suggest(error: &mut Error, command: &Command) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let all: Vec<&str> = shown.map(Command::get_name).collect();
    let mut near: Vec<&str> = Vec::new();
    while near.len() < SUGGESTED_MAX {
        let left = all.iter().copied().filter(|verb| !near.contains(verb));
        let Some(next) = nearest(given, left) else { break };
        near.push(next);
    }
    if !near.is_empty() {
        let near = near.into_iter().map(str::to_owned).collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
        return;
    }
    error.remove(ContextKind::SuggestedSubcommand);
    let list = match command.get_bin_name().and_then(|name| name.split_once(' ')) {
        Some((_, outer)) => format!("the verbs of {outer} are {}", all.join(", ")),
        None => "`vsctl --help` lists the verbs".to_owned(),
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(list)]));
}

/// The deepest verb that the words name.
fn deepest<'a>(command: &'a Command, words: &[&str]) -> &'a Command {
    let (mut verb, mut words) = (command, words.iter());
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(word) {
            words.next();
        } else if !word.starts_with('-') {
            let Some(inner) = verb.find_subcommand(word) else { break };
            verb = inner;
        }
    }
    verb
}

/// A verb by its words, with blanks between them. The whole, if there is none.
pub(super) fn verb<'a>(command: &'a Command, words: &str) -> &'a Command {
    deepest(command, &words.split(' ').collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use std::ffi::OsString;

    fn said(line: &str) -> String {
        let words = std::iter::once("vsctl").chain(line.split_whitespace()).map(OsString::from);
        parse(words).expect_err(line).render().to_string()
    }

    #[test]
    fn the_nearest_verbs_come_first_and_are_few() {
        let suggested = |line: &str| {
            let text = said(line);
            let tip = text.lines().find(|line| line.contains("tip:")).expect("a tip");
            tip.split('\'').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(suggested("dump-flow br0"), ["dump-flows"]);
        assert_eq!(suggested("ct-get-limit"), ["ct-get-limits", "ct-set-limits", "ct-del-limits"]);
        assert!(said("shwo").contains("'show'"));
    }

    #[test]
    fn verbs_of_verbs_are_suggested_or_listed() {
        assert!(said("antrea pod").contains("'pods'"));
        let text = said("antrea frobnicate");
        assert!(text.contains("verbs of antrea are status, node,") && text.contains("Usage: vsctl antrea"), "{text}");
        assert!(said("frobnicate").contains("`vsctl --help` lists the verbs"));
    }

    #[test]
    fn wrong_values_show_the_usage_of_their_verb() {
        for (line, usage) in [
            ("fdb-add br0 p0 5000 2:0:0:0:0:1", "Usage: vsctl fdb-add "),
            ("add-port br0 p0 --type foo", "Usage: vsctl add-port "),
            ("show --timeout 0", "Usage: vsctl show"),
            ("-t 5 antrea rules --pod web", "Usage: vsctl antrea rules"),
        ] {
            let text = said(line);
            assert!(text.contains(usage), "{line}: {text}");
        }
    }
}
