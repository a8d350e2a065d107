//! Is what a launch wrote right? A few program instances are run by the interpreter, and what they store is compared.
//!
//! ```text
//! grid ─► first, last and random positions ─► interpreter, one at a time, within a bound of time ─► elements that these store, and their values
//! ```
//!
//! Tensors that instances update by atomics hold the sum of all instances' work, and are left out; the report says so. Elements are compared within a bound
//! that follows from the narrowest float type that the kernel computes in, in proportion to the root mean square of what a tensor's sample holds.

use crate::filetest::data;
use crate::filetest::runline::Number;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use tilelift_interp::{self as interp, Arg, Buffer, InterpError, Memory, ViewArg};
use tilelift_ir::ops::Effects;
use tilelift_ir::{Kernel, Scalar, Verified};
use tilelift_kernels::reference::unit_roundoff;
use tilelift_kernels::rng;

/// Roundings of the narrowest type by which elements may differ: order of sums, and functions that machines approximate.
const ROUNDINGS: f64 = 4.0;
/// The least bound: sums of `f32` in another order, approximate functions.
const LEAST: f64 = 1.0 / 8192.0;

/// What sampled instances store.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Reference {
    /// The instances.
    pub(crate) programs: Vec<[u32; 3]>,
    /// Instances of the grid.
    pub(crate) of: u64,
    /// Parameters that are written, with what is stored: where elements begin, in bits, and their bits.
    stored: Vec<(usize, Vec<(usize, u64)>)>,
    /// Parameters that are updated by atomics, and not compared.
    pub(crate) updated: Vec<usize>,
    /// The bound, in proportion.
    bound: f64,
}

/// What is wrong with an output.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wrong {
    param: usize,
    at: Vec<usize>,
    got: Number,
    want: Number,
    wrong: usize,
    of: usize,
    bound: f64,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { param, at, got, want, wrong, of, bound } = self;
        write!(f, "v{param}: {wrong} of {of} sampled elements are wrong, first {at:?}: {got}, the interpreter stores {want}")?;
        if *bound > 0.0 { write!(f, " (bound {bound:.1e})") } else { Ok(()) }
    }
}

/// Positions of a grid: the first, the last, and random ones between them, each once; those of a cluster, neighbours along x, are together.
pub(crate) fn positions(grid: [u32; 3], cluster: u32, count: u64, seed: u64) -> Vec<Vec<[u32; 3]>> {
    let cluster = u64::from(cluster.max(1));
    let [x, y, z] = grid.map(u64::from);
    let (across, all) = (x / cluster, x / cluster * y * z);
    let count = count.min(all);
    let mut found: Vec<u64> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut tries = [0, all.saturating_sub(1)].into_iter().chain((0..).map(|n| rng::bits(seed, n) % all.max(1)));
    // Nearly all of a grid: in order, for random numbers meet.
    if count * 2 > all {
        found.extend(0..count);
    }
    while (found.len() as u64) < count {
        found.extend(tries.next().filter(|&p| seen.insert(p)));
    }
    let one = |p: u64, n: u64| [(p % across * cluster + n) as u32, (p / across % y) as u32, (p / across / y) as u32];
    found.into_iter().map(|p| (0..cluster).map(|n| one(p, n)).collect()).collect()
}

/// Runs sampled instances on the interpreter until the time is over, at least one; memory is left as it was.
pub(crate) fn reference(
    kernel: &Verified<'_>,
    (grid, args): ([u32; 3], &[Arg]),
    memory: &mut Memory,
    (count, seed): (u64, u64),
    time: Duration,
) -> Result<Reference, InterpError> {
    let updates = |params: Vec<usize>| {
        let view = |p: &usize| kernel.params[*p];
        let atomic =
            |p: &usize| kernel.insts.values().any(|d| d.op.info().effects.global() == Effects::Updates && d.args.first() == Some(&view(p)));
        params.into_iter().partition::<Vec<usize>, _>(atomic)
    };
    let written = interp::written_params(kernel.kernel());
    let (updated, compared) = updates(written.clone());
    let buffer = |p: &usize| match &args[*p] {
        Arg::View(v) => Some(v.buffer),
        Arg::Scalar(_) => None,
    };
    let mut before: Vec<(usize, Buffer)> = written.iter().filter_map(buffer).map(|b| (b, memory.buffers[b].clone())).collect();
    let (start, mut programs) = (Instant::now(), Vec::new());
    let mut ran = Ok(());
    for together in positions(grid, kernel.cluster, count, seed) {
        if !programs.is_empty() && start.elapsed() > time {
            break;
        }
        let options = interp::Options { programs: Some(together.clone()), conflicts: false, ..interp::Options::default() };
        ran = interp::interpret(kernel, grid, args, memory, &options).map(drop);
        if ran.is_err() {
            break;
        }
        programs.extend(together);
    }
    // What was, is again; what the instances left is at hand.
    before.iter_mut().for_each(|(b, was)| std::mem::swap(&mut memory.buffers[*b], was));
    ran?;
    let mut stored = Vec::new();
    for p in compared {
        if let Arg::View(view) = &args[p]
            && let Some((_, after)) = before.iter().find(|(b, _)| *b == view.buffer)
        {
            stored.push((p, data::changed(view, &memory.buffers[view.buffer], after)));
        }
    }
    let of = grid.iter().map(|&e| u64::from(e)).product();
    Ok(Reference { programs, of, stored, updated, bound: bound(kernel.kernel()) })
}

/// How far elements may be from the interpreter's, in proportion to them.
fn bound(kernel: &Kernel) -> f64 {
    let elems: BTreeSet<Scalar> = kernel.values.values().filter_map(|v| v.ty.as_tile()).map(|t| t.elem).filter(|e| e.is_float()).collect();
    elems.into_iter().map(|e| ROUNDINGS * unit_roundoff(e)).fold(LEAST, f64::max)
}

impl Reference {
    /// Elements that are compared.
    pub(crate) fn elements(&self) -> usize {
        self.stored.iter().map(|s| s.1.len()).sum()
    }

    /// Compares what a device left in memory.
    pub(crate) fn compare(&self, args: &[Arg], got: &Memory) -> Result<(), Wrong> {
        for (param, stored) in &self.stored {
            let Arg::View(view) = &args[*param] else { continue };
            let elem = view.elem;
            let number = |bits: u64| data::number(bits, elem);
            let finite = stored.iter().map(|s| number(s.1).as_f64()).filter(|x| x.is_finite());
            let (n, squares) = finite.fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x * x));
            let scale = if n > 0.0 { f64::sqrt(squares / n) } else { 0.0 };
            let bound = if elem.is_float() { self.bound } else { 0.0 };
            let right = |want: u64, have: u64| {
                let (x, y) = (number(want).as_f64(), number(have).as_f64());
                want == have || elem.is_float() && (x.is_nan() && y.is_nan() || x == y || (x - y).abs() <= bound * x.abs().max(scale))
            };
            let bytes = got.buffers[view.buffer].bytes();
            let have = |at: usize| data::bits_at(bytes, at, elem);
            let wrong: Vec<&(usize, u64)> = stored.iter().filter(|(at, want)| !right(*want, have(*at))).collect();
            if let Some(&&(at, want)) = wrong.first() {
                let (got, want) = (number(have(at)), number(want));
                let at = data::coordinates_at(view, at);
                return Err(Wrong { param: *param, at, got, want, wrong: wrong.len(), of: stored.len(), bound });
            }
        }
        Ok(())
    }

    /// What was compared, for people.
    pub(crate) fn said(&self, of: &str) -> String {
        let list = |params: &mut dyn Iterator<Item = usize>| params.map(|p| format!("v{p}")).collect::<Vec<_>>().join(", ");
        let mut text = format!(
            "{} elements of {} that {} of {} instances store are those of the interpreter, within {:.1e} of their size; {of}",
            self.elements(),
            list(&mut self.stored.iter().map(|s| s.0)),
            self.programs.len(),
            self.of,
            self.bound
        );
        if !self.updated.is_empty() {
            text += &format!("; {} is updated by atomics of many instances, and not compared", list(&mut self.updated.iter().copied()));
        }
        text.trim_end_matches("; ").to_owned()
    }
}

/// Bytes of a launch's tensors: those that hold something are read, those that the kernel writes are written.
pub(crate) fn bytes(kernel: &Kernel, args: &[Arg], memory: &Memory) -> u64 {
    let written = interp::written_params(kernel);
    let size = |v: &ViewArg| v.elem.storage(v.shape.iter().map(|&e| e.max(0) as usize).product()) as u64;
    let of = |(p, a): (usize, &Arg)| match a {
        Arg::View(v) => {
            let read = memory.buffers[v.buffer].is_initialised(0..memory.buffers[v.buffer].len());
            size(v) * (u64::from(read) + u64::from(written.contains(&p)))
        }
        Arg::Scalar(_) => 0,
    };
    args.iter().enumerate().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filetest::runline;
    use tilelift_ir::verify;

    const TEXT: &str = "kernel @k(v0: view<bf16, [?]>, v1: view<f32, [?]>, v2: view<i32, [?]>) {
    v3 = program_id x
    v4 = mul v3, 64
    v5 = load v0[v4] : tile<64xbf16>
    v6 = cast v5 : tile<64xf32>
    store v1[v4], v6
    v7 = splat 0 : tile<1xi32>
    v8 = splat 1 : tile<1xi32>
    v9 = atomic add v2[v7], v8
}";

    #[test]
    fn sampled_instances_find_a_wrong_element_and_leave_atomics_out() {
        let kernel = tilelift_ir::text::parse(TEXT).unwrap().kernels.remove(0);
        let verified = verify(&kernel).unwrap();
        let run = runline::parse(1, "@k(grid=100, v0=rand:1[6400], out v1=[6400], inout v2=zeros[1])").unwrap();
        let (args, mut memory) = data::arguments(&run, &kernel).unwrap();
        let before = memory.clone();
        assert_eq!(bytes(&kernel, &args, &memory), 6400 * (2 + 4) + 2 * 4);
        let r = reference(&verified, (run.grid, &args), &mut memory, (5, 3), Duration::from_secs(60)).unwrap();
        assert_eq!(memory, before, "memory stays as it was");
        assert_eq!((r.programs.len(), r.of, r.elements(), r.updated.as_slice()), (5, 100, 5 * 64, &[2][..]));
        let mut got = memory.clone();
        let options = interp::Options::default();
        interp::interpret(&verified, run.grid, &args, &mut got, &options).unwrap();
        assert_eq!(r.compare(&args, &got), Ok(()));
        let said = r.said("");
        assert!(said.contains("320 elements of v1 that 5 of 100") && said.contains("v2 is updated by atomics"), "{said}");
        // The last instance is among the samples.
        got.buffers[1].write(4 * 6399, &1e3f32.to_le_bytes());
        let wrong = r.compare(&args, &got).unwrap_err().to_string();
        assert!(wrong.contains("v1: 1 of 320") && wrong.contains("[6399]: 1000"), "{wrong}");
        // What was not written is NaN.
        assert!(r.compare(&args, &memory).is_err());
    }

    #[test]
    fn positions_are_distinct_and_hold_both_ends() {
        for (grid, count, want) in [([7, 3, 2], 5, 5), ([2, 2, 1], 9, 4), ([1, 1, 1], 4, 1), ([1000, 1000, 10], 8, 8), ([4, 1, 1], 0, 0)] {
            let list = positions(grid, 1, count, 1).concat();
            let distinct: BTreeSet<_> = list.iter().collect();
            assert_eq!((list.len(), distinct.len()), (want, want));
            assert!(list.iter().all(|p| p.iter().zip(&grid).all(|(p, e)| p < e)));
            if want > 1 && want < 5 || want == 8 {
                assert!(list.contains(&[0; 3]) && list.contains(&grid.map(|e| e - 1)), "{list:?}");
            }
        }
        // Clusters are whole.
        let list = positions([8, 3, 1], 4, 2, 1);
        assert_eq!(list, [[0, 1, 2, 3].map(|x| [x, 0, 0]), [4, 5, 6, 7].map(|x| [x, 2, 0])]);
    }
}
