//! TLS to a collector of gRPC. Certificates are read at each connection: they are renewed.

use super::target::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::{Service, http::Uri};

/// The protocol of gRPC, as TLS negotiates it.
const HTTP2: &[u8] = b"h2";

/// Makes connections to one collector.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    name: ServerName<'static>,
    authority: String,
}

impl Connector {
    /// To a host, whose certificate has its name. None: connections have no TLS.
    pub(super) fn new(tls: &Tls, host: &str, authority: String) -> Result<Option<Self>, String> {
        let Some(ca) = &tls.ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|error| wrong(ca, error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
        let mut config = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                let own = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
                let chain = certificates(certificate)?;
                config.with_client_auth_cert(chain, own).map_err(|error| wrong(certificate, error))?
            }
            _ => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![HTTP2.to_vec()];
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        Ok(Some(Self { tls: TlsConnector::from(Arc::new(config)), name, authority }))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(path, error))?;
    if all.is_empty() { Err(wrong(path, "no certificate in PEM is in the file")) } else { Ok(all) }
}

fn wrong(path: &Path, reason: impl std::fmt::Display) -> String {
    format!("{}: {reason}", path.display())
}

impl Service<Uri> for Connector {
    type Response = hyper_util::rt::TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { tls, name, authority } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(authority).await?;
            tls.connect(name, stream).await.map(hyper_util::rt::TokioIo::new)
        })
    }
}
