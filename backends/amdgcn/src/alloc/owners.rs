//! Who has which rows of each register: what would have to make way for a bundle at a place.

use super::bundle::Bundle;
use super::fuel::Fuel;
use super::live::Seg;
use super::words::{FILES, file_size};
use crate::mir::File;
use std::collections::BTreeMap;

/// Per register the rows that bundles have in it, by their first row: the row behind them, and the bundle.
type Rows = BTreeMap<u32, (u32, usize)>;

/// Bundles by the rows and registers that they have.
#[derive(Debug)]
pub(super) struct Owners {
    registers: [Vec<Rows>; 3],
    /// Per bundle the question in which it was met last.
    met: Vec<u32>,
    questions: u32,
}

impl Owners {
    /// Nobody has anything, of so many bundles.
    pub(super) fn new(bundles: usize) -> Owners {
        Owners { registers: FILES.map(|file| vec![Rows::new(); file_size(file)]), met: vec![0; bundles], questions: 0 }
    }

    /// A bundle takes rows of a register.
    pub(super) fn add(&mut self, file: File, register: usize, rows: &[Seg], bundle: usize) {
        self.registers[file as usize][register].extend(rows.iter().map(|seg| (seg.start, (seg.end, bundle))));
    }

    /// The bundle that has rows of a register gives them back.
    pub(super) fn remove(&mut self, file: File, register: usize, rows: &[Seg]) {
        for seg in rows {
            self.registers[file as usize][register].remove(&seg.start);
        }
    }

    /// Bundles in the way of one at a place, and the highest of their prices; nothing if that reaches `dear`.
    pub(super) fn conflicts(
        &mut self,
        bundle: &Bundle,
        base: usize,
        dear: f32,
        price: &dyn Fn(usize) -> f32,
        fuel: &Fuel,
    ) -> Option<(f32, Vec<usize>)> {
        self.questions += 1;
        let mut conflicts = Vec::new();
        let mut worst = 0f32;
        for (i, rows) in bundle.words.iter().enumerate() {
            let owned = &self.registers[bundle.file as usize][base + i];
            for seg in rows {
                fuel.burn(8);
                let before = owned.range(..=seg.start).next_back().filter(|(_, (end, _))| *end > seg.start);
                for (_, &(_, owner)) in before.into_iter().chain(owned.range(seg.start + 1..seg.end.max(seg.start + 1))) {
                    fuel.burn(1);
                    if std::mem::replace(&mut self.met[owner], self.questions) != self.questions {
                        conflicts.push(owner);
                        worst = worst.max(price(owner));
                    }
                    if worst >= dear {
                        return None;
                    }
                }
            }
        }
        (worst < dear).then_some((worst, conflicts))
    }
}
