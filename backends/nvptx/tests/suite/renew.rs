//! Loops that keep operand A of one group matrix instruction and compute that of another: where the kept registers are written anew, and that
//! ptxas gives them registers of their own.

use std::convert::Infallible;
use tilelift_ir::Scalar;
use tilelift_isel::GroupMatrixId;
use tilelift_isel::lane::{
    AllocId, GroupOperand, LTy, LVal, LaneBuilder, Multiply, OperandA, Param, ParamSource, Place, Program, SwizzleAtoms, Unit, Vals,
};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

/// What builds a loop: the words that are kept, shared memory, a global address.
struct Parts {
    instr: GroupMatrixId,
    kept: Vals,
    alloc: AllocId,
    memory: LVal,
    address: Option<LVal>,
    sums: Vec<LVal>,
    end: LVal,
}

impl Parts {
    /// Words that are loaded where they stand.
    fn load(&self, b: &mut LaneBuilder, step: LVal) -> Vals {
        let sixteen = b.i32(16);
        let address = self.address.map(|a| b.mad_wide(step, sixteen, a));
        let bytes = b.mul(step, sixteen);
        let memory = b.add(bytes, self.memory);
        load(b, address, (self.alloc, memory))
    }

    /// A product with those words, added to the sums.
    fn multiply(&self, b: &mut LaneBuilder, words: &Vals, sums: &[LVal]) -> Vec<LVal> {
        let right =
            GroupOperand { at: Place { addr: self.memory, offset: 0 }, atoms: SwizzleAtoms { swizzle: 128, along_k: true, stride: 1024 } };
        let (dsts, c, instr, a) = (vec![], sums.to_vec(), self.instr, OperandA::Regs(words.clone()));
        let sums = b.multiply(Multiply { dsts, c, instr, n: 8, a, b: right, accumulate: None });
        b.unit(Unit::CommitMatrices);
        sums
    }
}

fn load(b: &mut LaneBuilder, address: Option<LVal>, (alloc, memory): (AllocId, LVal)) -> Vals {
    let words = match address {
        Some(a) => b.load_global(&[LTy::I32; 4], a, 0, None, Vals::new()),
        None => b.load_shared(&[LTy::I32; 4], alloc, memory, 0),
    };
    words.iter().map(|&w| b.bitcast(w, LTy::B32)).collect()
}

/// Where the program's sizes come from.
#[derive(Clone, Copy, PartialEq)]
enum Sizes {
    Extent,
    Pointer,
    Nowhere,
}

fn program(sizes: Sizes, body: impl FnOnce(&mut LaneBuilder, &Parts) -> Vec<LVal>) -> Program {
    let mut b = LaneBuilder::new("k", 4, 32);
    let units = sm_90a().units.expect("it has units");
    let row = units.matrix.iter().position(|r| r.operand == Scalar::BF16 && r.acc == Scalar::F32).expect("it multiplies bf16");
    let end = match sizes {
        Sizes::Extent => b.param(Param { ty: LTy::I32, source: ParamSource::Extent(0, 0) }),
        Sizes::Pointer | Sizes::Nowhere => b.param(Param { ty: LTy::I32, source: ParamSource::Scalar(1) }),
    };
    let address = (sizes != Sizes::Nowhere).then(|| b.param(Param { ty: LTy::I64, source: ParamSource::Pointer(0) }));
    let alloc = b.alloc_aligned(1024, 1024, "operands");
    let memory = b.shared_addr(alloc);
    let kept = load(&mut b, address, (alloc, memory));
    let zero = b.constant(LTy::F32, 0);
    let parts = Parts { instr: GroupMatrixId::from_u32(row as u32), kept, alloc, memory, address, sums: vec![zero; 4], end };
    for (k, sum) in body(&mut b, &parts).into_iter().enumerate() {
        let offset = 4 * k as i32;
        match address {
            Some(a) => b.store_global([sum].into_iter().collect(), a, offset, None),
            None => b.store_shared([sum].into_iter().collect(), alloc, memory, offset, None),
        }
    }
    b.touch(alloc);
    b.finish()
}

fn looped(b: &mut LaneBuilder, p: &Parts, init: &[LVal], body: impl FnOnce(&mut LaneBuilder, LVal, &[LVal]) -> Vec<LVal>) -> Vec<LVal> {
    let (zero, one) = (b.i32(0), b.i32(1));
    let run = |(): &mut (), b: &mut LaneBuilder, step: LVal, carried: &[LVal]| Ok::<_, Infallible>(body(b, step, carried));
    let Ok(out) = b.for_loop(&mut (), [zero, p.end, one], init, run);
    out
}

/// The lines of the text, what it holds checked by the assembler: no word from it, and operands that are what the text says.
fn lines(program: &Program) -> Vec<String> {
    let text = emit(program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{e}")).text;
    match tilelift_oracle::assemble(&text, "sm_90a") {
        Ok(r) => assert!(r.warnings.is_empty(), "{:?}\n{text}", r.warnings),
        Err(tilelift_oracle::AsmError::Missing) => assert!(!tilelift_oracle::required(), "ptxas is missing"),
        Err(e) => panic!("{e}\n{text}"),
    }
    text.lines().map(|l| l.trim().to_owned()).collect()
}

/// The instructions of the loop that renew registers and what stands around them, each by its first words.
fn order(lines: &[String]) -> Vec<&str> {
    let head = lines.iter().position(|l| l.starts_with("$L")).expect("a loop");
    let name = |l: &String| -> Option<&'static str> {
        let words: Vec<&str> = l.split([' ', ',', ';']).filter(|w| !w.is_empty()).collect();
        match words[..] {
            ["xor.b32", to, from, _] if to == from => Some("renew"),
            ["wgmma.fence.sync.aligned"] => Some("fence"),
            ["wgmma.wait_group.sync.aligned", "0"] => Some("wait 0"),
            ["wgmma.wait_group.sync.aligned", ..] => Some("wait 1"),
            [op, ..] if op.starts_with("wgmma.mma_async") => Some("multiply"),
            _ => None,
        }
    };
    let mut out: Vec<&str> = lines[head..].iter().filter_map(name).collect();
    out.dedup();
    out
}

#[test]
fn the_head_of_the_loop_is_taken() {
    for (sizes, zero) in [(Sizes::Extent, "shr.u32"), (Sizes::Pointer, "shr.u64"), (Sizes::Nowhere, "%lanemask_gt")] {
        let p = program(sizes, |b, p| {
            looped(b, p, &p.sums, |b, step, sums| {
                b.unit(Unit::FenceMatrices);
                let sums = p.multiply(b, &p.kept, sums);
                b.unit(Unit::WaitMatrices { pending: 0 });
                let words = p.load(b, step);
                b.unit(Unit::FenceMatrices);
                let sums = p.multiply(b, &words, &sums);
                b.unit(Unit::WaitMatrices { pending: 0 });
                sums
            })
        });
        let lines = lines(&p);
        assert_eq!(order(&lines), ["renew", "fence", "multiply", "wait 0", "fence", "multiply", "wait 0"]);
        assert!(lines.iter().any(|l| l.contains(zero)), "{lines:#?}");
        let renewed = lines.iter().filter(|l| l.starts_with("xor.b32")).count();
        assert_eq!(renewed, 4);
    }
}

#[test]
fn registers_are_fenced_where_the_loop_does_not() {
    let p = program(Sizes::Extent, |b, p| {
        b.unit(Unit::FenceMatrices);
        looped(b, p, &p.sums, |b, step, sums| {
            let sums = p.multiply(b, &p.kept, sums);
            b.unit(Unit::WaitMatrices { pending: 0 });
            let words = p.load(b, step);
            b.unit(Unit::FenceMatrices);
            let sums = p.multiply(b, &words, &sums);
            b.unit(Unit::WaitMatrices { pending: 0 });
            sums
        })
    });
    assert_eq!(order(&lines(&p)), ["renew", "fence", "multiply", "wait 0", "fence", "multiply", "wait 0"]);
}

#[test]
fn what_is_in_flight_at_the_head_is_renewed_behind_its_wait() {
    let p = program(Sizes::Extent, |b, p| {
        b.unit(Unit::FenceMatrices);
        let ahead = p.multiply(b, &p.kept, &p.sums);
        let out = looped(b, p, &[ahead, p.sums.clone()].concat(), |b, step, carried| {
            let words = p.load(b, step);
            b.unit(Unit::WaitMatrices { pending: 0 });
            b.unit(Unit::FenceMatrices);
            let sums = p.multiply(b, &words, &carried[4..]);
            b.unit(Unit::WaitMatrices { pending: 0 });
            b.unit(Unit::FenceMatrices);
            let ahead = p.multiply(b, &p.kept, &carried[..4]);
            [ahead, sums].concat()
        });
        b.unit(Unit::WaitMatrices { pending: 0 });
        out
    });
    assert_eq!(order(&lines(&p))[..4], ["wait 0", "renew", "fence", "multiply"]);
}

#[test]
fn what_is_always_in_flight_is_waited_for() {
    let p = program(Sizes::Extent, |b, p| {
        let out = looped(b, p, &[p.sums.clone(), p.sums.clone()].concat(), |b, step, carried| {
            let words = p.load(b, step);
            b.unit(Unit::FenceMatrices);
            let one = p.multiply(b, &words, &carried[..4]);
            let other = p.multiply(b, &p.kept, &carried[4..]);
            b.unit(Unit::WaitMatrices { pending: 1 });
            [one, other].concat()
        });
        b.unit(Unit::WaitMatrices { pending: 0 });
        out
    });
    assert_eq!(order(&lines(&p))[..4], ["wait 0", "renew", "fence", "multiply"]);
}

#[test]
fn loops_of_one_kind_and_what_is_handed_on_stay_as_they_are() {
    let kept = program(Sizes::Extent, |b, p| {
        looped(b, p, &p.sums, |b, _, sums| {
            b.unit(Unit::FenceMatrices);
            let sums = p.multiply(b, &p.kept, sums);
            let sums = p.multiply(b, &p.kept, &sums);
            b.unit(Unit::WaitMatrices { pending: 0 });
            sums
        })
    });
    let computed = program(Sizes::Extent, |b, p| {
        looped(b, p, &p.sums, |b, step, sums| {
            let words = p.load(b, step);
            b.unit(Unit::FenceMatrices);
            let sums = p.multiply(b, &words, sums);
            b.unit(Unit::WaitMatrices { pending: 0 });
            sums
        })
    });
    let handed_on = program(Sizes::Extent, |b, p| {
        let zero = b.i32(0);
        let first = p.load(b, zero);
        looped(b, p, &[p.sums.clone(), first.to_vec()].concat(), |b, step, carried| {
            b.unit(Unit::FenceMatrices);
            let sums = p.multiply(b, &p.kept, &carried[..4]);
            let sums = p.multiply(b, &carried[4..].iter().copied().collect(), &sums);
            b.unit(Unit::WaitMatrices { pending: 0 });
            let next = p.load(b, step);
            [sums, next.to_vec()].concat()
        })[..4]
            .to_vec()
    });
    for p in [kept, computed, handed_on] {
        assert!(!order(&lines(&p)).contains(&"renew"));
    }
}

#[test]
fn the_innermost_loop_with_both_kinds_renews() {
    let p = program(Sizes::Extent, |b, p| {
        looped(b, p, &p.sums, |b, _, sums| {
            looped(b, p, sums, |b, step, sums| {
                b.unit(Unit::FenceMatrices);
                let sums = p.multiply(b, &p.kept, sums);
                b.unit(Unit::WaitMatrices { pending: 0 });
                let words = p.load(b, step);
                b.unit(Unit::FenceMatrices);
                let sums = p.multiply(b, &words, &sums);
                b.unit(Unit::WaitMatrices { pending: 0 });
                sums
            })
        })
    });
    let text = lines(&p);
    let heads: Vec<usize> = (0..text.len()).filter(|&i| text[i].starts_with("$L")).collect();
    let first = text.iter().position(|l| l.starts_with("xor.b32")).unwrap();
    assert!(heads[1] < first && text.iter().filter(|l| l.starts_with("xor.b32")).count() == 4, "{text:#?}");
    // One kind in the inner loop, the other in the outer one: that has both.
    let p = program(Sizes::Extent, |b, p| {
        looped(b, p, &p.sums, |b, step, sums| {
            let sums = looped(b, p, sums, |b, _, sums| {
                b.unit(Unit::FenceMatrices);
                let sums = p.multiply(b, &p.kept, sums);
                b.unit(Unit::WaitMatrices { pending: 0 });
                sums
            });
            let words = p.load(b, step);
            b.unit(Unit::FenceMatrices);
            let sums = p.multiply(b, &words, &sums);
            b.unit(Unit::WaitMatrices { pending: 0 });
            sums
        })
    });
    let text = lines(&p);
    let heads: Vec<usize> = (0..text.len()).filter(|&i| text[i].starts_with("$L")).collect();
    let first = text.iter().position(|l| l.starts_with("xor.b32")).unwrap();
    assert!(heads[0] < first && first < heads[1], "{text:#?}");
}
