//! How a dot runs, decided: instruction, warps, layouts.

use std::rc::Rc;
use tilelift_egraph::physical::InstLayouts;
use tilelift_ir::Scalar;
use tilelift_ir::layout::Layout;
use tilelift_lane::{GroupMatrixId, MatrixId};

/// How a dot runs: on matrix instructions, or by multiply-adds of single lanes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DotPlan {
    /// The instruction; `None` for multiply-adds.
    pub instr: Option<MatrixId>,
    /// The instruction of warpgroups, of an asynchronous product; operands are then in shared memory and their layouts mean
    /// nothing, but A's if it is in registers.
    pub group: Option<GroupMatrixId>,
    /// Of such a product, how many warpgroups share its rows and how many its columns; others compute the same.
    pub groups: [u32; 2],
    /// That instruction takes A from registers, too.
    pub left: bool,
    /// The instruction makes the transpose of the product, of the operands exchanged: `dᵀ = bᵀ aᵀ + cᵀ`. The layouts are those of A, B and the accumulator as they are.
    pub turned: bool,
    /// Types in which the operands are multiplied: their own, or wider ones that the instruction takes and that hold them exactly.
    pub factors: [Scalar; 2],
    /// Layout of the accumulator: that of `d` for a dot of matrices; of a batch, with every matrix of it in registers.
    pub whole: Rc<Layout>,
    /// Layouts of A, B and the accumulator of one matrix product.
    pub a: Rc<Layout>,
    pub b: Rc<Layout>,
    pub d: Rc<Layout>,
    /// Layouts of the scales of A and of B, if the instruction takes some; they come from registers.
    pub scales: Option<[Rc<Layout>; 2]>,
    /// Other plans for the same product: warps along M alone, its transpose, and k in another order on both sides ([`crate::layout::k_order`]).
    pub others: Vec<Rc<DotPlan>>,
}

impl DotPlan {
    /// Where A and B stand among the operands of its op.
    pub fn factors_at(&self) -> [usize; 2] {
        if self.scales.is_some() { [0, 2] } else { [0, 1] }
    }

    /// True if a run has accumulator and operands, as far as they are in registers, where this plan wants them.
    pub fn takes(&self, run: &InstLayouts) -> bool {
        let fits = |x: Option<&Option<Rc<Layout>>>, l: &Rc<Layout>| x.and_then(Option::as_ref).is_none_or(|x| x == l || x.in_memory());
        let [a, b] = self.factors_at();
        fits(run.operands.get(a), &self.a) && fits(run.operands.get(b), &self.b) && fits(run.results.first(), &self.whole)
    }

    /// The plan for a run: this one if it can.
    pub fn that_takes<'p>(self: &'p Rc<DotPlan>, run: &InstLayouts) -> &'p Rc<DotPlan> {
        if self.takes(run) { self } else { self.others.iter().find(|p| p.takes(run)).unwrap_or(self) }
    }
}
