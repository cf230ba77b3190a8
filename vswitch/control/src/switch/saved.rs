//! Connections over a restart: read before the first port opens, written when the last worker has
//! stopped.

use crate::stored;
use std::path::Path;
use std::time::Instant;
use vswitch_conntrack::Moment;
use vswitch_dataplane::conntrack::Conntrack;
use vswitch_dataplane::time::{Millis, unix_ms};
use vswitch_dpdk::process::boottime_ms;

/// Says which boot of the machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Reads what [`save`] wrote into an empty table. Whatever is wrong with the file is logged, and
/// the table stays empty: the switch starts all the same.
pub(super) fn restore(conntrack: &Conntrack, file: &Path) {
    let begin = Instant::now();
    let opened = stored::open(file);
    let read = match opened {
        Ok(None) => {
            tracing::info!(file = %file.display(), "no connections of before: there is no such file");
            return;
        }
        Ok(Some((from, _))) => conntrack.tracker().restore(Millis::now().0, &moment(), from),
        Err(error) => Err(error.into()),
    };
    match read {
        Ok(restored) => tracing::info!(
            connections = restored.connections,
            expired = restored.expired,
            stopped_ms = restored.elapsed_ms,
            took_ms = ms(begin),
            "connections of before the stop are there again"
        ),
        Err(error) => {
            let aside = stored::put_aside(file).map_or_else(|_| String::new(), |path| path.display().to_string());
            tracing::error!(
                file = %file.display(), %error, aside,
                "no connection of before the stop is there: what was established begins anew"
            );
        }
    }
}

/// The file is used up: what happens to these connections from now on it does not know. Before the
/// first port opens.
pub(super) fn use_up(file: &Path) {
    if let Err(error) = stored::remove(file) {
        tracing::error!(
            file = %file.display(), %error,
            "connections cannot be removed from the disk: if the switch is killed now, its next start takes them for living ones; remove the file"
        );
    }
}

/// Writes all connections. Nobody tracks any more, but for workers that do not move (`stuck`): what
/// those are in the middle of is left out.
pub(super) fn save(conntrack: &Conntrack, file: &Path, stuck: &[usize]) {
    let begin = Instant::now();
    match stored::replace(file, |to| conntrack.tracker().save(Millis::now().0, &moment(), to)) {
        Ok(saved) => tracing::info!(
            file = %file.display(),
            connections = saved.connections,
            bytes = saved.bytes,
            left_out = saved.left_out,
            stuck_workers = stuck.len(),
            took_ms = ms(begin),
            "connections are written for the next start"
        ),
        Err(error) => {
            tracing::error!(file = %file.display(), %error, "connections are lost: they cannot be written");
        }
    }
}

/// The machine's clocks.
fn moment() -> Moment {
    let boot = std::fs::read_to_string(BOOT_ID).ok().and_then(|text| boot(&text));
    if boot.is_none() {
        tracing::warn!("{BOOT_ID} cannot be read: steps of the clock while the switch is stopped count");
    }
    Moment { unix_ms: unix_ms(), boot: boot.unwrap_or_default(), boot_ms: boottime_ms() }
}

/// A UUID of the kernel (random(4)) as a number.
fn boot(text: &str) -> Option<u128> {
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

fn ms(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_conntrack::Config;
    use vswitch_testkit::double::connect;

    fn conntrack(connections_max: usize) -> Conntrack {
        Conntrack::new(Config { connections_max })
    }

    fn count(conntrack: &Conntrack) -> u64 {
        conntrack.tracker().counts().connections
    }

    #[test]
    fn connections_are_read_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("connections");
        let first = conntrack(64);
        restore(&first, &file);
        (0..40).for_each(|port| connect(&first, 1, port, 0));
        save(&first, &file, &[]);
        let second = conntrack(64);
        restore(&second, &file);
        use_up(&file);
        assert_eq!((count(&second), file.exists()), (40, false));
        let third = conntrack(64);
        restore(&third, &file);
        assert_eq!(count(&third), 0, "whoever was killed has none");
    }

    #[test]
    fn the_boot_and_its_time_are_known() {
        assert_eq!(boot("00000000-0000-0000-0000-00000000002a\n"), Some(42));
        assert_eq!(boot(""), None);
        let (first, second) = (moment(), moment());
        assert!(first.boot != 0 && first.boot == second.boot, "{first:?} {second:?}");
        assert!(0 < first.boot_ms && first.boot_ms <= second.boot_ms, "{first:?} {second:?}");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_put_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("connections");
        let first = conntrack(64);
        (0..40).for_each(|port| connect(&first, 1, port, 0));
        save(&first, &file, &[]);
        let small = conntrack(39);
        restore(&small, &file);
        assert_eq!((count(&small), file.exists()), (0, false));
        assert!(dir.path().join("connections.refused").exists());
        std::fs::create_dir(&file).expect("a directory");
        restore(&small, &file);
        save(&small, &file, &[]);
        assert_eq!(count(&small), 0);
    }
}
