//! Guarded products as loops: `if c { … dot … }` is a loop of one round, or of none.
//!
//! ```text
//! for i … carry a {                          for i … carry a, c = c(first i) {
//!     c = c(i)                                   next = c(i + step)                                     a step ahead ([`ahead`])
//!     b = if c { … dot …, a … } else { a }  ─►   b = for 0..(c ? 1 : 0) carry x = a { … dot …, x … }
//!     yield b                                    yield b, next
//! }                                          }
//! ```
//!
//! Blocks that a mask leaves out are neither copied nor multiplied: the producer asks as the consumers do, and a ring of slots goes on from one round
//! that is done to the next. The rewrite is from tile IR to tile IR, and says nothing of how the loop runs.

mod ahead;
mod inside;

use crate::plan::{MAX_LOOPS, written_views};
use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

/// The kernel with products that stand in choices of loops in loops of their own; `None` if there are none.
pub fn guarded(kernel: &Kernel) -> Option<Kernel> {
    if kernel.is_explicit() {
        return None;
    }
    let mut found = Vec::new();
    choices(kernel, kernel.body, false, &mut found);
    // Each is a loop of its own, and a producer goes through so many.
    if found.is_empty() || found.len() > MAX_LOOPS {
        return None;
    }
    taken(Decision::GuardedProducts, || Told::of(format!("{} choices of products are loops of one round", found.len())));
    let mut made = Rewrite::of(kernel);
    let written = written_views(kernel);
    for (region, choice, arm) in found {
        made.take_inside((region, choice), arm.region(kernel, choice), &written);
        let condition = made.asked_ahead((region, choice), &written);
        made.as_loop((region, choice), arm, condition)?;
    }
    Some(made.finish())
}

/// Finds the choices of products in loops.
fn choices(kernel: &Kernel, region: Region, looped: bool, found: &mut Vec<(Region, Inst, Arm)>) {
    for &i in &kernel.regions[region].insts {
        let d = &kernel.insts[i];
        if looped && let Some(arm) = Arm::of(kernel, i) {
            found.push((region, i, arm));
        }
        d.regions.iter().for_each(|&r| choices(kernel, r, looped || d.op == Op::For, found));
    }
}

/// The arm of a choice that multiplies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Then,
    Else,
}

impl Arm {
    /// Its instructions.
    fn region(self, kernel: &Kernel, choice: Inst) -> Region {
        kernel.insts[choice].regions[usize::from(self == Arm::Else)]
    }

    /// That of a choice of which one arm has products of its own.
    fn of(kernel: &Kernel, choice: Inst) -> Option<Arm> {
        let d = &kernel.insts[choice];
        if d.op != Op::If {
            return None;
        }
        let multiplies = |r: Region| kernel.regions[r].insts.iter().any(|&i| kernel.insts[i].op == Op::Dot);
        match d.regions[..] {
            [then, otherwise] if multiplies(then) && !multiplies(otherwise) => Some(Arm::Then),
            [then, otherwise] if multiplies(otherwise) && !multiplies(then) => Some(Arm::Else),
            _ => None,
        }
    }
}

impl Rewrite {
    /// What the loop carries at first for a result of the choice: what the other arm hands on, if that is there whatever the condition is; else what
    /// products of the result are added to, or zeros.
    fn init(&mut self, (region, choice): (Region, Inst), (inside, beside): (Region, Region), n: usize) -> Option<Value> {
        let kernel = &self.kernel;
        let (given, other) = (kernel.yields(inside)[n], kernel.yields(beside)[n]);
        let mut own = BTreeSet::new();
        for r in [inside, beside] {
            kernel.walk(r, &mut |i| own.extend(kernel.insts[i].results.iter().copied()));
        }
        if !own.contains(&other) {
            return Some(other);
        }
        let added = kernel.def_inst(given).map(|i| &kernel.insts[i]).filter(|d| d.op == Op::Dot).map(|d| d.args[2]);
        if let Some(v) = added.filter(|v| !own.contains(v)) {
            return Some(v);
        }
        let ty = kernel.ty(given).clone();
        let elem = match &ty {
            Type::Scalar(s) => *s,
            Type::Tile(t) => t.elem,
            _ => return None,
        };
        let zero = if elem.is_float() { Literal::Float(0) } else { Literal::Int(0) };
        let scalar = self.put((region, choice), (Op::Const, &[], &[Attr::Literal(zero)]), Type::Scalar(elem));
        Some(match ty {
            Type::Tile(_) => self.put((region, choice), (Op::Splat, &[scalar], &[]), ty),
            _ => scalar,
        })
    }

    /// The arm that multiplies as a loop in front of the choice, which is left to choose between its results and those of the other arm.
    fn as_loop(&mut self, (region, choice): (Region, Inst), arm: Arm, condition: Value) -> Option<()> {
        let d = self.kernel.insts[choice].clone();
        // The arm that multiplies, the other one, and the rounds where the condition holds.
        let (inside, beside, once) = match arm {
            Arm::Then => (d.regions[0], d.regions[1], 1),
            Arm::Else => (d.regions[1], d.regions[0], 0),
        };
        let init = (0..d.results.len()).map(|n| self.init((region, choice), (inside, beside), n)).collect::<Option<Vec<Value>>>()?;
        let (holds, fails) = (self.number((region, choice), once), self.number((region, choice), 1 - once));
        let rounds = self.put((region, choice), (Op::Select, &[condition, holds, fails], &[]), Type::Scalar(Scalar::I32));
        let (zero, one) = (self.number((region, choice), 0), self.number((region, choice), 1));
        let body = self.kernel.add_region();
        self.kernel.add_region_param(body, Type::Scalar(Scalar::I32));
        self.kernel.regions[body].insts = std::mem::take(&mut self.kernel.regions[inside].insts);
        let mut own: BTreeMap<Value, Value> = BTreeMap::new();
        for &v in &init {
            let param = self.kernel.add_region_param(body, self.kernel.ty(v).clone());
            own.entry(v).or_insert(param);
        }
        // In the only round what is carried is what it began with.
        let mut users = Vec::new();
        self.kernel.walk(body, &mut |i| users.push(i));
        for i in users {
            self.kernel.insts[i].args.iter_mut().for_each(|a| *a = own.get(a).copied().unwrap_or(*a));
        }
        let args: Vec<Value> = [zero, rounds, one].into_iter().chain(init.iter().copied()).collect();
        let types: Vec<Type> = d.results.iter().map(|&v| self.kernel.ty(v).clone()).collect();
        let made = self.kernel.add_inst(Op::For, &args, 0, &[], &[body], &types);
        self.place((region, choice), made);
        let results = self.kernel.insts[made].results.clone();
        let end = self.kernel.add_inst(Op::Yield, &results, 0, &[], &[], &[]);
        self.kernel.regions[inside].insts.push(end);
        // Where the other arm only hands on what the loop began with, there is nothing left to choose.
        let others = &self.kernel.regions[beside].insts;
        if others.len() == 1 && self.kernel.yields(beside) == init {
            d.results.iter().zip(&results).for_each(|(&v, &by)| self.replace(v, by));
            self.kernel.regions[region].insts.retain(|&i| i != choice);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::text;

    /// A loop with so many choices of a product.
    fn choices_of(count: usize) -> Kernel {
        let mut body = String::new();
        for n in 0..count {
            body += &format!(
                "    %w{n} = load %on[{n}]
    %c{n} = cmp ne %w{n}, 0
    %x{next} = if %c{n} {{
      %a{n} = load %a[0, %j] : tile<64x16xbf16>
      %b{n} = load %b[%j, 0] : tile<16x16xbf16>
      %d{n} = dot %a{n}, %b{n}, %x{n}
      yield %d{n}
    }} else {{
      yield %x{n}
    }}
",
                next = n + 1
            );
        }
        let source = format!(
            "kernel @k(%a: view<bf16, [?, ?]>, %b: view<bf16, [?, ?]>, %on: view<i32, [?]>, %o: view<f32, [?, ?]>) {{
  %len = dim %a, 1
  %zero = splat 0.0 : tile<64x16xf32>
  %sum = for %j in 0..%len step 16 carry %x0 = %zero {{
{body}    yield %x{count}
  }}
  store %o[0, 0], %sum
}}
"
        );
        text::parse(&source).expect("it parses").kernels.remove(0)
    }

    #[test]
    fn no_more_choices_are_loops_than_a_producer_goes_through() {
        let loops = |k: &Kernel| k.insts.values().filter(|d| d.op == Op::For).count();
        let most = guarded(&choices_of(MAX_LOOPS)).expect("its choices are loops");
        assert_eq!(loops(&most), 1 + MAX_LOOPS);
        assert!(guarded(&choices_of(MAX_LOOPS + 1)).is_none());
    }
}
