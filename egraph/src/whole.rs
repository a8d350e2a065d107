//! The cost of a whole kernel, by which the best choices are ranked: what single nodes do not show.
//!
//! ```text
//! time = max over pipes (work) + 1/4 of the other work + spills      pipes work side by side, though never wholly
//! ```
//!
//! Work is the price of each instruction times the rounds of its loops, where it really stands. Values that are alive at once must fit the
//! registers of a program; what does not is paid as memory. As in [`crate::cost`], no particular machine is meant.

use crate::cost::{Family, LANES, Pipe, price};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::fmt;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Type, Value, most_rounds};

/// Bytes of registers that a lane has for values.
const REGISTERS: u64 = 4 * 224;
/// Lanes of a warp, where the kernel says how many warps there are.
const WARP: u64 = 32;
/// Price of a byte that does not fit, and has to go out and come back.
const SPILL: u64 = 256;
/// Rounds of a loop whose bounds are not known.
const TRIPS: u64 = 16;

/// What a kernel costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Whole {
    work: [u64; Pipe::ALL.len()],
    /// The most bytes that are alive at once.
    pub(crate) alive: u64,
    pub(crate) spills: u64,
}

impl Whole {
    /// The estimate by which kernels are ranked.
    pub(crate) fn time(&self) -> u64 {
        let most = self.work.iter().copied().max().unwrap_or(0);
        let all = self.work.iter().fold(0u64, |s, w| s.saturating_add(*w));
        most.saturating_add((all - most) / 4).saturating_add(self.spills)
    }
    /// The work of a pipe.
    pub(crate) fn of(&self, pipe: Pipe) -> u64 {
        self.work[pipe as usize]
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.time())?;
        for &u in Pipe::ALL {
            write!(f, " {u:?} {}", self.of(u))?;
        }
        write!(f, ", {} bytes alive", self.alive)?;
        if self.spills > 0 { write!(f, ", spills {}", self.spills) } else { Ok(()) }
    }
}

/// Judges a kernel.
pub(crate) fn judge(kernel: &Kernel) -> Whole {
    let lanes = kernel.hints.warps.map_or(LANES, |w| (u64::from(w) * WARP).max(LANES));
    let registers = lanes * REGISTERS;
    let (alive, inside) = (kernel.by_value(), kernel.by_value());
    let mut j = Judge { kernel, registers, held: held(kernel), whole: Whole::default(), alive, bytes: 0, inside, regions: 0 };
    j.region(kernel.body, 1, &[]);
    j.whole
}

/// The values that take registers: not those that are made where they are used, the same along an axis, or operands of products as they are loaded, which
/// wait in shared memory.
fn held(kernel: &Kernel) -> SecondaryMap<Value, bool> {
    let mut held: SecondaryMap<Value, bool> = kernel.by_value();
    let mut loaded = Vec::new();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        for (n, &v) in d.args.iter().enumerate() {
            let moved = matches!(d.op, Op::Reshape | Op::Transpose);
            let factor = || matches!(d.op, Op::Dot | Op::DotScaled) && d.op.factors().is_some_and(|[a, b, _]| n == a || n == b);
            held[v] |= !(moved || factor());
        }
        loaded.push(i);
    });
    // Users stand behind what they use.
    for &i in loaded.iter().rev() {
        let d = &kernel.insts[i];
        match d.op {
            Op::Reshape | Op::Transpose => held[d.args[0]] |= held[d.results[0]],
            Op::Load => {}
            _ => d.results.iter().for_each(|&v| held[v] = true),
        }
    }
    for &i in &loaded {
        let d = &kernel.insts[i];
        match d.op {
            Op::Reshape | Op::Transpose => held[d.results[0]] = held[d.args[0]],
            Op::Broadcast | Op::Splat | Op::Const | Op::Iota => d.results.iter().for_each(|&v| held[v] = false),
            _ => d.regions.iter().flat_map(|&r| &kernel.regions[r].params).for_each(|&v| held[v] = true),
        }
    }
    held
}

struct Judge<'k> {
    kernel: &'k Kernel,
    /// Bytes of registers of a program.
    registers: u64,
    /// The values that take some.
    held: SecondaryMap<Value, bool>,
    whole: Whole,
    alive: SecondaryMap<Value, bool>,
    /// The bytes of what is alive.
    bytes: u64,
    /// The region, by number, that a value was last found to be inside of; regions looked at.
    inside: SecondaryMap<Value, u32>,
    regions: u32,
}

fn bytes(ty: &Type) -> u64 {
    match ty {
        Type::Tile(t) => t.elements().saturating_mul(u64::from(t.elem.bytes())),
        // One value in every lane.
        Type::Scalar(s) => LANES * u64::from(s.bytes()),
        Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => 0,
    }
}

impl Judge<'_> {
    /// Backward through a region, in front of whose end `after` and what is alive now is still needed.
    fn region(&mut self, region: Region, weight: u64, after: &[Value]) {
        let kernel = self.kernel;
        after.iter().for_each(|&v| self.born(v));
        for &inst in kernel.regions[region].insts.iter().rev() {
            let d = &kernel.insts[inst];
            // Results and operands are there together.
            d.args.iter().for_each(|&v| self.born(v));
            self.peak(weight);
            d.results.iter().for_each(|&v| self.dies(v));
            self.work(inst, weight);
            for &r in &d.regions {
                let trips = self.trips(inst);
                let outer = self.outer(r);
                self.region(r, weight.saturating_mul(trips).min(1 << 20), &outer);
                kernel.regions[r].params.iter().for_each(|&v| self.dies(v));
            }
        }
    }

    fn bytes_of(&self, v: Value) -> u64 {
        if self.held[v] { bytes(self.kernel.ty(v)) } else { 0 }
    }

    fn born(&mut self, v: Value) {
        if !std::mem::replace(&mut self.alive[v], true) {
            self.bytes = self.bytes.saturating_add(self.bytes_of(v));
        }
    }

    fn dies(&mut self, v: Value) {
        if std::mem::replace(&mut self.alive[v], false) {
            self.bytes = self.bytes.saturating_sub(self.bytes_of(v));
        }
    }

    fn peak(&mut self, weight: u64) {
        self.whole.alive = self.whole.alive.max(self.bytes);
        let over = self.bytes.saturating_sub(self.registers);
        self.whole.spills = self.whole.spills.max(over.saturating_mul(SPILL).saturating_mul(weight));
    }

    /// What a region uses from outside: alive in all of it, for it may run again.
    fn outer(&mut self, region: Region) -> Vec<Value> {
        self.regions += 1;
        let (kernel, n, mut used) = (self.kernel, self.regions, Vec::new());
        let inside = &mut self.inside;
        kernel.regions[region].params.iter().for_each(|&v| inside[v] = n);
        kernel.walk(region, &mut |i| {
            let d = &kernel.insts[i];
            used.extend(d.args.iter().copied());
            d.results.iter().for_each(|&v| inside[v] = n);
            d.regions.iter().flat_map(|&r| &kernel.regions[r].params).for_each(|&v| inside[v] = n);
        });
        used.retain(|&v| inside[v] != n);
        used
    }

    fn trips(&self, inst: Inst) -> u64 {
        let d = &self.kernel.insts[inst];
        match d.op {
            Op::If => 1,
            Op::For => most_rounds(self.kernel, &d.args).map_or(TRIPS, |n| n.max(1)),
            Op::While => TRIPS,
            _ => d.args.first().and_then(|&v| self.kernel.ty(v).as_tile()).map_or(2, |t| t.elements() / LANES).max(2),
        }
    }

    fn work(&mut self, inst: Inst, weight: u64) {
        let d = &self.kernel.insts[inst];
        let kids: SmallVec<[&Type; 6]> = d.args.iter().map(|&v| self.kernel.ty(v)).collect();
        let (pipe, cost) = match d.op.info().effects {
            Effects::Pure | Effects::Reads => {
                let Some(&result) = d.results.first().filter(|_| d.regions.is_empty()) else { return };
                let ty = self.kernel.ty(result);
                (Family::of(d.op, ty.elem()).pipe(), price(d.op, &d.attrs, ty, &kids))
            }
            Effects::Writes | Effects::Updates | Effects::Shared | Effects::AsyncReads | Effects::AsyncWrites | Effects::AsyncUpdates => {
                let most = kids.iter().map(|t| bytes(t) / 4).max().unwrap_or(0);
                (Pipe::Memory, most.saturating_mul(Family::Read.price()))
            }
            Effects::Observes | Effects::Control => return,
        };
        let slot = &mut self.whole.work[pipe as usize];
        *slot = slot.saturating_add(cost.saturating_mul(weight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::text;

    fn whole(body: &str) -> Whole {
        let source = format!("kernel @k(v0: view<f32, [4096]>, v1: view<f32, [4096]>, v2: i32) {{\n{body}\n}}");
        judge(&text::parse(&source).unwrap_or_else(|e| panic!("{e}")).kernels[0])
    }

    #[test]
    fn what_is_alive_at_once_is_counted() {
        // Two tiles of 4 KiB and their sum.
        let w = whole("v3 = load v0[0] : tile<1024xf32>\nv4 = load v0[1024] : tile<1024xf32>\nv5 = add v3, v4\nstore v1[0], v5");
        assert_eq!(w.alive, 3 * 4096, "{w}");
        // The first tile is used behind the loop: alive in all of it, with the carried tile and its next value.
        let w = whole(
            "v3 = load v0[0] : tile<1024xf32>\nv4 = for v5 in 0..8 step 1 carry v6 = v3 {\nv7 = mul v6, v6\nyield v7\n}\nv8 = add v3, v4\nstore v1[0], v8",
        );
        assert!((3 * 4096..=3 * 4096 + 4 * 512).contains(&w.alive), "{w}");
        assert_eq!(w.spills, 0);
        let w = whole(&format!(
            "{}\n{}",
            (0..16).map(|i| format!("v{} = load v0[{}] : tile<2048xf32>", 3 + i, i)).collect::<Vec<_>>().join("\n"),
            (0..16).map(|i| format!("store v1[{}], v{}", i, 3 + i)).collect::<Vec<_>>().join("\n"),
        ));
        assert!(w.alive >= 16 * 8192 && w.spills >= (16 * 8192 - LANES * REGISTERS) * SPILL, "{w}");
    }

    #[test]
    fn work_counts_rounds_and_units_overlap() {
        let once = whole("v3 = load v0[0] : tile<1024xf32>\nv4 = exp2 v3\nstore v1[0], v4");
        let thrice = whole(
            "v3 = load v0[0] : tile<1024xf32>\nv4 = for v5 in 0..3 step 1 carry v6 = v3 {\nv7 = exp2 v6\nyield v7\n}\nstore v1[0], v4",
        );
        assert_eq!(thrice.of(Pipe::Functions), 3 * once.of(Pipe::Functions));
        assert_eq!(thrice.of(Pipe::Memory), once.of(Pipe::Memory));
        // Memory rules, so the functions count a quarter.
        assert_eq!(thrice.time() - once.time(), 2 * once.of(Pipe::Functions) / 4);
    }
}
