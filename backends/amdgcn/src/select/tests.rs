//! What small programs become, instruction by instruction, and what is refused.

use super::{SelectError, select};
use crate::chip::Chip;
use crate::mir::Program;
use tilelift_ir::{CacheHint, CmpOp, Scalar};
use tilelift_lane::testing::{Asm, everything};
use tilelift_lane::{BinOp, Carried, For, If, Inst, LTy, LVal, MatrixId, MatrixProduct, ShuffleFrom, Special, Vals};

fn asm() -> Asm {
    let mut a = Asm::new(1);
    a.p.lanes = 64;
    a
}

/// The instructions as text, without what stands in front of the first one of a name.
fn text(program: &Program, from: &str) -> String {
    let mut lines = Vec::new();
    for (block, data) in program.blocks.iter() {
        if block.as_u32() > 0 {
            lines.push(format!("{block}:"));
        }
        lines.extend(data.insts.iter().map(|i| format!("  {}", crate::text::inst(i, program.chip))));
    }
    let first = lines.iter().position(|l| l.trim_start().starts_with(from)).unwrap_or(0);
    lines[first..].join("\n")
}

fn selected(a: &Asm) -> Program {
    select(&a.p, Chip::Gfx942).unwrap_or_else(|e| panic!("{e}\n{}", a.p))
}

#[test]
fn a_guarded_load_and_store() {
    let mut a = asm();
    let lane = a.special(Special::Lane);
    let bound = a.i32(50);
    let guard = Some(a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: lane, b: bound }));
    let addr = a.element(0, lane, 4);
    let dsts = a.vals(LTy::F32, 1);
    a.push(Inst::LoadGlobal { dsts: dsts.clone(), addr, offset: 0, guard, other: Vals::new(), cache: CacheHint::Normal });
    let twice = a.bin(BinOp::Add, dsts[0], dsts[0]);
    a.push(Inst::StoreGlobal { srcs: Vals::from_slice(&[twice]), addr, offset: 16, guard, cache: CacheHint::Streaming });
    assert_eq!(
        text(&selected(&a), "v_cmp"),
        "  v_cmp_lt_i32 r4.0:1, r2.0, 50\n  \
           v_mad_i64_i32 r5.0:1, r6.0:1, r2.0, 4, r3.0:1\n  \
           v_mov_b32 r7.0, 0\n  \
           s_and_saveexec_b64 r8.0:1, r4.0:1\n  \
           global_load_dword r7.0, r5.0:1, off\n  \
           s_mov_b64 exec, r8.0:1\n  \
           v_add_f32 r9.0, r7.0, r7.0\n  \
           s_and_saveexec_b64 r10.0:1, r4.0:1\n  \
           global_store_dword r5.0:1, r9.0, off offset:16 nt\n  \
           s_mov_b64 exec, r10.0:1\n  \
           s_endpgm"
    );
}

/// Fragments are loaded where they are multiplied, and sums stay in their registers around the loop.
#[test]
fn a_loop_of_products_copies_nothing() {
    let mut a = asm();
    let shared = a.alloc(4096);
    let lane = a.special(Special::Lane);
    let sixteen = a.i32(16);
    let at = a.def(LTy::I32, |dst| Inst::Fma { dst, a: lane, b: sixteen, c: shared });
    let [zero, four, one] = [0, 4, 1].map(|k| a.i32(k));
    let nothing = a.constant(LTy::F32, 0);
    let [params, nexts, results] = [0; 3].map(|_| a.vals(LTy::F32, 4));
    let fragments = a.vals(LTy::B32, 4);
    let iv = a.val(LTy::I32);
    let (ab, half) = (fragments.clone(), 2);
    let body = vec![
        Inst::LoadShared { dsts: fragments, addr: at, offset: 0 },
        Inst::Matrix(Box::new(MatrixProduct {
            dsts: nexts.clone(),
            // `v_mfma_f32_16x16x16_f16`
            instr: MatrixId::from_u32(1),
            a: Vals::from_slice(&ab[..half]),
            b: Vals::from_slice(&ab[half..]),
            c: params.clone(),
            scales: Vals::new(),
        })),
    ];
    let carried = (0..4).map(|i| Carried { param: params[i], init: nothing, next: nexts[i], result: results[i] }).collect();
    a.push(Inst::For(Box::new(For { iv, lo: zero, hi: four, step: one, runs: false, carried, body })));
    let addr = a.element(0, lane, 16);
    a.push(Inst::StoreGlobal { srcs: results, addr, offset: 0, guard: None, cache: CacheHint::Normal });
    let text = text(&selected(&a), "bb1");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines[1].starts_with("ds_read_b128 r"), "{text}");
    assert!(lines[2].starts_with("v_mfma_f32_16x16x16_f16 r"), "{text}");
    // The index is not negative: its next value is compared.
    assert!(lines[3].starts_with("s_add_u32") && lines[4].starts_with("s_cmp_lt_u32"), "{text}");
    let operands: Vec<&str> = lines[2].split([' ', ',']).filter(|s| s.starts_with('r')).collect();
    assert_eq!(operands[0], operands[3], "{text}");
    assert!(operands[1].ends_with(".0:1") && operands[2].ends_with(".2:3"), "{text}");
    assert!(!text.contains("v_mov_b32"), "{text}");
}

/// Arithmetic of what is alike in all lanes takes scalar instructions.
#[test]
fn what_is_alike_is_scalar() {
    let mut a = asm();
    let program = a.special(Special::ProgramId(tilelift_ir::GridAxis::X));
    let k = a.i32(1000);
    let t = a.bin(BinOp::Mul, program, k);
    let t = a.bin(BinOp::Maximum, t, program);
    let wide = a.def(LTy::I64, |dst| Inst::Cvt { dst, a: t });
    let addr = a.pointer(0);
    let addr = a.bin(BinOp::Add, addr, wide);
    let value = a.def(LTy::I32, |dst| Inst::Cvt { dst, a: wide });
    a.push(Inst::StoreGlobal { srcs: Vals::from_slice(&[value]), addr, offset: 0, guard: None, cache: CacheHint::Normal });
    let text = text(&selected(&a), "s_mul");
    let vector: Vec<&str> = text.lines().map(str::trim).filter(|l| l.starts_with("v_")).collect();
    // The address's lower part and the value, for the store.
    assert_eq!(vector.len(), 2, "{text}");
    assert!(vector.iter().all(|l| l.starts_with("v_mov_b32")), "{text}");
}

#[test]
fn computations_are_there_on_all_chips() {
    for chip in Chip::ALL {
        for s in [Scalar::I8, Scalar::I32, Scalar::I64, Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
            let ty = LTy::Num(s);
            let mut a = asm();
            let [x, y] = [0, 1].map(|i| a.load(i, ty));
            let mut made = vec![x];
            for &op in BinOp::ALL.iter().filter(|o| o.takes().allows(ty)) {
                if op != BinOp::Div || s != Scalar::BF16 {
                    made.push(a.bin(op, x, y));
                }
            }
            let wide =
                a.def(LTy::Num(Scalar::F64), |dst| if s == Scalar::F64 { Inst::Bitcast { dst, a: x } } else { Inst::Cvt { dst, a: x } });
            let k = a.def(LTy::I64, |dst| Inst::Cvt { dst, a: wide });
            made.iter().for_each(|&v| a.store(2, &[v]));
            a.store(3, &[k]);
            let program = select(&a.p, chip).unwrap_or_else(|e| panic!("{chip}: {e}"));
            assert_eq!(crate::mir::verify(&program), Ok(()), "{chip} {s}");
        }
    }
}

/// Of one of every instruction, those for other machines are refused with their reasons.
#[test]
fn what_has_no_instructions_is_refused() {
    let refused = |make: &dyn Fn(&mut Asm)| {
        let mut a = asm();
        make(&mut a);
        select(&a.p, Chip::Gfx942)
    };
    // The verifier refuses these for the target before selection does.
    let copies = refused(&|a| {
        let [shared, global] = [LTy::Num(Scalar::I32), LTy::Num(Scalar::I64)].map(|ty| a.load(0, ty));
        a.push(Inst::CopyAsync { shared, offset: 0, global, global_offset: 0, bytes: 16, valid: None });
    });
    assert!(matches!(&copies, Err(SelectError::Invalid(_))), "{copies:?}");
    assert!(matches!(select(&everything().p, Chip::Gfx942), Err(SelectError::Invalid(_))));
    let root = refused(&|a| {
        let x = a.load(0, LTy::Num(Scalar::F64));
        let y: LVal = a.def(LTy::Num(Scalar::F64), |dst| Inst::Un { dst, op: tilelift_lane::UnOp::Sqrt, a: x });
        a.store(0, &[y]);
    });
    assert!(matches!(root, Err(SelectError::Invalid(_))), "{root:?}");
}

/// Loads of two words at one address, at these offsets, with a barrier behind the first of them if asked; what is read is written elsewhere.
fn reads(offsets: [i32; 2], apart: bool) -> String {
    let mut a = asm();
    let lane = a.special(Special::Lane);
    let eight = a.i32(8);
    let addr = a.bin(BinOp::Mul, lane, eight);
    let load = |a: &mut Asm, offset| {
        let dsts = a.vals(LTy::B32, 2);
        a.push(Inst::LoadShared { dsts: dsts.clone(), addr, offset });
        dsts
    };
    let x = load(&mut a, offsets[0]);
    if apart {
        a.push(Inst::Barrier);
    }
    let y = load(&mut a, offsets[1]);
    let to = a.element(0, lane, 16);
    for (dsts, offset) in [(x, 0), (y, 8)] {
        a.push(Inst::StoreGlobal { srcs: dsts, addr: to, offset, guard: None, cache: CacheHint::Normal });
    }
    text(&selected(&a), "ds_read")
}

#[test]
fn loads_from_one_register_go_in_pairs() {
    assert!(
        reads([0, 8192], false).contains("ds_read2st64_b64") && reads([0, 8192], false).contains("offset1:16"),
        "{}",
        reads([0, 8192], false)
    );
    assert!(reads([16, 8], false).contains("ds_read2_b64"), "{}", reads([16, 8], false));
    // A barrier between them, an offset between two elements, one too far.
    for (offsets, apart) in [([0, 8192], true), ([0, 4], false), ([0, 1 << 17], false)] {
        let text = reads(offsets, apart);
        assert!(!text.contains("ds_read2"), "{text}");
    }
}

/// A word of the upper halves of two words: one instruction, and none brings a half to a register of its own.
#[test]
fn halves_are_picked_where_they_are() {
    let mut a = asm();
    let lane = a.special(Special::Lane);
    let from = a.element(0, lane, 8);
    let words = a.vals(LTy::B32, 2);
    a.push(Inst::LoadGlobal { dsts: words.clone(), addr: from, offset: 0, guard: None, other: Vals::new(), cache: CacheHint::Normal });
    let half = LTy::Num(Scalar::F16);
    let [x, y] = [words[0], words[1]].map(|w| {
        let dsts = a.vals(half, 2);
        a.push(Inst::Unpack { dsts: dsts.clone(), a: w });
        dsts
    });
    let packed: Vals = [[x[1], y[1]], [x[0], y[1]], [x[1], y[0]], [x[0], y[0]]]
        .into_iter()
        .map(|parts| a.def(LTy::B32, |dst| Inst::Pack { dst, parts: Vals::from_slice(&parts) }))
        .collect();
    a.push(Inst::StoreGlobal { srcs: packed, addr: from, offset: 0, guard: None, cache: CacheHint::Normal });
    let text = text(&selected(&a), "global_load");
    let picks: Vec<&str> = text.lines().filter(|l| l.contains("s_mov_b32")).filter_map(|l| l.rsplit(", ").next()).collect();
    assert_eq!(picks, ["0x7060302", "0x7060100", "0x5040302", "0x5040100"], "{text}");
    assert!(text.matches("v_perm_b32").count() == 4 && !text.contains("v_ashrrev"), "{text}");
}

/// 64 bits of another lane, put together of two words: two moves, and nothing shifts, masks or extends.
#[test]
fn words_are_put_together_where_they_are() {
    let mut a = asm();
    let lane = a.special(Special::Lane);
    let from = a.element(0, lane, 8);
    let wide = LTy::Num(Scalar::I64);
    let x = a.vals(wide, 1);
    a.push(Inst::LoadGlobal { dsts: x.clone(), addr: from, offset: 0, guard: None, other: Vals::new(), cache: CacheHint::Normal });
    let by = a.def(wide, |dst| Inst::Const { dst, bits: 32 });
    let mask = a.def(wide, |dst| Inst::Const { dst, bits: 0xffff_ffff });
    let high = a.bin(BinOp::ShrU, x[0], by);
    let [low, high] = [x[0], high].map(|half| {
        let half = a.def(LTy::I32, |dst| Inst::Cvt { dst, a: half });
        let half = a.def(LTy::I32, |dst| Inst::Shuffle { dst, a: half, from: ShuffleFrom::Xor(1) });
        a.def(wide, |dst| Inst::Cvt { dst, a: half })
    });
    let (low, high) = (a.bin(BinOp::And, low, mask), a.bin(BinOp::Shl, high, by));
    let other = a.bin(BinOp::Or, low, high);
    a.push(Inst::StoreGlobal { srcs: Vals::from_slice(&[other]), addr: from, offset: 0, guard: None, cache: CacheHint::Normal });
    let program = crate::alloc::allocate(selected(&a)).unwrap_or_else(|e| panic!("{e}")).program;
    let text = text(&program, "global_load");
    let behind: Vec<&str> = text.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(behind, ["global_load_dwordx2", "v_mov_b32_dpp", "v_mov_b32_dpp", "global_store_dwordx2", "s_endpgm"], "{text}");
}

/// A guard that is the bound of an offset, which is a multiple of `size` bytes: two words are loaded there.
fn bounded(size: u64) -> String {
    let mut a = asm();
    let lane = a.special(Special::Lane);
    let from = a.element(0, lane, 8);
    let base = a.special(Special::ProgramId(tilelift_ir::GridAxis::X));
    let base = a.def(LTy::I64, |dst| Inst::Cvt { dst, a: base });
    let (size, one, bytes) = (a.i32(size as i64), a.i32(1), a.i32(1000));
    let at = a.bin(BinOp::Mul, lane, size);
    let addr = a.def(LTy::I64, |dst| Inst::MadWideU { dst, a: at, b: one, c: base });
    let guard = Some(a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ult, a: at, b: bytes }));
    let dsts = a.vals(LTy::F32, 2);
    a.push(Inst::LoadGlobal { dsts: dsts.clone(), addr, offset: 0, guard, other: Vals::new(), cache: CacheHint::Normal });
    a.push(Inst::StoreGlobal { srcs: dsts, addr: from, offset: 0, guard: None, cache: CacheHint::Normal });
    text(&selected(&a), "s_")
}

/// A buffer asks its bound word by word: it is the guard where no access is partly inside.
#[test]
fn guards_that_are_bounds_are_those_of_buffers() {
    for size in [8, 16, 24] {
        let text = bounded(size);
        assert!(text.contains("buffer_load_dwordx2") && !text.contains("saveexec"), "{size}: {text}");
    }
    let text = bounded(4);
    assert!(text.contains("global_load_dwordx2") && text.contains("saveexec"), "{text}");
}

/// Comparisons of scalars stand beside the only one who asks, and no mask is made of them.
#[test]
fn who_asks_alone_compares() {
    let asked = |twice: bool| {
        let mut a = asm();
        let [x, y] = [tilelift_ir::GridAxis::X, tilelift_ir::GridAxis::Y].map(|axis| a.special(Special::ProgramId(axis)));
        let c = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ult, a: x, b: y });
        let sum = a.bin(BinOp::Add, x, y);
        let least = a.def(LTy::I32, |dst| Inst::Select { dst, c, a: sum, b: y });
        a.store(0, &[least]);
        if twice {
            let other = a.def(LTy::I32, |dst| Inst::Select { dst, c, a: y, b: sum });
            a.store(1, &[other]);
        }
        text(&selected(&a), "s_add_u32")
    };
    let once = asked(false);
    assert!(once.contains("s_cmp_lt_u32") && once.contains("s_cselect_b32"), "{once}");
    assert!(!once.contains("s_cselect_b64") && !once.contains("s_cmp_lg_u64"), "{once}");
    let twice = asked(true);
    assert!(!twice.contains("s_cmp_lt_u32") && twice.matches("s_cmp_lg_u64").count() == 2, "{twice}");
}

/// A choice where two comparisons have to hold has a branch for each.
#[test]
fn a_choice_asks_one_after_the_other() {
    let mut a = asm();
    let [x, y] = [tilelift_ir::GridAxis::X, tilelift_ir::GridAxis::Y].map(|axis| a.special(Special::ProgramId(axis)));
    let four = a.i32(4);
    let [first, second] = [[x, y], [y, four]].map(|[u, v]| a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: u, b: v }));
    let condition = a.bin(BinOp::And, first, second);
    let result = a.val(LTy::I32);
    a.push(Inst::If(Box::new(If { condition, then: Vec::new(), otherwise: Vec::new(), results: vec![(result, x, y)] })));
    a.store(0, &[result]);
    let text = text(&selected(&a), "s_cmp_lt_i32");
    assert_eq!(text.matches("s_cmp_lt_i32").count(), 2, "{text}");
    assert_eq!(text.matches("s_cbranch_scc0").count(), 2, "{text}");
    assert!(!text.contains("s_and_b64") && !text.contains("s_cselect_b64"), "{text}");
}

/// Stores at two distances from one register are one; of others each is its own.
#[test]
fn stores_to_one_register_go_in_pairs() {
    let stored = |offsets: [i32; 2], words: usize, alike: bool| {
        let mut a = asm();
        let shared = a.alloc(65536);
        let lane = a.special(Special::Lane);
        let eight = a.i32(8);
        let at = a.def(LTy::I32, |dst| Inst::Fma { dst, a: lane, b: eight, c: shared });
        let other = if alike { at } else { a.bin(BinOp::Xor, at, eight) };
        for (addr, offset) in [at, other].into_iter().zip(offsets) {
            let srcs = Vals::from_slice(&vec![lane; words]);
            a.push(Inst::StoreShared { addr, offset, guard: None, srcs });
        }
        text(&selected(&a), "ds_write")
    };
    let one = |text: &str, op: &str| text.matches("ds_write").count() == 1 && text.contains(op);
    let pair = stored([512, 4096], 2, true);
    assert!(one(&pair, "ds_write2st64_b64") && pair.contains("offset0:1 offset1:8"), "{pair}");
    assert!(one(&stored([4, 12], 1, true), "ds_write2_b32"));
    for apart in [stored([0, 8200], 2, true), stored([0, 0], 2, true), stored([0, 512], 2, false), stored([0, 4096], 4, true)] {
        assert_eq!(apart.matches("ds_write").count(), 2, "{apart}");
        assert!(!apart.contains("ds_write2"), "{apart}");
    }
}

/// What a loop puts into scalar registers and does not change is put there in front of it.
#[test]
fn loops_find_their_constants() {
    let mut a = asm();
    let [zero, four, one] = [0, 4, 1].map(|k| a.i32(k));
    let [param, next, result, iv] = [0; 4].map(|_| a.val(LTy::I32));
    let loaded = a.load(1, LTy::I32);
    let picks = a.constant(LTy::I32, 0x5410);
    let body = vec![Inst::Permute { dst: next, low: param, high: loaded, picks }];
    let carried = vec![Carried { param, init: loaded, next, result }];
    a.push(Inst::For(Box::new(For { iv, lo: zero, hi: four, step: one, runs: true, carried, body })));
    a.store(0, &[result]);
    let text = text(&selected(&a), "global_load");
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(at("0x5040100") < at("bb1:") && at("bb1:") < at("v_perm_b32"), "{text}");
}
