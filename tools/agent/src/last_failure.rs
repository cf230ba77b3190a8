//! Failures of what is tried again and again: one that repeats is logged once.

/// The last failure. Empty: it went well.
#[derive(Debug, Default)]
pub(crate) struct LastFailure(String);

impl LastFailure {
    /// Takes over how it went; whether that is a failure which is new.
    pub(crate) fn is_new(&mut self, failure: &str) -> bool {
        let is_new = !failure.is_empty() && failure != self.0;
        failure.clone_into(&mut self.0);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_new_until_it_repeats() {
        let mut last = LastFailure::default();
        let said = ["", "a", "a", "b", "", "b", "b"].map(|failure| last.is_new(failure));
        assert_eq!(said, [false, true, false, true, false, true, false]);
    }
}
