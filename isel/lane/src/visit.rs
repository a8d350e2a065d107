//! What instructions read and make, blocks included.

use super::inst::{Block, Control, Inst, Role};
use super::value::{Carried, LVal};

/// Calls `f` for every value that an instruction reads where it stands, or inside its blocks.
pub fn reads(inst: &Inst, f: &mut dyn FnMut(LVal)) {
    match inst.control() {
        None => inst.operands(|v, _| f(v)),
        Some(Control::For(l)) => {
            [l.lo, l.hi, l.step].into_iter().for_each(&mut *f);
            l.carried.iter().for_each(|c| [c.init, c.next].into_iter().for_each(&mut *f));
            inside(&l.body, f);
        }
        Some(Control::While(l)) => {
            l.carried.iter().for_each(|c| [c.init, c.next].into_iter().for_each(&mut *f));
            f(l.condition);
            inside(&l.test, f);
            inside(&l.body, f);
        }
        Some(Control::If(c)) => {
            f(c.condition);
            c.results.iter().for_each(|&(_, a, b)| [a, b].into_iter().for_each(&mut *f));
            inside(&c.then, f);
            inside(&c.otherwise, f);
        }
        Some(Control::Roles(r)) => r.roles.iter().for_each(|r| inside(&r.body, f)),
    }
}

fn inside(block: &Block, f: &mut dyn FnMut(LVal)) {
    block.iter().for_each(|i| reads(i, f));
}

/// The values of an instruction that only computes; `None` for any other.
pub fn computed(inst: &Inst) -> Option<&[LVal]> {
    inst.effect().computes().then(|| inst.results())
}

/// The values that an instruction makes for those behind it.
pub fn results(inst: &Inst) -> Vec<LVal> {
    match inst.control() {
        None => inst.results().to_vec(),
        Some(Control::For(l)) => l.carried.iter().map(|c| c.result).collect(),
        Some(Control::While(l)) => l.carried.iter().map(|c| c.result).collect(),
        Some(Control::If(c)) => c.results.iter().map(|r| r.0).collect(),
        Some(Control::Roles(_)) => Vec::new(),
    }
}

/// The blocks of an instruction.
#[derive(Clone, Debug)]
pub struct Blocks<'i> {
    /// Those of a loop or a choice.
    own: [Option<&'i Block>; 2],
    /// Those of roles.
    roles: &'i [Role],
}

impl Blocks<'_> {
    /// True if there is none left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self.own, [None, None]) && self.roles.is_empty()
    }
}

impl<'i> Iterator for Blocks<'i> {
    type Item = &'i Block;

    #[inline]
    fn next(&mut self) -> Option<&'i Block> {
        let [first, second] = &mut self.own;
        if let Some(block) = first.take().or_else(|| second.take()) {
            return Some(block);
        }
        let (role, behind) = self.roles.split_first()?;
        self.roles = behind;
        Some(&role.body)
    }

    // As a rule there are none: asked once, and not of each place where one may be.
    #[inline(always)]
    fn fold<T, F: FnMut(T, &'i Block) -> T>(self, first: T, mut f: F) -> T {
        let mut all = first;
        if !self.is_empty() {
            for block in self {
                all = f(all, block);
            }
        }
        all
    }
}

/// The blocks inside an instruction, in order.
#[inline]
pub fn blocks(inst: &Inst) -> Blocks<'_> {
    let (own, roles): (_, &[Role]) = match inst.control() {
        None => ([None, None], &[]),
        Some(Control::For(l)) => ([Some(&l.body), None], &[]),
        Some(Control::While(l)) => ([Some(&l.test), Some(&l.body)], &[]),
        Some(Control::If(c)) => ([Some(&c.then), Some(&c.otherwise)], &[]),
        Some(Control::Roles(r)) => ([None, None], &r.roles),
    };
    Blocks { own, roles }
}

/// Of each of an instruction's blocks those of its values that are read outside of it.
pub fn handed(inst: &Inst) -> Vec<Vec<LVal>> {
    let next = |carried: &[Carried]| carried.iter().map(|c| c.next).collect();
    match inst.control() {
        Some(Control::For(l)) => vec![next(&l.carried)],
        // The body sees what the test makes.
        Some(Control::While(l)) => vec![l.test.iter().flat_map(results).collect(), next(&l.carried)],
        Some(Control::If(c)) => {
            let (then, otherwise) = c.results.iter().map(|&(_, a, b)| (a, b)).unzip();
            vec![then, otherwise]
        }
        Some(Control::Roles(r)) => r.roles.iter().map(|_| Vec::new()).collect(),
        None => Vec::new(),
    }
}

/// The same as [`blocks`], to change them.
pub fn blocks_mut(inst: &mut Inst) -> Vec<&mut Block> {
    match inst {
        Inst::For(l) => vec![&mut l.body],
        Inst::While(l) => vec![&mut l.test, &mut l.body],
        Inst::If(c) => vec![&mut c.then, &mut c.otherwise],
        Inst::Roles(r) => r.roles.iter_mut().map(|r| &mut r.body).collect(),
        _ => Vec::new(),
    }
}
