//! The list of verbs in `vsctl --help`, under headings.
//!
//! **Where in the walk.** `parse` asks for it when the arguments ask for help.
//!
//! **Design.** clap has headings for options, and none for subcommands. So the help's template
//! holds the list as text. clap renders each part of it: a command that has only the verbs of one
//! heading.
//!
//! **Limits.** A verb without a place in `HEADINGS` would be missing in the help. A test fails
//! then.

use clap::Command;
use clap::builder::StyledStr;
use std::fmt::Write;

/// Headings in the order of the help, with their verbs by use: the common ones first.
const HEADINGS: &[(&str, &[&str])] = &[
    (
        "Bridges and ports",
        &[
            "show",
            "add-br",
            "del-br",
            "list-br",
            "add-port",
            "del-port",
            "list-ports",
            "mod-port",
            "dump-ports",
            "port-events",
            "port-caps",
            "set-fail-mode",
            "set-strict",
            "fdb-show",
            "fdb-stats",
            "fdb-flush",
            "fdb-add",
            "fdb-del",
        ],
    ),
    (
        "Flows",
        &[
            "add-flow",
            "del-flows",
            "mod-flows",
            "dump-flows",
            "trace",
            "add-flows",
            "replace-flows",
            "diff-flows",
            "bundle",
            "dump-aggregate",
            "dump-megaflows",
        ],
    ),
    (
        "Tables, groups and meters",
        &[
            "dump-tables",
            "add-table",
            "del-table",
            "add-group",
            "add-groups",
            "mod-group",
            "del-groups",
            "insert-buckets",
            "remove-buckets",
            "dump-groups",
            "dump-group-stats",
            "add-meter",
            "mod-meter",
            "del-meters",
            "dump-meters",
            "meter-stats",
        ],
    ),
    (
        "Connections",
        &[
            "dump-conntrack",
            "flush-conntrack",
            "monitor-conntrack",
            "ct-stats-show",
            "ct-counters-show",
            "ct-get-nconns",
            "ct-get-maxconns",
            "ct-set-maxconns",
            "ct-get-limits",
            "ct-set-limits",
            "ct-del-limits",
            "ct-get-timeouts",
            "ct-set-timeouts",
            "ct-del-timeouts",
            "ct-get-zone-options",
            "ct-set-zone-options",
            "ct-get-tcp-seq-chk",
            "ct-enable-tcp-seq-chk",
            "ct-disable-tcp-seq-chk",
        ],
    ),
    (
        "Tunnels",
        &[
            "route-show",
            "route-lookup",
            "route-add",
            "route-del",
            "tnl-neigh-show",
            "tnl-neigh-set",
            "tnl-neigh-flush",
            "tnl-ports-show",
            "dump-tlv-map",
            "add-tlv-map",
            "del-tlv-map",
        ],
    ),
    (
        "Workers",
        &[
            "worker-show",
            "worker-perf-show",
            "worker-clear",
            "worker-rxq-show",
            "worker-rxq-pin",
            "worker-rxq-rebalance",
            "mempool-show",
        ],
    ),
    (
        "Observing",
        &[
            "top",
            "doctor",
            "support-bundle",
            "health",
            "health-show",
            "limits",
            "observe",
            "names",
            "drops",
            "drop-reasons",
            "listener-show",
            "calls-show",
            "log",
            "log-show",
            "capture",
            "tcpdump",
            "monitor",
            "packet-out",
            "dump-controllers",
            "capabilities",
        ],
    ),
    ("Configuration", &["config"]),
    ("Kubernetes", &["antrea"]),
    ("This program", &["help", "version", "completion", "man"]),
];

/// Of what names of no verb are made.
const DASHES: &str = "----------------------------------------";

/// The arguments' description, with a help that has the verbs under headings.
pub(super) fn command() -> Command {
    let mut command = super::description::description();
    command.build();
    let template = template(&command);
    super::description::description().help_template(template)
}

/// The template of the help: clap's own, with our list in place of its list.
fn template(built: &Command) -> StyledStr {
    let style = *built.get_styles().get_header();
    let mut text = StyledStr::new();
    let mut write = |part: &str| {
        let _ = write!(text, "{part}"); // a StyledStr has room
    };
    write("{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (heading, verbs) in HEADINGS {
        write(&format!("{style}{heading}:{style:#}\n{}\n\n", list(built, verbs)));
    }
    write(&format!("{style}Options:{style:#}\n{{options}}{{after-help}}"));
    text
}

/// Verbs and what they do, as clap lists subcommands.
fn list(built: &Command, verbs: &[&'static str]) -> String {
    let found = verbs.iter().filter_map(|verb| Some((*verb, built.find_subcommand(verb)?))).enumerate();
    // The last line of each list is as long as the longest verb: all columns get one width.
    let longest = HEADINGS.iter().flat_map(|(_, verbs)| *verbs).map(|verb| verb.len()).max().unwrap_or_default();
    let last = Command::new(DASHES.get(..longest).unwrap_or(DASHES)).display_order(usize::MAX);
    let part = Command::new("vsctl").disable_help_subcommand(true).disable_help_flag(true);
    let part = part.styles(built.get_styles().clone()).help_template("{subcommands}");
    let only = |(index, (name, verb)): (usize, (&'static str, &Command))| {
        let about = verb.get_about().cloned().unwrap_or_default();
        Command::new(name).about(about).display_order(index)
    };
    let mut part = part.subcommands(found.map(only)).subcommand(last);
    let text = part.render_help().ansi().to_string();
    text.trim_end().rsplit_once('\n').map_or(String::new(), |(list, _)| list.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_verb_has_one_heading() {
        let mut command = super::super::description::description();
        command.build();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let shown: BTreeSet<_> = shown.map(Command::get_name).collect();
        let mut placed = BTreeSet::new();
        for verb in HEADINGS.iter().flat_map(|(_, verbs)| *verbs) {
            assert!(placed.insert(*verb), "{verb} has two headings");
        }
        let lost: Vec<_> = shown.difference(&placed).collect();
        assert!(lost.is_empty(), "without a heading: {lost:?}");
        let gone: Vec<_> = placed.difference(&shown).collect();
        assert!(gone.is_empty(), "no such verbs: {gone:?}");
    }

    #[test]
    fn the_help_has_every_verb_and_option() {
        let mut command = command();
        let help = command.render_help().to_string();
        command.build();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let (name, about) = (verb.get_name(), verb.get_about().map(ToString::to_string).unwrap_or_default());
            let line = help.lines().find(|line| line.split_whitespace().next() == Some(name));
            let first = about.split_whitespace().next().expect("what it does");
            assert!(line.is_some_and(|line| line.starts_with("  ") && line.contains(first)), "{name}: {line:?}");
        }
        let places = HEADINGS.iter().map(|(heading, _)| help.find(&format!("\n{heading}:\n")).expect(heading));
        assert!(places.is_sorted(), "{help}");
        assert!(help.contains("\nOptions:\n") && help.contains("--socket") && help.contains("Exit codes:"), "{help}");
    }
}
