//! The description of all arguments.
//!
//! **Where in the walk.** clap reads words by it (`parse`). Help, manual pages and completion are
//! made of it.
//!
//! **Design.** The derived description gets what many verbs share: `--output`, and `--watch` of
//! listings.

use super::{Cli, listing, seconds};
use clap::builder::ValueParser;
use clap::{Arg, Command, CommandFactory, ValueEnum};

/// Names of the arguments that are added here.
pub(super) const OUTPUT: &str = "answer-format";
pub(super) const WATCH: &str = "watch-seconds";

/// How answers leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// As with --json.
    Json,
    /// The same as JSON, as documents of YAML.
    Yaml,
}

/// The description of all arguments.
pub(crate) fn description() -> Command {
    extended(Cli::command(), "")
}

/// A verb and those below it, with the arguments that many verbs share.
fn extended(command: Command, verb: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let verb = if verb.is_empty() { inner.get_name().to_owned() } else { format!("{verb} {}", inner.get_name()) };
        extended(inner, &verb)
    });
    let has = |long: &str, short: Option<char>| {
        let mut all = command.get_arguments();
        all.any(|arg| arg.get_long() == Some(long) || short.is_some_and(|short| arg.get_short() == Some(short)))
    };
    let (takes_output, watches) = (!has("output", Some('o')), listing::of(verb).is_some() && !has("watch", None));
    let output = Arg::new(OUTPUT).short('o').long("output").value_name("FORMAT");
    let output = output.value_parser(clap::value_parser!(Format)).help("Print text, json or yaml [default: text]");
    let output = output.hide_possible_values(true);
    let watch = Arg::new(WATCH).long("watch").value_name("SECONDS").num_args(0..=1).require_equals(true);
    let watch = watch.default_missing_value("2").value_parser(ValueParser::new(seconds));
    let watch = watch.help("Show it again each so many seconds [2], until interrupted");
    let command = if takes_output { command.arg(output) } else { command };
    if watches { command.arg(watch) } else { command }
}
