//! The tracker against a list of connections: the same packets, the same verdicts.

use super::talk::Talk;
use crate::*;
use proptest::prelude::*;

/// A connection of the model.
#[derive(Debug)]
struct Known {
    tuples: [Tuple; 2],
    side: Option<NatSide>,
    /// Nobody asked for its translation.
    unasked: bool,
    replied: bool,
    mark: u32,
    expiry: u64,
    packets: [u64; 2],
}

#[derive(Default, Debug)]
struct Model {
    known: Vec<Known>,
    limit: Option<usize>,
    /// What the tracker counted in each zone before the packet.
    counted: [usize; 2],
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet: of which conversation, the answer or not, and its request.
    Packet {
        which: usize,
        answer: bool,
        zone: u16,
        nat: usize,
        commit: bool,
        force: bool,
        mark: (u32, u32),
    },
    Wait(u64),
    Sweep,
    Flush(Option<u16>),
    Limit(Option<u32>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = (any::<bool>(), prop::bool::weighted(0.7), prop::bool::weighted(0.2));
    let packet = (0..24_usize, flags, 0..2_u16, 0..5_usize, (0..4_u32, 0..4_u32)).prop_map(
        |(which, (answer, commit, force), zone, nat, mark)| Step::Packet {
            which,
            answer,
            zone,
            nat,
            commit,
            force,
            mark,
        },
    );
    let rare = prop_oneof![
        prop_oneof![Just(1), Just(29_999), Just(30_000), Just(60_000)].prop_map(Step::Wait),
        Just(Step::Sweep),
        prop_oneof![Just(None), (0..2_u16).prop_map(Some)].prop_map(Step::Flush),
        prop_oneof![Just(None), (0..6_u32).prop_map(Some)].prop_map(Step::Limit),
    ];
    prop::collection::vec(prop_oneof![8 => packet, 1 => rare], 1..120)
}

/// Conversations that clash behind one address, of three protocols; the same again in IPv6.
fn conversation(which: usize) -> (Tuple, L4) {
    let (v6, which) = if which < 12 { ("", which) } else { ("v6 ", which - 12) };
    let text = match which {
        0..5 => format!("udp {}:{}>2:53", 1 + which % 3, 1000 + which / 3),
        5 => "udp 1:1000>9:53".into(),
        6..8 => format!("ping {}>2#7", which - 5),
        8 => "ping 7>2#7".into(),
        9 => "udp 7:1000>2:53".into(),
        10 => "gre 1>2".into(),
        _ => "gre 7>2".into(),
    };
    let seen = super::talk::seen(&format!("{v6}{text}"));
    (seen.tuple, seen.l4)
}

fn nat(which: usize) -> Option<Nat> {
    let text = ["", "nat", "commit src=7", "commit src=7:1001-1002", "commit dst=9:53"][which];
    super::talk::request(text).nat
}

impl Model {
    fn find(&self, tuple: &Tuple) -> Option<(usize, Direction)> {
        let at = |direction: Direction| self.known.iter().position(|known| known.tuples[direction as usize] == *tuple);
        at(Direction::Original)
            .map(|i| (i, Direction::Original))
            .or_else(|| at(Direction::Reply).map(|i| (i, Direction::Reply)))
    }

    fn wait(&mut self, now: u64) {
        self.known.retain(|known| known.expiry > now);
    }

    /// Checks a verdict, and learns from it what was chosen.
    fn packet(
        &mut self,
        seen: &Seen,
        request: &Request,
        verdict: &TrackVerdict,
        now: u64,
    ) -> Result<(), TestCaseError> {
        let icmp = seen.tuple.is_icmp();
        let mut found = self.find(&seen.tuple);
        if let Some((i, Direction::Reply)) = found
            && request.force
            && request.commit
        {
            self.known.remove(i);
            found = None;
        }
        let Some((i, direction)) = found else { return self.opens(seen, request, verdict, now) };
        let known = &mut self.known[i];
        known.replied |= direction == Direction::Reply;
        known.expiry = now + if known.replied { 30_000 } else { 60_000 };
        known.packets[direction as usize] += 1;
        if request.commit {
            known.mark = known.mark & !request.mark.1 | request.mark.0 & request.mark.1;
        }
        let mut expected = state::TRK | if known.replied { state::EST } else { state::NEW };
        if direction == Direction::Reply {
            expected |= state::RPL;
        }
        let to = known.tuples[direction.opposite() as usize].reversed();
        let mut goes_on = seen.tuple;
        if let (true, Some(side)) = (request.nat.is_some() || known.unasked, known.side) {
            let source = (side == NatSide::Src) == (direction == Direction::Original);
            expected |= if source { state::SNAT } else { state::DNAT };
            goes_on = to;
        }
        prop_assert_eq!(verdict.refusal, None);
        prop_assert_eq!(verdict.state, expected);
        prop_assert_eq!(verdict.mark, known.mark);
        prop_assert_eq!(verdict.original, Some(known.tuples[0]));
        prop_assert_eq!(rewritten(seen, verdict), goes_on, "icmp: {}", icmp);
        Ok(())
    }

    fn opens(&mut self, seen: &Seen, request: &Request, verdict: &TrackVerdict, now: u64) -> Result<(), TestCaseError> {
        let tuple = seen.tuple;
        if tuple.is_icmp() && matches!(tuple.dst.port >> 8, 0 | 129) {
            prop_assert_eq!(*verdict, TrackVerdict::INVALID);
            return Ok(());
        }
        if !request.commit {
            let new = TrackVerdict { state: state::NEW | state::TRK, original: Some(tuple), ..TrackVerdict::default() };
            prop_assert_eq!(*verdict, new);
            return Ok(());
        }
        let asked = request.nat.and_then(|nat| nat.side);
        let there = self.known.iter().filter(|known| known.tuples[0].zone == tuple.zone).count();
        if verdict.refusal == Some(Refusal::ZoneLimit) {
            // What has expired counts until it is swept.
            let counted = self.counted[usize::from(tuple.zone)];
            prop_assert!(self.limit.is_some_and(|limit| counted >= limit), "{counted} of {:?}", self.limit);
            return Ok(());
        }
        prop_assert!(self.limit.is_none_or(|limit| there < limit), "{there} are there already");
        let (reply, icmp) = (rewritten(seen, verdict).reversed(), tuple.is_icmp());
        let unasked = asked.is_none() && verdict.refusal.is_none() && reply != tuple.reversed();
        if unasked {
            prop_assert!(self.find(&tuple.reversed()).is_some(), "translated though {:?} is free", tuple.reversed());
            let (mut back, own) = (reply.reversed(), tuple.src.port);
            prop_assert_ne!(std::mem::replace(&mut back.src.port, own), own);
            prop_assert_eq!(back, tuple, "more than its source port is translated");
        }
        let side = if unasked { Some(NatSide::Src) } else { asked };
        match verdict.refusal {
            None => prop_assert!(self.find(&reply).is_none(), "{:?} was taken", reply),
            Some(Refusal::TupleTaken) => {
                // Whoever has another port gets it.
                prop_assert!(!tuple.has_ports() && !icmp);
                prop_assert!(asked.is_none() && self.find(&tuple.reversed()).is_some());
                return Ok(());
            }
            Some(Refusal::NatExhausted) => {
                let dst = if side == Some(NatSide::Dst) { 9 } else { 2 };
                let src = if side == Some(NatSide::Src) { 7 } else { tuple.src.addr };
                let takes = |other: &Tuple| (other.src.addr, other.dst.addr, other.family) == (dst, src, tuple.family);
                let taken = |known: &&Known| known.tuples.iter().any(takes);
                let count = self.known.iter().filter(taken).count();
                prop_assert!(count >= if tuple.has_ports() { 2 } else { 1 }, "refused, but {} are taken", count);
                return Ok(());
            }
            Some(other) => prop_assert!(false, "refused: {:?}", other),
        }
        let mark = request.mark.0 & request.mark.1;
        let flag = side.map_or(0, |side| if side == NatSide::Src { state::SNAT } else { state::DNAT });
        prop_assert_eq!((verdict.state, verdict.mark), (state::NEW | state::TRK | flag, mark));
        let tuples = [tuple, reply];
        self.known.push(Known { tuples, side, unasked, replied: false, mark, expiry: now + 60_000, packets: [1, 0] });
        Ok(())
    }
}

fn rewritten(seen: &Seen, verdict: &TrackVerdict) -> Tuple {
    let (src, dst) = (verdict.rewrite.src.unwrap_or(seen.tuple.src), verdict.rewrite.dst.unwrap_or(seen.tuple.dst));
    Tuple { src, dst, ..seen.tuple }
}

fn same(talk: &Talk, model: &Model) -> Result<(), TestCaseError> {
    let shown = talk.connections();
    prop_assert_eq!(shown.len(), model.known.len(), "{:?}", model);
    for known in &model.known {
        let [original, reply] = known.tuples;
        let found = shown.iter().find(|connection| (connection.original, connection.reply) == (original, reply));
        let found = found.map(|c| (c.mark, c.replied, c.timeout_ms, c.packets));
        let timeout = known.expiry - talk.now;
        prop_assert_eq!(found, Some((known.mark, known.replied, timeout, known.packets)), "{:?}", known);
    }
    Ok(())
}

proptest! {
    #[test]
    fn verdicts_are_those_of_a_list_of_connections(steps in steps()) {
        let (mut talk, mut model) = (Talk::new(64), Model::default());
        for step in steps {
            match step {
                Step::Packet { which, answer, zone, nat: how, commit, force, mark } => {
                    let (tuple, l4) = conversation(which);
                    let mut tuple = Tuple { zone, ..tuple };
                    if answer {
                        // To what it goes on as, if it is known.
                        tuple = model.find(&tuple).map_or(tuple.reversed(), |(i, _)| model.known[i].tuples[1]);
                    }
                    let request = Request { zone, commit, force, nat: nat(how), mark, ..Request::default() };
                    let seen = Seen { tuple, l4, len: 100, ..Seen::default() };
                    model.counted = [0; 2];
                    for count in talk.tracker.limits().1 {
                        model.counted[usize::from(count.zone)] = count.count as usize;
                    }
                    let verdict = talk.tracker.track(&seen, &request, 0, talk.now);
                    model.packet(&seen, &request, &verdict, talk.now)?;
                }
                Step::Wait(ms) => {
                    talk.now += ms;
                    model.wait(talk.now);
                }
                Step::Sweep => { talk.tracker.expire(talk.now); }
                Step::Flush(zone) => {
                    talk.tracker.flush(&Filter { zone, ..Filter::default() }, talk.now);
                    model.known.retain(|known| zone.is_some_and(|zone| zone != known.tuples[0].zone));
                }
                Step::Limit(limit) => {
                    talk.tracker.set_default_limit(limit);
                    model.limit = limit.map(|limit| limit as usize);
                }
            }
            same(&talk, &model)?;
        }
    }
}
