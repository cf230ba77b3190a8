//! `vswitchd`, the daemon. See `vswitch::daemon`.

use std::process::ExitCode;

fn main() -> ExitCode {
    vswitch::daemon::main()
}
