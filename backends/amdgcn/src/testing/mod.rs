//! What the tests of several passes need: machine programs made from a seed, and an interpreter of them that knows no arithmetic.

pub(crate) mod generate;
pub(crate) mod interpret;
pub(crate) mod product;

use crate::mir::{Operand, Program, Reg};
use std::fmt::Write;

/// A program as text, for messages.
pub(crate) fn dump(program: &Program) -> String {
    let mut out = String::new();
    for (block, data) in program.blocks.iter() {
        let _ = writeln!(out, "{block}: -> {:?}", data.next);
        for (at, inst) in data.insts.iter().enumerate() {
            let _ = write!(out, "  {at:3} {:?}", inst.op);
            for operand in &inst.operands {
                let _ = match operand {
                    Operand::Reg(s) => match s.reg {
                        Reg::Virtual(r) => write!(out, " {r}[{}:{}]", s.first, s.first + s.words),
                        Reg::Physical(f, n) => write!(out, " {f:?}{}:{}", n + u16::from(s.first), s.words),
                        Reg::Fixed(f) => write!(out, " {f:?}"),
                    },
                    other => write!(out, " {other:?}"),
                };
            }
            out.push('\n');
        }
    }
    out
}
