//! Shared maps, vector widths, sectors and bank conflicts against address simulation.

use super::super::*;
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Wavefronts of one instruction by simulation: per phase, the largest number of distinct units
/// that fall into one bank.
pub(crate) fn simulate(offsets: &[Option<u32>], unit_bytes: u32, op: SharedOp, model: &BankModel) -> u32 {
    let (banks, phase) = model.phase(op, unit_bytes);
    let lanes = offsets.len() as u32;
    let mut left: BTreeSet<u32> = (0..lanes).collect();
    let mut total = 0;
    while let Some(&first) = left.iter().next() {
        let members: BTreeSet<u32> = (0..1u64 << phase.len()).map(|x| first ^ linear::mul(phase, x)).collect();
        let mut words: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for m in members {
            left.remove(&m);
            let Some(Some(byte)) = offsets.get(m as usize) else {
                continue;
            };
            for k in 0..unit_bytes.div_ceil(4) {
                let word = byte / 4 + k;
                words.entry(word % banks).or_default().insert(word);
            }
        }
        total += words.values().map(|w| w.len() as u32).max().unwrap_or(0);
    }
    total
}

fn random_access(rng: &mut Rng, lane_bits: u32, align: u32) -> AccessColumns {
    let column = |rng: &mut Rng| {
        let sparse = rng.below(1 << 12) & rng.below(1 << 12);
        if rng.below(5) == 0 { 0 } else { sparse & !(align - 1) }
    };
    AccessColumns { lane: (0..lane_bits).map(|_| column(rng)).collect(), ..AccessColumns::default() }
}

#[test]
fn bank_conflicts_agree_with_addresses() {
    let mut rng = Rng::new(30);
    let models = [(BankModel::nvidia(), 5), (BankModel::cdna3(), 6), (BankModel::cdna4(), 6)];
    let mut conflicts = 0;
    for _ in 0..6000 {
        let (model, lane_bits) = &models[rng.below(3) as usize];
        let width = 1 << rng.below(5);
        let op = if rng.coin() { SharedOp::Load } else { SharedOp::Store };
        let p = random_access(&mut rng, *lane_bits, width);
        let idle = if rng.below(3) == 0 { rng.below(1 << lane_bits) } else { 0 };
        let w = wavefronts(&p, 1, width, op, model, idle);
        let offsets: Vec<Option<u32>> =
            (0..1 << lane_bits).map(|lane| (lane & idle == 0).then(|| p.offset(&[(Axis::Lane, lane)]))).collect();
        assert_eq!(w.total(), simulate(&offsets, width, op, model), "{p:?} width {width}");
        conflicts += u32::from(w.per_phase > 1);
    }
    assert!(conflicts > 1000);
}

#[test]
fn amd_phases_are_the_published_lists() {
    let phase = |model: BankModel| -> BTreeSet<u32> {
        let (_, v) = model.phase(SharedOp::Load, 16);
        (0..1u64 << v.len()).map(|x| linear::mul(v, x)).collect()
    };
    let list = |ranges: &[(u32, u32)]| -> BTreeSet<u32> { ranges.iter().flat_map(|&(a, b)| a..=b).collect() };
    assert_eq!(phase(BankModel::cdna3()), list(&[(0, 3), (20, 23)]));
    assert_eq!(phase(BankModel::cdna4()), list(&[(0, 3), (12, 15), (20, 27)]));
}

#[test]
fn one_row_per_lane_needs_wide_accesses() {
    // 128-byte swizzle: 16-byte accesses are clean, 8-byte twofold, 4-byte fourfold.
    let map = swizzle_of_width(&[64, 32], 4, 1, 128).unwrap();
    for (width, want) in [(4, 1), (2, 2), (1, 4)] {
        let l = Layout::blocked(&[64, 32], &[1, width], &[32, 1], &[1, 1], &[1, 0]).unwrap();
        let p = map.columns_from(&l).unwrap();
        let w = wavefronts(&p, 4, width, SharedOp::Load, &BankModel::nvidia(), 0);
        assert_eq!(w.per_phase, want);
    }
}

/// Whether registers can be grouped into vectors of `width` the same way in all lanes: the
/// definition, by enumeration.
fn brute_width(p: &AccessColumns, elem: u32, max_bytes: u32) -> u32 {
    let mut best = 1;
    let mut width = 2;
    while width * elem <= max_bytes {
        let regs = p.registers();
        let fits = (0..1 << p.lane.len()).all(|lane| {
            (0..1 << p.warp.len()).all(|warp| {
                let at = |r: u32| p.offset(&[(Axis::Reg, r), (Axis::Lane, lane), (Axis::Warp, warp)]);
                // The same register must stand at the same vector place as in lane 0.
                (0..regs).all(|r| {
                    let same_place = at(r) % width == p.offset(&[(Axis::Reg, r)]) % width;
                    let block = at(r) / width;
                    let places: BTreeSet<u32> = (0..regs).filter(|&s| at(s) / width == block).map(|s| at(s) % width).collect();
                    same_place && places.len() as u32 == width
                })
            })
        });
        if !fits {
            break;
        }
        best = width;
        width *= 2;
    }
    best
}

#[test]
fn vector_widths_agree_with_enumeration() {
    let mut rng = Rng::new(31);
    let mut wide = 0;
    for round in 0..1500 {
        let style = Style { lane_bits: 2, warp_bits: 1, xor: round % 2 == 0, copies: round % 3 == 0, odd_warp: false };
        let shape = rng.pick(&[&[8, 8][..], &[64], &[3, 16], &[12, 4], &[5]]);
        let l = random_layout(&mut rng, shape, style);
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        let map = SharedMap::row_major(shape, &order).unwrap();
        let p = map.columns_from(&l).unwrap();
        let elem = 1 << rng.below(3);
        let v = vector_width(&p, elem, 16);
        assert_eq!(v.width, brute_width(&p, elem, 16), "{l}");
        for skip in [0, l.free_mask(Axis::Reg)] {
            let v = vectors_without(&p, elem, 16, skip);
            assert_eq!(vector_count(&p, elem, 16, skip), [v.width, v.groups.len() as u32], "{l}");
        }
        wide += u32::from(v.width > 1);
        let mut all: Vec<u32> = v.groups.concat();
        all.sort_unstable();
        assert_eq!(all, (0..p.registers()).collect::<Vec<_>>());
        for group in &v.groups {
            assert_eq!(group.len() as u32, v.width);
            for lane in 0..4 {
                let at = |r: u32| p.offset(&[(Axis::Reg, r), (Axis::Lane, lane), (Axis::Warp, 1)]);
                let first = at(group[0]);
                assert_eq!(first % v.width, 0);
                assert!(group.iter().zip(first..).all(|(&r, o)| at(r) == o));
            }
        }
    }
    assert!(wide > 300);
}

#[test]
fn global_vectors_do_not_cross_rows() {
    let l = Layout::blocked(&[8, 4], &[8, 4], &[1, 1], &[1, 1], &[1, 0]).unwrap();
    let p = AccessColumns::global(&l, &[1, 0]).unwrap();
    assert_eq!(vector_width(&p, 1, 16).width, 4);
    let q = SharedMap::row_major(&[8, 4], &[1, 0]).unwrap().columns_from(&l).unwrap();
    assert_eq!(vector_width(&q, 1, 16).width, 16);
}

#[test]
fn sectors_agree_with_enumeration() {
    let mut rng = Rng::new(32);
    let style = Style { lane_bits: 5, warp_bits: 1, xor: true, copies: true, odd_warp: false };
    for _ in 0..400 {
        let shape = rng.pick(&[&[64, 64][..], &[48, 32], &[16, 256], &[2048]]);
        let l = random_layout(&mut rng, shape, style);
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        let p = AccessColumns::global(&l, &order).unwrap();
        let elem = 1 << rng.below(4);
        let v = vector_width(&p, elem, 16);
        // A pitch that is sector aligned and larger than the row.
        let fast = shape[shape.len() - 1];
        let pitch = (fast * elem).next_multiple_of(32) + 96;
        let address = |c: &Coord| c.split_last().map_or(0, |(x, rows)| x * elem + rows.first().map_or(0, |r| r * pitch));
        let mut touched = BTreeSet::new();
        for lane in 0..32 {
            let base = address(&l.apply(&[(Axis::Reg, v.groups[0][0]), (Axis::Lane, lane)]));
            touched.extend((0..v.width * elem).map(|b| (base + b) / 32));
        }
        assert_eq!(sectors(&p, elem, v.width, 32), touched.len() as u32, "{l}");
    }
    let l = coalesced(&[128, 64], 2, &[1, 0], 8, 32, 4).unwrap();
    let p = AccessColumns::global(&l, &[1, 0]).unwrap();
    let v = vector_width(&p, 2, 16);
    assert_eq!((v.width, v.groups.len()), (8, 8));
    assert_eq!(sectors(&p, 2, 8, 32), 16);
    assert_eq!(sector_efficiency(&p, 2, 8, 32), 100);
}

/// No assignment of lane bits touches fewer sectors than the default layout.
#[test]
fn coalesced_touches_fewest_sectors() {
    for (shape, elem) in [([16u32, 16], 4), ([64, 8], 2), ([8, 32], 1), ([32, 32], 4)] {
        let l = coalesced(&shape, elem, &[1, 0], 16, 32, 1).unwrap();
        let p = AccessColumns::global(&l, &[1, 0]).unwrap();
        let v = vector_width(&p, elem, 16);
        let mine = sectors(&p, elem, v.width, 32);
        let bits = l.space.nbits();
        let vec_bits = v.width.ilog2();
        let mut least = u32::MAX;
        for pick in 0u32..1 << bits {
            if pick.count_ones() == 5 && pick & (v.width - 1) == 0 {
                let lane: Vec<u32> = (0..bits).filter(|b| pick >> b & 1 == 1).map(|b| 1 << b).collect();
                let shift = (32 / elem).ilog2();
                let gap = shape[1].ilog2();
                let spread = lane.iter().map(|&c| if c >> gap == 0 { c >> shift } else { c << 8 });
                least = least.min(1 << linear::rank(&spread.collect::<Vec<_>>()));
            }
        }
        assert!(vec_bits > 0 && mine == least, "{shape:?}: {mine} versus {least}");
    }
}

#[test]
fn shared_maps_are_bijections_with_odd_digits_on_top() {
    for shape in SHAPES {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.reverse();
        let mut maps = vec![SharedMap::row_major(shape, &order).unwrap(), SharedMap::swizzled(shape, &order, 4, 2, 4).unwrap()];
        for dim in 0..shape.len() {
            maps.push(operand_swizzle(shape, 2, dim).unwrap());
            maps.extend((0..16).map(|n| folded_swizzle(shape, 2, dim, [8, n / 4, n % 4]).unwrap()));
        }
        for map in maps {
            let count: u32 = shape.iter().product();
            assert_eq!(map.elements(), count);
            let mut seen = BTreeSet::new();
            for off in 0..count {
                let coord = map.layout().apply(&[(Axis::Off, off)]);
                assert_eq!(map.offset(&coord), Some(off));
                seen.insert(coord);
            }
            assert_eq!(seen.len() as u32, count);
            let beyond: Coord = shape.into();
            assert!(shape.is_empty() || map.offset(&beyond).is_none());
            for dim in 0..shape.len() {
                let mut at = Coord::from_elem(0, shape.len());
                for (j, bit) in (0..shape[dim].trailing_zeros()).enumerate() {
                    at[dim] = 1 << bit;
                    assert_eq!(Some(map.column(dim, j as u32)), map.offset(&at));
                }
                for (radix, step) in map.odd_steps(dim) {
                    at[dim] = shape[dim] / radix;
                    assert_eq!(map.offset(&at), Some(step));
                }
            }
        }
    }
}

#[test]
fn accesses_are_the_offsets_of_the_elements() {
    let mut rng = Rng::new(33);
    let style = Style { lane_bits: 3, warp_bits: 1, xor: true, copies: true, odd_warp: true };
    for shape in SHAPES {
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        let map = SharedMap::swizzled(shape, &order, 2, 1, 4).unwrap();
        for _ in 0..5 {
            let l = random_layout(&mut rng, shape, style);
            let p = map.columns_from(&l).unwrap();
            assert_eq!(map.odd_from(&l).unwrap(), p.odd);
            for reg in 0..l.size(Axis::Reg) {
                for lane in [0, 3, 7] {
                    let at = [(Axis::Reg, reg), (Axis::Lane, lane), (Axis::Warp, 1)];
                    assert_eq!(Some(p.offset(&at)), map.offset(&l.apply(&at)), "{l}");
                }
            }
        }
    }
}

/// Rows of 128 bytes, read by 16 lanes side by side, and written by 8 lanes eight rows apart, at two places each: both without a conflict in one map.
#[test]
fn folded_swizzles_serve_neighbours_and_lanes_far_apart() {
    let map = folded_swizzle(&[128, 64], 2, 1, [8, 0, 1]).unwrap();
    let banks = |lanes: &dyn Fn(u32) -> [u32; 2]| {
        let places: BTreeSet<u32> = (0..16).map(|l| map.offset(&lanes(l)).unwrap() * 2 / 8 % 16).collect();
        places.len()
    };
    for at in 0..16 {
        assert_eq!(banks(&|l| [l, 4 * at]), 16);
    }
    for row in 0..8 {
        assert_eq!(banks(&|l| [8 * (l % 8) + row, 4 * (l / 8)]), 16);
    }
}

#[test]
fn swizzles_follow_their_formulas() {
    // Bulk-copy swizzles: o ^ ((o >> 7) mod 2^B) << 4 on byte offsets.
    for (span, bits) in [(128u32, 3u32), (64, 2), (32, 1), (16, 0)] {
        for elem in [1u32, 2, 4] {
            let columns = span / elem;
            let map = swizzle_of_width(&[64, columns], elem, 1, span).unwrap();
            for row in 0..64 {
                for col in 0..columns {
                    let o = row * span + col * elem;
                    let want = o ^ ((o >> 7 & ((1 << bits) - 1)) << 4);
                    assert_eq!(map.offset(&[row, col]).map(|x| x * elem), Some(want));
                }
            }
            // The same map in the (vec, per_phase, max_phase) family.
            let (per, max) = (128 / span, 1 << bits);
            let family = SharedMap::swizzled(&[64, columns], &[1, 0], 16 / elem, per, max).unwrap();
            assert_eq!(family, map);
        }
    }
    let t = swizzle_of_width(&[32, 64], 2, 0, 64).unwrap();
    let n = swizzle_of_width(&[64, 32], 2, 1, 64).unwrap();
    assert_eq!(t, n.transpose(&[1, 0]).unwrap());
}

/// A staged operand tile: 16-byte row-wise stores and 8x8 matrix row reads are conflict-free.
#[test]
fn operand_swizzles_are_conflict_free() {
    let model = BankModel::nvidia();
    for (shape, elem) in [
        ([64u32, 64], 2u32),
        ([32, 128], 2),
        ([128, 32], 2),
        ([64, 16], 2),
        ([176, 128], 2),
        ([128, 176], 2),
        ([192, 80], 2),
        ([64, 128], 1),
        ([16, 64], 4),
        ([8, 8], 2),
    ] {
        for dim in 0..2 {
            let map = operand_swizzle(&shape, elem, dim).unwrap();
            let chunk = operand_chunk_bytes(&shape, elem, dim).unwrap();
            assert_eq!(chunk, 16);
            let (fast, slow) = (dim, 1 - dim);
            let order = [fast, slow];
            let vec = 16 / elem;
            let l = coalesced(&shape, elem, &order, vec, 32, 1).unwrap();
            let p = map.columns_from(&l).unwrap();
            let v = vector_width(&p, elem, 16);
            let w = wavefronts(&p, elem, v.width, SharedOp::Store, &model, 0);
            assert_eq!(w.per_phase, 1, "{shape:?} {dim} stores");
            // Eight rows at the same chunk, for every chunk and row group.
            for chunk in 0..shape[fast] / vec {
                for group in 0..shape[slow] / 8 {
                    let banks: BTreeSet<u32> = (0..8)
                        .filter_map(|r| {
                            let mut at = [0; 2];
                            at[fast] = chunk * vec;
                            at[slow] = group * 8 + r;
                            map.offset(&at).map(|o| o * elem / 16 % 8)
                        })
                        .collect();
                    assert_eq!(banks.len(), 8, "{shape:?} {dim} chunk {chunk} group {group}");
                }
            }
        }
    }
    assert_eq!(operand_chunk_bytes(&[64, 33], 2, 1), Ok(2));
    assert_eq!(operand_chunk_bytes(&[64, 12], 2, 1), Ok(8));
    assert!(operand_swizzle(&[64, 33], 2, 2).is_err());
}
