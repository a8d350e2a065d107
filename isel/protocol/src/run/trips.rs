//! What is asked of loops at every iteration, in a table.

use super::checker::{Checker, Trips};
use crate::find::{chosen_ends, loops};
use crate::trip_classes::TripClasses;
use cranelift_entity::EntityRef;
use tilelift_lane::hash::Set;
use tilelift_lane::{For, If};

impl Checker<'_> {
    /// What is to be asked of loops.
    pub(super) fn look_up(&self) -> (Vec<Trips>, Vec<u32>) {
        let TripClasses { of, strides, skips, shared, .. } = self.trip_classes;
        let (mut all, mut places) = (vec![Trips::default()], vec![0; self.program.vals.len()]);
        let mut chosen = Set::default();
        chosen_ends(&self.program.body, &mut Set::default(), &mut chosen);
        loops(&self.program.body, &mut |l| {
            places[l.iv.index()] = all.len() as u32;
            all.push(Trips {
                class: of.get(&l.iv).copied().unwrap_or(0),
                shared: shared.contains(&l.iv),
                strides: strides.get(&l.iv).copied().unwrap_or((0, 1)),
                skip: skips.get(&l.iv).map_or(0, |skip| skip.1),
                bounds: self.analysis.trips.get(&l.iv).copied(),
                rounds: self.analysis.rounds.get(&l.iv).copied(),
                splits: self.analysis.splits(l.hi),
                chosen: chosen.contains(&l.hi),
            });
        });
        (all, places)
    }

    pub(super) fn trips(&self, l: &For) -> &Trips {
        &self.trips.0[self.trips.1[l.iv.index()] as usize]
    }

    /// The class of a choice that is asked about as loops are.
    pub(super) fn choice_class(&self, t: usize, c: &If) -> Option<usize> {
        let (class, shared) = self.trip_classes.choice(c)?;
        Some(if shared { class } else { class + self.agents[t].block * self.classes })
    }

    /// The trip class of a loop.
    pub(super) fn trip_class(&self, t: usize, l: &For) -> usize {
        let Trips { class, shared, .. } = *self.trips(l);
        if shared { class } else { class + self.agents[t].block * self.classes }
    }
}
