//! Operations of a launch's dots, counted: the kernel is cut down to what decides how often its dots run, and the interpreter runs that.
//!
//! ```text
//! kernel ── keep loops and choices around dots, what their bounds and conditions follow from (loads of offsets and page tables, too)
//!        ── a dot becomes `atomic add counter, 2·m·n·k` ─► interpreter, over the launch's grid ─► operations
//! ```
//!
//! So bounds that depend on the grid position, on arguments or on data are those of the launch. What a dot does with elements outside of a view, or masked
//! off, counts: tiles are multiplied whole.

use std::collections::BTreeSet;
use std::fmt;
use tilelift_interp::{self as interp, Arg, Buffer, InterpError, Memory, ViewArg};
use tilelift_ir::ops::Effects;
use tilelift_ir::{
    AtomicOp, Attr, Extent, Inst, Kernel, Literal, MemoryOrder, Op, Region, Scalar, Scope, TileType, Type, Value, ValueDef, ViewType,
    verify,
};

/// Most program instances that are counted one by one; of larger grids as many are, evenly spread.
const MOST: u64 = 4096;
/// Element operations of the interpreter, by which time is bounded.
const FUEL: u64 = 1 << 30;

/// Why operations are not counted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum NotCounted {
    /// The kernel has tasks, local memory or asynchronous units of its own.
    Explicit,
    /// A bound or condition depends on what an op that writes brings.
    Written(Op),
    /// A bound or condition depends on memory that the kernel writes.
    OwnMemory,
    /// What is left does not run.
    Stopped(InterpError),
    /// What is left is no kernel: a fault of the count.
    Malformed,
}

impl fmt::Display for NotCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCounted::Explicit => f.write_str("the kernel's author says which warps do what, and its products are not counted"),
            NotCounted::Written(op) => write!(f, "how often a dot runs depends on what `{op}` brings"),
            NotCounted::OwnMemory => f.write_str("how often a dot runs depends on memory that the kernel writes"),
            NotCounted::Stopped(why) => write!(f, "the loops around the dots do not run by themselves: {why}"),
            NotCounted::Malformed => f.write_str("what is left of the kernel is malformed: a fault of the count; report it"),
        }
    }
}

/// Operations of dots, and of how many program instances they were counted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Operations {
    /// Multiplications and additions of all instances.
    pub(crate) all: f64,
    /// Instances that were counted; the others are taken for their mean.
    pub(crate) counted: u64,
    /// Instances of the grid.
    pub(crate) instances: u64,
}

/// Counts the operations of a launch's dots.
pub(crate) fn operations(kernel: &Kernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory) -> Result<Operations, NotCounted> {
    let instances = grid.iter().map(|&e| u64::from(e)).product();
    if kernel.is_explicit() {
        return Err(NotCounted::Explicit);
    }
    if !kernel.insts.values().any(|d| matches!(d.op, Op::Dot | Op::DotScaled)) {
        return Ok(Operations { all: 0.0, counted: instances, instances });
    }
    let cut = Cut::of(kernel)?.written();
    let verified = verify(&cut).map_err(|_| NotCounted::Malformed)?;
    let counted = instances.min(MOST);
    let at = |n: u64| {
        let p = n * instances / counted;
        let [x, y] = [u64::from(grid[0]), u64::from(grid[1])];
        [(p % x) as u32, (p / x % y) as u32, (p / x / y) as u32]
    };
    let programs = (counted < instances).then(|| (0..counted).map(at).collect());
    let counter = memory.add(Buffer::from_i64(Scalar::I64, [0]));
    let args: Vec<Arg> = args.iter().cloned().chain([ViewArg::dense(counter, Scalar::I64, &[1]).into()]).collect();
    let options = interp::Options { programs, conflicts: false, fuel: FUEL, ..interp::Options::default() };
    let done = interp::interpret(&verified, grid, &args, memory, &options);
    let sum = memory.buffers.pop().and_then(|b| b.read_i64(Scalar::I64).first().copied()).unwrap_or(0);
    done.map_err(NotCounted::Stopped)?;
    Ok(Operations { all: sum as f64 * instances as f64 / counted as f64, counted, instances })
}

/// What of a kernel decides how often its dots run.
struct Cut<'k> {
    kernel: &'k Kernel,
    /// Values that are needed.
    needed: BTreeSet<Value>,
    /// Instructions that are kept.
    kept: BTreeSet<Inst>,
    /// Parameters that the kernel writes.
    written: Vec<Value>,
}

impl<'k> Cut<'k> {
    fn of(kernel: &'k Kernel) -> Result<Cut<'k>, NotCounted> {
        let written = interp::written_params(kernel).into_iter().map(|n| kernel.params[n]).collect();
        let mut cut = Cut { kernel, needed: BTreeSet::new(), kept: BTreeSet::new(), written };
        let mut around = Vec::new();
        cut.around_dots(kernel.body, &mut around);
        around.into_iter().try_for_each(|i| cut.control(i))?;
        Ok(cut)
    }

    /// True if there are dots in a region; the instructions around them go to the list.
    fn around_dots(&self, r: Region, out: &mut Vec<Inst>) -> bool {
        let mut any = false;
        for &i in &self.kernel.regions[r].insts {
            let d = &self.kernel.insts[i];
            let inside = d.regions.iter().filter(|&&r| self.around_dots(r, out)).count() > 0;
            if inside {
                out.push(i);
            }
            any |= inside || matches!(d.op, Op::Dot | Op::DotScaled);
        }
        any
    }

    /// Keeps an instruction with regions, and what decides which of them run how often.
    fn control(&mut self, i: Inst) -> Result<(), NotCounted> {
        if !self.kept.insert(i) {
            return Ok(());
        }
        let d = &self.kernel.insts[i];
        match d.op {
            Op::For => d.args[..3].iter().try_for_each(|&v| self.need(v)),
            Op::While => self.kernel.yields(d.regions[0]).iter().try_for_each(|&v| self.need(v)),
            Op::If => self.need(d.args[0]),
            op => Err(NotCounted::Written(op)),
        }
    }

    /// Keeps what a value follows from.
    fn need(&mut self, v: Value) -> Result<(), NotCounted> {
        if !self.needed.insert(v) {
            return Ok(());
        }
        let kernel = self.kernel;
        match kernel.values[v].def {
            ValueDef::KernelParam(_) => Ok(()),
            ValueDef::RegionParam(r, n) => match kernel.holder(r) {
                Some(i) => {
                    self.control(i)?;
                    match (kernel.insts[i].op, n) {
                        (Op::For, 0) => Ok(()),
                        (Op::For, n) => self.carried(i, n as usize - 1),
                        _ => self.carried(i, n as usize),
                    }
                }
                None => Err(NotCounted::Malformed),
            },
            ValueDef::Result(i, n) => {
                let d = &kernel.insts[i];
                if !d.regions.is_empty() {
                    self.control(i)?;
                    return self.carried(i, n as usize);
                }
                match d.op.info().effects {
                    Effects::Pure | Effects::Reads if d.args.first().is_some_and(|v| self.written.contains(v)) => {
                        // The extent of a view stays as it is.
                        if d.op != Op::Dim {
                            return Err(NotCounted::OwnMemory);
                        }
                    }
                    Effects::Pure | Effects::Reads => {}
                    Effects::Writes
                    | Effects::Updates
                    | Effects::Observes
                    | Effects::Shared
                    | Effects::AsyncReads
                    | Effects::AsyncWrites
                    | Effects::AsyncUpdates
                    | Effects::Control => return Err(NotCounted::Written(d.op)),
                }
                self.kept.insert(i);
                d.args.iter().try_for_each(|&v| self.need(v))
            }
        }
    }

    /// Keeps a value that goes through an instruction with regions: where it comes from, in all of them.
    fn carried(&mut self, i: Inst, n: usize) -> Result<(), NotCounted> {
        let d = &self.kernel.insts[i];
        let given: Vec<Value> = match d.op {
            Op::For => vec![d.args[3 + n], self.kernel.yields(d.regions[0])[n], self.kernel.regions[d.regions[0]].params[n + 1]],
            Op::While => {
                let params = d.regions.iter().map(|&r| self.kernel.regions[r].params[n]);
                params.chain([d.args[n], self.kernel.yields(d.regions[1])[n]]).collect()
            }
            _ => d.regions.iter().map(|&r| self.kernel.yields(r)[n]).collect(),
        };
        self.needed.extend(d.results.get(n));
        given.into_iter().try_for_each(|v| self.need(v))
    }

    /// The kernel that is left.
    fn written(&self) -> Kernel {
        let mut out = self.kernel.clone();
        let counter = out.add_param(ViewType::dense(Scalar::I64, &[Extent::Fixed(1)]).into());
        self.region(&mut out, self.kernel.body, counter);
        out
    }

    /// Leaves of a region what is kept.
    fn region(&self, out: &mut Kernel, r: Region, counter: Value) {
        let mut left = Vec::new();
        for &i in &self.kernel.regions[r].insts {
            let d = &self.kernel.insts[i];
            if matches!(d.op, Op::Dot | Op::DotScaled) {
                left.extend(self.count(out, i, counter));
            }
            if self.kept.contains(&i) || d.op == Op::Yield {
                left.push(i);
            }
            if self.kept.contains(&i) && !d.regions.is_empty() {
                self.narrowed(out, i);
                d.regions.iter().for_each(|&r| self.region(out, r, counter));
            }
        }
        out.regions[r].insts = left;
    }

    /// Takes what is not needed out of what an instruction with regions carries.
    fn narrowed(&self, out: &mut Kernel, i: Inst) {
        let d = &self.kernel.insts[i];
        let carries = |n: usize| d.results.get(n).is_some_and(|v| self.needed.contains(v));
        // Operands in front of the carried ones, and parameters of regions in front of theirs.
        let [operands, params] = match d.op {
            Op::For => [3, 1],
            Op::If => [1, 0],
            _ => [0, 0],
        };
        fn keep<A: smallvec::Array<Item = Value>>(list: &mut smallvec::SmallVec<A>, lead: usize, carries: &impl Fn(usize) -> bool) {
            let mut n = 0;
            list.retain(|_| {
                n += 1;
                n <= lead || carries(n - 1 - lead)
            });
        }
        keep(&mut out.insts[i].args, operands, &carries);
        keep(&mut out.insts[i].results, 0, &carries);
        for (n, v) in out.insts[i].results.clone().into_iter().enumerate() {
            out.values[v].def = ValueDef::Result(i, n as u32);
        }
        for (which, &r) in d.regions.iter().enumerate() {
            keep(&mut out.regions[r].params, params, &carries);
            for (n, v) in out.regions[r].params.clone().into_iter().enumerate() {
                out.values[v].def = ValueDef::RegionParam(r, n as u32);
            }
            // The first region of a `while` yields its condition.
            if (d.op != Op::While || which == 1)
                && let Some(end) = out.terminator(r)
            {
                keep(&mut out.insts[end].args, 0, &carries);
            }
        }
    }

    /// What adds a dot's operations to the counter.
    fn count(&self, out: &mut Kernel, dot: Inst, counter: Value) -> Vec<Inst> {
        let d = &self.kernel.insts[dot];
        let shape = |v: Value| self.kernel.ty(v).shape().unwrap_or_default();
        let (a, sums) = (shape(d.args[0]), shape(d.results[0]));
        let work = 2 * a.iter().map(|&e| i64::from(e)).product::<i64>() * sums.last().map_or(1, |&n| i64::from(n));
        let mut made = Vec::new();
        let mut one = |op: Op, args: &[Value], attrs: &[Attr], ty: Type| {
            let i = out.add_inst(op, args, 0, attrs, &[], &[ty]);
            made.push(i);
            out.insts[i].results[0]
        };
        let mut splat = |n: i64, elem: Scalar| {
            let c = one(Op::Const, &[], &[Attr::Literal(Literal::Int(n))], Type::Scalar(elem));
            one(Op::Splat, &[c], &[], Type::Tile(TileType::new(&[1], elem)))
        };
        let (at, by) = (splat(0, Scalar::I32), splat(work, Scalar::I64));
        let how = [Attr::Atomic(AtomicOp::Add), Attr::Sync(MemoryOrder::Relaxed, Scope::Gpu)];
        one(Op::Atomic, &[counter, at, by], &how, Type::Tile(TileType::new(&[1], Scalar::I64)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filetest::{data, runline};

    fn count(text: &str, run: &str) -> Result<Operations, NotCounted> {
        let kernel = tilelift_ir::text::parse(text).unwrap().kernels.remove(0);
        verify(&kernel).unwrap();
        let run = runline::parse(1, run).unwrap();
        let (args, mut memory) = data::arguments(&run, &kernel).unwrap();
        let before = memory.clone();
        let done = operations(&kernel, run.grid, &args, &mut memory);
        assert_eq!(memory, before, "inputs stay as they are");
        done
    }

    /// A product whose depth is `HI`, in a loop that carries an accumulator and a scalar.
    fn looped(hi: &str) -> String {
        format!(
            "kernel @k(v0: view<f16, [?, ?]>, v1: view<f32, [?, ?]>, v2: view<i32, [?]>) {{
    v3 = program_id x
    v4 = load v2[v3] : tile<1xi32>
    v5 = reshape v4 : i32
    v6 = splat 0.0 : tile<16x16xf32>
    v7, v8 = for v9 in 0..{hi} step 16 carry v10 = v6, v11 = 3 {{
        v12 = load v0[0, v9] : tile<16x16xf16>
        v13 = dot v12, v12, v10
        v14 = add v11, v9
        yield v13, v14
    }}
    store v1[0, v8], v7
}}"
        )
    }

    #[test]
    fn trips_follow_from_arguments_positions_and_data() {
        let one = 2.0 * 16.0 * 16.0 * 16.0;
        let run = "@k(grid=3, v0=ones[16, 64], out v1=[16, 128], v2={16, 0, 100})";
        let fixed = count(&looped("64"), run).unwrap();
        assert_eq!((fixed.all, fixed.counted, fixed.instances), (3.0 * 4.0 * one, 3, 3));
        // 1, 0 and 7 iterations.
        assert_eq!(count(&looped("v5"), run).unwrap().all, 8.0 * one);
        // 0, 1 and 2 iterations, by the position.
        let placed = looped("v15").replace("    v6 = splat", "    v15 = mul v3, 16\n    v6 = splat");
        assert_eq!(count(&placed, run).unwrap().all, 3.0 * one);
    }

    #[test]
    fn choices_and_nested_loops_count_as_they_run() {
        let text = "kernel @k(v0: view<f32, [?, ?]>, v1: i32) {
    v2 = program_id x
    v3 = splat 1.0 : tile<16x16xf32>
    v4 = cmp lt v2, v1
    v5 = if v4 {
        v6 = for v7 in 0..v2 step 1 carry v8 = v3 {
            v9 = for v10 in 0..v7 step 1 carry v11 = v8 {
                v12 = dot v3, v3, v11
                yield v12
            }
            yield v9
        }
        yield v6
    } else {
        yield v3
    }
    store v0[0, 0], v5
}";
        let one = 2.0 * 16.0 * 16.0 * 16.0;
        // Positions 0, 1, 2 and 3 of 6 run; position n has n (n - 1) / 2 dots.
        assert_eq!(count(text, "@k(grid=6, out v0=[16, 16], v1=4)").unwrap().all, (1.0 + 3.0) * one);
    }

    #[test]
    fn large_grids_are_sampled_and_kernels_without_dots_have_none() {
        let big = count(&looped("v5"), "@k(grid=20000, v0=ones[16, 64], out v1=[16, 128], v2=fill:32[20000])").unwrap();
        assert_eq!((big.counted, big.instances, big.all), (MOST, 20_000, 20_000.0 * 2.0 * 8192.0));
        let none = "kernel @k(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<16xf32>\n    store v0[0], v1\n}";
        assert_eq!(count(none, "@k(grid=5, out v0=[16])").unwrap().all, 0.0);
    }

    #[test]
    fn what_follows_from_own_writes_is_not_counted() {
        let text = looped("v5").replace("    store v1[0, v8], v7", "    store v1[0, v8], v7\n    store v2[0], v4");
        let done = count(&text, "@k(grid=1, v0=ones[16, 64], out v1=[16, 128], inout v2={16})");
        assert_eq!(done, Err(NotCounted::OwnMemory));
    }
}
