//! Lane programs from which an instruction is left out.

use tilelift_isel::lane::{Block, Inst, Unit};

/// Takes away the `nth` instruction of a block that is asked for; true if there was one.
pub fn without(block: &mut Block, is: &dyn Fn(&Inst) -> bool, left: &mut usize) -> bool {
    change(block, is, left, &|block, i| _ = block.remove(i))
}

/// Does it twice.
#[allow(dead_code, reason = "not every test does")]
pub fn twice(block: &mut Block, is: &dyn Fn(&Inst) -> bool, left: &mut usize) -> bool {
    change(block, is, left, &|block, i| block.insert(i, block[i].clone()))
}

fn change(block: &mut Block, is: &dyn Fn(&Inst) -> bool, left: &mut usize, how: &dyn Fn(&mut Block, usize)) -> bool {
    for i in 0..block.len() {
        if is(&block[i]) {
            if *left == 0 {
                how(block, i);
                return true;
            }
            *left -= 1;
        }
        let found = match &mut block[i] {
            Inst::For(l) => change(&mut l.body, is, left, how),
            Inst::If(c) => change(&mut c.then, is, left, how) || change(&mut c.otherwise, is, left, how),
            Inst::Roles(r) => r.roles.iter_mut().any(|r| change(&mut r.body, is, left, how)),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

pub fn unit(i: &Inst, is: fn(&Unit) -> bool) -> bool {
    matches!(i, Inst::Unit(u) if is(u))
}

/// A kind of instruction: what it is called, and which it is.
pub type Part = (&'static str, fn(&Inst) -> bool);
