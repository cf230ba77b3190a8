//! The configuration file: strict TOML into values, and a look at the machine before anything
//! starts.
//!
//! **Where in the walk**: nowhere; before it. `vswitchd` reads a file at start, and again at SIGHUP
//! ([`crate::running`]). `write` makes such a file of the values.
//!
//! **Design**: two passes that never stop at the first problem. [`ConfigFile::read`] walks the TOML
//! document by hand, so that every complaint has a line and a column, and yields a [`SwitchConfig`]
//! in which a wrong value is replaced by its default. [`ConfigFile::check`] then compares what was
//! asked for with what the [`Environment`] has. Both write into one [`Report`]: one line for each
//! problem, `file:line:column: key: problem; fix`, in the order of the file.
//!
//! **Limits**: [`vswitch_dataplane::limits::CONFIG_LEN_MAX`] bytes; nesting is bounded by the TOML
//! parser (80); a report holds [`PROBLEMS_MAX`] problems and counts the rest; of a file beyond 512
//! KiB only the first syntax error is told. Work and memory are linear in the size of the file.
//!
//! **Threads**: plain values.
//!
//! **Not here**: applying it ([`crate::Switch`]), starting and stopping (the crate `vswitchd`).

mod across;
mod check;
mod conntrack;
mod document;
mod environment;
mod file;
mod listener;
mod listener_value;
mod observe;
mod parse;
mod paths;
mod place;
mod port;
mod process;
pub(crate) mod program;
mod program_keys;
mod report;
mod route;
pub(crate) mod saved;
mod underlay;
mod value;
mod values;
pub(crate) mod write;

pub use environment::Environment;
pub use file::{ConfigFile, parse};
pub use listener_value::{Account, ListenEndpoint, ListenerConfig, Role, San, SanPattern, TlsListen, UnixListen};
pub use paths::PathsConfig;
pub use place::{ConfigKey, Position};
pub use program::{BridgeProgram, PIPELINE_KEYS, PipelineText, StaticMac, TextProblem};
pub use report::{ConfigErrors, PROBLEMS_MAX, Problem, Report, Severity};
pub use saved::SavedFile;
pub use value::{
    AntreaConfig, Compat, ConntrackConfig, DpdkConfig, MetricsAddress, ObserveConfig, ProcessConfig, SOCKET_DEFAULT,
    Saved, SwitchConfig, WorkerConfig, ZoneConfig,
};

#[cfg(test)]
mod tests;
