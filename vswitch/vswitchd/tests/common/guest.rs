//! A Linux guest in QEMU: Debian's cloud kernel on vhost-user ports.

use super::command::{self, unique, unless_busy, wait_for};
use super::counters;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// It boots in 3 s where nothing else runs; several boot at a time, beside a worker that polls.
const BOOT: Duration = Duration::from_secs(90);
/// No command of a test takes longer.
const ANSWER: Duration = Duration::from_secs(90);
/// Ends what a command printed; its exit status follows.
const END: u8 = 1;

/// Properties of a device that leave its guest without checksum and segmentation offload.
pub(crate) const WITHOUT_OFFLOADS: &str = "csum=off,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,\
                                           guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off";

/// A network device of a guest.
#[derive(Clone, Debug)]
pub(crate) struct Nic {
    /// The vhost-user socket.
    pub(crate) socket: PathBuf,
    /// QEMU makes the socket, and the switch connects. Else the other way round, again and again.
    pub(crate) server: bool,
    /// Its address ends in these.
    pub(crate) mac: [u8; 2],
    /// Queue pairs.
    pub(crate) queues: u16,
    /// More properties of `virtio-net-pci`: `csum=off`, `mrg_rxbuf=off`, ...
    pub(crate) properties: String,
}

impl Nic {
    /// With one queue pair, all features, and QEMU as the server.
    pub(crate) fn new(socket: &Path, mac: [u8; 2]) -> Self {
        Self { socket: socket.to_owned(), server: true, mac, queues: 1, properties: String::new() }
    }

    /// Likewise, with other properties.
    pub(crate) fn with(self, properties: &str) -> Self {
        Self { properties: properties.to_owned(), ..self }
    }

    fn arguments(&self, index: usize) -> Vec<String> {
        let side = if self.server { "server=on,wait=off" } else { "reconnect=1" };
        let [high, low] = self.mac;
        let mut device =
            format!("virtio-net-pci,netdev=n{index},romfile=,vectors=0,mac=02:00:00:00:{high:02x}:{low:02x}");
        let mut netdev = format!("vhost-user,id=n{index},chardev=c{index}");
        if self.queues > 1 {
            device += ",mq=on";
            netdev += &format!(",queues={}", self.queues);
        }
        if !self.properties.is_empty() {
            device = format!("{device},{}", self.properties);
        }
        let chardev = format!("socket,id=c{index},path={},{side}", self.socket.display());
        ["-chardev", &chardev, "-netdev", &netdev, "-device", &device].map(str::to_owned).to_vec()
    }
}

/// A running guest. Its devices are `eth0`, `eth1`, ... in the order given. Killed on drop; a test
/// that panics shows its console.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    dir: tempfile::TempDir,
    line: UnixStream,
    nics: Vec<Nic>,
    name: String,
}

impl Guest {
    /// Boots one, and returns when it answers.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn boot(name: &str, nics: &[Nic]) -> Self {
        let mut guest = Self::start(name, nics);
        guest.wait_until_ready();
        guest
    }

    /// Boots several at a time.
    ///
    /// # Panics
    /// When one of them does not answer.
    pub(crate) fn boot_all<const N: usize>(guests: [(&str, Vec<Nic>); N]) -> [Self; N] {
        let mut guests = guests.map(|(name, nics)| Self::start(name, &nics));
        guests.iter_mut().for_each(Self::wait_until_ready);
        guests
    }

    /// Starts QEMU. It waits for the switch where it makes the socket.
    pub(crate) fn start(name: &str, nics: &[Nic]) -> Self {
        let dir = tempfile::Builder::new().prefix("vswitch-guest-").tempdir().expect("a temporary directory");
        let (child, line) = spawn(dir.path(), nics);
        Self { child, dir, line, nics: nics.to_vec(), name: name.to_owned() }
    }

    /// After [`Guest::start`]: returns when it answers.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn wait_until_ready(&mut self) {
        self.line.set_read_timeout(Some(BOOT)).expect("a socket takes a timeout");
        let text = self.read_until(b'\n');
        assert_eq!(
            text.as_deref().map(str::trim),
            Ok("READY"),
            "guest {} does not boot: {}",
            self.name,
            self.console()
        );
        self.line.set_read_timeout(Some(ANSWER)).expect("a socket takes a timeout");
    }

    fn read_until(&mut self, end: u8) -> Result<String, String> {
        let (mut bytes, mut byte) = (Vec::new(), [0]);
        let start = Instant::now();
        loop {
            match self.line.read(&mut byte) {
                Ok(1) if byte[0] == end => break,
                Ok(1) => bytes.push(byte[0]),
                Ok(_) => return Err(format!("it is gone, after {:?}", String::from_utf8_lossy(&bytes))),
                Err(error) => return Err(format!("{error}, after {:?}", String::from_utf8_lossy(&bytes))),
            }
            if start.elapsed() > BOOT {
                return Err(format!("it does not come to an end: {:?}", String::from_utf8_lossy(&bytes)));
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a line of shell in it: whether it succeeded, and what it printed, errors included.
    ///
    /// # Panics
    /// When the guest does not answer.
    pub(crate) fn exec(&mut self, command: &str) -> (bool, String) {
        assert!(!command.contains('\n'), "one line: {command:?}");
        let ask = writeln!(self.line, "{command}").map_err(|error| error.to_string());
        let answer = ask.and_then(|()| self.read_until(END)).and_then(|text| Ok((text, self.read_until(b'\n')?)));
        let (text, status) = answer.unwrap_or_else(|why| {
            panic!("guest {}: `{command}`: no answer: {why}; its console:\n{}", self.name, self.console())
        });
        (status == "0", text)
    }

    /// Runs a line of shell in it and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub(crate) fn run(&mut self, command: &str) -> String {
        let (success, text) = unless_busy(|| self.exec(command), |(_, text)| text.clone());
        assert!(success, "guest {}: `{command}` failed: {text}", self.name);
        text
    }

    /// Gives a device addresses (with prefix length) and brings it up.
    pub(crate) fn configure(&mut self, device: &str, addresses: &[&str]) {
        let mut line = format!("ip link set {device} up");
        for address in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            line += &format!(" && ip address add {address} dev {device}{nodad}");
        }
        self.run(&line);
    }

    /// Waits until something answers its pings.
    pub(crate) fn wait_reaches(&mut self, address: &str, limit: Duration) {
        let name = self.name.clone();
        wait_for(&format!("guest {name} reaches {address}"), limit, || {
            self.exec(&format!("ping -n -c 1 -W 1 {address}")).0
        });
    }

    /// SIGKILL for QEMU.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("our own child can be killed");
        self.child.wait().expect("our own child can be waited for");
    }

    /// After [`Guest::kill`]: starts QEMU again with the same devices, and returns when it answers.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn boot_again(&mut self) {
        (self.child, self.line) = spawn(self.dir.path(), &self.nics);
        self.wait_until_ready();
    }

    /// Reboots the guest's kernel; QEMU goes on.
    ///
    /// # Panics
    /// When it does not come back.
    pub(crate) fn reboot(&mut self) {
        writeln!(self.line, "reboot -f").expect("the guest listens");
        self.wait_until_ready();
    }

    /// Sends a signal to QEMU: `STOP`, `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        command::run(&["kill", &format!("-{signal}"), &self.child.id().to_string()]);
    }

    /// What its kernel and its devices have counted as wrong in what arrived, since it booted:
    /// counters that are not 0, with their values (`nstat`, `/proc/net/dev`, `ethtool -S`).
    ///
    /// # Panics
    /// When it does not know one of them.
    pub(crate) fn receive_errors(&mut self) -> Vec<String> {
        let mut wrong = counters::protocol_errors(&self.run("nstat -asz"));
        wrong.extend(counters::device_errors(&self.run("cat /proc/net/dev")));
        for index in 0..self.nics.len() {
            let text = self.run(&format!("ethtool -S eth{index}"));
            assert!(
                text.contains("rx_queue_0_drops: "),
                "eth{index} of guest {} has other counters: {text}",
                self.name
            );
            let bad = |line: &&str| {
                ["_drops: ", "_timeouts: "].iter().any(|name| line.contains(name)) && !line.ends_with(": 0")
            };
            wrong.extend(text.lines().filter(bad).map(|line| format!("eth{index} {}", line.trim())));
        }
        wrong
    }

    /// The last lines of its console, and what QEMU said.
    pub(crate) fn console(&self) -> String {
        let read = |name| fs::read(self.dir.path().join(name)).unwrap_or_default();
        let text = [read("console.log"), read("qemu.log")].concat();
        let text = String::from_utf8_lossy(&text);
        let skip = text.lines().count().saturating_sub(30);
        text.lines().skip(skip).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            #[allow(clippy::print_stderr)] // captured and shown by the test runner
            {
                eprintln!("--- console of guest {}\n{}\n---", self.name, self.console());
            }
        }
    }
}

fn spawn(dir: &Path, nics: &[Nic]) -> (Child, UnixStream) {
    let image = image();
    for nic in nics.iter().filter(|nic| nic.server) {
        // QEMU does not replace the socket of a killed predecessor
        let _ = fs::remove_file(&nic.socket);
    }
    let path = dir.join(format!("line-{}.sock", unique()));
    let listener = UnixListener::bind(&path).expect("a temporary directory has room for a socket");
    let log = File::options().create(true).append(true).open(dir.join("qemu.log")).expect("the log can be written");
    // Not KVM: there are machines that have it, and whose guests stand still (nested
    // virtualization).
    let mut child = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "192", "-nodefaults", "-display", "none"])
        .args(["-object", "memory-backend-memfd,id=mem,size=192M,share=on", "-numa", "node,memdev=mem"])
        .arg("-kernel")
        .arg(image.join("vmlinuz"))
        .arg("-initrd")
        .arg(image.join("initrd.cpio"))
        // Always in the same place: where a reboot unpacks the kernel over code that QEMU has
        // translated, it takes from 2 s to 16 s and more, by chance. The rest saves a second of its
        // boot.
        .args([
            "-append",
            "console=ttyS0 quiet panic=-1 net.ifnames=0 nokaslr mitigations=off cryptomgr.notests tsc=reliable",
        ])
        .arg("-chardev")
        .arg(format!("file,id=console,path={},append=on", dir.join("console.log").display()))
        .args(["-serial", "chardev:console", "-serial", "chardev:line", "-chardev"])
        .arg(format!("socket,id=line,path={}", path.display()))
        .args(nics.iter().enumerate().flat_map(|(index, nic)| nic.arguments(index)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log)
        .spawn()
        .expect("qemu-system-x86_64 is installed (tools/setup)");
    listener.set_nonblocking(true).expect("a socket can be asked");
    let mut line = None;
    wait_for("QEMU connects", BOOT, || {
        line = listener.accept().ok().map(|(line, _)| line);
        let ended = child.try_wait().expect("our own child can be waited for");
        assert!(ended.is_none(), "QEMU ended: {}", fs::read_to_string(dir.join("qemu.log")).unwrap_or_default());
        line.is_some()
    });
    let line = line.expect("it has connected");
    line.set_nonblocking(false).expect("a socket can be asked");
    (child, line)
}

/// Where kernel and initramfs are; makes them if need be.
fn image() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest-image");
        fs::create_dir_all(&dir).expect("the target directory is writable");
        let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/guest-image");
        let made = Command::new(&tool).arg(&dir).output().expect("tools/guest-image can be started");
        assert!(made.status.success(), "tools/guest-image failed: {}", command::describe(&made));
        dir
    })
}
