//! The table against what ops do with each element, by enumeration over random layouts: odd extents, copies, odd digits in warps.

use super::{Extra, Map, Pass, Passage, Tie, Touch, carried, pass, pass_at, passage};
use crate::entities::{Inst, Value};
use crate::kernel::Kernel;
use crate::layout::tests::{Rng, Style, random_layout};
use crate::layout::{Axis, Layout};
use crate::ops::{Attr, Op};
use crate::text;
use std::collections::BTreeSet;

const ANY: Style = Style { lane_bits: 4, warp_bits: 1, xor: true, copies: true, odd_warp: true };

/// Every op that ties tiles, with extents of 176, 48, 20 and others that are no powers of two. The parameters' tiles are `v2` of `16x176`,
/// `v3` of `48x20`, `v4` of `16x1`, `v5` of `1x176`, `v6` of `1x1`, `v7` of `8x4x6`, `v8` of `176x16`, `v9` of `16x32`.
const OPS: &[&str] = &[
    "v20 = add v2, v2",
    "v20 = cast v3 : tile<48x20xi64>",
    "v20 = cmp lt v3, v3\nv21 = select v20, v3, v3\nassert v20",
    "v20 = transpose v2, [1, 0]",
    "v20 = transpose v7, [2, 0, 1]",
    "v20 = transpose v7, [1, 2, 0]",
    "v20 = reshape v2 : tile<4x4x176xi32>",
    "v20 = reshape v2 : tile<2x8x11x16xi32>",
    "v20 = reshape v3 : tile<3x16x5x4xi32>",
    "v20 = reshape v7 : tile<8x2x2x6xi32>",
    "v20 = reshape v8 : tile<11x256xi32>",
    "v20 = broadcast v4 : tile<16x176xi32>",
    "v20 = broadcast v5 : tile<48x176xi32>",
    "v20 = broadcast v6 : tile<12x20xi32>",
    "v20 = broadcast v4 : tile<16x2xi32>",
    "v20 = join v2, v2",
    "v20 = join v7, v7\nv21, v22 = split v20",
    "v20 = concat v2, v2, axis 0",
    "v20 = concat v8, v8, axis 1",
    "v20 = concat v7, v7, axis 1",
    "v20 = slice v2, [0, 32] : tile<16x16xi32>",
    "v20 = slice v2, [4, 0] : tile<4x176xi32>",
    "v20 = slice v2, [8, 32] : tile<8x16xi32>",
    "v20 = slice v3, [32, 4] : tile<16x4xi32>",
    "v20 = slice v9, [8, 8] : tile<4x8xi32>",
    "v20 = slice v9, [3, 8] : tile<4x8xi32>",
    "v20 = slice v9, [0, 0] : tile<16x32xi32>",
    "v20 = flip v2, axis 1",
    "v20 = scan add v2, axis 1\nv21 = scan_reverse add v3, axis 0",
    "v20 = reduce add v2, axis 0",
    "v20 = reduce maximum v2, axis 1",
    "v20 = reduce add v7, axis 1",
    "v20 = argmin v3, axis 1\nv21 = argmax v3, axis 0",
    "v20, v21 = reduce_by v2, v2, axis 1 combine v22, v23 with v24, v25 {\nv26 = add v22, v24\nyield v26, v25\n}",
    "v20, v21 = scan_by v3, v3, axis 0 combine v22, v23 with v24, v25 {\nv26 = add v22, v24\nyield v26, v25\n}",
    "v20 = scan_reverse_by v3, axis 0 combine v22 with v24 {\nv26 = add v22, v24\nyield v26\n}",
    "v20 = cast v9 : tile<16x32xi8>\nv21 = bitcast v20 : tile<16x64xf4e2m1>\nv22 = bitcast v21 : tile<16x32xi8>",
    "v20 = cast v8 : tile<176x16xi8>\nv21 = bitcast v20 : tile<176x32xf4e2m1>\nv22 = bitcast v21 : tile<176x16xi8>",
    "v20, v21, v22, v23 = philox v2, v2, v2, v2, v2, v2",
    "v20 = require_layout v9, blocked(size=[1, 8], lanes=[8, 4], warps=[2, 1], order=[1, 0])\nv21 = release_layout v20",
    "v20 = cmp lt v2, v2\nv21 = load v0[0, 0], mask=v20 : tile<16x176xi32>\nstore v1[0, 0], v21, mask=v20",
    "v20 = gather v0[v3, v3]\nscatter v1[v3, v3], v20\nv21 = atomic add v1[v3, v3], v20\nv22 = atomic_cas v1[v3, v3], v20, v21",
    "v20 = gather_tile v2, v2, axis 0",
    "v20 = sort ascending v2, axis 0\nv21 = argsort ascending v2, axis 0",
    "v20 = reshape v9 : tile<512xi32>\nv21 = cmp lt v20, v20\nv22 = histogram v20, mask=v21 : tile<64xi32>",
    "v20 = cast v2 : tile<16x176xf16>\nv21 = cast v8 : tile<176x16xf16>\nv22 = splat 0.0 : tile<16x16xf32>\nv23 = dot v20, v21, v22",
    "v20 = cast v9 : tile<16x32xf8e4m3>\nv21 = cast v4 : tile<16x1xf8e8m0>\nv22 = transpose v20, [1, 0]\nv23 = transpose v21, [1, 0]\n\
     v24 = splat 0.0 : tile<16x16xf32>\nv25 = dot_scaled v20, v21, v22, v23, v24",
    "v20 = iota 1 : tile<16x48xi32>",
];

fn kernel(body: &str) -> Kernel {
    let mut loads = String::new();
    for (v, shape) in ["16x176", "48x20", "16x1", "1x176", "1x1", "8x4x6", "176x16", "16x32"].iter().enumerate() {
        let (view, at) = if shape.matches('x').count() == 1 { ("v0", "0, 0") } else { ("v100", "0, 0, 0") };
        loads += &format!("v{} = load {view}[{at}] : tile<{shape}xi32>\n", v + 2);
    }
    let source = format!("kernel @k(v0: view<i32, [?, ?]>, v1: view<i32, [?, ?]>, v100: view<i32, [?, ?, ?]>) {{\n{loads}{body}\n}}");
    let file = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    file.kernels.into_iter().next().expect("a kernel")
}

/// The instructions of the programs with what they tie.
fn each(mut see: impl FnMut(&Kernel, Inst, &Passage)) {
    for body in OPS {
        let k = kernel(body);
        k.walk(k.body, &mut |i| {
            if let Some(p) = passage(&k, i) {
                see(&k, i, &p);
            }
        });
    }
}

fn line(k: &Kernel, i: Inst) -> String {
    text::lines(k).into_iter().find(|l| l.insts.contains(&i)).map(|l| l.text).unwrap_or_default()
}

fn shape(k: &Kernel, i: Inst, t: Touch) -> Vec<u32> {
    t.value(k, i).and_then(|v| k.ty(v).shape()).expect("a tile").to_vec()
}

fn axis(k: &Kernel, i: Inst) -> usize {
    k.insts[i].attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None }).expect("an axis")
}

fn coordinates(shape: &[u32]) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new()];
    for &e in shape {
        out = out.into_iter().flat_map(|c| (0..e).map(move |x| c.iter().copied().chain([x]).collect())).collect();
    }
    out
}

fn number(shape: &[u32], c: &[u32]) -> u32 {
    shape.iter().zip(c).fold(0, |n, (&e, &x)| n * e + x)
}

/// The elements of an operand of which a result has an element, from the meaning of the op.
fn sources(k: &Kernel, i: Inst, operand: usize, result: usize, c: &[u32]) -> Vec<Vec<u32>> {
    let d = &k.insts[i];
    let (from, to) = (shape(k, i, Touch::Operand(operand)), shape(k, i, Touch::Result(result)));
    match d.op {
        Op::Transpose => {
            let Some(Attr::Perm(p)) = d.attrs.first() else { panic!("a permutation") };
            let mut out = vec![0; c.len()];
            p.iter().zip(c).for_each(|(&at, &x)| out[at as usize] = x);
            vec![out]
        }
        Op::Reshape => {
            let (mut n, mut out) = (number(&to, c), from.clone());
            for e in out.iter_mut().rev() {
                (*e, n) = (n % *e, n / *e);
            }
            vec![out]
        }
        Op::Broadcast => vec![c.iter().zip(&from).map(|(&x, &e)| if e == 1 { 0 } else { x }).collect()],
        Op::Join if c[c.len() - 1] as usize == operand => vec![c[..c.len() - 1].to_vec()],
        Op::Split => vec![c.iter().copied().chain([result as u32]).collect()],
        Op::Concat => {
            let (a, first) = (axis(k, i), shape(k, i, Touch::Operand(0)));
            let mut out = c.to_vec();
            match (operand, c[a] < first[a]) {
                (0, true) => vec![out],
                (1, false) => {
                    out[a] -= first[a];
                    vec![out]
                }
                _ => Vec::new(),
            }
        }
        Op::Join => Vec::new(),
        Op::Slice => {
            let Some(Attr::Offsets(o)) = d.attrs.first() else { panic!("offsets") };
            vec![c.iter().zip(o).map(|(&x, &o)| x + o).collect()]
        }
        Op::Reduce | Op::ReduceBy | Op::ArgMin | Op::ArgMax => {
            let a = axis(k, i);
            let along = |x: u32| c[..a].iter().copied().chain([x]).chain(c[a..].iter().copied()).collect();
            (0..from[a]).map(along).collect()
        }
        // Two elements of half a byte lie in the byte at half the place.
        Op::Bitcast => {
            let (last, mut out) = (c.len() - 1, c.to_vec());
            if from[last] > to[last] {
                return [0, 1].map(|h| c[..last].iter().copied().chain([2 * c[last] + h]).collect()).to_vec();
            }
            out[last] /= 2;
            vec![out]
        }
        op => panic!("{op} has a map"),
    }
}

/// Elements by their row-major numbers.
type Held = BTreeSet<u32>;

/// What each lane holds.
fn held(l: &Layout) -> Vec<Held> {
    let lanes = (0..l.size(Axis::Warp)).flat_map(|w| (0..l.size(Axis::Lane)).map(move |x| (w, x)));
    let at = |w, x, r| number(l.shape(), &l.apply(&[(Axis::Reg, r), (Axis::Lane, x), (Axis::Warp, w)]));
    lanes.map(|(w, x)| (0..l.size(Axis::Reg)).map(|r| at(w, x, r)).collect()).collect()
}

/// What belongs to what between the sides, as pairs `(near, far)`: the sources of every result, and the elements that lie in the same
/// place of a part that is not taken.
fn belongs(k: &Kernel, i: Inst, p: &Passage) -> Vec<(u32, u32)> {
    let (from, to) = (shape(k, i, p.near[0]), shape(k, i, p.far[0]));
    let chunk = |c: &[u32], of: &[u32]| c.iter().zip(of).map(|(&x, &e)| x % e).collect::<Vec<_>>();
    let (a, b) = (|c: &[u32]| number(&from, c), |c: &[u32]| number(&to, c));
    let (near, far) = (|| coordinates(&from).into_iter(), || coordinates(&to).into_iter());
    match k.insts[i].op {
        // A join's or split's tiles are parts of one: what lies in the same place of either.
        Op::Join => far().map(|c| (a(&c[..c.len() - 1]), b(&c))).collect(),
        Op::Split => near().map(|c| (a(&c), b(&c[..c.len() - 1]))).collect(),
        Op::Concat => far().map(|c| (a(&chunk(&c, &from)), b(&c))).collect(),
        Op::Slice => near().map(|c| (a(&c), b(&chunk(&c, &to)))).collect(),
        _ => far().flat_map(|c| sources(k, i, 0, 0, &c).into_iter().map(move |s| (a(&s), b(&c))).collect::<Vec<_>>()).collect(),
    }
}

/// The elements of one side that those of the other belong to, by the pairs of both, the other side first.
fn image(pairs: &[(u32, u32)], of: &Held) -> Held {
    pairs.iter().filter(|p| of.contains(&p.0)).map(|p| p.1).collect()
}

#[test]
fn layouts_go_where_elements_go_in_both_directions() {
    let mut rng = Rng::new(71);
    let mut went = [0, 0];
    each(|k, i, p| {
        if p.far.is_empty() {
            assert_eq!(p.map, Map::Same, "{}", k.insts[i].op);
            return;
        }
        let pairs = belongs(k, i, p);
        let back: Vec<(u32, u32)> = pairs.iter().map(|p| (p.1, p.0)).collect();
        let text = line(k, i);
        let mut here = [0, 0];
        for _ in 0..3 {
            for (n, side) in [&p.near, &p.far].into_iter().enumerate() {
                let layout = random_layout(&mut rng, &shape(k, i, side[0]), ANY);
                let there = if n == 0 { p.map.forward(&layout) } else { p.map.backward(&layout) };
                let Some(there) = there else { continue };
                here[n] += 1;
                let across = if n == 0 { &p.far } else { &p.near };
                across.iter().for_each(|&t| assert_eq!(there.shape(), &shape(k, i, t)[..], "{text}"));
                assert_eq!(there.size(Axis::Warp), layout.size(Axis::Warp), "{text}");
                for (lane, (a, b)) in held(&layout).iter().zip(held(&there)).enumerate() {
                    let want = image(if n == 0 { &pairs } else { &back }, a);
                    assert_eq!(b, want, "{text}, lane {lane}: {layout} to {there}");
                }
            }
        }
        assert!(here.iter().all(|&n| n > 0), "{text} passes nothing on: {here:?}");
        went = [went[0] + here[0], went[1] + here[1]];
    });
    assert!(went.iter().all(|&n| n > 80), "{went:?}");
}

#[test]
fn what_runs_in_place_has_its_sources_in_the_lane() {
    let mut rng = Rng::new(72);
    let mut laid = std::collections::BTreeMap::<(Pass, bool), u32>::new();
    each(|k, i, p| {
        let text = line(k, i);
        for &touch in p.near.iter().chain(&p.far) {
            // In registers of the lane, or anywhere.
            for lane_bits in [0, 1, 3] {
                let mixed = lane_bits > 1;
                let style = Style { lane_bits, warp_bits: 0, xor: mixed, copies: mixed, odd_warp: mixed };
                let layout = random_layout(&mut rng, &shape(k, i, touch), style);
                let Some([a, b]) = p.lays(touch, &layout) else { continue };
                *laid.entry((p.pass, matches!(touch, Touch::Result(_)))).or_default() += 1;
                let mine = if p.near.contains(&touch) { &a } else { &b };
                for (x, y) in held(mine).iter().zip(held(&layout)) {
                    assert_eq!(*x, y, "{text}: another layout than the one given");
                }
                if p.map == Map::Same {
                    assert!(a == layout && b == layout, "{text}");
                    continue;
                }
                let line = matches!(&p.map, Map::Shrink(x) if x.extra == Extra::Line);
                for (&from, &to) in p.near.iter().flat_map(|f| p.far.iter().map(move |t| (f, t))) {
                    let (Touch::Operand(o), Touch::Result(r)) = (from, to) else { panic!("{text}: sides") };
                    let of = |c: &Vec<u32>| sources(k, i, o, r, c).iter().map(|s| number(a.shape(), s)).collect::<Vec<_>>();
                    let of: Vec<Vec<u32>> = coordinates(b.shape()).iter().map(of).collect();
                    for (has, makes) in held(&a).iter().zip(held(&b)) {
                        for c in makes {
                            // Of a line some lanes have only parts, which they combine.
                            let of = &of[c as usize];
                            let all = of.iter().all(|s| has.contains(s));
                            assert!(all || line && of.iter().any(|s| has.contains(s)), "{text}: {c} of {b} has no source in {a}");
                        }
                    }
                }
            }
        }
    });
    let both = [
        Pass::Elementwise,
        Pass::Packing,
        Pass::Transpose,
        Pass::Reshape,
        Pass::Join,
        Pass::Split,
        Pass::Concat,
        Pass::Slice,
        Pass::Broadcast,
    ];
    for (pass, result) in both.iter().flat_map(|&p| [(p, false), (p, true)]) {
        assert!(laid.contains_key(&(pass, result)), "{pass:?}, result {result}: {laid:?}");
    }
    assert!(!laid.contains_key(&(Pass::Reduce, true)), "a sum says nothing of its line");
}

/// A slice that begins inside a chunk proposes a layout, but does not run in place.
#[test]
fn a_slice_astride_chunks_moves() {
    let k = kernel("v20 = slice v9, [3, 8] : tile<4x8xi32>");
    let mut seen = 0;
    k.walk(k.body, &mut |i| {
        if let (Op::Slice, Some(p)) = (k.insts[i].op, passage(&k, i)) {
            let l = Layout::replicated(&[16, 32], &[1, 0], 32, 1).expect("a layout");
            assert!(p.map.forward(&l).is_some() && p.lays(Touch::Operand(0), &l).is_none());
            seen += 1;
        }
    });
    assert_eq!(seen, 1);
}

#[test]
fn every_op_that_ties_tiles_is_among_the_programs() {
    let mut seen = BTreeSet::new();
    each(|k, i, _| {
        seen.insert(k.insts[i].op.info().name);
        seen.insert(match pass_at(k, i) {
            Pass::Packing => "packing",
            _ => "",
        });
    });
    assert!(seen.contains("packing"));
    for &op in Op::ALL {
        // Of elementwise ops a few stand for all; what goes by units is tested where units are.
        let stands = matches!(pass(op), Pass::Apart | Pass::Elementwise | Pass::Carry | Pass::InFlight | Pass::Born);
        assert!(stands || seen.contains(op.info().name), "{op}");
    }
}

/// What assignment may hear, of whom.
#[test]
fn sums_and_copies_propose_in_one_direction() {
    let proposals = |body: &str, op: Op| {
        let k = kernel(body);
        let mut out = None;
        k.walk(k.body, &mut |i| {
            if k.insts[i].op == op {
                out = passage(&k, i).map(|p| (p.map.proposes(), p.tie));
            }
        });
        out.expect("an instruction")
    };
    assert_eq!(proposals("v20 = reduce add v2, axis 0", Op::Reduce), ([true, false], Tie::One));
    assert_eq!(proposals("v20 = broadcast v4 : tile<16x8xi32>", Op::Broadcast), ([false, true], Tie::One));
    assert_eq!(proposals("v20 = join v2, v2", Op::Join), ([true, true], Tie::One));
    assert_eq!(proposals("v20 = sort ascending v2, axis 0", Op::Sort).1, Tie::First);
}

#[test]
fn what_control_carries_flows_in_order() {
    let k = kernel(
        "v20 = for v21 in 0..4 step 1 carry v22 = v2 {\nv23 = add v22, v2\nyield v23\n}
         v24 = while carry v25 = v20 {\nv26 = cmp lt 1, 2\nyield v26\n} do carry v27 {\nv28 = add v27, v2\nyield v28\n}
         v29 = cmp lt 1, 2\nv30 = if v29 {\nyield v24\n} else {\nyield v2\n}",
    );
    let mut flows: Vec<Vec<(Value, Value)>> = Vec::new();
    let mut all = Vec::new();
    k.walk(k.body, &mut |i| {
        for c in carried(&k, i) {
            flows.push(c.flows().collect());
            all.push(c);
        }
    });
    let [lo, wh, ch] = &all[..] else { panic!("{all:?}") };
    assert_eq!(flows[0], [(lo.init.expect("init"), lo.params[0]), (lo.yields[0], lo.params[0]), (lo.params[0], lo.result)]);
    let [test, run] = wh.params[..] else { panic!("{wh:?}") };
    assert_eq!(flows[1], [(lo.result, test), (wh.yields[0], test), (test, run), (test, wh.result)]);
    assert_eq!(flows[2], [(wh.result, ch.result), (ch.yields[1], ch.result)]);
    assert!(ch.init.is_none() && ch.params.is_empty());
}
