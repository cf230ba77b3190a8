//! Completion scripts and manual pages, made from the arguments' own description.

use crate::cli::{Cli, Shell};
use crate::error::Error;
use crate::output::Report;
use clap::CommandFactory;
use clap::error::ErrorKind;
use serde_json::{Value, json};

/// A text made of the arguments' description.
pub(super) struct Script(String);

impl Report for Script {
    fn text(&self) -> String {
        self.0.clone()
    }

    fn json(&self) -> Value {
        json!({ "text": self.0 })
    }
}

/// A completion script.
pub(super) fn completion(shell: Shell) -> Script {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "vsctl", &mut script);
    Script(String::from_utf8_lossy(&script).into_owned())
}

/// A manual page, of vsctl or of one verb.
pub(super) fn man(verb: Option<&str>) -> Result<Script, Error> {
    let mut command = Cli::command();
    command.build();
    let command = match verb {
        None => command,
        Some(verb) => match find(&command, verb) {
            Some(found) => found.clone(),
            None => {
                let message = format!("{verb:?} is no verb; `vsctl help` lists them");
                return Err(command.error(ErrorKind::InvalidValue, message).into());
            }
        },
    };
    let mut page = Vec::new();
    let source = concat!("vswitch ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).source(source).manual("vswitch").render(&mut page)?;
    Ok(Script(String::from_utf8_lossy(&page).into_owned()))
}

/// A verb, or one of a verb's own: `antrea-flows` is `antrea flows`.
fn find<'a>(command: &'a clap::Command, verb: &str) -> Option<&'a clap::Command> {
    let inner = |outer: &'a clap::Command| {
        let verb = verb.strip_prefix(outer.get_name())?.strip_prefix('-')?;
        outer.find_subcommand(verb)
    };
    command.find_subcommand(verb).or_else(|| command.get_subcommands().find_map(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_can_be_completed_in_every_shell_and_has_a_page() {
        let verbs: Vec<_> = Cli::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        assert!(verbs.len() > 20, "{verbs:?}");
        let scripts = [Shell::Bash, Shell::Zsh, Shell::Fish].map(completion);
        for verb in &verbs {
            for script in &scripts {
                assert!(script.0.contains(verb), "no completion of {verb}");
            }
            let page = man(Some(verb)).expect("a page").0;
            assert!(page.contains(".SH SYNOPSIS"), "{verb}: {page}");
            assert!(page.contains(&verb.replace('-', "\\-")), "{verb}: {page}");
        }
        let page = man(None).expect("a page").0;
        assert!(page.contains(".TH vsctl 1") && page.contains("VSWITCH_SOCKET"), "{page}");
    }

    #[test]
    fn verbs_of_verbs_have_pages_and_completions() {
        let page = man(Some("antrea-flows")).expect("a page").0;
        assert!(page.contains("vsctl\\-antrea\\-flows") && page.contains("\\-\\-rule"), "{page}");
        assert!(man(Some("antrea-frobnicate")).is_err());
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(completion(shell).0.contains("traffic-controls"), "{shell:?}");
        }
    }

    #[test]
    fn no_such_verb() {
        match man(Some("frobnicate")) {
            Err(Error::Usage(error)) => assert!(error.to_string().contains("\"frobnicate\" is no verb"), "{error}"),
            other => panic!("{:?}", other.map(|script| script.0)),
        }
    }
}
