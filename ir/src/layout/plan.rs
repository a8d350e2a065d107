//! Chooses how a conversion is carried out.

use super::bank::BankModel;
use super::convert::{ConversionClass, Pair};
use super::error::LayoutError;
use super::map::Layout;
use super::roundtrip::{RoundTripPlan, plan_pair};
use super::shuffle::{SelectPlan, ShufflePlan, plan_selects, plan_shuffles};

/// Shuffles are cheaper than two trips through shared memory and a barrier up to this rank: half a
/// shuffle and one and a half selects per register against two wavefronts.
const SHUFFLE_RANK: u32 = 1;

/// How to get from one register layout to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// Nothing to do.
    Identity,
    /// Destination register to source register; no instruction for 32-bit elements.
    Rename(Vec<u32>),
    /// Lane-dependent selects.
    InLane(SelectPlan),
    /// Selects and lane shuffles.
    InWarp(ShufflePlan),
    /// Store to shared memory, order, load.
    RoundTrip(Box<RoundTripPlan>),
}

/// Plans the conversion `from` to `to` of elements of `elem_bytes` bytes on warps of `lanes` lanes:
/// the cheapest class that is exact, shuffles only where they beat shared memory.
///
/// # Errors
/// [`LayoutError::TensorMismatch`] and [`LayoutError::AxisMismatch`] when the layouts do not fit
/// each other or `lanes`; [`LayoutError::Unsupported`] across blocks of a cluster.
pub fn plan_conversion(from: &Layout, to: &Layout, elem_bytes: u32, lanes: u32, banks: &BankModel) -> Result<Conversion, LayoutError> {
    let pair = Pair::new(from, to)?;
    match quick(&pair, lanes)? {
        Some(conversion) => Ok(conversion),
        None => Ok(Conversion::RoundTrip(Box::new(plan_pair(&pair, elem_bytes, banks)?))),
    }
}

/// As [`plan_conversion`], but `None` where it goes through shared memory: that is much quicker to know than how.
///
/// # Errors
/// As [`plan_conversion`].
pub fn plan_in_registers(from: &Layout, to: &Layout, lanes: u32) -> Result<Option<Conversion>, LayoutError> {
    quick(&Pair::new(from, to)?, lanes)
}

fn quick(pair: &Pair, lanes: u32) -> Result<Option<Conversion>, LayoutError> {
    let here = pair.from.size(super::Axis::Lane);
    if here != lanes {
        return Err(LayoutError::AxisMismatch { axis: "lane", left: here, right: lanes });
    }
    Ok(match pair.class() {
        ConversionClass::Identity => Some(Conversion::Identity),
        ConversionClass::Rename => pair.rename().map(Conversion::Rename),
        ConversionClass::InLane => plan_selects(pair).map(Conversion::InLane),
        ConversionClass::InWarp => {
            let plan = plan_shuffles(pair).filter(|p| p.rank <= SHUFFLE_RANK);
            plan.map(Conversion::InWarp)
        }
        ConversionClass::InCta | ConversionClass::Cluster => None,
    })
}

/// The warp-local schedule of a conversion whatever its cost; `None` when it crosses warps.
///
/// # Errors
/// As [`plan_conversion`].
pub fn plan_in_warp(from: &Layout, to: &Layout) -> Result<Option<ShufflePlan>, LayoutError> {
    Ok(plan_shuffles(&Pair::new(from, to)?))
}
