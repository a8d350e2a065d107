//! Which values are the same in all lanes of a wavefront, and which kind of register holds a value.
//!
//! ```text
//! i1                                   Mask     64 bits in scalar registers, one per lane
//! i8 i16 i32 i64, alike in all lanes   Scalar   scalar registers
//! everything else                      Vector   vector registers
//! ```
//!
//! Values begin as alike and lose that where something differs per lane: the lane's number, loads, what other lanes hold, matrix
//! instructions. Loops are gone through until nothing changes. Control flow is the same in all lanes, so that what it picks is alike if the
//! alternatives are.

use super::ops::Numbers;
use cranelift_entity::SecondaryMap;
use tilelift_lane::{Block, Carried, Control, Effect, Inst, LVal, Program, Special};

/// A kind of register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RegisterClass {
    /// A bit per lane, in two scalar registers.
    Mask,
    /// Scalar registers.
    Scalar,
    /// Vector registers.
    Vector,
}

/// True for values that differ per lane.
pub(super) type Varies = SecondaryMap<LVal, bool>;

/// What is known of the values of a program.
pub(super) struct Uniform<'a> {
    program: &'a Program,
    /// True for what differs per lane.
    varies: Varies,
    /// True for what is alike and lives in vector registers all the same.
    demoted: SecondaryMap<LVal, bool>,
    changed: bool,
}

impl<'a> Uniform<'a> {
    /// Looks at a program.
    pub(super) fn new(program: &'a Program) -> Uniform<'a> {
        let mut u = Uniform { program, varies: SecondaryMap::new(), demoted: SecondaryMap::new(), changed: true };
        while u.changed {
            u.changed = false;
            u.block(&program.body);
        }
        u
    }

    /// What is known already of a program's values.
    pub(super) fn of(program: &'a Program, varies: Varies) -> Uniform<'a> {
        Uniform { program, varies, demoted: SecondaryMap::new(), changed: false }
    }

    /// What differs per lane.
    pub(super) fn varies(self) -> Varies {
        self.varies
    }

    /// True if a value is the same in all lanes of a wavefront.
    pub(super) fn alike(&self, v: LVal) -> bool {
        !self.varies[v]
    }

    /// From now on the value lives in vector registers.
    pub(super) fn demote(&mut self, v: LVal) {
        self.demoted[v] = true;
    }

    /// The kind of register that holds a value.
    pub(super) fn class(&self, v: LVal) -> RegisterClass {
        match Numbers::of(self.program.vals[v]) {
            Numbers::Truth => RegisterClass::Mask,
            Numbers::Int(_) | Numbers::Wide if self.alike(v) && !self.demoted[v] => RegisterClass::Scalar,
            Numbers::Int(_) | Numbers::Wide | Numbers::Float(_) | Numbers::None => RegisterClass::Vector,
        }
    }

    fn set(&mut self, v: LVal, varies: bool) {
        if varies && !self.varies[v] {
            self.varies[v] = true;
            self.changed = true;
        }
    }

    fn block(&mut self, block: &Block) {
        for inst in block {
            match inst.control() {
                Some(Control::For(l)) => self.around(&l.carried, &[&l.body]),
                Some(Control::While(l)) => self.around(&l.carried, &[&l.test, &l.body]),
                Some(Control::If(c)) => {
                    self.block(&c.then);
                    self.block(&c.otherwise);
                    for &(result, a, b) in &c.results {
                        self.set(result, self.varies[a] || self.varies[b]);
                    }
                }
                Some(Control::Roles(_)) => {}
                None => self.simple(inst),
            }
        }
    }

    fn around(&mut self, carried: &[Carried], blocks: &[&Block]) {
        for c in carried {
            self.set(c.param, self.varies[c.init]);
        }
        blocks.iter().for_each(|b| self.block(b));
        for c in carried {
            self.set(c.param, self.varies[c.next]);
            self.set(c.result, self.varies[c.param]);
        }
    }

    fn simple(&mut self, inst: &Inst) {
        let varies = match inst.effect() {
            Effect::Compute => {
                let mut any = matches!(inst, Inst::Special { what: Special::Lane, .. });
                inst.operands(|v, _| any |= self.varies[v]);
                any
            }
            _ => true,
        };
        for &v in inst.results() {
            self.set(v, varies);
        }
    }
}
