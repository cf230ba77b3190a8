//! One look at the host: what differs from the plan is put right.
//!
//! **Design**: a look compares everything, and changes only what differs, in this order:
//! interfaces, addresses, neighbours, routes, rules, nftables' table, sysctls. So the host forwards
//! only after everything else is there. What the agent must remember is saved before the change
//! ([`super::state`]). Each failure is a problem of its own, and the rest is applied.
//!
//! What the agent did not make stays: an equal thing of somebody else is right, another thing in
//! the place is a problem (FOREIGN). What the agent made and the plan does not have any more goes,
//! if the plan is complete.

mod addresses;
mod clear;
mod routes;
mod values;

use super::kernel::Kernel;
use super::nft::{Looked, Nft, NftError, TABLE};
use super::plan::Plan;
use super::problem::{Code, Problem, Told};
use super::state::State;
use super::there::There;
use std::collections::BTreeSet;
use std::io;

/// What a look needs and keeps.
#[derive(Debug)]
pub(super) struct Host {
    kernel: Kernel,
    state: State,
    nft: Option<Nft>,
    pub(super) told: Told,
    /// Lines of what was as it should be at a look: if it is not at the next one, it was changed.
    right: BTreeSet<String>,
    /// Lines of routes for which an equal route of somebody else is there.
    same: BTreeSet<String>,
}

/// One look in the making.
struct Look<'a> {
    plan: &'a Plan,
    there: There,
    problems: Vec<Problem>,
    right: BTreeSet<String>,
    /// The state cannot be saved: nothing is made that would have to be.
    unsaved: bool,
}

impl Look<'_> {
    /// Notes how the making of a thing went. `was_right`: it was there at the look before.
    fn made(&mut self, line: &str, result: io::Result<()>, was_right: bool) {
        match result {
            Ok(()) => {
                if was_right {
                    self.problems.push(Problem::new(Code::Repaired, line, "it was gone, and is there again"));
                }
                self.right.insert(line.to_owned());
            }
            Err(error) => self.problems.push(refused(line, &error)),
        }
    }
}

/// A problem of what the kernel refused.
fn refused(line: &str, error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Problem::new(Code::Permission, line, error.to_string())
            .hint("give the agent CAP_NET_ADMIN in the Node's network namespace"),
        io::ErrorKind::ReadOnlyFilesystem => Problem::new(Code::Permission, line, error.to_string())
            .hint("mount /proc/sys for writing, or set the value otherwise"),
        _ => Problem::new(Code::Kernel, line, error.to_string()),
    }
}

impl Host {
    pub(super) fn new(kernel: Kernel, state: State) -> Self {
        let (nft, told) = (Some(Nft::default()), Told::default());
        Self { kernel, state, nft, told, right: BTreeSet::new(), same: BTreeSet::new() }
    }

    /// Looks once. `wrong`: what of the plan could not be read.
    ///
    /// # Errors
    /// The kernel cannot be asked; nothing was changed.
    pub(super) async fn look(&mut self, plan: &Plan, wrong: Vec<Problem>) -> io::Result<()> {
        let there = self.kernel.look().await?;
        let mut look = Look { plan, there, problems: wrong, right: BTreeSet::new(), unsaved: false };
        self.links(&mut look).await;
        self.addresses(&mut look).await;
        self.neighbours(&mut look).await;
        self.routes(&mut look).await;
        self.rules(&mut look).await;
        self.table(&mut look).await;
        self.sysctls(&mut look);
        self.save(&mut look);
        self.right = look.right;
        self.told.look(look.problems);
        Ok(())
    }

    /// Saves what is about to be made; whether it may be.
    fn save(&mut self, look: &mut Look<'_>) -> bool {
        match self.state.save() {
            Ok(()) => {
                look.unsaved = false;
                true
            }
            Err(error) => {
                if !look.unsaved {
                    let reason = format!("it cannot be saved: {error}");
                    let problem = Problem::new(Code::State, "state", reason);
                    look.problems.push(problem.hint("addresses, neighbours, interfaces and sysctls stay as they are"));
                }
                look.unsaved = true;
                false
            }
        }
    }

    /// nft(8) is another program: the runtime does not wait for it.
    async fn table(&mut self, look: &mut Look<'_>) {
        let Some(rules) = look.plan.nft.clone().filter(|rules| !rules.is_empty() || look.plan.complete) else {
            return;
        };
        let Some(mut nft) = self.nft.take() else { return };
        let is_none_wanted = rules.is_empty();
        let looked = tokio::task::spawn_blocking(move || (nft.look(&rules), nft)).await;
        let Ok((looked, nft)) = looked else {
            self.nft = Some(Nft::default());
            return;
        };
        self.nft = Some(nft);
        match looked {
            Ok(Looked::Right | Looked::Written) => {}
            Ok(Looked::Repaired) => {
                look.problems.push(Problem::new(
                    Code::Repaired,
                    TABLE,
                    "it was gone or another one, and is there again",
                ));
            }
            Err(error) => look.problems.extend(nft_problem(error, is_none_wanted)),
        }
    }
}

/// None: there is no nft(8), and no table is wanted.
fn nft_problem(error: NftError, is_none_wanted: bool) -> Option<Problem> {
    Some(match error {
        NftError::Missing if is_none_wanted => return None,
        NftError::Missing => Problem::new(Code::Nft, TABLE, "there is no nft(8)").hint("install nftables"),
        NftError::Permission(reason) => Problem::new(Code::Permission, TABLE, reason)
            .hint("give the agent CAP_NET_ADMIN in the Node's network namespace"),
        NftError::Foreign => {
            Problem::new(Code::Foreign, TABLE, "a table of this name is there that the agent has not made")
                .hint("delete it, or give it another name")
        }
        NftError::Refused(reason) => Problem::new(Code::Nft, TABLE, reason),
    })
}
