//! What can follow the words of an unfinished command line.
//!
//! **Where in the walk.** The hidden verb `__complete`, which the scripts of `vsctl completion`
//! call with each press of the tabulator.
//!
//! **Design.** The words are read by the description of the arguments, so new verbs and options
//! need nothing here. Names that only the switch knows are told as a `Noun`; `commands` asks for
//! them.
//!
//! **Limits.** Values with a syntax of their own (flows, groups) get no completion but tables.

use super::description::description;
use clap::{Arg, Command};

/// What may follow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Words, each with what it means.
    Words(Vec<(String, String)>),
    /// Names that the switch knows, behind this text.
    Names(String, Noun),
    /// Names of files.
    Files,
    /// What only the user knows.
    Unknown,
}

/// What has names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Noun {
    /// Bridges.
    Bridges,
    /// Ports of this bridge; empty: of all.
    Ports(String),
    /// Tables of this bridge.
    Tables(String),
    /// The same, as `table=NAME`.
    TableMatches(String),
    /// Parts that have a health.
    Parts,
    /// Pods.
    Pods,
    /// Policies.
    Policies,
}

/// What may follow these words. The last one is unfinished, and may be empty.
pub(crate) fn wanted(words: &[&str]) -> Wanted {
    let mut root = description();
    root.build();
    let Some((current, before)) = words.split_last() else { return Wanted::Unknown };
    let (mut verb, mut given, mut open, mut is_plain) = (&root, Vec::new(), None, false);
    for word in before {
        if open.take().is_some() {
        } else if *word == "--" {
            is_plain = true;
        } else if !is_plain && word.starts_with('-') && word.len() > 1 {
            open = option(verb, word).filter(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set());
            open = open.filter(|_| !word.contains('='));
        } else if let Some(inner) = verb.find_subcommand(word).filter(|_| given.is_empty()) {
            verb = inner;
        } else {
            given.push(*word);
        }
    }
    if let Some(arg) = open {
        return value(verb, arg, &given, String::new());
    }
    if !is_plain && current.starts_with('-') {
        return match current.split_once('=') {
            Some((name, _)) => {
                option(verb, name).map_or(Wanted::Unknown, |arg| value(verb, arg, &given, format!("{name}=")))
            }
            None => Wanted::Words(options(verb)),
        };
    }
    if verb.has_subcommands() && given.is_empty() {
        return Wanted::Words(verbs(verb));
    }
    let last = || verb.get_positionals().last().filter(|arg| arg.get_num_args().is_some_and(|n| n.max_values() > 1));
    let arg = verb.get_positionals().nth(given.len()).or_else(last);
    arg.map_or(Wanted::Unknown, |arg| value(verb, arg, &given, String::new()))
}

/// An option by the word that it is given with.
fn option<'a>(verb: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    verb.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short() == name.chars().nth(1),
    })
}

fn options(verb: &Command) -> Vec<(String, String)> {
    let shown = verb.get_arguments().filter(|arg| !arg.is_hide_set());
    let about = |arg: &Arg| arg.get_help().map(ToString::to_string).unwrap_or_default();
    shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg)))).collect()
}

fn verbs(outer: &Command) -> Vec<(String, String)> {
    let shown = outer.get_subcommands().filter(|verb| !verb.is_hide_set());
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    shown.map(|verb| (verb.get_name().to_owned(), about(verb))).collect()
}

/// What a value may be; `front` stands before it in the same word.
fn value(verb: &Command, arg: &Arg, given: &[&str], front: String) -> Wanted {
    let values = arg.get_possible_values();
    if !values.is_empty() {
        let about =
            |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
        let shown = values.iter().filter(|value| !value.is_hide_set());
        return Wanted::Words(shown.map(|value| (format!("{front}{}", value.get_name()), about(value))).collect());
    }
    let bridge = || {
        let place = verb.get_positionals().position(|arg| arg.get_id() == "bridge");
        place.and_then(|place| given.get(place)).map_or(String::new(), |bridge| (*bridge).to_owned())
    };
    let noun = match (verb.get_name(), arg.get_id().as_str()) {
        (_, "bridge") => Noun::Bridges,
        ("del-port" | "mod-port", "name") | (_, "port" | "peer" | "in_port") => Noun::Ports(bridge()),
        ("del-table", "name") => Noun::Tables(bridge()),
        ("dump-flows" | "del-flows" | "dump-aggregate", "flows" | "text") => Noun::TableMatches(bridge()),
        ("health", "part") => Noun::Parts,
        ("pods", "names") | (_, "pod" | "pods") => Noun::Pods,
        ("policies", "names") | (_, "policies") => Noun::Policies,
        ("man", "verb") => {
            return Wanted::Words(verbs(&description()));
        }
        (_, "file" | "path" | "rx_file" | "tx_file" | "socket" | "first" | "second") => return Wanted::Files,
        _ => return Wanted::Unknown,
    };
    Wanted::Names(front, noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        match wanted(&line.split(' ').collect::<Vec<_>>()) {
            Wanted::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn verbs_options_and_values_are_those_of_the_description() {
        let verbs = words("sh");
        assert!(verbs.contains(&"show".to_owned()) && !verbs.iter().any(|verb| verb.starts_with("__")), "{verbs:?}");
        assert!(words("antrea ").contains(&"pods".to_owned()));
        assert!(words("help ").contains(&"add-port".to_owned()));
        assert!(words("add-port br0 p1 --").contains(&"--devargs".to_owned()));
        assert!(words("dump-ports --").contains(&"--watch".to_owned()));
        assert!(words("add-port br0 p1 --type ").contains(&"af_packet".to_owned()));
        assert!(words("add-port br0 p1 --type=").contains(&"--type=tap".to_owned()));
        assert!(words("mod-port br0 p1 up ").contains(&"no-flood".to_owned()), "words may be many");
        assert_eq!(words("-o "), ["text", "json", "yaml"]);
        assert!(words("man ").contains(&"show".to_owned()));
    }

    #[test]
    fn names_are_those_of_what_is_asked_for() {
        for (line, noun) in [
            ("dump-ports ", Noun::Bridges),
            ("-t 5 --json del-br b", Noun::Bridges),
            ("del-port br0 ", Noun::Ports("br0".to_owned())),
            ("--socket /s mod-port --mtu 1500 br0 p", Noun::Ports("br0".to_owned())),
            ("worker-rxq-pin ", Noun::Ports(String::new())),
            ("del-table br0 ", Noun::Tables("br0".to_owned())),
            ("dump-flows br0 ta", Noun::TableMatches("br0".to_owned())),
            ("health ", Noun::Parts),
            ("antrea pods ", Noun::Pods),
            ("antrea policies --pod ", Noun::Pods),
        ] {
            assert_eq!(wanted(&line.split(' ').collect::<Vec<_>>()), Wanted::Names(String::new(), noun), "{line}");
        }
        assert_eq!(wanted(&["add-flows", "br0", ""]), Wanted::Files);
        assert_eq!(wanted(&["--socket", ""]), Wanted::Files);
        assert_eq!(wanted(&["add-br", ""]), Wanted::Unknown);
        assert_eq!(wanted(&["show", ""]), Wanted::Unknown);
    }
}
