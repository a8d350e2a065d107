//! Replicas of a role, written out.
//!
//! ```text
//! consumers warps 4..8 replicas 2 { … special replica … }  ──►  consumers0 warps 4..8 { … const 0 … }   consumers1 warps 8..12 { … const 1 … }
//! ```
//!
//! Who follows each role by itself, as interpreter and proof do, asks for this. What looks at code, such as printers, has it once.

use crate::fold::eval_int;
use crate::hash::Map;
use crate::inst::{Block, Control, Inst, Role, Roles};
use crate::nest::each_block_mut;
use crate::op::BinOp;
use crate::program::Program;
use crate::value::{LTy, LVal, Special};
use crate::visit::blocks;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::borrow::Cow;
use tilelift_ir::Scalar;

/// Calls `f` for every value that a block makes, those inside of its blocks included.
fn made(block: &Block, f: &mut dyn FnMut(LVal)) {
    for inst in block {
        inst.results().iter().for_each(|&v| f(v));
        match inst.control() {
            None | Some(Control::Roles(_)) => {}
            Some(Control::For(l)) => {
                f(l.iv);
                l.carried.iter().flat_map(|c| [c.param, c.result]).for_each(&mut *f);
            }
            Some(Control::While(l)) => l.carried.iter().flat_map(|c| [c.param, c.result]).for_each(&mut *f),
            Some(Control::If(c)) => c.results.iter().for_each(|r| f(r.0)),
        }
        blocks(inst).for_each(|b| made(b, f));
    }
}

/// What a replica's number makes of a block: what would have been computed of a literal when the program was built.
struct Naming<'p> {
    replica: u32,
    vals: &'p PrimaryMap<LVal, LTy>,
    /// Numbers that are known.
    numbers: Map<LVal, i64>,
    /// Values that are others.
    same: Map<LVal, LVal>,
}

impl Naming<'_> {
    /// The literals of what stands in front of roles.
    fn front(&mut self, block: &Block) {
        for inst in block {
            if let Inst::Const { dst, bits } = *inst {
                self.numbers.insert(dst, bits as i64);
            }
        }
    }

    /// Puts the number where it is asked for, and computes what is known then.
    fn block(&mut self, block: &mut Block) {
        block.retain_mut(|inst| {
            match *inst {
                Inst::Const { dst, bits } => _ = self.numbers.insert(dst, bits as i64),
                Inst::Special { dst, what: Special::Replica } => *inst = self.literal(dst, i64::from(self.replica)),
                Inst::Bin { dst, op, a, b } if self.vals[dst] == LTy::Num(Scalar::I32) => {
                    let [a, b] = [a, b].map(|v| self.same.get(&v).copied().unwrap_or(v));
                    match (op, self.numbers.get(&a), self.numbers.get(&b)) {
                        (_, Some(&x), Some(&y)) => {
                            if let Some(n) = eval_int(op, Scalar::I32, x, y) {
                                *inst = self.literal(dst, n);
                            }
                        }
                        (BinOp::Mul, _, Some(0)) | (BinOp::Mul, Some(0), _) => *inst = self.literal(dst, 0),
                        (BinOp::Add | BinOp::Sub, _, Some(0)) | (BinOp::Mul, _, Some(1)) => {
                            self.same.insert(dst, a);
                            return false;
                        }
                        (BinOp::Add, Some(0), _) | (BinOp::Mul, Some(1), _) => {
                            self.same.insert(dst, b);
                            return false;
                        }
                        _ => {}
                    }
                }
                _ => each_block_mut(inst, &mut |b| self.block(b)),
            }
            true
        });
    }

    fn literal(&mut self, dst: LVal, n: i64) -> Inst {
        self.numbers.insert(dst, n);
        Inst::Const { dst, bits: n as u64 }
    }
}

/// A replica of a role, with values of its own.
fn one(front: &Block, role: &Role, replica: u32, vals: &mut PrimaryMap<LVal, LTy>) -> Role {
    let mut body = role.body.clone();
    if replica > 0 {
        let mut own: SecondaryMap<LVal, Option<LVal>> = SecondaryMap::new();
        made(&role.body, &mut |v| own[v] = Some(vals.push(vals[v])));
        body.iter_mut().for_each(|i| i.rename(&mut |v| *v = own[*v].unwrap_or(*v)));
    }
    let mut naming = Naming { replica, vals, numbers: Map::default(), same: Map::default() };
    naming.front(front);
    naming.block(&mut body);
    let same = naming.same;
    if !same.is_empty() {
        body.iter_mut().for_each(|i| i.rename(&mut |v| *v = same.get(v).copied().unwrap_or(*v)));
    }
    let (name, first) = (role.name_of(replica), role.first + replica * role.stride());
    Role { name, first, replicas: 1, body, ..*role }
}

impl Program {
    /// The same program, in which no role has several replicas.
    pub fn roles_apart(&self) -> Cow<'_, Program> {
        let Some(roles) = self.roles().filter(|r| r.roles.iter().any(|r| r.replicas > 1)) else { return Cow::Borrowed(self) };
        let mut out = self.clone();
        let all = roles.roles.iter().flat_map(|r| (0..r.replicas).map(move |n| (r, n)));
        let roles = all.map(|(r, n)| one(&self.body, r, n, &mut out.vals)).collect();
        if let Some(last) = out.body.last_mut() {
            *last = Inst::Roles(Box::new(Roles { roles }));
        }
        Cow::Owned(out)
    }
}
