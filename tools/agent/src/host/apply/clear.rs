//! The end of it: the host is as it was before the agent.

use super::super::kernel::Kernel;
use super::super::nft;
use super::super::plan::Plan;
use super::super::state::State;
use super::addresses::told;
use super::{Host, Look, nft_problem};
use crate::host::problem::Problem;
use std::collections::BTreeSet;
use std::io;

impl Host {
    /// Removes what the agent made, and takes back what it changed, in the reverse order. Returns
    /// what could not be; then the state stays, and another try goes on.
    ///
    /// # Errors
    /// The kernel cannot be asked, or the state cannot be removed.
    pub(in crate::host) async fn clear(kernel: Kernel, state: State) -> io::Result<Vec<Problem>> {
        let mut host = Self::new(kernel, state);
        let plan = Plan { complete: true, ..Plan::default() };
        let there = host.kernel.look().await?;
        let mut look = Look { plan: &plan, there, problems: Vec::new(), right: BTreeSet::new(), unsaved: false };
        host.take_back(&mut look, |_| false);
        let cleared = tokio::task::spawn_blocking(nft::clear).await.map_err(io::Error::other)?;
        if let Err(error) = cleared {
            // A table of somebody else is none of the agent's to remove.
            let is_foreign = matches!(error, nft::NftError::Foreign);
            look.problems.extend(nft_problem(error, true).filter(|_| !is_foreign));
        }
        host.rules(&mut look).await;
        host.routes(&mut look).await;
        host.neighbours(&mut look).await;
        host.addresses(&mut look).await;
        host.links_back(&mut look).await;
        if look.problems.is_empty() && host.state.made.is_empty() {
            host.state.remove()?;
        } else {
            host.state.save()?;
        }
        Ok(look.problems)
    }

    /// Interfaces are as they were. Another interface of the same name is left alone.
    async fn links_back(&mut self, look: &mut Look<'_>) {
        let mut kept = Vec::new();
        for changed in std::mem::take(&mut self.state.made.links) {
            let there = look.there.interfaces.get(&changed.interface).filter(|there| there.index == changed.index);
            let Some(there) = there.cloned() else { continue };
            let mac = Some(&changed.mac[..]).filter(|mac| there.mac != *mac);
            let up = Some(changed.up).filter(|up| there.up != *up);
            if mac.is_none() && up.is_none() {
                continue;
            }
            let line = format!("link {}", changed.interface);
            if !told(&line, self.kernel.set_link(changed.index, mac, up).await, look) {
                kept.push(changed);
            }
        }
        self.state.made.links = kept;
    }
}
