//! Every invariant, broken one at a time.

use crate::frame::{Param, ParamSource};
use crate::inst::MatrixProduct;
use crate::inst::{Atomic, AtomicKind, For, If, Inst, While};
use crate::interp::tests::{Asm, no_alloc, target};
use crate::machine::MatrixId;
use crate::op::{BinOp, UnOp};
use crate::program::Program;
use crate::testing::everything;
use crate::value::{Carried, LTy, LVal, ShuffleFrom, Space, Special, Vals};
use crate::verify::checks::fragment_values;
use crate::verify::{LaneProblem, verify};
use cranelift_entity::EntityRef;
use tilelift_ir::{AtomicOp, CmpOp, MemoryOrder, Scalar, Scope};

const F16: LTy = LTy::Num(Scalar::F16);

fn problem(asm: &Asm) -> LaneProblem {
    verify(&asm.p, &target()).expect_err("accepted").problem
}

/// The problem that an instruction made from some values causes: an i32, an f32, an i1, an i64, an f16 and a word.
fn with(make: impl FnOnce(&mut Asm, [LVal; 6]) -> Inst) -> LaneProblem {
    let mut asm = Asm::new(1);
    let vals = [LTy::I32, LTy::F32, LTy::I1, LTy::I64, F16, LTy::B32].map(|ty| asm.constant(ty, 0));
    asm.alloc(64);
    verify(&asm.p, &target()).unwrap();
    let inst = make(&mut asm, vals);
    asm.push(inst);
    problem(&asm)
}

/// The value that is of the wrong type, and what belongs there.
fn wrong(p: LaneProblem) -> (u32, String) {
    match p {
        LaneProblem::Type { value, want, .. } => (value.as_u32(), want),
        other => panic!("{other}"),
    }
}

fn list(vals: &[LVal]) -> Vals {
    Vals::from_slice(vals)
}

#[test]
fn a_program_with_everything_is_accepted() {
    verify(&everything().p, &target()).unwrap();
}

#[test]
fn the_frame() {
    let change = |f: fn(&mut Program)| {
        let mut asm = everything();
        f(&mut asm.p);
        problem(&asm)
    };
    assert_eq!(change(|p| p.lanes = 64), LaneProblem::Lanes { got: 64, want: 32 });
    assert_eq!(change(|p| p.warps = 0), LaneProblem::Warps { got: 0, most: 32 });
    assert_eq!(change(|p| p.warps = 33), LaneProblem::Warps { got: 33, most: 32 });
    assert_eq!(change(|p| p.shared_bytes = 1 << 17), LaneProblem::SharedSize { got: 1 << 17, most: 1 << 16 });
    let first = crate::frame::AllocId::new(0);
    assert_eq!(change(|p| p.shared_bytes = 63), LaneProblem::AllocOutside(first));
    assert_eq!(change(|p| p.allocs.values_mut().for_each(|a| a.offset = 8)), LaneProblem::AllocAlign(first));
    assert_eq!(change(|p| p.allocs.values_mut().for_each(|a| a.align = 12)), LaneProblem::AllocAlign(first));
    assert_eq!(change(|p| p.allocs.values_mut().for_each(|a| a.offset = !15)), LaneProblem::AllocOutside(first));
    for (index, ty) in [(0, LTy::I32), (1, LTy::I64), (2, LTy::I32), (3, LTy::B32)] {
        let mut asm = everything();
        asm.p.params[index].ty = ty;
        assert_eq!(problem(&asm), LaneProblem::ParamType { index, got: ty });
    }
}

#[test]
fn one_definition_before_use_in_scope() {
    let twice = |_: &mut Asm, [i, ..]: [LVal; 6]| Inst::Const { dst: i, bits: 1 };
    assert_eq!(with(twice), LaneProblem::Redefined(LVal::new(0)));
    let early = |asm: &mut Asm, [i, ..]: [LVal; 6]| {
        let (later, dst) = (asm.val(LTy::I32), asm.val(LTy::I32));
        Inst::Bin { dst, op: BinOp::Add, a: i, b: later }
    };
    assert_eq!(with(early), LaneProblem::NotInScope(LVal::new(7)));
    let unknown = |_: &mut Asm, [i, ..]: [LVal; 6]| Inst::Bin { dst: LVal::new(99), op: BinOp::Add, a: i, b: i };
    assert_eq!(with(unknown), LaneProblem::UnknownValue(LVal::new(99)));
    // A value of a body is not seen behind the loop, of a test not in the body, of one choice not in the other.
    let mut asm = Asm::new(1);
    let [i, yes] = [LTy::I32, LTy::I1].map(|ty| asm.constant(ty, 1));
    let [iv, inner, out] = [(); 3].map(|()| asm.val(LTy::I32));
    let make = |dst| Inst::Const { dst, bits: 3 };
    let use_of = |a| Inst::Bin { dst: out, op: BinOp::Add, a, b: i };
    let base = asm.p.clone();
    let bodies: [(Vec<Inst>, LVal); 4] = [
        (
            vec![
                Inst::For(Box::new(For { iv, lo: i, hi: i, step: i, runs: false, carried: vec![], body: vec![make(inner)] })),
                use_of(inner),
            ],
            inner,
        ),
        (vec![Inst::For(Box::new(For { iv, lo: i, hi: i, step: i, runs: false, carried: vec![], body: vec![] })), use_of(iv)], iv),
        (
            vec![Inst::While(Box::new(While { carried: vec![], test: vec![make(inner)], condition: yes, body: vec![] })), use_of(inner)],
            inner,
        ),
        (vec![Inst::If(Box::new(If { condition: yes, then: vec![make(inner)], otherwise: vec![use_of(inner)], results: vec![] }))], inner),
    ];
    for (body, value) in bodies {
        asm.p = base.clone();
        asm.p.body.extend(body);
        assert_eq!(problem(&asm), LaneProblem::NotInScope(value));
    }
}

#[test]
fn loops_and_choices_have_matching_types() {
    let f = LTy::F32;
    let carry = |param, init, next, result| vec![Carried { param, init, next, result }];
    let bad_init = |asm: &mut Asm, [i, x, ..]: [LVal; 6]| {
        let [iv, p, r] = [LTy::I32, f, f].map(|ty| asm.val(ty));
        Inst::For(Box::new(For { iv, lo: i, hi: i, step: i, runs: false, carried: carry(p, i, x, r), body: vec![] }))
    };
    assert_eq!(wrong(with(bad_init)), (0, "f32".into()));
    let bad_next = |asm: &mut Asm, [i, x, ..]: [LVal; 6]| {
        let [iv, p, r] = [LTy::I32, f, f].map(|ty| asm.val(ty));
        Inst::For(Box::new(For { iv, lo: i, hi: i, step: i, runs: false, carried: carry(p, x, iv, r), body: vec![] }))
    };
    assert_eq!(wrong(with(bad_next)), (7, "f32".into()));
    let bad_result = |asm: &mut Asm, [i, x, ..]: [LVal; 6]| {
        let [iv, p, r] = [LTy::I32, f, LTy::I32].map(|ty| asm.val(ty));
        Inst::For(Box::new(For { iv, lo: i, hi: i, step: i, runs: false, carried: carry(p, x, x, r), body: vec![] }))
    };
    assert_eq!(wrong(with(bad_result)), (9, "f32".into()));
    let bad_bound = |asm: &mut Asm, [i, _, _, l, ..]: [LVal; 6]| {
        let iv = asm.val(LTy::I32);
        Inst::For(Box::new(For { iv, lo: i, hi: l, step: i, runs: false, carried: vec![], body: vec![] }))
    };
    assert_eq!(wrong(with(bad_bound)), (3, "i32".into()));
    let bad_condition =
        |_: &mut Asm, [i, ..]: [LVal; 6]| Inst::While(Box::new(While { carried: vec![], test: vec![], condition: i, body: vec![] }));
    assert_eq!(wrong(with(bad_condition)), (0, "i1".into()));
    let bad_choice = |asm: &mut Asm, [i, x, yes, ..]: [LVal; 6]| {
        let r = asm.val(f);
        Inst::If(Box::new(If { condition: yes, then: vec![], otherwise: vec![], results: vec![(r, x, i)] }))
    };
    assert_eq!(wrong(with(bad_choice)), (0, "f32".into()));
}

/// A relaxed update of global memory.
fn update(a: &mut Asm, kind: AtomicKind, addr: LVal, value: LVal) -> Inst {
    let dst = Some(a.val(a.p.vals[value]));
    let (space, order, scope) = (Space::Global, MemoryOrder::Relaxed, Scope::Gpu);
    Inst::Atomic(Box::new(Atomic { dst, kind, space, addr, offset: 0, value, guard: None, order, scope }))
}

#[test]
fn operands_and_results_have_their_types() {
    type Make = fn(&mut Asm, [LVal; 6]) -> Inst;
    let cases: [(Make, u32, &str); 28] = [
        (|a, [i, ..]| Inst::Un { dst: a.val(LTy::I32), op: UnOp::Exp2, a: i }, 0, "float"),
        (|a, [_, x, ..]| Inst::Un { dst: a.val(LTy::F32), op: UnOp::Not, a: x }, 1, "int or bool"),
        (|a, [_, _, c, ..]| Inst::Un { dst: a.val(LTy::I1), op: UnOp::Neg, a: c }, 2, "int or float"),
        (|a, [_, x, ..]| Inst::Un { dst: a.val(LTy::I32), op: UnOp::Neg, a: x }, 7, "f32"),
        (|a, [_, _, _, _, _, w]| Inst::Bin { dst: a.val(LTy::B32), op: BinOp::And, a: w, b: w }, 5, "int or bool"),
        (|a, [i, x, ..]| Inst::Bin { dst: a.val(LTy::I32), op: BinOp::Add, a: i, b: x }, 1, "i32"),
        (|a, [_, x, ..]| Inst::Bin { dst: a.val(LTy::F32), op: BinOp::Rem, a: x, b: x }, 1, "int"),
        (|a, [i, ..]| Inst::Bin { dst: a.val(LTy::I32), op: BinOp::MaxNum, a: i, b: i }, 0, "float"),
        (|a, [i, x, ..]| Inst::Fma { dst: a.val(LTy::F32), a: x, b: x, c: i }, 0, "f32"),
        (|a, [i, _, _, l, ..]| Inst::MadWide { dst: a.val(LTy::I64), a: i, b: l, c: l }, 3, "i32"),
        (|a, [i, _, _, l, ..]| Inst::MadWide { dst: a.val(LTy::I32), a: i, b: i, c: l }, 7, "i64"),
        (|a, [_, x, ..]| Inst::Cmp { dst: a.val(LTy::I1), op: CmpOp::Ult, a: x, b: x }, 1, "int"),
        (|a, [i, ..]| Inst::Cmp { dst: a.val(LTy::I32), op: CmpOp::Lt, a: i, b: i }, 7, "i1"),
        (|a, [i, ..]| Inst::Select { dst: a.val(LTy::I32), c: i, a: i, b: i }, 0, "i1"),
        (|a, [_, _, _, _, _, w]| Inst::Cvt { dst: a.val(LTy::I32), a: w }, 5, "a number"),
        (|a, [i, ..]| Inst::Cvt { dst: a.val(LTy::B32), a: i }, 7, "a number"),
        (|a, [_, _, _, _, h, _]| Inst::RoundTf32 { dst: a.val(LTy::F32), a: h }, 4, "f32"),
        (|a, [_, _, _, l, ..]| Inst::Bitcast { dst: a.val(LTy::F32), a: l }, 7, "a type of 64 bits"),
        (|a, [_, x, ..]| Inst::Pack { dst: a.val(LTy::B32), parts: list(&[x]) }, 1, "a number of 8 or 16 bits"),
        (|a, [i, ..]| Inst::Unpack { dsts: a.vals(F16, 2), a: i }, 0, "b32"),
        (
            |a, [i, ..]| Inst::LoadGlobal {
                dsts: a.vals(LTy::F32, 1),
                addr: i,
                offset: 0,
                guard: None,
                other: Vals::new(),
                cache: tilelift_ir::CacheHint::Normal,
            },
            0,
            "i64",
        ),
        (
            |_, [_, x, _, l, ..]| Inst::StoreGlobal {
                srcs: list(&[x]),
                addr: l,
                offset: 0,
                guard: Some(x),
                cache: tilelift_ir::CacheHint::Normal,
            },
            1,
            "i1",
        ),
        (|a, [i, ..]| update(a, AtomicKind::Op(AtomicOp::Add), i, i), 0, "i64"),
        (|a, [_, x, _, l, ..]| update(a, AtomicKind::Op(AtomicOp::Max), l, x), 1, "i32 or i64"),
        (|a, [_, _, _, l, h, _]| update(a, AtomicKind::Op(AtomicOp::Xchg), l, h), 4, "a number of 32 or 64 bits"),
        (|a, [i, x, _, l, ..]| update(a, AtomicKind::Cas(x), l, i), 1, "i32"),
        (|_, [i, x, ..]| Inst::StoreShared { srcs: list(&[x, i]), addr: i, offset: 0, guard: None }, 0, "f32"),
        (|a, [_, _, _, l, ..]| Inst::Shuffle { dst: a.val(LTy::I64), a: l, from: ShuffleFrom::Xor(1) }, 3, "a type of 32 bits"),
    ];
    for (n, (make, value, want)) in cases.into_iter().enumerate() {
        assert_eq!(wrong(with(make)), (value, want.to_string()), "case {n}");
    }
}

#[test]
fn counts_widths_and_offers() {
    let count = |p: LaneProblem| match p {
        LaneProblem::Count { what, got, want } => (what, got, want),
        other => panic!("{other}"),
    };
    let half = |a: &mut Asm, [.., h, _]: [LVal; 6]| Inst::Pack { dst: a.val(LTy::B32), parts: list(&[h, h, h, h]) };
    assert_eq!(count(with(half)), ("parts", 4, "2".into()));
    let three = |a: &mut Asm, [i, ..]: [LVal; 6]| Inst::LoadShared { dsts: a.vals(LTy::F32, 3), addr: i, offset: 0 };
    assert_eq!(count(with(three)), ("values in one access", 3, "1, 2 or 4".into()));
    let other = |a: &mut Asm, [_, x, _, l, ..]: [LVal; 6]| Inst::LoadGlobal {
        dsts: a.vals(LTy::F32, 2),
        addr: l,
        offset: 0,
        guard: None,
        other: list(&[x]),
        cache: tilelift_ir::CacheHint::Normal,
    };
    assert_eq!(count(with(other)), ("other values", 1, "0 or 2".into()));
    let wide = |a: &mut Asm, [i, ..]: [LVal; 6]| Inst::LoadShared { dsts: a.vals(LTy::I64, 4), addr: i, offset: 0 };
    assert_eq!(with(wide), LaneProblem::TooWide { got: 32, most: 16 });
    let eight = |a: &mut Asm, [i, ..]: [LVal; 6]| Inst::LoadMatrix { dsts: a.vals(LTy::B32, 3), addr: i, offset: 0, trans: false };
    assert_eq!(count(with(eight)), ("matrices", 3, "1, 2 or 4".into()));
    let copy = |_: &mut Asm, [i, _, _, l, ..]: [LVal; 6]| Inst::CopyAsync {
        shared: i,
        offset: 0,
        global: l,
        global_offset: 0,
        bytes: 2,
        valid: None,
    };
    assert_eq!(with(copy), LaneProblem::CopySize { got: 2, offered: &[4, 8, 16] });
    let mask = |a: &mut Asm, [i, ..]: [LVal; 6]| Inst::Shuffle { dst: a.val(LTy::I32), a: i, from: ShuffleFrom::Xor(32) };
    assert_eq!(with(mask), LaneProblem::ShuffleMask { mask: 32, lanes: 32 });
    let redux = |a: &mut Asm, [i, ..]: [LVal; 6]| Inst::Redux { dst: a.val(LTy::I32), op: BinOp::Add, a: i };
    assert_eq!(with(redux), LaneProblem::ReduxOp(BinOp::Add));
    let alloc = |a: &mut Asm, _: [LVal; 6]| Inst::SharedAddr { dst: a.val(LTy::I32), alloc: no_alloc() };
    assert_eq!(with(alloc), LaneProblem::NoSuch { what: "allocation", index: 99 });
    let param = |a: &mut Asm, _: [LVal; 6]| Inst::Param { dst: a.val(LTy::I32), index: 0 };
    assert_eq!(with(param), LaneProblem::NoSuch { what: "launch parameter", index: 0 });
    let id = |a: &mut Asm, [.., w]: [LVal; 6]| {
        Inst::Matrix(Box::new(MatrixProduct {
            dsts: a.vals(LTy::F32, 4).into_iter().collect(),
            instr: MatrixId::new(6),
            a: list(&[w]),
            b: list(&[w]),
            c: [w].into_iter().collect(),
            scales: Vals::new(),
        }))
    };
    assert_eq!(with(id), LaneProblem::NoMatrix(MatrixId::new(6)));
    for (sizes, what, want) in [
        ([3, 2, 4, 4], "values of A", "4"),
        ([4, 3, 4, 4], "values of B", "2"),
        ([4, 2, 2, 4], "values of C", "4"),
        ([4, 2, 4, 5], "values of D", "4"),
    ] {
        let matrix = |a: &mut Asm, [_, x, .., w]: [LVal; 6]| {
            Inst::Matrix(Box::new(MatrixProduct {
                dsts: a.vals(LTy::F32, sizes[3]).into_iter().collect(),
                instr: MatrixId::new(0),
                a: Vals::from_elem(w, sizes[0]),
                b: Vals::from_elem(w, sizes[1]),
                c: vec![x; sizes[2]].into(),
                scales: Vals::new(),
            }))
        };
        let (got, _, n) = count(with(matrix));
        assert_eq!((got, n.as_str()), (what, want));
    }
    // What the target doesn't offer.
    let mut bare = target();
    bare.functions = &[(UnOp::Rsqrt, Scalar::F16)];
    let e = verify(&everything().p, &bare).unwrap_err();
    assert_eq!(e.problem, LaneProblem::NoFunction { op: UnOp::Rsqrt, ty: LTy::F32 });
    bare.functions = target().functions;
    bare.quotients = &[Scalar::F64];
    assert_eq!(verify(&everything().p, &bare).unwrap_err().problem, LaneProblem::NoQuotient(LTy::F32));
    bare.quotients = target().quotients;
    (bare.copy_async, bare.load_matrix) = (&[], false);
    let asm = everything();
    let e = verify(&asm.p, &bare).unwrap_err();
    assert_eq!(e.problem, LaneProblem::NoLoadMatrix);
    assert!(e.to_string().starts_with("`l25:b32 = load_matrix.trans [l1]`: "), "{e}");
}

#[test]
fn fragments_fill_words() {
    let t = target();
    let sizes: Vec<_> =
        t.matrix.iter().map(|i| [(&i.a, i.operand), (&i.b, i.operand_b), (&i.d, i.acc)].map(|(m, e)| fragment_values(m, e))).collect();
    let (w, f, i, d) = (LTy::B32, LTy::F32, LTy::I32, LTy::Num(Scalar::F64));
    assert_eq!(
        sizes,
        [
            [(4, w), (2, w), (4, f)],
            [(4, w), (2, w), (4, f)],
            [(4, w), (2, w), (2, w)],
            [(4, w), (2, w), (4, i)],
            [(4, f), (2, f), (4, f)],
            [(1, d), (2, d), (1, d)],
        ]
    );
}

#[test]
fn parameters_and_places() {
    let mut asm = Asm::new(1);
    asm.p.params.push(Param { ty: LTy::F32, source: ParamSource::Scalar(0) });
    asm.def(LTy::I32, |dst| Inst::Param { dst, index: 0 });
    assert_eq!(wrong(problem(&asm)), (0, "f32".into()));
    let special = |a: &mut Asm, _: [LVal; 6]| Inst::Special { dst: a.val(LTy::I64), what: Special::Lane };
    assert_eq!(wrong(with(special)), (7, "i32".into()));
}
