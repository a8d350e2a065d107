//! Atomic updates and cache hints: text and lane interpreter agree, and the assembler takes every form.

use crate::common::*;
use tilelift_ir::{AtomicOp, CacheHint, CmpOp, MemoryOrder, Scalar, Scope};
use tilelift_isel::lane::{Atomic, AtomicKind, Inst, LTy, Program, Space, Vals};
use tilelift_nvptx::{EmitOptions, emit, sm_80};

/// What a type takes.
fn kinds(elem: Scalar) -> Vec<Option<AtomicOp>> {
    if elem.is_narrow() {
        return Vec::new();
    }
    match (elem.is_float(), elem.bits()) {
        (true, 16) => vec![Some(AtomicOp::Add)],
        (true, _) => vec![Some(AtomicOp::Add), Some(AtomicOp::Xchg)],
        (false, 32 | 64) => AtomicOp::ALL.iter().map(|&op| Some(op)).chain([None]).collect(),
        (false, _) => Vec::new(),
    }
}

/// Each of 64 threads updates its element of view 0 by that of view 1 (of every other thread if guarded); the old one goes to view 2.
fn update(elem: Scalar, op: Option<AtomicOp>, order: MemoryOrder, scope: Scope, guarded: bool, used: bool) -> Program {
    let name = op.map_or("cas", AtomicOp::word);
    let mut a = Asm::new(&format!("{name}_{elem}_{order}_{scope}_{guarded}_{used}"), 2);
    let ty = LTy::Num(elem);
    let t = a.thread();
    let (x, by, old) = (a.pointer(0), a.pointer(1), a.pointer(2));
    let [x, by, old] = [x, by, old].map(|p| a.address(p, t, elem.bytes()));
    let value = a.load(ty, 1, by, 0)[0];
    let guard = guarded.then(|| {
        let (one, zero) = (a.i32(1), a.i32(0));
        let odd = a.bin(tilelift_isel::lane::BinOp::And, t, one);
        a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: odd, b: zero })
    });
    let kind = match op {
        Some(op) => AtomicKind::Op(op),
        None => AtomicKind::Cas(value),
    };
    let dst = used.then(|| a.val(ty));
    a.push(Inst::Atomic(Box::new(Atomic { dst, kind, space: Space::Global, addr: x, offset: 0, value, guard, order, scope })));
    if let Some(d) = dst {
        a.store(&[d], old, 0);
    }
    a.finish()
}

#[test]
fn every_update_of_every_type() {
    let asm = &mut Assembly::default();
    for &elem in Scalar::ALL {
        for op in kinds(elem) {
            for (n, &order) in MemoryOrder::ALL.iter().enumerate() {
                let scope = Scope::ALL[n % Scope::ALL.len()];
                for (guarded, used) in [(false, false), (false, true), (true, false), (true, true)] {
                    let program = update(elem, op, order, scope, guarded, used);
                    let mut target = sample(elem, 64, 1);
                    let by = sample(elem, 64, 2);
                    if op.is_none() {
                        // A swap happens where the words are equal.
                        target.iter_mut().zip(&by).step_by(3).for_each(|(t, b)| *t = *b);
                    }
                    let data = [Data::bits(elem, &target), Data::bits(elem, &by), Data::zeros(elem, 64)];
                    agree(asm, &program, 1, &data, Tolerance::Exact);
                }
            }
        }
    }
    asm.check("sm_80");
}

fn hinted(cache: CacheHint) -> Program {
    let mut a = Asm::new(&format!("hint_{cache}"), 1);
    let t = a.thread();
    let (src, dst) = (a.pointer(0), a.pointer(1));
    let (from, to) = (a.address(src, t, 4), a.address(dst, t, 4));
    let v = a.vals(LTy::F32, 1);
    a.push(Inst::LoadGlobal { dsts: v.clone(), addr: from, offset: 0, guard: None, other: Vals::new(), cache });
    a.push(Inst::StoreGlobal { srcs: v, addr: to, offset: 0, guard: None, cache });
    a.finish()
}

#[test]
fn hints_ask_for_the_version_that_has_them() {
    let words = [
        (CacheHint::Normal, "ld.global.f32"),
        (CacheHint::Streaming, "ld.global.cs.f32"),
        (CacheHint::EvictFirst, "st.global.L1::evict_first.f32"),
        (CacheHint::EvictLast, "ld.global.L1::evict_last.f32"),
        (CacheHint::Bypass, "st.global.L1::no_allocate.f32"),
    ];
    for (cache, word) in words {
        // A version is a whole module's.
        let asm = &mut Assembly::default();
        let program = hinted(cache);
        let kernel = text(&program, &sm_80());
        assert!(kernel.text.contains(word), "{}", kernel.text);
        assert_eq!(kernel.version >= (7, 4), word.contains("L1"), "{cache}");
        let data = [Data::bits(Scalar::F32, &sample(Scalar::F32, 32, 1)), Data::zeros(Scalar::F32, 32)];
        agree(asm, &program, 1, &data, Tolerance::Exact);
        let old = EmitOptions { max_version: Some((7, 0)), ..EmitOptions::default() };
        let kernel = emit(&program, &sm_80(), &old).expect("a hint is no reason to refuse");
        assert!(kernel.version == (7, 0) && !kernel.text.contains("L1::"), "{}", kernel.text);
        asm.check("sm_80");
    }
}
