//! The variables of a call.

use crate::error::CniError;
use std::path::PathBuf;

/// Characters of an interface's name.
const INTERFACE_LEN_MAX: usize = 15;

/// Bytes of a container's id: names of files are made of it.
const CONTAINER_LEN_MAX: usize = 200;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Version,
    Add,
    Del,
    Check,
    Gc,
    Status,
}

impl Command {
    /// The word that the specification has for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Version => "VERSION",
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
        }
    }

    fn is_about_one(self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }
}

/// Of which Pod a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) command: Command,
    /// Empty where the command has none.
    pub(crate) container: String,
    pub(crate) netns: String,
    pub(crate) interface: String,
    pub(crate) pod: Pod,
    /// Directories of plug-ins.
    pub(crate) path: Vec<PathBuf>,
}

impl Call {
    /// Reads the variables that the command needs.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, CniError> {
        let text = |name: &str| variable(name).unwrap_or_default();
        let word = text("CNI_COMMAND");
        let all = [Command::Version, Command::Add, Command::Del, Command::Check, Command::Gc, Command::Status];
        let Some(command) = all.into_iter().find(|command| command.word() == word) else {
            let what = if word.is_empty() { "is not set".to_owned() } else { format!("{word:?} is no command") };
            return Err(CniError::environment(format!("CNI_COMMAND {what}")).hint("a container runtime sets it"));
        };
        let mut needed = Vec::new();
        if command.is_about_one() {
            needed.extend(["CNI_CONTAINERID", "CNI_IFNAME"]);
        }
        if matches!(command, Command::Add | Command::Check) {
            needed.push("CNI_NETNS");
        }
        if command != Command::Version {
            needed.push("CNI_PATH");
        }
        let missing: Vec<&str> = needed.into_iter().filter(|name| text(name).is_empty()).collect();
        if !missing.is_empty() {
            return Err(CniError::environment(format!("{} needs {}", command.word(), missing.join(", "))));
        }
        let (container, interface) = (text("CNI_CONTAINERID"), text("CNI_IFNAME"));
        if command.is_about_one() {
            check_container(&container)?;
            check_interface(&interface)?;
        }
        let path = std::env::split_paths(&text("CNI_PATH")).filter(|dir| dir.is_absolute()).collect();
        let pod = if command == Command::Add { pod(&text("CNI_ARGS"))? } else { Pod::default() };
        Ok(Self { command, container, netns: text("CNI_NETNS"), interface, pod, path })
    }
}

/// The specification's alphabet: a letter or digit first, then these and `_`, `.`, `-`.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "_.-".contains(one))
}

fn check_container(id: &str) -> Result<(), CniError> {
    if is_name(id) && id.len() <= CONTAINER_LEN_MAX {
        return Ok(());
    }
    Err(CniError::environment(format!("CNI_CONTAINERID {id:?} is no id"))
        .hint("1 to 200 of A-Z a-z 0-9 _ . -, a letter or digit first"))
}

fn check_interface(name: &str) -> Result<(), CniError> {
    let is_right = |one: char| !(one == '/' || one == ':' || one.is_whitespace() || one.is_control());
    if name.len() <= INTERFACE_LEN_MAX && ![".", ".."].contains(&name) && name.chars().all(is_right) {
        return Ok(());
    }
    Err(CniError::environment(format!("CNI_IFNAME {name:?} is no name of an interface"))
        .hint("1 to 15 bytes without /, : and spaces"))
}

/// The Pod, by `KEY=VALUE` pairs with semicolons between them. Other keys say nothing here.
fn pod(args: &str) -> Result<Pod, CniError> {
    let mut pod = Pod::default();
    for pair in args.split(';').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(CniError::environment(format!("CNI_ARGS: {pair:?} is no KEY=VALUE")));
        };
        match key {
            "K8S_POD_NAMESPACE" => value.clone_into(&mut pod.namespace),
            "K8S_POD_NAME" => value.clone_into(&mut pod.name),
            "K8S_POD_UID" => value.clone_into(&mut pod.uid),
            _ => {}
        }
    }
    if pod.namespace.is_empty() != pod.name.is_empty() {
        let reason = "CNI_ARGS has one of K8S_POD_NAMESPACE and K8S_POD_NAME without the other";
        return Err(CniError::environment(reason));
    }
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Call, CniError> {
        Call::read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    const ALL: [(&str, &str); 5] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/a"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin:relative:/usr/lib/cni"),
    ];

    fn without(name: &str, command: &'static str) -> Result<Call, CniError> {
        let kept = ALL.into_iter().filter(|(key, _)| *key != name && *key != "CNI_COMMAND");
        read(&kept.chain([("CNI_COMMAND", command)]).collect::<Vec<_>>())
    }

    #[test]
    fn each_command_needs_its_variables() {
        let call = read(&ALL).expect("it is whole");
        assert_eq!(call.path, [PathBuf::from("/opt/cni/bin"), PathBuf::from("/usr/lib/cni")]);
        for (name, of) in [
            ("CNI_CONTAINERID", &["ADD", "DEL", "CHECK"][..]),
            ("CNI_NETNS", &["ADD", "CHECK"]),
            ("CNI_IFNAME", &["ADD", "DEL", "CHECK"]),
            ("CNI_PATH", &["ADD", "DEL", "CHECK", "GC", "STATUS"]),
        ] {
            for command in ["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"] {
                let code = without(name, command).err().map(|error| error.code);
                assert_eq!(code, of.contains(&command).then_some(4), "{command} without {name}");
            }
        }
        assert_eq!(read(&[]).map_err(|error| error.code), Err(4));
        assert_eq!(read(&[("CNI_COMMAND", "add")]).map_err(|error| error.code), Err(4));
    }

    #[test]
    fn names_that_are_none_are_refused() {
        let with = |name: &'static str, value: &'static str| {
            let kept = ALL.into_iter().filter(|(key, _)| *key != name);
            read(&kept.chain([(name, value)]).collect::<Vec<_>>()).map(drop).map_err(|error| error.code)
        };
        for id in ["-a", "../a", "a/b", "a:b", ".", "a b"] {
            assert_eq!(with("CNI_CONTAINERID", id), Err(4), "{id}");
        }
        for name in [".", "..", "a/b", "a:b", "a b", "sixteen-letters-", "a\n"] {
            assert_eq!(with("CNI_IFNAME", name), Err(4), "{name}");
        }
        assert_eq!(with("CNI_IFNAME", "fifteen-letters"), Ok(()));
        assert_eq!(with("CNI_ARGS", "IgnoreUnknown"), Err(4));
        assert_eq!(with("CNI_ARGS", "K8S_POD_NAME=a"), Err(4));
    }

    #[test]
    fn the_pod_comes_in_any_order() {
        let expected = Pod { namespace: "n".to_owned(), name: "p".to_owned(), uid: "u".to_owned() };
        let pairs = ["K8S_POD_NAMESPACE=n", "K8S_POD_NAME=p", "K8S_POD_UID=u", "IgnoreUnknown=1", "X="];
        for i in 0..pairs.len() {
            let args: Vec<&str> = pairs[i..].iter().chain(&pairs[..i]).copied().collect();
            assert_eq!(pod(&args.join(";")), Ok(expected.clone()));
        }
        assert_eq!(pod(""), Ok(Pod::default()));
    }
}
