//! A product of matrices, and how it may run.

use super::clusters::Clusters;
use super::stream_k::StreamK;
use std::fmt;
use tilelift_ir::{Precision, Scalar};
use tilelift_lane::{GroupMatrix, Units};

/// Products of matrices, `C[M, N] = A[M, K] B[K, N]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Product {
    /// How many, each with operands of its own.
    pub batch: u32,
    /// Rows of C, columns of C, depth.
    pub shape: [u32; 3],
    /// Element type of A and B.
    pub elem: Scalar,
    /// Element type of C.
    pub out: Scalar,
    /// Whether A is stored `KxM`, and B `NxK`.
    pub trans: (bool, bool),
}

impl Product {
    /// There is nothing to compute: an extent is 0, or there are no products. (Without depth, all of C is to become 0: that is work, but none that
    /// anything here is chosen for.)
    pub fn is_empty(&self) -> bool {
        self.batch == 0 || self.shape.contains(&0)
    }

    /// Tiles of so many rows and columns that it takes; the largest number where there are more.
    pub(super) fn tiles(&self, [bm, bn]: [u32; 2]) -> u64 {
        let [m, n, _] = self.shape;
        (u64::from(m.div_ceil(bm)) * u64::from(n.div_ceil(bn))).saturating_mul(u64::from(self.batch))
    }
}

/// How a product runs on a machine with units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Choice {
    /// Rows and columns of a tile, depth of a step.
    pub tile: [u32; 3],
    /// Warpgroups that share a tile.
    pub consumers: u32,
    /// Consumer sets of so many groups; two take tiles in ping-pong.
    pub consumer_sets: u32,
    /// The operands are multiplied the other way round, so that columns of C are the instruction's rows.
    pub swapped: bool,
    /// Slots of the ring.
    pub stages: u32,
    /// Tile rows per group of the order.
    pub group: u32,
    /// Parts of the depth, each summed by a program of its own.
    pub splits: u32,
    /// Steps of the depth are dealt out, as many to each worker, instead of tiles or equal parts of them.
    pub stream_k: Option<StreamK>,
    /// Clusters of two blocks share an operand.
    pub clusters: Option<Clusters>,
}

/// The largest extent of a tile, and the largest of the other numbers of a choice.
const MOST: [u32; 2] = [4096, 1 << 16];

impl Choice {
    /// No number in it is 0, or more than any machine has: the model has nothing to say of others.
    pub fn is_possible(&self) -> bool {
        let within = |most: u32| move |&x: &u32| (1..=most).contains(&x);
        let dealt = self.stream_k.map_or([1; 2], |s| [s.workers, s.in_flight]);
        let clusters = self.clusters.map_or(2, |c| c.workers);
        let others = [self.consumers, self.consumer_sets, self.stages, self.group, self.splits, clusters];
        self.tile.iter().all(within(MOST[0])) && others.iter().chain(&dealt).all(within(MOST[1])) && dealt[1] <= dealt[0]
    }

    /// A second launch adds up what the first one left in a workspace.
    pub fn sums_apart(&self) -> bool {
        self.splits > 1 || self.stream_k.is_some()
    }

    /// All that the first launch leaves are partial sums in a workspace: its ring needs no room for results.
    pub(super) fn only_partial_sums(&self) -> bool {
        self.splits > 1 || self.stream_k.is_some_and(|s| !s.rest)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile;
        write!(f, "{m}x{n}x{k}{} c{} s{} g{}", if self.swapped { " swapped" } else { "" }, self.consumers, self.stages, self.group)?;
        if self.consumer_sets > 1 {
            write!(f, " t{}", self.consumer_sets)?;
        }
        if self.splits > 1 {
            write!(f, " k{}", self.splits)?;
        }
        self.stream_k.map_or(Ok(()), |s| write!(f, " d{s}"))?;
        self.clusters.map_or(Ok(()), |c| write!(f, " p{c}"))
    }
}

/// How the operands of a product come to the unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// As they are.
    AsTheyAre,
    /// Operand A goes through registers, which take it in whatever order it lies.
    ThroughRegisters,
    /// Exchanged: what is B lies in an order that the unit does not take from memory, and goes through registers as operand A.
    Exchanged,
}

/// The instruction that multiplies a product's operands, and how these come to it.
pub(super) fn instruction<'t>(units: &'t Units, product: &Product) -> Option<(&'t GroupMatrix, Order)> {
    let precision = if product.elem == Scalar::F32 { Precision::Tf32 } else { Precision::Exact };
    let row = units.matrix.iter().find(|r| [r.operand, r.operand_b] == [product.elem; 2] && r.precision == precision)?;
    // Bytes do not go through registers: to transpose them there takes longer than products do.
    let words = row.a.is_some() && row.operand.bytes() == 4;
    let order = match product.trans {
        _ if row.any_order => Order::AsTheyAre,
        (false, true) => Order::AsTheyAre,
        (false, false) if words => Order::Exchanged,
        (true, true) if words => Order::ThroughRegisters,
        _ => return None,
    };
    Some((row, order))
}
