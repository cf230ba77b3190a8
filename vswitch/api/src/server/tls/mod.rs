//! TCP with mutual TLS: files into a configuration, and clients into connections.
//!
//! **Where in the walk**: nowhere; it runs on the control cores.
//!
//! **Design**: TLS 1.3 only, by rustls with ring. A client shows a certificate that an authority of
//! `client_ca` has signed, or gets no connection. Sessions are not resumed: each connection is
//! verified anew. [`Files`] reads certificate, key and authorities together and tries them
//! out; the three change at once or not at all. [`watch`] looks at them every [`LOOK_INTERVAL`].
//! New connections have the new ones; old connections go on, until their own certificate ends.
//!
//! **Limits**: [`FILE_LEN_MAX`] bytes of each file; those of `handshake`.
//!
//! **Threads**: a tokio runtime; files are read on its blocking threads.

pub(super) mod certificate;
mod handshake;

pub(super) use handshake::{Accept, accept};

use crate::rights::{Certificate, ListenerState};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vswitch_control::config::TlsListen;

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Bytes of a file.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{file:?} cannot be read: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{file:?}: {problem}; write {want} in PEM")]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
        /// What it should hold.
        want: &'static str,
    },
    /// They do not fit together.
    #[error("certificate {cert:?} and key {key:?} cannot be used: {source}; make both anew")]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
}

/// What a file was when it was read: another one after a change.
type Stamp = [Option<(u64, u64, u64, i64, i64)>; 3];

/// The files of a listener, and what is made of them.
#[derive(Debug)]
pub(super) struct Files {
    cert: PathBuf,
    key: PathBuf,
    client_ca: PathBuf,
    current: Mutex<Arc<ServerConfig>>,
    /// Of the last try, good or not.
    tried: Mutex<Stamp>,
}

impl Files {
    /// Reads them for the first time.
    ///
    /// # Errors
    /// They cannot be used.
    pub(super) fn new(listen: &TlsListen) -> Result<(Self, Certificate), TlsError> {
        let TlsListen { cert, key, client_ca, .. } = listen;
        let tried = stamp([cert, key, client_ca]);
        let (config, not_after) = load(cert, key, client_ca)?;
        let certificate = Certificate { file: cert.clone(), not_after, ..Certificate::default() };
        let files = Self {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: client_ca.clone(),
            current: Mutex::new(Arc::new(config)),
            tried: Mutex::new(tried),
        };
        Ok((files, certificate))
    }

    /// For the next connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.lock())
    }

    /// Reads them again if they are others than at the last try. What cannot be used changes
    /// nothing, and is told once.
    pub(super) fn look(&self, listener: &ListenerState) {
        let now = stamp([&self.cert, &self.key, &self.client_ca]);
        let Some(tls) = listener.tls.as_ref().filter(|_| *self.tried.lock() != now) else { return };
        *self.tried.lock() = now;
        let name = &listener.name;
        match load(&self.cert, &self.key, &self.client_ca) {
            Ok((config, not_after)) => {
                *self.current.lock() = Arc::new(config);
                let mut certificate = tls.certificate.lock();
                certificate.not_after = not_after;
                certificate.reloads += 1;
                certificate.error.clear();
                tracing::info!(listener = name, not_after, "the certificate was read anew");
            }
            Err(error) => {
                tracing::error!(listener = name, %error, "the certificate stays as it was: its files cannot be used");
                tls.certificate.lock().error = error.to_string();
            }
        }
    }
}

/// Looks at the files of a listener, for as long as the server runs.
pub(super) async fn watch(files: Arc<Files>, listener: Arc<ListenerState>) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let (files, listener) = (Arc::clone(&files), Arc::clone(&listener));
        let looked = tokio::task::spawn_blocking(move || files.look(&listener)).await;
        if looked.is_err() {
            return; // the runtime ends
        }
    }
}

/// What identifies the content of files without reading them; links are followed.
fn stamp(files: [&PathBuf; 3]) -> Stamp {
    files.map(|file| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
    })
}

fn bytes(file: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(failed)?;
    opened.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(failed(io::Error::other(format!("it has more than {FILE_LEN_MAX} bytes"))));
    }
    Ok(bytes)
}

/// All certificates of a file; one at least.
fn certificates(file: &Path, want: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = |problem: String| TlsError::Content { file: file.to_owned(), problem, want };
    let bytes = bytes(file)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let read = read.map_err(|error| content(error.to_string()))?;
    if read.is_empty() { Err(content("it has no certificate".to_owned())) } else { Ok(read) }
}

/// A configuration of three files, and the end of the certificate.
fn load(cert: &Path, key: &Path, client_ca: &Path) -> Result<(ServerConfig, i64), TlsError> {
    let chain = certificates(cert, "the certificate of the switch")?;
    let want = "the private key of the certificate";
    let content = |problem: String| TlsError::Content { file: key.to_owned(), problem, want };
    let own_key = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|error| content(error.to_string()))?;
    let want = "the authorities of clients";
    let content = |problem: String| TlsError::Content { file: client_ca.to_owned(), problem, want };
    let mut roots = RootCertStore::empty();
    for authority in certificates(client_ca, want)? {
        roots.add(authority).map_err(|error| content(error.to_string()))?;
    }
    let malformed = || TlsError::Content {
        file: cert.to_owned(),
        problem: "its first certificate is malformed".to_owned(),
        want: "the certificate of the switch",
    };
    let not_after = certificate::read(&chain[0]).ok_or_else(malformed)?.not_after;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = verifier.build().map_err(|error| content(error.to_string()))?;
    let pair = |source| TlsError::Pair { cert: cert.to_owned(), key: key.to_owned(), source };
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(pair)?;
    let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, own_key).map_err(pair)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok((config, not_after))
}
