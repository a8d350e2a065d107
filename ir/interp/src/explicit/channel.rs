//! Channels: rings of slots that are put, got and given back in the order of steps.

use super::local::Clock;
use crate::data::Data;

/// What a slot holds.
#[derive(Default)]
struct Slot {
    /// Its step, and the tiles.
    full: Option<(i64, Vec<Data>)>,
    /// Consumers that gave the step back.
    consumed: Vec<usize>,
    /// What comes before the slot was filled, or given back.
    clock: Clock,
}

/// A channel.
pub(super) struct Channel {
    slots: Vec<Slot>,
    consumers: u32,
    /// The step that is put next.
    next: i64,
}

/// What became of an attempt.
pub(super) enum Attempt<T> {
    Done(T),
    Wait,
    Wrong(String),
}

impl Channel {
    pub(super) fn new(depth: u32, consumers: u32) -> Channel {
        Channel { slots: (0..depth).map(|_| Slot::default()).collect(), consumers, next: 0 }
    }

    fn slot(&mut self, step: i64) -> &mut Slot {
        let n = self.slots.len() as i64;
        &mut self.slots[step.rem_euclid(n) as usize]
    }

    pub(super) fn put(&mut self, step: i64, tiles: &[Data], clock: &mut Clock) -> Attempt<()> {
        if step != self.next {
            return Attempt::Wrong(format!("step {step} is put where step {} is due; steps are put in order from 0", self.next));
        }
        let slot = self.slot(step);
        if slot.full.is_some() {
            return Attempt::Wait;
        }
        clock.join(&slot.clock);
        slot.full = Some((step, tiles.to_vec()));
        slot.clock = clock.clone();
        self.next += 1;
        Attempt::Done(())
    }

    pub(super) fn get(&mut self, step: i64, clock: &mut Clock) -> Attempt<Vec<Data>> {
        let gone = step < self.next;
        let slot = self.slot(step);
        match &slot.full {
            Some((at, tiles)) if *at == step => {
                let tiles = tiles.clone();
                clock.join(&slot.clock);
                Attempt::Done(tiles)
            }
            _ if gone => Attempt::Wrong(format!("step {step} has been given back already; get a step before it is consumed")),
            _ => Attempt::Wait,
        }
    }

    pub(super) fn consume(&mut self, step: i64, fiber: usize, clock: &Clock) -> Result<(), String> {
        let consumers = self.consumers as usize;
        let slot = self.slot(step);
        if !matches!(&slot.full, Some((at, _)) if *at == step) {
            return Err(format!("step {step} is given back, but its slot is not full of it; get it first"));
        }
        if slot.consumed.contains(&fiber) {
            return Err(format!("step {step} is given back twice by one task"));
        }
        slot.consumed.push(fiber);
        slot.clock.join(clock);
        if slot.consumed.len() == consumers {
            slot.full = None;
            slot.consumed.clear();
        }
        Ok(())
    }

    /// The state in words, for a step.
    pub(super) fn lacks(&self, step: i64) -> String {
        let slot = &self.slots[step.rem_euclid(self.slots.len() as i64) as usize];
        match &slot.full {
            Some((at, _)) => format!("its slot holds step {at}, which {} of {} consumers gave back", slot.consumed.len(), self.consumers),
            None => format!("{} steps have been put", self.next),
        }
    }
}
