//! Text of others, as people are shown it.

use std::borrow::Cow;

/// Whether a character would do something else than be seen: what a terminal obeys (control
/// characters), what turns the direction of text round, and what has no width (Unicode Standard
/// Annex 9 and 14: Bidi_Control, ZW, WJ; tags). With them a name looks like another one.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text of someone else's making, with every character escaped that is not seen as itself.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hidden) {
        let escape = |c: char| if is_hidden(c) { c.escape_default().to_string() } else { c.to_string() };
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
        assert_eq!(shown("plain \u{e9} \u{4e2d}\u{5e9}"), "plain \u{e9} \u{4e2d}\u{5e9}");
        assert_eq!(shown("a\u{1b}[2Jb\nc\u{9b}d"), "a\\u{1b}[2Jb\\nc\\u{9b}d");
    }

    #[test]
    fn nothing_makes_a_name_look_like_another_one() {
        assert_eq!(shown("web\u{202e}1\u{202c}"), "web\\u{202e}1\\u{202c}");
        assert_eq!(shown("we\u{200b}b\u{2066}\u{feff}\u{ad}"), "we\\u{200b}b\\u{2066}\\u{feff}\\u{ad}");
        assert_eq!(shown("a\u{2028}b\u{e0041}"), "a\\u{2028}b\\u{e0041}");
    }
}
