//! What is known of a role's registers at a point.

use cranelift_entity::EntityRef;
use std::rc::Rc;
use tilelift_lane::visit::blocks;
use tilelift_lane::{Block, Inst, LVal, OperandA, Unit};

/// Groups beyond which age does not count: more than any wait names.
const OLDEST: u32 = 64;

/// A register that a multiplication in flight uses.
#[derive(Clone, Copy)]
pub(super) struct Flight<'a> {
    /// Groups that have been closed since.
    pub age: u32,
    /// Of its operand A, not of its result.
    pub left: bool,
    /// Another value has the register now: a multiplication goes on with it, or a loop or choice passes it on.
    pub moved: bool,
    /// The multiplication.
    pub by: &'a Inst,
}

impl Flight<'_> {
    /// Where two paths meet: the newer one counts. True if that is not what was known.
    fn meet(&mut self, other: Flight<'_>) -> bool {
        let own = (self.age, self.moved);
        (self.age, self.moved) = (other.age.min(self.age), self.moved && other.moved);
        (self.age, self.moved) != own
    }
}

/// What stands for no place.
const NONE: u32 = u32::MAX;

/// Flights by value: a list of the few that there are, and for every value that may be in flight its place in the list. Points are many and copied
/// often, and both are copied as they lie.
#[derive(Clone)]
pub(super) struct Flights<'a> {
    /// The numbers of values that may be in flight.
    numbers: Rc<[u32]>,
    /// By number.
    places: Vec<u32>,
    list: Vec<(LVal, Flight<'a>)>,
}

impl<'a> Flights<'a> {
    /// None of those that a block may leave in flight: what multiplications make or take from registers, and what loops and choices pass on.
    fn none(values: usize, block: &Block) -> Flights<'a> {
        fn visit(block: &Block, f: &mut dyn FnMut(LVal)) {
            for inst in block {
                match inst {
                    Inst::Unit(u) => {
                        if let Unit::Multiply(m) = &**u {
                            m.dsts.iter().for_each(|&v| f(v));
                            if let OperandA::Regs(mbarriers) = &m.a {
                                mbarriers.iter().for_each(|&v| f(v));
                            }
                        }
                    }
                    Inst::For(l) => l.carried.iter().for_each(|c| [c.param, c.next, c.result].into_iter().for_each(&mut *f)),
                    Inst::If(c) => c.results.iter().for_each(|r| f(r.0)),
                    _ => {}
                }
                blocks(inst).for_each(|b| visit(b, f));
            }
        }
        let (mut numbers, mut next) = (vec![NONE; values], 0);
        visit(block, &mut |v| {
            if numbers[v.index()] == NONE {
                numbers[v.index()] = next;
                next += 1;
            }
        });
        Flights { numbers: numbers.into(), places: vec![NONE; next as usize], list: Vec::new() }
    }

    #[inline]
    fn place(&self, v: LVal) -> Option<usize> {
        let number = self.numbers[v.index()];
        self.places.get(number as usize).filter(|&&n| n != NONE).map(|&n| n as usize)
    }

    /// Notes where a value stands in the list.
    fn put(&mut self, v: LVal, place: u32) {
        self.places[self.numbers[v.index()] as usize] = place;
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn get(&self, v: LVal) -> Option<Flight<'a>> {
        self.place(v).map(|n| self.list[n].1)
    }

    pub fn get_mut(&mut self, v: LVal) -> Option<&mut Flight<'a>> {
        self.place(v).map(|n| &mut self.list[n].1)
    }

    /// That of the value of the lowest number.
    pub fn first(&self) -> Option<Flight<'a>> {
        self.list.iter().min_by_key(|x| x.0).map(|x| x.1)
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, more: usize) {
        self.list.reserve(more);
    }

    pub fn insert(&mut self, v: LVal, f: Flight<'a>) {
        match self.place(v) {
            Some(n) => self.list[n].1 = f,
            None => {
                self.put(v, self.list.len() as u32);
                self.list.push((v, f));
            }
        }
    }

    #[inline]
    pub fn remove(&mut self, v: LVal) -> Option<Flight<'a>> {
        self.place(v).map(|n| self.take(v, n))
    }

    /// Takes a value out of the list, where it has that place.
    fn take(&mut self, v: LVal, n: usize) -> Flight<'a> {
        self.put(v, NONE);
        let (_, f) = self.list.swap_remove(n);
        if let Some(&(moved, _)) = self.list.get(n) {
            self.put(moved, n as u32);
        }
        f
    }

    /// The open group is closed.
    pub fn commit(&mut self) {
        self.list.iter_mut().for_each(|(_, f)| f.age = (f.age + 1).min(OLDEST));
    }

    /// All but so many of the newest closed groups land.
    pub fn wait(&mut self, pending: u32) {
        let Flights { numbers, places, list } = self;
        let mut stay = 0;
        list.retain(|&(v, f)| {
            let in_flight = f.age == 0 || f.age <= pending;
            places[numbers[v.index()] as usize] = if in_flight { stay } else { NONE };
            stay += u32::from(in_flight);
            in_flight
        });
    }
}

/// What is known of one register.
#[derive(Clone, Copy)]
pub(super) struct RegisterState<'a> {
    flight: Option<Flight<'a>>,
    dirty: bool,
}

/// What is known of all registers.
#[derive(Clone)]
pub(super) struct Registers<'a> {
    /// What multiplications use until they are waited for.
    pub flying: Flights<'a>,
    /// What ordinary instructions have written since the last fence, a bit each.
    dirty: Vec<u64>,
    /// No fence has come yet.
    pub unfenced: bool,
}

impl<'a> Registers<'a> {
    /// Where nothing is in flight, and nothing has been written, of so many values: in front of a block.
    pub fn new(values: usize, block: &Block) -> Registers<'a> {
        Registers { flying: Flights::none(values, block), dirty: vec![0; values.div_ceil(64)], unfenced: true }
    }

    /// Where two paths meet. True if more may be so than before.
    pub fn meet(&mut self, other: &Registers<'a>) -> bool {
        let mut more = !self.unfenced && other.unfenced;
        for &(v, f) in &other.flying.list {
            more |= self.join(v, f);
        }
        for (a, b) in self.dirty.iter_mut().zip(&other.dirty) {
            more |= b & !*a != 0;
            *a |= b;
        }
        self.unfenced |= other.unfenced;
        more
    }

    /// A value may be in flight like that, too. True if that was not known.
    pub fn join(&mut self, v: LVal, f: Flight<'a>) -> bool {
        match self.flying.get_mut(v) {
            Some(own) => own.meet(f),
            None => {
                self.flying.insert(v, f);
                true
            }
        }
    }

    /// What is known of a value's register.
    pub fn known(&self, v: LVal) -> RegisterState<'a> {
        RegisterState { flight: self.flying.get(v), dirty: self.is_dirty(v) }
    }

    /// `to` is another name of `from`, of which that was known.
    pub fn name(&mut self, to: LVal, from: LVal, known: RegisterState<'a>) {
        if let Some(f) = known.flight {
            self.join(to, Flight { moved: false, ..f });
            if to != from
                && let Some(old) = self.flying.get_mut(from)
            {
                old.moved = true;
            }
        }
        if known.dirty {
            self.soil(to);
        }
    }

    /// What ordinary instructions have written is seen by multiplications from here on.
    pub fn fence(&mut self) {
        self.dirty.fill(0);
        self.unfenced = false;
    }

    /// Of what is dirty only that stays which was so at another point.
    pub fn keep_dirty(&mut self, at: &Registers<'a>) {
        self.dirty.iter_mut().zip(&at.dirty).for_each(|(a, b)| *a &= b);
    }

    pub fn is_dirty(&self, v: LVal) -> bool {
        self.dirty[v.index() / 64] >> (v.index() % 64) & 1 == 1
    }

    pub fn soil(&mut self, v: LVal) {
        self.dirty[v.index() / 64] |= 1 << (v.index() % 64);
    }
}
