//! Constructors, evaluation, views and redundancy against coordinate enumeration.

use super::super::*;
use super::*;
use std::collections::{BTreeMap, BTreeSet};

const ANY: Style = Style { lane_bits: 5, warp_bits: 2, xor: true, copies: true, odd_warp: true };

fn positions(l: &Layout) -> Vec<[(Axis, u32); 3]> {
    let mut out = Vec::new();
    for reg in 0..l.size(Axis::Reg) {
        for lane in 0..l.size(Axis::Lane) {
            for warp in 0..l.size(Axis::Warp) {
                out.push([(Axis::Reg, reg), (Axis::Lane, lane), (Axis::Warp, warp)]);
            }
        }
    }
    out
}

/// Row-major number of a coordinate.
fn number(shape: &[u32], coord: &[u32]) -> u32 {
    shape.iter().zip(coord).fold(0, |n, (s, c)| n * s + c)
}

fn xor(a: &Coord, b: &Coord) -> Coord {
    a.iter().zip(b).map(|(x, y)| x ^ y).collect()
}

#[test]
fn evaluation_is_columns_plus_odd_digits() {
    let mut rng = Rng::new(10);
    for shape in SHAPES {
        for _ in 0..4 {
            let l = random_layout(&mut rng, shape, ANY);
            for at in positions(&l).into_iter().step_by(3) {
                let mut bits = Coord::from_elem(0, shape.len());
                let mut odd = Coord::from_elem(0, shape.len());
                for (axis, index) in at {
                    for bit in (0..l.bits(axis)).filter(|b| index >> b & 1 == 1) {
                        bits = xor(&bits, &l.column(axis, bit));
                    }
                    let mut rest = index >> l.bits(axis);
                    for (k, radix) in l.odd(axis).into_iter().enumerate() {
                        let (dim, step) = l.odd_column(axis, k);
                        if step > 0 {
                            odd[dim] += rest % radix * step;
                        }
                        rest /= radix;
                    }
                }
                let sum: Coord = bits.iter().zip(&odd).map(|(a, b)| a + b).collect();
                assert_eq!(sum, l.apply(&at), "{l}");
            }
        }
    }
}

#[test]
fn coordinates_of_all_registers_are_those_of_each() {
    let mut rng = Rng::new(11);
    for shape in SHAPES {
        for _ in 0..4 {
            let l = random_layout(&mut rng, shape, ANY);
            for dim in 0..shape.len() {
                let each: Vec<u32> = (0..l.size(Axis::Reg)).map(|reg| l.reg_coord(reg)[dim]).collect();
                assert_eq!(l.registers_along(dim), each, "{l}");
            }
        }
    }
}

#[test]
fn free_masks_pick_one_writer_per_element() {
    let mut rng = Rng::new(11);
    for shape in SHAPES {
        for _ in 0..6 {
            let l = random_layout(&mut rng, shape, ANY);
            let mut writers: BTreeMap<Coord, u32> = BTreeMap::new();
            let mut owners: BTreeSet<Coord> = BTreeSet::new();
            for at in positions(&l) {
                owners.insert(l.apply(&at));
                if at.iter().all(|&(axis, index)| index & l.free_mask(axis) == 0) {
                    *writers.entry(l.apply(&at)).or_default() += 1;
                }
            }
            let count = shape.iter().product::<u32>() as usize;
            assert_eq!(writers.len(), count);
            assert_eq!(owners.len(), count);
            assert!(writers.values().all(|&n| n == 1), "{l}");
            assert!(l.is_surjective());
            assert_eq!(l.is_injective(), positions(&l).len() == count, "{l}");
        }
    }
}

#[test]
fn blocked_follows_consumption_order() {
    // 128x64: 8 per lane along columns, 8x4 lanes, 4 warps along rows.
    let l = Layout::blocked(&[128, 64], &[1, 8], &[4, 8], &[4, 1], &[1, 0]).unwrap();
    assert_eq!(
        l.to_string(),
        "[128, 64]{reg: (0,1) (0,2) (0,4) (16,0) (32,0) (64,0); \
         lane: (0,8) (0,16) (0,32) (1,0) (2,0); warp: (4,0) (8,0)}"
    );
    for shape in SHAPES {
        let rank = shape.len();
        let mut rng = Rng::new(rank as u64);
        for _ in 0..10 {
            let pow = |rng: &mut Rng| -> Vec<u32> { (0..rank).map(|_| 1 << rng.below(4)).collect() };
            let (s, t, w) = (pow(&mut rng), pow(&mut rng), pow(&mut rng));
            let mut order: Vec<usize> = (0..rank).collect();
            rng.shuffle(&mut order);
            let l = Layout::blocked(shape, &s, &t, &w, &order).unwrap();
            assert_eq!(l.size(Axis::Lane), t.iter().product::<u32>());
            assert_eq!(l.size(Axis::Warp), w.iter().product::<u32>());
            // Lane position along a dimension advances by the per-lane run, modulo the bits.
            for lane in 0..l.size(Axis::Lane) {
                let mut rest = lane;
                let at = l.apply(&[(Axis::Lane, lane)]);
                for &d in &order {
                    let here = rest % t[d];
                    rest /= t[d];
                    let pow2 = 1 << shape[d].trailing_zeros();
                    assert_eq!(at[d], here * s[d] % pow2);
                }
            }
        }
    }
    assert_eq!(Layout::blocked(&[8], &[3], &[1], &[1], &[0]), Err(LayoutError::NotPowerOfTwo { what: "per_lane", value: 3 }));
    assert!(Layout::blocked(&[8, 8], &[1], &[1, 1], &[1, 1], &[0, 1]).is_err());
    assert!(Layout::blocked(&[8, 8], &[1, 1], &[1, 1], &[1, 1], &[0, 0]).is_err());
    assert_eq!(Layout::blocked(&[8, 0], &[1, 1], &[1, 1], &[1, 1], &[0, 1]), Err(LayoutError::ZeroExtent { dim: 1 }));
    let huge = vec![Coord::from_slice(&[0]); 40];
    assert!(Layout::from_columns(&[1], &[(Axis::Reg, huge)]).is_err());
    assert!(Layout::blocked(&[1 << 20, 1 << 20], &[1, 1], &[1, 1], &[1, 1], &[0, 1]).is_err());
}

/// The accumulator of a 16x8 matrix instruction.
pub(crate) fn acc16x8() -> FragmentMap {
    FragmentMap::new(&[16, 8], &[&[0, 1], &[8, 0]], &[&[0, 2], &[0, 4], &[1, 0], &[2, 0], &[4, 0]], &[]).unwrap()
}

/// The 16-bit A operand of a 16x8x16 matrix instruction.
pub(crate) fn a16x16() -> FragmentMap {
    FragmentMap::new(&[16, 16], &[&[0, 1], &[8, 0], &[0, 8]], &[&[0, 2], &[0, 4], &[1, 0], &[2, 0], &[4, 0]], &[]).unwrap()
}

#[test]
fn fragments_tile_with_warps_above() {
    let l = Layout::fragment(&[128, 176], &acc16x8(), &[4, 1], &[0, 1]).unwrap();
    for (lane, warp, reg) in [(0, 0, 0), (13, 2, 3), (31, 3, 87), (7, 1, 40)] {
        let at = l.apply(&[(Axis::Reg, reg), (Axis::Lane, lane), (Axis::Warp, warp)]);
        let low = [lane / 4 + 8 * (reg >> 1 & 1), lane % 4 * 2 + (reg & 1)];
        // Two column tiles of 8 in bits, two row tiles, then 11 column groups of 16.
        let (n_bit, m_bit, n_odd) = (reg >> 2 & 1, reg >> 3 & 1, reg >> 4);
        let want = [low[0] + 16 * warp + 64 * m_bit, low[1] + 8 * n_bit + 16 * n_odd];
        assert_eq!(at.as_slice(), want);
    }
    assert_eq!(l.size(Axis::Reg), 176);
    // Warp-group fragment: the instruction owns the lowest warp bits.
    let wide =
        FragmentMap::new(&[64, 8], &[&[0, 1], &[8, 0]], &[&[0, 2], &[0, 4], &[1, 0], &[2, 0], &[4, 0]], &[&[16, 0], &[32, 0]]).unwrap();
    let l = Layout::fragment(&[128, 176], &wide, &[2, 1], &[0, 1]).unwrap();
    assert_eq!(l.bits(Axis::Warp), 3);
    assert_eq!(l.column(Axis::Warp, 2).as_slice(), [64, 0]);
    assert_eq!((l.bits(Axis::Reg), l.odd(Axis::Reg).as_slice()), (3, &[11][..]));
    // Operand: warps that split the other dimension hold copies.
    let a = Layout::operand_of(&[64, 32], &a16x16(), &[2, 2], &[1, 0], &[Some(0), None]).unwrap();
    assert_eq!(a.column(Axis::Warp, 0).as_slice(), [0, 0]);
    assert_eq!(a.column(Axis::Warp, 1).as_slice(), [16, 0]);
    assert_eq!(a.free_mask(Axis::Warp), 1);
    // Two 8-column accumulators are one 16-column operand, bit for bit.
    let d = Layout::fragment(&[16, 16], &acc16x8(), &[1, 1], &[0, 1]).unwrap();
    let a = Layout::fragment(&[16, 16], &a16x16(), &[1, 1], &[0, 1]).unwrap();
    assert!(d.equivalent(&a) && d == a);
    for shape in SHAPES.iter().filter(|s| s.len() == 2) {
        let l = Layout::fragment(shape, &acc16x8(), &[2, 2], &[0, 1]).unwrap();
        assert!(l.is_surjective());
        assert_eq!((l.bits(Axis::Lane), l.bits(Axis::Warp)), (5, 2));
        assert!((0..l.bits(Axis::Reg)).all(|b| l.column(Axis::Reg, b).iter().any(|&c| c > 0)));
    }
    let lifted = acc16x8().lifted(1);
    lifted.check().unwrap();
    let l = Layout::fragment(&[4, 32, 16], &lifted, &[2, 1, 1], &[0, 1, 2]).unwrap();
    assert_eq!(l.column(Axis::Warp, 0).as_slice(), [1, 0, 0]);
    let t = acc16x8().transposed(&[1, 0]).unwrap();
    let a = Layout::fragment(&[16, 32], &t, &[1, 2], &[0, 1]).unwrap();
    let b = Layout::fragment(&[32, 16], &acc16x8(), &[2, 1], &[1, 0]).unwrap();
    assert_eq!(a, b.transpose(&[1, 0]).unwrap());
}

#[test]
fn broken_fragment_tables_are_refused() {
    let twice = FragmentMap::new(&[2, 2], &[&[0, 1]], &[&[0, 1]], &[]);
    assert_eq!(twice, Err(LayoutError::FragmentNotBijective { shape: vec![2, 2] }));
    assert!(FragmentMap::new(&[2, 2], &[&[0, 1]], &[&[2, 0]], &[]).is_err());
    assert!(FragmentMap::new(&[2, 3], &[&[0, 1]], &[&[1, 0]], &[]).is_err());
    assert!(FragmentMap::new(&[2, 2], &[&[0, 1]], &[&[1, 0], &[0, 0]], &[]).is_ok());
}

#[test]
fn views_keep_elements() {
    let mut rng = Rng::new(12);
    for shape in SHAPES {
        for _ in 0..4 {
            let l = random_layout(&mut rng, shape, ANY);
            let mut perm: Vec<usize> = (0..shape.len()).collect();
            rng.shuffle(&mut perm);
            let t = l.transpose(&perm).unwrap();
            let e = l.expand_dims(shape.len() / 2);
            for at in positions(&l) {
                let was = l.apply(&at);
                let moved: Coord = perm.iter().map(|&d| was[d]).collect();
                assert_eq!(t.apply(&at), moved);
                let mut wide = was.clone();
                wide.insert(shape.len() / 2, 0);
                assert_eq!(e.apply(&at), wide);
            }
            assert_eq!(e.squeeze(shape.len() / 2).unwrap(), l);
            for dim in 0..shape.len() {
                let s = l.slice(dim);
                let kept = l.with_dim_broadcast(dim);
                let map = l.slice_registers(dim);
                assert_eq!(map.len() as u32, l.size(Axis::Reg));
                assert!(s.is_surjective() && kept.is_surjective());
                assert_eq!(kept.shape()[dim], 1);
                for at in positions(&l) {
                    let mut want = l.apply(&at);
                    want.remove(dim);
                    let mut from = at;
                    from[0].1 = map[at[0].1 as usize];
                    assert!(from[0].1 < s.size(Axis::Reg));
                    assert_eq!(s.apply(&from), want, "{l} slice {dim} = {s}");
                    want.insert(dim, 0);
                    assert_eq!(kept.apply(&from), want);
                }
            }
        }
    }
    let l = Layout::blocked(&[8, 4], &[1, 1], &[8, 4], &[1, 1], &[1, 0]).unwrap();
    assert!(l.transpose(&[0, 0]).is_err());
    assert_eq!(l.squeeze(0), Err(LayoutError::NotUnit { dim: 0, extent: 8 }));
    assert_eq!(l.slice(5), l);
}

#[test]
fn broadcasts_repeat_in_registers() {
    let mut rng = Rng::new(15);
    for (shape, dim, extent) in [(&[33, 1][..], 1, 24), (&[1, 16], 0, 5), (&[1], 0, 1), (&[4, 1, 6], 1, 8)] {
        let small = random_layout(&mut rng, shape, ANY);
        let wide = small.broadcast(dim, extent).unwrap();
        assert_eq!(wide.shape()[dim], extent);
        assert_eq!(wide.size(Axis::Reg), small.size(Axis::Reg) * extent);
        let map = wide.slice_registers(dim);
        for at in positions(&wide) {
            let mut from = at;
            from[0].1 = map[at[0].1 as usize];
            let mut want = wide.apply(&at);
            want[dim] = 0;
            assert_eq!(small.apply(&from), want);
        }
        assert!(wide.with_dim_broadcast(dim).equivalent(&small));
        assert!(extent == 1 || wide.broadcast(dim, 2).is_err());
    }
}

#[test]
fn reshape_keeps_row_major_numbers_or_refuses() {
    let cases: [(&[u32], &[u32], bool, bool); 13] = [
        (&[176, 16], &[2816], true, true),
        (&[16, 176], &[2816], true, false),
        (&[192, 64], &[12288], true, true),
        (&[2, 3], &[3, 2], false, false),
        (&[45, 4], &[9, 5, 4], true, true),
        (&[9, 5], &[45], true, true),
        (&[9, 5], &[3, 15], true, true),
        (&[64, 32], &[8, 8, 32], true, true),
        (&[448], &[14, 32], true, true),
        (&[33, 1], &[1, 33], true, true),
        (&[1, 1], &[], true, true),
        (&[5, 12], &[10, 6], false, false),
        (&[12, 5], &[6, 10], true, false),
    ];
    let mut rng = Rng::new(13);
    for (from, to, mixed, strict) in cases {
        for _ in 0..3 {
            let style = Style { odd_warp: false, ..ANY };
            let l = random_layout(&mut rng, from, style);
            let out = l.reshape_mixed(to);
            assert_eq!(out.is_ok(), mixed, "{from:?} to {to:?}: {out:?}");
            assert_eq!(l.reshape(to).is_ok(), strict, "{from:?} to {to:?}");
            let Ok(out) = out else { continue };
            for at in positions(&l) {
                assert_eq!(number(to, &out.apply(&at)), number(from, &l.apply(&at)), "{out}");
            }
            let back = out.reshape(from).unwrap();
            assert!(back.equivalent(&l), "{back} versus {l}");
        }
    }
    let l = Layout::replicated(&[8], &[0], 32, 4).unwrap();
    assert!(matches!(l.reshape(&[9]), Err(LayoutError::ElementCount { .. })));
}

#[test]
fn keys_ignore_register_names_only() {
    let mut rng = Rng::new(14);
    let style = Style { odd_warp: false, ..ANY };
    for shape in SHAPES {
        for _ in 0..20 {
            let a = random_layout(&mut rng, shape, style);
            let b = mutate(&mut rng, &a);
            let sets = |l: &Layout| -> Vec<BTreeSet<Coord>> {
                let at = |i: u32| held(l, i % 32, i / 32).into_iter().collect();
                (0..32 * l.size(Axis::Warp)).map(at).collect()
            };
            let renamed = register_rename(&a, &b).unwrap().is_some() && register_rename(&b, &a).unwrap().is_some();
            assert_eq!(a.key(0) == b.key(0), renamed, "{a} {b}");
            if renamed {
                assert_eq!(sets(&a), sets(&b));
            }
            assert_eq!(a.equivalent(&b), a == b);
        }
    }
    // A swap of a packing bit is not a rename.
    let a = Layout::blocked(&[4, 4], &[2, 2], &[2, 2], &[1, 1], &[0, 1]).unwrap();
    let b = Layout::blocked(&[4, 4], &[2, 2], &[2, 2], &[1, 1], &[1, 0]).unwrap();
    let c = a.transpose(&[1, 0]).unwrap();
    assert_eq!(a.slice(0).key(0), c.slice(1).key(0));
    assert_ne!(a.key(1), b.key(1));
}

#[test]
fn rows_lie_in_lanes_side_by_side_as_far_as_they_go() {
    let places = |l: &Layout, dim: usize| {
        let along: BTreeSet<u32> = (0..l.size(Axis::Reg)).map(|r| l.apply(&[(Axis::Reg, r)])[dim]).collect();
        along.len()
    };
    // 64x256: 64 elements a lane, 8 at a time. Up to a line 8 lanes lie side by side, else all 32.
    let (line, row) = (coalesced(&[64, 256], 2, &[1, 0], 8, 32, 8).unwrap(), coalesced_rows(&[64, 256], 2, &[1, 0], 8, 32, 8).unwrap());
    assert_eq!([places(&line, 0), places(&line, 1)], [2, 32]);
    assert_eq!([places(&row, 0), places(&row, 1)], [8, 8]);
    // Rows that are shorter than that, and those of a line, lie as ever.
    for (shape, bytes) in [([64, 64], 2), ([64, 32], 4), ([128, 16], 2)] {
        assert_eq!(coalesced_rows(&shape, bytes, &[1, 0], 16 / bytes, 32, 4), coalesced(&shape, bytes, &[1, 0], 16 / bytes, 32, 4));
    }
}

#[test]
fn every_lane_has_values_of_its_own_of_extents_that_are_no_powers_of_two() {
    let values = |shape: &[u32], bytes, warps| coalesced_values(shape, bytes, &[1, 0], 16 / bytes, 32, warps).unwrap();
    for (cols, bytes, warps) in [(3072, 2, 8), (5120, 2, 8), (7168, 2, 8), (5120, 4, 8), (1536, 2, 4), (640, 4, 4)] {
        let l = values(&[1, cols], bytes, warps);
        assert_eq!(l.free_mask(Axis::Lane) | l.free_mask(Axis::Warp), 0, "{cols} of {bytes} bytes, {warps} warps: {l}");
    }
    // Copies take whole vectors; of fewer elements than lanes' words some lanes have none of their own.
    let copies = coalesced(&[1, 5120], 2, &[1, 0], 8, 32, 8).unwrap();
    assert_ne!(copies.free_mask(Axis::Warp), 0);
    assert_ne!(values(&[1, 640], 2, 8).free_mask(Axis::Warp), 0);
    // Powers of two are dealt out as copies are.
    assert_eq!(values(&[64, 256], 2, 8), coalesced(&[64, 256], 2, &[1, 0], 8, 32, 8).unwrap());
}

#[test]
fn coalesced_layout_of_a_bf16_tile() {
    let l = coalesced(&[128, 64], 2, &[1, 0], 8, 32, 4).unwrap();
    assert_eq!(l, Layout::blocked(&[128, 64], &[1, 8], &[4, 8], &[4, 1], &[1, 0]).unwrap());
    for shape in [&[176, 128][..], &[128, 176], &[7], &[1, 8192], &[33, 1], &[192, 80], &[1, 1]] {
        for lanes in [32, 64] {
            for elem in [1, 2, 4, 8] {
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                let l = coalesced(shape, elem, &order, 16, lanes, 4).unwrap();
                assert!(l.is_surjective());
                assert_eq!((l.size(Axis::Lane), l.size(Axis::Warp)), (lanes, 4));
            }
        }
    }
}
