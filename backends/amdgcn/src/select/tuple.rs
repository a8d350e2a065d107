//! Values that share a tuple, and where in the program each of its words holds one.
//!
//! The fewer of two tuples' values are put to the many, and each looks only at what is alive when it is: building a tuple of `n` values takes
//! `n` times logarithms of steps, whatever the order in which they come.

use std::collections::BTreeMap;
use tilelift_lane::LVal;

/// Values up to which a tuple is looked through one by one.
const FEW: usize = 32;

/// The first and the last instruction at which a value is alive.
pub(super) type Life = (u32, u32);

/// A value in a tuple.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// The value.
    pub(super) val: LVal,
    /// Its first word, and the word behind it.
    pub(super) at: i32,
    pub(super) end: i32,
}

impl Member {
    fn moved(self, by: i32) -> Member {
        Member { at: self.at + by, end: self.end + by, ..self }
    }
}

/// Values in one tuple.
#[derive(Clone)]
pub(super) struct Tuple {
    /// Where they are, without `shift`.
    members: Vec<Member>,
    shift: i32,
    /// The same by word and time, once they are many.
    lives: Option<Lives>,
}

impl Tuple {
    /// A value alone.
    pub(super) fn of(val: LVal, words: i32) -> Tuple {
        Tuple { members: vec![Member { val, at: 0, end: words }], shift: 0, lives: None }
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Its values.
    pub(super) fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter().map(|m| m.moved(self.shift))
    }

    /// True if a word holds two values that are `together`, where the values of `other` begin `by` words further on.
    pub(super) fn clashes(
        &self,
        other: &Tuple,
        by: i32,
        life: &impl Fn(LVal) -> Life,
        mut together: impl FnMut(LVal, LVal) -> bool,
    ) -> bool {
        let (many, few, by) = if self.len() >= other.len() { (self, other, by) } else { (other, self, -by) };
        few.members().any(|m| many.meets(m.moved(by - many.shift), life, &mut together))
    }

    fn meets(&self, new: Member, life: &impl Fn(LVal) -> Life, together: &mut impl FnMut(LVal, LVal) -> bool) -> bool {
        match &self.lives {
            None => self.members.iter().any(|m| m.at < new.end && new.at < m.end && together(m.val, new.val)),
            Some(lives) => (new.at..new.end).any(|word| lives.meets(word, life(new.val), |old| together(old, new.val))),
        }
    }

    /// Both in one, where the values of `other` begin `by` words further on.
    pub(super) fn with(self, other: Tuple, by: i32, life: &impl Fn(LVal) -> Life) -> Tuple {
        let (mut many, few) = if self.len() >= other.len() { (self, other.moved(by)) } else { (other.moved(by), self) };
        for member in few.members() {
            many.add(member.moved(-many.shift), life);
        }
        many
    }

    fn moved(self, by: i32) -> Tuple {
        Tuple { shift: self.shift + by, ..self }
    }

    fn add(&mut self, new: Member, life: &impl Fn(LVal) -> Life) {
        self.members.push(new);
        if let Some(lives) = &mut self.lives {
            lives.add(new, life);
        } else if self.len() > FEW {
            let mut lives = Lives::default();
            self.members.iter().for_each(|&m| lives.add(m, life));
            self.lives = Some(lives);
        }
    }
}

/// Values of a word that are alive within the same instructions: one, but for what a choice gives and what its second arm makes for that.
#[derive(Clone)]
struct Group {
    end: u32,
    vals: Vec<LVal>,
}

/// Groups by word and first instruction. Those of a word have at most an end in common with the next one's begin.
#[derive(Clone, Default)]
struct Lives(BTreeMap<(i32, u32), Group>);

impl Lives {
    /// Groups of a word that have an instruction in common with a life, ends included.
    fn near(&self, word: i32, (start, end): Life) -> impl Iterator<Item = (u32, &Group)> {
        let before = self.0.range((word, 0)..=(word, end)).rev();
        before.take_while(move |(_, group)| group.end >= start).map(|(key, group)| (key.1, group))
    }

    fn meets(&self, word: i32, life: Life, mut together: impl FnMut(LVal) -> bool) -> bool {
        self.near(word, life).any(|(_, group)| group.vals.iter().any(|&old| together(old)))
    }

    fn add(&mut self, new: Member, life: &impl Fn(LVal) -> Life) {
        let (start, end) = life(new.val);
        for word in new.at..new.end {
            let over = |&(from, group): &(u32, &Group)| from == start || (from < end && start < group.end);
            let met: Vec<u32> = self.near(word, (start, end)).filter(over).map(|(from, _)| from).collect();
            let mut all = Group { end, vals: vec![new.val] };
            let first = met.iter().fold(start, |first, &from| first.min(from));
            for group in met.iter().filter_map(|&from| self.0.remove(&(word, from))) {
                all.end = all.end.max(group.end);
                all.vals.extend(group.vals);
            }
            self.0.insert((word, first), all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_entity::EntityRef;

    /// What a choice gives has an odd number, and what its second arm makes for that the next one.
    fn exempt(x: LVal, y: LVal) -> bool {
        let (low, high) = (x.index().min(y.index()), x.index().max(y.index()));
        low % 2 == 1 && high == low + 1
    }

    /// Tuples that are grown at random say of each other what comparing all their values says.
    #[test]
    fn answers_are_those_of_all_pairs() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let lives: Vec<Life> = (0..6000)
            .map(|_| {
                let start = next(40_000) as u32;
                (start, start + next(30) as u32)
            })
            .collect();
        let life = |v: LVal| lives[v.index()];
        let together = |x: LVal, y: LVal| {
            let ((dx, lx), (dy, ly)) = (life(x), life(y));
            !exempt(x, y) && (dx == dy || (dx < ly && dy < lx))
        };
        let mut tuples: Vec<Tuple> = (0..lives.len()).map(|v| Tuple::of(LVal::new(v), 1 + v as i32 % 2)).collect();
        let (mut clashes, mut joins, mut many) = (0, 0, 0);
        for _ in 0..60_000 {
            // The same ones meet often, so that some become large.
            let (a, b) = (next(8).min(tuples.len() as u64 - 2) as usize, next(tuples.len() as u64) as usize);
            if a == b {
                continue;
            }
            let by = next(5) as i32 - 2;
            let (x, y) = (&tuples[a], &tuples[b]);
            let words = |m: &Member, n: &Member| m.at < n.end + by && n.at + by < m.end;
            let plain = x.members().any(|m| y.members().any(|n| words(&m, &n) && together(m.val, n.val)));
            assert_eq!(x.clashes(y, by, &life, together), plain);
            assert_eq!(y.clashes(x, -by, &life, together), plain);
            if plain {
                clashes += 1;
                continue;
            }
            joins += 1;
            let y = tuples.swap_remove(b.max(a));
            let x = tuples.swap_remove(a.min(b));
            let (x, y, by) = if a < b { (x, y, by) } else { (y, x, -by) };
            let (count, first) = (x.len() + y.len(), x.members().next().map(|m| (m.val, m.at)));
            let both = x.with(y, by, &life);
            assert_eq!(both.len(), count);
            assert!(first.is_some_and(|(val, at)| both.members().any(|m| (m.val, m.at) == (val, at))));
            many += usize::from(count > 4 * FEW);
            tuples.push(both);
            let last = tuples.len() - 1;
            tuples.swap(0, last);
        }
        assert!(clashes > 1000 && joins > 1000 && many > 50, "{clashes} {joins} {many}");
    }
}
