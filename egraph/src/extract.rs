//! Extraction: which node of each class the program computes.
//!
//! Greedy on the DAG: the price of a class is the price of the *set* of classes that it takes, so what is shared is paid once. Sets
//! are bitsets over dense numbers of classes. Every price is at least 1 and every class costs more than what it stands on, hence
//! the choice has no cycle. Then single changes of the whole program are tried, which keep the best of them and the runners-up.

use crate::forest::{Choice, Forest};
use crate::language::Head;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How extraction chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The cheapest.
    Best,
    /// A random one, or about the dearest; for tests.
    Chaos(u64),
}

/// A set of classes with the total of their costs. What is in loops that are folds is a class and a pass, so there is a set for each pass,
/// behind one for the rest, in which the element of a fold is until it is known in which pass the fold is.
#[derive(Clone)]
struct CostSet {
    bits: SmallVec<[u64; 2]>,
    /// By range, the last pass whose result is needed.
    last: SmallVec<[u8; 4]>,
    total: u64,
    node: u32,
}

/// Passes over a range that greedy extraction tells apart.
const PASSES: usize = 3;

/// Classes above which sets of classes are too large: a bit per class for every class grows with the square.
const LARGE: usize = 1 << 12;

/// Classes times changes that are looked at.
const LOOKS: usize = 400 * LARGE;

/// The choice, and up to `keep` runners-up in ascending cost. `None` if some root has no finite choice, which no graph built from a
/// kernel has.
pub(crate) fn extract(forest: &Forest, mode: Mode, keep: usize, fuel: usize) -> Option<(Choice, Vec<Choice>)> {
    match mode {
        Mode::Best => {
            let large = forest.ids.len() > LARGE;
            let of = if large { shared(forest)? } else { greedy(forest)? };
            let total = forest.total(&of)?;
            // A change is judged by a look at the whole program, and a runner-up is a whole program.
            let fuel = fuel.min(LOOKS / forest.ids.len().max(1));
            Some(improve(forest, Choice { of, total }, if large { 0 } else { keep }, fuel))
        }
        Mode::Chaos(seed) => {
            let of = chaos(forest, seed)?;
            let total = forest.total(&of)?;
            Some((Choice { of, total }, Vec::new()))
        }
    }
}

/// Candidates that use a class: (class, candidate).
type Users = SmallVec<[(u32, u32); 4]>;

/// Users of each class.
fn users(forest: &Forest) -> Vec<Users> {
    let mut users: Vec<Users> = forest.ids.iter().map(|_| Users::new()).collect();
    for (class, list) in forest.nodes.iter().enumerate() {
        for (n, c) in list.iter().enumerate() {
            for (i, &kid) in c.kids.iter().enumerate() {
                if !c.kids[..i].contains(&kid) {
                    users[kid].push((class as u32, n as u32));
                }
            }
        }
    }
    users
}

fn greedy(forest: &Forest) -> Option<Vec<Option<u32>>> {
    // A program as it is written has one candidate everywhere.
    if forest.nodes.iter().all(|list| list.len() == 1) {
        let only = vec![Some(0); forest.ids.len()];
        return forest.order(&only, &forest.roots).map(|_| only);
    }
    let words = forest.ids.len().div_ceil(64);
    let sets = if forest.ranges > 0 { 1 + PASSES } else { 1 };
    let inside: Vec<Vec<u64>> = (0..forest.ranges)
        .map(|r| {
            let word = |w: &[u64]| w.iter().enumerate().fold(0, |m, (i, free)| m | (free >> r & 1) << i);
            forest.free.chunks(64).map(word).collect()
        })
        .collect();
    let users = users(forest);
    let mut best: Vec<Option<CostSet>> = vec![None; forest.ids.len()];
    let mut own: Vec<u64> = vec![0; forest.ids.len()];
    // Cheapest first, so that most classes are settled once; ties by number.
    let mut queue: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
    for (class, list) in forest.nodes.iter().enumerate() {
        for (n, c) in list.iter().enumerate().filter(|(_, c)| c.kids.is_empty()) {
            queue.push(Reverse((c.cost, class as u32, n as u32)));
        }
    }
    let mut bits: SmallVec<[u64; 2]> = SmallVec::from_elem(0, words * sets);
    let mut last: SmallVec<[u8; 4]> = SmallVec::from_elem(0, forest.ranges);
    // Totals only fall, so this ends; the bound guards the budget of absurd graphs.
    let mut fuel = 64 * forest.nodes.iter().map(|list| list.len()).sum::<usize>() + 1024;
    while let Some(Reverse((_, class, n))) = queue.pop() {
        fuel = fuel.checked_sub(1)?;
        let (class, candidate) = (class as usize, &forest.nodes[class as usize][n as usize]);
        bits.fill(0);
        last.fill(0);
        let mut cyclic = false;
        for &kid in &candidate.kids {
            let Some(set) = &best[kid] else {
                cyclic = true;
                break;
            };
            cyclic |= (0..sets).any(|s| set.bits[s * words + class / 64] >> (class % 64) & 1 == 1);
            bits.iter_mut().zip(&set.bits).for_each(|(a, b)| *a |= b);
            last.iter_mut().zip(&set.last).for_each(|(a, b)| *a = (*a).max(*b));
        }
        if cyclic {
            continue;
        }
        if let Head::Fold { range, .. } = candidate.node.head {
            let pass = &mut last[range as usize];
            *pass = pass.saturating_add(1);
            let (rest, passes) = bits.split_at_mut(words);
            let set = &mut passes[(usize::from(*pass).min(PASSES) - 1) * words..];
            for ((from, to), inside) in rest.iter_mut().zip(set).zip(&inside[range as usize]) {
                *to |= *from & inside;
                *from &= !inside;
            }
        }
        let mut total = candidate.cost;
        for (w, &word) in bits.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                total = total.saturating_add(own[w % words * 64 + word.trailing_zeros() as usize]);
                word &= word - 1;
            }
        }
        let better = best[class].as_ref().is_none_or(|b| (total, n) < (b.total, b.node));
        if !better {
            continue;
        }
        let fell = best[class].as_ref().is_none_or(|b| total < b.total);
        bits[class / 64] |= 1 << (class % 64);
        match &mut best[class] {
            Some(b) => {
                b.bits.copy_from_slice(&bits);
                b.last.copy_from_slice(&last);
                (b.total, b.node) = (total, n);
            }
            slot @ None => *slot = Some(CostSet { bits: bits.clone(), last: last.clone(), total, node: n }),
        }
        own[class] = candidate.cost;
        if !fell {
            continue;
        }
        for &(user, m) in &users[class] {
            let c = &forest.nodes[user as usize][m as usize];
            if let Some(sum) = c.kids.iter().try_fold(c.cost, |s, &k| Some(s.max(best[k].as_ref()?.total))) {
                queue.push(Reverse((sum, user, m)));
            }
        }
    }
    let of: Vec<Option<u32>> = best.iter().map(|b| b.as_ref().map(|b| b.node)).collect();
    // Sets are made of the choices of their time; where a later change closed a cycle, the plain tree order has none.
    if forest.order(&of, &forest.roots).is_some() { Some(of) } else { tree(forest) }
}

/// The choice of the least tree cost, with saturating sums replaced by depth: always acyclic.
fn tree(forest: &Forest) -> Option<Vec<Option<u32>>> {
    settle(forest, &mut |class, n| (forest.nodes[class][n as usize].cost, class as u32))
}

/// The choice of the least cost where a class divides its own among the candidates that use it: the greedy choice of large programs, in
/// near-linear time and memory. Where all users are chosen this is what the program costs.
fn shared(forest: &Forest) -> Option<Vec<Option<u32>>> {
    /// Costs are in so manieth parts, so that small ones can be divided.
    const PARTS: u64 = 1 << 10;
    let users = users(forest);
    let counts: Vec<u64> = users.iter().map(|u| u.len() as u64).collect();
    let mut costs: Vec<Vec<u64>> = forest.nodes.iter().map(|l| vec![u64::MAX; l.len()]).collect();
    settle_among(forest, &users, &mut |class, n, of| {
        let c = &forest.nodes[class][n as usize];
        let kids = c.kids.iter().enumerate().filter(|&(i, k)| !c.kids[..i].contains(k));
        let cost = kids.fold(c.cost.saturating_mul(PARTS), |sum, (_, &k)| {
            let kid = of[k].map_or(u64::MAX, |n| costs[k][n as usize]);
            sum.saturating_add(kid / counts[k].max(1))
        });
        costs[class][n as usize] = cost;
        cost
    })
}

/// Settles classes one after the other, always the one whose ready candidate has the smallest key; acyclic by construction.
fn settle<K: Ord>(forest: &Forest, key: &mut dyn FnMut(usize, u32) -> K) -> Option<Vec<Option<u32>>> {
    settle_among(forest, &users(forest), &mut |class, n, _| key(class, n))
}

/// What a candidate of a class is settled by, when its operands have been.
type Key<'k, K> = dyn FnMut(usize, u32, &[Option<u32>]) -> K + 'k;

/// As [`settle`], with the users of each class, and keys that may look at what has been settled.
fn settle_among<K: Ord>(forest: &Forest, users: &[Users], key: &mut Key<'_, K>) -> Option<Vec<Option<u32>>> {
    let mut waits: Vec<Vec<usize>> = forest
        .nodes
        .iter()
        .map(|l| l.iter().map(|c| (0..c.kids.len()).filter(|&i| !c.kids[..i].contains(&c.kids[i])).count()).collect())
        .collect();
    let mut of = vec![None; forest.ids.len()];
    let mut ready: BinaryHeap<Reverse<(K, u32, u32)>> = BinaryHeap::new();
    for (class, list) in waits.iter().enumerate() {
        for n in list.iter().enumerate().filter(|&(_, &w)| w == 0).map(|(n, _)| n as u32) {
            ready.push(Reverse((key(class, n, &of), class as u32, n)));
        }
    }
    while let Some(Reverse((_, class, n))) = ready.pop() {
        if of[class as usize].is_some() {
            continue;
        }
        of[class as usize] = Some(n);
        for &(user, m) in &users[class as usize] {
            let w = &mut waits[user as usize][m as usize];
            *w -= 1;
            if *w == 0 && of[user as usize].is_none() {
                ready.push(Reverse((key(user as usize, m, &of), user, m)));
            }
        }
    }
    forest.order(&of, &forest.roots).map(|_| of)
}

/// A choice that an odd seed makes at random; an even one takes the dearest node that is ready, which is about the worst program.
fn chaos(forest: &Forest, seed: u64) -> Option<Vec<Option<u32>>> {
    let mut state = seed | 1;
    settle(forest, &mut |class, n| {
        let cost = forest.nodes[class][n as usize].cost;
        if seed.is_multiple_of(2) {
            return u64::MAX - cost;
        }
        state ^= (class as u64) << 32 ^ u64::from(n);
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state = state.max(1);
        // The larger candidates come first more often: bad choices are the point.
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 58).saturating_sub(u64::from(cost.ilog2()))
    })
}

/// Tries every single change of a choice until none helps or fuel is spent; returns the best and the next ones.
fn improve(forest: &Forest, first: Choice, keep: usize, mut fuel: usize) -> (Choice, Vec<Choice>) {
    let mut best = first;
    let mut others: Vec<Choice> = Vec::new();
    let mut again = true;
    while again {
        again = false;
        let Some(mut order) = forest.order(&best.of, &forest.roots) else { break };
        // How many passes there are over a range is worth more than all that is in them.
        order.sort_by_key(|&class| !forest.nodes[class].iter().any(|c| matches!(c.node.head, Head::Fold { .. })));
        for class in order {
            for n in 0..forest.nodes[class].len() as u32 {
                if best.of[class] == Some(n) {
                    continue;
                }
                let Some(left) = fuel.checked_sub(1) else { return (best, others) };
                fuel = left;
                let mut of = best.of.clone();
                of[class] = Some(n);
                let Some(total) = forest.total(&of) else { continue };
                let mut candidate = Choice { of, total };
                if total < best.total {
                    std::mem::swap(&mut best, &mut candidate);
                    again = true;
                }
                if keep > 0 && candidate != best && !others.contains(&candidate) {
                    let at = others.partition_point(|o| o.total <= candidate.total);
                    others.insert(at, candidate);
                    others.truncate(keep);
                }
            }
        }
    }
    (best, others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Pipe;
    use crate::fault::BadChoice;
    use crate::forest::Candidate;
    use crate::language::{Kids, Node, Pool};
    use egg::Id;
    use tilelift_ir::{Scalar, Type, Value};

    /// A forest of up to 7 classes with random candidates and events.
    fn random(seed: u64) -> Forest {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % n
        };
        let ty = Pool::default().add_type(&Type::Scalar(Scalar::I32));
        let classes = 3 + below(5) as usize;
        let mut nodes: Vec<SmallVec<[Candidate; 1]>> = (0..classes)
            .map(|class| {
                let count = 1 + below(3);
                (0..=count)
                    .map(|n| {
                        // The first candidate only uses classes above, so that some choice is acyclic.
                        let kids: SmallVec<[usize; 3]> = if n == 0 {
                            (class + 1..classes).filter(|_| below(3) == 0).collect()
                        } else {
                            (0..below(3)).map(|_| below(classes as u64) as usize).collect()
                        };
                        let head = Head::Leaf { value: Value::from_u32(class as u32 * 8 + n as u32), ty };
                        Candidate {
                            node: Node { head, kids: Kids::new() },
                            cost: 1 + below(9),
                            pipe: Pipe::Lanes,
                            own: below(4).saturating_sub(1) as u32,
                            kids,
                            state: None,
                        }
                    })
                    .collect()
            })
            .collect();
        // As the graph does it: a class is there with its earliest node, and only the nodes that are as early may be chosen.
        let mut avail = vec![u32::MAX; classes];
        let at = |avail: &[u32], c: &Candidate| c.kids.iter().map(|&k| avail[k]).fold(c.own, u32::max);
        for _ in 0..=classes {
            avail = nodes.iter().map(|list| list.iter().map(|c| at(&avail, c)).min().unwrap_or(0)).collect();
        }
        nodes.iter_mut().enumerate().for_each(|(class, list)| list.retain(|c| at(&avail, c) == avail[class]));
        Forest { ids: (0..classes).map(Id::from).collect(), avail, free: vec![0; classes], ranges: 0, nodes, roots: vec![0, 1] }
    }

    fn optimum(forest: &Forest) -> u64 {
        let mut of = vec![Some(0u32); forest.ids.len()];
        let mut best = u64::MAX;
        loop {
            best = best.min(forest.total(&of).unwrap_or(u64::MAX));
            let mut at = 0;
            loop {
                if at == of.len() {
                    return best;
                }
                let next = of[at].map_or(0, |n| n + 1);
                if (next as usize) < forest.nodes[at].len() {
                    of[at] = Some(next);
                    break;
                }
                of[at] = Some(0);
                at += 1;
            }
        }
    }

    #[test]
    fn choices_are_sound_and_mostly_the_best_there_are() {
        let (mut equal, mut near, cases) = (0, 0, 2000);
        for seed in 0..cases {
            let forest = random(seed);
            let best = optimum(&forest);
            let (choice, others) = extract(&forest, Mode::Best, 4, 1000).expect("the first candidates have no cycle");
            assert_eq!(forest.check(&choice), Ok(()), "seed {seed}");
            assert!(choice.total >= best, "seed {seed}: {} is below the optimum {best}", choice.total);
            for o in &others {
                assert_eq!(forest.check(o), Ok(()), "seed {seed}");
                assert!(o.total >= choice.total, "seed {seed}: a runner-up is better");
            }
            equal += u64::from(choice.total == best);
            let of = shared(&forest).expect("the first candidates have no cycle");
            let total = forest.total(&of).expect("settling closes no cycle");
            assert_eq!(forest.check(&Choice { of, total }), Ok(()), "seed {seed}");
            near += u64::from(total == best);
            for chaos in 0..4 {
                let (choice, _) = extract(&forest, Mode::Chaos(seed * 4 + chaos), 0, 0).expect("the first candidates have no cycle");
                assert_eq!(forest.check(&choice), Ok(()), "seed {seed}");
                assert!(choice.total >= best);
            }
        }
        // Greedy extraction with single changes is no proof of the optimum, but close to it on graphs of this size.
        assert!(equal * 100 >= cases * 95, "only {equal} of {cases} are optimal");
        assert!(near * 100 >= cases * 70, "only {near} of {cases} are optimal where cost is divided");
    }

    #[test]
    fn the_checker_sees_cycles_holes_and_wrong_costs() {
        let forest = random(1);
        let (choice, _) = extract(&forest, Mode::Best, 0, 100).expect("a choice");
        assert!(forest.check(&Choice { total: choice.total + 1, ..choice.clone() }).is_err());
        let mut hole = choice.clone();
        hole.of[0] = None;
        assert!(forest.check(&hole).is_err());
        let mut alien = choice.clone();
        alien.of[0] = Some(99);
        assert!(forest.check(&alien).is_err());
        let kid = |k: usize| Candidate { kids: SmallVec::from_slice(&[k]), ..forest.nodes[0][0].clone() };
        let mut late = forest.clone();
        late.avail = vec![0; late.ids.len()];
        late.nodes.iter_mut().flatten().for_each(|c| c.own = 1);
        assert!(matches!(late.check(&choice), Err(BadChoice::Late { .. })));
        let ring = Forest {
            ids: forest.ids[..2].to_vec(),
            avail: vec![0; 2],
            free: vec![0; 2],
            ranges: 0,
            nodes: [kid(1), kid(0)].map(|c| SmallVec::from_elem(c, 1)).to_vec(),
            roots: vec![0],
        };
        assert!(ring.check(&Choice { of: vec![Some(0), Some(0)], total: 2 }).is_err());
        assert!(extract(&ring, Mode::Best, 0, 100).is_none());
    }
}
