//! `doctor`: what [`crate::doctor`] found, as an answer.

use crate::cli;
use crate::client::Client;
use crate::doctor::{Asked, Level, Machine, Outcome, look_at_machine, look_at_switch};
use crate::error::Error;
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::fmt::Write;

pub(super) async fn examine(client: &Client, args: &cli::Doctor) -> Answer {
    let mut outcomes = look_at_machine(&Machine::read(&args.root, args.config.as_deref()));
    if !args.no_switch {
        outcomes.extend(look_at_switch(&Asked::of(client).await));
    }
    Ok(Box::new(Findings { outcomes, all: args.all }))
}

/// `doctor`.
struct Findings {
    outcomes: Vec<Outcome>,
    /// What is well is shown, too.
    all: bool,
}

impl Findings {
    fn count(&self, level: Level) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.level == level).count()
    }
}

impl Report for Findings {
    fn text(&self) -> String {
        let mut text = String::new();
        let shown = self.outcomes.iter().filter(|outcome| self.all || outcome.level > Level::Ok);
        for Outcome { check, level, fact, fix } in shown {
            let _ = writeln!(text, "{:<4}  {check}: {fact}", level.word());
            if !fix.is_empty() {
                let _ = writeln!(text, "      fix: {fix}");
            }
        }
        let (well, warn, bad) = (self.count(Level::Ok), self.count(Level::Warn), self.count(Level::Bad));
        let _ = writeln!(text, "{} facts: {well} ok, {warn} warn, {bad} bad", self.outcomes.len());
        text
    }

    fn json(&self) -> Value {
        let one = |outcome: &Outcome| {
            json!({
                "check": outcome.check,
                "level": outcome.level.word(),
                "fact": outcome.fact,
                "fix": outcome.fix,
            })
        };
        json!({
            "ok": self.count(Level::Ok),
            "warn": self.count(Level::Warn),
            "bad": self.count(Level::Bad),
            "outcomes": self.outcomes.iter().map(one).collect::<Vec<_>>(),
        })
    }

    fn verdict(&self) -> Result<(), Error> {
        match self.outcomes.iter().map(|outcome| outcome.level).max() {
            None | Some(Level::Ok) => Ok(()),
            Some(Level::Warn) => Err(Error::Diagnosed(1)),
            Some(Level::Bad) => Err(Error::Diagnosed(2)),
        }
    }
}
