//! Long answers: in which form, and in parts.

use super::status::invalid;
use tonic::Status;
use tonic::codegen::BoxStream;
use vswitch_dataplane::port::FieldError;
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

/// Bytes after which a message ends. One item more, a flow of as many clauses as there may be among
/// them, and it is still within the 4 MiB that clients take by default.
const PART_LEN: usize = 1 << 20;

/// Items in messages of at most `chunk` each, which are made when they are sent; no message if
/// there are none.
pub(super) fn parts<T, U, M>(
    items: Vec<T>,
    chunk: usize,
    present: impl FnMut(T) -> U + Send + 'static,
    message: impl Fn(Vec<U>) -> M + Send + 'static,
) -> BoxStream<M>
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
    present: impl FnMut(T) -> U + Send + 'static,
    message: impl Fn(Vec<U>) -> M + Send + 'static,
) -> BoxStream<M>
where
    T: Send + 'static,
    U: 'static,
    M: Send + 'static,
{
    measured_parts(first, items, chunk, present, |_| 0, message)
}

/// Likewise, of items of very different lengths: a message ends, too, with the item that makes it
/// [`PART_LEN`] bytes long.
pub(super) fn measured_parts<T, U, M>(
    first: Option<M>,
    items: Vec<T>,
    chunk: usize,
    mut present: impl FnMut(T) -> U + Send + 'static,
    len: impl Fn(&U) -> usize + Send + 'static,
    message: impl Fn(Vec<U>) -> M + Send + 'static,
) -> BoxStream<M>
where
    T: Send + 'static,
    U: 'static,
    M: Send + 'static,
{
    let mut items = items.into_iter();
    let parts = std::iter::from_fn(move || {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while part.len() < chunk && bytes < PART_LEN {
            let Some(item) = items.next().map(&mut present) else { break };
            bytes += len(&item);
            part.push(item);
        }
        (!part.is_empty()).then(|| message(part))
    });
    Box::pin(tokio_stream::iter(first.into_iter().chain(parts).map(Ok)))
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

    #[tokio::test]
    async fn long_items_have_messages_of_their_own() {
        let items = [10, PART_LEN, 10, PART_LEN / 2, PART_LEN / 2 - 1, 1, 7];
        let parts = measured_parts(None, items.to_vec(), 3, |i| i, |i| *i, |part| part);
        let all: Vec<Vec<usize>> = parts.map(|part| part.expect("no error")).collect().await;
        assert_eq!(all, [&items[..2], &items[2..5], &items[5..]]);
    }

    #[test]
    fn forms() {
        assert_eq!([0, 1, 2, 3].map(|n| form(n).ok()), [Form::Line, Form::Line, Form::Text, Form::Typed].map(Some));
        assert_eq!(form(4).expect_err("unknown").message(), "form: 4 is no form; use LINE (1), TEXT (2) or TYPED (3)");
    }
}
