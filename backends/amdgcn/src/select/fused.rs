//! Two `f32` as the halves of a word, or four as codes of 8-bit floats in one: conversions and the packing as one.
//!
//! ```text
//! a = cvt x : f16    b = cvt y : f16    pack a b        v_cvt_f16_f32 w, x    v_cvt_f16_f32_sdwa w, y dst_sel:WORD_1
//!                                                       v_cvt_pk_f16_f32 w, x, y                                       where the chip has that
//! encode x ... encode y as four bytes of a word         pairs of codes, whose word is selected at once ([`super::codes`])
//! ```

use super::codes::{encoded, own};
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
    let bf16 = Opcode::VCvtPkBf16F32.desc().number(chip).is_some();
    let mut codes = Codes::default();
    if !crate::machine::target(chip).code_casts.is_empty() {
        codes.note(program, &program.body);
    }
    let words = FusedWords { chip, from, uses, bf16, codes };
    if !words.any(program, &program.body) {
        return Cow::Borrowed(program);
    }
    let mut new = program.clone();
    let mut body = std::mem::take(&mut new.body);
    words.replace(&mut new, &mut body);
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

/// Of what codes are made.
#[derive(Default)]
struct Codes {
    /// The `f32` of which bits are.
    bits: SecondaryMap<LVal, Option<LVal>>,
    /// The format and the `f32` of a code as an integer, of any width.
    code: SecondaryMap<LVal, Option<(Scalar, LVal)>>,
    /// The same of two codes.
    pair: SecondaryMap<LVal, Option<(bool, [LVal; 2])>>,
}

impl Codes {
    fn note(&mut self, program: &Program, block: &Block) {
        for inst in block {
            match *inst {
                Inst::Bitcast { dst, a } if program.vals[a] == LTy::F32 => self.bits[dst] = Some(a),
                Inst::Un { dst, op, a } => self.code[dst] = encoded(op).zip(self.bits[a]),
                Inst::Cvt { dst, a } if program.vals[dst] == LTy::Num(Scalar::I8) => self.code[dst] = self.code[a],
                Inst::CvtE4M3x2 { dst, low, high } => self.pair[dst] = Some((false, [low, high])),
                Inst::CvtE5M2x2 { dst, low, high } => self.pair[dst] = Some((true, [low, high])),
                _ => {}
            }
            visit::blocks(inst).for_each(|b| self.note(program, b));
        }
    }
}

struct FusedWords {
    chip: Chip,
    codes: Codes,
    from: SecondaryMap<LVal, Option<LVal>>,
    uses: SecondaryMap<LVal, u32>,
    /// Pairs of `bf16` are made at once, too.
    bf16: bool,
}

impl FusedWords {
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

    /// The numbers of which the four codes of a word are, and whether these are of the format with two bits of fraction.
    fn four(&self, inst: &Inst) -> Option<(LVal, [LVal; 4], bool)> {
        let Inst::Pack { dst, parts } = inst else { return None };
        match parts[..] {
            [a, b] if a != b && self.uses[a] == 1 && self.uses[b] == 1 => {
                let ((short, [x, y]), (same, [z, w])) = (self.codes.pair[a]?, self.codes.pair[b]?);
                (short == same).then_some((*dst, [x, y, z, w], short))
            }
            [a, b, c, d] => {
                let all = [a, b, c, d].map(|v| self.codes.code[v].filter(|_| self.uses[v] == 1));
                let [x, y, z, w] = [all[0]?, all[1]?, all[2]?, all[3]?];
                let short = x.0 == own(self.chip, true);
                let same = [x, y, z, w].iter().all(|n| n.0 == own(self.chip, short));
                same.then_some((*dst, [x.1, y.1, z.1, w.1], short))
            }
            _ => None,
        }
    }

    fn any(&self, program: &Program, block: &Block) -> bool {
        block.iter().any(|inst| {
            self.word(program, inst).is_some() || self.four(inst).is_some() || visit::blocks(inst).any(|b| self.any(program, b))
        })
    }

    /// Conversions that nobody reads any more are not selected.
    fn replace(&self, program: &mut Program, block: &mut Block) {
        let old = std::mem::take(block);
        for mut inst in old {
            visit::blocks_mut(&mut inst).into_iter().for_each(|b| self.replace(program, b));
            if let Some(word) = self.word(program, &inst) {
                block.push(word);
            } else if let Some((dst, [a, b, c, d], short)) = self.four(&inst) {
                // Of the upper half of a register with such a pair nothing is known.
                let pairs = [[a, b], [c, d]].map(|[low, high]| {
                    let dst = program.vals.push(LTy::Num(Scalar::F16));
                    block.push(if short { Inst::CvtE5M2x2 { dst, low, high } } else { Inst::CvtE4M3x2 { dst, low, high } });
                    dst
                });
                block.push(Inst::Pack { dst, parts: pairs.into_iter().collect() });
            } else {
                block.push(inst);
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
            s.push(
                crate::mir::Inst::new(Opcode::VCvtF16F32, [word.into(), high.into()]).with(Mods { sdwa: Some(upper), ..Mods::default() }),
            );
            Ok(())
        })
    }
}
