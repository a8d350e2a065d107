//! What instructions read and make.

use super::{AtomicKind, Block, Inst, LVal, ShuffleFrom};

/// The instructions that only compute, as a pattern: `computes!() => …` keeps a match over [`Inst`](crate::Inst) exhaustive.
#[macro_export]
macro_rules! computes {
    () => {
        $crate::Inst::Const { .. }
            | $crate::Inst::Param { .. }
            | $crate::Inst::Special { .. }
            | $crate::Inst::SharedAddr { .. }
            | $crate::Inst::Un { .. }
            | $crate::Inst::Bin { .. }
            | $crate::Inst::Fma { .. }
            | $crate::Inst::MadWide { .. }
            | $crate::Inst::Cmp { .. }
            | $crate::Inst::Select { .. }
            | $crate::Inst::Cvt { .. }
            | $crate::Inst::RoundTf32 { .. }
            | $crate::Inst::Bitcast { .. }
            | $crate::Inst::Pack { .. }
            | $crate::Inst::Unpack { .. }
            | $crate::Inst::Divide { .. }
    };
}

/// The others without blocks, as a pattern.
macro_rules! acts {
    () => {
        // The place of the first is where its register begins.
        Inst::Undefined { .. }
            | Inst::LoadGlobal { .. }
            | Inst::StoreGlobal { .. }
            | Inst::Atomic(_)
            | Inst::LoadShared { .. }
            | Inst::StoreShared { .. }
            | Inst::LoadMatrix { .. }
            | Inst::CopyAsync { .. }
            | Inst::CommitCopies
            | Inst::WaitCopies { .. }
            | Inst::Barrier
            | Inst::Assert { .. }
            | Inst::Shuffle { .. }
            | Inst::Matrix { .. }
            | Inst::Unit(_)
    };
}

/// Calls `f` for every value that an instruction reads where it stands, or inside its blocks.
pub fn reads(inst: &Inst, f: &mut dyn FnMut(LVal)) {
    let mut all = |vs: &[LVal]| vs.iter().for_each(|&v| f(v));
    match inst {
        Inst::Undefined { .. } | Inst::Const { .. } | Inst::Param { .. } | Inst::Special { .. } | Inst::SharedAddr { .. } => {}
        Inst::CommitCopies | Inst::WaitCopies { .. } | Inst::Barrier => {}
        Inst::Un { a, .. } | Inst::Cvt { a, .. } | Inst::RoundTf32 { a, .. } | Inst::Bitcast { a, .. } | Inst::Unpack { a, .. } => {
            all(&[*a])
        }
        Inst::Bin { a, b, .. } | Inst::Cmp { a, b, .. } => all(&[*a, *b]),
        Inst::Fma { a, b, c, .. } | Inst::MadWide { a, b, c, .. } | Inst::Select { c, a, b, .. } => all(&[*a, *b, *c]),
        Inst::Pack { parts, .. } => all(parts),
        Inst::Divide { a, b, .. } => {
            all(a);
            all(b);
        }
        Inst::LoadGlobal { addr, guard, other, .. } => {
            all(&[*addr]);
            all(guard.as_slice());
            all(other);
        }
        Inst::StoreGlobal { srcs, addr, guard, .. } | Inst::StoreShared { srcs, addr, guard, .. } => {
            all(&[*addr]);
            all(guard.as_slice());
            all(srcs);
        }
        Inst::Atomic(a) => {
            all(&[a.addr, a.value]);
            all(a.guard.as_slice());
            if let AtomicKind::Cas(c) = a.kind {
                all(&[c]);
            }
        }
        Inst::LoadShared { addr, .. } | Inst::LoadMatrix { addr, .. } => all(&[*addr]),
        Inst::CopyAsync { shared, global, valid, .. } => {
            all(&[*shared, *global]);
            all(valid.as_slice());
        }
        Inst::Assert { condition } => all(&[*condition]),
        Inst::Shuffle { a, from, .. } => {
            all(&[*a]);
            if let ShuffleFrom::Lane(l) = from {
                all(&[*l]);
            }
        }
        Inst::Matrix { a, b, c, .. } => {
            all(a);
            all(b);
            all(c);
        }
        Inst::Unit(u) => u.operands(|v, _| f(v)),
        Inst::For(l) => {
            all(&[l.lo, l.hi, l.step]);
            l.carried.iter().for_each(|c| {
                f(c.init);
                f(c.next);
            });
            inside(&l.body, f);
        }
        Inst::While(l) => {
            l.carried.iter().for_each(|c| {
                f(c.init);
                f(c.next);
            });
            f(l.condition);
            inside(&l.test, f);
            inside(&l.body, f);
        }
        Inst::If(c) => {
            f(c.condition);
            c.results.iter().for_each(|&(_, a, b)| {
                f(a);
                f(b);
            });
            inside(&c.then, f);
            inside(&c.otherwise, f);
        }
        Inst::Roles(r) => r.roles.iter().for_each(|r| inside(&r.body, f)),
    }
}

fn inside(block: &Block, f: &mut dyn FnMut(LVal)) {
    block.iter().for_each(|i| reads(i, f));
}

/// The values of an instruction that only computes; `None` for any other.
pub fn computed(inst: &Inst) -> Option<&[LVal]> {
    match inst {
        Inst::Const { dst, .. }
        | Inst::Param { dst, .. }
        | Inst::Special { dst, .. }
        | Inst::SharedAddr { dst, .. }
        | Inst::Un { dst, .. }
        | Inst::Bin { dst, .. }
        | Inst::Fma { dst, .. }
        | Inst::MadWide { dst, .. }
        | Inst::Cmp { dst, .. }
        | Inst::Select { dst, .. }
        | Inst::Cvt { dst, .. }
        | Inst::RoundTf32 { dst, .. }
        | Inst::Bitcast { dst, .. }
        | Inst::Pack { dst, .. } => Some(std::slice::from_ref(dst)),
        Inst::Unpack { dsts, .. } | Inst::Divide { dsts, .. } => Some(dsts),
        acts!() | Inst::For(_) | Inst::While(_) | Inst::If(_) | Inst::Roles(_) => None,
    }
}

/// The values that an instruction makes for those behind it.
pub fn results(inst: &Inst) -> Vec<LVal> {
    match inst {
        Inst::Undefined { dst } | Inst::Shuffle { dst, .. } => vec![*dst],
        Inst::LoadGlobal { dsts, .. } | Inst::LoadShared { dsts, .. } | Inst::LoadMatrix { dsts, .. } => dsts.to_vec(),
        Inst::Matrix { dsts, .. } => dsts.to_vec(),
        Inst::Atomic(a) => a.dst.into_iter().collect(),
        Inst::For(l) => l.carried.iter().map(|c| c.result).collect(),
        Inst::While(l) => l.carried.iter().map(|c| c.result).collect(),
        Inst::If(c) => c.results.iter().map(|r| r.0).collect(),
        Inst::Unit(u) => u.results().to_vec(),
        Inst::StoreGlobal { .. }
        | Inst::StoreShared { .. }
        | Inst::CopyAsync { .. }
        | Inst::CommitCopies
        | Inst::WaitCopies { .. }
        | Inst::Barrier
        | Inst::Assert { .. }
        | Inst::Roles(_) => Vec::new(),
        computes!() => computed(inst).unwrap_or_default().to_vec(),
    }
}

/// The blocks inside an instruction, in order.
pub fn blocks(inst: &Inst) -> Vec<&Block> {
    match inst {
        Inst::For(l) => vec![&l.body],
        Inst::While(l) => vec![&l.test, &l.body],
        Inst::If(c) => vec![&c.then, &c.otherwise],
        Inst::Roles(r) => r.roles.iter().map(|r| &r.body).collect(),
        computes!() | acts!() => Vec::new(),
    }
}

/// The same, to change them, each with those of its values that are read outside of it.
pub fn blocks_mut(inst: &mut Inst) -> Vec<(&mut Block, Vec<LVal>)> {
    match inst {
        Inst::For(l) => vec![(&mut l.body, l.carried.iter().map(|c| c.next).collect())],
        Inst::While(l) => {
            // The body sees what the test makes.
            let made = l.test.iter().flat_map(results).collect();
            vec![(&mut l.test, made), (&mut l.body, l.carried.iter().map(|c| c.next).collect())]
        }
        Inst::If(c) => {
            let (then, otherwise) = c.results.iter().map(|&(_, a, b)| (a, b)).unzip();
            vec![(&mut c.then, then), (&mut c.otherwise, otherwise)]
        }
        Inst::Roles(r) => r.roles.iter_mut().map(|r| (&mut r.body, Vec::new())).collect(),
        computes!() | acts!() => Vec::new(),
    }
}
