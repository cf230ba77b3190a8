//! Files of recorded messages. Their form: `tools/record-openflow --help`.

use vswitch_openflow::{Codec, Version};

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToSwitch,
    FromSwitch,
}

/// A command and its messages.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) command: String,
    /// Its standard input.
    pub(crate) lines: Vec<String>,
    pub(crate) messages: Vec<(Direction, Vec<u8>)>,
}

/// A file.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) file: String,
    /// Without the version.
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) runs: Vec<Run>,
}

impl Recording {
    fn read(path: &std::path::Path) -> Self {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (name, version) = file.trim_end_matches(".txt").rsplit_once('-').unwrap();
        let version = if version == "13" { Version::V13 } else { Version::V15 };
        let mut runs: Vec<Run> = Vec::new();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let (mark, text) = line.split_at(2);
            let direction = match mark {
                "$ " => {
                    runs.push(Run { command: text.to_owned(), ..Run::default() });
                    continue;
                }
                "| " => {
                    runs.last_mut().unwrap().lines.push(text.to_owned());
                    continue;
                }
                "> " => Direction::ToSwitch,
                "< " => Direction::FromSwitch,
                _ => panic!("{file}: {line:?} is no line of a recording"),
            };
            runs.last_mut().unwrap().messages.push((direction, bytes(text)));
        }
        Self { name: name.to_owned(), version, runs, file }
    }

    /// All messages, each with the command that caused it.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (Direction, &str, &[u8])> {
        self.runs.iter().flat_map(|run| {
            run.messages.iter().map(|(direction, bytes)| (*direction, run.command.as_str(), bytes.as_slice()))
        })
    }

    /// The codec of a side: the switch knows the mapping of options, ovs-ofctl does not.
    pub(crate) fn codec(&self, direction: Direction) -> Codec {
        let codec = Codec::new(self.version);
        match direction {
            Direction::ToSwitch => codec,
            Direction::FromSwitch => codec.with_options([4, 16, 0, 0, 0, 0, 0, 0]),
        }
    }
}

/// All of them.
pub(crate) fn recordings() -> Vec<Recording> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let mut paths: Vec<_> = std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{golden} is empty");
    paths.iter().map(|path| Recording::read(path)).collect()
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
