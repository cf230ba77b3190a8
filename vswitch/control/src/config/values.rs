//! Values that keys of several sections have.

use super::document::{Reader, Section, quoted};
use std::path::PathBuf;
use vswitch_dataplane::packet::Mac;

/// Bytes of a path, with room for what is written beside it (`PATH_MAX` of Linux is 4096).
const PATH_LEN_MAX: usize = 4000;

/// The absolute path of a file or directory.
pub(super) fn path(
    section: &mut Section<'_, '_>,
    reader: &mut Reader<'_>,
    key: &'static str,
    example: &'static str,
) -> Option<PathBuf> {
    let path = PathBuf::from(section.string(reader, key, example)?);
    if path.is_absolute() && path.file_name().is_some() && path.as_os_str().len() <= PATH_LEN_MAX {
        return Some(path);
    }
    let problem = format!("{} is no absolute path", quoted(&path.to_string_lossy()));
    let hint = format!("write {key} = {example:?}, or another path of at most {PATH_LEN_MAX} bytes");
    reader.wrong(&section.span(key), key, problem, hint);
    section.refuse(key);
    None
}

/// An Ethernet address.
pub(super) fn mac(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Option<Mac> {
    let text = section.string(reader, "mac", "02:00:00:00:00:01")?;
    let parsed: Result<Mac, _> = text.parse();
    if parsed.is_err() {
        let problem = format!("{} is no Ethernet address", quoted(&text));
        reader.wrong(&section.span("mac"), "mac", problem, "write it like \"02:00:00:00:00:01\"");
        section.refuse("mac");
    }
    parsed.ok()
}
