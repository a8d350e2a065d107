//! Memory, cross-lane and matrix instructions: text and lane interpreter agree.

use crate::common::*;
use smallvec::smallvec;
use tilelift_ir::{CmpOp, Precision, Scalar, num};
use tilelift_isel::lane::{BinOp, Inst, LTy, LVal, MatrixProduct, ParamSource, Program, ShuffleFrom, Special, Vals};
use tilelift_isel::{MatrixId, MatrixInstr};
use tilelift_nvptx::sm_80;

/// `i < limit` as a guard.
fn below(a: &mut Asm, i: LVal, limit: i32) -> LVal {
    let limit = a.i32(limit);
    a.def(I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: i, b: limit })
}

#[test]
fn vectors_of_every_type_and_width() {
    let asm = &mut Assembly::default();
    for &elem in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
        for n in [1usize, 2, 4] {
            if n as u32 * elem.bytes() > 16 {
                continue;
            }
            let ty = LTy::Num(elem);
            let mut a = Asm::new(&format!("copy_{elem}_{n}"), 2);
            let t = a.thread();
            let (src, dst) = (a.pointer(0), a.pointer(1));
            let bytes = n as u32 * elem.bytes();
            let from = a.address(src, t, bytes);
            let to = a.address(dst, t, bytes);
            let v = a.load(ty, n, from, 0);
            let back: Vals = v.iter().rev().copied().collect();
            a.store(&back, to, 0);
            let count = 128 * n;
            let data = [Data::bits(elem, &sample(elem, count, 1)), Data::zeros(elem, count)];
            agree(asm, &a.finish(), 2, &data, Tolerance::Exact);
        }
    }
    asm.check("sm_80");
}

#[test]
fn guards_and_other_values() {
    let asm = &mut Assembly::default();
    for &elem in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
        for with_other in [false, true] {
            let ty = LTy::Num(elem);
            let mut a = Asm::new(&format!("guard_{elem}_{with_other}"), 1);
            let t = a.thread();
            let (src, dst) = (a.pointer(0), a.pointer(1));
            let from = a.address(src, t, 2 * elem.bytes());
            let to = a.address(dst, t, 2 * elem.bytes());
            let (few, many) = (below(&mut a, t, 21), below(&mut a, t, 29));
            let dsts = a.vals(ty, 2);
            let one = a.constant(ty, num::wrap(1, elem) as u64);
            let other = if with_other { smallvec![one, one] } else { Vals::new() };
            a.push(Inst::LoadGlobal {
                dsts: dsts.clone(),
                addr: from,
                offset: 0,
                guard: Some(few),
                other,
                cache: tilelift_ir::CacheHint::Normal,
            });
            a.push(Inst::StoreGlobal { srcs: dsts, addr: to, offset: 0, guard: Some(many), cache: tilelift_ir::CacheHint::Normal });
            // Only 42 elements may be read and 58 written: the simulator would refuse more.
            let data = [Data::bits(elem, &sample(elem, 42, 2)), Data::zeros(elem, 58)];
            agree(asm, &a.finish(), 1, &data, Tolerance::Exact);
        }
    }
    asm.check("sm_80");
}

#[test]
fn constant_guards_print_no_predicate() {
    for c in [0u64, 1] {
        let mut a = Asm::new("constant_guard", 1);
        let t = a.thread();
        let (src, dst) = (a.pointer(0), a.pointer(1));
        let (from, to) = (a.address(src, t, 4), a.address(dst, t, 4));
        let g = a.constant(I1, c);
        let seven = a.i32(7);
        let dsts = a.vals(I32, 1);
        a.push(Inst::LoadGlobal {
            dsts: dsts.clone(),
            addr: from,
            offset: 0,
            guard: Some(g),
            other: smallvec![seven],
            cache: tilelift_ir::CacheHint::Normal,
        });
        a.store(&dsts, to, 0);
        a.push(Inst::StoreGlobal { srcs: smallvec![seven], addr: from, offset: 0, guard: Some(g), cache: tilelift_ir::CacheHint::Normal });
        let p = a.finish();
        let k = text(&p, &sm_80());
        assert!(!k.text.contains('@'), "{}", k.text);
        let data = [Data::bits(Scalar::I32, &(0..32).collect::<Vec<_>>()), Data::zeros(Scalar::I32, 32)];
        assert_eq!(defined(&p, 1, &data), simulated(&k, 1, &data));
    }
}

#[test]
fn additions_of_constants_become_offsets() {
    let mut a = Asm::new("offsets", 1);
    let t = a.thread();
    let (src, dst) = (a.pointer(0), a.pointer(1));
    let (from, to) = (a.address(src, t, 4), a.address(dst, t, 4));
    let c = a.constant(I64, 128);
    let near = a.bin(BinOp::Add, from, c);
    let far = a.bin(BinOp::Add, c, near);
    let v = a.load(I32, 1, far, 4)[0];
    let w = a.load(I32, 1, near, -128)[0];
    let sum = a.bin(BinOp::Add, v, w);
    a.store(&[sum], to, 0);
    let p = a.finish();
    let k = text(&p, &sm_80());
    assert!(k.text.contains("+260]") && !k.text.contains("add.s64"), "{}", k.text);
    let data = [Data::bits(Scalar::I32, &(0..97).collect::<Vec<_>>()), Data::zeros(Scalar::I32, 32)];
    assert_eq!(defined(&p, 1, &data), simulated(&k, 1, &data));
}

#[test]
fn shared_memory_and_barriers() {
    let asm = &mut Assembly::default();
    for elem in [Scalar::I1, Scalar::I8, Scalar::F16, Scalar::F32, Scalar::F64] {
        let ty = LTy::Num(elem);
        let mut a = Asm::new(&format!("shared_{elem}"), 4);
        let pad = a.alloc(64);
        let alloc = a.alloc(128 * elem.bytes());
        let t = a.thread();
        let (src, dst) = (a.pointer(0), a.pointer(1));
        let (from, to) = (a.address(src, t, elem.bytes()), a.address(dst, t, elem.bytes()));
        let base = a.shared(alloc);
        let bytes = a.i32(elem.bytes() as i32);
        let at = a.def(I32, |dst| Inst::Fma { dst, a: t, b: bytes, c: base });
        let v = a.load(ty, 1, from, 0);
        a.push(Inst::StoreShared { srcs: v, addr: at, offset: 0, guard: None });
        a.push(Inst::Barrier);
        let last = a.i32(127);
        let mirror = a.bin(BinOp::Sub, last, t);
        let at = a.def(I32, |dst| Inst::Fma { dst, a: mirror, b: bytes, c: base });
        let w = a.vals(ty, 1);
        a.push(Inst::LoadShared { dsts: w.clone(), addr: at, offset: 0 });
        a.store(&w, to, 0);
        let _ = pad;
        let data = [Data::bits(elem, &sample(elem, 128, 3)), Data::zeros(elem, 128)];
        agree(asm, &a.finish(), 1, &data, Tolerance::Exact);
    }
    asm.check("sm_80");
}

#[test]
fn packing() {
    let asm = &mut Assembly::default();
    for elem in [Scalar::I8, Scalar::I16, Scalar::F16, Scalar::BF16] {
        let ty = LTy::Num(elem);
        let n = 4 / elem.bytes() as usize;
        let mut a = Asm::new(&format!("pack_{elem}"), 1);
        let t = a.thread();
        let (src, dst) = (a.pointer(0), a.pointer(1));
        let (from, to) = (a.address(src, t, 4), a.address(dst, t, 4));
        let parts = a.load(ty, n, from, 0);
        let word = a.def(B32, |dst| Inst::Pack { dst, parts: parts.iter().rev().copied().collect() });
        let back = a.vals(ty, n);
        a.push(Inst::Unpack { dsts: back.clone(), a: word });
        let turned: Vals = back[1..].iter().chain(&back[..1]).copied().collect();
        a.store(&turned, to, 0);
        let data = [Data::bits(elem, &sample(elem, 32 * n, 4)), Data::zeros(elem, 32 * n)];
        agree(asm, &a.finish(), 1, &data, Tolerance::Exact);
    }
    asm.check("sm_80");
}

#[test]
fn shuffles() {
    let asm = &mut Assembly::default();
    for elem in [Scalar::I32, Scalar::F32] {
        let ty = LTy::Num(elem);
        for mask in [1, 4, 21, 31] {
            let p = elementwise(&format!("bfly_{elem}_{mask}"), &[ty], ty, |a, v| {
                a.def(ty, |dst| Inst::Shuffle { dst, a: v[0], from: ShuffleFrom::Xor(mask) })
            });
            agree(asm, &p, 2, &[Data::bits(elem, &sample(elem, 64, 5)), Data::zeros(elem, 64)], Tolerance::Exact);
        }
        let p = elementwise(&format!("idx_{elem}"), &[ty], ty, |a, v| {
            let lane = a.special(Special::Lane);
            let (five, mask) = (a.i32(5), a.i32(31));
            let l = a.bin(BinOp::Mul, lane, five);
            let l = a.bin(BinOp::And, l, mask);
            a.def(ty, |dst| Inst::Shuffle { dst, a: v[0], from: ShuffleFrom::Lane(l) })
        });
        agree(asm, &p, 2, &[Data::bits(elem, &sample(elem, 64, 6)), Data::zeros(elem, 64)], Tolerance::Exact);
    }
    asm.check("sm_80");
}

#[test]
fn least_and_greatest_words() {
    let asm = &mut Assembly::default();
    let ty = LTy::Num(Scalar::I32);
    for op in [BinOp::Minimum, BinOp::Maximum, BinOp::MinimumU, BinOp::MaximumU] {
        let p = elementwise(&format!("redux_{op:?}").to_lowercase(), &[ty], ty, |a, v| a.def(ty, |dst| Inst::Redux { dst, op, a: v[0] }));
        agree(asm, &p, 2, &[Data::bits(Scalar::I32, &sample(Scalar::I32, 64, 7)), Data::zeros(Scalar::I32, 64)], Tolerance::Exact);
    }
    asm.check("sm_80");
}

/// Copies in groups, with and without a guard, read by other lanes.
#[test]
fn asynchronous_copies() {
    let asm = &mut Assembly::default();
    for bytes in [4u32, 8, 16] {
        for guarded in [false, true] {
            let words = bytes as usize / 4;
            let mut a = Asm::new(&format!("copy_async_{bytes}_{guarded}"), 2);
            let alloc = a.alloc(2 * 64 * bytes);
            let t = a.thread();
            let (src, dst) = (a.pointer(0), a.pointer(1));
            let base = a.shared(alloc);
            let size = a.i32(bytes as i32);
            let at = a.def(I32, |dst| Inst::Fma { dst, a: t, b: size, c: base });
            let from = a.address(src, t, bytes);
            let valid = guarded.then(|| below(&mut a, t, 50));
            for stage in 0..2 {
                let step = stage * 64 * bytes as i32;
                a.push(Inst::CopyAsync { shared: at, offset: step, global: from, global_offset: step, bytes, valid });
                a.push(Inst::CommitCopies);
            }
            let sixty_three = a.i32(63);
            let mirror = a.bin(BinOp::Sub, sixty_three, t);
            let read = a.def(I32, |dst| Inst::Fma { dst, a: mirror, b: size, c: base });
            let to = a.address(dst, t, bytes);
            for stage in 0..2 {
                a.push(Inst::WaitCopies { pending: 1 - stage as u32 });
                a.push(Inst::Barrier);
                let v = a.vals(I32, words);
                let step = stage * 64 * bytes as i32;
                a.push(Inst::LoadShared { dsts: v.clone(), addr: read, offset: step });
                a.store(&v, to, step);
            }
            let n = 128 * words;
            let data = [Data::bits(Scalar::I32, &sample(Scalar::I32, n, 7)), Data::zeros(Scalar::I32, n)];
            let p = a.finish();
            let k = text(&p, &sm_80());
            assert_eq!(k.text.matches("selp.b32").count(), usize::from(guarded), "one size per guard\n{}", k.text);
            agree(asm, &p, 1, &data, Tolerance::Exact);
        }
    }
    asm.check("sm_80");
}

#[test]
fn matrix_loads() {
    let asm = &mut Assembly::default();
    for count in [1usize, 2, 4] {
        for trans in [false, true] {
            let mut a = Asm::new(&format!("ldmatrix_{count}_{trans}"), 1);
            let alloc = a.alloc(32 * 16);
            let t = a.thread();
            let (src, dst) = (a.pointer(0), a.pointer(1));
            let base = a.shared(alloc);
            let sixteen = a.i32(16);
            let at = a.def(I32, |dst| Inst::Fma { dst, a: t, b: sixteen, c: base });
            let from = a.address(src, t, 16);
            let rows = a.load(I32, 4, from, 0);
            a.push(Inst::StoreShared { srcs: rows, addr: at, offset: 0, guard: None });
            a.push(Inst::Barrier);
            let m = a.vals(B32, count);
            a.push(Inst::LoadMatrix { dsts: m.clone(), addr: at, offset: 0, trans });
            let to = a.address(dst, t, 4 * count as u32);
            let out: Vec<LVal> = m.iter().map(|&w| a.def(I32, |dst| Inst::Bitcast { dst, a: w })).collect();
            a.store(&out, to, 0);
            let data = [Data::bits(Scalar::I32, &sample(Scalar::I32, 128, 8)), Data::zeros(Scalar::I32, 32 * count)];
            agree(asm, &a.finish(), 1, &data, Tolerance::Exact);
        }
    }
    asm.check("sm_80");
}

/// How many values of which type carry a fragment.
fn fragment(elements: usize, elem: Scalar) -> (usize, LTy) {
    let per = (32 / elem.bits()).max(1) as usize;
    if per > 1 { (elements / per, B32) } else { (elements, LTy::Num(elem)) }
}

fn matrix_program(id: MatrixId, instr: &MatrixInstr) -> Program {
    let mut a = Asm::new(&format!("mma_{}_{}_{}", instr.operand, instr.operand_b, instr.acc), 1);
    let t = a.thread();
    let mut loads = Vec::new();
    for (i, (f, elem)) in [(&instr.a, instr.operand), (&instr.b, instr.operand_b), (&instr.d, instr.acc)].into_iter().enumerate() {
        let (n, ty) = fragment(1 << f.reg.len(), elem);
        let p = a.pointer(i as u32);
        let at = a.address(p, t, n as u32 * ty.bytes());
        let words: Vec<LVal> = (0..n).map(|k| a.load(ty, 1, at, (k as u32 * ty.bytes()) as i32)[0]).collect();
        let words: Vec<LVal> = if instr.precision == Precision::Tf32 && i < 2 {
            words.into_iter().map(|w| a.def(F32, |dst| Inst::RoundTf32 { dst, a: w })).collect()
        } else {
            words
        };
        loads.push(words);
    }
    let (n, ty) = fragment(1 << instr.d.reg.len(), instr.acc);
    let mut c: tilelift_isel::lane::Vals = loads[2].iter().copied().collect();
    // Twice, so that the second accumulates on the first.
    for _ in 0..2 {
        let dsts: tilelift_isel::lane::Vals = (0..n).map(|_| a.val(ty)).collect();
        a.push(Inst::Matrix(Box::new(MatrixProduct {
            dsts: dsts.clone(),
            instr: id,
            a: loads[0].as_slice().into(),
            b: loads[1].as_slice().into(),
            c,
            scales: Vals::new(),
        })));
        c = dsts;
    }
    let p = a.pointer(3);
    let at = a.address(p, t, n as u32 * ty.bytes());
    for (k, &v) in c.iter().enumerate() {
        a.store(&[v], at, (k as u32 * ty.bytes()) as i32);
    }
    a.finish()
}

#[test]
fn matrix_instructions() {
    let asm = &mut Assembly::default();
    let target = sm_80();
    for (i, instr) in target.matrix.iter().enumerate() {
        let id = MatrixId::from_u32(i as u32);
        let p = matrix_program(id, instr);
        // Small integers, so that every order of summation gives the same.
        let mut r = Random(9);
        let mut small = |elem: Scalar, n: usize| {
            let values: Vec<u64> = (0..n)
                .map(|_| {
                    let x = (r.next() % 9) as i64 - 4;
                    if elem.is_float() { num::to_bits(x as f64, elem) } else { num::wrap(x, elem) as u64 }
                })
                .collect();
            Data::bits(elem, &values)
        };
        let sizes = [&instr.a, &instr.b, &instr.d].map(|f| 32 << f.reg.len());
        let data = [
            small(instr.operand, sizes[0]),
            small(instr.operand_b, sizes[1]),
            small(instr.acc, sizes[2]),
            Data::zeros(instr.acc, sizes[2]),
        ];
        let k = text(&p, &target);
        let lines: Vec<&str> = k.text.lines().filter(|l| l.contains("mma.sync")).collect();
        assert_eq!(lines.len(), 2);
        // The accumulator stays where it is: the first and the last list of the line are the same.
        for l in lines {
            let lists: Vec<&str> = l.split('{').skip(1).map(|s| s.split('}').next().unwrap_or_default()).collect();
            assert_eq!(lists[0], lists[3], "{}", k.text);
        }
        agree(asm, &p, 1, &data, Tolerance::Exact);
    }
    asm.check("sm_80");
}

#[test]
fn extents_are_parameters() {
    let mut a = Asm::new("extent", 1);
    let t = a.thread();
    let (src, dst) = (a.pointer(0), a.pointer(1));
    let n = a.param(I32, ParamSource::Extent(0, 0));
    let (from, to) = (a.address(src, t, 4), a.address(dst, t, 4));
    let inside = a.def(I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: t, b: n });
    let v = a.vals(F32, 1);
    a.push(Inst::LoadGlobal {
        dsts: v.clone(),
        addr: from,
        offset: 0,
        guard: Some(inside),
        other: Vals::new(),
        cache: tilelift_ir::CacheHint::Normal,
    });
    a.push(Inst::StoreGlobal { srcs: v, addr: to, offset: 0, guard: Some(inside), cache: tilelift_ir::CacheHint::Normal });
    let asm = &mut Assembly::default();
    let data = [Data::bits(Scalar::F32, &sample(Scalar::F32, 45, 1)), Data::zeros(Scalar::F32, 45)];
    agree(asm, &a.finish(), 2, &data, Tolerance::Exact);
    asm.check("sm_80");
}
