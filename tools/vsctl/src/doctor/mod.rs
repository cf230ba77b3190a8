//! `doctor`: what is wrong with this machine and its switch, and how to fix it.
//!
//! **Where in the walk**: nowhere. It reads files of the machine, and asks the switch by gRPC.
//!
//! **Design**: a [`Check`] is a name and a function from facts to [`Outcome`]s. Facts are gathered
//! first: [`Machine`] reads files below a root, [`Asked`] holds answers of the switch. So a test
//! plants a fault in a tree of files, or in an answer. A check that does not apply has no outcome.
//! The checks are independent: one fault is told by one check.
//!
//! **Limits**: a file is read up to 1 MiB. Nothing is written, and nothing is changed. The switch
//! is asked twice, one second apart.
//!
//! **Threads**: that of the program.

mod asked;
mod cpu;
mod files;
mod interrupts;
mod machine;
mod memory;
mod pci;
mod process;
mod settings;
mod switch;

pub(crate) use asked::Asked;
pub(crate) use machine::Machine;

/// How good an outcome is; the worst one is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// The switch works, and not as well as it could, or not for long.
    Warn,
    /// The switch does not start, does not forward, or does not forward everything.
    Bad,
}

impl Level {
    /// Word in answers.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Name of the check.
    pub(crate) check: &'static str,
    /// How good it is.
    pub(crate) level: Level,
    /// What was seen, in a sentence.
    pub(crate) fact: String,
    /// A command or a change that helps. Empty if all is well.
    pub(crate) fix: String,
}

/// What a check says before its name is put to it.
#[derive(Debug)]
pub(crate) struct Said {
    level: Level,
    fact: String,
    fix: String,
}

pub(crate) fn ok(fact: impl Into<String>) -> Said {
    Said { level: Level::Ok, fact: fact.into(), fix: String::new() }
}

pub(crate) fn warn(fact: impl Into<String>, fix: impl Into<String>) -> Said {
    Said { level: Level::Warn, fact: fact.into(), fix: fix.into() }
}

pub(crate) fn bad(fact: impl Into<String>, fix: impl Into<String>) -> Said {
    Said { level: Level::Bad, fact: fact.into(), fix: fix.into() }
}

/// A check of facts of one kind.
pub(crate) struct Check<F> {
    name: &'static str,
    run: fn(&F) -> Vec<Said>,
}

impl<F> Check<F> {
    const fn new(name: &'static str, run: fn(&F) -> Vec<Said>) -> Self {
        Self { name, run }
    }
}

/// Everything that is said of a machine, in the order of the checks.
pub(crate) fn look_at_machine(machine: &Machine) -> Vec<Outcome> {
    let lists = [cpu::CHECKS, interrupts::CHECKS, memory::CHECKS, pci::CHECKS, files::CHECKS, process::CHECKS];
    lists.into_iter().flat_map(|checks| run(checks, machine)).collect()
}

/// Everything that is said of a running switch.
pub(crate) fn look_at_switch(asked: &Asked) -> Vec<Outcome> {
    run(switch::CHECKS, asked)
}

fn run<F>(checks: &[Check<F>], facts: &F) -> Vec<Outcome> {
    let said = checks.iter().flat_map(|check| (check.run)(facts).into_iter().map(|said| (check.name, said)));
    said.map(|(check, Said { level, fact, fix })| Outcome { check, level, fact, fix }).collect()
}

/// Numbers as the kernel lists them: `0-3,8`. What is no number is left out.
fn list(text: &str) -> std::collections::BTreeSet<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().take(1 << 16).collect()
}

/// Numbers as the kernel lists them.
fn listed<'a>(numbers: impl IntoIterator<Item = &'a u32>) -> String {
    numbers.into_iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(list("0-3,8\n").into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert!(list("").is_empty() && list("\n").is_empty() && list("a-b").is_empty());
        assert_eq!(list("0-4294967295").len(), 1 << 16, "a list is bounded");
        assert_eq!(listed(&list("1-2,5")), "1,2,5");
    }

    #[test]
    fn the_worst_level_is_the_greatest() {
        assert!(Level::Ok < Level::Warn && Level::Warn < Level::Bad);
    }
}
