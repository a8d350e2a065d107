//! Extraction: a layout for everything that control carries, and a way for every class that is needed.
//!
//! ```text
//! per choice of the controls:   classes in program order take their cheapest way, conversions only from what is made
//! search over the controls:     one at a time, each candidate by the cost of the whole program
//! the best few:                 again by cost sets, then ranked with registers counted; where those do not suffice, without what takes most of them
//! ```
//!
//! A class is as cheap as the *set* of items that it takes: what is shared is paid once. That is exact for a set, but dear to carry
//! around for every candidate; the search shares a class's cost out to its readers instead, and sums what was chosen without doubles.

use super::forest::{LayoutChoice, LayoutForest, Pick};
use super::graph::LayoutId;
use super::pressure;
use super::problem::{CostModel, Limits, Problem};

/// Without an answer.
const NEVER: u64 = u64::MAX / 4;

/// How classes are priced while they choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pricing {
    /// A class costs each of its readers a share.
    Shares,
    /// A class costs the items of its set.
    Sets,
    /// Shares, and every value has the first of its layouts, or is converted from it.
    Plain,
}

/// A set of items, as the words from its least to its greatest: what needs one another mostly has numbers close together.
#[derive(Clone, Debug, Default)]
struct Set {
    first: usize,
    words: Vec<u64>,
}

impl Set {
    /// Makes room for these words.
    fn cover(&mut self, from: usize, to: usize) {
        if self.words.is_empty() {
            self.first = from;
        }
        let front = self.first.saturating_sub(from);
        if front > 0 {
            self.words.splice(0..0, std::iter::repeat_n(0, front));
            self.first = from;
        }
        self.words.resize(self.words.len().max(to - self.first), 0);
    }
    fn add(&mut self, item: u32) {
        let word = item as usize / 64;
        self.cover(word, word + 1);
        self.words[word - self.first] |= 1 << (item % 64);
    }
    fn join(&mut self, other: &Set) {
        if other.words.is_empty() {
            return;
        }
        self.cover(other.first, other.first + other.words.len());
        let at = other.first - self.first;
        self.words[at..].iter_mut().zip(&other.words).for_each(|(x, y)| *x |= y);
    }
    fn cost(&self, cost: &[u64]) -> u64 {
        let mut sum = 0u64;
        for (n, &word) in self.words.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                sum = sum.saturating_add(cost[(self.first + n) * 64 + rest.trailing_zeros() as usize]);
                rest &= rest - 1;
            }
        }
        sum
    }
}

/// The cheapest way of every class, the controls given.
pub(crate) fn greedy(f: &LayoutForest, controls: &[LayoutId], pricing: Pricing) -> Option<LayoutChoice> {
    let n = f.classes.len();
    let mut price = vec![NEVER; n];
    let mut sets: Vec<Set> = if pricing == Pricing::Sets { vec![Set::default(); n] } else { Vec::new() };
    let mut picks = vec![Pick::None; n];
    let mut at = 0;
    while at < f.order.len() {
        // The classes of one value stand together; conversions between them come behind.
        let value = f.classes[f.order[at] as usize].value;
        let end = match value {
            Some(_) => (at..f.order.len()).find(|&k| f.classes[f.order[k] as usize].value != value).unwrap_or(f.order.len()),
            None => at + 1,
        };
        let group = &f.order[at..end];
        at = end;
        for &c in group {
            let class = &f.classes[c as usize];
            if pricing == Pricing::Plain && value.is_some_and(|v| f.of[v].first() != Some(&c)) {
                continue;
            }
            if let Some(control) = class.given {
                if controls[control as usize] == class.layout {
                    (price[c as usize], picks[c as usize]) = (0, Pick::Given);
                }
                continue;
            }
            for (w, way) in class.ways.iter().enumerate() {
                if way.kids.iter().any(|&k| price[k as usize] >= NEVER) {
                    continue;
                }
                let own = f.cost[way.item as usize];
                let mut set = Set::default();
                let cost = if pricing == Pricing::Sets {
                    set.add(way.item);
                    way.kids.iter().for_each(|&k| set.join(&sets[k as usize]));
                    set.cost(&f.cost)
                } else {
                    way.kids.iter().fold(own, |s, &k| s.saturating_add(price[k as usize] / f.classes[k as usize].fanout)).min(NEVER - 1)
                };
                if cost < price[c as usize] {
                    (price[c as usize], picks[c as usize]) = (cost, Pick::Way(w as u32));
                    if pricing == Pricing::Sets {
                        sets[c as usize] = set;
                    }
                }
            }
        }
        let made: Vec<(u32, u64)> = group.iter().map(|&c| (c, price[c as usize])).collect();
        for &c in group {
            for (x, &(from, item)) in f.classes[c as usize].converts.iter().enumerate() {
                let Some(&(_, base)) = made.iter().find(|m| m.0 == from).filter(|m| m.1 < NEVER) else { continue };
                let cost = base.saturating_add(f.cost[item as usize]).min(NEVER - 1);
                if cost < price[c as usize] {
                    (price[c as usize], picks[c as usize]) = (cost, Pick::Convert(x as u32));
                    if pricing == Pricing::Sets {
                        let mut set = sets[from as usize].clone();
                        set.add(item);
                        sets[c as usize] = set;
                    }
                }
            }
        }
        // A conversion starts from what is made, not from another conversion.
        for &c in group {
            let Pick::Convert(x) = picks[c as usize] else { continue };
            let from = f.classes[c as usize].converts[x as usize].0;
            if matches!(picks[from as usize], Pick::Convert(_)) {
                unchain(f, c, from, &mut picks);
            }
        }
    }
    let total = f.total(controls, &picks)?;
    Some(LayoutChoice { controls: controls.to_vec(), picks, total })
}

/// Lets a class whose conversion starts at a converted class start where that one does.
fn unchain(f: &LayoutForest, c: u32, from: u32, picks: &mut [Pick]) {
    let mut at = from;
    while let Pick::Convert(x) = picks[at as usize] {
        at = f.classes[at as usize].converts[x as usize].0;
    }
    if let Some(x) = f.classes[c as usize].converts.iter().position(|&(from, _)| from == at) {
        picks[c as usize] = Pick::Convert(x as u32);
    }
}

/// The program in the plain assignment's layouts.
pub(crate) fn plain(f: &LayoutForest) -> Option<LayoutChoice> {
    let controls = first(f)?;
    greedy(f, &controls, Pricing::Plain)
}

fn first(f: &LayoutForest) -> Option<Vec<LayoutId>> {
    f.controls.iter().map(|c| c.layouts.first().copied()).collect()
}

/// Searches without what took most of the registers, where those of lanes' own are too few.
const AGAIN: usize = 2;

/// The best choice, and the costs of the runners-up: the best few by the sum of their items, ranked with registers counted. What is too much for
/// them is made in another way, if that takes less time.
pub(crate) fn extract(f: &LayoutForest, problem: &Problem<'_>, model: &dyn CostModel, limits: &Limits) -> Option<(LayoutChoice, Vec<u64>)> {
    let mut ranked: Vec<(u64, LayoutChoice, Vec<u32>)> = Vec::new();
    let mut rank = |choices: Vec<LayoutChoice>| {
        for c in choices {
            let crowd = pressure::crowd(f, problem, model, &c);
            ranked.push((c.total.saturating_add(crowd.over.saturating_mul(model.spill())), c, crowd.classes));
        }
        ranked.sort_by_key(|(total, ..)| *total);
        ranked.first().map(|(.., crowd)| crowd.clone())
    };
    let mut crowd = rank(search(f, limits)?);
    let mut without: Option<LayoutForest> = None;
    for _ in 0..AGAIN {
        let open = |item: &u32| without.as_ref().is_none_or(|w| w.cost[*item as usize] < NEVER);
        let Some(items) = crowd.iter().flatten().map(|&c| f.items_of(c)).find(|items| items.iter().any(open)) else { break };
        let other = without.get_or_insert_with(|| f.clone());
        items.into_iter().for_each(|item| other.cost[item as usize] = NEVER);
        let found = search(other, limits).unwrap_or_default();
        crowd = rank(found.into_iter().filter(|c| c.total < NEVER).collect());
    }
    let others = ranked.iter().skip(1).map(|(t, ..)| *t).collect();
    ranked.into_iter().next().map(|(_, c, _)| (c, others))
}

/// The best few choices: one control is changed at a time, as long as the program gets cheaper, from the plain layouts or from layouts that go together.
pub(crate) fn search(f: &LayoutForest, limits: &Limits) -> Option<Vec<LayoutChoice>> {
    let mut kept: Vec<LayoutChoice> = Vec::new();
    let mut keep = |c: &LayoutChoice| {
        if kept.iter().all(|k| k.controls != c.controls) {
            kept.push(c.clone());
            kept.sort_by_key(|k| k.total);
            kept.truncate(limits.keep.max(1));
        }
    };
    let mut best = greedy(f, &first(f)?, Pricing::Shares)?;
    keep(&best);
    // Where layouts that go together are changed one at a time, conversions stand between them on the way.
    let families = families(f, &best.controls);
    if let Some(c) = families.first().filter(|c| c.total < best.total) {
        best = c.clone();
        keep(&best);
    }
    let mut trials = affordable(limits.trials, f);
    loop {
        let before = best.total;
        for n in 0..f.controls.len() {
            for &l in &f.controls[n].layouts {
                if l == best.controls[n] || trials == 0 {
                    continue;
                }
                trials -= 1;
                let mut controls = best.controls.clone();
                controls[n] = l;
                let Some(c) = greedy(f, &controls, Pricing::Shares) else { continue };
                keep(&c);
                if c.total < best.total {
                    best = c;
                }
            }
        }
        if best.total == before || trials == 0 {
            break;
        }
    }
    let more: Vec<LayoutChoice> = families.into_iter().filter(|c| kept.iter().all(|k| k.controls != c.controls)).collect();
    let mut out: Vec<LayoutChoice> = Vec::new();
    for c in kept.into_iter().chain(more) {
        let sets = greedy(f, &c.controls, Pricing::Sets).filter(|s| s.total < c.total);
        out.push(polish(f, sets.unwrap_or(c)));
    }
    out.sort_by_key(|c| c.total);
    Some(out)
}

/// Sets of layouts that go together which are tried, and those of them that are looked at to the end.
const FAMILIES: [usize; 2] = [16, 2];

/// The best of the choices in which controls have layouts that go together, and the others those given.
fn families(f: &LayoutForest, controls: &[LayoutId]) -> Vec<LayoutChoice> {
    let with = |set: &Vec<(usize, LayoutId)>| {
        let mut controls = controls.to_vec();
        set.iter().for_each(|&(n, l)| controls[n] = l);
        controls
    };
    let other = f.together.iter().map(with).filter(|c| c != controls).take(affordable(FAMILIES[0], f));
    let mut found: Vec<LayoutChoice> = other.filter_map(|c| greedy(f, &c, Pricing::Shares)).collect();
    found.sort_by_key(|c| c.total);
    found.truncate(FAMILIES[1]);
    found
}

/// Changes of single classes as long as the program gets cheaper by them. Readers of a class that is given up for a conversion from
/// another move over to that one.
pub(crate) fn polish(f: &LayoutForest, mut best: LayoutChoice) -> LayoutChoice {
    let mut fuel = affordable(POLISH, f);
    loop {
        let before = best.total;
        let Some(needed) = f.needed(&best.controls, &best.picks) else { return best };
        for c in (0..f.classes.len()).filter(|&c| needed[c]) {
            let class = &f.classes[c];
            if class.given.is_some() && best.picks[c] == Pick::Given || class.ways.len() + class.converts.len() < 2 {
                continue;
            }
            let ways = (0..class.ways.len()).map(|w| Pick::Way(w as u32));
            let converts = (0..class.converts.len()).map(|x| Pick::Convert(x as u32));
            for pick in ways.chain(converts) {
                if pick == best.picks[c] || fuel == 0 {
                    continue;
                }
                fuel -= 1;
                let mut picks = best.picks.clone();
                picks[c] = pick;
                if let Pick::Convert(x) = pick {
                    let from = class.converts[x as usize].0;
                    make(f, &best.controls, from, &mut picks);
                    rebase(f, c as u32, from, &mut picks);
                }
                if let Some(total) = f.total(&best.controls, &picks)
                    && total < best.total
                {
                    best = LayoutChoice { picks, total, ..best };
                }
            }
        }
        if best.total == before || fuel == 0 {
            return best;
        }
    }
}

/// Has a class made, not converted.
fn make(f: &LayoutForest, controls: &[LayoutId], c: u32, picks: &mut [Pick]) {
    let class = &f.classes[c as usize];
    if !matches!(picks[c as usize], Pick::Convert(_) | Pick::None) {
        return;
    }
    if class.given.is_some_and(|k| controls[k as usize] == class.layout) {
        picks[c as usize] = Pick::Given;
    } else if !class.ways.is_empty() {
        let cheapest = (0..class.ways.len()).min_by_key(|&w| (f.cost[class.ways[w].item as usize], w));
        picks[c as usize] = cheapest.map_or(Pick::None, |w| Pick::Way(w as u32));
    }
}

/// Lets conversions of the same value that start at `from` start at `to`.
fn rebase(f: &LayoutForest, from: u32, to: u32, picks: &mut [Pick]) {
    let Some(v) = f.classes[from as usize].value else { return };
    for &o in &f.of[v] {
        let class = &f.classes[o as usize];
        if let Pick::Convert(x) = picks[o as usize]
            && class.converts[x as usize].0 == from
            && let Some(x) = class.converts.iter().position(|c| c.0 == to)
        {
            picks[o as usize] = Pick::Convert(x as u32);
        }
    }
}

/// Classes of a program for which everything is tried. Kernels of the library have up to a few hundred.
const USUAL: usize = 2000;

/// So many tries, fewer where each looks at very many classes: their number is bounded by what all of them look at.
fn affordable(tries: usize, f: &LayoutForest) -> usize {
    (tries * USUAL / f.classes.len().max(USUAL)).max(1)
}

/// Single changes that are tried.
const POLISH: usize = 150;
