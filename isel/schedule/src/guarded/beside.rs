//! Products beside loops of products, in loops of exactly one round: a body then has products in its loops only, and each of them finds its operands in
//! the ring.
//!
//! ```text
//! for i … carry a, b {                               for i … carry a, b {
//!     t = load …                                         a = for 0..1 carry a { t = load …  dot … t …, a }
//!     a = dot … t …, a                          ─►       b = for 0..(c ? 1 : 0) carry b { t = load …  dot … t …, b }
//!     b = for 0..(c ? 1 : 0) carry b { dot … t …, b }    yield a, b
//!     yield a, b                                     }
//! }
//! ```

use super::added_to;
use crate::plan::{MAX_LOOPS, at_most_once, is_view, needs, ring_loads};
use crate::rewrite::Rewrite;
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value};
use tilelift_lane::hash::Set;

/// More products than so many are left as they are: for each one a body is looked through.
const MOST: usize = 256;

/// Loads that products alone read, by instruction.
type Staged = SecondaryMap<Inst, bool>;

impl Rewrite {
    /// Makes loops of the products that stand beside loops of products, and answers with how many there are; with nothing if these are more than `most`, or
    /// no loops can be made.
    pub(super) fn beside_loops(&mut self, most: usize, written: &Set<Value>) -> Option<usize> {
        let (bodies, inner) = bodies(&self.kernel);
        if inner > MAX_LOOPS {
            return None;
        }
        if bodies.is_empty() {
            return Some(0);
        }
        if bodies.iter().map(|&r| products(&self.kernel, r).len()).sum::<usize>() > MOST {
            return None;
        }
        bodies.iter().for_each(|&r| self.own_operands(r));
        let staged = ring_loads(&self.kernel);
        let mut made = 0;
        for r in bodies {
            for part in parts(&self.kernel, r) {
                made += usize::from(self.once(r, &part, &staged, written)?);
            }
        }
        (made <= most).then_some(made)
    }

    /// Has every product of a body load its operands beside it, wherever others read them, too. Loops of more than a round find them in front.
    fn own_operands(&mut self, body: Region) {
        let kernel = &self.kernel;
        let staged = ring_loads(kernel);
        let part_of: BTreeMap<Inst, usize> =
            parts(kernel, body).iter().enumerate().flat_map(|(n, p)| p.iter().map(move |&i| (i, n)).collect::<Vec<_>>()).collect();
        let mut wanted: BTreeMap<(Region, Option<usize>, Value), Vec<Inst>> = BTreeMap::new();
        for (r, dot) in products(kernel, body) {
            let part = part_of.get(&dot).copied();
            for &v in &kernel.insts[dot].args[..2] {
                let elsewhere = |i: &Inst| part_of.get(i).is_some_and(|&p| r != body || Some(p) != part);
                if brought(kernel, &staged, v).is_some_and(|list| list.iter().any(elsewhere)) {
                    wanted.entry((r, part, v)).or_default().push(dot);
                }
            }
        }
        for ((r, _, v), users) in wanted {
            let (Some(list), Some(&first)) = (brought(&self.kernel, &staged, v), users.first()) else { continue };
            let mut own = BTreeMap::new();
            self.again(&list, (r, first), &mut own);
            self.read_instead(&users, &own);
            self.forget(body, &list);
        }
    }

    /// Makes a loop of the products of a part of a body, with all between them but scalars; true if there are any.
    fn once(&mut self, body: Region, part: &[Inst], staged: &Staged, written: &Set<Value>) -> Option<bool> {
        let kernel = &self.kernel;
        // What loops of more than a round read is there before.
        let shared = read_elsewhere(kernel, body, part);
        let in_front = |i: &Inst| kernel.insts[*i].results.iter().any(|v| shared.contains(v));
        let mut wanted = BTreeSet::new();
        for &i in part.iter().filter(|&&i| kernel.insts[i].op == Op::Dot) {
            let operands = kernel.insts[i].args[..2].iter().filter_map(|&v| brought(kernel, staged, v));
            let own: Vec<Inst> = operands.filter(|list| !list.iter().any(in_front)).flatten().filter(|j| part.contains(j)).collect();
            if !own.is_empty() {
                wanted.extend(own.into_iter().chain([i]));
            }
        }
        let is_wanted = |i: &Inst| wanted.contains(i);
        let (Some(first), Some(last)) = (part.iter().position(is_wanted), part.iter().rposition(is_wanted)) else { return Some(false) };
        let mut own: BTreeSet<Value> = BTreeSet::new();
        let mut list = Vec::new();
        for &i in &part[first..=last] {
            let d = &kernel.insts[i];
            let scalar = d.results.iter().all(|&v| kernel.ty(v).as_tile().is_none_or(|t| t.elements() == 1));
            let reads = d.op == Op::Load && !written.contains(&d.args[0]);
            let operand = d.results.first().is_some_and(|&v| brought(kernel, staged, v).is_some_and(|list| list.iter().any(in_front)));
            let stays = (scalar || operand) && (reads || d.op.info().effects == Effects::Pure) && d.regions.is_empty();
            if !stays || d.args.iter().any(|a| own.contains(a)) {
                own.extend(d.results.iter().copied());
                list.push(i);
            }
        }
        self.as_loop_of_one(body, part[last], list, &own)?;
        Some(true)
    }

    /// Makes a loop of one round of instructions of a body, behind one of them; `own` is what they make.
    fn as_loop_of_one(&mut self, body: Region, last: Inst, mut list: Vec<Inst>, own: &BTreeSet<Value>) -> Option<()> {
        let insts = &self.kernel.regions[body].insts;
        let at = (body, *insts.get(insts.iter().position(|&i| i == last)? + 1)?);
        self.kernel.regions[body].insts.retain(|i| !list.contains(i));
        let (mut readers, mut read) = (Vec::new(), BTreeSet::new());
        self.kernel.walk(body, &mut |i| readers.push(i));
        readers.iter().for_each(|&i| read.extend(self.kernel.insts[i].args.iter().copied().filter(|a| own.contains(a))));
        let results: Vec<Value> = read.into_iter().collect();
        let mut init = Vec::new();
        for &v in &results {
            let ty = self.kernel.ty(v).clone();
            let added = added_to(&self.kernel, v).filter(|c| !own.contains(c));
            init.push(match added {
                Some(c) => c,
                None => self.nothing(at, &ty)?,
            });
        }
        list.push(self.kernel.add_inst(Op::Yield, &results, 0, &[], &[], &[]));
        let one = self.number(at, 1);
        let made = self.looped(at, list, one, &init, &init);
        self.read_instead(&readers, &results.into_iter().zip(made).collect());
        Some(())
    }
}

/// The bodies of loops that have loops of products, of one round or none, or beside products; and how many these are.
fn bodies(kernel: &Kernel) -> (Vec<Region>, usize) {
    let (mut out, mut inner) = (Vec::new(), 0);
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let Some(&body) = d.regions.first().filter(|_| d.op == Op::For) else { return };
        let insts = &kernel.regions[body].insts;
        let held: Vec<Inst> = insts.iter().copied().filter(|&j| holds_products(kernel, j)).collect();
        let once = || held.iter().any(|&j| kernel.insts[j].op == Op::For && at_most_once(kernel, j));
        if !held.is_empty() && (insts.iter().any(|&j| kernel.insts[j].op == Op::Dot) || once()) {
            out.push(body);
            inner += held.len();
        }
    });
    (out, inner)
}

/// True for what has products in its regions.
fn holds_products(kernel: &Kernel, i: Inst) -> bool {
    kernel.insts[i]
        .regions
        .iter()
        .any(|&r| kernel.regions[r].insts.iter().any(|&j| kernel.insts[j].op == Op::Dot || holds_products(kernel, j)))
}

/// A body between its loops of products.
fn parts(kernel: &Kernel, body: Region) -> Vec<Vec<Inst>> {
    let insts = &kernel.regions[body].insts;
    let end = insts.len() - usize::from(kernel.terminator(body).is_some());
    insts[..end].split(|&i| holds_products(kernel, i)).map(<[Inst]>::to_vec).collect()
}

/// What of a body's part others in the body read.
fn read_elsewhere(kernel: &Kernel, body: Region, part: &[Inst]) -> Set<Value> {
    let mut out = Set::default();
    let beside = |i: &&Inst| !part.contains(i) && kernel.insts[**i].op != Op::Yield;
    for &i in kernel.regions[body].insts.iter().filter(beside) {
        needs(kernel, i, &mut |v| _ = out.insert(v));
    }
    out
}

/// The products of a body and of all in it that goes round once at most, with where they stand.
fn products(kernel: &Kernel, region: Region) -> Vec<(Region, Inst)> {
    let mut out = Vec::new();
    for &i in &kernel.regions[region].insts {
        let d = &kernel.insts[i];
        out.extend((d.op == Op::Dot).then_some((region, i)));
        if d.op == Op::If || d.op == Op::For && at_most_once(kernel, i) {
            d.regions.iter().for_each(|&r| out.extend(products(kernel, r)));
        }
    }
    out
}

/// The load of an operand that the ring brings, and what turns it, in order.
fn brought(kernel: &Kernel, staged: &Staged, operand: Value) -> Option<Vec<Inst>> {
    let mut out = Vec::new();
    let mut v = operand;
    loop {
        let i = kernel.def_inst(v)?;
        out.push(i);
        match kernel.insts[i].op {
            Op::Load | Op::Gather if staged[i] => break,
            Op::Transpose | Op::Reshape => {}
            _ if is_view(kernel, i) => {}
            _ => return None,
        }
        v = kernel.insts[i].args[0];
    }
    out.reverse();
    Some(out)
}
