//! The program as people run it: what it prints, and how it ends.

use crate::common::{NODE, cluster, files};
use crate::double::{Switch, kinds_and_names};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use vswitch_proto::antrea::v1::Kind;

fn agent(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vswitch-agent"));
    command.arg("--dir").arg(dir).args(["--node", NODE]).args(more);
    if !more.contains(&"--state") {
        command.arg("--no-state");
    }
    command.env_remove("RUST_LOG").env_remove("VSWITCH_SOCKET").stdin(Stdio::null());
    command
}

fn output(mut command: Command) -> Output {
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn copied() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files() {
        fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

#[test]
fn print_needs_no_switch() {
    let output = output(agent(&cluster(), &["--print"]));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let printed = text(&output.stdout);
    assert!(printed.contains("pods.yaml:3 Pod default/web\nPod {\n    name: \"default/web\",\n"), "{printed}");
}

#[test]
fn what_is_wrong_is_on_stderr_and_in_the_exit_code() {
    let dir = copied();
    fs::write(dir.path().join("wrong.yaml"), "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: 5\n")
        .expect("written");
    let result = output(agent(dir.path(), &["--print"]));
    let errors = text(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{errors}");
    let place = dir.path().join("wrong.yaml");
    let expected = format!("{}:5 Pod a: metadata.labels: invalid type: integer `5`, expected a map", place.display());
    assert!(errors.contains(&expected), "{errors}");
    assert!(text(&result.stdout).contains("default/web"), "what is right is there");
    let strict = output(agent(dir.path(), &["--print", "--strict"]));
    assert_eq!((strict.status.code(), strict.stdout.len()), (Some(1), 0));

    let usage = output(agent(dir.path(), &["--prnt"]));
    assert_eq!(usage.status.code(), Some(2));
    let none = output(agent(&dir.path().join("none"), &["--print"]));
    assert!(
        none.status.code() == Some(1) && text(&none.stderr).contains("/none: No such file"),
        "{}",
        text(&none.stderr)
    );
    let unreachable = output(agent(&cluster(), &["--once", "--socket", "/nonexistent/s"]));
    assert_eq!(unreachable.status.code(), Some(3), "{}", text(&unreachable.stderr));
}

#[test]
fn a_node_config_may_be_beside_the_directory() {
    let dir = copied();
    let nodes = fs::read_to_string(dir.path().join("nodes.yaml")).expect("readable");
    let at = nodes.find("# What Kubernetes does not know").expect("the NodeConfig");
    fs::write(dir.path().join("nodes.yaml"), &nodes[..at]).expect("written");
    let without = output(agent(dir.path(), &["--print"]));
    assert!(
        text(&without.stderr).contains(&format!("{} NodeConfig {NODE}: is not there; ", dir.path().display())),
        "{}",
        text(&without.stderr)
    );
    let beside = tempfile::NamedTempFile::new().expect("a file");
    fs::write(beside.path(), &nodes[at..]).expect("written");
    let path = beside.path().to_str().expect("UTF-8");
    let with = output(agent(dir.path(), &["--print", "--node-config", path]));
    assert_eq!((with.status.code(), text(&with.stderr)), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn once_syncs_and_tells_what_was_refused() {
    let switch = Switch::start().await;
    let socket = switch.socket().to_str().expect("UTF-8").to_owned();
    let once = || output(agent(&cluster(), &["--once", "--socket", &socket]));
    let result = once();
    assert_eq!(result.status.code(), Some(0), "{}", text(&result.stderr));
    assert!(text(&result.stderr).contains("everything told: 31 APPLIED; the gate is open"), "{}", text(&result.stderr));
    switch.state().refused.insert((Kind::Pod as i32, "default/db".to_owned()));
    let result = once();
    assert_eq!(result.status.code(), Some(1));
    assert!(
        text(&result.stderr).contains("pods.yaml:21 Pod default/db: port: PORT: refused by the test; think"),
        "{}",
        text(&result.stderr)
    );
    let rounds: Vec<_> = switch.state().syncs.iter().map(|(begin, _)| begin.round).collect();
    assert_eq!(rounds, [1, 2], "each start counts up");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_knows_what_was_right() {
    let (switch, dir) = (Switch::start().await, copied());
    let state = tempfile::tempdir().expect("a directory");
    let (socket, state) = (switch.socket().to_str().expect("UTF-8"), state.path().to_str().expect("UTF-8"));
    let once = || output(agent(dir.path(), &["--once", "--socket", socket, "--state", state]));
    let told = || kinds_and_names(&switch.state().syncs.last().expect("a sync").1);
    let result = once();
    assert_eq!(result.status.code(), Some(0), "{}", text(&result.stderr));
    let all = told();
    let policy = |name: &String| name.starts_with("NetworkPolicy ");
    assert!(all.iter().any(policy), "{all:?}");
    for entry in fs::read_dir(dir.path()).expect("readable") {
        let path = entry.expect("one").path();
        let documents = fs::read_to_string(&path).expect("readable");
        if documents.contains("kind: NetworkPolicy") || documents.contains("kind: ClusterNetworkPolicy") {
            fs::write(&path, documents.replace("podSelector:", "podSelectors:")).expect("written");
        }
    }
    assert_eq!(once().status.code(), Some(1));
    assert!(all.iter().filter(|name| policy(name)).all(|name| told().contains(name)), "{:?}", told());
    // What is printed is what files say now.
    let print = |more: &[&str]| text(&output(agent(dir.path(), more)).stdout);
    assert_eq!(print(&["--print", "--state", state]), print(&["--print"]));
    // What is deleted goes at the next start.
    fs::remove_file(dir.path().join("egresses.yaml")).expect("removed");
    once();
    assert!(!told().iter().any(|name| name.starts_with("Egress ")), "{:?}", told());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ended with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_watches_until_it_is_told_to_stop() {
    let (dir, mut switch) = (copied(), Switch::start().await);
    let socket = switch.socket().to_str().expect("UTF-8").to_owned();
    let child = agent(dir.path(), &["--socket", &socket]).stderr(Stdio::null()).spawn().expect("it runs");
    let mut running = Running(child);
    wait_until("everything is told", || switch.state().syncs.len() == 1);
    let egresses = dir.path().join("egresses.yaml");
    let changed = fs::read_to_string(&egresses).expect("readable").replace("192.168.77.112", "192.168.77.114");
    fs::write(&egresses, changed).expect("written");
    wait_until("a change is told", || !switch.state().increments.is_empty());
    assert_eq!(kinds_and_names(&switch.state().increments[0].objects), ["Egress egress-web"]);
    switch.restart().await;
    wait_until("the switch that begins anew is told everything", || switch.state().syncs.len() == 1);
    // Signals that end a process by default, and have no use here.
    for name in ["HUP", "USR1", "USR2", "PIPE", "ALRM", "STKFLT", "VTALRM", "PROF", "IO", "PWR"] {
        let kill = Command::new("kill").args([&format!("-{name}"), &running.0.id().to_string()]).status();
        assert!(kill.expect("kill runs").success(), "{name}");
    }
    switch.restart().await;
    wait_until("it goes on", || switch.state().syncs.len() == 1);
    let kill = Command::new("kill").arg(running.0.id().to_string()).status().expect("kill runs");
    assert!(kill.success());
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0));
}

/// A tmpfs over `m` with the first file, and below the mount the second one.
const OVER: &str = r#"set -e
mount -t tmpfs none "$D/m" && cp "$D/first" "$D/m/first.yaml"
"$@" & agent=$!
read step; umount "$D/m"
read step; kill $agent; wait $agent"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_in_a_mount_that_goes_stays() {
    let (dir, switch) = (copied(), Switch::start().await);
    let policy = |name: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: default}}\nspec: {{podSelector: {{}}}}\n"
        )
    };
    fs::create_dir(dir.path().join("m")).expect("made");
    fs::write(dir.path().join("first"), policy("first")).expect("written");
    fs::write(dir.path().join("m/second.yaml"), policy("second")).expect("written");
    let errors = dir.path().join("errors");
    let agent = agent(dir.path(), &["--socket", switch.socket().to_str().expect("UTF-8")]);
    let mut shell = Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-c", OVER, "sh"]).arg(agent.get_program()).args(agent.get_args());
    shell.env("D", dir.path()).stdin(Stdio::piped()).stderr(fs::File::create(&errors).expect("made"));
    let mut running = Running(shell.spawn().expect("unshare runs"));
    let mut steps = running.0.stdin.take().expect("piped");
    let (first, second) = ("NetworkPolicy np:default/first".to_owned(), "NetworkPolicy np:default/second".to_owned());
    let told = |name: &String| {
        let state = switch.state();
        let synced = state.syncs.iter().map(|(_, objects)| objects);
        synced.chain(state.increments.iter().map(|told| &told.objects)).any(|told| kinds_and_names(told).contains(name))
    };
    wait_until("what is in the mount is told", || told(&first));
    assert!(!told(&second), "it is below the mount");
    writeln!(steps, "unmount").expect("it reads");
    wait_until("what was below the mount is told", || told(&second));
    // A file that goes is forgotten at the second scan; a new one is read at the second, too.
    for name in ["third", "fourth"] {
        fs::write(dir.path().join(format!("{name}.yaml")), policy(name)).expect("written");
        wait_until(name, || told(&format!("NetworkPolicy np:default/{name}")));
    }
    assert!(switch.state().increments.iter().all(|told| told.remove.is_empty()), "{:?}", switch.state().increments);
    let errors = || fs::read_to_string(&errors).expect("readable");
    wait_until("it says so", || errors().contains("/m: is another file system now"));
    writeln!(steps, "end").expect("it reads");
    assert!(running.0.wait().is_ok(), "{}", errors());
}
