//! The first `k` elements of rows of any length, with their positions; and one of them by chance, as a decoder chooses tokens.
//!
//! ```text
//! row        x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x     n elements
//! heads 1    └──┬──┘ └──┬──┘ └──┬──┘ └──┬──┘ └──┬──┘ └──┬──┘ └──┬──┘ └──┬──┘     the first element of each `group`
//! heads 2    └──────────┬──────────┘ └───────┬───────────┘ …                     the first of each group of those, …, until a tile holds all
//!
//! launch 1   reads the row, writes all heads: as many programs as tiles
//! launch 2   a program per row: the first k heads 2 ─► their groups of heads 1 ─► the first k of these ─► their groups of x ─► the first k
//! ```
//!
//! The first `k` elements lie in the groups of the first `k` heads: if one lay in another group, `k` heads would come before that group's head, which comes
//! before it or is it. Elements are ordered as by `sort` (NaN last in either direction), equal ones by position; groups of equal heads are taken in the order of
//! their positions, too, and looked at in that order. So launch 1 is a copy's worth of memory, and launch 2 looks at a few thousand elements.

use crate::facts::{ANY, MAX_DIVISOR, known, matrix, programs, vector};
use crate::launch::Workspace;
use crate::select::beyond;
use tilelift_ir::{BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, SortOrder, Value};

/// The first `k` elements of every row of a `rows x cols` matrix in order, and their positions.
///
/// ```
/// use tilelift_ir::{Scalar, SortOrder};
/// use tilelift_kernels::{TopK, TopKArgument};
/// let logits = TopK::new(Scalar::F32, SortOrder::Descending, 128_256, 50);
/// let launches = logits.sampling(64, 128_256)?;
/// assert_eq!(launches.len(), 2);
/// assert_eq!(launches[1].grid, [64, 1, 1]);
/// assert!(launches[1].arguments.ends_with(&[TopKArgument::InverseTemperature, TopKArgument::TopP]));
/// // Memory between the launches: one head of each group of 32, and one of each group of those.
/// assert_eq!(logits.workspaces(64, 128_256).len(), 2);
/// # Ok::<(), tilelift_ir::BuildErrors>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct TopK {
    /// Element type: a float or an integer.
    pub elem: Scalar,
    /// `Descending` for the largest.
    pub order: SortOrder,
    /// Elements kept of a row: at least 1, at most its columns.
    pub k: u32,
    /// The most columns of a row.
    pub most_cols: u32,
    /// Elements of a group, a power of two from 2 on.
    pub group: u32,
    /// What is known of `rows`.
    pub rows: Extent,
    /// What is known of `cols`.
    pub cols: Extent,
}

/// Elements of a tile that a program of the first launch reads.
const TILE: u32 = 4096;
/// Up to so many elements are not grouped further: a program of the second launch looks at all of them.
const LEAST: u32 = 1024;
/// Elements of a lane.
const OF_LANE: u32 = 16;
/// Elements of a group where up to so many are kept: of more elements there are fewer heads, but more elements are looked at behind them. (Measured with
/// 262,144 columns.)
const GROUPS: [(u32, u32); 4] = [(128, 32), (256, 16), (1024, 8), (u32::MAX, 4)];

/// What is passed for a parameter of a launch of [`TopK`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TopKArgument {
    /// The view of the rows.
    Rows,
    /// The view of a workspace, by its number.
    Workspace(usize),
    /// The view of the elements that were kept, `[rows, k]`.
    Values,
    /// The view of their positions, `[rows, k]`, `i32`.
    Positions,
    /// The view of random numbers from 0 to below 1, `[rows]`, `f32`.
    Number,
    /// The view of the positions that were chosen, `[rows]`, `i32`.
    Next,
    /// One over the temperature, an `f32`.
    InverseTemperature,
    /// The probability that what may be chosen has together (nucleus sampling), an `f32`; 1 for all `k`.
    TopP,
}

/// A launch of [`TopK`]: its arguments are in parameter order.
#[derive(Clone, Debug)]
pub struct TopKLaunch {
    /// The kernel.
    pub kernel: Kernel,
    /// Its grid.
    pub grid: [u32; 3],
    /// What is passed.
    pub arguments: Vec<TopKArgument>,
}

/// The row of a program of the second launch.
struct Row<'a> {
    view: Value,
    heads: &'a [Value],
    number: Value,
}

impl TopK {
    /// A configuration for rows of up to `cols` columns.
    pub fn new(elem: Scalar, order: SortOrder, cols: u32, k: u32) -> TopK {
        let group = GROUPS.iter().find(|g| k <= g.0).map_or(2, |g| g.1);
        TopK { elem, order, k, most_cols: cols, group, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape, whose columns are the most.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> TopK {
        (self.rows, self.cols, self.most_cols) = (known(rows), known(cols), cols);
        self
    }

    /// Levels of heads: none where a tile holds the row.
    fn levels(&self) -> u32 {
        let most = LEAST.max(padded(self.k).saturating_mul(self.group()));
        let (mut left, mut levels) = (self.most_cols, 0);
        while left > most {
            left = left.div_ceil(self.group());
            levels += 1;
        }
        levels
    }

    /// Heads of each level that a row of so many columns has room for: those of a tile make whole vectors, and beyond the row they are the last of all.
    pub fn heads(&self, cols: u32) -> Vec<u32> {
        let (mut n, mut of_tile) = (cols, self.tile());
        let mut next = || {
            (n, of_tile) = (n.div_ceil(self.group()), of_tile / self.group());
            n.next_multiple_of(of_tile.clamp(1, MAX_DIVISOR))
        };
        (0..self.levels()).map(|_| next()).collect()
    }

    /// The workspaces for so many rows of so many columns: the heads of each level.
    pub fn workspaces(&self, rows: u32, cols: u32) -> Vec<Workspace> {
        self.heads(cols).into_iter().map(|n| Workspace::new(self.elem, &[rows, n])).collect()
    }

    /// The launches for so many rows of so many columns, at least `k` and at most `most_cols`, one behind the other: values and positions of the first `k`. What
    /// lies behind `most_cols` columns is not looked at.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or elements without an order.
    pub fn launches(&self, rows: u32, cols: u32) -> Result<Vec<TopKLaunch>, BuildErrors> {
        self.all(rows, cols, self.first()?, &[TopKArgument::Values, TopKArgument::Positions])
    }

    /// The launches that choose one of the first `k` elements of each row by a random number, with the probabilities of their softmax.
    ///
    /// # Errors
    /// As [`TopK::launches`].
    pub fn sampling(&self, rows: u32, cols: u32) -> Result<Vec<TopKLaunch>, BuildErrors> {
        use TopKArgument::{InverseTemperature, Next, Number, TopP};
        self.all(rows, cols, self.sample()?, &[Number, Next, InverseTemperature, TopP])
    }

    fn all(&self, rows: u32, cols: u32, last: Kernel, behind: &[TopKArgument]) -> Result<Vec<TopKLaunch>, BuildErrors> {
        let levels = self.levels() as usize;
        let views = || std::iter::once(TopKArgument::Rows).chain((0..levels).map(TopKArgument::Workspace));
        let mut list = Vec::new();
        if let Some(kernel) = self.heads_kernel()? {
            let grid = [programs(cols, self.tile()).saturating_mul(rows), 1, 1];
            list.push(TopKLaunch { kernel, grid, arguments: views().collect() });
        }
        list.push(TopKLaunch { kernel: last, grid: [rows, 1, 1], arguments: views().chain(behind.iter().copied()).collect() });
        Ok(list)
    }

    /// The first launch: heads of all levels. Its parameters are the views `x[rows, cols]` and the workspaces'. None where a tile holds the row.
    ///
    /// # Errors
    /// As [`TopK::launches`].
    pub fn heads_kernel(&self) -> Result<Option<Kernel>, BuildErrors> {
        if self.levels() == 0 {
            return Ok(None);
        }
        let mut b = self.builder("heads", self.tile());
        let (x, heads) = self.views(&mut b);
        let pid = b.program_id(0);
        let tiles = b.dim(x, 1);
        let tiles = b.add(tiles, self.tile() - 1);
        let tiles = b.div(tiles, self.tile());
        let (row, tile) = (b.div(pid, tiles), b.rem(pid, tiles));
        let mut length = self.tile();
        let first = b.mul(tile, length);
        let other = beyond(&mut b, self.elem, self.order);
        let t = b.load_with(x, &[row, first], &[1, length], other);
        let mut t = b.reshape(t, &[length]);
        for &view in &heads {
            length /= self.group();
            t = b.reshape(t, &[length, self.group()]);
            t = self.first_of_each(&mut b, t);
            let first = b.mul(tile, length);
            let out = b.reshape(t, &[1, length]);
            b.store(view, &[row, first], out);
        }
        b.finish().map(Some)
    }

    /// The second launch. Its parameters are the views `x[rows, cols]`, the workspaces', `values[rows, k]` and `positions[rows, k]` (`i32`).
    ///
    /// # Errors
    /// As [`TopK::launches`].
    pub fn first(&self) -> Result<Kernel, BuildErrors> {
        let mut b = self.builder("first", self.looked_at());
        let (view, heads) = self.views(&mut b);
        let values = b.param(matrix(self.elem, self.rows, known(self.k)));
        let positions = b.param(matrix(Scalar::I32, self.rows, known(self.k)));
        let number = b.program_id(0);
        let (best, at) = self.best(&mut b, &Row { view, heads: &heads, number });
        let zero = b.constant(0, Scalar::I32);
        // The views drop what is beyond `k`.
        for (view, t) in [(values, best), (positions, at)] {
            let t = b.reshape(t, &[1, padded(self.k)]);
            b.store(view, &[number, zero], t);
        }
        b.finish()
    }

    /// The second launch that chooses. Its parameters are the views `x[rows, cols]`, the workspaces', `number[rows]` (`f32`) and `next[rows]` (`i32`), and the
    /// scalars `1 / temperature` and `p` (`f32`): of the first `k` those count of which the ones before them have less than `p` of the probability.
    ///
    /// # Errors
    /// As [`TopK::launches`].
    pub fn sample(&self) -> Result<Kernel, BuildErrors> {
        let mut b = self.builder("sample", self.looked_at());
        let (view, heads) = self.views(&mut b);
        let (numbers, next) = (b.param(vector(Scalar::F32, self.rows)), b.param(vector(Scalar::I32, self.rows)));
        let (colder, kept) = (b.param(Scalar::F32), b.param(Scalar::F32));
        let number = b.program_id(0);
        let (best, at) = self.best(&mut b, &Row { view, heads: &heads, number });
        let place = b.iota(&[padded(self.k)], 0);
        let counts = b.cmp(CmpOp::Lt, place, self.k);
        let never = b.full(&[padded(self.k)], f64::NEG_INFINITY, Scalar::F32);
        let best = b.cast(best, Scalar::F32);
        let best = b.select(counts, best, never);
        // What is no number is never chosen beside numbers.
        let best = b.maxnum(best, never);
        let most = b.reduce_keep(ReduceOp::Maximum, best, 0);
        let below = b.sub(best, most);
        let below = b.mul(below, colder);
        let weight = b.exp(below);
        let nothing = b.full(&[padded(self.k)], 0.0, Scalar::F32);
        let weight = b.select(counts, weight, nothing);
        let sums = b.scan(ReduceOp::Add, weight, 0);
        let total = b.reduce(ReduceOp::Maximum, sums, 0);
        let enough = b.mul(total, kept);
        let before = b.sub(sums, weight);
        let counts = b.cmp(CmpOp::Lt, before, enough);
        let sums_that_count = b.select(counts, sums, nothing);
        let total = b.reduce(ReduceOp::Maximum, sums_that_count, 0);
        let u = b.load_scalar(numbers, &[number]);
        let mark = b.mul(u, total);
        // As many as have running sums up to the mark come before the choice.
        let passed = b.cmp(CmpOp::Le, sums, mark);
        let passed = b.cast(passed, Scalar::I32);
        let passed = b.reduce(ReduceOp::Add, passed, 0);
        let chosen = b.minimum(passed, self.k.saturating_sub(1));
        let here = b.cmp(CmpOp::Eq, place, chosen);
        let none = b.full(&[padded(self.k)], 0, Scalar::I32);
        let at = b.select(here, at, none);
        let at = b.reduce(ReduceOp::Add, at, 0);
        let at = b.splat(at, &[1]);
        b.store(next, &[number], at);
        b.finish()
    }

    /// The first elements of a row and their positions, a power of two of them.
    fn best(&self, b: &mut KernelBuilder, row: &Row<'_>) -> (Value, Value) {
        let (k, group) = (padded(self.k), self.group());
        let levels: Vec<Value> = std::iter::once(row.view).chain(row.heads.iter().copied()).collect();
        let top = levels.len() - 1;
        let length = self.top();
        let (zero, all) = (b.constant(0, Scalar::I32), k.saturating_mul(group));
        let other = beyond(b, self.elem, self.order);
        let t = b.load_with(levels[top], &[row.number, zero], &[1, length], other);
        let t = b.reshape(t, &[length]);
        let (mut values, mut at) = b.top_k(self.order, t, 0, k);
        for &view in levels[..top].iter().rev() {
            // Groups in the order of their positions, so that equal elements are.
            let groups = b.sort(SortOrder::Ascending, at, 0);
            let groups = b.expand_dims(groups, 1);
            let first = b.mul(groups, group);
            let within = b.iota(&[1, group], 1);
            let first = b.broadcast(first, &[k, group]);
            let within = b.broadcast(within, &[k, group]);
            let positions = b.add(first, within);
            let t = b.gather(view, &[row.number, positions], other);
            let t = b.reshape(t, &[all]);
            let which;
            (values, which) = b.top_k(self.order, t, 0, k);
            let positions = b.reshape(positions, &[all]);
            at = b.gather_tile(positions, which, 0);
        }
        (values, at)
    }

    /// The first element of each row of a tile: of numbers and NaN the number. Of zeros `minnum` gives -0 and `maxnum` +0 here as on all targets, in the order of
    /// `sort`, though the language leaves that open.
    fn first_of_each(&self, b: &mut KernelBuilder, t: Value) -> Value {
        let first = |b: &mut KernelBuilder, x: Value, y: Value| match (self.elem.is_float(), self.order) {
            (true, SortOrder::Descending) => b.maxnum(x, y),
            (true, SortOrder::Ascending) => b.minnum(x, y),
            (false, SortOrder::Descending) => b.maximum(x, y),
            (false, SortOrder::Ascending) => b.minimum(x, y),
        };
        b.reduce_by(&[t], 1, |b, x, y| vec![first(b, x[0], y[0])]).first().copied().unwrap_or(t)
    }

    fn group(&self) -> u32 {
        self.group.max(2)
    }

    /// Elements of a tile of the first launch, whose heads are whole ones.
    fn tile(&self) -> u32 {
        TILE.max(self.group().saturating_pow(self.levels()))
    }

    /// Elements of the tile that the second launch begins with: all heads of the last level, or the row.
    fn top(&self) -> u32 {
        padded(self.heads(self.most_cols).last().copied().unwrap_or(self.most_cols).max(self.k))
    }

    /// Elements that the second launch looks at, at most at a time.
    fn looked_at(&self) -> u32 {
        let behind = if self.levels() > 0 { padded(self.k).saturating_mul(self.group()) } else { 0 };
        self.top().max(behind)
    }

    fn builder(&self, what: &str, elements: u32) -> KernelBuilder {
        let mut b = KernelBuilder::new(&format!("top_k_{what}_{}_{}", self.order, self.elem));
        b.warps((elements / (32 * OF_LANE)).clamp(1, 16));
        b
    }

    /// The views of the rows and of the heads.
    fn views(&self, b: &mut KernelBuilder) -> (Value, Vec<Value>) {
        let x = b.param(matrix(self.elem, self.rows, self.cols));
        let mut of_tile = self.tile();
        let mut heads = Vec::new();
        for _ in 0..self.levels() {
            of_tile /= self.group();
            heads.push(b.param(matrix(self.elem, self.rows, known(of_tile.max(1)))));
        }
        (x, heads)
    }
}

/// A power of two spreads over lanes.
fn padded(n: u32) -> u32 {
    n.clamp(1, 1 << 31).next_power_of_two()
}
