//! A client that names devices, sockets and files which are not his to name.

use crate::common::{Switch, unique};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";

/// Clients may name sockets and captures below one directory of the switch's own.
fn switch() -> (Switch, PathBuf) {
    let paths = "[paths]\nsockets = [\"@DIR@/in\"]\nmemif = [\"@DIR@/in\"]\ncaptures = [\"@DIR@/in\"]\n\n";
    // (The harness allows one more driver than there are by default.)
    let prefix = format!("vt{}-{}", std::process::id(), unique());
    let dpdk = format!("[dpdk]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\n\n");
    let switch = Switch::start(&[&dpdk, paths, BRIDGE].concat());
    let at = switch.dir().to_owned();
    fs::create_dir(at.join("in")).expect("made");
    (switch, at)
}

fn add(switch: &Switch, arguments: &[&str]) -> Output {
    switch.vsctl(&[&["--json", "add-port", "br0", "p", "--type"], arguments].concat())
}

/// Asserts that the request is refused for what it says, and that the switch lives.
fn assert_invalid(switch: &Switch, arguments: &[&str], why: &str) {
    let output = add(switch, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("INVALID_ARGUMENT"), "{arguments:?}: {said}");
    assert!(said.contains(why), "{arguments:?}: {said}");
}

/// Names of all drivers that DPDK's plugins bring here.
fn plugins() -> Vec<String> {
    let lib = Path::new("/usr/lib/x86_64-linux-gnu/dpdk");
    let directory = fs::read_dir(lib)
        .expect("DPDK's plugins")
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("pmds-"));
    let files = fs::read_dir(directory.expect("a directory of plugins").path()).expect("readable").flatten();
    let mut names: Vec<_> = files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            Some(name.strip_prefix("librte_")?.split('.').next()?.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn no_other_driver_can_be_named() {
    let (switch, at) = switch();
    let proof = at.join("proof");
    let plugins = plugins();
    assert!(plugins.len() > 100, "{plugins:?}");
    let allowed = ["net_af_xdp", "net_memif", "net_null", "net_pcap", "net_ring", "net_virtio_user"];
    let names = plugins.iter().map(String::as_str).filter(|name| !allowed.contains(name));
    // Names of drivers that are not their plugin's, and older ones that DPDK still takes.
    let more =
        ["event_dsw", "eth_null", "eth_pcap", "eth_ring", "eth_bond", "virtio_user", "crypto_null", "net_vdev_netvsc"];
    for name in names.chain(more) {
        assert_invalid(&switch, &["dpdk", "--devargs", &format!("{name}0")], "its driver is not allowed");
    }
    for (devargs, why) in [
        (format!("net_failsafe0,exec(touch${{IFS}}{})", proof.display()), "its driver is not allowed"),
        (format!("net_failsafe0,exec(touch {})", proof.display()), "is no device"),
        ("net_null0,dev(net_failsafe0)".to_owned(), "it is no key=value"),
        ("net_ring0,internal=0x1000".to_owned(), "it is not allowed"),
        ("net_af_xdp0,iface=lo,xdp_prog=/etc/passwd".to_owned(), "it is not allowed"),
    ] {
        assert_invalid(&switch, &["dpdk", "--devargs", &devargs], why);
    }
    assert!(!proof.exists());
    assert!(add(&switch, &["dpdk", "--devargs", "net_null0,size=64"]).status.success(), "others are as ever");
    assert!(switch.vsctl(&["health"]).status.success());
}

#[test]
fn no_path_leads_out_of_its_directory() {
    let (switch, at) = switch();
    fs::write(at.join("precious"), "precious").expect("written");
    fs::create_dir(at.join("out")).expect("made");
    symlink(at.join("precious"), at.join("in/file")).expect("linked");
    symlink(at.join("out"), at.join("in/way")).expect("linked");
    symlink(at.join("in/loop"), at.join("in/loop")).expect("linked");
    let inside = at.join("in").display().to_string();
    let outside = at.display().to_string();
    let tricks = [
        (format!("{outside}/precious"), "may not name"),
        (format!("{outside}/new"), "may not name"),
        (format!("{inside}/../new"), "may not name"),
        (format!("{inside}/a/../../new"), "may not name"),
        (format!("{inside}/./new"), "may not name"),
        (format!("{inside}//new"), "may not name"),
        (format!("/{inside}/new"), "may not name"),
        (format!("{inside}/"), "may not name"),
        (inside.clone(), "may not name"),
        (format!("{inside}er/new"), "may not name"),
        ("new".to_owned(), ""),
        ("../new".to_owned(), ""),
        ("/dev/null".to_owned(), "may not name"),
        ("/proc/self/fd/1".to_owned(), "may not name"),
        ("/proc/self/root/tmp/new".to_owned(), "may not name"),
        (format!("{inside}/a\nb"), "may not name"),
        (format!("{inside}/a\u{1b}[2Jb"), "may not name"),
        (format!("{inside}/file"), "is a link"),
        (format!("{inside}/way/new"), "is a link"),
        (format!("{inside}/loop"), "is a link"),
        (format!("{inside}/loop/new"), "is a link"),
    ];
    for (path, why) in &tricks {
        assert_invalid(&switch, &["pcap", "--tx-file", path], why);
        assert_invalid(&switch, &["pcap", "--rx-file", path], why);
        for mode in ["client", "server"] {
            assert_invalid(&switch, &["vhost-user", "--path", path, "--mode", mode], why);
        }
        let printable = !path.chars().any(char::is_control);
        let why = if printable { *why } else { "is no device" };
        for devargs in [
            format!("net_pcap0,tx_pcap={path}"),
            format!("net_virtio_user0,path={path},server=1"),
            format!("net_memif0,role=server,socket={path},socket-abstract=no"),
            format!("net_memif0,socket={path},socket-abstract=no"),
        ] {
            assert_invalid(&switch, &["dpdk", "--devargs", &devargs], why);
        }
    }
    assert_eq!(fs::read(at.join("precious")).expect("there"), b"precious");
    assert_eq!(fs::read_dir(at.join("out")).expect("there").count(), 0);
    let own: Vec<_> = fs::read_dir(&at).expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert!(own.iter().all(|name| name != "new"), "{own:?}");
    assert!(switch.vsctl(&["health"]).status.success());
}

/// What is in the directory already is the switch's own capture, or it stays as it is.
#[test]
fn a_capture_replaces_captures_only() {
    let (switch, at) = switch();
    let file = at.join("in/out.pcap");
    let path = file.to_str().expect("UTF-8");
    for _ in 0..2 {
        switch.vsctl_ok(&["add-port", "br0", "p", "--type", "pcap", "--tx-file", path]);
        switch.vsctl_ok(&["del-port", "br0", "p"]);
        assert_eq!(fs::metadata(&file).expect("written").len(), 24, "the header of a capture");
    }
    fs::write(&file, "precious").expect("written");
    let refused = add(&switch, &["pcap", "--tx-file", path]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(fs::read(&file).expect("there"), b"precious");
}

/// A Pod makes a link in its own directory after its port was added. The switch connects to the
/// Pod's own socket, later, and to nothing else.
#[test]
fn a_link_of_a_pod_leads_to_no_other_pods_socket() {
    let (switch, at) = switch();
    for pod in ["in/a", "in/b"] {
        fs::create_dir(at.join(pod)).expect("made");
    }
    let (own, other) = (at.join("in/a/net.sock"), at.join("in/b/net.sock"));
    let foreign = UnixListener::bind(&other).expect("bound");
    foreign.set_nonblocking(true).expect("set");
    switch.vsctl_ok(&["add-port", "br0", "a", "--type", "vhost-user", "--path", own.to_str().expect("UTF-8")]);
    // The library tries all ports one after the other, once a second. When it has come to a port
    // that was added later, it has tried the link.
    symlink(&other, &own).expect("linked");
    for round in 0..3 {
        let path = at.join(format!("in/witness{round}"));
        let name = format!("w{round}");
        switch.vsctl_ok(&["add-port", "br0", &name, "--type", "vhost-user", "--path", path.to_str().expect("UTF-8")]);
        let witness = UnixListener::bind(&path).expect("bound");
        drop(witness.accept().expect("the switch connects"));
    }
    assert!(foreign.accept().is_err(), "the switch connected to another Pod's socket");
    fs::remove_file(&own).expect("removed");
    let listener = UnixListener::bind(&own).expect("bound");
    let (mut guest, _) = listener.accept().expect("the switch connects to the Pod's own socket");
    // VHOST_USER_GET_FEATURES: the switch serves it.
    guest.write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]).expect("sent");
    guest.set_read_timeout(Some(SOON)).expect("set");
    let mut answer = [0; 20];
    std::io::Read::read_exact(&mut guest, &mut answer).expect("an answer");
    assert_eq!(answer[0], 1);
    assert!(foreign.accept().is_err());
}
