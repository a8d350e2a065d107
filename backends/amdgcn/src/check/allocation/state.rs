//! Which places hold which values, at a point.
//!
//! A value is what a word of a register of the program before allocation holds now. A fact says that a place holds a value in the lanes of a
//! mask, but maybe not in those of a second one. A value that was never written is held everywhere.

use super::masks::{Mask, Masks, Renewed};
use std::collections::BTreeMap;

/// A register, a lane of a vector register, or a word of scratch memory.
pub(super) type Place = u32;
/// A word of a register before allocation.
pub(super) type WordNumber = u32;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Fact {
    value: WordNumber,
    lanes: Mask,
    but: Option<Mask>,
}

/// Lanes in which a value was written on some way. What was never written is held everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Written {
    Nowhere,
    Within(Mask),
    Somewhere,
}

/// What is known at a point.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct State {
    pub masks: Masks,
    facts: BTreeMap<Place, Vec<Fact>>,
    written: Vec<Written>,
    /// The condition bit is not what the program before allocation had in it.
    pub condition_lost: bool,
}

impl State {
    pub(super) fn new(values: usize) -> State {
        State { masks: Masks::new(), facts: BTreeMap::new(), written: vec![Written::Nowhere; values], condition_lost: false }
    }

    /// True if the place holds the value in the mask's lanes.
    pub(super) fn holds(&self, place: Place, value: WordNumber, lanes: Mask) -> bool {
        self.is_new(value) || self.written_there(place, value, lanes)
    }

    fn written_there(&self, place: Place, value: WordNumber, lanes: Mask) -> bool {
        let facts = self.facts.get(&place).map_or(&[][..], |f| f);
        facts.iter().any(|f| f.value == value && f.but.is_none() && self.masks.contains(f.lanes, lanes))
    }

    /// The value changes in these lanes, and nobody knows where it is.
    fn outdated(&mut self, value: WordNumber, lanes: Mask, spare: impl Fn(Place) -> bool) {
        let masks = &self.masks;
        for (_, facts) in self.facts.iter_mut().filter(|(place, _)| !spare(**place)) {
            facts.retain_mut(|fact| {
                if fact.value != value {
                    return true;
                }
                fact.but = match fact.but {
                    _ if lanes == Mask::ALL => return false,
                    None => Some(lanes),
                    Some(but) if masks.contains(but, lanes) => Some(but),
                    Some(but) if masks.contains(lanes, but) => Some(lanes),
                    Some(_) => return false,
                };
                true
            });
        }
    }

    /// True if the value was never written: it is everywhere.
    pub(super) fn is_new(&self, value: WordNumber) -> bool {
        self.written[value as usize] == Written::Nowhere
    }

    /// The value is written in these lanes.
    fn mark(&mut self, value: WordNumber, lanes: Mask) {
        let written = &mut self.written[value as usize];
        *written = match *written {
            Written::Nowhere => Written::Within(lanes),
            Written::Within(mask) if self.masks.contains(mask, lanes) => Written::Within(mask),
            Written::Within(mask) if self.masks.contains(lanes, mask) => Written::Within(lanes),
            _ => Written::Somewhere,
        };
    }

    /// The place holds the value in these lanes from now on: in all, if it was never written in others.
    fn learn(&mut self, place: Place, value: WordNumber, lanes: Mask) {
        let masks = &self.masks;
        let facts = self.facts.entry(place).or_default();
        for fact in facts.iter_mut().filter(|f| f.value == value) {
            fact.but = fact.but.filter(|&but| !masks.contains(lanes, but));
        }
        let lanes = match self.written[value as usize] {
            Written::Within(mask) if masks.contains(lanes, mask) => Mask::ALL,
            _ => lanes,
        };
        let known = facts.iter().any(|f| f.value == value && f.but.is_none() && masks.contains(f.lanes, lanes));
        if !known {
            facts.push(Fact { value, lanes, but: None });
        }
    }

    /// An instruction writes a value to a place.
    pub(super) fn write(&mut self, place: Place, value: WordNumber, lanes: Mask) {
        self.mark(value, lanes);
        self.outdated(value, lanes, |other| other == place);
        self.facts.entry(place).or_default().retain(|f| f.value == value);
        self.learn(place, value, lanes);
    }

    /// A value is written, but nowhere.
    pub(super) fn lose(&mut self, value: WordNumber, lanes: Mask) {
        self.mark(value, lanes);
        self.outdated(value, lanes, |_| false);
    }

    /// A place is overwritten with what is no value.
    pub(super) fn clobber(&mut self, place: Place) {
        self.facts.remove(&place);
    }

    /// One value becomes another: wherever that is, this is.
    pub(super) fn rename(&mut self, to: WordNumber, from: WordNumber, lanes: Mask) {
        if to == from {
            return;
        }
        if self.is_new(from) {
            if lanes == Mask::ALL {
                self.written[to as usize] = Written::Nowhere;
            }
            return;
        }
        self.mark(to, lanes);
        let there: Vec<Place> = self.facts.keys().copied().filter(|&p| self.written_there(p, from, lanes)).collect();
        self.outdated(to, lanes, |place| there.contains(&place));
        for place in there {
            self.learn(place, to, lanes);
        }
    }

    /// A place gets what another holds, in these lanes.
    pub(super) fn copy(&mut self, to: Place, from: Place, lanes: Mask) {
        if to == from {
            return;
        }
        let mut values: Vec<WordNumber> = self.facts.get(&from).map_or(&[][..], |f| f).iter().map(|f| f.value).collect();
        values.retain(|&v| self.written_there(from, v, lanes));
        self.facts.entry(to).or_default().retain(|f| values.contains(&f.value));
        for value in values {
            self.learn(to, value, lanes);
        }
    }

    /// A name of a mask was made again.
    pub(super) fn renewed(&mut self, renewed: Renewed) {
        let (name, part) = match renewed {
            Renewed::Part(name) => (name, true),
            Renewed::Other(name) => (name, false),
        };
        for facts in self.facts.values_mut() {
            facts.retain(|f| f.but != Some(name) && (part || f.lanes != name));
        }
        self.written.iter_mut().filter(|w| **w == Written::Within(name)).for_each(|w| *w = Written::Somewhere);
    }

    /// What is known on both ways.
    pub(super) fn join(&mut self, other: &State) {
        let mut joined: BTreeMap<Place, Vec<Fact>> = BTreeMap::new();
        let (mine, theirs) = (&*self, other);
        for &place in mine.facts.keys().chain(theirs.facts.keys()) {
            if joined.contains_key(&place) {
                continue;
            }
            let mut kept = Vec::new();
            for (one, two) in [(mine, theirs), (theirs, mine)] {
                for fact in one.facts.get(&place).map_or(&[][..], |f| f) {
                    for lanes in [fact.lanes, one.masks.current] {
                        if one.masks.contains(fact.lanes, lanes) {
                            let candidate = Fact { lanes, ..*fact };
                            if !kept.contains(&candidate) && two.covers(place, candidate) {
                                kept.push(candidate);
                            }
                        }
                    }
                }
            }
            kept.sort_unstable();
            joined.insert(place, kept);
        }
        joined.retain(|_, facts| !facts.is_empty());
        self.facts = joined;
        self.masks.join(&other.masks);
        for (a, b) in self.written.iter_mut().zip(&other.written) {
            *a = match (*a, *b) {
                (Written::Nowhere, other) | (other, Written::Nowhere) => other,
                (Written::Within(a), Written::Within(b)) if a == b => Written::Within(a),
                _ => Written::Somewhere,
            };
        }
        self.condition_lost |= other.condition_lost;
    }

    fn covers(&self, place: Place, fact: Fact) -> bool {
        let facts = self.facts.get(&place).map_or(&[][..], |f| f);
        self.is_new(fact.value)
            || facts
                .iter()
                .any(|f| f.value == fact.value && (f.but.is_none() || f.but == fact.but) && self.masks.contains(f.lanes, fact.lanes))
    }
}
