//! The program.

use crate::agent::Agent;
use crate::cli::Cli;
use crate::problem::Problem;
use crate::project::text;
use std::io::Write;

/// Runs as the arguments say; the exit code.
pub async fn run(cli: &Cli, out: &mut (dyn Write + Send)) -> u8 {
    let beside: Vec<_> = cli.node_config.iter().cloned().collect();
    let mut agent = Agent::new(&cli.dir, &beside, &cli.node, cli.strict);
    agent.scan();
    tell(agent.problems());
    let _ = out.write_all(text(agent.projection(), true).as_bytes());
    u8::from(agent.is_wrong())
}

fn tell(problems: &[Problem]) {
    for problem in problems {
        if problem.is_error() {
            tracing::error!("{problem}");
        } else {
            tracing::warn!("{problem}");
        }
    }
}
