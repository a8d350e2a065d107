//! Loads of a few bytes that come back for their neighbours, so that the line is better fetched from memory as a whole.
//!
//! ```text
//! a loop with asynchronous units carries what it loads for the next step, a number per lane: scales of groups, as a rule, row by row
//! a row's numbers of the next groups lie beside this one's: of the steps that would wait for memory, one does
//! ```

use std::collections::{BTreeMap, BTreeSet};
use tilelift_isel::lane::visit::blocks;
use tilelift_isel::lane::{Block, For, Inst, LVal, Vals};

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
        blocks(inst).for_each(|b| collect(b, out));
    }
}

/// What a block loads number by number.
fn loads(block: &Block) -> BTreeSet<LVal> {
    block.iter().filter_map(|i| if let Inst::LoadGlobal { dsts, .. } = i { Some(dsts) } else { None }).filter_map(single).collect()
}

fn single(dsts: &Vals) -> Option<LVal> {
    if let [v] = dsts[..] { Some(v) } else { None }
}

/// What a loop loads a step ahead, by itself or in an arm of a choice, and what has been loaded so for the first one.
fn ahead(l: &For, out: &mut BTreeSet<LVal>) {
    // What the next step finds, by what was loaded for it.
    let mut made: BTreeMap<LVal, LVal> = BTreeMap::new();
    for c in l.body.iter().filter_map(|i| if let Inst::If(c) = i { Some(c) } else { None }) {
        let [then, otherwise] = [&c.then, &c.otherwise].map(loads);
        let loading = !then.is_empty() || !otherwise.is_empty();
        for &(result, a, b) in c.results.iter().filter(|_| loading) {
            let loaded = if then.contains(&a) { Some(a) } else { Some(b).filter(|b| otherwise.contains(b)) };
            made.extend(loaded.map(|v| (result, v)));
        }
    }
    made.extend(loads(&l.body).into_iter().map(|v| (v, v)));
    for c in l.carried.iter().filter(|_| !made.is_empty()) {
        // A mark on what no load makes says nothing.
        out.extend(made.get(&c.next).into_iter().flat_map(|&v| [v, c.init]));
    }
}
