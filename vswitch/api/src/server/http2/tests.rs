//! What the library sees behind [`Requests`] is what the client sent, but for `:authority`;
//! whatever comes, and however it is split.

mod peer;

use super::requests::{PREFACE, Requests};
use peer::{BlockPlan, FieldPlan, Peer, authority_is_good};
use proptest::prelude::*;
use proptest::sample::Index;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Method};

/// A request as the library tells it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    authority: Option<String>,
    path: String,
    method: Method,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Polls until it is ready, or waits: nobody will wake it.
fn ready<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    (0..4).find_map(|_| match poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}

/// What the library makes of bytes, behind which there is nothing yet; and whether it gave up the
/// connection.
fn library(bytes: &[u8]) -> (Vec<Seen>, bool) {
    let io = tokio::io::join(std::io::Cursor::new(bytes.to_vec()).chain(Never), tokio::io::sink());
    let mut builder = h2::server::Builder::new();
    let mut shaking = builder.max_header_list_size(super::HEADERS_LEN_MAX).handshake::<_, bytes::Bytes>(io);
    let Some(Ok(mut connection)) = ready(|cx| Pin::new(&mut shaking).poll(cx)) else { return (Vec::new(), true) };
    let (mut taken, mut failed) = (Vec::new(), false);
    while let Some(accepted) = ready(|cx| connection.poll_accept(cx)) {
        match accepted {
            Some(Ok(request)) => taken.push(request),
            _ => {
                failed = true;
                break;
            }
        }
    }
    let mut seen = Vec::new();
    for (request, _answer) in &mut taken {
        let mut body = Vec::new();
        while let Some(Some(Ok(chunk))) = ready(|cx| request.body_mut().poll_data(cx)) {
            body.extend_from_slice(&chunk);
        }
        seen.push(Seen {
            authority: request.uri().authority().map(|authority| authority.to_string()),
            path: request.uri().path().to_owned(),
            method: request.method().clone(),
            headers: request.headers().clone(),
            body,
        });
    }
    (seen, failed)
}

/// A reader that waits for ever.
struct Never;

impl AsyncRead for Never {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

/// Gives `bytes` in reads of the lengths in `cuts`, over and over; takes at most `max` at a time.
fn translate(mut requests: Requests, bytes: &[u8], cuts: &[usize], max: usize) -> (Vec<u8>, Requests) {
    let (mut out, mut rest, mut cuts) = (Vec::new(), bytes, cuts.iter().cycle());
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(rest.len().min(*cuts.next().expect("a cycle")));
        rest = behind;
        if requests.passes(part.len()) {
            out.extend_from_slice(part);
            continue;
        }
        requests.take(part);
        while requests.give(max, |ready| out.extend_from_slice(ready)) {}
        assert!(requests.memory() <= 1 << 20, "{} bytes are held", requests.memory());
    }
    (out, requests)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![Just(1), 1..30_usize, 100..9_000_usize], 1..6)
}

/// Requests and how they are written.
#[derive(Debug, Clone)]
struct Plan {
    authority: Option<FieldPlan>,
    fields: Vec<FieldPlan>,
    block: BlockPlan,
    body: Option<Vec<u8>>,
    /// Another frame in front of it.
    other: Option<(u8, Vec<u8>)>,
}

fn plan(authorities: &'static [&'static [u8]]) -> impl Strategy<Value = Plan> {
    let names = prop_oneof![
        Just(b"te".to_vec()),
        Just(b"content-type".to_vec()),
        Just(b"x-request".to_vec()),
        "[a-z][a-z0-9-]{0,20}".prop_map(String::into_bytes)
    ];
    let values = prop_oneof![
        Just(b"application/grpc".to_vec()),
        Just(Vec::new()),
        "[ -~]{0,40}".prop_map(String::into_bytes),
        (1..3_000_usize).prop_map(|len| vec![b'y'; len]),
        // Its Huffman code has 8,750 bytes: two of them do not fit into a frame.
        Just(vec![0x80; 3_500]),
    ];
    let field = (names, values, any::<[u8; 3]>()).prop_filter_map("not for requests", |(name, value, how)| {
        let value = if name == b"te" { b"trailers".to_vec() } else { value };
        let connection = [&b"connection"[..], b"upgrade", b"keep-alive", b"transfer-encoding", b"proxy-connection"];
        (!connection.contains(&name.as_slice())).then_some(FieldPlan { name, value, how })
    });
    let authority = (prop::sample::select(authorities), any::<[u8; 3]>()).prop_map(|(value, how)| FieldPlan {
        name: b":authority".to_vec(),
        value: value.to_vec(),
        how,
    });
    let others = prop_oneof![
        Just((4, Vec::new())),
        any::<[u8; 8]>().prop_map(|bytes| (6, bytes.to_vec())),
        (0..200_usize).prop_map(|len| (0xfa, vec![7; len]))
    ];
    let block = (
        prop::option::weighted(0.2, 0..4097_usize),
        prop::option::weighted(0.2, any::<u8>()),
        any::<bool>(),
        prop::collection::vec(any::<Index>(), 0..4),
    );
    let block = block.prop_map(|(resize, padding, priority, splits)| BlockPlan { resize, padding, priority, splits });
    let body = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
    (prop::option::weighted(0.9, authority), prop::collection::vec(field, 0..4), block, body, prop::option::of(others))
        .prop_map(|(authority, fields, block, body, other)| Plan { authority, fields, block, body, other })
}

const GOOD: &[&[u8]] = &[b"localhost", b"10.0.0.1:80", b"user@host"];
const ALL: &[&[u8]] = &[
    b"localhost",
    b"tmp%2Frec%2Fvswitch.sock",
    b"/run/vswitch/vswitch.sock",
    b"",
    b"a b",
    b"\xff\xfe",
    b"[::1",
    b"10.0.0.1:80",
    &[b'%'; 4_100],
];

/// The bytes of a client, and what it means by them.
fn written(plans: &[Plan]) -> (Vec<u8>, Vec<Seen>) {
    let (mut peer, mut seen) = (Peer::default(), Vec::new());
    let mut bytes = PREFACE.to_vec();
    peer::frame(&mut bytes, 4, 0, 0, &[]);
    for (nth, plan) in plans.iter().enumerate() {
        let stream = 2 * u32::try_from(nth).expect("few") + 1;
        if let Some((kind, payload)) = &plan.other {
            peer::frame(&mut bytes, *kind, 0, 0, payload);
        }
        let path = format!("/vswitch.v1.BridgeService/Call{}", nth % 2);
        let pseudo = [(":method", "POST"), (":scheme", "http"), (":path", &path)];
        let how = plan.authority.as_ref().map_or([0; 3], |authority| authority.how);
        let pseudo = pseudo.map(|(name, value)| FieldPlan { name: name.into(), value: value.into(), how });
        let fields: Vec<_> = pseudo.iter().chain(&plan.authority).chain(&plan.fields).collect();
        peer.headers(&mut bytes, stream, &fields, &plan.block, plan.body.is_none());
        if let Some(body) = &plan.body {
            peer::frame(&mut bytes, 0, 1, stream, body);
        }
        let mut headers = HeaderMap::new();
        for field in &plan.fields {
            let name = HeaderName::from_bytes(&field.name).expect("a name");
            headers.append(name, HeaderValue::from_bytes(&field.value).expect("a value"));
        }
        let authority = plan.authority.as_ref().map(|authority| match authority_is_good(&authority.value) {
            true => String::from_utf8(authority.value.clone()).expect("good"),
            false => "localhost".to_owned(),
        });
        let body = plan.body.clone().unwrap_or_default();
        seen.push(Seen { authority, path, method: Method::POST, headers, body });
    }
    (bytes, seen)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_library_sees_what_was_sent_but_for_authority(
        plans in prop::collection::vec(plan(ALL), 1..8), cuts in cuts(), max in 1..20_000_usize,
    ) {
        let (bytes, want) = written(&plans);
        let (out, _) = translate(Requests::default(), &bytes, &cuts, max);
        let (seen, failed) = library(&out);
        prop_assert!(!failed);
        prop_assert_eq!(seen, want);
        prop_assert_eq!(translate(Requests::default(), &bytes, &[bytes.len()], usize::MAX).0, out, "the split matters");
    }

    #[test]
    fn who_sends_a_good_authority_is_not_touched(plans in prop::collection::vec(plan(GOOD), 1..8), cuts in cuts()) {
        let (bytes, _) = written(&plans);
        let (out, _) = translate(Requests::default(), &bytes, &cuts, usize::MAX);
        prop_assert!(out == bytes);
    }

    /// Each block of a client encoded anew, or none: the library accepts the same requests, and
    /// gives up the same connections.
    #[test]
    fn encoding_anew_changes_nothing_even_of_what_is_wrong(
        plans in prop::collection::vec(plan(GOOD), 1..6), wrong in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4), cuts in cuts(),
    ) {
        let (mut bytes, _) = written(&plans);
        let damaged = !wrong.is_empty();
        for (at, byte) in wrong {
            let len = bytes.len();
            bytes[PREFACE.len() + at.index(len - PREFACE.len())] = byte;
        }
        let (out, requests) = translate(Requests::rewriting(), &bytes, &cuts, usize::MAX);
        let (plain, plain_failed) = library(&bytes);
        let (anew, anew_failed) = library(&out);
        // The library forgets to decode the block of a stream that depends on itself, and its table
        // is wrong from then on.
        prop_assume!(!peer::depends_on_itself(&bytes));
        // A byte that was changed may have made an authority bad: then more is accepted, never
        // less.
        let bad = translate(Requests::default(), &bytes, &cuts, usize::MAX).1.rewrites();
        // Of a block in several frames the library judges each, and gives up the connection; here
        // all are judged together, and of any stream that is refused the connection may go on.
        let refused = damaged && (0..2 * 6).any(|stream| requests.cause(stream).is_some());
        if plain_failed {
            // What the library had read before that is lost.
            prop_assert!(anew_failed || bad || requests.holds() || refused, "{:?}", requests);
        } else if !refused {
            prop_assert!(!anew_failed);
            prop_assert!(plain == anew || bad && plain.len() < anew.len(), "{:?}\n{:?}", plain, anew);
        }
    }

    #[test]
    fn hostile_bytes_are_passed_on_or_refused(
        plans in prop::collection::vec(plan(ALL), 1..6),
        wrong in prop::collection::vec((any::<Index>(), prop::collection::vec(any::<u8>(), 0..12)), 1..8), cuts in cuts(),
    ) {
        let (mut bytes, _) = written(&plans);
        for (at, with) in wrong {
            let at = at.index(bytes.len());
            let end = (at + with.len() / 2).min(bytes.len());
            bytes.splice(at..end, with);
        }
        let (out, requests) = translate(Requests::default(), &bytes, &cuts, usize::MAX);
        if !requests.rewrites() {
            prop_assert!(bytes.starts_with(&out));
        }
        library(&out);
    }

    #[test]
    fn any_bytes_behind_the_preface(bytes in prop::collection::vec(any::<u8>(), 0..300), small in any::<bool>()) {
        let mut all = PREFACE.to_vec();
        // Short frames of header blocks, or anything.
        all.extend(bytes.iter().enumerate().map(|(at, byte)| if small && at % 40 < 4 { [0, 0, 31, 1][at % 40] } else { *byte }));
        super::fuzz(&all);
        translate(Requests::rewriting(), &all, &[3], 5);
    }
}

#[test]
fn an_hpack_bomb_is_bounded() {
    let (mut peer, mut bytes) = (Peer::default(), PREFACE.to_vec());
    let big = FieldPlan { name: b"x-big".to_vec(), value: vec![b'z'; 4_000], how: [1, 0, 0] };
    let bad = FieldPlan { name: b":authority".to_vec(), value: b"%".to_vec(), how: [2, 0, 0] };
    peer.headers(&mut bytes, 1, &[&bad, &big], &BlockPlan::default(), true);
    for nth in 1..2_000_u32 {
        // 64 references to 4 KB in 64 bytes.
        peer::frame(&mut bytes, 1, 5, 2 * nth + 1, &[0x80 | 62; 64]);
    }
    let (out, requests) = translate(Requests::default(), &bytes, &[16_000], 1_000);
    assert!(requests.is_over(), "the library gives up at 64 KiB of headers, and so does this");
    assert!(library(&out).1);
    assert!(out.len() < 80_000, "{} bytes", out.len());
}

#[test]
fn a_header_block_without_end_is_bounded() {
    for first in [&b"%"[..], b"localhost"] {
        let (mut peer, mut bytes) = (Peer::default(), PREFACE.to_vec());
        let authority = FieldPlan { name: b":authority".to_vec(), value: first.to_vec(), how: [2, 0, 0] };
        peer.headers(&mut bytes, 1, &[&authority], &BlockPlan::default(), true);
        peer::frame(&mut bytes, 1, 1, 3, &[]);
        for _ in 0..1_000 {
            peer::frame(&mut bytes, 9, 0, 3, &[0x82; 100]);
        }
        let (out, requests) = translate(Requests::default(), &bytes, &[1_000], 1_000);
        assert_eq!(requests.cause(0), Some(super::cause::Cause::ListLength));
        assert!(library(&out).1, "the library gives up");
    }
}

#[test]
fn the_seeds_of_the_fuzz_target() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/http2_requests");
    let seeds: Vec<_> =
        std::fs::read_dir(directory).expect("seeds").map(|entry| entry.expect("an entry").path()).collect();
    assert!(seeds.len() >= 3);
    for seed in seeds {
        super::fuzz(&std::fs::read(seed).expect("a seed"));
    }
}
