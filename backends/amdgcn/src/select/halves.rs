//! Words of halves of other words: the bytes are picked at once, and no upper half comes to a register of its own.
//!
//! ```text
//! unpack x → a b    unpack y → c d    pack b d        permute x y, bytes 2 3 6 7
//! ```

use cranelift_entity::SecondaryMap;
use std::borrow::Cow;
use tilelift_lane::{Block, Inst, LTy, LVal, Program, visit};

/// The half that a value is: of which word, and whether it is the upper one.
type Half = Option<(LVal, bool)>;

/// The program with such words taken from where their halves are.
pub(super) fn picked(program: &Program) -> Cow<'_, Program> {
    let mut halves = SecondaryMap::new();
    note(&program.body, &mut halves);
    if !any(&program.body, &halves) {
        return Cow::Borrowed(program);
    }
    let mut new = program.clone();
    let body = std::mem::take(&mut new.body);
    new.body = block(&mut new, body, &halves);
    Cow::Owned(new)
}

fn note(block: &Block, halves: &mut SecondaryMap<LVal, Half>) {
    for inst in block {
        if let Inst::Unpack { dsts, a } = inst
            && let [low, high] = dsts[..]
        {
            (halves[low], halves[high]) = (Some((*a, false)), Some((*a, true)));
        }
        visit::blocks(inst).for_each(|b| note(b, halves));
    }
}

/// The two halves of a word, if an upper one is among them. Other values are lower halves of their registers.
fn upper(inst: &Inst, halves: &SecondaryMap<LVal, Half>) -> Option<[(LVal, bool); 2]> {
    let Inst::Pack { parts, .. } = inst else { return None };
    let [a, b] = parts[..] else { return None };
    let found = [a, b].map(|p| halves[p].unwrap_or((p, false)));
    found.iter().any(|h| h.1).then_some(found)
}

fn any(block: &Block, halves: &SecondaryMap<LVal, Half>) -> bool {
    block.iter().any(|inst| upper(inst, halves).is_some() || visit::blocks(inst).any(|b| any(b, halves)))
}

fn block(program: &mut Program, old: Block, halves: &SecondaryMap<LVal, Half>) -> Block {
    let mut out = Block::default();
    for mut inst in old {
        for inner in visit::blocks_mut(&mut inst) {
            *inner = block(program, std::mem::take(inner), halves);
        }
        if let (Inst::Pack { dst, .. }, Some([low, high])) = (&inst, upper(&inst, halves)) {
            let of = |upper: bool| if upper { 0x32u64 } else { 0x10 };
            let picks = program.vals.push(LTy::I32);
            out.push(Inst::Const { dst: picks, bits: of(low.1) | (of(high.1) + 0x44) << 8 });
            inst = Inst::Permute { dst: *dst, low: low.0, high: high.0, picks };
        }
        out.push(inst);
    }
    out
}
