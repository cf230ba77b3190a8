//! Time and memory of a large cluster, printed. It asserts only that all is told.

use super::follow::program;
use super::objects::pinned;
use super::scene::Scene;
use crate::common::NODE;
use serde_json::json;
use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};
use vswitch_testapi::Server;

const PODS: usize = 20_000;
const POLICIES: usize = 5_000;
const NAMESPACES: usize = 200;

/// Pods of this Node.
const LOCAL: usize = 100;

fn fill(server: &Server) {
    let apply = |object| drop(server.apply(object).expect("it is right"));
    pinned().into_iter().for_each(apply);
    for i in 0..NAMESPACES {
        let labels = json!({"env": format!("e{}", i % 10)});
        apply(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("n{i}"), "labels": labels}}),
        );
    }
    for i in 0..PODS {
        let (node, net) = if i < LOCAL { (NODE, 0) } else { ("k8s-node-worker-1", 64 + i / 250) };
        let address = format!("10.{}.{}.{}", if net == 0 { 10 } else { 11 }, net % 256, 20 + i % 230);
        apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{i}"), "namespace": format!("n{}", i % NAMESPACES),
                "labels": {"app": format!("a{}", i % 50), "pod-template-hash": format!("{i:x}")},
                "annotations": {"vswitch/port": format!("p{i}"), "vswitch/mac": format!("02:00:00:00:{:02x}:{:02x}", i / 256 % 256, i % 256)}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "registry.example/app:1",
                "ports": [{"containerPort": 8080, "name": "http"}], "env": [{"name": "A", "value": "b"}]}]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
        }));
    }
    for i in 0..POLICIES {
        let peer = json!({"podSelector": {"matchLabels": {"app": format!("a{}", i % 50)}}});
        apply(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": format!("np{i}"), "namespace": format!("n{}", i % NAMESPACES)},
            "spec": {"podSelector": {"matchLabels": {"app": format!("a{}", (i + i / NAMESPACES) % 50)}},
                "ingress": [{"from": [peer], "ports": [{"port": 8080}]}]},
        }));
    }
}

/// The most memory that a process has had, in MiB.
fn peak(process: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? / 1024)
}

#[test]
#[ignore = "a measurement: cargo nextest run --run-ignored only -E 'test(=cluster::bench::a_large_cluster)' --no-capture"]
#[allow(clippy::print_stdout, reason = "it is what it is for")]
fn a_large_cluster() {
    let scene = Scene::new();
    fill(&scene.server);
    let out = scene.place.dir.path().join("printed");
    let begin = Instant::now();
    let mut command = program(&scene, &["--print"]);
    command.stdout(File::create(&out).expect("made")).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let mut most = 0;
    while child.try_wait().expect("it runs").is_none() {
        most = peak(child.id()).unwrap_or(most);
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = std::fs::read_to_string(&out).expect("it printed");
    let policies = text.lines().filter(|line| line.contains("cluster/networking.k8s.io:0 NetworkPolicy ")).count();
    println!(
        "{PODS} Pods, {POLICIES} policies: {:.1} s, at most {most} MiB; {policies} policies are of this Node",
        begin.elapsed().as_secs_f64()
    );
    assert!(policies > 0);
}
