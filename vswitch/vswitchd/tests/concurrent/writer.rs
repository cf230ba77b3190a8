//! A writer: random transactions over keys that all writers share, and what their results tell.

use crate::Run;
use crate::client::Client;
use crate::linear::{Op, Seen};
use crate::program::{self, Act, GROUP_TOKENS, METER_TOKENS, PILES, REGISTERS, TAIL_GROUP, TAIL_RULE};
use crate::rng::Rng;
use tonic::{Code, Status};
use vswitch_proto::v1::{self, UpdateOutcome, WriteResponse};

/// A transaction that is to be made.
struct Plan {
    version: u32,
    updates: Vec<v1::Update>,
    sets: Vec<(usize, u32)>,
    end: End,
}

/// What is to come of it.
enum End {
    /// It is applied.
    Applied,
    /// It goes as a token's state says: of which key, by which update, what, and how a refusal is
    /// called.
    Token { key: usize, index: usize, act: Act, code: &'static str },
    /// This update is refused.
    Refused { index: usize, code: &'static str },
    /// It is never committed.
    Aborted,
}

/// What a transaction saw, and what it set.
type Said = (Vec<(usize, Seen)>, Vec<(usize, u32)>);

/// How transactions of a writer went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) applied: usize,
    pub(crate) refused: usize,
    pub(crate) refused_by_state: usize,
    pub(crate) aborted: usize,
}

impl Plan {
    fn new(version: u32, rng: &mut Rng) -> Self {
        let (mut updates, mut sets) = (Vec::new(), Vec::new());
        let register = rng.pick(&REGISTERS.collect::<Vec<_>>());
        if rng.chance(60) {
            updates.extend(program::write_register(register, version, rng));
            sets.push((register, version));
        }
        if rng.chance(20) {
            let other = (register + 1 + rng.below(REGISTERS.len() - 1)) % REGISTERS.len();
            updates.extend(program::write_register(other, version, rng));
            sets.push((other, version));
        }
        if rng.chance(30) {
            let (pile, version) = (rng.pick(&PILES.collect::<Vec<_>>()), if rng.chance(80) { version } else { 0 });
            updates.extend(program::write_pile(pile, version, rng));
            sets.push((pile, version));
        }
        if rng.chance(30) || updates.is_empty() {
            let tail = rng.pick(&[TAIL_RULE, TAIL_GROUP]);
            updates.extend(program::write_tail(tail, version, rng));
            sets.push((tail, version));
        }
        let end = match rng.below(10) {
            0 => {
                let (update, index, code) = program::poison(updates.len(), rng);
                updates.insert(index, update);
                End::Refused { index, code }
            }
            1 if rng.chance(30) => End::Aborted,
            2..5 => {
                let key = rng.pick(&GROUP_TOKENS.chain(METER_TOKENS).collect::<Vec<_>>());
                let act = rng.pick(&[Act::Add, Act::Add, Act::Modify, Act::Delete]);
                let (update, code) = program::write_token(key, version, act);
                // Between the others: what came before it is taken back when it is refused.
                let index = rng.below(updates.len() + 1);
                updates.insert(index, update);
                End::Token { key, index, act, code }
            }
            _ => End::Applied,
        };
        Self { version, updates, sets, end }
    }

    /// What the result says about the state; None: nothing was changed, whatever the state.
    fn result(&self, result: Result<WriteResponse, Status>) -> Result<Option<Said>, String> {
        let response = match (result, &self.end) {
            (Err(status), End::Aborted) if status.code() == Code::Aborted => return Ok(None),
            (Ok(response), _) => response,
            (Err(status), _) => return Err(format!("the call failed: {status}")),
        };
        let refused_at = |index: usize, code: &str| {
            let known = |outcome| matches!(outcome, UpdateOutcome::Refused | UpdateOutcome::Invalid);
            let statuses = response.statuses.iter().enumerate();
            let refused: Vec<usize> = statuses.filter(|(_, status)| known(status.outcome())).map(|(i, _)| i).collect();
            !response.applied && refused == [index] && response.statuses[index].code == code
        };
        match &self.end {
            End::Applied if response.applied => Ok(Some((Vec::new(), self.sets.clone()))),
            End::Refused { index, code } if refused_at(*index, code) => Ok(None),
            End::Token { key, index, act, code } => {
                let (there, missing) = (vec![(*key, Seen::Present)], vec![(*key, Seen::Is(0))]);
                let with = |version| [&self.sets[..], &[(*key, version)]].concat();
                let affected = response.statuses.get(*index).map_or(0, |status| status.affected);
                match act {
                    Act::Add if response.applied => Ok(Some((missing, with(self.version)))),
                    Act::Add if refused_at(*index, code) => Ok(Some((there, Vec::new()))),
                    Act::Modify if response.applied => Ok(Some((there, with(self.version)))),
                    Act::Modify if refused_at(*index, code) => Ok(Some((missing, Vec::new()))),
                    Act::Delete if response.applied && affected == 1 => Ok(Some((there, with(0)))),
                    Act::Delete if response.applied && affected == 0 => Ok(Some((missing, self.sets.clone()))),
                    _ => Err("unexpected".to_owned()),
                }
            }
            _ => Err("unexpected".to_owned()),
        }
        .map_err(|why| {
            let wrong = |status: &&v1::UpdateStatus| !status.code.is_empty();
            let refused: Vec<_> = response.statuses.iter().filter(wrong).collect();
            format!("{why}: applied: {}, refused: {refused:#?}", response.applied)
        })
    }
}

/// Writes until the time is over.
pub(crate) fn run(run: &Run, thread: usize) -> (Vec<Op>, Tally) {
    let (client, mut rng) = (Client::new(&run.socket), run.rng(thread));
    let (mut ops, mut tally) = (Vec::new(), Tally::default());
    while !run.is_over() {
        let plan = Plan::new(run.next_version(), &mut rng);
        let (parts, commit) = (1 + rng.below(3), !matches!(plan.end, End::Aborted));
        let call = run.clock.now();
        let result = client.write(&plan.updates, parts, commit);
        let ret = run.clock.now();
        match plan.result(result) {
            Ok(Some((seen, sets))) => {
                tally.applied += usize::from(!sets.is_empty());
                tally.refused_by_state += usize::from(sets.is_empty());
                ops.push(Op { thread, what: "write", call, ret, seen, sets });
            }
            Ok(None) if commit => tally.refused += 1,
            Ok(None) => tally.aborted += 1,
            Err(why) => panic!("{why}\nof the transaction {:#?}", plan.updates),
        }
    }
    (ops, tally)
}
