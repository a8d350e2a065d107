//! Masks of lanes by name: which mask is part of which.
//!
//! Every instruction that makes a new mask gives it its own name. A name made again means another mask from then on; it is known which names'
//! masks contain it. [`Mask::ALL`] contains every other.

use crate::isa::Opcode;
use crate::mir::{Fixed, Inst, Operand, Reg, VReg};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A name of a mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Mask(pub u32);

impl Mask {
    /// All lanes.
    pub(super) const ALL: Mask = Mask(0);
}

/// What is known of masks at a point.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Masks {
    /// `exec`.
    pub current: Mask,
    /// Names of masks that contain a mask, but for itself and all lanes.
    above: FxHashMap<Mask, BTreeSet<Mask>>,
    /// Masks in scalar registers.
    saved: FxHashMap<VReg, Mask>,
}

/// What becomes of what was known about a name that is made again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Renewed {
    /// The new mask is part of the old one.
    Part(Mask),
    /// It is another.
    Other(Mask),
}

impl Masks {
    pub(super) fn new() -> Masks {
        Masks { current: Mask::ALL, above: FxHashMap::default(), saved: FxHashMap::default() }
    }

    /// True if `inner` is a part of `outer`.
    pub(super) fn contains(&self, outer: Mask, inner: Mask) -> bool {
        outer == Mask::ALL || outer == inner || self.above.get(&inner).is_some_and(|above| above.contains(&outer))
    }

    /// A mask and those that contain it.
    fn up(&self, mask: Mask) -> BTreeSet<Mask> {
        let mut up = self.above.get(&mask).cloned().unwrap_or_default();
        up.insert(mask);
        up.remove(&Mask::ALL);
        up
    }

    /// Makes a mask that is a part of all of `above`, and lets it be `exec`.
    fn make(&mut self, name: Mask, above: BTreeSet<Mask>) -> Renewed {
        let part = above.contains(&name);
        for other in self.above.values_mut() {
            other.remove(&name);
        }
        self.saved.retain(|_, mask| *mask != name);
        let above = above.into_iter().filter(|m| *m != name).collect();
        self.above.insert(name, above);
        self.current = name;
        if part { Renewed::Part(name) } else { Renewed::Other(name) }
    }

    /// Gives the current mask a name of its own, where ways with different masks meet.
    pub(super) fn rename(&mut self, name: Mask) -> Option<Renewed> {
        if self.current == name {
            return None;
        }
        let above = self.up(self.current);
        Some(self.make(name, above))
    }

    /// The mask that an operand is, if that is known.
    fn value(&self, operand: Option<&Operand>) -> Option<Mask> {
        match operand? {
            Operand::Imm(-1) => Some(Mask::ALL),
            Operand::Reg(span) => match span.reg {
                Reg::Fixed(Fixed::Exec) => Some(self.current),
                Reg::Virtual(reg) if span.first == 0 && span.words == 2 => self.saved.get(&reg).copied(),
                _ => None,
            },
            _ => None,
        }
    }

    fn part(&self, of: &[Option<Mask>]) -> BTreeSet<Mask> {
        of.iter().flatten().flat_map(|&m| self.up(m)).collect()
    }

    fn common(&self, a: Option<Mask>, b: Option<Mask>) -> BTreeSet<Mask> {
        match (a, b) {
            (Some(a), Some(b)) => self.up(a).intersection(&self.up(b)).copied().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// An instruction writes `exec`: `name` is the name of what it makes, should it be new.
    pub(super) fn write(&mut self, inst: &Inst, name: Mask) -> Option<Renewed> {
        let now = Some(self.current);
        let (first, second) = (self.value(inst.operands.get(1)), self.value(inst.operands.get(2)));
        let equal = |masks: &mut Masks, mask: Mask| {
            masks.current = mask;
            None
        };
        match inst.op {
            Opcode::SMovB64 => match first {
                Some(mask) => equal(self, mask),
                None => Some(self.make(name, BTreeSet::new())),
            },
            Opcode::SAndSaveexecB64 => Some(self.make(name, self.part(&[now, first]))),
            Opcode::SAndn2SaveexecB64 => Some(self.make(name, self.part(&[first]))),
            Opcode::SOrSaveexecB64 => self.either(name, now, first),
            Opcode::SXorSaveexecB64 => Some(self.make(name, self.common(now, first))),
            Opcode::SAndB64 => Some(self.make(name, self.part(&[first, second]))),
            Opcode::SAndn2B64 => Some(self.make(name, self.part(&[first]))),
            Opcode::SOrB64 => self.either(name, first, second),
            Opcode::SXorB64 | Opcode::SCselectB64 => Some(self.make(name, self.common(first, second))),
            op if matches!(op.desc().form.format, crate::isa::Format::Vopc) => Some(self.make(name, self.part(&[now]))),
            _ => Some(self.make(name, BTreeSet::new())),
        }
    }

    fn either(&mut self, name: Mask, a: Option<Mask>, b: Option<Mask>) -> Option<Renewed> {
        match (a, b) {
            (Some(a), Some(b)) if self.contains(a, b) => self.current = a,
            (Some(a), Some(b)) if self.contains(b, a) => self.current = b,
            _ => return Some(self.make(name, self.common(a, b))),
        }
        None
    }

    /// What a scalar instruction that is about to run leaves in its results, if that is a known mask.
    pub(super) fn saves(&self, inst: &Inst) -> Option<Mask> {
        match inst.op {
            Opcode::SMovB64 => self.value(inst.operands.get(1)),
            Opcode::SAndSaveexecB64 | Opcode::SAndn2SaveexecB64 | Opcode::SOrSaveexecB64 | Opcode::SXorSaveexecB64 => Some(self.current),
            _ => None,
        }
    }

    /// A register gets a mask, or something else.
    pub(super) fn save(&mut self, reg: VReg, mask: Option<Mask>) {
        match mask {
            Some(mask) => self.saved.insert(reg, mask),
            None => self.saved.remove(&reg),
        };
    }

    /// What is known on both ways. `exec` must have one name.
    pub(super) fn join(&mut self, other: &Masks) {
        self.above.retain(|mask, _| other.above.contains_key(mask));
        for (mask, above) in &mut self.above {
            if let Some(theirs) = other.above.get(mask) {
                above.retain(|m| theirs.contains(m));
            }
        }
        self.saved.retain(|reg, mask| other.saved.get(reg) == Some(mask));
    }
}
