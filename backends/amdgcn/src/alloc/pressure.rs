//! Registers in use per row: a tree of maxima, so that adding a range and asking for the most in one take steps of the logarithm of the rows.

use super::live::Seg;

/// Counts of registers per row that are made at once: where counts change, and by how much.
pub(super) struct Changes(Vec<i32>);

impl Changes {
    /// Nothing is in use.
    pub(super) fn new(rows: usize) -> Changes {
        Changes(vec![0; rows + 1])
    }

    /// Adds a word's rows.
    pub(super) fn add(&mut self, segs: &[Seg]) {
        for seg in segs.iter().filter(|seg| seg.start < seg.end) {
            self.0[seg.start as usize] += 1;
            self.0[seg.end as usize] -= 1;
        }
    }

    /// Registers in use per row.
    pub(super) fn counts(mut self) -> Vec<i32> {
        self.0.pop();
        let mut now = 0;
        self.0.iter_mut().for_each(|count| {
            now += *count;
            *count = now;
        });
        self.0
    }
}

/// Registers in use per row, of a file.
#[derive(Clone, Debug)]
pub(super) struct Pressure {
    /// Rows, rounded up to a power of two.
    width: usize,
    /// Per node of the tree the most in use in some of its rows, but for what was added to nodes above it; node `n` stands over `2n` and `2n + 1`.
    most: Vec<i32>,
    /// Per node what was added to all its rows.
    added: Vec<i32>,
}

impl Pressure {
    /// Nothing is in use.
    pub(super) fn new(rows: usize) -> Pressure {
        let width = rows.max(1).next_power_of_two();
        Pressure { width, most: vec![0; 2 * width], added: vec![0; 2 * width] }
    }

    /// So many are in use in each row.
    pub(super) fn of(counts: &[i32]) -> Pressure {
        let mut made = Pressure::new(counts.len());
        made.most[made.width..][..counts.len()].copy_from_slice(counts);
        for node in (1..made.width).rev() {
            made.most[node] = made.most[2 * node].max(made.most[2 * node + 1]);
        }
        made
    }

    /// Adds a word's rows, `by` times.
    pub(super) fn add(&mut self, segs: &[Seg], by: i32) {
        for seg in segs {
            self.add_below(1, 0, self.width, (seg.start as usize, seg.end as usize), by);
        }
    }

    /// The most in use in some row.
    pub(super) fn highest(&self) -> usize {
        self.most[1].max(0) as usize
    }

    /// The most in use in some of the rows.
    pub(super) fn within(&self, segs: &[Seg]) -> usize {
        let most = segs.iter().filter_map(|seg| self.most_below(1, 0, self.width, (seg.start as usize, seg.end as usize)));
        most.max().unwrap_or(0).max(0) as usize
    }

    /// The first row from `from` on in which more than `limit` are in use.
    pub(super) fn above(&self, from: usize, limit: usize) -> Option<usize> {
        self.above_below(1, 0, self.width, from, limit as i32)
    }

    fn add_below(&mut self, node: usize, start: usize, width: usize, rows: (usize, usize), by: i32) {
        if rows.1 <= start || start + width <= rows.0 {
            return;
        }
        if rows.0 <= start && start + width <= rows.1 {
            self.most[node] += by;
            self.added[node] += by;
            return;
        }
        let half = width / 2;
        self.add_below(2 * node, start, half, rows, by);
        self.add_below(2 * node + 1, start + half, half, rows, by);
        self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]) + self.added[node];
    }

    fn most_below(&self, node: usize, start: usize, width: usize, rows: (usize, usize)) -> Option<i32> {
        if rows.1 <= start || start + width <= rows.0 {
            return None;
        }
        if rows.0 <= start && start + width <= rows.1 {
            return Some(self.most[node]);
        }
        let half = width / 2;
        let below = |node: usize, start: usize| self.most_below(node, start, half, rows);
        below(2 * node, start).max(below(2 * node + 1, start + half)).map(|most| most + self.added[node])
    }

    fn above_below(&self, node: usize, start: usize, width: usize, from: usize, limit: i32) -> Option<usize> {
        if start + width <= from || self.most[node] <= limit {
            return None;
        }
        if width == 1 {
            return Some(start);
        }
        let (half, limit) = (width / 2, limit - self.added[node]);
        self.above_below(2 * node, start, half, from, limit).or_else(|| self.above_below(2 * node + 1, start + half, half, from, limit))
    }
}
