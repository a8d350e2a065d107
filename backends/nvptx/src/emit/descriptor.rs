//! Descriptors of operands in shared memory: the low word is address / 16 with the distance of swizzle atoms above, the high word constant.
//!
//! ```text
//! known to be alike in all lanes     whole = {address / 16 | lead, high}     whole + offset / 16     one instruction of 64 bits in uniform registers
//! else                               low = address / 16 | lead               {low + offset / 16, high}
//! ```
//!
//! Of two words the assembler copies both to uniform registers for every product; where the sum of 64 bits is one of lanes, it takes two instructions and their carry.
//! "Asynchronous warpgroup level matrix instructions" in the PTX ISA.

use super::state::{Emitter, Top};
use super::text::Reg;
use crate::analysis::{Address, Base};
use crate::class::Class;
use tilelift_isel::lane::{GroupOperand, SwizzleAtoms};

/// Derived registers: the low word of a descriptor, with the distance of swizzle atoms; with the mode of its swizzle above, the whole descriptor.
const DESCRIPTOR: u32 = 1 << 16;
/// Where that mode stands.
const MODE: u32 = 17;

/// What descriptors of operands that lie alike have in common.
#[derive(Clone, Copy)]
struct Form {
    /// The distance of swizzle atoms, in the low word.
    lead: u32,
    /// The mode of the swizzle.
    mode: u32,
    /// The high word.
    high: u32,
}

impl Form {
    fn of(atoms: SwizzleAtoms) -> Form {
        let SwizzleAtoms { swizzle, along_k, stride } = atoms;
        let mode: u32 = match swizzle {
            128 => 1,
            64 => 2,
            _ => 3,
        };
        // Along K the distance of atoms is not looked at: an instruction stays inside one. The high word has that of eight rows.
        Form { lead: if along_k { 1 } else { stride / 16 }, mode, high: mode << 30 | (8 * swizzle / 16) }
    }
}

impl Emitter<'_> {
    /// The descriptor of an operand.
    pub(super) fn descriptor(&mut self, o: &GroupOperand) -> Reg {
        let form = Form::of(o.atoms);
        let Address { base, offset } = self.defs.address(o.at.addr, o.at.offset);
        let whole = match base {
            Base::Value(v) if self.uniform.holds(v) => {
                let r = self.reg(v);
                self.derive(v, DESCRIPTOR | form.mode << MODE | form.lead, Class::D, |e, d| e.whole(r, form, d))
            }
            Base::Shared if self.uniform.holds_at_products() => {
                let (start, d) = (self.load(Top::Shared(0)), self.fresh(Class::D));
                self.whole(start, form, d);
                d
            }
            Base::Value(v) => {
                let r = self.reg(v);
                let low = self.derive(v, DESCRIPTOR | form.lead, Class::R, |e, w| e.low(r, form, w));
                return self.of_words(low, offset, form);
            }
            Base::Shared => {
                let (start, low) = (self.load(Top::Shared(0)), self.fresh(Class::R));
                self.low(start, form, low);
                return self.of_words(low, offset, form);
            }
        };
        if offset == 0 {
            return whole;
        }
        let d = self.fresh(Class::D);
        self.body.op("add.s64 ").r(d).s(", ").r(whole).s(", ").n(offset / 16).end();
        d
    }

    /// A descriptor so many bytes behind the address of a low word.
    fn of_words(&mut self, low: Reg, offset: i32, form: Form) -> Reg {
        let mut word = low;
        if offset != 0 {
            word = self.fresh(Class::R);
            self.body.op("add.s32 ").r(word).s(", ").r(low).s(", ").n(offset / 16).end();
        }
        let d = self.fresh(Class::D);
        self.join(word, form, d);
        d
    }

    /// The low word of an address.
    fn low(&mut self, from: Reg, form: Form, w: Reg) {
        // An address in a cluster has the block's rank in its upper bits, where the distance of atoms stands in the descriptor.
        if self.program.cluster > 1 {
            self.body.op("bfe.u32 ").r(w).s(", ").r(from).s(", 4, 14").end();
        } else {
            self.body.op("shr.u32 ").r(w).s(", ").r(from).s(", 4").end();
        }
        self.body.op("or.b32 ").r(w).s(", ").r(w).s(", ").n(form.lead << 16).end();
    }

    /// The descriptor of an address.
    fn whole(&mut self, from: Reg, form: Form, d: Reg) {
        let w = self.fresh(Class::R);
        self.low(from, form, w);
        self.join(w, form, d);
    }

    fn join(&mut self, low: Reg, form: Form, d: Reg) {
        let high = self.load(Top::Const(Class::R, u64::from(form.high)));
        self.body.op("mov.b64 ").r(d).s(", ").braced(&[low, high]).end();
    }
}
