//! What the checker knows of a lane value: a number for every lane, which step of its loop an index stands for, or nothing.

use cranelift_entity::EntityRef;
use std::cell::RefCell;
use std::rc::Rc;
use tilelift_lane::hash::Map;
use tilelift_lane::{Inst, LVal};

/// A value as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Abs {
    /// Any number.
    #[default]
    Any,
    /// The same number in all lanes.
    All(i64),
    /// A number per lane: the place of the list in [`Lists`]. Equal lists have one place.
    Lanes(u32),
    /// A number `v`, `v + m`, `v + 2m`, …, the same in all lanes; `v` is not negative.
    Count(i64, i64),
    /// The index of a loop that starts at the value; true in the first step.
    Index(LVal, bool),
}

impl Abs {
    /// As numbers.
    pub fn key(self, out: &mut Vec<u64>) {
        match self {
            Abs::Any => out.push(0),
            Abs::All(v) => out.extend([1, v as u64]),
            Abs::Lanes(n) => out.push(2 | u64::from(n) << 8),
            Abs::Count(v, m) => out.extend([3, v as u64, m as u64]),
            Abs::Index(v, first) => out.push(4 | u64::from(first) << 8 | (v.index() as u64) << 16),
        }
    }
}

/// The numbers of lanes, each list once, and what instructions have made of them: slots and rounds make the same ones over and over.
#[derive(Default)]
pub(super) struct Lists {
    all: RefCell<Vec<Rc<[i64]>>>,
    /// How many of each are not zero.
    counts: RefCell<Vec<u32>>,
    places: RefCell<Map<Rc<[i64]>, u32>>,
    made: RefCell<Map<(usize, Abs, Abs), Abs>>,
    sums: RefCell<Map<(u32, i64), Abs>>,
    /// One in the first lanes of each warp, zero in the others: by how many these are, and how many lanes there are.
    firsts: RefCell<Map<(u32, usize), Abs>>,
}

impl Lists {
    /// The numbers at a place.
    pub fn get(&self, n: u32) -> Rc<[i64]> {
        self.all.borrow().get(n as usize).cloned().unwrap_or_else(|| Rc::from([]))
    }

    /// A number per lane.
    pub fn of(&self, lanes: Vec<i64>) -> Abs {
        if let Some(&x) = lanes.first()
            && lanes.iter().all(|&y| y == x)
        {
            return Abs::All(x);
        }
        if let Some(&n) = self.places.borrow().get(&*lanes) {
            return Abs::Lanes(n);
        }
        let list: Rc<[i64]> = lanes.into();
        let mut all = self.all.borrow_mut();
        let n = all.len() as u32;
        self.counts.borrow_mut().push(list.iter().filter(|&&x| x != 0).count() as u32);
        all.push(list.clone());
        self.places.borrow_mut().insert(list, n);
        Abs::Lanes(n)
    }

    /// Per-lane numbers from a range of threads of all threads' numbers.
    pub fn slice(&self, a: Abs, range: std::ops::Range<usize>) -> Abs {
        match a {
            Abs::Lanes(n) => self.of(self.get(n).get(range).unwrap_or(&[]).to_vec()),
            Abs::Any | Abs::All(_) | Abs::Index(..) | Abs::Count(..) => a,
        }
    }

    /// In how many of `lanes` lanes a condition holds.
    pub fn count(&self, a: Abs, lanes: usize) -> Option<u32> {
        match a {
            Abs::All(0) => Some(0),
            Abs::All(_) => Some(lanes as u32),
            Abs::Lanes(n) => self.counts.borrow().get(n as usize).copied(),
            Abs::Count(v, _) if v > 0 => Some(lanes as u32),
            Abs::Any | Abs::Index(..) | Abs::Count(..) => None,
        }
    }

    /// The numbers at a place, and another one more.
    pub fn plus(&self, n: u32, more: i64) -> Abs {
        if let Some(&known) = self.sums.borrow().get(&(n, more)) {
            return known;
        }
        let made = self.of(self.get(n).iter().map(|x| x + more).collect());
        self.sums.borrow_mut().insert((n, more), made);
        made
    }

    /// One in the first lanes of each warp of `lanes`, zero in the others; of so many lanes in all.
    pub fn first(&self, few: u32, lanes: u32, all: usize) -> Abs {
        if few >= lanes {
            return Abs::All(1);
        }
        *self.firsts.borrow_mut().entry((few, all)).or_insert_with(|| {
            let first = |lane: usize| i64::from((lane as u32 % lanes) < few);
            self.of((0..all).map(first).collect())
        })
    }

    pub(super) fn zip(&self, a: Abs, b: Abs, f: impl Fn(i64, i64) -> Option<i64>) -> Abs {
        let all = |l: Option<Vec<i64>>| l.map_or(Abs::Any, |l| self.of(l));
        match (a, b) {
            (Abs::All(x), Abs::All(y)) => f(x, y).map_or(Abs::Any, Abs::All),
            (Abs::Lanes(l), Abs::All(y)) => all(self.get(l).iter().map(|&x| f(x, y)).collect()),
            (Abs::All(x), Abs::Lanes(l)) => all(self.get(l).iter().map(|&y| f(x, y)).collect()),
            (Abs::Lanes(a), Abs::Lanes(b)) => {
                let (a, b) = (self.get(a), self.get(b));
                if a.len() == b.len() { all(a.iter().zip(&*b).map(|(&x, &y)| f(x, y)).collect()) } else { Abs::Any }
            }
            // False wins whatever stands beside it is not used here: an unknown part makes the whole unknown.
            _ => Abs::Any,
        }
    }

    /// What an instruction makes of two values, kept where lanes differ.
    pub(super) fn once(&self, inst: &Inst, a: Abs, b: Abs, f: impl FnOnce() -> Abs) -> Abs {
        if !matches!(a, Abs::Lanes(_)) && !matches!(b, Abs::Lanes(_)) {
            return f();
        }
        // The pointer only tells the program's instructions apart.
        let key = (std::ptr::from_ref(inst).addr(), a, b);
        if let Some(&known) = self.made.borrow().get(&key) {
            return known;
        }
        let made = f();
        self.made.borrow_mut().insert(key, made);
        made
    }
}
