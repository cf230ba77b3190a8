//! The program, as a runtime starts it while no agent is there, with an IPAM plug-in that writes
//! down what it is asked. `tools/tests/test_cni.py` has an agent and a switch.

#![allow(unreachable_pub)] // a program has no other crate that it could be reached from

use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A directory with the IPAM plug-in `fake`.
fn scene(script: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("fake");
    let text = format!("#!/bin/sh\ncat >\"$0.stdin\"\necho $CNI_COMMAND >>\"$0.log\"\n{script}\n");
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
    directory
}

/// Exit status and what was printed.
fn call(directory: &Path, command: &str, config: &Value) -> (i32, Value) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vswitch-cni"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", "c1")
        .env("CNI_IFNAME", "eth0")
        .env("CNI_NETNS", "/run/netns/not-there")
        .env("CNI_PATH", directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(config.to_string().as_bytes()).expect("written");
    let done = child.wait_with_output().expect("it ends");
    let said = serde_json::from_slice(&done.stdout).unwrap_or_default();
    (done.status.code().unwrap_or(-1), said)
}

fn config(directory: &Path) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "n", "type": "vswitch", "socket": directory.join("cni.sock"),
        "stateDir": directory, "ipam": {"type": "fake"},
    })
}

fn asked(directory: &Path) -> String {
    fs::read_to_string(directory.join("fake.log")).unwrap_or_default()
}

#[test]
fn versions_are_told_without_an_agent() {
    let scene = scene("");
    let (status, said) = call(scene.path(), "VERSION", &json!({}));
    assert_eq!((status, &said["supportedVersions"]), (0, &json!(["0.3.1", "0.4.0", "1.0.0", "1.1.0"])));
}

#[test]
fn add_waits_for_an_agent_and_asks_for_no_address() {
    let scene = scene("");
    let (status, said) = call(scene.path(), "ADD", &config(scene.path()));
    assert_eq!((status, said["code"].as_u64(), asked(scene.path()).as_str()), (1, Some(11), ""), "{said}");
    assert_eq!(said["cniVersion"], "1.0.0");
}

#[test]
fn del_gives_addresses_back_without_an_agent() {
    let scene = scene("");
    let note = scene.path().join("c1:eth0.deleted");
    let (status, said) = call(scene.path(), "DEL", &config(scene.path()));
    assert_eq!((status, asked(scene.path()).as_str(), note.exists()), (0, "DEL\n", false), "{said}");
    fs::write(scene.path().join("c1:eth0.json"), "{}").expect("written");
    let (status, said) = call(scene.path(), "DEL", &config(scene.path()));
    assert_eq!((status, asked(scene.path()).as_str(), note.exists()), (0, "DEL\nDEL\n", true), "{said}");
    let stdin: Value =
        serde_json::from_slice(&fs::read(scene.path().join("fake.stdin")).expect("there")).expect("JSON");
    assert_eq!(stdin, config(scene.path()), "IPAM has the whole configuration");
}

#[test]
fn errors_of_ipam_keep_their_codes() {
    let refusal = r#"echo '{"cniVersion": "1.0.0", "code": 123, "msg": "no more"}'; exit 1"#;
    for (script, code, words) in [(refusal, 123, "no more"), ("echo broken >&2; exit 3", 5, "broken")] {
        let scene = scene(script);
        let (status, said) = call(scene.path(), "DEL", &config(scene.path()));
        assert_eq!((status, said["code"].as_u64()), (1, Some(code)), "{said}");
        assert!(said["msg"].as_str().is_some_and(|text| text.contains(words)), "{said}");
    }
}

#[test]
fn an_ipam_plug_in_that_is_older_is_asked_in_its_version() {
    let script = r#"grep -q '"cniVersion":"1.1.0"' "$0.stdin" || exit 0
echo '{"code": 1, "msg": "incompatible"}'; exit 1"#;
    let scene = scene(script);
    let mut newest = config(scene.path());
    newest["cniVersion"] = "1.1.0".into();
    assert_eq!(call(scene.path(), "DEL", &newest).0, 0);
    assert_eq!(asked(scene.path()), "DEL\nDEL\n");
}
