//! A program that has one of every instruction: what adds one to the table adds it here, and tests of the text, of the verifier and of
//! backends see it.

use super::asm::Asm;
use crate::frame::{Param, ParamSource};
use crate::inst::MatrixProduct;
use crate::inst::{Atomic, AtomicKind, For, If, Inst, While};
use crate::machine::MatrixId;
use crate::op::{BinOp, UnOp};
use crate::value::Carried;
use crate::value::{LTy, ShuffleFrom, Space, Special, Vals};
use cranelift_entity::EntityRef;
use tilelift_ir::{AtomicOp, CmpOp, GridAxis, MemoryOrder, Scalar, Scope};

/// Its text.
pub const EVERYTHING: &str = "\
lane @test warps=1 lanes=32 shared=64
  param 0: i64 = pointer of view 0
  param 1: i32 = extent 1 of view 0
  param 2: i64 = stride 0 of view 0
  param 3: f16 = scalar 1
  alloc s0: 64 bytes at 0, align 16 // test
  l0:i64 = param 0
  l1:i32 = shared_addr s0 // test
  l2:i32 = const -7
  l3:f32 = const 1.5 // 0x3fc00000
  l4:b32 = const 0x3c00
  l5:i1 = const 1
  l6:i32 = special lane
  l7:i32 = special warp
  l8:i32 = special program_id y
  l9:i32 = special num_programs z
  l10:f32 = rsqrt l3
  l11:f32 = minnum l10, l3
  l12:f32 = fma l3, l3, l11
  l13:i64 = mad_wide l2, l6, l0
  l14:i1 = cmp ule l2, l6
  l15:f32 = select l14, l3, l12
  l16:f16 = cvt l15:f32
  l17:f32 = round_tf32 l15
  l18:i32 = bitcast l17:f32
  l19:b32 = pack l16, l16
  l20:f16, l21:f16 = unpack l19
  l22:f32, l23:f32 = load.global [l13 + 16] if l14 else l3, l3
  store.global [l13 - 8] = l22, l23 if l5
  store.shared [l1] = l22 if l14
  l24:f32 = load.shared [l1 + 4]
  l25:b32 = load_matrix.trans [l1]
  copy_async.16 [l1] = global [l13 + 32] if l5
  commit_copies
  wait_copies 1
  barrier
  assert l5
  l26:f32 = shuffle l24 xor 16
  l27:f32 = shuffle l26 lane l6
  l28:f32, l29:f32, l30:f32, l31:f32 = matrix0 (l4, l4, l4, l4) (l4, l4) (l3, l3, l3, l3)
  for l32:i32 in l2..l6 step l7 carry l33:f32 = l3, l34:i32 = l2 {
    l35:f32 = neg l33
    yield l35, l34
  } -> l36:f32, l37:i32
  loop carry l38:i32 = l2 {
    l39:i1 = cmp lt l38, l6
    while l39
    l40:i32 = not l38
    yield l40
  } -> l41:i32
  if l5 {
    barrier
    yield l2
  } else {
    yield l6
  } -> l42:i32
  l43:f32 = undefined
  l44:f32 = divide l3 by l3
  l45:i32 = atomic.global.add.relaxed.gpu [l13] by l2 if l5
  prefetch [l13 + 128] if l14
  l46:i64 = mad_wide_u l2, l6, l0
  l47:i32 = funnel l2, l6, l7
  l48:i32 = fma_f16x2 l2, l6, l7
  l49:i32 = fma_bf16x2 l2, l6, l7
  l50:i32 = permute l2, l6 by l7
  l51:i32 = mask_flip l2 by l6, l7
  l52:i32 = redux minimumu l6
  l53:b32 = cvt_f16x2 l3, l3
  l54:b32 = cvt_bf16x2 l3, l3
  l55:i16 = cvt_e4m3x2 l3, l3
  l56:i16 = cvt_e5m2x2 l3, l3
";

/// One of every instruction; verifies, but isn't meant to run.
pub fn everything() -> Asm {
    let mut a = Asm::new(1);
    let f16 = LTy::Num(Scalar::F16);
    let p = a.pointer(0);
    a.p.params.push(Param { ty: LTy::I32, source: ParamSource::Extent(0, 1) });
    a.p.params.push(Param { ty: LTy::I64, source: ParamSource::Stride(0, 0) });
    a.p.params.push(Param { ty: f16, source: ParamSource::Scalar(1) });
    let s = a.alloc(64);
    let i = a.i32(-7);
    let x = a.constant(LTy::F32, u64::from(1.5f32.to_bits()));
    let word = a.constant(LTy::B32, 0x3c00);
    let yes = a.constant(LTy::I1, 1);
    let lane = a.special(Special::Lane);
    let warp = a.special(Special::Warp);
    a.special(Special::ProgramId(GridAxis::Y));
    a.special(Special::NumPrograms(GridAxis::Z));
    let r = a.def(LTy::F32, |dst| Inst::Un { dst, op: UnOp::Rsqrt, a: x });
    let m = a.bin(BinOp::MinNum, r, x);
    let f = a.def(LTy::F32, |dst| Inst::Fma { dst, a: x, b: x, c: m });
    let addr = a.def(LTy::I64, |dst| Inst::MadWide { dst, a: i, b: lane, c: p });
    let c = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ule, a: i, b: lane });
    let hint = c;
    let sel = a.def(LTy::F32, |dst| Inst::Select { dst, c, a: x, b: f });
    let h = a.def(f16, |dst| Inst::Cvt { dst, a: sel });
    let t = a.def(LTy::F32, |dst| Inst::RoundTf32 { dst, a: sel });
    a.def(LTy::I32, |dst| Inst::Bitcast { dst, a: t });
    let packed = a.def(LTy::B32, |dst| Inst::Pack { dst, parts: Vals::from_slice(&[h, h]) });
    let dsts = a.vals(f16, 2);
    a.push(Inst::Unpack { dsts, a: packed });
    let v = a.vals(LTy::F32, 2);
    a.push(Inst::LoadGlobal {
        dsts: v.clone(),
        addr,
        offset: 16,
        guard: Some(c),
        other: Vals::from_slice(&[x, x]),
        cache: tilelift_ir::CacheHint::Normal,
    });
    a.push(Inst::StoreGlobal { srcs: v.clone(), addr, offset: -8, guard: Some(yes), cache: tilelift_ir::CacheHint::Normal });
    a.push(Inst::StoreShared { srcs: Vals::from_slice(&v[..1]), addr: s, offset: 0, guard: Some(c) });
    let y = a.load_shared(s, 4, LTy::F32);
    a.def(LTy::B32, |d| Inst::LoadMatrix { dsts: Vals::from_slice(&[d]), addr: s, offset: 0, trans: true });
    a.push(Inst::CopyAsync { shared: s, offset: 0, global: addr, global_offset: 32, bytes: 16, valid: Some(yes) });
    a.push(Inst::CommitCopies);
    a.push(Inst::WaitCopies { pending: 1 });
    a.push(Inst::Barrier);
    a.push(Inst::Assert { condition: yes });
    let y = a.def(LTy::F32, |dst| Inst::Shuffle { dst, a: y, from: ShuffleFrom::Xor(16) });
    a.def(LTy::F32, |dst| Inst::Shuffle { dst, a: y, from: ShuffleFrom::Lane(lane) });
    let dsts = a.vals(LTy::F32, 4).into_iter().collect();
    let c = [x; 4].into_iter().collect();
    a.push(Inst::Matrix(Box::new(MatrixProduct {
        dsts,
        instr: MatrixId::new(0),
        a: Vals::from_elem(word, 4),
        b: Vals::from_elem(word, 2),
        c,
        scales: Vals::new(),
    })));
    let [iv, fp, ip, fnext, fr, ir] = [LTy::I32, LTy::F32, LTy::I32, LTy::F32, LTy::F32, LTy::I32].map(|ty| a.val(ty));
    a.push(Inst::For(Box::new(For {
        iv,
        lo: i,
        hi: lane,
        step: warp,
        runs: false,
        carried: vec![Carried { param: fp, init: x, next: fnext, result: fr }, Carried { param: ip, init: i, next: ip, result: ir }],
        body: vec![Inst::Un { dst: fnext, op: UnOp::Neg, a: fp }],
    })));
    let [wp, cond, wnext, wr] = [LTy::I32, LTy::I1, LTy::I32, LTy::I32].map(|ty| a.val(ty));
    a.push(Inst::While(Box::new(While {
        carried: vec![Carried { param: wp, init: i, next: wnext, result: wr }],
        test: vec![Inst::Cmp { dst: cond, op: CmpOp::Lt, a: wp, b: lane }],
        condition: cond,
        body: vec![Inst::Un { dst: wnext, op: UnOp::Not, a: wp }],
    })));
    let r = a.val(LTy::I32);
    a.push(Inst::If(Box::new(If { condition: yes, then: vec![Inst::Barrier], otherwise: vec![], results: vec![(r, i, lane)] })));
    a.def(LTy::F32, |dst| Inst::Undefined { dst });
    let [one, of] = [Vals::from_slice(&[x]), Vals::from_slice(&[x])];
    a.def(LTy::F32, |d| Inst::Divide { dsts: Vals::from_slice(&[d]), a: one, b: of });
    a.def(LTy::I32, |d| {
        Inst::Atomic(Box::new(Atomic {
            dst: Some(d),
            kind: AtomicKind::Op(AtomicOp::Add),
            space: Space::Global,
            addr,
            offset: 0,
            value: i,
            guard: Some(yes),
            order: MemoryOrder::Relaxed,
            scope: Scope::Gpu,
        }))
    });
    a.push(Inst::Prefetch { addr, offset: 128, guard: Some(hint) });
    a.def(LTy::I64, |dst| Inst::MadWideU { dst, a: i, b: lane, c: p });
    a.def(LTy::I32, |dst| Inst::Funnel { dst, high: i, low: lane, by: warp });
    a.def(LTy::I32, |dst| Inst::FmaF16x2 { dst, a: i, b: lane, c: warp });
    a.def(LTy::I32, |dst| Inst::FmaBf16x2 { dst, a: i, b: lane, c: warp });
    a.def(LTy::I32, |dst| Inst::Permute { dst, low: i, high: lane, picks: warp });
    a.def(LTy::I32, |dst| Inst::MaskFlip { dst, a: i, mask: lane, flip: warp });
    a.def(LTy::I32, |dst| Inst::Redux { dst, op: BinOp::MinimumU, a: lane });
    a.def(LTy::B32, |dst| Inst::CvtF16x2 { dst, low: x, high: x });
    a.def(LTy::B32, |dst| Inst::CvtBf16x2 { dst, low: x, high: x });
    a.def(LTy::Num(Scalar::I16), |dst| Inst::CvtE4M3x2 { dst, low: x, high: x });
    a.def(LTy::Num(Scalar::I16), |dst| Inst::CvtE5M2x2 { dst, low: x, high: x });
    a
}
