//! Products with their operands exchanged: `c + a · b` is the transpose of `cᵀ + bᵀ · aᵀ`.
//!
//! ```text
//! for … carry c {  … dot a, b, c … }          ─►   for … carry cᵀ {  … dot bᵀ, aᵀ, cᵀ … }   transpose
//! ```
//!
//! The matrix unit takes its operand A from registers, and its operand B from shared memory alone. A product whose operand B lanes compute (from
//! narrow weights, above all) and whose operand A arrives in memory is exchanged, so that what they compute stays where it is. So is one of too few
//! rows for the unit, if its columns are rows enough, and one whose operand B lies in an order that the unit does not take from memory, while A does
//! not. One of which no more is made than folds along its rows is, too: rows of an accumulator lie in lanes and warps, columns in registers. Accumulators
//! that a loop carries are carried transposed; in registers a transpose moves nothing.
//!
//! An operand B that lanes compute of transposed tiles and store is computed of the tiles as they lie, and seen transposed: the unit takes 16-bit floats
//! in either order.
//!
//! The rewrite is from tile IR to tile IR, and says nothing of how the loop runs.

use crate::access::GlobalAccess;
use crate::plan::{accumulates, is_zero, looks_at, mapped, moves, origin, ring_loads, trace};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Region, Scalar, TileType, Type, Value};
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::{GroupMatrix, Target, Units};

/// Instructions that a product computes of tiles as they were, at most.
const MOST_MOVED: usize = 64;

/// Operands B that are computed of tiles as they lie, at most: each computes them anew.
const MOST_LATE: usize = 64;

/// The kernel with those of its products exchanged that gain by it; `None` if none does, or its author says how it runs.
pub fn exchanged(kernel: &Kernel, target: &Target) -> Option<Kernel> {
    let units = target.units.as_ref()?;
    if kernel.is_explicit() || kernel.insts.values().any(|d| d.op == Op::RequireLayout) {
        return None;
    }
    let (staged, of_turned) = (ring_loads(kernel), of_turned(kernel));
    let mut found: Vec<(Inst, Region, Inst)> = Vec::new();
    let mut late: Vec<(Region, Inst)> = Vec::new();
    kernel.walk(kernel.body, &mut |main| {
        if kernel.insts[main].op == Op::For {
            let region = kernel.insts[main].regions[0];
            let row_of =
                |j: Inst| (staged[j] && kernel.insts[j].op == Op::Load).then(|| GlobalAccess::of(kernel, j).contiguous()).flatten();
            let arrives = |v: Value| trace(kernel, v, &|j| staged[j].then_some(0)).is_some();
            let along = |v: Value| trace(kernel, v, &row_of).map(|(_, d)| d);
            let known = KnownOperands { arrives: &arrives, along: &along, of_turned: &of_turned };
            let dots = kernel.regions[region].insts.iter().filter(|&&i| kernel.insts[i].op == Op::Dot);
            for &i in dots {
                if gains(kernel, units, region, i, &known) {
                    found.push((main, region, i));
                } else if turns_late(kernel, units, i, &of_turned) {
                    late.push((region, i));
                }
            }
        }
    });
    if late.len() > MOST_LATE {
        late.clear();
    }
    if found.is_empty() && late.is_empty() {
        return None;
    }
    if !found.is_empty() {
        taken(Decision::OperandOrder, || Told::of(format!("{} products exchanged", found.len())));
    }
    let mut made = Exchange { kernel: kernel.clone(), turned: Set::default(), of_turned };
    late.iter().for_each(|&(region, i)| made.turn_late(region, i));
    found.iter().for_each(|&(_, region, i)| made.product(region, i));
    let mut loops: Vec<(Inst, Region)> = found.iter().map(|f| (f.0, f.1)).collect();
    loops.dedup();
    for (main, region) in loops {
        made.maps(region);
        made.carry(main, region);
    }
    made.sweep();
    Some(made.kernel)
}

/// The instruction of warpgroups that takes a product's types, with operand A in registers, if one takes the exchanged types, too.
fn instruction<'u>(kernel: &Kernel, units: &'u Units, i: Inst) -> Option<&'u GroupMatrix> {
    let d = &kernel.insts[i];
    let precision = match d.attrs.first() {
        Some(Attr::Precision(p)) => *p,
        _ => Precision::Exact,
    };
    let elem = |v: Value| kernel.ty(v).elem();
    let [a, b, acc] = [d.args[0], d.args[1], d.results[0]].map(elem);
    let of = |factors: [Scalar; 2]| units.matrix.iter().find(|x| x.takes(factors, acc, precision)).filter(|x| x.a.is_some());
    of([b, a]).and(of([a, b]))
}

/// True for a product whose operand B lanes compute of transposed tiles, if the unit takes it from memory in any order: then they compute it of the tiles
/// as they lie, and store it so.
fn turns_late(kernel: &Kernel, units: &Units, i: Inst, of_turned: &Set<Inst>) -> bool {
    let b = kernel.insts[i].args[1];
    instruction(kernel, units, i).is_some_and(|row| row.any_order) && kernel.def_inst(b).is_some_and(|j| of_turned.contains(&j))
}

/// What is known of operands.
struct KnownOperands<'a> {
    /// Copies bring it.
    arrives: &'a dyn Fn(Value) -> bool,
    /// The dimension of one that they bring that is contiguous.
    along: &'a dyn Fn(Value) -> Option<usize>,
    /// What is computed of transposed tiles.
    of_turned: &'a Set<Inst>,
}

/// True for a product of a loop that is better exchanged.
fn gains(kernel: &Kernel, units: &Units, region: Region, i: Inst, known: &KnownOperands<'_>) -> bool {
    let d = &kernel.insts[i];
    let Some(t) = kernel.ty(d.results[0]).as_tile().filter(|t| t.shape.len() == 2) else { return false };
    let Some(row) = instruction(kernel, units, i) else { return false };
    let fits = |shape: [u32; 2]| (1..=2).any(|groups| row.shares(shape, groups).is_some());
    let [m, n] = [t.shape[0], t.shape[1]];
    if !fits([n, m]) {
        return false;
    }
    let [a, b] = [d.args[0], d.args[1]];
    let (source, turned) = origin(kernel, b);
    let by_lanes = |v: Value| moves(kernel, region, v) && !(known.arrives)(v);
    // Lanes hold it by rows of what becomes operand A, and have computed it, not only loaded.
    let held = by_lanes(b) && mapped(kernel, source) && (turned || kernel.def_inst(source).is_some_and(|j| known.of_turned.contains(&j)));
    // Registers take it in whatever order it lies. Bytes are transposed by a task of their own.
    let across = !row.any_order && row.operand.bytes() > 1 && (known.along)(b) == Some(1) && (known.along)(a) == Some(1);
    // Too few rows for the unit, and columns enough; both from memory, the rows in each step. What is loaded once is put in order once.
    let once = !moves(kernel, region, b);
    let in_order = row.any_order || (once || (known.along)(b) == Some(0)) && (known.along)(a) == Some(1);
    let few = !fits([m, n]) && (known.arrives)(a) && moves(kernel, region, a) && (known.arrives)(b) && in_order;
    // What a step makes of its rows alone: the rows of an accumulator are warps', its columns registers'.
    let alike = row.any_order || (known.along)(b) != Some(1) && (known.along)(a) != Some(0);
    if alike && !by_lanes(a) && !by_lanes(b) && is_zero(kernel, d.args[2]) && only_folded_rows(kernel, d.results[0]) {
        return true;
    }
    if !(held || across || few) || by_lanes(a) {
        return false;
    }
    accumulates(kernel, region, i) || is_zero(kernel, d.args[2]) && only_mapped(kernel, region, d.results[0])
}

/// What is computed, element by element, of transposed tiles and of what has one element to a row or column: it is as well computed of the tiles as they
/// were. Long chains are left as they are: each product would compute its own.
fn of_turned(kernel: &Kernel) -> Set<Inst> {
    // How many instructions stand behind each, at most: what two of them share is counted twice.
    let mut behind: Map<Inst, usize> = Map::default();
    kernel.walk(kernel.body, &mut |i| {
        if !kernel.is_elementwise(i) {
            return;
        }
        let (mut count, mut turns) = (1usize, false);
        for &a in &kernel.insts[i].args {
            let of = kernel.def_inst(a);
            match of.and_then(|j| behind.get(&j)) {
                Some(&n) => (count, turns) = (count.saturating_add(n), true),
                None if of.is_some_and(|j| is_turn(kernel, j)) => turns = true,
                None if of.is_some_and(|j| matches!(kernel.insts[j].op, Op::Splat | Op::Broadcast)) => {}
                None => return,
            }
        }
        if turns && count <= MOST_MOVED {
            behind.insert(i, count);
        }
    });
    behind.into_keys().collect()
}

/// True for the transpose of a matrix.
fn is_turn(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    d.op == Op::Transpose && d.attrs.first() == Some(&exchanged_dimensions())
}

/// True if a step makes of a value, and of what it carries of that, nothing but what keeps elements in place, adds products to it, and stores it.
fn only_mapped(kernel: &Kernel, region: Region, v: Value) -> bool {
    let (mut seen, mut open) = (vec![v], vec![v]);
    while let Some(v) = open.pop() {
        let users = kernel.regions[region].insts.iter().copied().filter(|&j| looks_at(kernel, j, |w| w == v));
        for j in users {
            let d = &kernel.insts[j];
            let next: Vec<Value> = match d.op {
                Op::Yield => (0..d.args.len()).filter(|&n| d.args[n] == v).map(|n| kernel.regions[region].params[n + 1]).collect(),
                Op::Dot if d.args[..2].contains(&v) => return false,
                Op::Dot => d.results.to_vec(),
                _ if kernel.is_elementwise(j) => d.results.to_vec(),
                // It leaves from registers, transposed.
                Op::Store => Vec::new(),
                _ => return false,
            };
            let new: Vec<Value> = next.into_iter().filter(|v| !seen.contains(v)).collect();
            seen.extend(&new);
            open.extend(new);
        }
    }
    true
}

/// True if all that is made of a matrix, element by element and with its rows taken apart, is folded along its rows.
fn only_folded_rows(kernel: &Kernel, v: Value) -> bool {
    let Some(&columns) = kernel.ty(v).shape().and_then(|s| s.last()) else { return false };
    let (mut seen, mut open, mut folded) = (Set::from_iter([v]), vec![v], false);
    while let Some(v) = open.pop() {
        let mut fits = true;
        kernel.walk(kernel.body, &mut |j| {
            let d = &kernel.insts[j];
            if !d.args.contains(&v) {
                return;
            }
            match (d.op, d.attrs.iter().find_map(|a| if let Attr::Dim(axis) = a { Some(*axis as usize) } else { None })) {
                (Op::Reduce | Op::ArgMin | Op::ArgMax, Some(axis)) => {
                    folded = true;
                    fits &= kernel.ty(v).shape().is_some_and(|s| axis + 1 < s.len());
                }
                (Op::Reshape, _) => {
                    fits &= kernel.ty(d.results[0]).shape().and_then(|s| s.last()) == Some(&columns);
                    open.extend(d.results.iter().filter(|&&r| seen.insert(r)));
                }
                _ if kernel.is_elementwise(j) => open.extend(d.results.iter().filter(|&&r| seen.insert(r))),
                _ => fits = false,
            }
        });
        if !fits {
            return false;
        }
    }
    folded
}

/// A matrix's type, transposed.
fn turned(ty: &Type) -> Option<Type> {
    let t = ty.as_tile().filter(|t| t.shape.len() == 2)?;
    Some(Type::Tile(TileType { shape: t.shape.iter().rev().copied().collect(), elem: t.elem }))
}

/// Two dimensions, exchanged.
fn exchanged_dimensions() -> Attr {
    Attr::Perm([1, 0].into_iter().collect())
}

/// A kernel that is rewritten.
struct Exchange {
    kernel: Kernel,
    /// Transposes by which what is turned is seen as it was.
    turned: Set<Inst>,
    /// What is as well computed of tiles as they were before they were transposed.
    of_turned: Set<Inst>,
}

impl Exchange {
    /// Puts an instruction in front of another one, at its place in the source.
    fn put(&mut self, region: Region, before: Inst, (op, args, attrs): (Op, &[Value], &[Attr]), ty: Type) -> Value {
        let made = self.kernel.add_inst(op, args, 0, attrs, &[], &[ty]);
        self.kernel.locs[made] = self.kernel.locs[before];
        let at = self.kernel.regions[region].insts.iter().position(|&j| j == before).unwrap_or(0);
        self.kernel.regions[region].insts.insert(at, made);
        self.kernel.insts[made].results[0]
    }

    /// A matrix, transposed, in front of an instruction.
    fn transposed(&mut self, region: Region, before: Inst, v: Value) -> Value {
        let Some(ty) = turned(self.kernel.ty(v)) else { return v };
        if let Some(i) = self.kernel.def_inst(v) {
            let d = &self.kernel.insts[i];
            match d.op {
                Op::Transpose if is_turn(&self.kernel, i) => return d.args[0],
                Op::Splat => {
                    let of = d.args[0];
                    return self.put(region, before, (Op::Splat, &[of], &[]), ty);
                }
                Op::Broadcast if turned(self.kernel.ty(d.args[0])).is_some() => {
                    let of = d.args[0];
                    let of = self.transposed(region, before, of);
                    return self.put(region, before, (Op::Broadcast, &[of], &[]), ty);
                }
                op if self.of_turned.contains(&i) => {
                    let (args, attrs) = (d.args.to_vec(), d.attrs.to_vec());
                    let args: Vec<Value> = args.into_iter().map(|a| self.transposed(region, before, a)).collect();
                    return self.put(region, before, (op, &args, &attrs), ty);
                }
                _ => {}
            }
        }
        self.put(region, before, (Op::Transpose, &[v], &[exchanged_dimensions()]), ty)
    }

    /// Has all but some instructions use a value instead of another one.
    fn replace(&mut self, v: Value, by: Value, but: &[Inst]) {
        for (i, d) in self.kernel.insts.iter_mut() {
            if !but.contains(&i) {
                d.args.iter_mut().filter(|a| **a == v).for_each(|a| *a = by);
            }
        }
    }

    /// What stands behind an instruction.
    fn behind(&self, region: Region, i: Inst) -> Option<Inst> {
        let insts = &self.kernel.regions[region].insts;
        insts.iter().position(|&j| j == i).and_then(|at| insts.get(at + 1)).copied()
    }

    /// Exchanges the operands of a product; everyone else sees its result as it was.
    fn product(&mut self, region: Region, i: Inst) {
        let d = &self.kernel.insts[i];
        let operands = [d.args[1], d.args[0], d.args[2]];
        self.turn(region, i, &operands);
    }

    /// Has a product's operand B computed of tiles as they lie, and transposed in front of the product.
    fn turn_late(&mut self, region: Region, i: Inst) {
        let b = self.kernel.insts[i].args[1];
        let ty = self.kernel.ty(b).clone();
        let lies = self.transposed(region, i, b);
        let seen = self.put(region, i, (Op::Transpose, &[lies], &[exchanged_dimensions()]), ty);
        self.kernel.insts[i].args[1] = seen;
    }

    /// Has the maps of what is turned work on it as it is; from the first one to the last, since users stand behind.
    fn maps(&mut self, region: Region) {
        for i in self.kernel.regions[region].insts.clone() {
            let kernel = &self.kernel;
            let turned = |v: &Value| kernel.def_inst(*v).is_some_and(|j| self.turned.contains(&j));
            if kernel.is_elementwise(i) && kernel.insts[i].args.iter().any(turned) {
                let operands = kernel.insts[i].args.to_vec();
                self.turn(region, i, &operands);
            }
        }
    }

    /// Has an instruction make the transpose of what it makes, of the transposes of these; everyone else sees its result as it was.
    fn turn(&mut self, region: Region, i: Inst, operands: &[Value]) {
        let result = self.kernel.insts[i].results[0];
        let (Some(ty), Some(next)) = (turned(self.kernel.ty(result)), self.behind(region, i)) else { return };
        let operands: Vec<Value> = operands.iter().map(|&v| self.transposed(region, i, v)).collect();
        self.kernel.insts[i].args.copy_from_slice(&operands);
        let was = std::mem::replace(&mut self.kernel.values[result].ty, ty);
        self.seen_as_before(region, next, result, was, &[]);
    }

    /// Has everyone but some see a value as it was before it was turned: transposed, in front of an instruction.
    fn seen_as_before(&mut self, region: Region, before: Inst, v: Value, was: Type, but: &[Inst]) {
        let seen = self.put(region, before, (Op::Transpose, &[v], &[exchanged_dimensions()]), was);
        let own = self.kernel.def_inst(seen);
        self.turned.extend(own);
        let but: Vec<Inst> = own.into_iter().chain(but.iter().copied()).collect();
        self.replace(v, seen, &but);
    }

    /// Has a loop carry what it yields as the transpose of what is turned as that is.
    fn carry(&mut self, main: Inst, region: Region) {
        let place = self.kernel.regions.iter().find(|r| r.1.insts.contains(&main)).map(|r| r.0);
        let (Some(place), Some(end)) = (place, self.kernel.terminator(region)) else { return };
        for n in 0..self.kernel.yields(region).len() {
            let kernel = &self.kernel;
            let Some(of) = kernel.def_inst(kernel.yields(region)[n]).filter(|i| self.turned.contains(i)) else { continue };
            let (given, param, result) = (kernel.insts[of].args[0], kernel.regions[region].params[n + 1], kernel.insts[main].results[n]);
            let (Some(ty), Some(&first)) = (turned(kernel.ty(param)), kernel.regions[region].insts.first()) else { continue };
            let Some(next) = self.behind(place, main) else { continue };
            let init = self.transposed(place, main, self.kernel.insts[main].args[3 + n]);
            self.kernel.insts[main].args[3 + n] = init;
            self.kernel.insts[end].args[n] = given;
            let was = std::mem::replace(&mut self.kernel.values[param].ty, ty.clone());
            self.kernel.values[result].ty = ty;
            for (v, r, before) in [(param, region, first), (result, place, next)] {
                // Who transposed it finds it so.
                let turns = |i: &Inst| self.kernel.insts[*i].op == Op::Transpose && self.kernel.insts[*i].args[0] == v;
                let old: Vec<Inst> = self.kernel.insts.keys().filter(turns).collect();
                self.seen_as_before(r, before, v, was.clone(), &old);
                for i in old {
                    let same = self.kernel.insts[i].results[0];
                    self.replace(same, v, &[]);
                }
            }
        }
    }

    /// Removes what nobody looks at any more.
    fn sweep(&mut self) {
        loop {
            let mut used: Set<Value> = Set::default();
            for r in self.kernel.regions.values() {
                r.insts.iter().for_each(|&i| used.extend(self.kernel.insts[i].args.iter().copied()));
            }
            let kernel = &self.kernel;
            let idle = |i: &Inst| {
                let d = &kernel.insts[*i];
                let moves = matches!(d.op, Op::Transpose | Op::Splat | Op::Broadcast) || kernel.is_elementwise(*i);
                moves && d.results.iter().all(|v| !used.contains(v))
            };
            let placed = kernel.regions.values().flat_map(|r| r.insts.iter().copied());
            let dead: Set<Inst> = placed.filter(idle).collect();
            if dead.is_empty() {
                return;
            }
            self.kernel.regions.values_mut().for_each(|r| r.insts.retain(|i| !dead.contains(i)));
        }
    }
}
