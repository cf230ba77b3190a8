//! Where lines come from.

use crate::error::BadLine;
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a line, as the switch takes them. An OpenFlow message of 64 KiB becomes a few hundred
/// KiB at most, a flow of 65,536 clauses two MiB.
const LINE_LEN_MAX: usize = 4 << 20;

/// First words of lines of a dump that are no flows, groups or meters.
const HEADERS: [&str; 2] = ["OFPST_", "NXST_"];

/// Lines, or a single text.
pub(super) enum Source {
    /// From the command line.
    Text(String),
    /// From a file, or from standard input if there is no path.
    File(Option<std::path::PathBuf>),
}

/// A line that says something, and its number from 1 (0: from the command line).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u32,
    pub(super) text: String,
}

impl Source {
    /// A text of the command line; `-` is standard input.
    pub(super) fn text(text: &str) -> Self {
        if text == "-" { Self::File(None) } else { Self::Text(text.to_owned()) }
    }

    /// A file; `-` is standard input.
    pub(super) fn file(path: &Path) -> Self {
        Self::File((path != Path::new("-")).then(|| path.to_owned()))
    }

    /// For errors: the name of the file, `-` for standard input, nothing for the command line.
    pub(super) fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Text(_) => "".into(),
            Self::File(None) => "-".into(),
            Self::File(Some(path)) => path.to_string_lossy(),
        }
    }

    /// Hands each line that says something to `take`, until there are no more or it says that it
    /// has enough.
    pub(super) fn read(&self, mut take: impl FnMut(Line) -> bool) -> io::Result<()> {
        let file: Box<dyn Read> = match self {
            Self::Text(text) => {
                take(Line { number: 0, text: text.clone() });
                return Ok(());
            }
            Self::File(None) => Box::new(io::stdin().lock()),
            Self::File(Some(path)) => Box::new(std::fs::File::open(path)?),
        };
        read(&mut BufReader::with_capacity(1 << 16, file), &mut take)
    }
}

fn read(file: &mut dyn BufRead, take: &mut dyn FnMut(Line) -> bool) -> io::Result<()> {
    let mut bytes = Vec::new();
    for number in 1..=u32::MAX {
        bytes.clear();
        let limit = u64::try_from(LINE_LEN_MAX + 1).unwrap_or(u64::MAX);
        if (&mut *file).take(limit).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        let wrong = |problem| io::Error::new(io::ErrorKind::InvalidData, BadLine { number, problem });
        if bytes.len() > LINE_LEN_MAX {
            return Err(wrong("it has more than 4 MiB"));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("it is not UTF-8"))?;
        // Like ovs-ofctl: a # begins a comment wherever it is.
        let text = text.split_once('#').map_or(text, |(text, _)| text).trim_end();
        let first = text.trim_start();
        if first.is_empty() || HEADERS.iter().any(|header| first.starts_with(header) && first.contains(" reply ")) {
            continue;
        }
        if !take(Line { number, text: text.to_owned() }) {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it has too many lines"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Result<Vec<(u32, String)>, String> {
        let mut lines = Vec::new();
        let mut take = |line: Line| {
            lines.push((line.number, line.text));
            true
        };
        read(&mut BufReader::new(text), &mut take).map_err(|error| error.to_string())?;
        Ok(lines)
    }

    #[test]
    fn lines_keep_their_numbers_and_columns() {
        let text = b"# head\n\n  actions=drop # tail\r\n\t\nOFPST_FLOW reply (OF1.5) (xid=0x2):\n cookie=0x0, actions=drop\nlast";
        let want = [(3, "  actions=drop"), (6, " cookie=0x0, actions=drop"), (7, "last")];
        assert_eq!(lines(text).expect("lines"), want.map(|(number, text)| (number, text.to_owned())));
        assert_eq!(lines(b"").expect("no lines"), []);
    }

    #[test]
    fn what_is_no_text_is_refused_by_number() {
        assert_eq!(lines(b"a\n\xff\n").expect_err("not UTF-8"), "2: it is not UTF-8");
        let long = vec![b'x'; LINE_LEN_MAX + 1];
        assert_eq!(lines(&long).expect_err("too long"), "1: it has more than 4 MiB");
        assert_eq!(lines(&long[..LINE_LEN_MAX]).expect("just fits").len(), 1);
    }

    #[test]
    fn a_dash_is_standard_input() {
        assert_eq!(Source::text("-").name(), "-");
        assert_eq!(Source::file(Path::new("-")).name(), "-");
        assert_eq!(Source::text("actions=drop").name(), "");
        assert_eq!(Source::file(Path::new("/a b")).name(), "/a b");
    }
}
