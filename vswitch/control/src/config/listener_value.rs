//! Listeners as values: where clients connect, and the role that each of them gets.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The most that a client may do. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Calls that only look.
    Read,
    /// Also what changes neither configuration nor policy.
    Operate,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them, with their words.
    pub const WORDS: [(&'static str, Self); 3] =
        [("read", Self::Read), ("operate", Self::Operate), ("admin", Self::Admin)];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A `[[control.listener]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Where it listens, and whom it knows.
    pub endpoint: ListenEndpoint,
    /// The most that it gives. Without mappings: what it gives to all who connect.
    pub role: Role,
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenEndpoint {
    /// A unix socket.
    Unix(UnixListen),
    /// TCP with mutual TLS.
    Tls(TlsListen),
}

/// A unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixListen {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// Its owner; none: the process's.
    pub owner: Option<Account>,
    /// Its group; none: the process's.
    pub group: Option<Account>,
    /// Roles of users.
    pub users: Vec<(Account, Role)>,
    /// Roles of groups.
    pub groups: Vec<(Account, Role)>,
}

impl UnixListen {
    /// The mode of a socket that names none: owner and group may connect.
    pub const MODE_DEFAULT: u32 = 0o660;
}

/// TCP with mutual TLS 1.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsListen {
    /// Address and port; port 0: the kernel chooses one.
    pub address: SocketAddr,
    /// File with the certificate of the switch and those between it and the authority (PEM).
    pub cert: PathBuf,
    /// File with its private key (PEM).
    pub key: PathBuf,
    /// File with the authorities whose clients may connect (PEM).
    pub client_ca: PathBuf,
    /// Roles of names in clients' certificates.
    pub sans: Vec<(SanPattern, Role)>,
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// By number.
    Id(u32),
    /// By name, as the machine knows it when it is asked.
    Name(String),
}

impl Account {
    /// A number, or else a name.
    #[must_use]
    pub fn new(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }

    /// Number of the user; none: the machine knows no such user.
    #[must_use]
    pub fn uid(&self) -> Option<u32> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Name(name) => nix::unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw()),
        }
    }

    /// Number of the group; none: the machine knows no such group.
    #[must_use]
    pub fn gid(&self) -> Option<u32> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Name(name) => nix::unistd::Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw()),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A name in a certificate (subject alternative name).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum San {
    /// A name of DNS, in lower case.
    Dns(String),
    /// A URI.
    Uri(String),
    /// A mail address.
    Email(String),
}

impl fmt::Display for San {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(text) | Self::Uri(text) | Self::Email(text) => f.write_str(text),
        }
    }
}

/// Names of certificates that get a role: one, or all that have one label more than a name of DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SanPattern {
    san: San,
    is_wildcard: bool,
}

impl fmt::Display for SanPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_wildcard { "*." } else { "" }, self.san)
    }
}

impl SanPattern {
    /// Reads one: `spiffe://a/b` is a URI, `a@b` a mail address, all else a name of DNS. `*.b` is
    /// all `x.b`. None: it is none of these.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
        let exact = |san| Some(Self { san, is_wildcard: false });
        if let Some((scheme, rest)) = text.split_once("://") {
            let good = !scheme.is_empty() && !rest.is_empty() && is_plain(text);
            return if good { exact(San::Uri(text.to_owned())) } else { None };
        }
        if let Some((user, host)) = text.split_once('@') {
            let good = !user.is_empty() && is_dns(host) && is_plain(user);
            return if good { exact(San::Email(text.to_owned())) } else { None };
        }
        let (is_wildcard, name) = text.strip_prefix("*.").map_or((false, text), |name| (true, name));
        is_dns(name).then(|| Self { san: San::Dns(name.to_ascii_lowercase()), is_wildcard })
    }

    /// Whether a name of a certificate is meant. `*` stands for one whole label.
    #[must_use]
    pub fn matches(&self, san: &San) -> bool {
        match (&self.san, san) {
            (San::Dns(own), San::Dns(name)) if self.is_wildcard => {
                name.split_once('.').is_some_and(|(first, rest)| is_dns(first) && rest == own)
            }
            (own, san) => !self.is_wildcard && own == san,
        }
    }
}

/// Labels of letters, digits, `-` and `_`, with dots between them.
fn is_dns(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_one_name_or_one_label_more() {
        let dns = |name: &str| San::Dns(name.to_owned());
        let matches = |pattern: &str, san: &San| SanPattern::new(pattern).expect(pattern).matches(san);
        assert!(matches("A.Example", &dns("a.example")));
        assert!(matches("*.example", &dns("a.example")));
        for name in ["example", "a.b.example", ".example", "*.example", "a.example.org", "aexample"] {
            assert!(!matches("*.example", &dns(name)), "{name}");
        }
        let uri = San::Uri("spiffe://c/ns/a".to_owned());
        assert!(matches("spiffe://c/ns/a", &uri) && !matches("spiffe://c/ns", &uri));
        assert!(matches("a@b.c", &San::Email("a@b.c".to_owned())));
        assert!(!matches("b.c", &San::Email("a@b.c".to_owned())) && !matches("a.b", &San::Uri("a.b".to_owned())));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in
            ["", "*", "*.", "a.*", "*.*.a", "a b", "a..b", "spiffe://", "://a", "spiffe://a/*", "@a", "a@", "*@a", "ä"]
        {
            assert_eq!(SanPattern::new(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn accounts_are_numbers_or_names_of_the_machine() {
        assert_eq!(
            (Account::new("7").uid(), Account::new("root").uid(), Account::new("root").gid()),
            (Some(7), Some(0), Some(0))
        );
        assert_eq!((Account::new("no such").uid(), Account::new("no such").gid()), (None, None));
    }
}
