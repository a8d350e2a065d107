//! Two `f32` as the halves of a word: both conversions and the packing as one.
//!
//! ```text
//! a = cvt x : f16    b = cvt y : f16    pack a b        v_cvt_f16_f32 w, x    v_cvt_f16_f32_sdwa w, y dst_sel:WORD_1
//!                                                       v_cvt_pk_f16_f32 w, x, y                                       where the chip has that
//! ```

use super::selector::{Done, Selector};
use crate::chip::Chip;
use crate::isa::Opcode;
use crate::mir::{Mods, Part, Rest, Sdwa};
use cranelift_entity::SecondaryMap;
use std::borrow::Cow;
use tilelift_ir::Scalar;
use tilelift_lane::{Block, Inst, LTy, LVal, Program, visit};

/// The program with such words made at once.
pub(super) fn fused(program: &Program, chip: Chip) -> Cow<'_, Program> {
    let mut uses: SecondaryMap<LVal, u32> = SecondaryMap::new();
    program.body.iter().for_each(|inst| visit::reads(inst, &mut |v| uses[v] += 1));
    let mut from: SecondaryMap<LVal, Option<LVal>> = SecondaryMap::new();
    note(program, &program.body, &mut from);
    let words = Words { from, uses, bf16: Opcode::VCvtPkBf16F32.desc().number(chip).is_some() };
    if !words.any(program, &program.body) {
        return Cow::Borrowed(program);
    }
    let mut new = program.clone();
    let mut body = std::mem::take(&mut new.body);
    words.replace(&new, &mut body);
    new.body = body;
    Cow::Owned(new)
}

/// What each value is converted of, of those that are `f32` otherwise.
fn note(program: &Program, block: &Block, from: &mut SecondaryMap<LVal, Option<LVal>>) {
    for inst in block {
        if let Inst::Cvt { dst, a } = inst
            && program.vals[*a] == LTy::F32
        {
            from[*dst] = Some(*a);
        }
        visit::blocks(inst).for_each(|b| note(program, b, from));
    }
}

struct Words {
    from: SecondaryMap<LVal, Option<LVal>>,
    uses: SecondaryMap<LVal, u32>,
    /// Pairs of `bf16` are made at once, too.
    bf16: bool,
}

impl Words {
    /// The instruction that makes a word at once.
    fn word(&self, program: &Program, inst: &Inst) -> Option<Inst> {
        let Inst::Pack { dst, parts } = inst else { return None };
        let &[a, b] = &parts[..] else { return None };
        let (low, high) = (self.from[a]?, self.from[b]?);
        let alone = a != b && self.uses[a] == 1 && self.uses[b] == 1;
        match program.vals[a] {
            LTy::Num(Scalar::F16) if alone => Some(Inst::CvtF16x2 { dst: *dst, low, high }),
            LTy::Num(Scalar::BF16) if alone && self.bf16 => Some(Inst::CvtBf16x2 { dst: *dst, low, high }),
            _ => None,
        }
    }

    fn any(&self, program: &Program, block: &Block) -> bool {
        block.iter().any(|inst| self.word(program, inst).is_some() || visit::blocks(inst).any(|b| self.any(program, b)))
    }

    /// Conversions that nobody reads any more are not selected.
    fn replace(&self, program: &Program, block: &mut Block) {
        for inst in block {
            visit::blocks_mut(inst).into_iter().for_each(|b| self.replace(program, b));
            if let Some(word) = self.word(program, inst) {
                *inst = word;
            }
        }
    }
}

impl Selector<'_> {
    /// Two `f32` as a word of `f16`, or of `bf16`.
    pub(super) fn halves_of(&mut self, dst: LVal, [low, high]: [LVal; 2], to: Scalar) -> Done {
        let operands = [self.op(low), self.op(high)];
        let code = if to == Scalar::F16 { Opcode::VCvtPkF16F32 } else { Opcode::VCvtPkBf16F32 };
        let at_once = code.desc().number(self.chip).is_some();
        self.compute(dst, |s, word| {
            if at_once {
                s.valu(code, word, &operands);
                return Ok(());
            }
            let high = s.in_vector(operands[1], 1);
            s.valu(Opcode::VCvtF16F32, word, &operands[..1]);
            let upper = Sdwa { dst: Part::Word1, rest: Rest::Keep, src: [Part::Dword; 2], signed: 0 };
            s.push(crate::mir::Inst::new(Opcode::VCvtF16F32, [word.into(), high.into()]).with(Mods { sdwa: Some(upper), ..Mods::default() }));
            Ok(())
        })
    }
}
