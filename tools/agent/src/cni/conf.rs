//! The network configuration that makes a container runtime call the plug-in.
//!
//! A runtime takes a Node's network as there when it finds this file. So the agent writes it when
//! the switch forwards, all at once, and leaves it there: the network stays when the agent ends.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// The plug-in has defaults for everything else.
const TEXT: &str = r#"{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [{"type": "vswitch"}]
}
"#;

/// Writes the file, unless somebody has written one there: an administrator's stays.
pub(super) fn write(path: &Path) -> io::Result<bool> {
    if path.exists() {
        return Ok(false);
    }
    // A runtime reads names with certain endings only, and this is none of them.
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(TEXT.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_once_and_one_of_somebody_else_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("10-vswitch.conflist");
        assert!(write(&path).expect("written"));
        let text = fs::read_to_string(&path).expect("read");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["plugins"][0]["type"], "vswitch");
        fs::write(&path, "mine").expect("written");
        assert!(!write(&path).expect("looked at"));
        assert_eq!(fs::read_to_string(&path).expect("read"), "mine");
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1);
        assert!(write(&dir.path().join("none/10-vswitch.conflist")).is_err());
    }
}
