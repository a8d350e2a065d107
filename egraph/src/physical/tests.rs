//! Rules on their own programs, runs against the coordinates of elements, extraction against brute force.

use super::extract::search;
use super::forest::{Control, LayoutChoice, LayoutClass, LayoutForest, LayoutItem, Pick, Way};
use super::problem::{CostModel, InstLayouts, Limits, Problem, Solution, Source};
use super::{rules, saturate, solve};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::rc::Rc;
use tilelift_ir::layout::{Axis, ConversionClass, Layout, classify, coalesced};
use tilelift_ir::propagate::Pass;
use tilelift_ir::{Attr, Inst, Kernel, Op, Scalar, Type, Value, text};

const LANES: u32 = 32;
const WARPS: u32 = 4;

/// A machine on which accesses are cheap in one layout, and moves cost by their distance.
struct Toy<'k>(&'k Kernel);

fn layout(t: &Type, fast_last: bool) -> Option<Rc<Layout>> {
    let t = t.as_tile()?;
    let mut order: Vec<usize> = (0..t.shape.len()).collect();
    if fast_last {
        order.reverse();
    }
    Some(Rc::new(coalesced(&t.shape, t.elem.bytes(), &order, 16 / t.elem.bytes(), LANES, WARPS).ok()?))
}

impl Toy<'_> {
    fn all_in(&self, i: Inst, l: &Rc<Layout>) -> InstLayouts {
        let d = &self.0.insts[i];
        let of = |v: &Value| self.0.ty(*v).as_tile().map(|_| l.clone());
        InstLayouts { operands: d.args.iter().map(of).collect(), results: d.results.iter().map(of).collect() }
    }
}

impl CostModel for Toy<'_> {
    fn anchors(&self, i: Inst) -> Vec<InstLayouts> {
        let d = &self.0.insts[i];
        let v = match d.op {
            Op::Load => d.results[0],
            Op::Store => self.0.operand(i, "value")[0],
            _ => return Vec::new(),
        };
        layout(self.0.ty(v), true).map(|l| self.all_in(i, &l)).into_iter().collect()
    }
    fn fixed(&self, _: Inst) -> bool {
        false
    }
    fn run(&self, i: Inst, run: &InstLayouts) -> Option<u64> {
        let all = || run.operands.iter().chain(&run.results).flatten();
        let registers: u64 = all().map(|l| u64::from(l.size(Axis::Reg))).sum();
        let d = &self.0.insts[i];
        match d.op {
            Op::Load | Op::Store => {
                let v = if d.op == Op::Load { d.results[0] } else { self.0.operand(i, "value")[0] };
                let good = all().next() == layout(self.0.ty(v), true).as_ref();
                Some(if good { 100 } else { 800 } * registers)
            }
            Op::Splat | Op::Iota => Some(1),
            _ => Some(registers),
        }
    }
    fn convert(&self, from: &Layout, to: &Layout, elem: Scalar) -> Option<u64> {
        let each = match classify(from, to).ok()? {
            ConversionClass::Identity | ConversionClass::Rename => 0,
            ConversionClass::InLane => 4,
            ConversionClass::InWarp => 16,
            ConversionClass::InCta | ConversionClass::Cluster => 60,
        };
        Some(each * u64::from(to.size(Axis::Reg) * elem.bytes()))
    }
    fn registers(&self) -> [u64; 2] {
        [200, 200]
    }
    fn spill(&self) -> u64 {
        64
    }
}

/// A kernel of a program over tiles `a b` of `16x32`, `c` of `16x1`, a scalar `s`, a view `p` and a row `r`.
fn kernel(body: &str) -> Kernel {
    let names = [("a", "v4"), ("b", "v5"), ("c", "v6"), ("s", "v2"), ("r", "v3"), ("p", "v1")];
    let mut code = String::new();
    let mut word = String::new();
    for ch in body.chars().chain(['\n']) {
        if ch.is_alphanumeric() || ch == '_' {
            word.push(ch);
            continue;
        }
        code += names.iter().find(|n| n.0 == word).map_or(word.as_str(), |n| n.1);
        word.clear();
        code.push(ch);
    }
    let text = format!(
        "kernel @k(v0: view<f32, [64, 64]>, v1: view<f32, [64, 64]>, v2: f32, v3: i32) {{\n\
         v4 = load v0[v3, 0] : tile<16x32xf32>\nv5 = load v1[v3, 0] : tile<16x32xf32>\nv6 = load v0[v3, 0] : tile<16x1xf32>\n{code}}}\n"
    );
    let file = text::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    file.kernels.into_iter().next().expect("a kernel")
}

/// Plain layouts that no access likes, so that every value has two.
fn problem(kernel: &Kernel) -> Problem<'_> {
    let mut base = SecondaryMap::new();
    for v in kernel.values.keys() {
        base[v] = layout(kernel.ty(v), false);
    }
    Problem { kernel, base, pinned: SecondaryMap::new() }
}

/// The coordinate in operand `k` of what a result holds at `c`; `None` where the op computes along an axis.
fn comes_from(kernel: &Kernel, i: Inst, result: usize, k: usize, c: &[u32]) -> Option<Vec<u32>> {
    let d = &kernel.insts[i];
    let shape = |v: Value| kernel.ty(v).shape().unwrap_or(&[]).to_vec();
    let (from, to) = (shape(d.args[k]), shape(d.results[result]));
    let axis = d.attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None });
    let flat = |s: &[u32], c: &[u32]| c.iter().zip(s).fold(0, |n, (&x, &e)| n * e + x);
    match d.op {
        Op::Transpose => {
            let Some(Attr::Perm(p)) = d.attrs.first() else { return None };
            let mut out = vec![0; c.len()];
            p.iter().zip(c).for_each(|(&to, &x)| out[to as usize] = x);
            Some(out)
        }
        Op::Reshape => {
            let mut n = flat(&to, c);
            let mut out = vec![0; from.len()];
            for (o, &e) in out.iter_mut().zip(&from).rev() {
                (*o, n) = (n % e, n / e);
            }
            Some(out)
        }
        Op::Broadcast => Some(c.iter().zip(&from).map(|(&x, &e)| if e == 1 { 0 } else { x }).collect()),
        Op::Join => (c[c.len() - 1] as usize == k).then(|| c[..c.len() - 1].to_vec()),
        Op::Split => Some(c.iter().copied().chain([result as u32]).collect()),
        Op::Concat => {
            let axis = axis?;
            let mine = c[axis] / from[axis] == k as u32;
            mine.then(|| c.iter().enumerate().map(|(n, &x)| if n == axis { x % from[axis] } else { x }).collect())
        }
        Op::Slice => {
            let Some(Attr::Offsets(o)) = d.attrs.first() else { return None };
            Some(c.iter().zip(o).map(|(&x, &o)| x + o).collect())
        }
        Op::Reduce | Op::Scan | Op::Flip => None,
        _ => Some(c.to_vec()),
    }
}

/// Every lane has in its own registers what its part of the results is made of.
fn holds(kernel: &Kernel, i: Inst, run: &InstLayouts) {
    let d = &kernel.insts[i];
    for (n, to) in run.results.iter().enumerate().filter_map(|(n, l)| Some((n, l.as_ref()?))) {
        for (k, from) in run.operands.iter().enumerate().filter_map(|(k, l)| Some((k, l.as_ref()?))) {
            for (lane, warp) in (0..LANES).flat_map(|l| (0..WARPS).map(move |w| (l, w))) {
                let at = |l: &Layout, r: u32| l.apply(&[(Axis::Reg, r), (Axis::Lane, lane), (Axis::Warp, warp)]).to_vec();
                let here: std::collections::HashSet<Vec<u32>> = (0..from.size(Axis::Reg)).map(|r| at(from, r)).collect();
                for r in 0..to.size(Axis::Reg) {
                    let Some(c) = comes_from(kernel, i, n, k, &at(to, r)) else { continue };
                    assert!(here.contains(&c), "{} lane {lane} of warp {warp} lacks {c:?}", d.op);
                }
            }
        }
    }
}

#[test]
fn every_rule_applies_to_its_program_and_keeps_away_from_the_other() {
    for rule in rules::all() {
        for (body, applies) in [(rule.fires, true), (rule.keeps, false)] {
            let k = kernel(body);
            let limits = Limits { only: Some(rule.name), ..Limits::default() };
            let (g, _) = saturate::saturate(&problem(&k), &Toy(&k), &limits);
            // Not what the program's inputs do.
            let mut inputs: Vec<Inst> = Vec::new();
            k.walk(k.body, &mut |i| inputs.extend((k.insts[i].op == Op::Load).then_some(i)));
            inputs.truncate(3);
            let found: Vec<_> = g.analysis.runs.iter().filter(|(key, by)| **by == rule.name && !inputs.contains(&key.inst)).collect();
            assert_eq!(!found.is_empty(), applies, "{} on\n{body}", rule.name);
            for (key, _) in found {
                holds(&k, key.inst, &g.analysis.run(key));
            }
        }
    }
}

#[test]
fn names_are_unique_and_ops_are_looked_at_by_someone() {
    let mut names: Vec<&str> = rules::all().iter().map(|r| r.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rules::all().len());
    for pass in [Pass::Elementwise, Pass::Transpose, Pass::Reduce, Pass::Read, Pass::Write] {
        assert!(rules::all().iter().any(|r| r.ops.contains(&pass)), "{pass:?}");
    }
}

const LOOP: &str = "v20 = splat 0.0 : tile<16x32xf32>
v21 = for v22 in 0..r step 1 carry v23 = v20 {
v24 = load p[v22, 0] : tile<16x32xf32>
v25 = add v23, v24
v26 = mul v25, a
yield v26
}
store p[r, 0], v21";

fn solved(k: &Kernel) -> Solution {
    solve(&problem(k), &Toy(k), &Limits::default()).expect("a solution")
}

#[test]
fn what_a_loop_carries_takes_the_layout_of_its_loads() {
    let k = kernel(LOOP);
    let s = solved(&k);
    assert!(Some(s.cost) < s.plain, "{} against {:?}", s.cost, s.plain);
    k.walk(k.body, &mut |i| {
        for &v in k.insts[i].results.iter().filter(|v| k.ty(**v).shape() == Some(&[16, 32])) {
            let list = &s.values[v];
            assert!(list.iter().all(|x| Some(&x.layout) == layout(k.ty(v), true).as_ref()), "{v}: {list:?}");
            assert!(list.iter().all(|x| !matches!(x.source, Source::Convert(_))), "{v} is converted");
        }
    });
}

/// What is required is made and carried in its plain layout alone; who wants it otherwise converts it.
#[test]
fn pinned_values_are_made_in_their_layout_alone() {
    let k = kernel(LOOP);
    let mut p = problem(&k);
    let mut carried = Vec::new();
    k.walk(k.body, &mut |i| {
        if k.insts[i].op == Op::For {
            carried.extend(k.insts[i].results.iter().chain(&k.regions[k.insts[i].regions[0]].params[1..]).copied());
        }
    });
    carried.retain(|&v| p.base[v].is_some());
    assert!(carried.len() >= 2);
    let free = solve(&p, &Toy(&k), &Limits::default()).expect("a solution");
    carried.iter().for_each(|&v| p.pinned[v] = true);
    let s = solve(&p, &Toy(&k), &Limits::default()).expect("a solution");
    for &v in &carried {
        assert_ne!(free.values[v].first().map(|x| &x.layout), p.base[v].as_ref(), "{v} would be elsewhere");
        assert_eq!(s.values[v].first().map(|x| &x.layout), p.base[v].as_ref(), "{v}");
        assert!(s.values[v][1..].iter().all(|x| matches!(x.source, Source::Convert(_))), "{v}: {:?}", s.values[v]);
    }
    assert!(s.cost > free.cost);
}

#[test]
fn equal_inputs_give_equal_solutions() {
    let bodies: Vec<&str> = rules::all().iter().map(|r| r.fires).chain([LOOP]).collect();
    for body in bodies {
        let k = kernel(body);
        let once = solve(&problem(&k), &Toy(&k), &Limits::default());
        assert_eq!(once, solve(&problem(&k.clone()), &Toy(&k), &Limits::default()), "{body}");
    }
}

#[test]
fn little_fuel_still_gives_an_answer() {
    let k = kernel(LOOP);
    for limits in [
        Limits { nodes: 30, ..Limits::default() },
        Limits { layouts: 1, ..Limits::default() },
        Limits { iterations: 1, ..Limits::default() },
        Limits { trials: 0, keep: 1, ..Limits::default() },
    ] {
        let s = solve(&problem(&k), &Toy(&k), &limits).unwrap_or_else(|| panic!("{limits:?}"));
        assert!(s.plain.is_none_or(|p| s.cost <= p), "{limits:?}: {} against {:?}", s.cost, s.plain);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A program of four values in two layouts each: the first is carried, each later one is made of one or two earlier ones, all may be
/// converted, the last has to run.
fn random(seed: u64) -> LayoutForest {
    let mut r = Random(seed);
    let mut f = LayoutForest::default();
    let item = |f: &mut LayoutForest, what: LayoutItem, cost: u64| {
        f.items.push(what);
        f.cost.push(cost);
        f.items.len() as u32 - 1
    };
    for v in 0..4u32 {
        for l in 0..2u32 {
            let mut class = LayoutClass { value: Some(Value::new(v as usize)), layout: l, fanout: 1, ..LayoutClass::default() };
            if v == 0 {
                class.given = Some(0);
            } else if r.below(5) > 0 || l == 0 {
                let kids = (0..=r.below(2)).map(|_| (r.below(u64::from(v)) * 2 + r.below(2)) as u32).collect();
                let cost = 1 + r.below(40);
                class.ways.push(Way { item: item(&mut f, LayoutItem::InstLayouts(v * 2 + l), cost), kids });
            }
            f.of[Value::new(v as usize)].push(f.classes.len() as u32);
            f.order.push(f.classes.len() as u32);
            f.classes.push(class);
        }
    }
    for c in 0..8u32 {
        let from = c ^ 1;
        let cost = 1 + r.below(30);
        let u = item(&mut f, LayoutItem::Convert(from, c), cost);
        f.classes[c as usize].converts.push((from, u));
    }
    let u = item(&mut f, LayoutItem::InstLayouts(100), 1);
    let kids = [6 + r.below(2) as u32, 2 + r.below(4) as u32].into_iter().collect();
    f.classes.push(LayoutClass { ways: vec![Way { item: u, kids }], fanout: 1, ..LayoutClass::default() });
    f.order.push(8);
    f.done.push((8, Inst::new(0)));
    f.registers = vec![[1, 0]; 9];
    f.controls.push(Control { layouts: vec![0, 1], wants: vec![Value::new(1 + r.below(3) as usize)] });
    // Readers share what they read.
    for c in 0..8 {
        let value = f.classes[c].value;
        let readers =
            f.classes.iter().filter(|x| x.ways.iter().any(|w| w.kids.iter().any(|&k| f.classes[k as usize].value == value))).count();
        f.classes[c].fanout = readers.max(1) as u64;
    }
    f
}

/// The least cost over all choices.
fn brute(f: &LayoutForest) -> Option<u64> {
    let options: Vec<Vec<Pick>> = f
        .classes
        .iter()
        .map(|c| {
            let ways = (0..c.ways.len()).map(|w| Pick::Way(w as u32));
            let converts = (0..c.converts.len()).map(|x| Pick::Convert(x as u32));
            let given = c.given.map(|_| Pick::Given);
            given.into_iter().chain(ways).chain(converts).collect()
        })
        .collect();
    let mut best = None;
    for control in 0..2 {
        let mut at = vec![0usize; options.len()];
        'all: loop {
            let picks: Vec<Pick> = at.iter().zip(&options).map(|(&n, o)| o[n]).collect();
            if let Some(t) = f.total(&[control], &picks) {
                best = Some(best.map_or(t, |b: u64| b.min(t)));
            }
            for n in 0..at.len() {
                at[n] += 1;
                if at[n] < options[n].len() {
                    continue 'all;
                }
                at[n] = 0;
            }
            break;
        }
    }
    best
}

#[test]
fn extraction_is_checked_against_all_choices() {
    let (mut exact, mut solvable) = (0, 0);
    for seed in 0..300 {
        let f = random(seed);
        let want = brute(&f);
        let got = search(&f, &Limits::default()).and_then(|l| l.into_iter().next());
        assert_eq!(got.is_some(), want.is_some(), "seed {seed}");
        let (Some(got), Some(want)) = (got, want) else { continue };
        assert_eq!(f.check(&got), Ok(()), "seed {seed}");
        assert!(got.total >= want, "seed {seed}: {} is cheaper than the cheapest, {want}", got.total);
        solvable += 1;
        exact += u32::from(got.total == want);
    }
    assert!(solvable > 250, "{solvable} problems have a solution");
    assert!(exact * 100 >= solvable * 95, "{exact} of {solvable} are the cheapest");
}

/// Conversions look cheap until one means to take them.
struct Dearer<'k>(Toy<'k>);

impl CostModel for Dearer<'_> {
    fn anchors(&self, i: Inst) -> Vec<InstLayouts> {
        self.0.anchors(i)
    }
    fn fixed(&self, i: Inst) -> bool {
        self.0.fixed(i)
    }
    fn run(&self, i: Inst, run: &InstLayouts) -> Option<u64> {
        self.0.run(i, run)
    }
    fn convert(&self, _: &Layout, _: &Layout, _: Scalar) -> Option<u64> {
        Some(1)
    }
    fn convert_exactly(&self, _: &Layout, _: &Layout, _: Scalar) -> Option<u64> {
        Some(1 << 30)
    }
    fn registers(&self) -> [u64; 2] {
        self.0.registers()
    }
    fn spill(&self) -> u64 {
        self.0.spill()
    }
}

#[test]
fn conversions_that_prove_dear_are_given_up() {
    let k = kernel("v10 = neg a\nv11 = exp v10\nstore p[r, 0], v11");
    let converted = |s: &Solution| s.values.values().flatten().filter(|v| matches!(v.source, Source::Convert(_))).count();
    // The plain layouts load and store badly.
    let quick = Limits { corrections: 0, ..Limits::default() };
    let p = Problem {
        pinned: k.values.keys().map(|v| (v, v == Value::new(10))).fold(SecondaryMap::new(), |mut m, (v, x)| {
            m[v] = x;
            m
        }),
        ..problem(&k)
    };
    assert!(converted(&solve(&p, &Dearer(Toy(&k)), &quick).expect("a solution")) > 0, "they look cheap");
    let s = solve(&p, &Dearer(Toy(&k)), &Limits::default()).expect("a solution");
    assert_eq!(converted(&s), 0);
    assert!(s.plain.is_some_and(|plain| s.cost <= plain));
}

/// A machine on which a value takes more registers of lanes' own than there are where it lies as accesses like it.
struct Crowded<'k> {
    toy: Toy<'k>,
    value: Value,
    over: u64,
}

impl CostModel for Crowded<'_> {
    fn anchors(&self, i: Inst) -> Vec<InstLayouts> {
        self.toy.anchors(i)
    }
    fn fixed(&self, i: Inst) -> bool {
        self.toy.fixed(i)
    }
    fn run(&self, i: Inst, run: &InstLayouts) -> Option<u64> {
        self.toy.run(i, run)
    }
    fn convert(&self, from: &Layout, to: &Layout, elem: Scalar) -> Option<u64> {
        self.toy.convert(from, to, elem)
    }
    fn registers(&self) -> [u64; 2] {
        [200, 100]
    }
    fn held(&self, value: Value, l: &Layout, words: u64) -> [u64; 2] {
        let dear = value == self.value && layout(self.toy.0.ty(value), true).is_some_and(|good| *good == *l);
        [words, if dear { 100 + self.over } else { 0 }]
    }
    fn spill(&self) -> u64 {
        1000
    }
}

/// Only where registers of lanes' own are too few is a value made otherwise, and only if that takes less time.
#[test]
fn what_takes_too_many_registers_is_made_otherwise() {
    let k = kernel("v10 = neg a\nv11 = exp v10\nstore p[r, 0], v11");
    let value = k.insts.values().find(|d| d.op == Op::Neg).expect("it is there").args[0];
    let good = layout(k.ty(value), true).expect("a layout");
    let loaded_well = |over: u64| {
        let s = solve(&problem(&k), &Crowded { toy: Toy(&k), value, over }, &Limits::default()).expect("a solution");
        s.values[value].iter().any(|x| *x.layout == *good && !matches!(x.source, Source::Convert(_)))
    };
    assert!(loaded_well(0), "all fit");
    assert!(!loaded_well(1000), "far too many");
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let f = random(1);
    let good = search(&f, &Limits::default()).unwrap().remove(0);
    let wrong = |c: LayoutChoice, part: &str| {
        let e = f.check(&c).unwrap_err();
        assert!(e.contains(part), "{e}");
    };
    wrong(LayoutChoice { total: good.total + 1, ..good.clone() }, "costs");
    wrong(LayoutChoice { controls: vec![7], ..good.clone() }, "can't carry");
    wrong(LayoutChoice { controls: Vec::new(), ..good.clone() }, "another program");
    let circle: Vec<Pick> = good.picks.iter().enumerate().map(|(n, &p)| if (2..8).contains(&n) { Pick::Convert(0) } else { p }).collect();
    wrong(LayoutChoice { picks: circle, ..good.clone() }, "circle");
    let hole = vec![Pick::None; good.picks.len()];
    wrong(LayoutChoice { picks: hole, ..good }, "misses");
}
