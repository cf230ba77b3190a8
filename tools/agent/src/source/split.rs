//! Where the documents of a file begin.

/// Texts of documents and the number of lines before each. Neither a quoted text nor a block can
/// hold the lines that divide documents.
pub(super) fn split(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut begin, mut first, mut at) = (Vec::new(), 0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = |marker: &str| {
            line.strip_prefix(marker).is_some_and(|rest| rest.trim_start().len() < rest.len() || rest.is_empty())
        };
        let end = if is_marker("...") { at + line.len() } else { at };
        if is_marker("---") || is_marker("...") {
            parts.push((first, &text[begin..end]));
            (begin, first) = (end, number + usize::from(end > at));
        }
        at += line.len();
    }
    parts.push((first, &text[begin..]));
    let says_something =
        |part: &&str| part.lines().any(|line| !line.trim().is_empty() && !line.starts_with(['#', '%']));
    parts.retain(|(_, part)| says_something(part));
    parts
}

/// The same of the text of one document in which others seem to begin whose `---` was forgotten or
/// misspelt: each that says again at the begin of a line what it is, and something beside that; and
/// each mapping of JSON behind another.
pub(super) fn without_markers(part: &str) -> Vec<(usize, &str)> {
    let mut begins: Vec<Begin> = vec![Begin::default()];
    let (mut at, mut is_closed) = (0, false);
    for (number, line) in part.split_inclusive('\n').enumerate() {
        let head = ["apiVersion:", "kind:"].iter().position(|head| line.starts_with(head));
        let last = begins.len() - 1;
        match head {
            Some(head) if begins[last].heads[head] && begins[last].has_more => {
                begins.push(Begin { at, number, ..Begin::default() });
                begins[last + 1].heads[head] = true;
            }
            Some(head) => begins[last].heads[head] = true,
            None if is_closed && line.starts_with('{') => {
                begins.push(Begin { at, number, has_more: true, ..Begin::default() });
            }
            None => begins[last].has_more |= line.starts_with(|c: char| c.is_alphanumeric() || "\"'{[".contains(c)),
        }
        at += line.len();
        is_closed = line.trim_end().ends_with('}') || (is_closed && (is_nothing(line) || is_marker(line)));
    }
    begins.retain(|begin| begin.at == 0 || begin.has_more);
    let ends = begins.iter().skip(1).map(|begin| begin.at).chain([part.len()]);
    let parts = begins.iter().zip(ends).map(|(begin, end)| (begin.number, &part[begin.at..end]));
    let count = begins.len();
    let parts =
        parts.enumerate().map(|(i, (number, part))| (number, if i + 1 < count { unmarked(part) } else { part }));
    parts.collect()
}

/// A line at which a document may begin.
#[derive(Default)]
struct Begin {
    at: usize,
    number: usize,
    /// It says its `apiVersion`, its `kind`.
    heads: [bool; 2],
    /// It says more.
    has_more: bool,
}

/// A document without the line at its end that was meant to be `---`.
fn unmarked(part: &str) -> &str {
    let mut end = part.len();
    for line in part.split_inclusive('\n').rev() {
        end -= line.len();
        if !is_nothing(line) {
            return if is_marker(line) { &part[..end] } else { part };
        }
    }
    part
}

/// Whether a line says nothing.
fn is_nothing(line: &str) -> bool {
    line.trim().is_empty() || line.trim().starts_with('#')
}

/// Whether a line seems to be meant as `---`.
fn is_marker(line: &str) -> bool {
    let text = line.trim();
    text.starts_with("--") || text.starts_with(['\u{2013}', '\u{2014}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_begins_where_one_says_again_what_it_is() {
        let (one, two) = ("apiVersion: v1\nkind: A\nmetadata: {}\n", "kind: B\napiVersion: v2\nspec: {}\n");
        for between in ["", "----\n", " ---\n", "---x\n", "\u{2014}\n", "--\n\n# next\n"] {
            let text = format!("{one}{between}{two}");
            let second = 3 + between.lines().count();
            assert_eq!(without_markers(&text), [(0, one), (second, two)], "{between:?}");
        }
        for between in ["", "\n", "---x\n"] {
            let (one, two) = ("{\"kind\": \"A\"\n}\n", "{\"kind\": \"B\"}\n");
            let text = format!("{one}{between}{two}");
            let first = if between == "\n" { format!("{one}\n") } else { one.to_owned() };
            let parts: Vec<_> = without_markers(&text).into_iter().map(|(_, part)| part).collect();
            assert_eq!(parts, [first.as_str(), two], "{between:?}");
        }
        for whole in [
            "[\n{\"kind\": \"A\"},\n{\"kind\": \"B\"}\n]\n".to_owned(),
            one.to_owned(),
            format!("{one}apiVersion: v1\n"),
            format!("{one}kind: B\n# no more\n"),
            "apiVersion: v1\nkind: A\nkind: B\nspec: {}\n".to_owned(),
            format!("{one}data:\n  kind: B\n  x: y\n"),
        ] {
            assert_eq!(without_markers(&whole), [(0, whole.as_str())]);
        }
    }
}
