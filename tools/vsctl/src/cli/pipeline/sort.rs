//! `--sort` and `--rsort`: two options, and the order in which they are given counts across both.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// What to sort by, the first key first: a field, and whether the highest comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort(pub(crate) Vec<(String, bool)>);

/// The options, and whether the highest comes first.
const OPTIONS: [(&str, bool); 2] = [("sort", false), ("rsort", true)];

impl Args for Sort {
    fn augment_args(command: Command) -> Command {
        OPTIONS.into_iter().fold(command, |command, (name, descending)| {
            let first = if descending { "highest" } else { "lowest" };
            let option = Arg::new(name)
                .long(name)
                .value_name("FIELD")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("priority")
                .action(ArgAction::Append);
            command.arg(option.help(format!("Sort by a field, {first} first; may be repeated")))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Sort {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut keys: Vec<(usize, (String, bool))> = Vec::new();
        for (name, descending) in OPTIONS {
            let places = matches.indices_of(name).into_iter().flatten();
            let fields = matches.get_many::<String>(name).into_iter().flatten();
            keys.extend(places.zip(fields).map(|(place, field)| (place, (field.clone(), descending))));
        }
        keys.sort_by_key(|(place, _)| *place);
        Ok(Self(keys.into_iter().map(|(_, key)| key).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
