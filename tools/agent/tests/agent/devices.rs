//! The device plug-in, as a kubelet sees it.

use crate::common::{NODE, cluster};
use crate::double::Switch;
use crate::kubelet::Kubelet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use vswitch_agent::devices::{Config, Devices, Patience, Used};
use vswitch_proto::kubelet::v1beta1::{
    ContainerPreferredAllocationRequest, Empty, PreStartContainerRequest, PreferredAllocationRequest,
};

/// A kubelet's directory, and one for sockets.
fn directories() -> TempDir {
    let above = tempfile::tempdir().expect("a directory");
    fs::create_dir(above.path().join("kubelet")).expect("made");
    above
}

/// The plug-in with five devices, which looks often.
fn plugin(above: &Path) -> Devices {
    let mut config = Config::new(&above.join("kubelet"), 5, &above.join("vhost"), Used::by(|_| false));
    config.patience = Patience { away: Duration::from_millis(100), back: Duration::from_millis(20) };
    config.period = Duration::from_millis(20);
    Devices::start(config)
}

#[tokio::test]
async fn a_kubelet_has_devices_and_gives_them_away() {
    let above = directories();
    let devices = plugin(above.path());
    let mut kubelet = Kubelet::start(&above.path().join("kubelet"), false);
    let told = kubelet.told().await;
    assert_eq!((told.version.as_str(), told.resource_name.as_str()), ("v1beta1", "vswitch.io/vhost"));
    let mut plugin = kubelet.plugin(&told).await;
    let options = plugin.0.get_device_plugin_options(Empty {}).await.expect("options").into_inner();
    assert_eq!(Some(options), told.options);
    assert!(options.get_preferred_allocation_available && !options.pre_start_required);

    let mut list = plugin.devices().await;
    assert_eq!(list.next().await, (5, "Unhealthy".to_owned()), "the switch does not forward yet");
    devices.follow(true);
    assert_eq!(list.next().await, (5, "Healthy".to_owned()));
    devices.follow(false);
    assert_eq!(list.next().await, (5, "Unhealthy".to_owned()));

    let available_device_i_ds = (0..5).rev().map(|i| format!("vhost-{i}")).collect();
    let one = ContainerPreferredAllocationRequest {
        available_device_i_ds,
        must_include_device_i_ds: vec!["vhost-4".to_owned()],
        allocation_size: 2,
    };
    let request = PreferredAllocationRequest { container_requests: vec![one] };
    let answer = plugin.0.get_preferred_allocation(request).await.expect("chosen").into_inner();
    assert_eq!(answer.container_responses[0].device_i_ds, ["vhost-0", "vhost-4"]);

    let answer = plugin.allocate(&["vhost-4", "vhost-0"]).await.expect("allocated");
    let [container] = answer.container_responses.as_slice() else { panic!("one container: {answer:?}") };
    let vhost = above.path().join("vhost");
    let mounts: Vec<_> =
        container.mounts.iter().map(|one| (one.container_path.clone(), one.host_path.clone())).collect();
    let path = |id: &str| vhost.join(id).to_str().expect("UTF-8").to_owned();
    assert_eq!(mounts, ["vhost-0", "vhost-4"].map(|id| (path(id), path(id))));
    assert_eq!(container.envs["VSWITCH_VHOST_DIRS"], format!("{}:{}", path("vhost-0"), path("vhost-4")));
    plugin.0.pre_start_container(PreStartContainerRequest::default()).await.expect("nothing to do");
}

#[tokio::test]
async fn what_a_pod_has_left_leads_nowhere() {
    let above = directories();
    let _devices = plugin(above.path());
    let mut kubelet = Kubelet::start(&above.path().join("kubelet"), false);
    let told = kubelet.told().await;
    let mut plugin = kubelet.plugin(&told).await;
    plugin.allocate(&["vhost-1"]).await.expect("allocated");
    let (victim, directory) = (above.path().join("victim"), above.path().join("vhost/vhost-1"));
    fs::create_dir(&victim).expect("made");
    fs::write(victim.join("file"), "precious").expect("written");
    symlink(&victim, directory.join("net.sock")).expect("a link");
    plugin.allocate(&["vhost-1"]).await.expect("allocated again");
    assert_eq!(fs::read_dir(&directory).expect("there").count(), 0);
    assert_eq!(fs::read_to_string(victim.join("file")).expect("there"), "precious");

    fs::remove_dir(&directory).expect("removed");
    symlink(&victim, &directory).expect("root has put a link there");
    let status = plugin.allocate(&["vhost-1"]).await.expect_err("no directory");
    assert!(status.message().contains("is no directory; remove it"), "{status}");
    assert_eq!(fs::read_to_string(victim.join("file")).expect("there"), "precious");
}

#[tokio::test]
async fn each_kubelet_that_starts_is_told() {
    let above = directories();
    let directory = above.path().join("kubelet");
    let devices = plugin(above.path());
    devices.follow(true);
    let mut kubelet = Kubelet::start(&directory, false);
    let told = kubelet.told().await;
    kubelet.plugin(&told).await.devices().await.become_all("Healthy").await;

    drop(kubelet); // as if killed: its socket is still there
    let mut kubelet = Kubelet::start(&directory, true);
    kubelet.told().await;
    let told = kubelet.told().await; // it is told again, since it has refused
    kubelet.plugin(&told).await.devices().await.become_all("Healthy").await;

    let mut kubelet = Kubelet::start(&directory, false);
    let told = kubelet.told().await;
    let mut list = kubelet.plugin(&told).await.devices().await;
    list.become_all("Healthy").await;
    fs::remove_file(directory.join(&told.endpoint)).expect("somebody removes the plug-in's socket");
    let told = kubelet.told().await;
    assert!(fs::symlink_metadata(directory.join(&told.endpoint)).expect("there").file_type().is_socket());
    kubelet.plugin(&told).await.devices().await.become_all("Healthy").await;
    drop(devices);
}

#[tokio::test]
async fn garbage_keeps_nobody_from_asking() {
    let above = directories();
    let _devices = plugin(above.path());
    let mut kubelet = Kubelet::start(&above.path().join("kubelet"), false);
    let told = kubelet.told().await;
    let socket = above.path().join("kubelet").join(&told.endpoint);
    for garbage in
        [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 100_000], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0".to_vec()]
    {
        let mut stream = UnixStream::connect(&socket).await.expect("connected");
        let _ = stream.write_all(&garbage).await; // it may hang up in the middle
    }
    let mut plugin = kubelet.plugin(&told).await;
    for ids in [vec!["../../etc"], vec!["vhost-5"], vec!["vhost-1", "vhost-1"], vec!["x"; 100_000]] {
        let status = plugin.allocate(&ids).await.expect_err("no devices");
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().len() < 200, "{status}");
    }
    assert!(!above.path().join("vhost").exists(), "nothing was made");
    let mut lists = Vec::new();
    for _ in 0..8 {
        lists.push(plugin.devices().await);
    }
    assert_eq!(plugin.0.list_and_watch(Empty {}).await.expect_err("too many").code(), tonic::Code::ResourceExhausted);
    for list in &mut lists {
        assert_eq!(list.next().await.0, 5);
    }
    plugin.allocate(&["vhost-1"]).await.expect("allocated");
}

/// A process that ends with this value.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_healthy_when_the_switch_forwards() {
    let above = directories();
    let switch = Switch::start().await;
    let mut kubelet = Kubelet::start(&above.path().join("kubelet"), false);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vswitch-agent"));
    command.arg("--dir").arg(cluster()).args(["--node", NODE, "--no-state", "--no-health-checks", "--period-ms", "20"]);
    command.arg("--device-plugin").arg(above.path().join("kubelet")).args(["--vhost-devices", "7"]);
    command.arg("--vhost-dir").arg(above.path().join("vhost")).arg("--socket").arg(switch.socket());
    let _agent = Agent(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
    let told = kubelet.told().await;
    let mut plugin = kubelet.plugin(&told).await;
    let mut list = plugin.devices().await;
    assert_eq!(list.next().await.0, 7);
    list.become_all("Healthy").await;
    plugin.allocate(&["vhost-6"]).await.expect("allocated");
    assert!(above.path().join("vhost/vhost-6").is_dir());
}
