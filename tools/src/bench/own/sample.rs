//! Is what a launch wrote right? A few program instances are run by the interpreter, and what they store is compared.
//!
//! ```text
//! grid ─► first, last and random positions ─► interpreter, one at a time, within a bound of time ─► elements that these store, and their values
//! ```
//!
//! Tensors that instances update by atomics hold the sum of all instances' work, and are left out; the report says so. Elements are compared within a bound
//! that follows from the narrowest float type that the kernel computes (8-bit floats that it only multiplies count as 16-bit ones, which is what
//! their sums keep), in proportion to the root mean square of what a tensor's sample holds; where the
//! data are ill-conditioned, the bound is wider: the first sample runs again with the lowest bit of every float input of 16 bits or more turned, and shows
//! how far that moves its results. The lowest bit of an 8-bit float is a good part of it, and says nothing of the arithmetic.

use crate::filetest::data;
use crate::filetest::runline::Number;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::{Duration, Instant};
use tilelift_interp::{self as interp, Arg, Buffer, InterpError, Memory, ViewArg};
use tilelift_ir::ops::Effects;
use tilelift_ir::{Kernel, Op, Scalar, Value, Verified};
use tilelift_kernels::reference::unit_roundoff;
use tilelift_kernels::rng;

/// Roundings of the narrowest type by which elements may differ: order of sums, and functions that machines approximate.
const ROUNDINGS: f64 = 4.0;
/// How far results may be off, in what turning the lowest bits of inputs moves them by.
const TURNED: f64 = 2.0;
/// A bound from which on no digit of a result means anything, and nothing is compared.
const NONE: f64 = 1.0;
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
    stored: Stored,
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
    let run = |memory: &mut Memory, together: &[[u32; 3]]| {
        let options = interp::Options { programs: Some(together.to_vec()), conflicts: false, ..interp::Options::default() };
        interp::interpret(kernel, grid, args, memory, &options).map(drop)
    };
    let mut first = Vec::new();
    for together in positions(grid, kernel.cluster, count, seed) {
        if !programs.is_empty() && start.elapsed() > time {
            break;
        }
        ran = run(memory, &together);
        if ran.is_err() {
            break;
        }
        if programs.is_empty() {
            first.clone_from(&together);
        }
        programs.extend(together);
    }
    // What was, is again; what the instances left is at hand.
    let mut exchange = |memory: &mut Memory| before.iter_mut().for_each(|(b, was)| std::mem::swap(&mut memory.buffers[*b], was));
    exchange(memory);
    ran?;
    let after = before;
    let stored_in = |memory: &Memory, after: &[(usize, Buffer)]| {
        let one = |&p: &usize| match &args[p] {
            Arg::View(view) => {
                let (_, after) = after.iter().find(|(b, _)| *b == view.buffer)?;
                Some((p, data::changed(view, &memory.buffers[view.buffer], after)))
            }
            Arg::Scalar(_) => None,
        };
        compared.iter().filter_map(one).collect::<Vec<_>>()
    };
    let stored = stored_in(memory, &after);
    // The same with inputs that differ by their lowest bits; what can't run so says nothing.
    let mut turned = Vec::new();
    let inputs: Vec<&ViewArg> = args.iter().enumerate().filter(|(p, _)| !written.contains(p)).filter_map(|(_, a)| view_of(a)).collect();
    turn_lowest_bits(&inputs, memory);
    let mut before: Vec<(usize, Buffer)> = after.iter().map(|(b, _)| (*b, memory.buffers[*b].clone())).collect();
    let again = run(memory, &first);
    before.iter_mut().for_each(|(b, was)| std::mem::swap(&mut memory.buffers[*b], was));
    turn_lowest_bits(&inputs, memory);
    if again.is_ok() {
        turned = stored_in(memory, &before);
    }
    let of = grid.iter().map(|&e| u64::from(e)).product();
    let bound = bound(kernel.kernel()).max(TURNED * moved(args, &stored, &turned));
    Ok(Reference { programs, of, stored, updated, bound })
}

fn view_of(arg: &Arg) -> Option<&ViewArg> {
    match arg {
        Arg::View(view) => Some(view),
        Arg::Scalar(_) => None,
    }
}

/// Turns the lowest bit of every float of dense views, of 16 bits or more; doing it twice does nothing.
fn turn_lowest_bits(inputs: &[&ViewArg], memory: &mut Memory) {
    for view in inputs.iter().filter(|v| v.elem.is_float() && v.elem.bits() >= 16) {
        let range = view.byte_range();
        if !memory.buffers[view.buffer].is_initialised(range.start as usize..range.end as usize) {
            continue;
        }
        let bytes = memory.buffers[view.buffer].bytes_mut();
        let held = &mut bytes[(range.start as usize)..(range.end as usize)];
        held.iter_mut().step_by(view.elem.bytes() as usize).for_each(|low| *low ^= 1);
    }
}

/// Elements stored by parameter: where they begin, in bits, and their bits.
type Stored = Vec<(usize, Vec<(usize, u64)>)>;

/// How far results move at most, in proportion to them and to the root mean square of their tensor.
fn moved(args: &[Arg], stored: &Stored, turned: &Stored) -> f64 {
    let mut most = 0.0f64;
    for ((p, was), (_, is)) in stored.iter().zip(turned) {
        let Some(view) = view_of(&args[*p]).filter(|v| v.elem.is_float()) else { continue };
        let scale = root_mean_square(was, view.elem);
        let was: HashMap<usize, u64> = was.iter().copied().collect();
        for (at, bits) in is {
            let number = |bits: u64| data::number(bits, view.elem).as_f64();
            let Some(x) = was.get(at).map(|&b| number(b)) else { continue };
            let far = (number(*bits) - x).abs() / x.abs().max(scale);
            most = if far.is_finite() { most.max(far) } else { most };
        }
    }
    most
}

/// The root mean square of the finite ones of some elements.
fn root_mean_square(stored: &[(usize, u64)], elem: Scalar) -> f64 {
    let finite = stored.iter().map(|s| data::number(s.1, elem).as_f64()).filter(|x| x.is_finite());
    let (n, squares) = finite.fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x * x));
    if n > 0.0 { f64::sqrt(squares / n) } else { 0.0 }
}

/// How far elements may be from the interpreter's, in proportion to them.
fn bound(kernel: &Kernel) -> f64 {
    // What is brought as it is has no error of its own.
    let rounded = |v: Value| kernel.def_inst(v).is_some_and(|i| matches!(kernel.insts[i].op, Op::Cast | Op::Bitcast));
    let kept = |v: Value, e: Scalar| if e.bits() < 16 && !rounded(v) { Scalar::BF16 } else { e };
    let tiles = kernel.values.iter().filter_map(|(v, d)| d.ty.as_tile().map(|t| (v, t.elem)));
    let elems: BTreeSet<Scalar> = tiles.filter(|(_, e)| e.is_float()).map(|(v, e)| kept(v, e)).collect();
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
            let scale = root_mean_square(stored, elem);
            let bound = if elem.is_float() { self.bound } else { 0.0 };
            let right = |want: u64, have: u64| {
                let (x, y) = (number(want).as_f64(), number(have).as_f64());
                want == have
                    || bound >= NONE
                    || elem.is_float() && (x.is_nan() && y.is_nan() || x == y || (x - y).abs() <= bound * x.abs().max(scale))
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
        if self.stored.is_empty() {
            text = of.to_owned();
        } else if self.bound >= NONE {
            text = format!(
                "no float is compared: the data are ill-conditioned, and turning the lowest bits of inputs moves results by {:.1e} of their size{}{of}",
                self.bound / TURNED,
                if of.is_empty() { "" } else { "; " }
            );
        }
        if !self.updated.is_empty() {
            text += if text.is_empty() { "nothing: " } else { "; " };
            text += &format!("{} is updated by atomics of many instances, and not compared", list(&mut self.updated.iter().copied()));
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
    fn ill_conditioned_data_have_a_wider_bound() {
        let text = "kernel @k(v0: view<bf16, [?]>, v1: view<bf16, [?]>, v2: view<f32, [?]>) {
    v3 = load v0[0] : tile<64xbf16>
    v4 = load v1[0] : tile<64xbf16>
    v5 = sub v3, v4
    v6 = cast v5 : tile<64xf32>
    store v2[0], v6
}";
        let kernel = tilelift_ir::text::parse(text).unwrap().kernels.remove(0);
        let bound = |run: &str| {
            let run = runline::parse(1, run).unwrap();
            let (args, mut memory) = data::arguments(&run, &kernel).unwrap();
            let before = memory.clone();
            let r = reference(&verify(&kernel).unwrap(), (run.grid, &args), &mut memory, (1, 1), Duration::from_secs(9)).unwrap();
            assert_eq!(memory, before);
            r.bound
        };
        // Neighbours among the numbers of bf16: their difference changes its sign.
        assert!(bound("@k(grid=1, v0=fill:1.0[64], v1=fill:1.0078125[64], out v2=[64])") >= NONE);
        assert!(bound("@k(grid=1, v0=rand:1[64], v1=rand:2[64], out v2=[64])") < 0.1);
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
