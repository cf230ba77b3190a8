//! TLS, with certificates of openssl and a client of rustls.

use super::{Caller, End, PERMISSION_DENIED, Serving};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use vswitch_control::config::{ListenEndpoint, ListenerConfig, Role, SanPattern, TlsListen};
use vswitch_proto::v1;
use vswitch_testkit::certificates::{Authority, EXPIRED, GOOD, Issued};

const LIST: &str = "/vswitch.v1.BridgeService/ListBridges";
const ADD: &str = "/vswitch.v1.BridgeService/AddBridge";

/// A server with a TLS listener, and the authority of both sides.
struct Tls {
    serving: Serving,
    authority: Authority,
    address: SocketAddr,
}

impl Tls {
    fn start(role: Role, sans: &[(&str, Role)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new(directory.path(), "ca");
        let own = authority.issue("server", "IP:127.0.0.1", GOOD);
        let listen = TlsListen {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            cert: own.cert,
            key: own.key,
            client_ca: authority.cert(),
            sans: sans.iter().map(|(pattern, role)| (SanPattern::new(pattern).expect("a pattern"), *role)).collect(),
        };
        let serving =
            Serving::start(directory, vec![ListenerConfig { endpoint: ListenEndpoint::Tls(listen), role }], None);
        let address = serving.names[1].strip_prefix("tls:").expect("TLS").parse().expect("an address");
        Self { serving, authority, address }
    }

    fn client(&self, name: &str, sans: &str) -> Issued {
        self.authority.issue(name, sans, GOOD)
    }

    /// A call by a certificate, or why there is no answer.
    async fn call(&self, own: Option<&Issued>, path: &str) -> Result<End, String> {
        let caller = self.connect(own).await?;
        caller.try_call(path, &[]).await.map_err(|error| error.to_string())
    }

    async fn connect(&self, own: Option<&Issued>) -> Result<Caller, String> {
        let connecting = async {
            let stream = TcpStream::connect(self.address).await.expect("it listens");
            let name = ServerName::from(self.address.ip());
            let connector = TlsConnector::from(Arc::new(config(&self.authority.cert(), own)));
            let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
            Caller::try_over(stream).await.map_err(|error| error.to_string())
        };
        super::soon("a connection", connecting).await
    }

    /// The listener, as it is told.
    async fn told(&self) -> v1::Listener {
        let path = self.serving.at("admin.sock");
        let channel = super::super::Running::connect(&path).await;
        let mut client = v1::control_service_client::ControlServiceClient::new(channel);
        let listeners = client.list_listeners(v1::ListListenersRequest {}).await.expect("an answer");
        listeners.into_inner().listeners.swap_remove(1)
    }

    /// Waits until clients were refused for this reason so often.
    async fn refused(&self, reason: &str, count: u64) {
        super::soon(reason, async {
            while !self.told().await.refusals.iter().any(|one| one.reason == reason && one.count >= count) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

fn config(authority: &Path, own: Option<&Issued>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).expect("a certificate")).expect("an authority");
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let builder = builder.expect("TLS 1.3").with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(Issued { cert, key }) => {
            let chain = vec![CertificateDer::from_pem_file(cert).expect("a certificate")];
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).expect("a key")).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

#[tokio::test]
async fn a_name_in_the_certificate_gives_its_role() {
    let sans = [("*.read.example", Role::Read), ("spiffe://c/controller", Role::Admin)];
    let tls = Tls::start(Role::Admin, &sans);
    let monitor = tls.client("monitor", "DNS:m.read.example");
    let controller = tls.client("controller", "URI:spiffe://c/controller");
    let other = tls.client("other", "DNS:m.other.example");
    let status = async |own: &Issued, path| tls.call(Some(own), path).await.expect("an answer").status;
    assert_ne!(status(&monitor, LIST).await, PERMISSION_DENIED);
    assert_ne!(status(&controller, ADD).await, PERMISSION_DENIED);
    let refused = tls.call(Some(&monitor), ADD).await.expect("an answer");
    assert_eq!(refused.status, PERMISSION_DENIED);
    assert!(refused.message.contains("san=m.read.example"), "{refused:?}");
    assert_eq!(status(&other, LIST).await, PERMISSION_DENIED, "it has no role at all");
    let told = tls.told().await;
    assert_eq!((told.kind(), told.role(), told.mapped), (v1::ListenerKind::Tls, v1::Role::Admin, true));
    assert_eq!((told.denied, told.certificate.expect("one").not_after), (2, 4_070_908_800));
    tls.serving.stop().await;
}

#[tokio::test]
async fn clients_without_a_good_certificate_get_nothing() {
    let tls = Tls::start(Role::Read, &[]);
    let good = tls.client("good", "DNS:a");
    let expired = tls.authority.issue("expired", "DNS:a", EXPIRED);
    let later = tls.authority.issue("later", "DNS:a", ("20980101000000Z", "20990101000000Z"));
    let foreign = Authority::new(tls.serving.directory.path(), "foreign").issue("foreigner", "DNS:a", GOOD);
    for (own, reason, count) in [
        (None, "no_certificate", 1),
        (Some(&foreign), "unknown_ca", 1),
        (Some(&expired), "expired", 1),
        (Some(&later), "expired", 2),
    ] {
        tls.call(own, LIST).await.expect_err(reason);
        tls.refused(reason, count).await;
    }
    let mut plain = TcpStream::connect(tls.address).await.expect("it listens");
    tokio::io::AsyncWriteExt::write_all(&mut plain, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
    let mut rest = Vec::new();
    let _ = super::soon("its end", plain.read_to_end(&mut rest)).await; // by a reset, or not
    tls.refused("not_tls", 1).await;
    assert_ne!(tls.call(Some(&good), LIST).await.expect("an answer").status, PERMISSION_DENIED);
    assert_eq!(tls.told().await.accepted, 1, "only the good one has come through");
    tls.serving.stop().await;
}

/// Silent clients hold up no other one, and give way when there are too many.
#[tokio::test]
async fn stalled_handshakes_hold_nothing_up() {
    let tls = Tls::start(Role::Read, &[]);
    let good = tls.client("good", "DNS:a");
    let mut silent = Vec::new();
    for _ in 0..80 {
        silent.push(TcpStream::connect(tls.address).await.expect("it listens"));
    }
    assert_ne!(tls.call(Some(&good), LIST).await.expect("an answer").status, PERMISSION_DENIED);
    tls.refused("too_many", 16).await;
    let end = super::soon("the oldest one's end", silent[0].read(&mut [0; 1])).await;
    assert!(end.is_err() || end.is_ok_and(|len| len == 0));
    tls.refused("timeout", 1).await;
    tls.serving.stop().await;
}

/// Certificates change under living connections. A pair that does not fit changes nothing.
#[tokio::test]
async fn certificates_are_read_anew() {
    let tls = Tls::start(Role::Read, &[]);
    let good = tls.client("good", "DNS:a");
    let old = tls.connect(Some(&good)).await.expect("a connection");
    let (cert, key) = (tls.serving.at("server.crt"), tls.serving.at("server.key"));
    let new = tls.authority.issue("new", "IP:127.0.0.1", ("20200101000000Z", "20980101000000Z"));
    let put = |from: &Path, to: &Path| {
        let beside = to.with_extension("tmp");
        std::fs::copy(from, &beside).expect("copied");
        std::fs::rename(beside, to).expect("renamed");
    };
    put(&new.cert, &cert); // the key is still the old one
    let until = async |what: &str, is: &dyn Fn(&v1::ListenerCertificate) -> bool| {
        super::soon(what, async {
            loop {
                let told = tls.told().await.certificate.expect("one");
                if is(&told) {
                    return told;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
    };
    let torn = until("the trouble", &|told| !told.error.is_empty()).await;
    assert_eq!((torn.not_after, torn.reloads), (4_070_908_800, 0), "{torn:?}");
    assert_ne!(tls.call(Some(&good), LIST).await.expect("the old pair serves").status, PERMISSION_DENIED);
    put(&new.key, &key);
    let read = until("the new pair", &|told| told.reloads == 1).await;
    assert_eq!((read.not_after, read.error.as_str()), (4_039_372_800, ""));
    for caller in [old, tls.connect(Some(&good)).await.expect("a connection")] {
        assert_ne!(caller.call(LIST).await.status, PERMISSION_DENIED, "old and new connections live");
    }
    tls.serving.stop().await;
}

/// A connection ends with its certificate.
#[tokio::test]
async fn a_connection_ends_with_its_certificate() {
    let tls = Tls::start(Role::Read, &[]);
    let output = std::process::Command::new("date").args(["-u", "-d", "+6 seconds", "+%Y%m%d%H%M%SZ"]).output();
    let end = String::from_utf8(output.expect("date(1)").stdout).expect("text");
    let short = tls.authority.issue("short", "DNS:a", ("20200101000000Z", end.trim()));
    let Ok(caller) = tls.connect(Some(&short)).await else { return }; // the machine took 6 s for that
    super::soon("its end", async {
        while caller.try_call(LIST, &[]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    tls.serving.stop().await;
}
