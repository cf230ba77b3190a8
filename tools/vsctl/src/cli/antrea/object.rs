//! Objects as arguments name them: `KIND/NAME`.

use vswitch_net_types::suggest::nearest;
use vswitch_proto::antrea::v1::{Kind, ObjectRef};

/// An object by its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

impl Object {
    /// As requests name it.
    pub(crate) fn to_proto(&self) -> ObjectRef {
        ObjectRef { kind: self.kind.into(), name: self.name.clone() }
    }
}

/// What names of a kind look like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// There is one: no name.
    Nothing,
    /// A word of the agent's choice.
    Plain,
    /// `NAMESPACE/NAME`.
    Namespaced,
    /// `NAMESPACE/NAME:PORT`.
    ServicePort,
    /// `np:NAMESPACE/NAME`, `anp:NAMESPACE/NAME`, `acnp:NAME`.
    Policy,
}

impl Form {
    /// As it is shown to somebody who got it wrong.
    const fn example(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Plain => "/NAME",
            Self::Namespaced => "/NAMESPACE/NAME",
            Self::ServicePort => "/NAMESPACE/SERVICE:PORT",
            Self::Policy => "/np:NAMESPACE/NAME",
        }
    }
}

/// A kind, its words (the first one is what answers have), and what its names look like.
type Known = (Kind, &'static [&'static str], Form);

/// Kinds that arguments may name.
const KINDS: [Known; 12] = [
    (Kind::Pod, &["pod", "pods", "po"], Form::Namespaced),
    (Kind::Service, &["service", "services", "svc"], Form::Namespaced),
    (Kind::Endpoints, &["endpoints", "endpoint", "ep"], Form::ServicePort),
    (Kind::NetworkPolicy, &["policy", "policies", "network-policy", "networkpolicy", "netpol"], Form::Policy),
    (Kind::Egress, &["egress", "egresses"], Form::Plain),
    (Kind::PeerNode, &["peer", "peers", "peer-node", "peernode"], Form::Plain),
    (Kind::TrafficControl, &["tc", "traffic-control", "traffic-controls", "trafficcontrol"], Form::Plain),
    (Kind::AddressGroup, &["address-group", "address-groups", "addressgroup", "ag"], Form::Plain),
    (Kind::AppliedToGroup, &["applied-to-group", "applied-to-groups", "appliedtogroup", "atg"], Form::Plain),
    (Kind::MulticastGroup, &["multicast-group", "multicast-groups", "multicastgroup", "mcast"], Form::Plain),
    (Kind::Traceflow, &["traceflow", "traceflows", "tf"], Form::Plain),
    (Kind::Node, &["node"], Form::Nothing),
];

/// Beginnings of policies' names. As kinds they say the same: `np/default/web` is
/// `policy/np:default/web`.
const POLICIES: [&str; 3] = ["np", "anp", "acnp"];

/// The word for a kind, in answers and arguments.
pub(crate) fn kind_word(kind: Kind) -> &'static str {
    let known = KINDS.iter().find(|(known, ..)| *known == kind).and_then(|(_, words, _)| words.first());
    known.copied().unwrap_or("unknown")
}

/// Reads `KIND/NAME`.
pub(super) fn object(text: &str) -> Result<Object, String> {
    let (word, name) = text.split_once('/').unwrap_or((text, ""));
    let word = word.to_ascii_lowercase();
    if POLICIES.contains(&word.as_str()) {
        return named((Kind::NetworkPolicy, &["policy"], Form::Policy), &format!("{word}:{name}"));
    }
    let known = KINDS.iter().find(|(_, words, _)| words.contains(&word.as_str()));
    named(*known.ok_or_else(|| unknown(&word))?, name)
}

/// Reads the name of a policy, with or without its kind.
pub(super) fn policy(text: &str) -> Result<String, String> {
    let (word, _) = text.split_once('/').unwrap_or((text, ""));
    let word = word.to_ascii_lowercase();
    let is_policy = |known: &Known| known.0 == Kind::NetworkPolicy && known.1.contains(&word.as_str());
    let has_kind = POLICIES.contains(&word.as_str()) || KINDS.iter().any(is_policy);
    let object = if has_kind { object(text) } else { object(&format!("policy/{text}")) };
    object.map(|object| object.name)
}

/// Reads the name of a Pod.
pub(super) fn pod(text: &str) -> Result<String, String> {
    object(&format!("pod/{text}")).map(|object| object.name)
}

/// An object whose name looks as those of its kind do.
fn named((kind, words, form): Known, name: &str) -> Result<Object, String> {
    let word = words.first().copied().unwrap_or_default();
    let wrong = |problem: &str| Err(format!("{problem}; give {word}{}", form.example()));
    let is_pair = |text: &str| text.split_once('/').is_some_and(|(space, name)| !space.is_empty() && !name.is_empty());
    match form {
        Form::Nothing if !name.is_empty() => return wrong("there is one, without a name"),
        Form::Nothing => {}
        _ if name.is_empty() => return wrong("the name is missing"),
        Form::Plain => {}
        Form::Namespaced if !is_pair(name) => return wrong("its name begins with its namespace"),
        Form::Namespaced => {}
        Form::ServicePort => {
            if !name.rsplit_once(':').is_some_and(|(service, _)| is_pair(service)) {
                return wrong(
                    "its name is that of a Service and a port of it (nothing behind the colon: the one without a name)",
                );
            }
        }
        Form::Policy => {
            let good = name.split_once(':').is_some_and(|(kind, name)| match kind {
                "np" | "anp" => is_pair(name),
                "acnp" => !name.is_empty(),
                _ => false,
            });
            if !good {
                return Err(format!(
                    "{name:?} is no policy's name; give np:NAMESPACE/NAME (Kubernetes), anp:NAMESPACE/NAME or acnp:NAME (Antrea)"
                ));
            }
        }
    }
    Ok(Object { kind, name: name.to_owned() })
}

/// Why a word is no kind, and what was meant perhaps.
fn unknown(word: &str) -> String {
    // Of words that are equally near, the first one of its kind comes before its other words.
    let first = KINDS.iter().filter_map(|(_, words, _)| words.first());
    let others = KINDS.iter().flat_map(|(_, words, _)| words.iter().skip(1)).chain(&POLICIES);
    let near = nearest(word, first.chain(others).copied());
    let near = near.map_or_else(String::new, |known| format!(" did you mean {known}?"));
    let all: Vec<_> = KINDS.iter().filter_map(|(_, words, _)| words.first().copied()).collect();
    format!("{word:?} is no kind of object;{near} give KIND/NAME with one of: {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Kind, String) {
        let Object { kind, name } = object(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (kind, name)
    }

    #[test]
    fn every_kind_is_read_in_any_case() {
        for (text, kind, name) in [
            ("pod/default/web", Kind::Pod, "default/web"),
            ("POD/default/Web", Kind::Pod, "default/Web"),
            ("svc/default/db", Kind::Service, "default/db"),
            ("Endpoints/default/db:http", Kind::Endpoints, "default/db:http"),
            ("ep/default/db:", Kind::Endpoints, "default/db:"),
            ("policy/np:default/web", Kind::NetworkPolicy, "np:default/web"),
            ("np/default/web", Kind::NetworkPolicy, "np:default/web"),
            ("ANP/default/web", Kind::NetworkPolicy, "anp:default/web"),
            ("acnp/strict", Kind::NetworkPolicy, "acnp:strict"),
            ("egress/out", Kind::Egress, "out"),
            ("peer/worker-1", Kind::PeerNode, "worker-1"),
            ("tc/mirror", Kind::TrafficControl, "mirror"),
            ("TrafficControl/mirror", Kind::TrafficControl, "mirror"),
            ("ag/a/b/c", Kind::AddressGroup, "a/b/c"),
            ("applied-to-group/x", Kind::AppliedToGroup, "x"),
            ("mcast/239.1.1.1", Kind::MulticastGroup, "239.1.1.1"),
            ("node", Kind::Node, ""),
        ] {
            assert_eq!(read(text), (kind, name.to_owned()), "{text}");
        }
        for (kind, words, _) in KINDS {
            assert_eq!(Some(&kind_word(kind)), words.first());
        }
        assert_eq!((kind_word(Kind::Traceflow), kind_word(Kind::Unspecified)), ("traceflow", "unknown"));
    }

    #[test]
    fn what_is_wrong_says_what_is_right() {
        for (text, part) in [
            ("pdo/default/web", "\"pdo\" is no kind of object; did you mean pod?"),
            ("serivce/a/b", "did you mean service?"),
            ("polcy/np:a/b", "did you mean policy?"),
            ("egres/x", "did you mean egress?"),
            ("frobnicate/x", "no kind of object; give KIND/NAME with one of: pod, service, endpoints,"),
            ("", "give KIND/NAME"),
            ("pod", "the name is missing; give pod/NAMESPACE/NAME"),
            ("pod/web", "its name begins with its namespace; give pod/NAMESPACE/NAME"),
            ("svc//web", "give service/NAMESPACE/NAME"),
            ("ep/default/web", "give endpoints/NAMESPACE/SERVICE:PORT"),
            ("policy/default/web", "\"default/web\" is no policy's name; give np:NAMESPACE/NAME"),
            ("np/web", "\"np:web\" is no policy's name"),
            ("acnp/", "\"acnp:\" is no policy's name"),
            ("egress/", "the name is missing; give egress/NAME"),
            ("node/worker-0", "there is one, without a name; give node"),
        ] {
            let error = object(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn policies_and_pods_need_no_kind() {
        for text in ["np:default/web", "policy/np:default/web", "np/default/web", "NetPol/np:default/web"] {
            assert_eq!(policy(text).as_deref(), Ok("np:default/web"), "{text}");
        }
        assert!(policy("web").is_err_and(|error| error.contains("is no policy's name")));
        assert_eq!(pod("default/web").as_deref(), Ok("default/web"));
        assert!(pod("web").is_err());
    }
}
