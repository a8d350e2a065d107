//! Loads of a few bytes that come back for their neighbours, so that the line is better fetched from memory as a whole.
//!
//! ```text
//! a loop with asynchronous units carries what it loads for the next step, a number per lane: scales of groups, as a rule, row by row
//! a row's numbers of the next groups lie beside this one's: of the steps that would wait for memory, one does
//! ```

use std::collections::BTreeSet;
use tilelift_isel::lane::visit::blocks;
use tilelift_isel::lane::{Block, For, Inst, LVal};

/// What such loads of a program bring, in loops and in front of them.
pub(super) fn lines(block: &Block) -> BTreeSet<LVal> {
    let mut out = BTreeSet::new();
    collect(block, &mut out);
    out
}

fn collect(block: &Block, out: &mut BTreeSet<LVal>) {
    for inst in block {
        if let Inst::For(l) = inst
            && l.body.iter().any(|i| matches!(i, Inst::Unit(_)))
        {
            ahead(l, out);
        }
        blocks(inst).into_iter().for_each(|b| collect(b, out));
    }
}

/// True for a block that loads one number by itself, into this value.
fn loads(block: &Block, v: LVal) -> bool {
    block.iter().any(|i| matches!(i, Inst::LoadGlobal { dsts, .. } if dsts[..] == [v]))
}

/// What a loop loads a step ahead, by itself or in an arm of a choice, and what has been loaded so for the first one.
fn ahead(l: &For, out: &mut BTreeSet<LVal>) {
    let choices = l.body.iter().filter_map(|i| if let Inst::If(c) = i { Some(c) } else { None });
    let mut arms: Vec<(LVal, LVal)> = Vec::new();
    for c in choices {
        for &(result, a, b) in &c.results {
            arms.extend([(a, &c.then), (b, &c.otherwise)].into_iter().filter(|x| loads(x.1, x.0)).map(|x| (result, x.0)));
        }
    }
    for c in &l.carried {
        let made = if loads(&l.body, c.next) { Some(c.next) } else { arms.iter().find(|x| x.0 == c.next).map(|x| x.1) };
        // A mark on what no load makes says nothing.
        out.extend(made.into_iter().flat_map(|v| [v, c.init]));
    }
}
