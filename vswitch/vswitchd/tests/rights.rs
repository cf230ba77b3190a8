//! Rights of a real daemon: users of the machine, clients by TLS, the record of what they did.

use crate::common::{Switch, wait_for};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use vswitch_testkit::certificates::{Authority, EXPIRED, GOOD, Issued};

const LIMIT: Duration = Duration::from_secs(60);

/// Users and a group that the machine has no names for.
const OPERATOR: u32 = 64_321;
const READER: u32 = 64_322;
const STRANGER: u32 = 64_323;
const GROUP: u32 = 64_999;

fn vsctl() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_vswitchd")).with_file_name("vsctl")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// The answer must be a refusal for want of a role.
fn assert_denied(output: &Output, why: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(why), "{why:?} is not in {said:?}");
}

#[test]
fn two_users_of_one_socket_have_roles_of_their_own() {
    let config = format!(
        "[[control.listener]]\npath = \"@DIR@/users.sock\"\nmode = 0o666\nrole = \"operate\"\n\
         users = {{ \"{OPERATOR}\" = \"operate\", \"{READER}\" = \"read\" }}\ngroups = {{ \"{GROUP}\" = \"read\" }}\n\n\
         [[control.listener]]\npath = \"@DIR@/group.sock\"\nmode = 0o620\nowner = \"{READER}\"\ngroup = \"{GROUP}\"\n"
    );
    let switch = Switch::start(&config);
    let _ = switch.open_to_all();
    let socket = switch.dir().join("users.sock");
    let run = |uid: u32, groups: &str, args: &[&str]| {
        let uid = uid.to_string();
        let groups = if groups.is_empty() { vec!["--clear-groups"] } else { vec!["--groups", groups] };
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid, "--regid", &uid]).args(groups).arg(switch.dir().join("vsctl"));
        command.arg("--socket").arg(&socket).args(args).current_dir("/").stdin(Stdio::null());
        command.output().expect("setpriv runs")
    };
    let works = |output: Output| assert!(output.status.success(), "{}", said(&output));
    works(run(OPERATOR, "", &["worker-clear"]));
    assert_denied(&run(OPERATOR, "", &["add-br", "br1"]), "AddBridge needs the role admin; uid=64321");
    works(run(READER, "", &["list-br"]));
    assert_denied(&run(READER, "", &["worker-clear"]), "has the role read on listener unix:");
    assert_denied(&run(STRANGER, "", &["list-br"]), "ListBridges needs the role read; uid=64323");
    works(run(STRANGER, "7,64999", &["list-br"]));
    // Its own role goes before that of its group.
    works(run(OPERATOR, "64999", &["worker-clear"]));
    let log = switch.log();
    assert!(log.contains("rpc=\"AddBridge\"") && log.contains("uid=64321"), "{log}");
    let told = switch.json(&["listener-show"]);
    let listeners = told["listeners"].as_array().expect("a list");
    let facts: Vec<_> = listeners.iter().map(|one| (one["role"].as_str(), one["mapped"].as_bool())).collect();
    assert_eq!(facts, [(Some("admin"), Some(false)), (Some("operate"), Some(true)), (Some("read"), Some(false))]);
    assert!(listeners[1]["denied"].as_u64() >= Some(3), "{told}");
    let own = fs::metadata(switch.dir().join("group.sock")).expect("it is there");
    assert_eq!((own.mode() & 0o7777, own.uid(), own.gid()), (0o620, READER, GROUP));
}

/// A switch with a TLS listener, and certificates.
struct Tls {
    switch: Switch,
    authority: Authority,
    directory: tempfile::TempDir,
    address: String,
}

impl Tls {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new(directory.path(), "ca");
        let Issued { cert, key } = authority.issue("server", "IP:127.0.0.1,DNS:localhost", GOOD);
        let ca = authority.cert();
        let config = format!(
            "[[control.listener]]\naddress = \"127.0.0.1:0\"\nrole = \"admin\"\n\
             tls = {{ cert = {cert:?}, key = {key:?}, client_ca = {ca:?} }}\n\
             sans = {{ \"*.read.example\" = \"read\", \"admin.example\" = \"admin\" }}\n"
        );
        let switch = Switch::start(&config);
        let told = switch.json(&["listener-show"]);
        let name = told["listeners"][1]["name"].as_str().expect("a name");
        let address = name.strip_prefix("tls:").expect("TLS").to_owned();
        Self { switch, authority, directory, address }
    }

    /// `vsctl` by TLS.
    fn vsctl(&self, own: &Issued, args: &[&str]) -> Output {
        let mut command = Command::new(vsctl());
        command.args(["--connect", &self.address]).arg("--cert").arg(&own.cert).arg("--key").arg(&own.key);
        command.arg("--ca").arg(self.authority.cert()).args(args).output().expect("vsctl runs")
    }

    /// What `openssl s_client` says.
    fn s_client(&self, args: &[&str]) -> String {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &self.address, "-alpn", "h2", "-verify_return_error"]);
        command.arg("-CAfile").arg(self.authority.cert()).args(args).current_dir(self.directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("openssl runs");
        let _ = child.stdin.take().expect("piped").write_all(b"Q\n"); // it may have ended
        let output = child.wait_with_output().expect("it ends");
        said(&output)
    }

    fn logged(&self, what: &str) {
        wait_for(what, LIMIT, || self.switch.log().contains(what));
    }
}

#[test]
fn vsctl_by_tls_has_the_role_of_its_name() {
    let tls = Tls::start();
    let admin = tls.authority.issue("admin", "DNS:admin.example", GOOD);
    let reader = tls.authority.issue("reader", "DNS:m.read.example", GOOD);
    let made = tls.vsctl(&admin, &["add-br", "br0"]);
    assert!(made.status.success(), "{}", said(&made));
    tls.logged("principal=\"san=admin.example\"");
    assert!(said(&tls.vsctl(&reader, &["list-br"])).contains("br0"));
    assert_denied(&tls.vsctl(&reader, &["del-br", "br0"]), "DeleteBridge needs the role admin; san=m.read.example");
    let foreign = Authority::new(tls.directory.path(), "foreign").issue("f", "DNS:admin.example", GOOD);
    let expired = tls.authority.issue("expired", "DNS:admin.example", EXPIRED);
    for (own, refusal) in [(&foreign, "unknown_ca"), (&expired, "expired")] {
        let refused = tls.vsctl(own, &["list-br"]);
        assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
        tls.logged(&format!("refusal=\"{refusal}\""));
    }
    let mut half = Command::new(vsctl());
    let half = half.args(["--connect", &tls.address, "list-br"]).output().expect("vsctl runs");
    assert_eq!(half.status.code(), Some(2), "{}", said(&half));
    assert!(said(&half).contains("--connect needs --cert FILE"), "{}", said(&half));
    assert!(tls.switch.vsctl(&["health"]).status.success());
}

#[test]
fn openssl_is_served_by_tls_1_3_and_with_a_certificate_only() {
    let tls = Tls::start();
    let _ = tls.authority.issue("admin", "DNS:admin.example", GOOD);
    let good = tls.s_client(&["-tls1_3", "-cert", "admin.crt", "-key", "admin.key"]);
    assert!(good.contains("Verify return code: 0") && good.contains("ALPN protocol: h2"), "{good}");
    let older = tls.s_client(&["-tls1_2", "-cert", "admin.crt", "-key", "admin.key"]);
    assert!(older.contains("alert protocol version"), "{older}");
    tls.logged("refusal=\"version\"");
    tls.s_client(&["-tls1_3"]);
    tls.logged("refusal=\"no_certificate\"");
}

#[test]
fn the_audit_file_may_be_moved_away_and_trouble_with_it_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("audit/log");
    fs::create_dir(directory.path().join("audit")).expect("made");
    let switch = Switch::start(&format!("audit_file = {file:?}\n"));
    let lines = |file: &Path| -> Vec<Value> {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let has = |file: &Path, names: &str| {
        wait_for(names, LIMIT, || lines(file).iter().any(|line| line["names"] == names));
    };
    switch.vsctl_ok(&["add-br", "br0"]);
    has(&file, "\"br0\"");
    assert_eq!(fs::metadata(&file).expect("made").permissions().mode() & 0o777, 0o640);
    let moved = file.with_extension("1");
    fs::rename(&file, &moved).expect("moved");
    switch.vsctl_ok(&["add-br", "br1"]);
    has(&file, "\"br1\"");
    let old = lines(&moved);
    assert!(old.iter().all(|line| line["names"] != "\"br1\""), "{old:?}");
    fs::remove_dir_all(file.parent().expect("a directory")).expect("removed");
    switch.vsctl_ok(&["add-br", "br2"]);
    let health = || said(&switch.vsctl(&["health-show"]));
    let is_told = || health().lines().any(|line| line.starts_with("audit") && line.contains("degraded"));
    wait_for("the trouble", LIMIT, is_told);
    assert!(switch.vsctl(&["health"]).status.success(), "degraded: it forwards and obeys");
}

#[test]
fn a_pair_that_does_not_fit_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(directory.path(), "ca");
    let (one, other) = (authority.issue("one", "DNS:a", GOOD), authority.issue("other", "DNS:a", GOOD));
    let file = directory.path().join("vswitchd.toml");
    let run = |key: &Path, arguments: &[&str]| {
        let (socket, cert, ca) = (directory.path().join("s"), &one.cert, authority.cert());
        let text = format!(
            "[control]\nsocket = {socket:?}\n[[control.listener]]\naddress = \"127.0.0.1:0\"\n\
             tls = {{ cert = {cert:?}, key = {key:?}, client_ca = {ca:?} }}\n[dpdk]\nhugepages = false\nmemory_mb = 64\n"
        );
        fs::write(&file, text).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_vswitchd"));
        command.arg("--config").arg(&file).args(arguments).output().expect("vswitchd runs")
    };
    let good = run(&one.key, &["--check"]);
    assert!(good.status.success(), "{}", said(&good));
    for arguments in [&["--check"][..], &[]] {
        let refused = run(&other.key, arguments);
        let said = said(&refused);
        assert_eq!(refused.status.code(), Some(78), "{said}");
        assert!(said.contains("tls: certificate") && said.contains("other.key"), "{said}");
    }
}
