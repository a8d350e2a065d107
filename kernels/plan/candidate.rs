//! A way to run a product.

use super::problem::Problem;
use super::sharing::Sharing;
use crate::explicit::ClusterGemm;
use crate::facts::ANY;
use crate::fused_gemm::FusedGemm;
use crate::gemm::Gemm;
use crate::launch::Launches;
use crate::split_gemm::SplitGemm;
use crate::stream_gemm::StreamGemm;
use std::fmt;
use tilelift_ir::BuildErrors;
use tilelift_schedule::gemm::{Choice, Clusters, Ranked, StreamK};
use tilelift_schedule::plan::LowerOptions;

/// A way to run a product.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Tile, order, warps, stages; types, storage and epilogue.
    pub gemm: Gemm,
    /// How the work is shared out.
    pub sharing: Sharing,
    /// What the compiler is told for the launches that multiply; sums of parts plan for themselves.
    pub options: LowerOptions,
    /// The predicted time in microseconds; of use beside other candidates of the product.
    pub micros: f64,
    /// The choice of the model of warpgroups, where it is one.
    pub ranked: Option<Ranked>,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(r) = &self.ranked {
            return r.choice.fmt(f);
        }
        let Gemm { bm, bn, bk, warps, group, .. } = &self.gemm;
        write!(f, "{bm}x{bn}x{bk} w{warps} g{group}")?;
        match self.sharing {
            Sharing::Whole => Ok(()),
            Sharing::SplitK(splits) => write!(f, " k{splits}"),
            Sharing::StreamK(s) => write!(f, " d{s}"),
            Sharing::Clusters(c, _) => write!(f, " p{c}"),
        }
    }
}

impl Candidate {
    /// What the model of warpgroups chose.
    pub(super) fn of(problem: &Problem, ranked: Ranked) -> Candidate {
        let Choice { tile: [bm, bn, bk], swapped, group, consumers, consumer_sets, stages, clusters, .. } = ranked.choice;
        let mut gemm = Gemm { group, ..problem.gemm().tile(bm, bn, bk).swap(swapped) };
        let mut options = LowerOptions { consumers: Some(consumers), consumer_sets: Some(consumer_sets), ..LowerOptions::default() };
        if clusters.is_some() {
            // The author of kernels by clusters says who does what, and with how many slots.
            (gemm.stages, options) = (stages, LowerOptions::default());
        }
        let times = if problem.behind.gate { 2.0 } else { 1.0 };
        let micros = times * ranked.prediction.total();
        Candidate { gemm, sharing: Sharing::from(&ranked.choice), options, micros, ranked: Some(ranked) }
    }

    /// The launches of a product with these numbers.
    ///
    /// # Errors
    /// As the configurations' `launches`.
    pub(super) fn launches(&self, problem: &Problem) -> Result<Launches, BuildErrors> {
        let ([m, n, k], behind, gemm) = (problem.shape, problem.behind, self.for_problem(problem));
        match self.sharing {
            Sharing::Whole if behind.is_nothing() && problem.batch == 1 => gemm.launches(m, n),
            Sharing::Whole => {
                let fused = FusedGemm { gate: behind.gate, residual: behind.residual, ..FusedGemm::new(gemm) };
                if problem.batch > 1 { fused.batched(problem.batch) } else { fused }.launches(m, n, problem.batch)
            }
            Sharing::SplitK(splits) => SplitGemm::new(gemm, splits).behind(behind).launches(m, n),
            Sharing::StreamK(StreamK { workers, in_flight, rest }) => {
                let stream = StreamGemm { keep_whole: rest, ..StreamGemm::new(gemm).in_flight(in_flight).behind(behind) };
                stream.launches([m, n, k], workers)
            }
            Sharing::Clusters(Clusters { workers, pair }, consumers) => ClusterGemm::new(gemm, pair, consumers).launches(m, n, workers),
        }
    }

    /// Its tile, order, warps and slots for a problem's types, storage, epilogue and facts; where it has no facts of the rows, none of these.
    fn for_problem(&self, problem: &Problem) -> Gemm {
        let Gemm { bm, bn, bk, group, swapped, warps, stages, m, .. } = self.gemm;
        let own = problem.gemm();
        let m = if m == ANY { ANY } else { own.m };
        Gemm { bm, bn, bk, group, swapped, warps, stages, m, ..own }
    }

    /// True if the model of warpgroups, which knows plain products, may speak for a problem.
    pub(super) fn takes(&self, problem: &Problem) -> bool {
        let behind = problem.behind;
        // Two accumulators take the registers of two tiles: those have candidates of their own. Nor is anything left beside two sets of consumers.
        let whole = matches!(self.sharing, Sharing::Whole);
        let room = !whole || !behind.gate && (behind.residual.is_none() || self.options.consumer_sets != Some(2));
        room && self.serves(problem)
    }

    /// True if its kernels have a problem's batch, and what is behind its sums.
    pub(super) fn serves(&self, problem: &Problem) -> bool {
        let behind = problem.behind;
        match self.sharing {
            Sharing::Whole => true,
            Sharing::SplitK(_) => problem.batch == 1,
            Sharing::StreamK(s) => problem.batch == 1 && !(behind.gate && s.rest),
            // The author of kernels by clusters takes dense matrices.
            Sharing::Clusters(..) => problem.batch == 1 && behind.is_nothing() && problem.pitches.is_dense(),
        }
    }
}
