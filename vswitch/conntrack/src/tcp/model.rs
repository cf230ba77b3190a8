//! The same rules written down a second time, slowly: sequence numbers are integers that never
//! wrap, compared by their distance on the circle; states are a table.

use super::{Outcome, Peer, Segment, State, Tcp, flag};
use crate::Direction;
use proptest::prelude::*;

const CIRCLE: i128 = 1 << 32;

/// Way from `b` to `a`, the shorter way around; just opposite counts as behind.
fn distance(a: i128, b: i128) -> i128 {
    (a - b + CIRCLE / 2).rem_euclid(CIRCLE) - CIRCLE / 2
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// SYN without the option, or none yet.
    No,
    Shift(u8),
    /// The SYN was not seen.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct End {
    /// One after the last number it sent.
    sent: i128,
    /// One after the last number it may send. 1 means: not known.
    allowed: i128,
    window: i128,
    scale: Scale,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct Model {
    ends: [End; 2],
}

/// Flags that exclude each other: none of these sets belongs to an honest segment.
fn is_nonsense(flags: u8) -> bool {
    let has = |letter| match letter {
        'F' => flags & flag::FIN != 0,
        'S' => flags & flag::SYN != 0,
        'R' => flags & flag::RST != 0,
        'P' => flags & flag::PSH != 0,
        'U' => flags & flag::URG != 0,
        _ => flags & flag::ACK != 0,
    };
    let pairs = [('S', 'R'), ('S', 'F')];
    pairs.into_iter().any(|(a, b)| has(a) && has(b))
        || ['F', 'P', 'U'].into_iter().any(|letter| has(letter) && !has('A'))
        || !['S', 'A', 'R'].into_iter().any(has)
}

/// How many numbers a segment takes.
fn space(segment: &Segment) -> i128 {
    let bits = segment.flags & (flag::SYN | flag::FIN);
    i128::from(segment.payload) + i128::from(bits.count_ones())
}

/// Its window in units of `1 << shift`, rounded up.
fn units(window: i128, shift: u8) -> i128 {
    let unit = 1 << shift;
    (window + unit - 1) / unit
}

fn scale(segment: &Segment) -> Scale {
    segment.scale.map_or(Scale::No, |shift| Scale::Shift(shift.min(14)))
}

/// State of the receiver that gets an acknowledgment.
const ACKNOWLEDGED: [(State, State); 2] = [(State::SynSent, State::Established), (State::Closing, State::FinWait2)];

impl Model {
    fn open(segment: &Segment) -> Option<Self> {
        let is_syn = segment.flags & flag::SYN != 0;
        if is_nonsense(segment.flags) || is_syn && segment.flags & flag::ACK != 0 {
            return None;
        }
        let mine = if is_syn { scale(segment) } else { Scale::Unknown };
        let shift = if let Scale::Shift(shift) = mine { shift } else { 0 };
        let opener = End {
            sent: segment.seq.into(),
            allowed: i128::from(segment.seq) + space(segment) + 1,
            window: units(i128::from(segment.window).max(1), shift),
            scale: mine,
            state: State::SynSent,
        };
        let other = if is_syn { Scale::No } else { Scale::Unknown };
        let silent = End { sent: 0, allowed: 1, window: 1, scale: other, state: State::Closed };
        Some(Self { ends: [opener, silent] })
    }

    fn update(&mut self, segment: &Segment, direction: Direction, check: bool) -> Outcome {
        if is_nonsense(segment.flags) {
            return Outcome::Invalid;
        }
        let [mut me, mut you] = match direction {
            Direction::Original => self.ends,
            Direction::Reply => [self.ends[1], self.ends[0]],
        };
        let outcome = judge(segment, &mut me, &mut you, check);
        self.ends = match direction {
            Direction::Original => [me, you],
            Direction::Reply => [you, me],
        };
        outcome
    }
}

fn judge(segment: &Segment, me: &mut End, you: &mut End, check: bool) -> Outcome {
    let is = |flag: u8| segment.flags & flag != 0;
    let over = |end: &End| matches!(end.state, State::FinWait2 | State::TimeWait);
    if is(flag::SYN) && !is(flag::ACK) {
        if over(me) && over(you) {
            return Outcome::Reopen;
        }
        if matches!(me.state, State::Closed | State::SynSent) {
            me.state = State::SynSent;
            return Outcome::ValidNew;
        }
    }
    let (mut mine, mut yours) = match (me.scale, you.scale) {
        _ if is(flag::SYN) => (0, 0),
        (Scale::Shift(mine), Scale::Shift(yours)) => (mine, yours),
        (Scale::Unknown, Scale::Unknown) => (14, 14),
        _ => (0, 0),
    };
    let mut window = i128::from(segment.window);
    let first = i128::from(segment.seq);
    let end = first + space(segment);
    let mut acks_are_known = true;
    if me.state == State::Closed {
        if let (true, Scale::Shift(shift)) = (is(flag::SYN), you.scale) {
            me.scale = scale(segment);
            if let Scale::Shift(own) = me.scale {
                (mine, yours) = (own, shift);
                window = units(window, own);
            } else {
                you.window = (you.window << shift) % 65_536;
                you.scale = Scale::No;
            }
        }
        (me.sent, me.state) = (first, State::SynSent);
        let allowed = end + (you.window << yours).max(1);
        if me.allowed.rem_euclid(CIRCLE) == 1 || distance(allowed, me.allowed) >= 0 {
            me.allowed = allowed;
            acks_are_known = false;
        }
        me.window = me.window.max(window);
    }
    let ack = if !is(flag::ACK) || is(flag::RST) && segment.ack == 0 { you.sent } else { segment.ack.into() };
    // Without numbers of its own it could be anywhere.
    let place = (first != end).then_some((first, end));
    let (from, to) = place.unwrap_or((me.sent, me.sent));

    let unacknowledged = distance(you.sent, ack);
    let acks = !acks_are_known || (-67_035..=67_035 << mine).contains(&unacknowledged);
    let hits = !is(flag::RST) || distance(first, me.sent).abs() <= 1;
    let within = is_past(me.allowed, to) && is_past(from, me.sent - (you.window << yours));
    let nearly = is_past(me.allowed + 67_035, to) && is_past(from, me.sent - 67_035);
    let outcome = if !check || within && acks && hits {
        Outcome::Valid
    } else if nearly && (you.state == State::Closed || over(me) || over(you)) {
        Outcome::ValidLoose
    } else {
        return Outcome::Invalid;
    };

    me.window = me.window.max(window);
    if distance(to, me.sent) > 0 {
        me.sent = to;
    }
    if is_past(ack + (window << mine), you.allowed) {
        you.allowed = ack + (window << mine).max(1);
    }
    if is(flag::FIN) && matches!(me.state, State::SynSent | State::Established) {
        me.state = State::Closing;
    }
    if is(flag::ACK) && outcome == Outcome::Valid {
        let after = ACKNOWLEDGED.into_iter().find(|(before, _)| *before == you.state);
        you.state = after.map_or(you.state, |(_, after)| after);
    }
    if is(flag::RST) {
        (me.state, you.state) = (State::TimeWait, State::TimeWait);
    }
    outcome
}

/// `a` is `b` or after it.
fn is_past(a: i128, b: i128) -> bool {
    distance(a, b) >= 0
}

/// A peer as the model has it.
fn described(peer: &Peer) -> (i128, i128, i128, Scale, State) {
    let scale = match peer.scale {
        0 => Scale::No,
        0x40 => Scale::Unknown,
        scale => Scale::Shift(scale & 0xf),
    };
    (peer.seq_lo.into(), peer.seq_hi.into(), peer.max_window.into(), scale, peer.state)
}

/// A segment, by how it lies to what was sent and allowed before.
#[derive(Clone, Debug)]
struct ModelSegment {
    flags: u8,
    direction: Direction,
    /// From what the sender has sent (false) or is allowed to send (true).
    from_allowed: bool,
    seq: i64,
    ack: i64,
    window: u16,
    payload: u32,
    scale: Option<u8>,
}

fn offsets() -> impl Strategy<Value = i64> {
    let edge = prop_oneof![
        Just(0_i64),
        Just(1000),
        Just(65_535),
        Just(67_035),
        Just(67_035 << 14),
        Just(65_535 << 14),
        Just(1 << 31),
        any::<u32>().prop_map(i64::from),
    ];
    prop_oneof![4 => Just(0_i64), 3 => -1500_i64..1500, 3 => (edge, any::<bool>(), -2_i64..=2).prop_map(|(edge, back, near)| near + if back { -edge } else { edge })]
}

fn steps() -> impl Strategy<Value = ModelSegment> {
    let flags = prop_oneof![
        6 => Just(flag::ACK),
        3 => Just(flag::ACK | flag::PSH),
        2 => Just(flag::SYN),
        2 => Just(flag::SYN | flag::ACK),
        2 => Just(flag::FIN | flag::ACK),
        2 => prop_oneof![Just(flag::RST), Just(flag::RST | flag::ACK)],
        2 => any::<u8>(),
    ];
    let direction = prop_oneof![Just(Direction::Original), Just(Direction::Reply)];
    let window = prop_oneof![Just(0_u16), Just(1), Just(1000), Just(u16::MAX), any::<u16>()];
    let payload = prop_oneof![4 => Just(0_u32), 3 => 1_u32..1500, 1 => 0_u32..65_535];
    let scale = prop_oneof![3 => Just(None), 2 => (0_u8..=14).prop_map(Some), 1 => any::<u8>().prop_map(Some)];
    (flags, direction, any::<bool>(), offsets(), offsets(), window, payload, scale).prop_map(
        |(flags, direction, from_allowed, seq, ack, window, payload, scale)| ModelSegment {
            flags,
            direction,
            from_allowed,
            seq,
            ack,
            window,
            payload,
            scale,
        },
    )
}

/// `base` and some, around.
fn moved(base: u32, offset: i64) -> u32 {
    u32::try_from((i64::from(base) + offset).rem_euclid(1 << 32)).expect("below 1 << 32")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn as_the_model(first in steps(), isn: u32, later in prop::collection::vec(steps(), 1..30), checks in prop::bool::weighted(0.9)) {
        let segment = |step: &ModelSegment, seq, ack| {
            let ack = if step.flags & flag::ACK != 0 || step.from_allowed { ack } else { 0 };
            Segment { flags: step.flags, seq, ack, window: step.window, payload: step.payload, scale: step.scale }
        };
        let opening = segment(&first, moved(isn, first.seq), moved(isn, first.ack));
        let (tcp, model) = (Tcp::open(&opening), Model::open(&opening));
        prop_assert_eq!(tcp.is_some(), model.is_some(), "{:?}", opening);
        let (Some(mut tcp), Some(mut model)) = (tcp, model) else { return Ok(()) };
        for step in &later {
            let at = step.direction as usize;
            let (me, you) = (tcp.peers[at], tcp.peers[1 - at]);
            let base = if step.from_allowed { me.seq_hi } else { me.seq_lo };
            // An end that has not spoken yet begins anywhere.
            let base = if me.state == State::Closed { isn.rotate_left(7) } else { base };
            let segment = segment(step, moved(base, step.seq), moved(you.seq_lo, step.ack));
            let before = tcp;
            let outcome = tcp.update(&segment, step.direction, checks);
            prop_assert_eq!(outcome, model.update(&segment, step.direction, checks), "{:?}, {:?} on {:?}", segment, step.direction, before);
            let established = before.peers.iter().all(|peer| peer.state == State::Established);
            if established && segment.flags & (flag::SYN | flag::FIN | flag::RST) == 0 {
                let (slides, slid) = crate::tracker::slid(before, &segment, step.direction, checks);
                prop_assert_eq!((slides, slid), (outcome == Outcome::Valid, tcp), "{:?}, {:?} on {:?}", segment, step.direction, before);
            }
            for (peer, end) in tcp.peers.iter().zip(model.ends) {
                let end = (end.sent.rem_euclid(CIRCLE), end.allowed.rem_euclid(CIRCLE), end.window, end.scale, end.state);
                prop_assert_eq!(described(peer), end, "{:?}, {:?} on {:?}", segment, step.direction, before);
            }
        }
    }
}
