//! Exact classes of register-layout conversions, copies included.
//!
//! With `R = span(A.reg)`, `T = R + span(A.lane)`, `W = T + span(A.warp)`, converting A to B stays
//! inside a level exactly when B's columns of that level lie in the span and every outer bit
//! contributes the same element in A and B modulo the span:
//!
//! ```text
//!   in lane:  B.reg in R,                 B_j ^ A_j in R for lane, warp, block bits j
//!   in warp:  B.reg, B.lane in T,         B_j ^ A_j in T for warp, block bits j
//!   in CTA:   B.reg, B.lane, B.warp in W, B_j ^ A_j in W for block bits j
//! ```
//!
//! An odd digit must have the same owner on both sides, else the conversion crosses warps.

use super::error::LayoutError;
use super::linear::{self, Span};
use super::map::{Axis, Layout, aligned};
use smallvec::SmallVec;

/// How far data must move to get from one register layout to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConversionClass {
    /// Nothing changes.
    Identity,
    /// Registers get other names; no instruction for 32-bit elements.
    Rename,
    /// Each lane already has its elements, but which register holds them depends on the lane.
    InLane,
    /// Each warp already has its elements.
    InWarp,
    /// Each block already has its elements.
    InCta,
    /// Elements cross blocks of a cluster.
    Cluster,
}

/// Two layouts over common digits and equal hardware axes.
pub(crate) struct Pair {
    pub from: Layout,
    pub to: Layout,
}

impl Pair {
    pub fn new(from: &Layout, to: &Layout) -> Result<Self, LayoutError> {
        let (from, to) = aligned(from, to)?;
        for axis in [Axis::Lane, Axis::Warp, Axis::Block] {
            if from.bits(axis) != to.bits(axis) || from.odd(axis) != to.odd(axis) {
                return Err(LayoutError::AxisMismatch { axis: axis.name(), left: from.size(axis), right: to.size(axis) });
            }
        }
        if from.size(Axis::Off) != 1 || to.size(Axis::Off) != 1 {
            return Err(LayoutError::Unsupported { what: "converting a shared-memory layout; load or store it instead".into() });
        }
        Ok(Self { from, to })
    }

    /// Column pairs of one axis.
    fn pairs(&self, axis: Axis) -> impl Iterator<Item = (u32, u32)> {
        self.from.cols(axis).iter().copied().zip(self.to.cols(axis).iter().copied())
    }

    /// The level forced by odd digits: `None` when every one keeps its owner.
    fn odd_level(&self) -> Option<ConversionClass> {
        let owner = |l: &Layout, k: usize| {
            Axis::ALL.into_iter().find_map(|axis| {
                let place = l.map(axis).odd.iter().position(|d| d.target == Some(k as u8))?;
                Some((axis, if axis == Axis::Reg { 0 } else { place }))
            })
        };
        let mut level = None;
        for k in 0..self.from.space.odd.len() {
            let (a, b) = (owner(&self.from, k), owner(&self.to, k));
            if a == b {
                continue;
            }
            let block = [a, b].iter().flatten().any(|o| o.0 == Axis::Block);
            let here = if block { ConversionClass::Cluster } else { ConversionClass::InCta };
            level = level.max(Some(here));
        }
        level
    }

    pub fn class(&self) -> ConversionClass {
        let mut span = Span::of(self.from.cols(Axis::Reg));
        let levels = [(Axis::Reg, ConversionClass::InLane), (Axis::Lane, ConversionClass::InWarp), (Axis::Warp, ConversionClass::InCta)];
        let outer = [Axis::Lane, Axis::Warp, Axis::Block];
        let mut found = ConversionClass::Cluster;
        for (i, (axis, class)) in levels.into_iter().enumerate() {
            if axis != Axis::Reg {
                self.from.cols(axis).iter().for_each(|&c| {
                    span.insert(c);
                });
            }
            let inner_fits = levels[..=i].iter().all(|(a, _)| self.to.cols(*a).iter().all(|&c| span.contains(c)));
            let outer_fits = outer[i..].iter().all(|&a| self.pairs(a).all(|(x, y)| span.contains(x ^ y)));
            if inner_fits && outer_fits {
                found = class;
                break;
            }
        }
        if let Some(level) = self.odd_level() {
            return found.max(level);
        }
        if found != ConversionClass::InLane {
            return found;
        }
        if outer.iter().any(|&a| self.pairs(a).any(|(x, y)| x != y)) {
            ConversionClass::InLane
        } else if self.from == self.to {
            ConversionClass::Identity
        } else {
            ConversionClass::Rename
        }
    }

    /// For each value of the destination's odd register digits, the value of the source's.
    /// Meaningful when odd register digits have the same owners on both sides.
    pub fn odd_rename(&self) -> Vec<u32> {
        let source = &self.from.map(Axis::Reg).odd;
        let dest = &self.to.map(Axis::Reg).odd;
        (0..self.to.odd_size(Axis::Reg))
            .map(|index| {
                let mut rest = index;
                let mut digits: SmallVec<[(Option<u8>, u32); 2]> = SmallVec::new();
                for d in dest {
                    digits.push((d.target, rest % d.radix));
                    rest /= d.radix;
                }
                let (mut out, mut weight) = (0, 1);
                for s in source {
                    let value = digits.iter().find(|d| d.0 == s.target).map_or(0, |d| d.1);
                    out += value * weight;
                    weight *= s.radix;
                }
                out
            })
            .collect()
    }

    /// Destination register to source register, both in lane 0, for in-lane classes.
    pub fn rename(&self) -> Option<Vec<u32>> {
        let (a, b) = (self.from.cols(Axis::Reg), self.to.cols(Axis::Reg));
        // A register that exists on both sides keeps its own number where it can.
        let preimage = |i: usize| match a.get(i) {
            Some(&c) if c == b[i] => Some(1 << i),
            Some(_) | None => linear::solve(a, b[i]).map(|x| x as u32),
        };
        let columns: Option<Vec<u32>> = (0..b.len()).map(preimage).collect();
        let columns = columns?;
        let odd = self.odd_rename();
        Some(
            (0..self.to.size(Axis::Reg))
                .map(|reg| {
                    let bits = reg & ((1 << b.len()) - 1);
                    let high = odd[(reg >> b.len()) as usize];
                    linear::mul(&columns, u64::from(bits)) | high << a.len()
                })
                .collect(),
        )
    }
}

/// The exact class of the conversion `from` to `to`.
///
/// # Errors
/// [`LayoutError::TensorMismatch`] or [`LayoutError::AxisMismatch`] when the layouts do not
/// describe the same tensor on the same lanes and warps.
pub fn classify(from: &Layout, to: &Layout) -> Result<ConversionClass, LayoutError> {
    Ok(Pair::new(from, to)?.class())
}

/// For each destination register the source register, when the conversion is a pure renaming.
///
/// # Errors
/// As [`classify`].
pub fn register_rename(from: &Layout, to: &Layout) -> Result<Option<Vec<u32>>, LayoutError> {
    let pair = Pair::new(from, to)?;
    Ok(match pair.class() {
        ConversionClass::Identity | ConversionClass::Rename => pair.rename(),
        ConversionClass::InLane | ConversionClass::InWarp | ConversionClass::InCta | ConversionClass::Cluster => None,
    })
}
