//! Units beside the lanes: bulk copies of boxes, matrix instructions of several warps, a pool of registers.

use cranelift_entity::entity_impl;
use tilelift_ir::layout::FragmentMap;
use tilelift_ir::{Precision, Scalar};

/// A matrix instruction of a warpgroup: an index into [`Units::matrix`]. Prints as `group2`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupMatrixId(u32);
entity_impl!(GroupMatrixId, "group");

/// A matrix instruction of several warps, which runs beside them: `D[MxN] = A[MxK] * B[KxN] + C[MxN]`, B in shared memory and A there or in registers.
#[derive(Clone, Debug)]
pub struct GroupMatrix {
    /// The types as the mnemonic has them.
    pub name: &'static str,
    /// Rows of A and D.
    pub m: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// N is a multiple of this …
    pub n_step: u32,
    /// … up to this.
    pub n_max: u32,
    /// Element type of A.
    pub operand: Scalar,
    /// Element type of B: as many bits as one of A.
    pub operand_b: Scalar,
    /// Element type of C and D.
    pub acc: Scalar,
    /// How operands are rounded.
    pub precision: Precision,
    /// If D keeps fewer bits than its type, the depth after which its partial sums are promoted: added to an accumulator in the type.
    pub promotion_depth: Option<u32>,
    /// True if operands may run along M or N, too; else both must run along K.
    pub any_order: bool,
    /// A over (m, k), where it may lie in registers.
    pub a: Option<FragmentMap>,
    /// C and D over (m, n) for the least N; more columns repeat it.
    pub d: FragmentMap,
}

impl GroupMatrix {
    /// True if it multiplies factors of these types and sums in that one.
    pub fn takes(&self, factors: [Scalar; 2], acc: Scalar, precision: Precision) -> bool {
        [self.operand, self.operand_b] == factors && self.acc == acc && self.precision == precision
    }

    /// How so many groups share a product of so many rows and columns: so many down the rows, as many as those permit, and so many across the columns;
    /// `None` if they can't.
    ///
    /// ```text
    /// 2 groups, 128 rows     [2, 1]   each has the rows of every second instruction
    /// 2 groups, 64 rows      [1, 2]   each has half of the columns
    /// ```
    pub fn shares(&self, [m, n]: [u32; 2], groups: u32) -> Option<[u32; 2]> {
        let fits = |&across: &u32| {
            let columns = n / across;
            let whole = n.is_multiple_of(across) && columns.is_multiple_of(self.n_step) && columns <= self.n_max;
            let halves = across == 1 || columns.is_power_of_two() && across.is_power_of_two();
            groups.is_multiple_of(across) && m.is_multiple_of(self.m * (groups / across)) && whole && halves
        };
        (1..=groups).find(fits).map(|across| [groups / across, across])
    }

    /// The accumulators of a group that has so many columns.
    pub fn fragment(&self, columns: u32) -> FragmentMap {
        let [m, least] = [self.d.shape[0], self.d.shape[1]];
        let mut of = self.d.clone();
        let wider = (least.ilog2()..columns.ilog2()).map(|bit| [0, 1 << bit].into_iter().collect());
        of.reg.extend(wider);
        of.shape = [m, columns].into_iter().collect();
        of
    }

    /// Registers per lane of the operands of an instruction of so many columns, with A in registers or not.
    pub fn registers(&self, n: u32, a: bool) -> u32 {
        let of = |map: &FragmentMap, elem: Scalar| (elem.bits().max(8) << map.reg.len()).div_ceil(32);
        of(&self.d, self.acc) * (n / self.d.shape[1]) + self.a.as_ref().filter(|_| a).map_or(0, |m| of(m, self.operand))
    }
}

/// Copies of boxes between tensors in global memory and swizzled tiles in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkTensor {
    /// Most dimensions of a tensor.
    pub max_rank: u32,
    /// Largest extent of a box.
    pub max_box: u32,
    /// The address of the tensor, and every stride but the innermost, are multiples of so many bytes.
    pub align: u32,
    /// Swizzle widths in bytes, widest first.
    pub swizzles: &'static [u32],
}

/// Registers that warpgroups may hand to one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterPool {
    /// Registers of a program instance.
    pub total: u32,
    /// Registers per lane come in multiples of this …
    pub unit: u32,
    /// … from this …
    pub least: u32,
    /// … to this.
    pub most: u32,
    /// Registers that a role with nothing but copies needs.
    pub producer: u32,
    /// Registers that a program has to start with beside those of the operands of any of its matrix instructions of groups.
    pub beside_matrix: u32,
}

/// What several warps do together, and what they leave to machinery beside them.
#[derive(Clone, Debug)]
pub struct Units {
    /// Warps of a group: those that run a [`GroupMatrix`], or change their registers, together.
    pub group_warps: u32,
    /// Matrix instructions of groups, preferred first.
    pub matrix: Vec<GroupMatrix>,
    /// Bulk copies of boxes.
    pub bulk: BulkTensor,
    /// The pool of registers.
    pub registers: RegisterPool,
    /// Barriers that hold a part of the warps.
    pub named_barriers: u32,
    /// Most program instances of a cluster: those that run together and reach one another's shared memory.
    pub max_cluster: u32,
}
