//! The real `kubectl` on both servers. Without one in the path, one line says that it is skipped.

use std::path::Path;
use std::process::Command;

use vswitch_testapi::AnyServer;

const FIRST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {x: one}}
data: {key: '1'}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  automountServiceAccountToken: false
  containers:
  - {name: c, image: example.invalid/c}
  - {name: d, image: example.invalid/d}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.kubectl.example.com}
spec:
  group: kubectl.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, shortNames: [thg]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              count: {type: integer}
";
const THING: &str = "
apiVersion: kubectl.example.com/v1
kind: Thing
metadata: {name: t}
spec: {count: 1}
";
const EVENT: &str = "
apiVersion: v1
kind: Event
metadata: {name: e, namespace: default}
involvedObject: {kind: ConfigMap, name: a, namespace: default}
reason: PolicyRefused
message: because of this
type: Warning
";

struct Kubectl<'a> {
    directory: &'a Path,
}

impl Kubectl<'_> {
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.directory.join("config"));
        command.arg("--cache-dir").arg(self.directory.join("cache"));
        let output = command.args(arguments).current_dir(self.directory).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(text) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    #[track_caller]
    fn says(&self, arguments: &[&str], words: &str) -> String {
        let text = self.run(arguments).unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"));
        assert!(text.contains(words), "kubectl {arguments:?}: no {words:?} in {text}");
        text
    }
}

#[test]
fn kubectl_works_with_both_servers() {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        eprintln!("skipped: there is no kubectl");
        return;
    }
    for server in AnyServer::both(&[("admin", "root", &["system:masters"])]).unwrap() {
        let directory = tempfile::tempdir().unwrap();
        server.kubeconfig(&directory.path().join("config"), Some("admin")).unwrap();
        for (name, text) in [("first.yaml", FIRST), ("thing.yaml", THING), ("event.yaml", EVENT)] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        session(&Kubectl { directory: directory.path() });
    }
}

fn session(kubectl: &Kubectl<'_>) {
    kubectl.says(&["apply", "-f", "first.yaml"], "configmap/a created");
    let again = kubectl.says(&["apply", "-f", "first.yaml"], "configmap/a unchanged");
    assert!(again.contains("pod/p unchanged"), "{again}");
    let changed = FIRST.replace("key: '1'", "other: '2'").replace("example.invalid/c", "example.invalid/new");
    std::fs::write(kubectl.directory.join("first.yaml"), changed).unwrap();
    kubectl.says(&["apply", "-f", "first.yaml"], "pod/p configured");
    let yaml = kubectl.says(&["get", "configmap", "a", "-o", "yaml"], "other: \"2\"");
    assert!(!yaml.contains("\n  key:"), "{yaml}");
    kubectl.says(&["get", "pod", "p", "-o", "jsonpath={.spec.containers[*].name}"], "c d");
    kubectl.says(&["label", "configmap", "a", "y=two"], "configmap/a labeled");
    kubectl.says(&["get", "configmap", "-l", "x in (one),y=two", "-o", "name"], "configmap/a");
    kubectl.says(&["annotate", "configmap", "a", "z=three"], "configmap/a annotated");
    kubectl.says(&["label", "configmap", "a", "y-"], "configmap/a");
    kubectl.says(&["taint", "node", "n1", "example.com/t=1:NoSchedule"], "node/n1 tainted");
    kubectl.says(&["get", "node", "n1", "-o", "jsonpath={.spec.taints[*].key}"], "example.com/t");
    kubectl.says(&["taint", "node", "n1", "example.com/t-"], "node/n1 untainted");

    let name = "crd/things.kubectl.example.com";
    kubectl.says(&["wait", "--for=condition=Established", name, "--timeout=60s"], "condition met");
    kubectl.says(&["create", "-f", "thing.yaml"], "thing.kubectl.example.com/t created");
    kubectl.says(&["get", "thg", "t", "-o", "jsonpath={.spec.count}"], "1");
    kubectl.says(&["patch", "thing", "t", "--type=merge", "-p", "{\"spec\":{\"count\":2}}"], "t patched");
    let refused = kubectl.run(&["patch", "thing", "t", "--type=merge", "-p", "{\"spec\":{\"count\":\"x\"}}"]);
    assert!(refused.unwrap_err().contains("spec.count"));
    let refused = kubectl.run(&["create", "-f", "thing.yaml"]).unwrap_err();
    assert!(refused.contains("things.kubectl.example.com \"t\" already exists"), "{refused}");

    kubectl.says(&["create", "-f", "event.yaml"], "event/e created");
    kubectl.says(&["get", "events", "-o", "jsonpath={.items[*].message}"], "because of this");
    let of_a = ["get", "events", "--field-selector", "involvedObject.name=a", "-o", "name"];
    kubectl.says(&of_a, "event/e");
    kubectl.says(&["delete", "configmap", "a"], "configmap \"a\" deleted");
    assert!(kubectl.run(&["get", "configmap", "a"]).unwrap_err().contains("configmaps \"a\" not found"));
    kubectl.says(&["delete", "-f", "thing.yaml"], "thing.kubectl.example.com \"t\" deleted");
}
