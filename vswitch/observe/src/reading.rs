//! Values of a client's filter, read one by one.

/// Values of all filters of a request together.
pub const VALUES_MAX: usize = 1024;

/// A value that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its path in the request, such as `allow[0].source.pods[1]`.
    pub field: String,
    /// What is wrong, and how to fix it.
    pub problem: String,
}

/// Reads values, and remembers those that are wrong.
pub(crate) struct Reading<'a> {
    pub(crate) wrong: Vec<Wrong>,
    pub(crate) values: usize,
    pub(crate) is_reason: &'a dyn Fn(&str) -> bool,
}

impl Reading<'_> {
    /// Each value of a field, parsed.
    pub(crate) fn each<T: std::fmt::Debug, R>(
        &mut self,
        values: &[T],
        parent: &str,
        field: &str,
        hint: &str,
        parse: impl Fn(&T) -> Option<R>,
    ) -> Vec<R> {
        self.values += values.len();
        let mut parsed = Vec::new();
        for (at, value) in values.iter().enumerate() {
            match parse(value) {
                Some(value) => parsed.push(value),
                None => self.wrong.push(Wrong {
                    field: format!("{parent}.{field}[{at}]"),
                    problem: format!("{} is wrong; {hint}", shown(&format!("{value:?}"))),
                }),
            }
        }
        parsed
    }
}

/// The beginning of a text that may be of any length.
fn shown(text: &str) -> String {
    if text.chars().count() <= 64 { text.to_owned() } else { text.chars().take(64).chain("...".chars()).collect() }
}

/// Whether a name is the wanted one, which may end with `*`.
pub(crate) fn name_fits(wanted: &str, name: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == name, |front| name.starts_with(front))
}
