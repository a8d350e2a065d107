//! Launches that are ready.

use super::candidate::Candidate;
use super::device::DeviceFacts;
use super::error::PlanError;
use super::problem::Problem;
use super::ranked::ranked;
use crate::launch::{Argument, Launch, Workspace};
use crate::pitch::Pitch;
use tilelift_interp::{Arg, ScalarArg, ViewArg};
use tilelift_ir::Scalar;
use tilelift_schedule::plan::LowerOptions;

/// A launch, and what the compiler is told of its kernel.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Kernel, grid, arguments.
    pub launch: Launch,
    /// What the compiler is told: `consumers` and `consumer_sets`, if anything.
    pub options: LowerOptions,
}

/// A buffer of a plan: a tensor, dense unless the problem says other strides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// What it is to the product; [`Argument::Workspace`] for memory between launches.
    pub what: Argument,
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub shape: Vec<u32>,
    /// Strides in elements, where it is not dense.
    pub strides: Option<Vec<u64>>,
}

impl Buffer {
    /// Its bytes, those between its rows too; the largest number where there are more.
    pub fn bytes(&self) -> u64 {
        let Some(strides) = self.strides.as_ref().filter(|_| !self.shape.contains(&0)) else {
            return Workspace { elem: self.elem, shape: self.shape.clone() }.bytes();
        };
        let last = self.shape.iter().zip(strides).fold(0u64, |at, (&e, &s)| at.saturating_add(u64::from(e - 1).saturating_mul(s)));
        last.saturating_add(1).saturating_mul(u64::from(self.elem.bytes()))
    }

    /// The whole tensor as an argument, for the buffer of a number.
    pub fn view(&self, buffer: usize) -> ViewArg {
        let extents: Vec<i64> = self.shape.iter().map(|&e| i64::from(e)).collect();
        let dense = ViewArg::dense(buffer, self.elem, &extents);
        match &self.strides {
            Some(strides) => dense.with_strides(&strides.iter().map(|&s| i64::try_from(s).unwrap_or(i64::MAX)).collect::<Vec<_>>()),
            None => dense,
        }
    }
}

/// How a product runs: launches, one behind the other on one stream. Without any there is nothing to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The product.
    pub problem: Problem,
    /// What was chosen; nothing where nothing is to be done.
    pub candidate: Option<Candidate>,
    /// The launches in order.
    pub launches: Vec<Ready>,
    /// Memory between them, by its number.
    pub workspaces: Vec<Workspace>,
}

/// The launches of a product on a device, by the best candidate.
///
/// ```
/// use tilelift_ir::Scalar;
/// use tilelift_kernels::plan::{DeviceFacts, Problem, plan};
/// # let target = tilelift_lane::testing::target();
/// let device = DeviceFacts::new(&target, 108);
/// let made = plan(&Problem::new(Scalar::F16, [300, 512, 1024]), &device)?;
/// assert!(!made.launches.is_empty());
/// assert!(plan(&Problem::new(Scalar::F16, [0, 512, 1024]), &device)?.launches.is_empty());
/// # Ok::<(), tilelift_kernels::plan::PlanError>(())
/// ```
///
/// # Errors
/// As [`ranked`]; grids that no launch has.
pub fn plan(problem: &Problem, device: &DeviceFacts) -> Result<Plan, PlanError> {
    match ranked(problem, device)?.into_iter().next() {
        Some(best) => Plan::of(problem, best),
        None => Ok(Plan::nothing(problem)),
    }
}

/// The largest extents of a grid, and the most positions.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
const MAX_POSITIONS: u64 = i32::MAX as u64;

impl Plan {
    /// Nothing is to be done.
    fn nothing(problem: &Problem) -> Plan {
        Plan { problem: problem.clone(), candidate: None, launches: Vec::new(), workspaces: Vec::new() }
    }

    /// The launches of a product with a candidate of its own.
    ///
    /// # Errors
    /// Extents, types, a batch or an epilogue that no kernel of the candidate's has; grids that no launch has.
    pub fn of(problem: &Problem, candidate: Candidate) -> Result<Plan, PlanError> {
        problem.check()?;
        if problem.is_empty() {
            return Ok(Plan::nothing(problem));
        }
        if !candidate.serves(problem) {
            return Err(PlanError::Candidate { sharing: candidate.sharing });
        }
        let made = candidate.launches(problem)?;
        for l in &made.list {
            let positions = l.grid.iter().fold(1u64, |all, &e| all.saturating_mul(u64::from(e)));
            if l.grid.iter().zip(MAX_GRID).any(|(&e, most)| e > most) || positions > MAX_POSITIONS {
                return Err(PlanError::Grid { grid: l.grid });
            }
        }
        let options = |l: &Launch| if l.arguments.contains(&Argument::A) { candidate.options } else { LowerOptions::default() };
        let launches = made.list.into_iter().map(|launch| Ready { options: options(&launch), launch }).collect();
        Ok(Plan { problem: problem.clone(), workspaces: made.workspaces, launches, candidate: Some(candidate) })
    }

    /// All buffers: A, B, then U, the bias and R where there are any, C, and the workspaces.
    pub fn buffers(&self) -> Vec<Buffer> {
        let p = &self.problem;
        let [left, right, out] = p.stored();
        let matrix = |what: Argument, elem: Scalar, [rows, columns]: [u32; 2], pitch: Option<Pitch>| {
            let batched = p.batch != 1;
            let shape = batched.then_some(p.batch).into_iter().chain([rows, columns]).collect();
            let strides = pitch.map(|at| batched.then_some(at.batch).into_iter().chain([at.row, 1]).collect());
            Buffer { what, elem, shape, strides }
        };
        let mut list = vec![matrix(Argument::A, p.elem, left, p.pitches.a), matrix(Argument::B, p.weights, right, p.pitches.b)];
        list.extend(p.behind.gate.then(|| matrix(Argument::Gate, p.weights, right, p.pitches.b)));
        list.extend(p.bias.map(|elem| Buffer { what: Argument::Bias, elem, shape: vec![p.shape[1]], strides: None }));
        list.extend(p.behind.residual.map(|r| matrix(Argument::Residual, r.elem(), out, p.pitches.residual)));
        list.push(matrix(Argument::C, p.out, out, p.pitches.c));
        let of = |(i, w): (usize, &Workspace)| Buffer { what: Argument::Workspace(i), elem: w.elem, shape: w.shape.clone(), strides: None };
        list.extend(self.workspaces.iter().enumerate().map(of));
        list
    }

    /// The arguments of a launch in parameter order, for [`Plan::buffers`] by their numbers: what a launch is bound with.
    pub fn arguments(&self, launch: &Ready) -> Vec<Arg> {
        let buffers = self.buffers();
        let [alpha, beta] = self.problem.scales;
        let one = |a: &Argument| -> Option<Arg> {
            Some(match *a {
                Argument::Alpha => ScalarArg::float(Scalar::F32, f64::from(alpha)).into(),
                Argument::Beta => ScalarArg::float(Scalar::F32, f64::from(beta)).into(),
                Argument::Count { value, .. } => ScalarArg::int(Scalar::I32, i64::from(value)).into(),
                view => {
                    let at = buffers.iter().position(|b| b.what == view)?;
                    buffers[at].view(at).into()
                }
            })
        };
        launch.launch.arguments.iter().filter_map(one).collect()
    }
}
