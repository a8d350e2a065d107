//! Products with weights: which kernels run them, and what is left to whoever comes next.

use super::device::Outcome;
use tilelift_kernels::plan::{DeviceFacts, Plan, Problem, Ready, Sharing, plan};

/// A planned product.
pub(crate) struct Product {
    pub plan: Plan,
    /// Sums of so many parts wait in the first workspace, `[parts, M, N]`: the next kernel takes them, with the epilogue.
    pub parts: Option<u32>,
}

impl Product {
    /// The quickest plan, all of it.
    pub fn whole(problem: &Problem, device: &DeviceFacts) -> Outcome<Product> {
        Ok(Product { plan: plan(problem, device)?, parts: None })
    }

    /// The quickest plan; where it splits the depth, without the launch that adds the parts up.
    pub fn or_parts(problem: &Problem, device: &DeviceFacts) -> Outcome<Product> {
        let plan = plan(problem, device)?;
        let parts = match plan.candidate.as_ref().map(|c| c.sharing) {
            Some(Sharing::SplitK(parts)) => Some(parts),
            Some(Sharing::Whole | Sharing::StreamK(_) | Sharing::Clusters(..)) | None => None,
        };
        Ok(Product { plan, parts })
    }

    /// The predicted time, in microseconds.
    pub fn micros(&self) -> f64 {
        self.plan.candidate.as_ref().map_or(0.0, |c| c.micros)
    }

    /// What is launched.
    pub fn launches(&self) -> &[Ready] {
        let all = &self.plan.launches;
        &all[..all.len() - usize::from(self.parts.is_some())]
    }
}
