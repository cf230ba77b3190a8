//! The host's part: `--host` applies the plan that the switch makes of its objects
//! (`antrea.v1.HostPlan`) to the kernel, and keeps it so.
//!
//! **Design**: [`run`] asks the switch for the plan, `plan` reads it, `apply` compares it with what
//! `kernel`, `nft` and `sysctl` find, and changes what differs. `state` remembers what the agent
//! made. `wake` ends the wait between two looks when the kernel's tables change. Each thing that
//! is not as it should be is a `problem`, told by the log and to the switch (`ReportHost`).
//!
//! **Limits**: the agent asks for the plan, and looks, each period. A plan of thousands of Services
//! takes a look of some ten milliseconds.

mod apply;
mod kernel;
mod messages;
mod nft;
mod plan;
mod problem;
pub mod run;
mod state;
mod sysctl;
mod there;
mod wake;
