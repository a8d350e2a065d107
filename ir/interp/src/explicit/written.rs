//! Bytes that async units have written, or are writing.

use std::collections::BTreeMap;
use std::ops::Range;
use tilelift_ir::Inst;

/// Bytes of a buffer.
pub(super) type Bytes = (usize, Range<usize>);

/// The bytes that the async units of a program have written, or are writing.
#[derive(Default)]
pub(super) struct Written {
    stored: Spans,
    reduced: Spans,
}

/// Ranges that do not meet, by buffer and first byte: their ends, and what wrote them.
#[derive(Default)]
struct Spans(BTreeMap<(usize, usize), (usize, Inst)>);

impl Spans {
    fn meets(&self, (buffer, r): &Bytes) -> Option<Inst> {
        let (&(b, _), &(end, by)) = self.0.range(..(*buffer, r.end)).next_back()?;
        (b == *buffer && end > r.start).then_some(by)
    }

    fn add(&mut self, (buffer, mut r): Bytes, by: Inst) {
        while let Some((&at, &(end, _))) = self.0.range(..(buffer, r.end)).next_back()
            && at.0 == buffer
            && end > r.start
        {
            self.0.remove(&at);
            r = r.start.min(at.1)..r.end.max(end);
        }
        self.0.insert((buffer, r.start), (r.end, by));
    }
}

impl Written {
    /// What else writes some of the bytes; updates do not mind one another.
    pub(super) fn meets(&self, rows: &[Bytes], reduces: bool) -> Option<Inst> {
        let all = if reduces { &[&self.stored][..] } else { &[&self.stored, &self.reduced] };
        all.iter().find_map(|s| rows.iter().find_map(|r| s.meets(r)))
    }

    pub(super) fn note(&mut self, rows: Vec<Bytes>, reduces: bool, by: Inst) {
        let spans = if reduces { &mut self.reduced } else { &mut self.stored };
        rows.into_iter().for_each(|r| spans.add(r, by));
    }
}
