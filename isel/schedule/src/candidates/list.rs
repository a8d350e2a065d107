//! What was considered, as lines of a comment in front of a text: the options of each decision with their prices, and the candidates.

use super::alternatives::Alternatives;
use super::price::Prices;
use super::{Candidate, Candidates};
use crate::plan::EpilogueStore;
use std::fmt::Write;
use tilelift_ir::{Inst, Kernel, text};

/// Sixteenths of a cycle as cycles.
fn cycles(cost: Option<u64>) -> String {
    cost.map_or("impossible".to_owned(), |c| (c / 16).to_string())
}

fn store(way: EpilogueStore) -> String {
    match way {
        EpilogueStore::Bulk(swizzle) => format!("bulk from swizzle({swizzle})"),
        EpilogueStore::Lanes => "per lane".to_owned(),
    }
}

impl Candidates<'_> {
    /// The options of each decision and their prices, of the loop an iteration's, those that a candidate takes marked; named as in a text of the
    /// kernel.
    pub fn decisions(&self, shown: &Kernel, taken: &Candidate) -> String {
        let mut out = String::new();
        let Some((a, prices)) = self.alternatives.as_ref().zip(Prices::of(self.kernel, self.target, &self.plan)) else { return out };
        let lines = text::lines(shown);
        let named = |i: Inst| {
            let line = lines.iter().find(|l| l.insts.contains(&i)).map_or("", |l| l.text.trim());
            line.split_once(" = ").map_or_else(|| format!("`{line}`"), |(name, _)| name.to_owned())
        };
        let mut line = |head: String, options: Vec<(String, Option<u64>, bool)>| {
            let option = |(name, cost, taken): (String, Option<u64>, bool)| {
                format!("{name} {}{}", cycles(cost), if taken { " (taken)" } else { "" })
            };
            let options: Vec<String> = options.into_iter().map(option).collect();
            let _ = writeln!(out, "; {head}: {}", options.join(", "));
        };
        let Alternatives { swizzles, operand_a, stores } = a;
        let ring_layouts = &taken.ring_layouts;
        for (load, widths) in swizzles {
            let option = |&x: &u32| (format!("swizzle({x})"), prices.load(*load, x), ring_layouts.swizzles.get(load) == Some(&x));
            line(format!("{} waits in shared memory in", named(*load)), widths.iter().map(option).collect());
        }
        for (dot, load, ways) in operand_a {
            let swizzle = ring_layouts.swizzles.get(load).copied().unwrap_or_default();
            let option = |&registers: &bool| {
                let fetch = if registers { prices.operand_a(*dot, swizzle) } else { Some(0) };
                let cost = prices.dot(*dot, true, registers).zip(fetch).map(|([products, waits], fetch)| products + waits + fetch);
                let name = if registers { "registers" } else { "shared memory" };
                (name.to_owned(), cost, ring_layouts.a_from_registers.get(dot) == Some(&registers))
            };
            line(format!("{} takes operand A from", named(*dot)), ways.iter().map(option).collect());
        }
        for (i, ways) in stores {
            let option = |&way: &EpilogueStore| (store(way), prices.store(*i, way), ring_layouts.epilogue.get(i) == Some(&way));
            line(format!("{} stores", named(*i)), ways.iter().map(option).collect());
        }
        out
    }

    /// The candidates, best first, a line each.
    pub fn lines(&self) -> String {
        self.list().iter().enumerate().map(|(n, c)| self.line(n, c, "")).collect()
    }

    /// The best few of them, and the one that is taken, which is marked; of the others, how many there are.
    pub fn best_lines(&self, most: usize, taken: &Candidate) -> String {
        let shown = |&(n, c): &(usize, &Candidate)| n < most || c == taken;
        let line = |(n, c)| self.line(n, c, if c == taken { ", taken" } else { "" });
        let mut out: String = self.list().iter().enumerate().filter(shown).map(line).collect();
        let left = self.list().len() - self.list().iter().enumerate().filter(shown).count();
        if left > 0 {
            let _ = writeln!(out, "; and {left} more");
        }
        out
    }

    fn line(&self, n: usize, c: &Candidate, mark: &str) -> String {
        let plan = match self.plan(c) {
            Ok(plan) => plan.to_string(),
            Err(why) => format!("refused: {why}"),
        };
        let own = if self.is_own(c) { ", the plan's own" } else { "" };
        match c.price {
            Some(p) => format!(
                "; {}: {} cycles a grid position: {} * (copies {}, products {}, operand A {}), epilogue {}{own}{mark}: {plan}\n",
                n + 1,
                p.total() / 16,
                p.iterations,
                p.copies / 16,
                p.products / 16,
                p.operand_a / 16,
                p.epilogue / 16,
            ),
            None => format!("; {}: no price{own}{mark}: {plan}\n", n + 1),
        }
    }
}
