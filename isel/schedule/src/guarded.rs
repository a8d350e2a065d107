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
mod beside;
mod inside;

use crate::plan::{MAX_LOOPS, written_views};
use crate::rewrite::Rewrite;
use std::collections::BTreeSet;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Inst, Kernel, Op, Region, Scalar, Type, Value};

/// The kernel with products that stand in choices of loops, and those beside loops of products, in loops of their own; `None` if there are none.
pub fn guarded(kernel: &Kernel) -> Option<Kernel> {
    if kernel.is_explicit() {
        return None;
    }
    let mut found = Vec::new();
    choices(kernel, kernel.body, false, &mut found);
    // Each arm is a loop of its own, and a producer goes through so many.
    let loops: usize = found.iter().map(|c| c.2.len()).sum();
    if loops > MAX_LOOPS {
        return None;
    }
    let mut made = Rewrite::of(kernel);
    let written = written_views(kernel);
    for (region, choice, arms) in found {
        for &arm in &arms {
            made.take_inside((region, choice), arm.region(&made.kernel, choice), &written);
        }
        let condition = made.asked_ahead((region, choice), &written);
        made.as_loops((region, choice), &arms, condition)?;
        made.settle();
    }
    let beside = made.beside_loops(MAX_LOOPS - loops, &written)?;
    if loops + beside == 0 {
        return None;
    }
    taken(Decision::GuardedProducts, || {
        Told::of(format!("{loops} arms of choices are loops of one round or none, {beside} products beside them of one"))
    });
    Some(made.finish())
}
/// Finds the choices of products in loops, those inside of others first.
fn choices(kernel: &Kernel, region: Region, looped: bool, found: &mut Vec<(Region, Inst, Vec<Arm>)>) {
    for &i in &kernel.regions[region].insts {
        let d = &kernel.insts[i];
        d.regions.iter().for_each(|&r| choices(kernel, r, looped || d.op == Op::For, found));
        let arms = if looped { Arm::of(kernel, i) } else { Vec::new() };
        if !arms.is_empty() {
            found.push((region, i, arms));
        }
    }
}

/// An arm of a choice that multiplies.
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

    /// Those of a choice that have products of their own.
    fn of(kernel: &Kernel, choice: Inst) -> Vec<Arm> {
        let d = &kernel.insts[choice];
        if d.op != Op::If || d.regions.len() != 2 {
            return Vec::new();
        }
        let multiplies = |arm: &Arm| kernel.regions[arm.region(kernel, choice)].insts.iter().any(|&i| kernel.insts[i].op == Op::Dot);
        [Arm::Then, Arm::Else].into_iter().filter(multiplies).collect()
    }
}

impl Rewrite {
    /// What the loop carries at first for a result of the choice: what the other arm hands on, if that is there whatever the condition is; else what
    /// products of the result are added to, or zeros.
    fn init(&mut self, at: (Region, Inst), (inside, beside): (Region, Region), n: usize) -> Option<Value> {
        let kernel = &self.kernel;
        let (given, other) = (kernel.yields(inside)[n], kernel.yields(beside)[n]);
        let mut own = BTreeSet::new();
        for r in [inside, beside] {
            kernel.walk(r, &mut |i| own.extend(kernel.insts[i].results.iter().copied()));
        }
        if !own.contains(&other) {
            return Some(other);
        }
        if let Some(v) = added_to(kernel, given).filter(|v| !own.contains(v)) {
            return Some(v);
        }
        let ty = kernel.ty(given).clone();
        self.nothing(at, &ty)
    }

    /// The arms that multiply as loops in front of the choice. Where only one does, it is left to choose between the loop's results and those of the
    /// other arm; where both do, the second loop goes on with what the first one, or nobody, has made.
    fn as_loops(&mut self, at: (Region, Inst), arms: &[Arm], condition: Value) -> Option<()> {
        let d = self.kernel.insts[at.1].clone();
        let &[then, otherwise] = &d.regions[..] else { return None };
        let (inside, beside, once) = if arms == [Arm::Else] { (otherwise, then, 0) } else { (then, otherwise, 1) };
        let init = (0..d.results.len()).map(|n| self.init(at, (inside, beside), n)).collect::<Option<Vec<Value>>>()?;
        let mut results = self.arm_as_loop(at, inside, (condition, once), &init, &init);
        if arms.len() == 2 {
            results = self.arm_as_loop(at, beside, (condition, 1 - once), &results, &init);
        } else {
            let end = self.kernel.add_inst(Op::Yield, &results, 0, &[], &[], &[]);
            self.kernel.regions[inside].insts.push(end);
        }
        // Where the other arm only hands on what the loop began with, there is nothing left to choose.
        let others = &self.kernel.regions[beside].insts;
        if arms.len() == 2 || others.len() == 1 && self.kernel.yields(beside) == init {
            d.results.iter().zip(&results).for_each(|(&v, &by)| self.replace(v, by));
            self.kernel.regions[at.0].insts.retain(|&i| i != at.1);
        }
        Some(())
    }

    /// An arm as a loop in front of its choice, which has so many rounds where the condition holds, and the other number of one and none where not.
    fn arm_as_loop(
        &mut self,
        at: (Region, Inst),
        arm: Region,
        (condition, once): (Value, i64),
        init: &[Value],
        same: &[Value],
    ) -> Vec<Value> {
        let (holds, fails) = (self.number(at, once), self.number(at, 1 - once));
        let rounds = self.put(at, (Op::Select, &[condition, holds, fails], &[]), Type::Scalar(Scalar::I32));
        let insts = std::mem::take(&mut self.kernel.regions[arm].insts);
        self.looped(at, insts, rounds, init, same)
    }
}

/// What the product that makes a value is added to.
fn added_to(kernel: &Kernel, v: Value) -> Option<Value> {
    kernel.def_inst(v).map(|i| &kernel.insts[i]).filter(|d| d.op == Op::Dot).map(|d| d.args[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::{text, verify};

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
        kernel_of(&format!(
            "  %sum = for %j in 0..%len step 16 carry %x0 = %zero {{
{body}    yield %x{count}
  }}
"
        ))
    }

    /// A kernel around a loop that makes a sum.
    fn kernel_of(sum: &str) -> Kernel {
        let source = format!(
            "kernel @k(%a: view<bf16, [?, ?]>, %b: view<bf16, [?, ?]>, %on: view<i32, [?]>, %o: view<f32, [?, ?]>) {{
  %len = dim %a, 1
  %zero = splat 0.0 : tile<64x16xf32>
{sum}  store %o[0, 0], %sum
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

    #[test]
    fn what_an_earlier_choice_counts_is_not_asked_a_step_ahead() {
        let made = guarded(&kernel_of(
            "  %sum, %count = for %j in 0..%len step 16 carry %x0 = %zero, %n0 = 0 {
    %w0 = load %on[%j]
    %c0 = cmp ne %w0, 0
    %x1, %n1 = if %c0 {
      %a0 = load %a[0, %j] : tile<64x16xbf16>
      %b0 = load %b[%j, 0] : tile<16x16xbf16>
      %d0 = dot %a0, %b0, %x0
      %m = add %n0, 1
      yield %d0, %m
    } else {
      yield %x0, %n0
    }
    %w1 = load %on[%n1]
    %c1 = cmp ne %w1, 0
    %x2 = if %c1 {
      %a1 = load %a[0, %j] : tile<64x16xbf16>
      %b1 = load %b[%j, 0] : tile<16x16xbf16>
      %d1 = dot %a1, %b1, %x1
      yield %d1
    } else {
      yield %x1
    }
    yield %x2, %n1
  }
",
        ))
        .expect("its choices are loops");
        assert!(verify(&made).is_ok(), "{:?}", verify(&made).err());
    }

    #[test]
    fn products_beside_loops_of_others_are_loops_of_one_round() {
        // A product, a loop of others that reads one of its operands, and a product that reads the other one.
        let made = guarded(&kernel_of(
            "  %sum = for %j in 0..%len step 16 carry %x0 = %zero {
    %a0 = load %a[0, %j] : tile<64x16xbf16>
    %b0 = load %b[%j, 0] : tile<16x16xbf16>
    %x1 = dot %a0, %b0, %x0
    %x2 = for %l in 0..%j step 16 carry %y0 = %x1 {
      %b1 = load %b[%l, 0] : tile<16x16xbf16>
      %y1 = dot %a0, %b1, %y0
      yield %y1
    }
    %a2 = load %a[64, %j] : tile<64x16xbf16>
    %x3 = dot %a2, %b0, %x2
    yield %x3
  }
",
        ))
        .expect("its products are loops");
        assert!(verify(&made).is_ok(), "{:?}", verify(&made).err());
        let count = |op: Op| {
            let mut n = 0;
            made.walk(made.body, &mut |i| n += usize::from(made.insts[i].op == op));
            n
        };
        // The inner loop finds its operand in front; the last product loads both of its own.
        assert_eq!([count(Op::For), count(Op::Load)], [4, 5]);
    }
}
