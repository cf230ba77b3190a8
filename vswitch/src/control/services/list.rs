//! Long answers: in which form, and in parts.

use super::status::invalid;
use crate::port::FieldError;
use tonic::Status;
use vswitch_flow::text::TextError;
use vswitch_proto::v1;

/// How things are to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As lines of a dump.
    Line,
    /// As messages, match and actions as text.
    Text,
    /// As messages all through.
    Typed,
}

/// The form that was asked for.
pub(super) fn form(number: i32) -> Result<Form, Status> {
    match v1::Form::try_from(number) {
        Ok(v1::Form::Unspecified | v1::Form::Line) => Ok(Form::Line),
        Ok(v1::Form::Text) => Ok(Form::Text),
        Ok(v1::Form::Typed) => Ok(Form::Typed),
        Err(_) => {
            let problem = format!("{number} is no form");
            Err(invalid(&[FieldError::new("form", problem, "use LINE (1), TEXT (2) or TYPED (3)")]))
        }
    }
}

/// A text or a value in a request that is wrong.
pub(super) fn wrong(field: &'static str, error: &TextError) -> Status {
    invalid(&[FieldError::new(field, error.problem(), &error.hint)])
}

/// A stream of messages that are made when they are sent.
pub(super) type Parts<M> = tokio_stream::Iter<Messages<M>>;

type Messages<M> = Box<dyn Iterator<Item = Result<M, Status>> + Send>;

/// Items in messages of at most `chunk` each; no message if there are none.
pub(super) fn parts<T, U, M>(
    items: Vec<T>,
    chunk: usize,
    present: impl FnMut(T) -> U + Send + 'static,
    message: impl Fn(Vec<U>) -> M + Send + 'static,
) -> Parts<M>
where
    T: Send + 'static,
    U: 'static,
    M: Send + 'static,
{
    parts_after(None, items, chunk, present, message)
}

/// Likewise, behind a first message if there is one.
pub(super) fn parts_after<T, U, M>(
    first: Option<M>,
    items: Vec<T>,
    chunk: usize,
    mut present: impl FnMut(T) -> U + Send + 'static,
    message: impl Fn(Vec<U>) -> M + Send + 'static,
) -> Parts<M>
where
    T: Send + 'static,
    U: 'static,
    M: Send + 'static,
{
    let mut items = items.into_iter();
    let parts = std::iter::from_fn(move || {
        let part: Vec<U> = items.by_ref().take(chunk).map(&mut present).collect();
        (!part.is_empty()).then(|| message(part))
    });
    let messages: Messages<M> = Box::new(first.into_iter().chain(parts).map(Ok));
    tokio_stream::iter(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt;

    #[tokio::test]
    async fn parts_are_without_loss_or_reordering() {
        for n in [0_u32, 1, 1023, 1024, 1025, 2049] {
            let all: Vec<_> = parts((0..n).collect(), 1024, |i| i, |part| part).collect().await;
            let all: Vec<Vec<u32>> = all.into_iter().map(|part| part.expect("no error")).collect();
            assert!(all.iter().all(|part| (1..=1024).contains(&part.len())), "{n} items");
            assert_eq!(all.concat(), (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn forms() {
        assert_eq!([0, 1, 2, 3].map(|n| form(n).ok()), [Form::Line, Form::Line, Form::Text, Form::Typed].map(Some));
        assert_eq!(form(4).expect_err("unknown").message(), "form: 4 is no form; use LINE (1), TEXT (2) or TYPED (3)");
    }
}
