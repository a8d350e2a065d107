//! Checks of asynchronous products: waits are for products, and products are waited for. Runs on kernels that have no other fault.
//!
//! ```text
//! may be a product   results of `async_dot`, waits for them, and what loops and choices make of them: the least such set
//! may be waited for  behind an `async_dot` some way leads to `async_dot_wait n` with n or more products begun in between
//! ```
//! Both err on the author's side: what depends on how often loops go round, or on which way a choice goes, is left to those who run it.

use super::check::Checker;
use super::error::VerifyCode;
use crate::entities::{Inst, Region, Value};
use crate::kernel::Kernel;
use crate::ops::{Attr, Op};
use cranelift_entity::SecondaryMap;

/// What a region holds, with the regions inside.
#[derive(Clone, Copy, Default)]
struct Holds {
    product: bool,
    /// The fewest products that a wait in it leaves in flight.
    wait: Option<i64>,
}

/// How many more products than it leaves in flight come before some wait, at most: in front of a point of the program. At 0 and above a product
/// that has just begun may be ended by that wait.
type Slack = Option<i64>;

/// Loops begin any number of products.
const MANY: i64 = i64::MAX / 2;

impl Checker<'_> {
    /// Waits and products of a kernel.
    pub(super) fn products(&mut self) {
        let k = self.k;
        let mut waits = Vec::new();
        let mut any = false;
        k.walk(k.body, &mut |i| match k.insts[i].op {
            Op::AsyncDotWait => waits.push(i),
            Op::AsyncDot => any = true,
            _ => {}
        });
        if !any && waits.is_empty() {
            return;
        }
        let mut may = Products::of(k);
        for i in waits {
            let v = k.insts[i].args[0];
            if !may.has[v] {
                // What comes of it is the same mistake.
                may.spread(k.insts[i].results[0]);
                let message = format!(
                    "`async_dot_wait` takes what is made {}, and by no `async_dot`: that is good as it is, whatever is in flight; take the result \
                     of the `async_dot` that is waited for",
                    self.origin(v)
                );
                self.error_inst(VerifyCode::WaitedFor, i, message);
            }
        }
        let mut holds = SecondaryMap::new();
        hold(k, k.body, &mut holds);
        let mut lost = Vec::new();
        before(k, k.body, None, &holds, &mut lost);
        lost.reverse();
        for i in lost {
            let message = "no `async_dot_wait` behind this `async_dot` can end it, and it must not be in flight when its task ends; put one of its \
                           result, with 0 in flight, where that is needed, or remove the product";
            self.error_inst(VerifyCode::Unawaited, i, message);
        }
    }
}

/// The values that may be products.
#[derive(Default)]
struct Products {
    has: SecondaryMap<Value, bool>,
    /// Where each value goes as it is.
    to: SecondaryMap<Value, Vec<Value>>,
}

impl Products {
    fn of(k: &Kernel) -> Products {
        let mut out = Products::default();
        let mut made = Vec::new();
        k.walk(k.body, &mut |i| {
            let d = &k.insts[i];
            let mut flows = |from: &[Value], into: &[Value]| from.iter().zip(into).for_each(|(&a, &b)| out.to[a].push(b));
            let params = |n: usize| &k.regions[d.regions[n]].params[..];
            match d.op {
                Op::AsyncDot => made.push(d.results[0]),
                Op::AsyncDotWait => flows(&d.args, &d.results),
                Op::For => {
                    for from in [&d.args[3..], k.yields(d.regions[0])] {
                        flows(from, &params(0)[1..]);
                        flows(from, &d.results);
                    }
                }
                Op::While => {
                    for from in [&d.args[..], k.yields(d.regions[1])] {
                        flows(from, params(0));
                        flows(from, params(1));
                        flows(from, &d.results);
                    }
                }
                Op::If => d.regions.iter().for_each(|&r| flows(k.yields(r), &d.results)),
                _ => {}
            }
        });
        made.into_iter().for_each(|v| out.spread(v));
        out
    }

    /// Notes that a value may be a product, and what it becomes.
    fn spread(&mut self, v: Value) {
        let mut ready = vec![v];
        while let Some(v) = ready.pop() {
            if !std::mem::replace(&mut self.has[v], true) {
                ready.extend(&self.to[v]);
            }
        }
    }
}

/// The number of products that a wait leaves in flight.
fn left(k: &Kernel, i: Inst) -> i64 {
    if let Some(Attr::Count(n)) = k.insts[i].attrs.first() { i64::from(*n) } else { 0 }
}

/// Notes what regions hold.
fn hold(k: &Kernel, r: Region, holds: &mut SecondaryMap<Region, Holds>) -> Holds {
    let mut h = Holds::default();
    for &i in &k.regions[r].insts {
        let d = &k.insts[i];
        let wait = match d.op {
            Op::AsyncDotWait => Some(left(k, i)),
            _ => None,
        };
        h.product |= d.op == Op::AsyncDot;
        let mut note = |wait: Option<i64>| h.wait = [h.wait, wait].into_iter().flatten().min();
        note(wait);
        for &inner in &d.regions {
            let inner = hold(k, inner, holds);
            note(inner.wait);
            h.product |= inner.product;
        }
    }
    holds[r] = h;
    h
}

/// The slack in front of a region behind whose end it is `slack`; adds to `lost` the products that nobody can wait for, last first.
fn before(k: &Kernel, r: Region, mut slack: Slack, holds: &SecondaryMap<Region, Holds>, lost: &mut Vec<Inst>) -> Slack {
    for &i in k.regions[r].insts.iter().rev() {
        let d = &k.insts[i];
        match d.op {
            Op::AsyncDot => {
                if slack.is_none_or(|s| s < 0) {
                    lost.push(i);
                }
                slack = slack.map(|s| (s + 1).min(MANY));
            }
            Op::AsyncDotWait => slack = slack.max(Some(-left(k, i))),
            Op::For | Op::While => {
                let h = d.regions.iter().fold(Holds::default(), |a, &r| Holds {
                    product: a.product || holds[r].product,
                    wait: [a.wait, holds[r].wait].into_iter().flatten().min(),
                });
                let waits = slack.max(h.wait.map(|n| -n));
                // Rounds of products come before a wait in one of them, or behind all.
                slack = if h.product { waits.map(|_| MANY) } else { waits };
                for &inner in d.regions.iter().rev() {
                    before(k, inner, slack, holds, lost);
                }
            }
            Op::If => {
                let ways: Vec<Slack> = d.regions.iter().rev().map(|&inner| before(k, inner, slack, holds, lost)).collect();
                slack = ways.into_iter().max().unwrap_or(slack);
            }
            // What stands in front of tasks is done before, and their waits are for products of their own.
            Op::Tasks => {
                for &inner in d.regions.iter().rev() {
                    before(k, inner, None, holds, lost);
                }
                slack = None;
            }
            _ => {}
        }
    }
    slack
}
