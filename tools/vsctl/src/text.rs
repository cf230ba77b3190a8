//! Text that others have made.

use std::borrow::Cow;

/// Text of someone else's making, with everything that a terminal would obey escaped.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        text.chars().map(escape).collect::<String>().into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        assert_eq!(clean("plain \u{e9}"), "plain \u{e9}");
        assert_eq!(clean("a\u{1b}[2Jb\nc\u{9b}d"), "a\\u{1b}[2Jb\\nc\\u{9b}d");
    }
}
