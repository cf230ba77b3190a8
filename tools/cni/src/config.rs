//! The configuration of a network, from the standard input.

use crate::environment::is_name;
use crate::error::CniError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use vswitch_proto::agent::v1::VhostUser;

/// Versions of the specification that are served, in order.
pub(crate) const VERSIONS: [&str; 4] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// The last of them.
pub(crate) const LATEST: &str = "1.1.0";

/// Where the agent listens unless the configuration says otherwise.
const SOCKET: &str = "/run/vswitch/cni.sock";

/// Where the agent has its state unless the configuration says otherwise.
const STATE: &str = "/var/lib/vswitch/cni";

/// Queue pairs of a vhost-user port.
const QUEUES_MAX: u32 = 64;

/// The fields that mean something to the plug-in.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    cni_version: Option<String>,
    name: Option<String>,
    socket: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    mode: Option<String>,
    queues: Option<u32>,
    socket_owner: Option<String>,
    #[serde(rename = "deviceID")]
    device: Option<String>,
    #[serde(default)]
    runtime_config: RuntimeConfig,
    #[serde(default)]
    mtu: u32,
    ipam: Option<Map<String, Value>>,
    dns: Option<Value>,
    prev_result: Option<PrevResult>,
    #[serde(rename = "cni.dev/valid-attachments")]
    valid: Option<Vec<Valid>>,
}

/// What a runtime adds for the capabilities of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
struct RuntimeConfig {
    #[serde(rename = "deviceID")]
    device: Option<String>,
    #[serde(rename = "CNIDeviceInfoFile")]
    device_info: Option<PathBuf>,
}

/// What an earlier ADD has said.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PrevResult {
    #[serde(default)]
    pub(crate) ips: Vec<PrevIp>,
}

/// An address that an earlier ADD has given.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PrevIp {
    pub(crate) address: String,
}

/// An attachment that is used.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Valid {
    #[serde(rename = "containerID")]
    pub(crate) container: String,
    pub(crate) ifname: String,
}

/// A configuration that is right.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// One of [`VERSIONS`].
    pub(crate) version: &'static str,
    pub(crate) name: String,
    pub(crate) socket: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) mtu: u32,
    /// The interface is a socket; None: a pair of veth interfaces.
    pub(crate) vhost: Option<VhostUser>,
    /// Where the device is to be told of.
    pub(crate) device_info: Option<PathBuf>,
    /// As it is written; empty: the default.
    pub(crate) ipam: Map<String, Value>,
    pub(crate) dns: Option<Value>,
    pub(crate) prev_result: Option<PrevResult>,
    pub(crate) valid: Vec<Valid>,
    /// All of it.
    pub(crate) whole: Map<String, Value>,
}

impl Fields {
    /// What `mode` asks for, with the fields that belong to it.
    fn vhost(&self) -> Result<Option<VhostUser>, CniError> {
        match self.mode.as_deref() {
            Some("vhost-user") => {}
            None | Some("veth") => return Ok(None),
            Some(mode) => {
                let error = CniError::unsupported(format!("mode {mode:?} is not served"));
                return Err(error.hint("veth, or vhost-user"));
            }
        }
        let (uid, gid) = match &self.socket_owner {
            None => (0, 0),
            Some(text) => owner(text).ok_or_else(|| {
                CniError::config(format!("socketOwner {text:?} is no owner"))
                    .hint("UID:GID in numbers, such as 107:107")
            })?,
        };
        let queues = self.queues.unwrap_or(1);
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(CniError::config(format!("queues {queues} are none")).hint(format!("1 to {QUEUES_MAX}")));
        }
        let given = |device: &Option<String>| device.clone().filter(|device| !device.is_empty());
        let device = given(&self.runtime_config.device).or_else(|| given(&self.device)).unwrap_or_default();
        if !device.is_empty() && !is_name(&device) {
            let error = CniError::config(format!("deviceID {device:?} is no name of a device of vswitch.io/vhost"));
            return Err(error.hint("is the annotation k8s.v1.cni.cncf.io/resourceName another device's?"));
        }
        Ok(Some(VhostUser { queues, uid, gid, device }))
    }
}

/// A user and a group, in numbers. The highest number is none.
fn owner(text: &str) -> Option<(u32, u32)> {
    let (uid, gid) = text.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number != u32::MAX);
    Some((number(uid)?, number(gid)?))
}

impl Config {
    /// Reads and checks a configuration.
    pub(crate) fn read(text: &[u8]) -> Result<Self, CniError> {
        let whole: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| CniError::decode(format!("the configuration is no JSON object: {error}")))?;
        let fields: Fields = serde_json::from_value(Value::Object(whole.clone()))
            .map_err(|error| CniError::config(format!("the configuration is wrong: {error}")))?;
        let version = supported(fields.cni_version.as_deref())?;
        let vhost = fields.vhost()?;
        let name = fields.name.unwrap_or_default();
        if !is_name(&name) {
            return Err(CniError::config(format!("name {name:?} is no name of a network"))
                .hint("a letter or digit, then these and _ . -"));
        }
        let path = |field: &str, given: Option<PathBuf>, default: &str| match given {
            Some(path) if !path.is_absolute() => Err(CniError::config(format!("{field} {path:?} is not absolute"))),
            given => Ok(given.unwrap_or_else(|| default.into())),
        };
        if fields.mtu != 0 && !(576..=9702).contains(&fields.mtu) {
            return Err(CniError::config(format!("mtu {} is none", fields.mtu)).hint("576 to 9702"));
        }
        Ok(Self {
            version,
            name,
            socket: path("socket", fields.socket, SOCKET)?,
            state_dir: path("stateDir", fields.state_dir, STATE)?,
            mtu: fields.mtu,
            vhost,
            device_info: fields.runtime_config.device_info,
            ipam: fields.ipam.unwrap_or_default(),
            dns: fields.dns,
            prev_result: fields.prev_result,
            valid: fields.valid.unwrap_or_default(),
            whole,
        })
    }

    /// Whether its version has a command that came with `first`.
    pub(crate) fn has(&self, command: &str, first: &str) -> Result<(), CniError> {
        let place = |version: &str| VERSIONS.iter().position(|one| *one == version);
        if place(self.version) >= place(first) {
            return Ok(());
        }
        Err(CniError::version(format!("cniVersion {} has no {command}: it came with {first}", self.version)))
    }
}

fn supported(version: Option<&str>) -> Result<&'static str, CniError> {
    let version = version.unwrap_or("0.2.0"); // as the specification reads its absence
    let found = VERSIONS.into_iter().find(|one| *one == version);
    found.ok_or_else(|| {
        CniError::version(format!("cniVersion {version:?} is not served"))
            .hint(format!("one of {}", VERSIONS.join(", ")))
    })
}

/// The version in which an error of this configuration is told.
pub(crate) fn version_of(text: &[u8]) -> &'static str {
    let value: Value = serde_json::from_slice(text).unwrap_or_default();
    supported(value.get("cniVersion").and_then(Value::as_str)).unwrap_or(LATEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn code(value: &Value) -> Option<u32> {
        Config::read(value.to_string().as_bytes()).err().map(|error| error.code)
    }

    #[test]
    fn what_is_wrong_has_its_code() {
        let right = json!({"cniVersion": "1.0.0", "name": "n", "type": "vswitch", "unknown": {"a": 1}});
        assert_eq!(code(&right), None);
        for (field, value, expected) in [
            ("cniVersion", json!("2.0.0"), 1),
            ("cniVersion", Value::Null, 1),
            ("cniVersion", json!(1), 7),
            ("name", json!(""), 7),
            ("name", json!("a/b"), 7),
            ("mode", json!("tap"), 2),
            ("socket", json!("cni.sock"), 7),
            ("mtu", json!(68), 7),
            ("mtu", json!(-1), 7),
            ("ipam", json!([]), 7),
            ("runtimeConfig", json!({"CNIDeviceInfoFile": 1}), 7),
            ("prevResult", json!({"ips": [{}]}), 7),
        ] {
            let mut wrong = right.clone();
            wrong[field] = value;
            assert_eq!(code(&wrong), Some(expected), "{wrong}");
        }
        assert_eq!(Config::read(b"{").map(drop).map_err(|error| error.code), Err(6));
        assert_eq!(Config::read(b"[]").map(drop).map_err(|error| error.code), Err(6));
    }

    #[test]
    fn vhost_user_has_fields_of_its_own() {
        let right = json!({"cniVersion": "1.0.0", "name": "n", "mode": "vhost-user"});
        let of = |more: Value| {
            let mut all = right.clone();
            all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            Config::read(all.to_string().as_bytes()).map(|config| config.vhost.expect("vhost-user"))
        };
        let vhost = |queues, uid, gid, device: &str| VhostUser { queues, uid, gid, device: device.to_owned() };
        assert_eq!(of(json!({})), Ok(vhost(1, 0, 0, "")));
        let all = json!({"queues": 2, "socketOwner": "107:108", "deviceID": "vhost-3"});
        assert_eq!(of(all), Ok(vhost(2, 107, 108, "vhost-3")));
        let both = json!({"deviceID": "a", "runtimeConfig": {"deviceID": "b"}});
        assert_eq!(of(both), Ok(vhost(1, 0, 0, "b")));
        for wrong in [
            json!({"queues": 0}),
            json!({"queues": 65}),
            json!({"queues": "2"}),
            json!({"socketOwner": "qemu:qemu"}),
            json!({"socketOwner": "107"}),
            json!({"socketOwner": "-1:0"}),
            json!({"socketOwner": "4294967295:0"}),
            json!({"deviceID": "../x"}),
            json!({"deviceID": "a/b"}),
            json!({"deviceID": 3}),
        ] {
            assert_eq!(of(wrong.clone()).map_err(|error| error.code), Err(7), "{wrong}");
        }
        let veth = json!({"cniVersion": "1.0.0", "name": "n", "deviceID": "0000:3b:00.0", "socketOwner": "x"});
        assert_eq!(
            Config::read(veth.to_string().as_bytes()).map(|config| config.vhost),
            Ok(None),
            "not its own fields"
        );
    }

    #[test]
    fn commands_have_their_versions() {
        let of = |version: &str| {
            let text = json!({"cniVersion": version, "name": "n"}).to_string();
            Config::read(text.as_bytes()).expect("it is right")
        };
        let has = |version: &str, first: &str| of(version).has("X", first).is_ok();
        assert!(has("0.4.0", "0.4.0") && has("1.1.0", "0.4.0") && !has("0.3.1", "0.4.0") && !has("1.0.0", "1.1.0"));
        assert_eq!(version_of(br#"{"cniVersion": "0.4.0"}"#), "0.4.0");
        assert_eq!(version_of(b"{"), LATEST);
    }
}
