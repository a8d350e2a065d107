//! Loads in front of what is computed, where a program asks for too few bytes at a time.
//!
//! ```text
//! x = load a[…]; y = exp x; z = load b[…]; … y … z        x = load a[…]; z = load b[…]; y = exp x; … y … z
//! ```
//!
//! Memory answers after a microsecond; as many bytes must be under way as it moves in that time. A program that waits for its first loads before it asks
//! for the others has few. So the loads of a block move in front of the first instruction that takes what was loaded, if what stands there asks for less
//! than [`ENOUGH`] bytes a lane: those of tensors that the kernel does not write, at places that follow from numbers, up to [`MOST`] bytes a lane. Loads of
//! one tile are one. Kernels with products are left as they are: their loops copy ahead, and registers hold sums. So are those with atomic updates, which
//! may wait for what others write.

use crate::plan::written_views;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Type, Value};
use tilelift_lane::hash::Set;

/// Bytes that a lane asks for at once from which on a machine's memory is busy: 40 KB of a multiprocessor on which 1024 lanes run.
const ENOUGH: u64 = 40;
/// Bytes of a lane that wait in registers at most.
const MOST: u64 = 384;
/// Numbers from which a place may follow.
const LONGEST: usize = 64;

/// The kernel with loads in front, for programs of so many lanes; `None` if it stays as it is.
pub fn loads_first(kernel: &Kernel, lanes: u32) -> Option<Kernel> {
    let mut products = kernel.is_explicit();
    let mut regions = vec![kernel.body];
    kernel.walk(kernel.body, &mut |i| {
        products |= matches!(kernel.insts[i].op, Op::Dot | Op::DotScaled | Op::AsyncDot | Op::Atomic | Op::AtomicCas);
        regions.extend(&kernel.insts[i].regions);
    });
    if products {
        return None;
    }
    let written = written_views(kernel);
    let orders: Vec<(Region, Block)> =
        regions.into_iter().filter_map(|r| Some((r, MovableBlock::at(kernel, r, &written).ordered(u64::from(lanes))?))).collect();
    if orders.is_empty() {
        return None;
    }
    taken(Decision::LoadsFirst, || Told::of(format!("in {} blocks", orders.len())));
    let mut out = kernel.clone();
    let mut same = BTreeMap::new();
    for (region, block) in orders {
        out.regions[region].insts = block.order;
        same.extend(block.same);
    }
    let all: Vec<Inst> = out.insts.keys().collect();
    for i in all {
        for v in out.insts[i].args.iter_mut() {
            *v = same.get(v).copied().unwrap_or(*v);
        }
    }
    Some(out)
}

/// A block in its new order.
struct Block {
    order: Vec<Inst>,
    /// Results of loads that are gone, and what they are now.
    same: BTreeMap<Value, Value>,
}

/// A block, and what may move in it.
struct MovableBlock<'k> {
    kernel: &'k Kernel,
    insts: &'k [Inst],
    /// Where instructions stand.
    at: BTreeMap<Inst, usize>,
    written: &'k Set<Value>,
}

impl<'k> MovableBlock<'k> {
    fn at(kernel: &'k Kernel, region: Region, written: &'k Set<Value>) -> MovableBlock<'k> {
        let insts = &kernel.regions[region].insts[..];
        MovableBlock { kernel, insts, at: insts.iter().enumerate().map(|(n, &i)| (i, n)).collect(), written }
    }

    /// What numbers follow from in this block; `None` if that is more than a few numbers.
    fn numbers(&self, mut open: Vec<Value>) -> Option<BTreeSet<usize>> {
        let mut found = BTreeSet::new();
        while let Some(v) = open.pop() {
            let Some((i, &at)) = self.kernel.def_inst(v).and_then(|i| Some((i, self.at.get(&i)?))) else { continue };
            let d = &self.kernel.insts[i];
            let number = |&v: &Value| matches!(self.kernel.ty(v), Type::Scalar(_) | Type::View(_));
            let numbers = d.args.iter().chain(&d.results).all(number);
            if d.op.info().effects != Effects::Pure || !d.regions.is_empty() || !numbers || found.len() > LONGEST {
                return None;
            }
            if found.insert(at) {
                open.extend(&d.args);
            }
        }
        Some(found)
    }

    /// True if two operands are the same, or the same number.
    fn equal(&self, x: Value, y: Value) -> bool {
        x == y || self.kernel.as_const(x).is_some_and(|c| self.kernel.as_const(y) == Some(c))
    }

    /// Bytes of a load that may move, and what has to move with it.
    fn moves(&self, i: Inst) -> Option<(u64, BTreeSet<usize>)> {
        let d = &self.kernel.insts[i];
        if d.op != Op::Load || self.written.contains(&d.args[0]) {
            return None;
        }
        let t = self.kernel.ty(d.results[0]).as_tile()?;
        let masked = d.args.iter().any(|&a| matches!(self.kernel.ty(a), Type::Tile(_)));
        let with = self.numbers(d.args.to_vec()).filter(|_| !masked)?;
        Some((t.elements() * u64::from(t.elem.bits()) / 8, with))
    }

    /// The new order, if there is one.
    fn ordered(&self, lanes: u64) -> Option<Block> {
        let (mut loaded, mut front, mut end) = (BTreeSet::new(), 0, 0);
        for (n, &i) in self.insts.iter().enumerate() {
            let d = &self.kernel.insts[i];
            if d.args.iter().any(|a| loaded.contains(a)) || !d.regions.is_empty() {
                break;
            }
            if let Some((bytes, _)) = self.moves(i) {
                front += bytes;
                loaded.extend(d.results.iter().copied());
            }
            end = n + 1;
        }
        if loaded.is_empty() || front >= ENOUGH * lanes {
            return None;
        }
        let (mut moved, mut all) = (BTreeSet::new(), front);
        let mut same = BTreeMap::new();
        let mut first: Vec<Inst> = Vec::new();
        for (n, &i) in self.insts.iter().enumerate() {
            let Some((bytes, with)) = self.moves(i) else { continue };
            let d = &self.kernel.insts[i];
            let alike = |&&j: &&Inst| {
                let e = &self.kernel.insts[j];
                e.args.len() == d.args.len()
                    && e.args.iter().zip(&d.args).all(|(&x, &y)| self.equal(x, y))
                    && e.attrs == d.attrs
                    && e.present == d.present
                    && self.kernel.ty(e.results[0]) == self.kernel.ty(d.results[0])
            };
            if let Some(&j) = first.iter().find(alike) {
                same.insert(d.results[0], self.kernel.insts[j].results[0]);
                moved.insert(n);
                continue;
            }
            if n >= end {
                if all + bytes > MOST * lanes {
                    continue;
                }
                all += bytes;
                moved.extend(with.into_iter().filter(|&k| k >= end));
                moved.insert(n);
            }
            first.push(i);
        }
        let gone = |n: &usize| self.kernel.insts[self.insts[*n]].results.first().is_some_and(|r| same.contains_key(r));
        if moved.is_empty() {
            return None;
        }
        let rest = (end..self.insts.len()).filter(|n| !moved.contains(n));
        let order = (0..end).chain(moved.iter().copied().filter(|&n| n >= end)).chain(rest).filter(|n| !gone(n));
        Some(Block { order: order.map(|n| self.insts[n]).collect(), same })
    }
}

#[cfg(test)]
mod tests {
    use super::loads_first;
    use tilelift_ir::{Op, text};

    /// The parameters that are loaded, in order, and where something is computed by `exp` or stored, for a program of 128 lanes.
    fn order(body: &str) -> Option<String> {
        let text = format!("kernel @k(v0: view<f32, [?]>, v1: view<f32, [?]>, v2: view<f32, [?]>, v3: view<f32, [?]>) {{\n{body}\n}}");
        let file = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let made = loads_first(&file.kernels[0], 128)?;
        assert!(tilelift_ir::verify(&made).is_ok());
        let said = made.regions[made.body].insts.iter().filter_map(|&i| match made.insts[i].op {
            Op::Load => Some(format!("load {} ", made.value_text(made.insts[i].args[0]))),
            Op::Store | Op::Exp => Some(format!("{} ", made.insts[i].op)),
            _ => None,
        });
        Some(said.collect::<String>().trim_end().to_owned())
    }

    #[test]
    fn few_bytes_get_company_and_many_do_not() {
        let two = |wide: u32| {
            order(&format!(
                "%x = load v0[0] : tile<{wide}xf32>\n%e = exp %x\nstore v2[0], %e\n%p = program_id x\n%y = load v1[%p] : tile<{wide}xf32>\n\
                 store v3[0], %y"
            ))
        };
        assert_eq!(two(1024).as_deref(), Some("load v0 load v1 exp store store"));
        // 64 bytes a lane are under way as it is.
        assert_eq!(two(2048), None);
    }

    #[test]
    fn what_is_written_stays_behind_and_one_tile_is_loaded_once() {
        let body = "%x = load v0[0] : tile<256xf32>\n%e = exp %x\nstore v1[0], %e\n%y = load v1[0] : tile<256xf32>\n\
                    %z = load v0[0] : tile<256xf32>\n%s = add %y, %z\nstore v2[0], %s";
        assert_eq!(order(body).as_deref(), Some("load v0 exp store load v1 store"));
    }

    #[test]
    fn places_that_follow_from_tiles_stay() {
        let body = "%x = load v0[0] : tile<256xf32>\n%e = exp %x\nstore v2[0], %e\n%m = reduce maximum %e, axis 0\n%i = cast %m : i32\n\
                    %y = load v1[%i] : tile<256xf32>\nstore v3[0], %y";
        assert_eq!(order(body), None);
    }
}
