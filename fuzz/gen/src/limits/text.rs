//! The text of a kernel that repeats a step: what stands in front of the steps, what stands around them, and what is stored behind.
//!
//! ```text
//! Straight   steps                          Loops   for { steps } for { steps } …        Tasks   tasks { task { steps } task { steps } … }
//! Loop       for carry x { steps }          Ifs     if { steps } if { steps } …          Deep    for { for { … { steps } } }
//! ```

use std::fmt::{Display, Write};

/// What stands around the steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Around {
    /// Nothing: one behind the other.
    Straight,
    /// One loop.
    Loop,
    /// Loops of few steps, one behind the other.
    Loops,
    /// Choices of few steps, one behind the other.
    Ifs,
    /// Nested loops.
    Deep,
    /// Tasks that share the steps.
    Tasks,
}

impl Around {
    /// Every way, in order.
    pub const ALL: [Around; 6] = [Around::Straight, Around::Loop, Around::Loops, Around::Ifs, Around::Deep, Around::Tasks];
}

/// A kernel that is being written.
pub struct Text {
    pub(super) out: String,
    pub(super) next: u32,
    /// Instructions so far.
    pub(super) count: usize,
    /// Extents of the tile.
    pub shape: [u32; 2],
    /// Its element type.
    pub ty: &'static str,
    /// The tile that goes from step to step.
    pub x: u32,
    /// One that stays as it is.
    pub base: u32,
    /// A tile of row numbers.
    pub rows: u32,
    /// One of column numbers.
    pub cols: u32,
    /// One of truth values.
    pub mask: u32,
    /// The program's position.
    pub at: u32,
    /// A truth value.
    pub condition: u32,
    /// A ring of tiles in local memory, where the steps ask for it.
    pub ring: u32,
    /// Four mbarriers, where the steps ask for them.
    pub barriers: u32,
    /// Values that steps keep for those behind.
    pub kept: Vec<u32>,
    /// The task that is being written.
    pub task: usize,
    /// How many there are.
    pub tasks: usize,
    /// Warps of each, or of the program where there are none.
    pub warps: u32,
}

impl Text {
    /// Tiles that steps use.
    pub(super) fn begin(&mut self) {
        let ([r, c], at, tile) = (self.shape, self.at, self.tile());
        self.base = self.def(format!("load v0[v{at}, 0] : {tile}"));
        self.x = self.base;
        self.rows = self.def(format!("iota 0 : tile<{r}x{c}xi32>"));
        self.cols = self.def(format!("iota 1 : tile<{r}x{c}xi32>"));
        self.mask = self.def(format!("cmp lt v{}, v{}", self.rows, self.cols));
    }

    pub(super) fn store(&mut self, task: u32) {
        let (row, x) = (task * self.shape[0], self.x);
        self.line(format!("store v1[{row}, 0], v{x}"));
    }

    /// A loop that carries the tile through its body.
    pub(super) fn looped(&mut self, body: impl FnOnce(&mut Text)) {
        let (result, index, carried, init) = (self.name(), self.name(), self.name(), self.x);
        let end = self.at;
        self.line(format!("v{result} = for v{index} in 0..v{end} step 1 carry v{carried} = v{init} {{"));
        self.x = carried;
        body(self);
        let x = self.x;
        self.line(format!("yield v{x}\n}}"));
        self.x = result;
    }

    pub(super) fn nested(&mut self, depth: usize, body: &mut dyn FnMut(&mut Text)) {
        if depth == 0 {
            return body(self);
        }
        self.looped(|t| t.nested(depth - 1, body));
    }

    /// Slots of the ring.
    pub fn slots(&self) -> usize {
        (2 * self.tasks).max(4)
    }

    /// The slot of the ring that the task takes in a step: no other task takes it.
    pub fn slot(&mut self, step: usize) -> u32 {
        let own = self.slots() / self.tasks;
        self.of("local_index", self.ring, &format!("{}", self.task * own + step % own))
    }

    /// The tile's type.
    pub fn tile(&self) -> String {
        self.tile_of(self.ty)
    }

    /// That with other elements.
    pub fn tile_of(&self, ty: &str) -> String {
        format!("tile<{}x{}x{ty}>", self.shape[0], self.shape[1])
    }

    /// A fresh name.
    pub fn name(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// An instruction with a result.
    pub fn def(&mut self, what: impl Display) -> u32 {
        let v = self.name();
        self.line(format!("v{v} = {what}"));
        v
    }

    /// An op of two operands, the second a literal.
    pub fn of(&mut self, op: &str, a: u32, b: &str) -> u32 {
        self.def(format!("{op} v{a}, {b}"))
    }

    /// A line; one instruction.
    pub fn line(&mut self, what: impl Display) {
        self.count += 1;
        let _ = writeln!(self.out, "{what}");
    }

    /// The tile becomes this.
    pub fn becomes(&mut self, what: impl Display) {
        self.x = self.def(what);
    }
}
