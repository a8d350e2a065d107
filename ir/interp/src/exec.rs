//! The machine: runs one program instance after another, region by region, instruction by instruction.

use super::access::{Access, Released, Shadow, View};
use super::data::Data;
use super::error::{Fault, InterpError};
use super::indexed::{Change, Places};
use super::memory::Memory;
use super::philox::philox;
use super::plan::Plan;
use super::{combine, elementwise as ew, fold, order, scan, shapes};
use crate::data::Bundle;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tilelift_ir::kernel::{InstData, Kernel};
use tilelift_ir::ops::{Attr, CmpOp, GridAxis, Literal, MemoryOrder, Op, Precision, ReduceOp};
use tilelift_ir::types::{Scalar, Type};
use tilelift_ir::{Inst, Region, Value, num};

pub(crate) struct Interpreter<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) plan: &'a Plan,
    /// Scalars and tiles by value; `None` before the definition and after the last use.
    pub(crate) env: SecondaryMap<Value, Option<Data>>,
    /// Views by kernel parameter.
    pub(crate) views: Vec<Option<View>>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) shadows: &'a mut [Option<Shadow>],
    pub(crate) grid: [u32; 3],
    /// Instances that run, of a persistent kernel.
    pub(crate) workers: u32,
    /// The programs that run, when they are not the whole grid.
    pub(crate) subset: Option<&'a [[u32; 3]]>,
    pub(crate) program: [u32; 3],
    /// Programs whose accesses come before the running one's.
    pub(crate) released: Released,
    /// 1 + the ordinal of the program.
    pub(crate) me: u32,
    pub(crate) fuel: u64,
    pub(crate) limit: u64,
    /// Instructions that may still run, and how many might at first: a scalar one takes a hundred times as long as an element of a tile.
    pub(crate) instructions: u64,
    pub(crate) most_instructions: u64,
    /// Rounds that running loops have begun.
    pub(crate) rounds: SecondaryMap<Inst, u64>,
    /// Most rounds of a `while`.
    pub(crate) steps: u64,
}

fn missing(what: &'static str) -> Fault {
    Fault::Malformed(what)
}

fn grid_axis(d: &InstData) -> Result<usize, Fault> {
    match d.attrs.first() {
        Some(Attr::Grid(GridAxis::X)) => Ok(0),
        Some(Attr::Grid(GridAxis::Y)) => Ok(1),
        Some(Attr::Grid(GridAxis::Z)) => Ok(2),
        Some(_) | None => Err(missing("no grid axis")),
    }
}

fn dim_attr(d: &InstData, at: usize) -> Result<usize, Fault> {
    match d.attrs.get(at) {
        Some(Attr::Dim(n)) => Ok(*n as usize),
        Some(_) | None => Err(missing("no dimension")),
    }
}

fn cmp_attr(d: &InstData) -> Result<CmpOp, Fault> {
    match d.attrs.first() {
        Some(Attr::Cmp(c)) => Ok(*c),
        Some(_) | None => Err(missing("no comparison")),
    }
}

fn reduce_attr(d: &InstData) -> Result<ReduceOp, Fault> {
    match d.attrs.first() {
        Some(Attr::Reduce(r)) => Ok(*r),
        Some(_) | None => Err(missing("no reduction op")),
    }
}

impl Interpreter<'_> {
    /// Runs one program instance.
    pub(crate) fn run_program(&mut self, program: [u32; 3], me: u32, scalars: &[(Value, Data)]) -> Result<(), InterpError> {
        (self.program, self.me) = (program, me);
        self.released.acquired = false;
        for (v, data) in scalars {
            self.env[*v] = Some(data.clone());
        }
        self.run(self.kernel.body).map(|_| ())
    }

    pub(crate) fn fault(&self, inst: Inst, fault: Fault) -> InterpError {
        InterpError::at(self.kernel, inst, self.program, fault)
    }

    /// Runs a region to its end and returns what it yields.
    fn run(&mut self, region: Region) -> Result<Bundle, InterpError> {
        let kernel = self.kernel;
        for &inst in &kernel.regions[region].insts {
            let d = &kernel.insts[inst];
            if let Some(yielded) = self.step(inst, d)? {
                return Ok(yielded);
            }
        }
        Ok(Bundle::new())
    }

    pub(crate) fn charge(&mut self, inst: Inst, cost: u64) -> Result<(), InterpError> {
        let Some(fuel) = self.fuel.checked_sub(cost) else {
            return Err(self.given_up(inst, |rounds| Fault::Fuel { limit: self.limit, rounds }));
        };
        let Some(instructions) = self.instructions.checked_sub(1) else {
            return Err(self.given_up(inst, |rounds| Fault::Instructions { limit: self.most_instructions, rounds }));
        };
        (self.fuel, self.instructions) = (fuel, instructions);
        Ok(())
    }

    /// A fault of the running loop that has gone round most often, if any loop runs; else of the instruction.
    fn given_up(&self, inst: Inst, fault: impl Fn(u64) -> Fault) -> InterpError {
        let running = self.rounds.iter().filter(|&(_, &n)| n > 0).max_by_key(|&(_, &n)| n);
        let (at, rounds) = running.map_or((inst, 0), |(at, &n)| (at, n));
        self.fault(at, fault(rounds))
    }

    /// A loop begins a round.
    pub(crate) fn round(&mut self, inst: Inst) -> Result<(), InterpError> {
        self.rounds[inst] += 1;
        self.charge(inst, 1)
    }

    /// Executes an instruction; a `yield` returns its operands.
    pub(crate) fn step(&mut self, inst: Inst, d: &InstData) -> Result<Option<Bundle>, InterpError> {
        self.charge(inst, self.plan.cost[inst])?;
        let mut args = Bundle::new();
        for &v in &d.args {
            match (&self.env[v], self.kernel.ty(v)) {
                (_, Type::View(_)) => {}
                (Some(data), _) => args.push(data.clone()),
                (None, _) => return Err(self.fault(inst, missing("a value is used before it is defined"))),
            }
        }
        let plan = self.plan;
        for &v in &plan.dies_before[inst] {
            self.env[v] = None;
        }
        let results = match d.op {
            Op::Yield => return Ok(Some(args)),
            Op::For => self.run_for(inst, d, args)?,
            Op::While => self.run_while(inst, d, args)?,
            Op::If => {
                let condition = args.first().map_or(Err(missing("no condition")), Data::as_int).map_err(|f| self.fault(inst, f))?;
                self.run(d.regions[usize::from(condition == 0)])?
            }
            Op::Split => match args.first() {
                Some(a) => Bundle::from_iter([shapes::every_other(a, 0), shapes::every_other(a, 1)]),
                None => return Err(self.fault(inst, missing("no operand"))),
            },
            Op::ReduceBy | Op::ScanBy | Op::ScanReverseBy => self.run_combine(inst, d, args)?,
            Op::Philox => philox_tiles(&args).map_err(|f| self.fault(inst, f))?,
            Op::Assert => {
                let holds = args.first().map_or(Err(missing("no condition")), Data::as_ints).map(|c| c.iter().position(|&x| x == 0));
                if let Some(element) = holds.map_err(|f| self.fault(inst, f))? {
                    return Err(self.fault(inst, Fault::Assertion { element }));
                }
                Bundle::new()
            }
            Op::Prefetch => Bundle::new(),
            Op::Print => {
                let text = args.iter().map(Data::text).collect::<Vec<_>>().join(" ");
                self.memory.printed.push(format!("{:?} {text}", self.program));
                Bundle::new()
            }
            // A machine of their own runs them, see `explicit`.
            tilelift_ir::explicit_ops!() => return Err(self.fault(inst, missing("explicit control outside of a cluster"))),
            Op::Store => {
                self.store(d, args).map_err(|f| self.fault(inst, f))?;
                Bundle::new()
            }
            Op::Scatter => {
                self.scatter(d, args).map_err(|f| self.fault(inst, f))?;
                Bundle::new()
            }
            Op::Const
            | Op::ProgramId
            | Op::NumPrograms
            | Op::Dim
            | Op::Iota
            | Op::Splat
            | tilelift_ir::elementwise_ops!()
            | Op::Broadcast
            | Op::Reshape
            | Op::Transpose
            | Op::Join
            | Op::Concat
            | Op::Slice
            | Op::Flip
            | Op::Reduce
            | Op::Scan
            | Op::ScanReverse
            | Op::ArgMin
            | Op::ArgMax
            | Op::Assume
            | Op::RequireLayout
            | Op::ReleaseLayout
            | Op::Dot
            | Op::DotScaled
            | Op::Gather
            | Op::Atomic
            | Op::AtomicCas
            | Op::GatherTile
            | Op::Histogram
            | Op::Sort
            | Op::ArgSort
            | Op::TopK
            | Op::ArgTopK
            | Op::Load => {
                let data = self.compute(d, args).map_err(|f| self.fault(inst, f))?;
                Bundle::from_iter([data])
            }
        };
        if results.len() != d.results.len() {
            return Err(self.fault(inst, missing("a region yields another number of values than the instruction has results")));
        }
        for (&v, data) in d.results.iter().zip(results) {
            self.env[v] = Some(data);
        }
        for &v in &plan.dies_after[inst] {
            self.env[v] = None;
        }
        Ok(None)
    }

    pub(crate) fn bind(&mut self, params: &[Value], data: Bundle) {
        for (&p, x) in params.iter().zip(data) {
            self.env[p] = Some(x);
        }
    }

    /// The index takes the values `lo + n * step` below `hi`, computed without wrapping.
    fn run_for(&mut self, inst: Inst, d: &InstData, args: Bundle) -> Result<Bundle, InterpError> {
        let mut args = args.into_iter();
        let mut bound = || args.next().map_or(Err(missing("no loop bound")), |x| x.as_int());
        let (lo, hi, step) = (bound(), bound(), bound());
        let bounds = || Ok((lo?, hi?, step?));
        let (lo, hi, step) = bounds().map_err(|f| self.fault(inst, f))?;
        if step <= 0 {
            return Err(self.fault(inst, Fault::Step { step }));
        }
        let mut carried: Bundle = args.collect();
        let region = d.regions[0];
        let params = self.kernel.regions[region].params.clone();
        let mut at = i128::from(lo);
        while at < i128::from(hi) {
            self.round(inst)?;
            self.env[params[0]] = Some(Data::int(at as i64));
            self.bind(&params[1..], carried);
            carried = self.run(region)?;
            at += i128::from(step);
        }
        self.rounds[inst] = 0;
        Ok(carried)
    }

    fn run_while(&mut self, inst: Inst, d: &InstData, init: Bundle) -> Result<Bundle, InterpError> {
        let (test, body) = (d.regions[0], d.regions[1]);
        let (test_params, body_params) = (self.kernel.regions[test].params.clone(), self.kernel.regions[body].params.clone());
        let mut carried = init;
        let mut left = self.steps;
        loop {
            self.bind(&test_params, carried.clone());
            let yielded = self.run(test)?;
            if !matches!(yielded.first(), Some(Data::Int(v)) if v[..] == [1]) {
                self.rounds[inst] = 0;
                // The test's parameters may still share what is carried.
                return Ok(carried);
            }
            left = left.checked_sub(1).ok_or_else(|| self.fault(inst, Fault::Rounds { limit: self.steps }))?;
            self.round(inst)?;
            for &p in &test_params {
                self.env[p] = None;
            }
            self.bind(&body_params, carried);
            carried = self.run(body)?;
        }
    }

    fn run_combine(&mut self, inst: Inst, d: &InstData, tiles: Bundle) -> Result<Bundle, InterpError> {
        let kernel = self.kernel;
        let shape = d.args.first().and_then(|&v| kernel.ty(v).shape()).unwrap_or(&[]);
        let axis = dim_attr(d, 0).map_err(|f| self.fault(inst, f))?;
        let region = d.regions[0];
        let combine: combine::Combine<'_, InterpError> = &mut |x, y| self.combined(region, x, y);
        if d.op == Op::ReduceBy {
            combine::reduce(tiles, shape, axis, combine)
        } else {
            combine::scan(tiles, shape, axis, d.op == Op::ScanReverseBy, combine)
        }
    }

    /// Runs a combining region on many pairs at once: its scalars are as many elements as there are pairs.
    fn combined(&mut self, region: Region, x: Bundle, y: Bundle) -> Result<Bundle, InterpError> {
        let kernel = self.kernel;
        let pairs = x.first().map_or(0, Data::len);
        self.bind(&kernel.regions[region].params, x.into_iter().chain(y).collect());
        for &inst in &kernel.regions[region].insts {
            let d = &kernel.insts[inst];
            let mut args = Bundle::new();
            for &v in &d.args {
                let data = self.env[v].clone().ok_or_else(|| self.fault(inst, missing("a value is used before it is defined")))?;
                // What comes from outside, and constants, are one for all.
                args.push(if data.len() == pairs { data } else { shapes::splat(&data, pairs) });
            }
            for &v in &self.plan.dies_before[inst] {
                self.env[v] = None;
            }
            if d.op == Op::Yield {
                return Ok(args);
            }
            let data = match &args[..] {
                [c, a, b] if d.op == Op::Select => ew::select(c, a.clone(), b.clone(), false),
                _ => self.compute(d, args),
            };
            let data = data.map_err(|f| self.fault(inst, f))?;
            if let Some(&v) = d.results.first() {
                self.env[v] = Some(data);
            }
        }
        Ok(Bundle::new())
    }

    /// What ordinal `1 + n` of a shadow means.
    pub(crate) fn program_of(grid: [u32; 3], subset: Option<&[[u32; 3]]>, me: u32) -> [u32; 3] {
        let n = me.saturating_sub(1);
        match subset {
            Some(list) => list.get(n as usize).copied().unwrap_or_default(),
            None => super::grid::program_at(grid, u64::from(n)),
        }
    }

    fn store(&mut self, d: &InstData, args: Bundle) -> Result<(), Fault> {
        let view = view_of(self.kernel, &self.views, d)?;
        let rank = view.arg.shape.len();
        let index = indices(&args, rank)?;
        let value = args.get(rank).ok_or(missing("no value to store"))?;
        let shape = self.kernel.ty(d.args[1 + rank]).shape().unwrap_or(&[]);
        let mask = args.get(rank + 1).map(Data::as_ints).transpose()?.map(|m| m.as_slice());
        let (grid, subset) = (self.grid, self.subset);
        let mut access = Access { memory: self.memory, shadows: self.shadows, me: self.me, released: &self.released };
        access.store(view, &index, shape, value, mask, |w| Self::program_of(grid, subset, w))
    }

    fn load(&mut self, d: &InstData, args: Bundle, result: &Type) -> Result<Data, Fault> {
        let (grid, subset) = (self.grid, self.subset);
        let view = view_of(self.kernel, &self.views, d)?;
        let rank = view.arg.shape.len();
        let index = indices(&args, rank)?;
        let mut rest = args[rank..].iter();
        let mask = if d.present & 0b0100 != 0 { Some(rest.next().ok_or(missing("no mask"))?.as_ints()?.as_slice()) } else { None };
        // All bits 0, which is no zero in a type without one.
        let zero = if result.elem().is_float() { Data::floats(vec![num::from_bits(0, result.elem())]) } else { Data::int(0) };
        let other = rest.next().cloned().unwrap_or(zero);
        let mut access = Access { memory: self.memory, shadows: self.shadows, me: self.me, released: &self.released };
        access.load(view, &index, result.shape().unwrap_or(&[]), mask, other, |w| Self::program_of(grid, subset, w))
    }

    fn gather(&mut self, d: &InstData, args: Bundle, result: &Type) -> Result<Data, Fault> {
        let (grid, subset) = (self.grid, self.subset);
        let view = view_of(self.kernel, &self.views, d)?;
        let rank = view.arg.shape.len();
        let mut rest = args.get(rank..).unwrap_or(&[]).iter();
        let mask = if d.present & 0b0100 != 0 { Some(rest.next().ok_or(missing("no mask"))?.as_ints()?.as_slice()) } else { None };
        // As for a load.
        let zero = if result.elem().is_float() { Data::floats(vec![num::from_bits(0, result.elem())]) } else { Data::int(0) };
        let other = rest.next().cloned().unwrap_or(zero);
        let places = Places { view, index: index_tiles(&args, rank)?, mask };
        let mut access = Access { memory: self.memory, shadows: self.shadows, me: self.me, released: &self.released };
        access.gather(&places, other, |w| Self::program_of(grid, subset, w))
    }

    fn scatter(&mut self, d: &InstData, args: Bundle) -> Result<(), Fault> {
        let (grid, subset) = (self.grid, self.subset);
        let view = view_of(self.kernel, &self.views, d)?;
        let rank = view.arg.shape.len();
        let value = args.get(rank).ok_or(missing("no value to scatter"))?;
        let mask = args.get(rank + 1).map(Data::as_ints).transpose()?.map(|m| m.as_slice());
        let places = Places { view, index: index_tiles(&args, rank)?, mask };
        let mut access = Access { memory: self.memory, shadows: self.shadows, me: self.me, released: &self.released };
        access.scatter(&places, value, |w| Self::program_of(grid, subset, w))
    }

    fn update(&mut self, d: &InstData, args: Bundle) -> Result<Data, Fault> {
        let (grid, subset) = (self.grid, self.subset);
        let view = view_of(self.kernel, &self.views, d)?;
        let rank = view.arg.shape.len();
        let operand = |n: usize| args.get(rank + n).ok_or(missing("no operand of an update"));
        let (change, next) = match d.attrs.first() {
            Some(Attr::Atomic(op)) if d.op == Op::Atomic => (Change::Op(*op, operand(0)?), 1),
            Some(_) | None => (Change::Cas(operand(0)?.as_ints()?.as_slice(), operand(1)?.as_ints()?.as_slice()), 2),
        };
        let mask = args.get(rank + next).map(Data::as_ints).transpose()?.map(|m| m.as_slice());
        let places = Places { view, index: index_tiles(&args, rank)?, mask };
        let order = d.attrs.iter().find_map(|a| if let Attr::Sync(o, _) = a { Some(*o) } else { None });
        if order.is_some_and(MemoryOrder::acquires) {
            self.released.acquired = true;
        }
        let mut access = Access { memory: self.memory, shadows: self.shadows, me: self.me, released: &self.released };
        let old = access.update(&places, &change, |w| Self::program_of(grid, subset, w))?;
        if order.is_some_and(MemoryOrder::releases) {
            self.released.programs.insert(self.me);
        }
        Ok(old)
    }

    /// The result of an instruction that makes exactly one value and has no regions.
    pub(crate) fn compute(&mut self, d: &InstData, args: Bundle) -> Result<Data, Fault> {
        let kernel = self.kernel;
        let result = d.results.first().map(|&v| kernel.ty(v)).ok_or(missing("no result"))?;
        let operand = |i: usize| d.args.get(i).map(|&v| kernel.ty(v)).ok_or(missing("no operand"));
        let shape_of = |i: usize| operand(i).map(|t| t.shape().unwrap_or(&[]));
        let elem = result.elem();
        let shape = result.shape().unwrap_or(&[]);
        if matches!(d.op, Op::Atomic | Op::AtomicCas) {
            return self.update(d, args);
        }
        if d.op == Op::Gather {
            return self.gather(d, args, result);
        }
        if d.op == Op::Load {
            return self.load(d, args, result);
        }
        let mut args = args.into_iter();
        let mut arg = || args.next().ok_or(missing("no operand"));
        match d.op {
            Op::Const => match d.attrs.first() {
                Some(Attr::Literal(Literal::Int(i))) if elem.is_float() => Ok(Data::floats(vec![*i as f64])),
                Some(Attr::Literal(Literal::Int(i))) => Ok(Data::int(*i)),
                Some(Attr::Literal(Literal::Float(bits))) => Ok(Data::floats(vec![f64::from_bits(*bits)])),
                Some(_) | None => Err(missing("no literal")),
            },
            Op::ProgramId => Ok(Data::int(i64::from(self.program[grid_axis(d)?]))),
            Op::NumPrograms => Ok(Data::int(i64::from(self.grid[grid_axis(d)?]))),
            Op::Dim => {
                let extents = &view_of(self.kernel, &self.views, d)?.arg.shape;
                extents.get(dim_attr(d, 0)?).map(|&e| Data::int(e)).ok_or(missing("no such dimension"))
            }
            Op::Iota => {
                let dim = dim_attr(d, 0)?;
                if dim < shape.len() { Ok(shapes::iota(shape, dim, elem)) } else { Err(missing("no such dimension")) }
            }
            Op::Splat => Ok(shapes::splat(&arg()?, shapes::count(shape))),
            Op::Add => ew::number2(elem, arg()?, arg()?, |x, y| x + y, i64::wrapping_add),
            Op::Sub => ew::number2(elem, arg()?, arg()?, |x, y| x - y, i64::wrapping_sub),
            Op::Mul => ew::number2(elem, arg()?, arg()?, |x, y| x * y, i64::wrapping_mul),
            Op::Div => ew::number2(elem, arg()?, arg()?, |x, y| x / y, ew::div_int),
            Op::Rem => ew::int2(elem, arg()?, arg()?, ew::rem_int),
            Op::Fma => ew::fma(elem, arg()?, arg()?, arg()?),
            Op::Minimum => ew::number2(elem, arg()?, arg()?, ew::minimum, i64::min),
            Op::Maximum => ew::number2(elem, arg()?, arg()?, ew::maximum, i64::max),
            Op::MinNum => ew::float2(elem, arg()?, arg()?, ew::minnum),
            Op::MaxNum => ew::float2(elem, arg()?, arg()?, ew::maxnum),
            Op::Neg => Ok(ew::number1(elem, arg()?, |x| -x, i64::wrapping_neg)),
            Op::Abs => Ok(ew::number1(elem, arg()?, f64::abs, i64::wrapping_abs)),
            Op::And => ew::int2(elem, arg()?, arg()?, |x, y| x & y),
            Op::Or => ew::int2(elem, arg()?, arg()?, |x, y| x | y),
            Op::Xor => ew::int2(elem, arg()?, arg()?, |x, y| x ^ y),
            Op::Not => Ok(ew::number1(elem, Data::Int(arg()?.into_ints()?), |x| x, |x| !x)),
            Op::Shl => ew::shl(elem, arg()?, arg()?),
            Op::ShrS => ew::shr_s(elem, arg()?, arg()?),
            Op::ShrU => ew::shr_u(elem, arg()?, arg()?),
            Op::Exp => ew::float1(elem, arg()?, f64::exp),
            Op::Exp2 => ew::float1(elem, arg()?, f64::exp2),
            Op::Log => ew::float1(elem, arg()?, f64::ln),
            Op::Log2 => ew::float1(elem, arg()?, f64::log2),
            Op::Sqrt => ew::float1(elem, arg()?, f64::sqrt),
            Op::Rsqrt => ew::float1(elem, arg()?, |x| 1.0 / x.sqrt()),
            Op::Tanh => ew::float1(elem, arg()?, f64::tanh),
            Op::Floor => ew::float1(elem, arg()?, f64::floor),
            Op::Ceil => ew::float1(elem, arg()?, f64::ceil),
            Op::Round => ew::float1(elem, arg()?, f64::round_ties_even),
            Op::Trunc => ew::float1(elem, arg()?, f64::trunc),
            Op::Rcp => ew::float1(elem, arg()?, |x| 1.0 / x),
            Op::Sin => ew::float1(elem, arg()?, num::sin),
            Op::Cos => ew::float1(elem, arg()?, num::cos),
            Op::Erf => ew::float1(elem, arg()?, num::erf),
            Op::Atan2 => ew::float2(elem, arg()?, arg()?, f64::atan2),
            Op::DivU => ew::unsigned2(elem, arg()?, arg()?, |x, y| x.checked_div(y).unwrap_or(0)),
            Op::RemU => ew::unsigned2(elem, arg()?, arg()?, |x, y| x.checked_rem(y).unwrap_or(x)),
            Op::MulHi => ew::int2(elem, arg()?, arg()?, |x, y| ((i128::from(x) * i128::from(y)) >> elem.bits()) as i64),
            Op::MulHiU => ew::unsigned2(elem, arg()?, arg()?, |x, y| ((u128::from(x) * u128::from(y)) >> elem.bits()) as u64),
            Op::MinimumU => ew::unsigned2(elem, arg()?, arg()?, u64::min),
            Op::MaximumU => ew::unsigned2(elem, arg()?, arg()?, u64::max),
            Op::Popcount => ew::unsigned1(elem, arg()?, |x| u64::from(x.count_ones())),
            Op::Clz => ew::unsigned1(elem, arg()?, |x| u64::from(x.leading_zeros() + elem.bits() - 64)),
            Op::Cmp => ew::cmp(cmp_attr(d)?, &arg()?, &arg()?),
            Op::Select => {
                let scalar = matches!(operand(0)?, Type::Scalar(_));
                ew::select(&arg()?, arg()?, arg()?, scalar)
            }
            Op::Cast => Ok(ew::cast(arg()?, elem)),
            Op::Bitcast => Ok(ew::bitcast(arg()?, operand(0)?.elem(), elem)),
            Op::Broadcast => Ok(shapes::broadcast(arg()?, shape_of(0)?, shape)),
            Op::Reshape => arg(),
            Op::Transpose => match d.attrs.first() {
                Some(Attr::Perm(p)) => Ok(shapes::transpose(arg()?, shape_of(0)?, p)),
                Some(_) | None => Err(missing("no permutation")),
            },
            Op::Join => shapes::join(&arg()?, &arg()?),
            Op::Concat => {
                let inner = |s: &[u32], axis: usize| s.get(axis..).map(shapes::count).ok_or(missing("no such axis"));
                let axis = dim_attr(d, 0)?;
                shapes::concat(&arg()?, &arg()?, [inner(shape_of(0)?, axis)?, inner(shape_of(1)?, axis)?])
            }
            Op::Slice => match d.attrs.first() {
                Some(Attr::Offsets(o)) => Ok(shapes::slice(&arg()?, shape_of(0)?, o, shape)),
                Some(_) | None => Err(missing("no offsets")),
            },
            Op::Flip => Ok(shapes::flip(&arg()?, shape, dim_attr(d, 0)?)),
            Op::Scan => scan::scan(reduce_attr(d)?, elem, &arg()?, shape, dim_attr(d, 1)?, false),
            Op::ScanReverse => scan::scan(reduce_attr(d)?, elem, &arg()?, shape, dim_attr(d, 1)?, true),
            Op::ArgMin => Ok(scan::arg(&arg()?, shape_of(0)?, dim_attr(d, 0)?, false)),
            Op::ArgMax => Ok(scan::arg(&arg()?, shape_of(0)?, dim_attr(d, 0)?, true)),
            Op::Assume => {
                let a = arg()?;
                match (d.attrs.first(), a.as_int()?) {
                    (Some(&Attr::Divisor(n)), value) if value % i64::from(n.max(1)) != 0 => Err(Fault::Assumption { value, divisor: n }),
                    (Some(_), _) => Ok(a),
                    (None, _) => Err(missing("no divisor")),
                }
            }
            Op::RequireLayout | Op::ReleaseLayout => arg(),
            Op::Reduce => fold::reduce(reduce_attr(d)?, elem, &arg()?, shape_of(0)?, dim_attr(d, 1)?),
            Op::Dot => {
                let precision = match d.attrs.first() {
                    Some(Attr::Precision(p)) => *p,
                    Some(_) | None => Precision::Exact,
                };
                let k = shape_of(0)?.last().copied().ok_or(missing("a dot of something else than matrices"))?;
                let [.., m, n] = shape else { return Err(missing("a dot of something else than matrices")) };
                fold::dot([*m as usize, k as usize, *n as usize], elem, precision, &arg()?, &arg()?, arg()?)
            }
            Op::DotScaled => {
                let (a, scale_a, b, scale_b) = (arg()?, arg()?, arg()?, arg()?);
                let (Some(of_a), Some(of_b)) = (d.args.first().map(|&v| self.kernel.ty(v)), d.args.get(2).map(|&v| self.kernel.ty(v)))
                else {
                    return Err(missing("a dot of something else than matrices"));
                };
                let (Some(of_a), Some(of_b)) = (of_a.shape(), of_b.shape()) else {
                    return Err(missing("a dot of something else than matrices"));
                };
                fold::dot_scaled([of_a, of_b], [&a, &b], [&scale_a, &scale_b], arg()?)
            }
            Op::GatherTile => {
                let axis = dim_attr(d, 0)?;
                order::gather(&arg()?, elem, shape_of(0)?, axis, arg()?.as_ints()?, shape[axis] as usize)
            }
            Op::Histogram => {
                let (a, mask) = (arg()?, if d.present & 0b10 != 0 { Some(arg()?) } else { None });
                let mask = mask.as_ref().map(Data::as_ints).transpose()?;
                Ok(order::histogram(a.as_ints()?, mask.map(|m| m.as_slice()), shapes::count(shape)))
            }
            Op::Sort | Op::ArgSort | Op::TopK | Op::ArgTopK => {
                let axis = dim_attr(d, 1)?;
                let Some(Attr::Sort(direction)) = d.attrs.first() else { return Err(missing("no direction")) };
                Ok(order::sort(d.op, &arg()?, shape_of(0)?, axis, *direction, shape[axis] as usize))
            }
            Op::Gather | Op::Scatter | Op::Atomic | Op::AtomicCas | tilelift_ir::explicit_ops!() => Err(missing("not a computation")),
            Op::ReduceBy | Op::ScanBy | Op::ScanReverseBy | Op::Philox => Err(missing("not a computation")),
            Op::Split | Op::Assert | Op::Print | Op::Load | Op::Store | Op::Prefetch | Op::For | Op::While | Op::If | Op::Yield => {
                Err(missing("not a computation"))
            }
        }
    }
}

/// The view that is the first operand.
pub(crate) fn view_of<'v>(kernel: &Kernel, views: &'v [Option<View>], d: &InstData) -> Result<&'v View, Fault> {
    let at = d.args.first().and_then(|v| kernel.params.iter().position(|p| p == v));
    at.and_then(|i| views[i].as_ref()).ok_or(missing("no view"))
}

/// Four tiles of random words.
fn philox_tiles(args: &Bundle) -> Result<Bundle, Fault> {
    let words: Vec<&[i64]> = args.iter().map(|a| a.as_ints().map(|v| v.as_slice())).collect::<Result<_, _>>()?;
    let [c0, c1, c2, c3, k0, k1] = words[..] else { return Err(missing("a counter or a key")) };
    let mut out: [Vec<i64>; 4] = Default::default();
    for i in 0..c0.len() {
        let made = philox([c0, c1, c2, c3].map(|c| c[i] as u32), [k0, k1].map(|k| k[i] as u32));
        out.iter_mut().zip(made).for_each(|(o, x)| o.push(i64::from(x as i32)));
    }
    Ok(out.into_iter().map(Data::ints).collect())
}

pub(crate) fn indices(args: &Bundle, rank: usize) -> Result<SmallVec<[i64; 4]>, Fault> {
    (0..rank).map(|i| args.get(i).map_or(Err(missing("no index")), Data::as_int)).collect()
}

/// The tiles of indices of an access.
fn index_tiles(args: &Bundle, rank: usize) -> Result<Vec<&[i64]>, Fault> {
    (0..rank).map(|i| args.get(i).ok_or(missing("no index"))?.as_ints().map(|v| v.as_slice())).collect()
}

/// The data of a scalar argument.
pub(crate) fn scalar(elem: Scalar, bits: u64) -> Data {
    if elem.is_float() { Data::floats(vec![tilelift_ir::num::from_bits(bits, elem)]) } else { Data::int(bits as i64) }
}
