//! What several tests need.

use std::path::PathBuf;
use vswitch_agent::kinds::{Document, understand};
use vswitch_agent::model::Model;
use vswitch_agent::problem::Problem;
use vswitch_agent::project::{Projection, project};
use vswitch_agent::source::documents;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind};

pub const NODE: &str = "k8s-node-control-plane";

/// The head of a Kubernetes policy `a/p`.
pub const K8S: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\n";
/// The head of a ClusterNetworkPolicy `p`.
pub const CLUSTER: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n";

/// The cluster of Antrea's pipeline document.
pub fn cluster() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/antrea-cluster")
}

/// Its files, by name.
pub fn files() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(cluster()).expect("the cluster is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).expect("readable"))).collect()
}

/// Documents and problems of a text.
pub fn read(name: &str, text: &str) -> (Vec<Document>, Vec<Problem>) {
    understand(name, documents(text).expect("YAML"))
}

/// All of a text and the Node of the document's cluster.
pub fn projected(text: &str) -> (Projection, Vec<Problem>) {
    let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    let (mut all, mut problems) = read("test.yaml", text);
    all.extend(read("nodes.yaml", &nodes).0);
    let (model, more) = Model::new(all);
    problems.extend(more);
    let (projection, more) = project(&model, NODE);
    problems.extend(more);
    (projection, problems)
}

/// Lines that people see.
pub fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// A Pod's document.
pub fn pod(namespace: &str, name: &str, labels: &str, node: &str, address: &str, more: &str) -> String {
    let last = address.rsplit('.').next().unwrap_or("1");
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}, \
         annotations: {{vswitch/port: {namespace}-{name}, vswitch/mac: '02:00:00:00:00:{:02x}'}}}}\n\
         spec: {{nodeName: {node}{more}}}\nstatus: {{podIP: {address}}}\n",
        last.parse::<u8>().unwrap_or(1)
    )
}

/// A container whose port http has this number.
pub fn http(port: u16) -> String {
    format!(", containers: [{{name: c, image: x, ports: [{{name: http, containerPort: {port}}}]}}]")
}

/// Namespaces a (prod) and b (test); Pods web (two, of other numbers for http), db, and one on
/// another Node.
pub fn pods() -> String {
    [
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {env: prod}}\n".to_owned(),
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b, labels: {env: test}}\n".to_owned(),
        pod("a", "web1", "app: web", NODE, "10.10.0.11", &http(8080)),
        pod("a", "web2", "app: web", NODE, "10.10.0.12", &http(9090)),
        pod("a", "far", "app: web", "k8s-node-worker-1", "10.10.1.13", &http(8080)),
        pod("b", "db", "app: db", NODE, "10.10.0.14", ""),
        pod("b", "host", "app: web", &format!("{NODE}, hostNetwork: true"), "192.168.77.102", ""),
    ]
    .concat()
}

/// All of a text that has nothing wrong.
pub fn good(text: &str) -> Projection {
    let (projection, problems) = projected(text);
    let errors: Vec<_> = problems.into_iter().filter(|problem| problem.is_error()).collect();
    assert_eq!(lines(&errors), [""; 0], "{text}");
    projection
}

/// An object that is there.
pub fn object<'a>(projection: &'a Projection, kind: Kind, name: &str) -> &'a Object {
    let found = projection.objects.get(&(kind as i32, name.to_owned()));
    found
        .and_then(|projected| projected.object.object.as_ref())
        .unwrap_or_else(|| panic!("no {kind:?} {name:?} among {:#?}", projection.objects.keys().collect::<Vec<_>>()))
}

/// Names of the policies that the switch is told.
pub fn policies(projection: &Projection) -> Vec<&str> {
    let of_kind = projection.objects.keys().filter(|(kind, _)| *kind == Kind::NetworkPolicy as i32);
    of_kind.map(|(_, name)| name.as_str()).collect()
}

/// Pods of an applied-to group.
pub fn applied(projection: &Projection, group: &str) -> Vec<String> {
    let Object::AppliedToGroup(group) = object(projection, Kind::AppliedToGroup, group) else { panic!("a group") };
    group.pods.clone()
}

/// Endpoints in short.
pub fn endpoints(projection: &Projection, name: &str) -> Vec<String> {
    let Object::Endpoints(set) = object(projection, Kind::Endpoints, name) else { panic!("endpoints") };
    let short = |e: &v1::Endpoint| {
        let states = [(e.ready, "ready"), (e.serving, "serving"), (e.terminating, "terminating")];
        let states: Vec<_> = states.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        format!("{}:{} {} {}", e.address, e.port, e.node, states.join(","))
    };
    set.endpoints.iter().map(short).collect()
}
