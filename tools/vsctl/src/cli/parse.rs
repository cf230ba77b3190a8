//! From words to what is asked, or to an error that helps.
//!
//! **Where in the walk.** Between `main` and clap.
//!
//! **Design.** clap parses by the `description`. What it refuses is looked at again: help gets its
//! headings, mistakes get their advice.

use super::description::{Format, OUTPUT, WATCH, description};
use super::listing::{self, Listing};
use super::{Cli, arguments, headings, mistakes, observe};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use std::ffi::OsString;
use std::time::Duration;

/// What the words say beside the verb and its own arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    /// The verb; of nested ones all words: `antrea pods`.
    pub(crate) verb: String,
    /// How the answer leaves.
    pub(crate) format: Format,
    /// Ask again each time that has passed.
    pub(crate) watch: Option<Duration>,
    /// What the verb lists, if it lists something.
    pub(crate) listing: Option<&'static Listing>,
}

/// What the words ask for, the program's name first.
///
/// # Errors
///
/// They ask for help, or cannot be meant.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let words = observe::joined(arguments(words));
    let asked = description().try_get_matches_from(&words).and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        // A socket of the command line goes before an address of the environment.
        let is_written = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        if is_written("socket") && !is_written("tls_connect") {
            cli.tls.connect = None;
        }
        cli.manner = manner(&matches, cli.json);
        cli.json = cli.manner.format != Format::Text;
        Ok(cli)
    });
    asked.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            headings::command().try_get_matches_from(&words).err().unwrap_or(error)
        }
        _ => mistakes::advise(error, &words),
    })
}

/// The way in which errors leave, of words that may be wrong.
pub(crate) fn format_of(words: &[OsString]) -> Format {
    let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let is = |name: &str| {
        let joined = [format!("-o{name}"), format!("-o={name}"), format!("--output={name}")];
        let apart = |pair: &[&str]| ["-o", "--output"].contains(&pair[0]) && pair[1] == name;
        words.iter().any(|word| joined.iter().any(|joined| joined == word)) || words.windows(2).any(apart)
    };
    match (is("yaml"), is("json") || words.contains(&"--json")) {
        (true, _) => Format::Yaml,
        (false, true) => Format::Json,
        (false, false) => Format::Text,
    }
}

/// An error of a verb that has parsed, with the usage of that verb.
pub(crate) fn wrong_use(error: clap::Error, cli: &Cli) -> clap::Error {
    let mut command = description();
    command.build();
    error.format(&mut mistakes::verb(&command, &cli.manner.verb).clone())
}

fn manner(matches: &ArgMatches, as_json: bool) -> Manner {
    let mut manner = Manner { format: if as_json { Format::Json } else { Format::Text }, ..Manner::default() };
    let mut inner = matches;
    loop {
        if let Ok(Some(format)) = inner.try_get_one::<Format>(OUTPUT) {
            manner.format = *format;
        }
        if let Ok(Some(every)) = inner.try_get_one::<Duration>(WATCH) {
            manner.watch = Some(*every);
        }
        let Some((verb, below)) = inner.subcommand() else { break };
        manner.verb = if manner.verb.is_empty() { verb.to_owned() } else { format!("{} {verb}", manner.verb) };
        inner = below;
    }
    manner.listing = listing::of(&manner.verb);
    manner
}
