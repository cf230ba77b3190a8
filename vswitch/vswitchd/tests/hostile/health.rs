//! Health tells the truth: what does not move, or cannot be written, is told by name. The switch as
//! a whole is unhealthy only when it does not forward or does not obey.

use crate::bed::{Bed, udp};
use crate::bounded::{Held, LIMIT};
use crate::common::{Switch, number, run, unique, wait_for};
use crate::node;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes of the small disk.
const DISK: &str = "size=320k";

/// A file system of its own that is soon full.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        run(&["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", dir.path().to_str().expect("UTF-8")]);
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes until there is no space.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = fs::File::create(&path).expect("a file");
        while file.write_all(&[7; 512]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run(&["umount", self.path().to_str().expect("UTF-8")]);
    }
}

/// Condition and reason of a part.
fn part(switch: &Switch, name: &str) -> (String, String) {
    let health = switch.json(&["health-show"]);
    let parts = health["parts"].as_array().expect("parts").clone();
    let part = parts.into_iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("{name}: {health:#}"));
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (text(&part["condition"]), text(&part["reason"]))
}

fn is(switch: &Switch, name: &str, condition: &str) -> bool {
    part(switch, name).0 == condition
}

fn is_serving(switch: &Switch, part: &[&str]) -> bool {
    switch.vsctl(&[&["health"], part].concat()).status.success()
}

/// Both files that the switch writes are on a full disk. It is told, what was there stays, and all
/// is written when there is space.
#[test]
fn a_full_disk_is_told_and_what_was_kept_stays() {
    let disk = SmallDisk::new();
    let sections = format!(
        "[antrea]\nstate_dir = {:?}\n\n[conntrack]\nconnections = 65536\nstate_file = {:?}\n",
        disk.path(),
        disk.path().join("connections")
    );
    let mut bed = Bed::with(3, "", &sections);
    node::initialize(&bed);
    node::sync(&bed, 1, node::pod(10));
    let mark = disk.path().join("unwritten");
    wait_for("all of it is written", LIMIT, || disk.path().join("state").exists() && !mark.exists());
    assert_eq!(part(&bed.switch, "disk"), ("good".to_owned(), String::new()));
    let kept = fs::read(disk.path().join("state")).expect("a state");

    let filler = disk.fill();
    node::apply(&bed, node::pod(11));
    wait_for("the full disk is told", LIMIT, || is(&bed.switch, "disk", "degraded"));
    let (_, reason) = part(&bed.switch, "disk");
    assert!(reason.contains("state of the Node: No space left on device"), "{reason}");
    let status = bed.switch.json(&["antrea", "status"]);
    assert!(status["unwritten"].as_str().is_some_and(|why| why.contains("No space left")), "{status:#}");
    wait_for("a probe of the disk is told, and of nothing else", LIMIT, || {
        !is_serving(&bed.switch, &["disk"]) && is_serving(&bed.switch, &["workers"])
    });
    wait_for("the switch is healthy: a restart makes no disk larger", LIMIT, || is_serving(&bed.switch, &[]));
    assert!(is(&bed.switch, "disk", "degraded"));
    wait_for("the log tells of it", LIMIT, || {
        bed.switch.log().contains("degraded: the switch forwards and obeys part=\"disk\"")
    });
    assert_eq!(fs::read(disk.path().join("state")).expect("a state"), kept, "what was kept is whole");
    assert!(mark.exists(), "and known to be behind");

    fs::remove_file(filler).expect("our own file");
    wait_for("there is space again", LIMIT, || is(&bed.switch, "disk", "good") && !mark.exists());
    assert_ne!(fs::read(disk.path().join("state")).expect("a state"), kept);
    wait_for("a probe is told", LIMIT, || is_serving(&bed.switch, &["disk"]));

    // Connections are written at the stop: it is told before that they could not be.
    bed.switch.vsctl_ok(&["antrea", "reset", "--yes"]);
    wait_for("the reset is written", LIMIT, || !mark.exists());
    bed.load(&["flow in_port=p1,ip,actions=ct(commit,zone=1),output:p3"]);
    for source in 1..=50 {
        assert_eq!(bed.ports("p1", &udp(source)), ["p3"]);
    }
    disk.fill();
    wait_for("too little space for connections is told", LIMIT, || {
        part(&bed.switch, "disk").1.contains("connections: a stop loses them")
    });
    bed.switch.terminate();
    let log = bed.switch.log();
    assert!(log.contains("connections are lost: they cannot be written"), "{log}");
}

/// A switch with two workers and a port of a guest.
fn two_workers() -> Switch {
    let prefix = format!("vh{}-{}", std::process::id(), unique());
    Switch::start(&format!(
        "[dpdk]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\nmain_core = 0\nworker_cores = [0, 1]\n\n\
         [worker]\nidle_sleep_us = 1000\n\n[[bridge]]\nname = \"br0\"\n\n\
         [[bridge.port]]\nname = \"guest\"\ntype = \"vhost-user\"\nmode = \"server\"\npath = \"@DIR@/guest.sock\"\n",
    ))
}

#[test]
fn a_worker_that_is_held_makes_the_switch_unhealthy() {
    let switch = two_workers();
    assert!(is(&switch, "workers", "good"));
    let held = Held::thread(&switch, "worker-1");
    wait_for("it is told", LIMIT, || is(&switch, "workers", "failing"));
    let (_, reason) = part(&switch, "workers");
    assert!(reason.starts_with("worker-1 has no heartbeat since "), "{reason}");
    wait_for("probes are told", LIMIT, || !is_serving(&switch, &[]) && !is_serving(&switch, &["workers"]));
    assert!(is_serving(&switch, &["disk"]), "the others are as before");
    drop(held);
    wait_for("it is healthy again", LIMIT, || is_serving(&switch, &[]) && is(&switch, "workers", "good"));
}

#[test]
fn threads_that_are_held_are_told_by_name_and_the_switch_forwards() {
    let switch = two_workers();
    let threads = [("monitor", "monitor"), ("conntrack", "conntrack"), ("vhost", "vhost-events")];
    for (name, _) in threads {
        assert!(is(&switch, name, "good"), "{name}: {:?}", part(&switch, name));
    }
    let held: Vec<Held> = threads.iter().map(|(_, thread)| Held::thread(&switch, thread)).collect();
    for (name, _) in threads {
        wait_for(name, LIMIT, || is(&switch, name, "degraded"));
        wait_for("a probe is told", LIMIT, || !is_serving(&switch, &[name]));
    }
    wait_for("the switch is healthy meanwhile", LIMIT, || is_serving(&switch, &[]));
    switch.vsctl_ok(&["add-br", "obeys"]);
    assert!(threads.iter().all(|(name, _)| is(&switch, name, "degraded")), "they are held still");
    drop(held);
    for (name, _) in threads {
        wait_for("it is good again", LIMIT, || is(&switch, name, "good") && is_serving(&switch, &[name]));
    }
    assert_eq!(number(&switch.json(&["log-show"])["lost"], "error"), 0);
}
