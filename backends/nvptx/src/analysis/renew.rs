//! Registers of operand A that a loop keeps, beside others that it computes.
//!
//! ptxas (12.8, 12.9 and 13.0 are known to) gives both operands the same registers when one loop holds two group matrix instructions with
//! operand A from registers, where one's are written in front of the loop only and the other's inside: from the second iteration on the first
//! instruction multiplies the second's operand. It does not where the loop writes the first one's, too, in a way that it can't see through.
//!
//! ```text
//! a = …                       a = …
//! for …                       zero = sign bit of an extent
//!     fence                   for …
//!     multiply a              ├── a = a xor zero         renewed, in the innermost loop that has both kinds
//!     b = …            ──►        fence
//!     fence                       multiply a
//!     multiply b                  b = … ; fence; multiply b
//! ```
//!
//! What an iteration hands on to the next one does not count as computed: it is needed at the head of the loop, as what is kept is, and so has
//! registers of its own. What the lane program's builder can compute in front of a loop it has put there, so what is written in a loop is computed by it.
//! Renewed registers must not be in flight: the head of the loop is taken if none is there, else the first place of the body, else lanes wait.

use super::defs::{Def, Defs};
use super::visit::{Nest, nest};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use tilelift_isel::lane::visit::blocks;
use tilelift_isel::lane::{Block, Inst, LVal, OperandA, Program, Unit};

/// What a loop renews.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Renewal {
    /// The words, each once.
    pub(crate) words: Vec<LVal>,
    /// In front of which instruction of the body; of a loop on a condition, of its test.
    pub(crate) before: usize,
    /// Products in flight may read them and are waited for.
    pub(crate) wait: bool,
    /// No fence comes before the next product.
    pub(crate) fence: bool,
}

/// The loops that renew registers, by the index of a counted loop, by the condition of another.
#[derive(Default)]
pub(crate) struct Renewals(BTreeMap<LVal, Renewal>);

impl Renewals {
    /// Finds them.
    pub(crate) fn new(program: &Program, defs: &Defs<'_>) -> Renewals {
        if !multiplies_words(&program.body) {
            return Renewals::default();
        }
        let mut walk =
            Walk { defs, made: SecondaryMap::new(), open: 0, loops: 0, products: vec![], renewed: vec![], wanted: BTreeMap::new() };
        walk.made.resize(program.vals.len());
        walk.block(&program.body);
        let mut out = Renewals::default();
        if !walk.wanted.is_empty() {
            Placing { defs, wanted: walk.wanted, out: &mut out.0 }.block(&program.body, &mut Flight::default());
        }
        out
    }

    /// What the loop of that index or condition renews.
    pub(crate) fn of(&self, by: LVal) -> Option<&Renewal> {
        self.0.get(&by)
    }
}

/// True if a product of a block has its operand A in registers.
fn multiplies_words(block: &Block) -> bool {
    block.iter().any(|inst| words(inst).is_some() || blocks(inst).any(multiplies_words))
}

/// The words of an instruction's operand A in registers.
fn words(inst: &Inst) -> Option<&[LVal]> {
    let Inst::Unit(u) = inst else { return None };
    match &**u {
        Unit::Multiply(m) => match &m.a {
            OperandA::Regs(words) => Some(words),
            OperandA::Shared(_) => None,
        },
        _ => None,
    }
}

/// The walk that knows in which loop each value is made, and closes loops from the inside out.
struct Walk<'d, 'p> {
    defs: &'d Defs<'p>,
    /// The innermost loop around a value's instruction, by its number in the order of the text; 0 outside of all.
    made: SecondaryMap<LVal, u32>,
    open: u32,
    loops: u32,
    /// Words of operand A of each product so far.
    products: Vec<Vec<LVal>>,
    /// Words that loops so far renew.
    renewed: Vec<LVal>,
    wanted: BTreeMap<LVal, Vec<LVal>>,
}

impl Walk<'_, '_> {
    /// Where the register of a value is written.
    fn made(&self, v: LVal) -> u32 {
        match self.defs.def(v) {
            Def::Register | Def::AddConst(..) | Def::Bits(_) | Def::Same(_) => self.made[self.defs.root(v)],
            // In front of the program.
            Def::Const(_) | Def::Param(_) | Def::Special(_) | Def::Shared(_) => 0,
        }
    }

    fn block(&mut self, block: &Block) {
        for inst in block {
            match nest(inst) {
                Nest::For(l) => {
                    let carried = l.carried.iter().map(|c| (c.param, c.next, c.init));
                    self.around(l.iv, carried.collect(), &[&l.body]);
                    l.carried.iter().for_each(|c| self.made[c.result] = self.open);
                }
                Nest::While(l) => {
                    let carried = l.carried.iter().map(|c| (c.param, c.next, c.init));
                    self.around(l.condition, carried.collect(), &[&l.test, &l.body]);
                    l.carried.iter().for_each(|c| self.made[c.result] = self.open);
                }
                Nest::If(i) => {
                    self.block(&i.then);
                    self.block(&i.otherwise);
                    i.results.iter().for_each(|r| self.made[r.0] = self.open);
                }
                Nest::Roles(r) => r.roles.iter().for_each(|r| self.block(&r.body)),
                Nest::Matrix { .. } | Nest::Plain => {
                    inst.results().iter().for_each(|&v| self.made[v] = self.open);
                    if let Some(words) = words(inst) {
                        self.products.push(words.iter().map(|&w| self.defs.root(w)).collect());
                    }
                }
            }
        }
    }

    fn around(&mut self, by: LVal, carried: Vec<(LVal, LVal, LVal)>, blocks: &[&Block]) {
        let (outer, products, renewed) = (self.open, self.products.len(), self.renewed.len());
        self.loops += 1;
        self.open = self.loops;
        self.made[by] = self.open;
        let mut handed_on = Vec::with_capacity(carried.len());
        for (param, next, init) in carried {
            // What is handed on as it is, the loop keeps.
            let keeps = self.defs.root(next) == param;
            self.made[param] = if keeps { self.made(init) } else { self.open };
            handed_on.extend((!keeps).then_some(param));
        }
        handed_on.sort_unstable();
        blocks.iter().for_each(|b| self.block(b));
        // Loops that are opened later have higher numbers.
        let inside = |w: LVal| self.made(w) >= self.open || self.renewed[renewed..].contains(&w);
        let (computed, mut kept): (Vec<LVal>, Vec<LVal>) = self.products[products..].iter().flatten().copied().partition(|&w| inside(w));
        if !kept.is_empty() && computed.iter().any(|w| handed_on.binary_search(w).is_err()) {
            kept.sort_unstable();
            kept.dedup();
            self.renewed.extend(&kept);
            self.wanted.insert(by, kept);
        }
        self.open = outer;
    }
}

/// Words that products in flight read, with the number of groups that have been closed since, their own among them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Flight(BTreeMap<LVal, u32>);

impl Flight {
    /// What may be in flight here or there: a younger group stays longer.
    fn join(&mut self, other: &Flight) -> bool {
        let before = self.clone();
        for (&w, &age) in &other.0 {
            self.0.entry(w).and_modify(|a| *a = age.min(*a)).or_insert(age);
        }
        *self != before
    }

    fn step(&mut self, unit: &Unit, words: &[LVal], defs: &Defs<'_>) {
        match unit {
            Unit::Multiply(_) => words.iter().for_each(|&w| {
                self.0.insert(defs.root(w), 0);
            }),
            Unit::CommitMatrices => self.0.values_mut().for_each(|age| *age += 1),
            Unit::WaitMatrices { pending } => self.0.retain(|_, age| *age <= *pending),
            _ => {}
        }
    }

    fn is_free(&self, words: &[LVal]) -> bool {
        words.iter().all(|w| !self.0.contains_key(w))
    }
}

/// The walk that finds the places: it knows what is in flight.
struct Placing<'a, 'd, 'p> {
    defs: &'d Defs<'p>,
    wanted: BTreeMap<LVal, Vec<LVal>>,
    out: &'a mut BTreeMap<LVal, Renewal>,
}

impl Placing<'_, '_, '_> {
    fn block(&mut self, block: &[Inst], flight: &mut Flight) {
        for inst in block {
            match nest(inst) {
                Nest::For(l) => self.around(l.iv, &[&l.body], flight),
                Nest::While(l) => self.around(l.condition, &[&l.test, &l.body], flight),
                Nest::If(i) => {
                    let mut other = flight.clone();
                    self.block(&i.then, flight);
                    self.block(&i.otherwise, &mut other);
                    flight.join(&other);
                }
                Nest::Roles(r) => r.roles.iter().for_each(|r| self.block(&r.body, &mut flight.clone())),
                Nest::Matrix { .. } | Nest::Plain => {
                    if let Inst::Unit(u) = inst {
                        flight.step(u, words(inst).unwrap_or_default(), self.defs);
                    }
                }
            }
        }
    }

    fn around(&mut self, by: LVal, blocks: &[&Block], flight: &mut Flight) {
        let mut left = Flight::default();
        loop {
            let mut now = flight.clone();
            for b in blocks {
                self.block(b, &mut now);
                left.join(&now);
            }
            if !flight.join(&now) {
                break;
            }
        }
        if let (Some(words), Some(body)) = (self.wanted.get(&by).cloned(), blocks.first()) {
            self.place(by, words, body, flight.clone());
        }
        flight.join(&left);
    }

    fn place(&mut self, by: LVal, words: Vec<LVal>, body: &Block, mut flight: Flight) {
        let mut before = None;
        for (at, inst) in body.iter().enumerate() {
            if flight.is_free(&words) {
                before = Some(at);
                break;
            }
            self.block(std::slice::from_ref(inst), &mut flight);
        }
        let at = before.unwrap_or(0);
        // A fence that comes before any product covers what is renewed.
        let next = body[at..].iter().find(|i| !matches!(nest(i), Nest::Plain) || matches!(i, Inst::Unit(u) if **u == Unit::FenceMatrices));
        let fence = !next.is_some_and(|i| matches!(i, Inst::Unit(u) if **u == Unit::FenceMatrices));
        self.out.insert(by, Renewal { words, before: at, wait: before.is_none(), fence });
    }
}
