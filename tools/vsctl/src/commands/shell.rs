//! Completion scripts, and manual pages made from the arguments' own description.

use crate::cli::{self, Shell};
use crate::error::Error;
use crate::output::Report;
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

/// A completion script. It calls this program for what may follow (`__complete`).
pub(super) fn completion(shell: Shell) -> Script {
    let script = match shell {
        Shell::Bash => include_str!("shell/vsctl.bash"),
        Shell::Zsh => include_str!("shell/vsctl.zsh"),
        Shell::Fish => include_str!("shell/vsctl.fish"),
    };
    Script(script.to_owned())
}

/// A manual page, of vsctl or of one verb.
pub(super) fn man(verb: Option<&str>) -> Result<Script, Error> {
    let mut command = cli::description();
    command.build();
    let command = match verb {
        None => command,
        Some(verb) => match find(&command, verb) {
            Some(found) => found.clone(),
            None => {
                let message = format!("{verb:?} is no verb; `vsctl help` lists them");
                return Err(clap::Error::raw(ErrorKind::InvalidValue, message).into());
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
    fn every_verb_has_a_page() {
        let verbs: Vec<_> = cli::description().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        assert!(verbs.len() > 20, "{verbs:?}");
        for verb in &verbs {
            let page = man(Some(verb)).expect("a page").0;
            assert!(page.contains(".SH SYNOPSIS"), "{verb}: {page}");
            assert!(page.contains(&verb.replace('-', "\\-")), "{verb}: {page}");
        }
        let page = man(None).expect("a page").0;
        assert!(page.contains(".TH vsctl 1") && page.contains("VSWITCH_SOCKET"), "{page}");
    }

    #[test]
    fn verbs_of_verbs_have_pages() {
        let page = man(Some("antrea-flows")).expect("a page").0;
        assert!(page.contains("vsctl\\-antrea\\-flows") && page.contains("\\-\\-rule"), "{page}");
        assert!(man(Some("antrea-frobnicate")).is_err());
    }

    #[test]
    fn no_such_verb() {
        match man(Some("frobnicate")) {
            Err(Error::Usage(error)) => assert!(error.to_string().contains("\"frobnicate\" is no verb"), "{error}"),
            other => panic!("{:?}", other.map(|script| script.0)),
        }
    }
}
