//! `vswitchd` as a process, up to the point where it would start: what it prints, and its exit
//! code.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vswitchd.example.toml");

fn vswitchd(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vswitchd"));
    command.args(args).env_remove("VSWITCH_LOG").env_remove("NOTIFY_SOCKET");
    command
}

fn output(args: &[&str]) -> Output {
    vswitchd(args).output().expect("vswitchd runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Exit code, stdout and stderr.
fn outcome(output: &Output) -> (Option<i32>, &str, &str) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A file with this text, without hugepages (others may use them), and its path.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("vswitchd.toml");
    std::fs::write(&path, text).expect("a file");
    let path = path.display().to_string();
    (dir, path)
}

fn socket_in(dir: &Path) -> String {
    dir.join("control").display().to_string()
}

#[test]
fn a_good_file_is_ok() {
    let (dir, _) = file("");
    let text = format!("[dpdk]\nhugepages = false\nmemory_mb = 64\n[control]\nsocket = {:?}\n", socket_in(dir.path()));
    let (_dir, path) = file(&text);
    let output = output(&["--config", &path, "--check"]);
    let (code, stdout, stderr) = outcome(&output);
    let warned = stderr.lines().all(|line| line.contains(": warning: "));
    assert_eq!((code, stdout, warned), (Some(0), &*format!("{path}: ok\n"), true), "{stderr}");
}

#[test]
fn a_bad_file_is_refused_with_everything_that_is_wrong() {
    let (_dir, path) = file(
        "[dpdk]\nhugepages = false\nmain_core = 999\nmemmory_mb = 1\n[control]\nsocket = \"/nonexistent/dir/s\"\n[[bridge]]\n\
         name = \"b\"\n[[bridge.port]]\nname = \"p\"\ntype = \"af_packet\"\ninterface = \"config-no-such\"\nmtu = 1\n",
    );
    let checked = output(&["--config", &path, "--check"]);
    let (code, stdout, stderr) = outcome(&checked);
    assert_eq!((code, stdout), (Some(78), ""), "{stderr}");
    let starts = [
        (3, "13: main_core: core 999 does not exist, "),
        (4, "1: memmory_mb: unknown key; did you mean memory_mb? "),
        (6, "10: socket: there is no directory \"/nonexistent/dir\"; "),
        (12, "13: interface: "),
        (13, "7: mtu: 1 is out of range; use 68 to 9702"),
    ];
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{stderr}");
    for (line, (number, start)) in lines.iter().zip(starts) {
        assert!(line.starts_with(&format!("{path}:{number}:{start}")), "{line}\nshould start with :{number}:{start}");
    }
    // The same without --check: nothing starts.
    let refused = output(&["--config", &path]);
    assert_eq!(outcome(&refused), (Some(78), "", stderr));
    assert!(!Path::new("/nonexistent").exists());
}

#[test]
fn a_refusal_can_be_read_as_json() {
    let (_dir, path) = file("x = 1\ny = 2\n");
    let output = output(&["--config", &path, "--log-format", "json"]);
    let (code, _, stderr) = outcome(&output);
    assert_eq!(code, Some(78), "{stderr}");
    let messages: Vec<_> = stderr
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .map(|event| (event["level"].clone(), event["message"].as_str().unwrap_or_default().to_owned()))
        .collect();
    assert!(messages.len() >= 2, "{stderr}");
    for (i, key) in ["x", "y"].iter().enumerate() {
        assert_eq!(messages[i].0, "ERROR");
        assert!(messages[i].1.starts_with(&format!("{path}:{}:1: {key}: unknown key; ", i + 1)), "{messages:?}");
    }
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let missing = output(&["--config", "/nonexistent/vswitchd.toml"]);
    let expected = "/nonexistent/vswitchd.toml: cannot be read: No such file or directory (os error 2); name an existing file \
                    with --config\n";
    assert_eq!(outcome(&missing), (Some(78), "", expected));
    let directory = output(&["--config", "/", "--check"]);
    assert_eq!(outcome(&directory), (Some(78), "", "/: is a directory; name a file with --config\n"));
}

#[test]
fn a_socket_in_use_is_refused_before_anything_starts() {
    let (dir, _) = file("");
    let socket = socket_in(dir.path());
    let _listener = UnixListener::bind(&socket).expect("a socket");
    let (_dir, path) = file(&format!("[dpdk]\nhugepages = false\n[control]\nsocket = {socket:?}\n"));
    for args in [&["--config", &path, "--check"][..], &["--config", &path]] {
        let output = output(args);
        let (code, _, stderr) = outcome(&output);
        let expected = format!("{path}:4:10: socket: another process listens on {socket:?}; ");
        assert_eq!(code, Some(78), "{args:?}: {stderr}");
        assert!(stderr.lines().any(|line| line.starts_with(&expected)), "{args:?}: {stderr}");
    }
    // A switch may run by the file.
    assert_eq!(outcome(&output(&["--config", &path, "--check-file"])), (Some(0), &*format!("{path}: ok\n"), ""));
    let (_dir, wrong) = file("x = 1\n");
    assert_eq!(output(&["--config", &wrong, "--check-file"]).status.code(), Some(78));
}

#[test]
fn wrong_usage_is_told() {
    for args in
        [&[][..], &["--config"], &["--config", EXAMPLE, "--log-level", "loud"], &["--config", EXAMPLE, "--daemon"]]
    {
        let output = output(args);
        let (code, stdout, stderr) = outcome(&output);
        assert_eq!((code, stdout), (Some(2), ""), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: "), "{args:?}: {stderr}");
    }
    let output =
        vswitchd(&["--config", EXAMPLE, "--check"]).env("VSWITCH_LOG", "loud").output().expect("vswitchd runs");
    let (code, _, stderr) = outcome(&output);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("of $VSWITCH_LOG: \"loud\" is no level; use off, error, warn"), "{stderr}");
}

#[test]
fn the_version_names_dpdk_and_the_cpu() {
    let output = output(&["--version"]);
    let (code, stdout, stderr) = outcome(&output);
    assert_eq!((code, stderr), (Some(0), ""));
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[0], concat!("vswitchd ", env!("CARGO_PKG_VERSION")));
    let dpdk = if cfg!(feature = "dpdk") { "DPDK: built with 22.11" } else { "DPDK: none" };
    assert!(lines[1].starts_with(dpdk), "{stdout}");
    assert!(["CPU: x86-64-v3", "CPU: x86-64-v2"].contains(&lines[2]), "{stdout}");
}
