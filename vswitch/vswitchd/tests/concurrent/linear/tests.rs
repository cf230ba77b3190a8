//! The checker itself: it accepts what happened one after the other, and finds what could not have.

use super::{KEYS, Op, Seen, State, check};
use crate::rng::Rng;

const START: State = [0; KEYS];

fn op(thread: usize, (call, ret): (u64, u64), seen: &[(usize, Seen)], sets: &[(usize, u32)]) -> Op {
    Op { thread, what: "op", call, ret, seen: seen.to_vec(), sets: sets.to_vec() }
}

fn write(thread: usize, times: (u64, u64), sets: &[(usize, u32)]) -> Op {
    op(thread, times, &[], sets)
}

fn read(thread: usize, times: (u64, u64), seen: &[(usize, u32)]) -> Op {
    let seen: Vec<_> = seen.iter().map(|(key, version)| (*key, Seen::Is(*version))).collect();
    op(thread, times, &seen, &[])
}

fn refuses(what: &str, ops: &[Op]) {
    let error = check(ops, &START).expect_err(what);
    assert!(error.contains("no order explains"), "{what}: {error}");
}

#[test]
fn overlapping_operations_may_happen_in_any_order() {
    for seen in [[1, 2], [2, 2], [1, 1], [0, 1], [0, 0], [0, 2], [2, 1]] {
        let reads = [read(2, (1, 20), &[(0, seen[0])]), read(2, (21, 40), &[(0, seen[1])])];
        let ops = [&[write(0, (0, 50), &[(0, 1)]), write(1, (0, 50), &[(0, 2)])], &reads[..]].concat();
        assert_eq!(check(&ops, &START), Ok(()), "{seen:?}");
    }
}

#[test]
fn what_cannot_have_been_is_found() {
    let both = write(0, (0, 10), &[(0, 1), (1, 1)]);
    refuses("a stale read", &[both.clone(), read(1, (11, 12), &[(0, 0)])]);
    refuses("half of a transaction", &[both.clone(), read(1, (5, 6), &[(0, 1), (1, 0)])]);
    refuses("a read of the future", &[read(1, (0, 4), &[(0, 1)]), write(0, (5, 10), &[(0, 1)])]);
    refuses("a version that nobody wrote", &[both.clone(), read(1, (5, 6), &[(0, 7)])]);
    let (new, old) = (read(1, (2, 3), &[(0, 1)]), read(2, (4, 5), &[(1, 0)]));
    refuses("new here, then old there, while the writer is under way", &[both.clone(), new, old]);
    let ops = [both, write(1, (11, 20), &[(0, 2)]), read(2, (12, 13), &[(0, 2)]), read(3, (14, 15), &[(0, 1)])];
    refuses("new, then old again", &ops);
}

#[test]
fn conditional_operations_depend_on_each_other() {
    let add = |thread, times, version| op(thread, times, &[(3, Seen::Is(0))], &[(3, version)]);
    refuses("two that add one thing", &[add(0, (0, 10), 1), add(1, (0, 10), 2)]);
    let exists = op(1, (11, 12), &[(3, Seen::Present)], &[]);
    assert_eq!(check(&[add(0, (0, 10), 1), exists.clone()], &START), Ok(()));
    refuses("a refusal without reason", &[exists.clone(), add(0, (20, 30), 1)]);
    let deleted = op(0, (12, 14), &[(3, Seen::Present)], &[(3, 0)]);
    let missed = op(2, (15, 16), &[(3, Seen::Is(0))], &[]);
    assert_eq!(check(&[add(0, (0, 10), 1), exists, deleted, missed], &START), Ok(()));
}

/// A history as it may come about: each operation happens at one moment, at random within its time.
fn history(rng: &mut Rng, threads: usize, ops: usize, keys: usize) -> Vec<Op> {
    let mut clock = vec![0; threads];
    let mut drafts = Vec::new();
    for _ in 0..ops {
        let thread = rng.below(threads);
        let call = clock[thread] + 1 + rng.below(10) as u64;
        let moment = call + rng.below(20) as u64;
        let ret = moment + rng.below(20) as u64;
        clock[thread] = ret;
        drafts.push((moment, thread, call, ret));
    }
    drafts.sort_unstable();
    let (mut state, mut history) = (START, Vec::new());
    for (version, (_, thread, call, ret)) in (1..).zip(drafts) {
        let (key, other) = (rng.below(keys), rng.below(keys));
        let is = |key: usize| (key, Seen::Is(state[key]));
        let made = match rng.below(5) {
            0 => write(thread, (call, ret), &[(key, version)]),
            1 => write(thread, (call, ret), &[(key, version), (other, version)]),
            2 if state[key] == 0 => op(thread, (call, ret), &[is(key)], &[(key, version)]),
            2 => op(thread, (call, ret), &[(key, Seen::Present)], &[(key, 0)]),
            3 => op(thread, (call, ret), &[is(key)], &[]),
            _ => op(thread, (call, ret), &[is(key), is(other)], &[]),
        };
        made.sets.iter().for_each(|(key, version)| state[*key] = *version);
        history.push(made);
    }
    history
}

/// Tries every order.
fn any_order_explains(left: &[&Op], state: &State) -> bool {
    let first_return = left.iter().map(|op| op.ret).min().unwrap_or(u64::MAX);
    left.is_empty()
        || left.iter().enumerate().any(|(i, op)| {
            // Nothing that had returned before it was called is left.
            if op.call > first_return || !op.fits(state) {
                return false;
            }
            let mut next = *state;
            op.sets.iter().for_each(|(key, version)| next[*key] = *version);
            let rest: Vec<&Op> = left.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, op)| *op).collect();
            any_order_explains(&rest, &next)
        })
}

#[test]
fn small_histories_are_judged_as_by_trying_every_order() {
    let mut verdicts = [0, 0];
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let mut ops = history(&mut rng, 3, 7, 2);
        if rng.chance(80) {
            // Something else was seen.
            let (i, version) = (rng.below(ops.len()), u32::try_from(rng.below(8)).expect("small"));
            if let Some((_, seen)) = ops[i].seen.first_mut() {
                *seen = if rng.chance(80) { Seen::Is(version) } else { Seen::Present };
            }
        }
        let want = any_order_explains(&ops.iter().collect::<Vec<_>>(), &START);
        assert_eq!(check(&ops, &START).is_ok(), want, "seed {seed}: {ops:#?}");
        verdicts[usize::from(want)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 300), "refused, accepted: {verdicts:?}");
}

/// A result from long ago, put into a long history, is found, and named.
#[test]
fn one_stale_result_among_thousands_is_found() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let mut ops = history(&mut rng, 8, 5000, 4);
        assert_eq!(check(&ops, &START), Ok(()), "seed {seed}");
        let reads = |op: &Op| op.sets.is_empty() && matches!(op.seen[..], [(_, Seen::Is(_))]);
        let bad = (4000..5000).find(|i| reads(&ops[*i])).expect("a read");
        let key = ops[bad].seen[0].0;
        let stale = ops[..3000].iter().rev().find_map(|op| op.sets.iter().find(|(at, to)| *at == key && *to != 0));
        ops[bad].seen = vec![(key, Seen::Is(stale.expect("a write").1))];
        let error = check(&ops, &START).expect_err("a stale read");
        assert!(error.contains(&super::line(&ops[bad])), "seed {seed}: {error}");
    }
}
