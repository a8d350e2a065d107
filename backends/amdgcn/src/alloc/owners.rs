//! Who has which rows of each register: what would have to make way for a bundle at a place.

use super::bundle::Bundle;
use super::fuel::Fuel;
use super::live::Seg;
use super::words::{FILES, file_size};
use crate::mir::File;

/// Rows that a bundle has in a register.
#[derive(Clone, Copy, Debug)]
struct Owned {
    start: u32,
    end: u32,
    bundle: u32,
}

/// What bundles have in a register, by rows: they are disjoint.
type OwnedRows = Vec<Owned>;

fn owned(rows: &[Seg], bundle: usize) -> impl Iterator<Item = Owned> + '_ {
    rows.iter().map(move |seg| Owned { start: seg.start, end: seg.end, bundle: bundle as u32 })
}

/// Bundles by the rows and registers that they have.
#[derive(Debug)]
pub(super) struct Owners {
    registers: [Vec<OwnedRows>; 3],
    /// Per bundle the question in which it was met last.
    met: Vec<u32>,
    questions: u32,
}

impl Owners {
    /// Of all bundles, those that have a place have what stands there.
    pub(super) fn new(bundles: &[Bundle], base: &[Option<u16>]) -> Owners {
        let mut registers = FILES.map(|file| vec![OwnedRows::new(); file_size(file)]);
        for (index, (bundle, base)) in bundles.iter().zip(base).enumerate() {
            let Some(base) = base else { continue };
            for (i, rows) in bundle.words.iter().enumerate() {
                let of = owned(rows, index);
                registers[bundle.file as usize][usize::from(*base) + i].extend(of);
            }
        }
        registers.iter_mut().flatten().for_each(|rows| rows.sort_unstable_by_key(|o| o.start));
        Owners { registers, met: vec![0; bundles.len()], questions: 0 }
    }

    /// A bundle takes rows of a register.
    pub(super) fn add(&mut self, file: File, register: usize, rows: &[Seg], bundle: usize) {
        let all = &mut self.registers[file as usize][register];
        for one in owned(rows, bundle) {
            let at = all.partition_point(|o| o.start < one.start);
            all.insert(at, one);
        }
    }

    /// The bundle that has rows of a register gives them back.
    pub(super) fn remove(&mut self, file: File, register: usize, rows: &[Seg]) {
        let all = &mut self.registers[file as usize][register];
        for seg in rows {
            let at = all.partition_point(|o| o.start < seg.start);
            if all.get(at).is_some_and(|o| o.start == seg.start) {
                all.remove(at);
            }
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
                let from = owned.partition_point(|o| o.end <= seg.start);
                for owner in owned[from..].iter().take_while(|o| o.start < seg.end).map(|o| o.bundle as usize) {
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
