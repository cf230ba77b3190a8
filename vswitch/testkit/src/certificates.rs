//! Certificates by openssl(1), for tests of TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An authority, with its files in a directory of a test.
#[derive(Debug)]
pub struct Authority {
    directory: PathBuf,
    name: String,
}

/// A certificate's files.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Validity that goes on for years.
pub const GOOD: (&str, &str) = ("20200101000000Z", "20990101000000Z");

/// Validity that is over.
pub const EXPIRED: (&str, &str) = ("20200101000000Z", "20210101000000Z");

fn openssl(directory: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(directory).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// When openssl fails.
    #[must_use]
    pub fn new(directory: &Path, name: &str) -> Self {
        let (key, cert, subject) = (format!("{name}.key"), format!("{name}.crt"), format!("/CN={name}"));
        let make = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"];
        openssl(directory, &[&make[..], &["-keyout", &key, "-out", &cert, "-subj", &subject]].concat());
        fs::write(directory.join(format!("{name}.index")), "").expect("written");
        fs::write(directory.join(format!("{name}.serial")), "1000\n").expect("written");
        Self { directory: directory.to_owned(), name: name.to_owned() }
    }

    /// Its own certificate.
    #[must_use]
    pub fn cert(&self) -> PathBuf {
        self.directory.join(format!("{}.crt", self.name))
    }

    /// A certificate with these subject alternative names, as openssl writes them:
    /// `DNS:a.example,IP:127.0.0.1`.
    ///
    /// # Panics
    /// When openssl fails.
    #[must_use]
    pub fn issue(&self, name: &str, sans: &str, (begin, end): (&str, &str)) -> Issued {
        let Self { directory, name: own } = self;
        let config = format!(
            "[ca]\ndefault_ca = own\n[own]\ndatabase = {own}.index\nserial = {own}.serial\nnew_certs_dir = .\n\
             default_md = sha256\npolicy = any\nunique_subject = no\n[any]\ncommonName = supplied\n\
             [names]\nsubjectAltName = {sans}\n"
        );
        fs::write(directory.join(format!("{name}.cnf")), config).expect("written");
        let file = |kind: &str| format!("{name}.{kind}");
        let (key, request, cert, config, subject) =
            (file("key"), file("csr"), file("crt"), file("cnf"), format!("/CN={name}"));
        let make = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        openssl(directory, &[&make[..], &["-keyout", &key, "-out", &request, "-subj", &subject]].concat());
        let (own_key, own_cert) = (format!("{own}.key"), format!("{own}.crt"));
        let sign = ["ca", "-batch", "-notext", "-config", &config, "-extensions", "names", "-cert", &own_cert];
        let times = ["-startdate", begin, "-enddate", end];
        let files = ["-keyfile", &own_key, "-in", &request, "-out", &cert];
        openssl(directory, &[&sign[..], &files, &times].concat());
        Issued { cert: directory.join(cert), key: directory.join(key) }
    }
}
