//! Blocks of a function and its loops.

use super::code::{Code, Next};

/// A stretch of steps that is entered at its first and left at its last one.
pub(super) struct Block {
    pub first: usize,
    /// One behind the last.
    pub end: usize,
    pub next: Vec<usize>,
}

/// A loop: blocks from which control comes back to the head.
pub(super) struct Loop {
    pub head: usize,
    /// By block, whether it belongs to the loop.
    pub holds: Vec<bool>,
}

/// The blocks, in the order of the text.
pub(super) fn blocks(code: &Code) -> Vec<Block> {
    let n = code.steps.len();
    let mut leads = vec![false; n + 1];
    leads[0] = true;
    for (i, s) in code.steps.iter().enumerate() {
        if let Next::Jumps(t) | Next::Branches(t) = s.next {
            leads[t.min(n)] = true;
        }
        leads[i + 1] |= s.next != Next::Falls;
    }
    let starts: Vec<usize> = (0..n).filter(|&i| leads[i]).collect();
    let block_at = |step: usize| starts.binary_search(&step).ok();
    let ends = starts.iter().copied().skip(1).chain([n]);
    starts
        .iter()
        .zip(ends)
        .map(|(&first, end)| {
            let behind = block_at(end);
            let next = match code.steps[end - 1].next {
                Next::Falls | Next::MayEnd => behind.into_iter().collect(),
                Next::Jumps(t) => block_at(t).into_iter().collect(),
                Next::Branches(t) => block_at(t).into_iter().chain(behind).collect(),
                Next::Ends => vec![],
            };
            Block { first, end, next }
        })
        .collect()
}

/// The natural loops: edges back to a block that all ways to them lead through.
pub(super) fn loops(blocks: &[Block]) -> Vec<Loop> {
    let n = blocks.len();
    let mut before: Vec<Vec<usize>> = vec![vec![]; n];
    blocks.iter().enumerate().for_each(|(b, k)| k.next.iter().for_each(|&t| before[t].push(b)));
    // By block, those that every way from the entry to it leads through.
    let mut through = vec![vec![true; n]; n];
    through[0] = (0..n).map(|b| b == 0).collect();
    let mut reached = vec![false; n];
    let mut open = vec![0];
    while let Some(b) = open.pop() {
        if !std::mem::replace(&mut reached[b], true) {
            open.extend(&blocks[b].next);
        }
    }
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for b in (1..n).filter(|&b| reached[b]) {
            let came = before[b].iter().filter(|&&p| reached[p]);
            let mut now = came.fold(vec![true; n], |all, &p| all.iter().zip(&through[p]).map(|(x, y)| *x && *y).collect());
            now[b] = true;
            changed |= now != through[b];
            through[b] = now;
        }
    }
    let mut out: Vec<Loop> = Vec::new();
    for (from, b) in blocks.iter().enumerate().filter(|(from, _)| reached[*from]) {
        for &head in b.next.iter().filter(|&&h| through[from][h]) {
            let at = out.iter().position(|l| l.head == head).unwrap_or_else(|| {
                out.push(Loop { head, holds: (0..n).map(|k| k == head).collect() });
                out.len() - 1
            });
            let mut open = vec![from];
            while let Some(k) = open.pop() {
                if !std::mem::replace(&mut out[at].holds[k], true) {
                    open.extend(&before[k]);
                }
            }
        }
    }
    out
}
