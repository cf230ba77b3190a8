//! `vswitchd`, the daemon. See `vswitch::daemon`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vswitch::daemon::main()
}
