//! The program for other processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const TIERS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tiers.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: tiers, singular: tier, kind: Tier}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: example.com/v1
kind: Tier
metadata: {name: first}
";

/// Ends the program with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn ask(address: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn it_loads_manifests_and_says_where_it_listens() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("tiers.yaml"), TIERS).unwrap();
    let config = directory.path().join("config");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vswitch-testapi"));
    command.arg("--kubeconfig-out").arg(&config).arg("--crds").arg(directory.path()).arg("--rbac");
    command.args(["--token", "t1=root=system:masters", "--token", "t2=bob"]).stdout(Stdio::piped());
    let mut program = Ends(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on ").unwrap().trim();
    let tier = ask(address, "/apis/example.com/v1/tiers/first", "t1");
    assert!(tier.starts_with("HTTP/1.1 200") && tier.contains("\"kind\":\"Tier\""), "{tier}");
    assert!(ask(address, "/apis/example.com/v1/tiers", "t2").starts_with("HTTP/1.1 403"));
    assert!(ask(address, "/apis/example.com/v1/tiers", "t3").starts_with("HTTP/1.1 401"));
    assert!(std::fs::read_to_string(config).unwrap().contains(&format!("http://{address}/testapi/as/t1")));
}

#[test]
fn a_manifest_that_is_refused_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("wrong.yaml"), "apiVersion: none/v1\nkind: None\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vswitch-testapi"));
    let output = command.arg("--crds").arg(directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("wrong.yaml") && said.contains("no matches for kind"), "{said}");
}
