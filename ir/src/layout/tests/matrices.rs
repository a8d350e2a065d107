//! Matrix loads: the plans against the documented instruction semantics.

use super::super::*;
use super::*;

/// Executes the plan's instructions on a memory of element labels and checks every register.
fn execute(l: &Layout, map: &SharedMap, elem: u32, plan: &LdMatrixPlan) {
    let label = |byte: u32| map.layout().apply(&[(Axis::Off, byte / elem)]);
    let warps = l.size(Axis::Warp);
    let mut filled = vec![0u32; l.size(Axis::Reg) as usize];
    for warp in 0..warps {
        let warp_part = linear::mul(&plan.warp_address, u64::from(warp));
        for group in &plan.groups {
            let row = |matrix: u32, row: u32| {
                let at = plan.row_address(group, matrix * 8 + row) ^ warp_part;
                assert_eq!(at % 16, 0);
                at
            };
            for lane in 0..32 {
                let mut regs = group.regs.iter();
                for q in 0..plan.count {
                    for k in 0..4 / elem {
                        let byte = if plan.trans {
                            row(q, 2 * (lane % 4) + k) + lane / 4 * elem
                        } else {
                            row(q, lane / 4) + lane % 4 * 4 + k * elem
                        };
                        let &reg = regs.next().expect("one register per element");
                        let at = [(Axis::Reg, reg), (Axis::Lane, lane), (Axis::Warp, warp)];
                        assert_eq!(label(byte), l.apply(&at), "{l}");
                        filled[reg as usize] += 1;
                    }
                }
                assert!(regs.next().is_none());
            }
        }
    }
    assert!(filled.iter().all(|&n| n == 32 * warps));
}

fn b16x8() -> FragmentMap {
    FragmentMap::new(&[16, 8], &[&[1, 0], &[8, 0]], &[&[2, 0], &[4, 0], &[0, 1], &[0, 2], &[0, 4]], &[]).unwrap()
}

#[test]
fn operand_fragments_load_from_swizzled_tiles() {
    let a16 = maps::a16x16();
    let b16 = b16x8();
    let a8 =
        FragmentMap::new(&[16, 32], &[&[0, 1], &[0, 2], &[8, 0], &[0, 16]], &[&[0, 4], &[0, 8], &[1, 0], &[2, 0], &[4, 0]], &[]).unwrap();
    let tf32 = FragmentMap::new(&[16, 8], &[&[8, 0], &[0, 4]], &[&[0, 1], &[0, 2], &[1, 0], &[2, 0], &[4, 0]], &[]).unwrap();
    // (fragment, element bytes, tile, contiguous dimension, transposed form; None: refused)
    type Case<'a> = (&'a FragmentMap, u32, [u32; 2], usize, Option<bool>);
    let cases: [Case; 10] = [
        (&a16, 2, [64, 64], 1, Some(false)),
        (&a16, 2, [64, 64], 0, Some(true)),
        (&a16, 2, [176, 32], 1, Some(false)),
        (&a16, 2, [176, 32], 0, Some(true)),
        (&a16, 2, [64, 16], 1, Some(false)),
        (&b16, 2, [64, 176], 0, Some(false)),
        (&b16, 2, [64, 176], 1, Some(true)),
        (&a8, 1, [64, 64], 1, Some(false)),
        (&a8, 1, [64, 64], 0, None),
        (&tf32, 4, [64, 32], 1, Some(false)),
    ];
    for (frag, elem, shape, dim, form) in cases {
        let l = Layout::fragment(&shape, frag, &[2, 1], &[0, 1]).unwrap();
        let map = operand_swizzle(&shape, elem, dim).unwrap();
        let plan = ldmatrix_applies(&map.columns_from(&l).unwrap(), elem);
        assert_eq!(plan.as_ref().map(|p| p.trans), form, "{shape:?} along {dim}");
        let Some(plan) = plan else { continue };
        assert_eq!(plan.count, 4);
        assert_eq!(plan.wavefronts(), 1);
        execute(&l, &map, elem, &plan);
    }
}

#[test]
fn single_fragments_use_fewer_matrices() {
    let map = SharedMap::row_major(&[16, 8], &[0, 1]).unwrap();
    let l = Layout::fragment(&[16, 8], &b16x8(), &[1, 1], &[0, 1]).unwrap();
    let plan = ldmatrix_applies(&map.columns_from(&l).unwrap(), 2).unwrap();
    assert_eq!((plan.count, plan.groups.len()), (2, 1));
    execute(&l, &map, 2, &plan);
    let l = Layout::fragment(&[8, 8], &b16x8(), &[1, 1], &[0, 1]).unwrap();
    let map = SharedMap::row_major(&[8, 8], &[1, 0]).unwrap();
    let plan = ldmatrix_applies(&map.columns_from(&l).unwrap(), 2).unwrap();
    assert_eq!((plan.count, plan.trans), (1, true));
    execute(&l, &map, 2, &plan);
}

#[test]
fn unpadded_rows_conflict_and_short_rows_are_refused() {
    let l = Layout::fragment(&[64, 64], &maps::a16x16(), &[1, 1], &[0, 1]).unwrap();
    let plain = SharedMap::row_major(&[64, 64], &[1, 0]).unwrap();
    let plan = ldmatrix_applies(&plain.columns_from(&l).unwrap(), 2).unwrap();
    assert_eq!(plan.wavefronts(), 8);
    execute(&l, &plain, 2, &plan);
    // Swizzling groups of 8 bytes breaks 16-byte rows.
    let fine = SharedMap::swizzled(&[64, 64], &[1, 0], 4, 1, 8).unwrap();
    assert_eq!(ldmatrix_applies(&fine.columns_from(&l).unwrap(), 2), None);
}

#[test]
fn every_accepted_layout_is_loaded_exactly() {
    let mut rng = Rng::new(50);
    let mut accepted = 0;
    for _ in 0..3000 {
        let shape = rng.pick(&[[32u32, 32], [16, 48], [64, 16]]);
        let frag = if rng.coin() { maps::a16x16() } else { b16x8() };
        let base = Layout::fragment(&shape, &frag, &[1, 2], &[0, 1]).unwrap();
        let l = mutate(&mut rng, &base);
        if !l.is_surjective() {
            continue;
        }
        let map = operand_swizzle(&shape, 2, rng.below(2) as usize).unwrap();
        if let Some(plan) = ldmatrix_applies(&map.columns_from(&l).unwrap(), 2) {
            execute(&l, &map, 2, &plan);
            accepted += 1;
        }
    }
    assert!(accepted > 300, "{accepted}");
}
