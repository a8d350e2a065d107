//! Wait states: instructions that the hardware does not keep apart.
//!
//! A row of [`TABLE`] says: from an instruction of one kind, which did something to registers, to a later one of another kind, which does
//! something to the same registers, so many wait states must pass. Each instruction behind the first is a wait state, and `s_nop` is as many as
//! it says. Blocks are walked with what happened lately and how long ago; where ways meet, the shortest time holds.

use super::class::{Class, Unit, class, fills_lds, is_dot, is_transcendental, writes_half};
use super::flow;
use super::words::{Used, is_vector, named, used};
use crate::chip::Chip;
use crate::isa::{Access, Fixed, Format, Kind, Opcode};
use crate::mir::{BlockData, Inst, Operand, Program};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;

/// What an instruction did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum First {
    /// A matrix instruction wrote its result.
    MatrixResult(Unit, u8),
    /// A matrix instruction read C.
    MatrixAddend(Unit, u8),
    /// A vector instruction wrote vector registers.
    Vector,
    /// The same, half of them.
    VectorHalf,
    /// The same, and it was a transcendental function.
    Transcendental,
    /// The same, and it was a product of short vectors.
    Dot(Opcode),
    /// A vector instruction wrote scalar registers, `vcc` among them.
    VectorScalar,
    /// A vector instruction wrote `exec`.
    VectorExec,
    /// A scalar instruction wrote `m0`.
    M0,
    /// A store of more than 64 bits read its data.
    WideStore,
}

/// What an instruction is about to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Second {
    /// A vector instruction reads vector registers.
    VectorReads,
    /// A vector instruction that is no transcendental function reads vector registers.
    PlainReads,
    /// An instruction on memory reads vector registers.
    MemoryReads,
    /// An instruction on memory will write vector registers.
    MemoryWrites,
    /// A vector instruction, a matrix one not counted, writes vector registers.
    VectorWrites,
    /// A matrix instruction reads A, B or scales.
    Factor,
    /// A matrix instruction reads C from exactly the registers that the first wrote.
    Addend,
    /// A matrix instruction reads C from other registers that overlap, or writes over them.
    AddendOverlap,
    /// Lanes are read by data-parallel primitives.
    Lanes,
    /// A lane is read into a scalar register.
    LaneRead,
    /// An instruction on memory reads scalar registers.
    MemoryScalar,
    /// A scalar register says which lane.
    LaneSelect,
    /// A vector instruction reads scalar registers.
    VectorScalar,
    /// `v_div_fmas` reads `vcc`.
    DivFmas,
    /// A matrix instruction is issued.
    Matrix,
    /// An instruction that moves values between lanes is issued.
    AcrossLanes,
    /// A lane is read or written.
    OneLane,
    /// Memory is loaded into local data share.
    FillsLds,
}

/// Wait states on the chips, as [`Chip::ALL`] has them.
type States = [u8; 3];

struct HazardRow {
    first: fn(First) -> Option<u8>,
    second: Second,
    states: fn(u8, Chip) -> u8,
}

/// Passes of a matrix instruction of a unit.
macro_rules! result {
    ($unit:pat) => {
        |first| match first {
            First::MatrixResult($unit, passes) => Some(passes),
            _ => None,
        }
    };
}

macro_rules! addend {
    ($unit:pat) => {
        |first| match first {
            First::MatrixAddend($unit, passes) => Some(passes),
            _ => None,
        }
    };
}

macro_rules! kind {
    ($kind:pat) => {
        |first| matches!(first, $kind).then_some(0)
    };
}

const fn on(states: States, chip: Chip) -> u8 {
    states[chip as usize]
}

/// Read by others, or used as a factor: passes and so many.
fn xdl_result(passes: u8, chip: Chip) -> u8 {
    passes + on([3, 3, 4], chip)
}

fn xdl_overlap(passes: u8, chip: Chip) -> u8 {
    passes + on([0, 1, 2], chip)
}

fn exact(passes: u8, chip: Chip) -> u8 {
    if passes == 2 { on([0, 2, 2], chip) } else { 0 }
}

fn single_result(passes: u8, chip: Chip) -> u8 {
    passes + on([3, 2, 4], chip)
}

fn single_overlap(passes: u8, chip: Chip) -> u8 {
    passes + on([0, 0, 2], chip)
}

fn double(passes: u8, large: u8, small: u8) -> u8 {
    if passes > 4 { large } else { small }
}

/// The rows. Source: the ISA manuals' lists of manually inserted wait states, and what LLVM's recogniser has beyond them.
const TABLE: &[HazardRow] = &[
    // Results of matrix instructions.
    HazardRow { first: result!(Unit::Xdl), second: Second::VectorReads, states: xdl_result },
    HazardRow { first: result!(Unit::Xdl), second: Second::MemoryReads, states: xdl_result },
    HazardRow { first: result!(Unit::Xdl), second: Second::VectorWrites, states: xdl_result },
    HazardRow { first: result!(Unit::Xdl), second: Second::MemoryWrites, states: xdl_result },
    HazardRow { first: result!(Unit::Xdl), second: Second::Factor, states: xdl_result },
    HazardRow { first: result!(Unit::Xdl), second: Second::Addend, states: exact },
    HazardRow { first: result!(Unit::Xdl), second: Second::AddendOverlap, states: xdl_overlap },
    HazardRow { first: result!(Unit::Single), second: Second::VectorReads, states: single_result },
    HazardRow { first: result!(Unit::Single), second: Second::MemoryReads, states: single_result },
    HazardRow { first: result!(Unit::Single), second: Second::VectorWrites, states: single_result },
    HazardRow { first: result!(Unit::Single), second: Second::MemoryWrites, states: single_result },
    HazardRow { first: result!(Unit::Single), second: Second::Factor, states: single_result },
    HazardRow { first: result!(Unit::Single), second: Second::Addend, states: exact },
    HazardRow { first: result!(Unit::Single), second: Second::AddendOverlap, states: single_overlap },
    HazardRow { first: result!(Unit::Double), second: Second::VectorReads, states: |p, _| double(p, 11, 6) },
    HazardRow { first: result!(Unit::Double), second: Second::MemoryReads, states: |p, _| double(p, 18, 9) },
    HazardRow { first: result!(Unit::Double), second: Second::VectorWrites, states: |p, _| double(p, 11, 6) },
    HazardRow { first: result!(Unit::Double), second: Second::MemoryWrites, states: |p, _| double(p, 18, 9) },
    HazardRow { first: result!(Unit::Double), second: Second::Factor, states: |p, _| double(p, 11, 6) },
    HazardRow { first: result!(Unit::Double), second: Second::Addend, states: |p, _| double(p, 0, 4) },
    HazardRow { first: result!(Unit::Double), second: Second::AddendOverlap, states: |p, _| double(p, 9, 4) },
    HazardRow { first: addend!(Unit::Xdl), second: Second::VectorWrites, states: |p, _| p - 1 },
    HazardRow {
        first: addend!(Unit::Single),
        second: Second::VectorWrites,
        states: |p, chip| if chip == Chip::Gfx90a { p - 1 } else { 0 },
    },
    // Results of vector instructions.
    HazardRow { first: kind!(First::Vector), second: Second::Factor, states: |_, _| 2 },
    HazardRow { first: kind!(First::Vector), second: Second::Addend, states: |_, _| 2 },
    HazardRow { first: kind!(First::Vector), second: Second::Lanes, states: |_, _| 2 },
    HazardRow { first: kind!(First::Vector), second: Second::LaneRead, states: |_, chip| on([0, 1, 1], chip) },
    HazardRow { first: kind!(First::VectorHalf), second: Second::VectorReads, states: |_, chip| on([0, 1, 1], chip) },
    HazardRow { first: kind!(First::VectorHalf), second: Second::VectorWrites, states: |_, chip| on([0, 1, 1], chip) },
    HazardRow { first: kind!(First::Transcendental), second: Second::PlainReads, states: |_, chip| on([0, 1, 1], chip) },
    HazardRow { first: kind!(First::Dot(_)), second: Second::VectorReads, states: |_, _| 3 },
    HazardRow { first: kind!(First::Dot(_)), second: Second::VectorWrites, states: |_, _| 3 },
    // Scalar registers.
    HazardRow { first: kind!(First::VectorScalar), second: Second::MemoryScalar, states: |_, _| 5 },
    HazardRow { first: kind!(First::VectorScalar), second: Second::LaneSelect, states: |_, _| 4 },
    HazardRow { first: kind!(First::VectorScalar), second: Second::VectorScalar, states: |_, chip| on([0, 2, 2], chip) },
    HazardRow { first: kind!(First::VectorScalar), second: Second::DivFmas, states: |_, _| 4 },
    HazardRow { first: kind!(First::VectorExec), second: Second::Matrix, states: |_, _| 4 },
    HazardRow { first: kind!(First::VectorExec), second: Second::AcrossLanes, states: |_, _| 5 },
    HazardRow { first: kind!(First::VectorExec), second: Second::OneLane, states: |_, chip| on([0, 4, 4], chip) },
    HazardRow { first: kind!(First::M0), second: Second::FillsLds, states: |_, _| 1 },
    HazardRow { first: kind!(First::WideStore), second: Second::VectorWrites, states: |_, chip| on([1, 2, 2], chip) },
];

/// The rows by what the second instruction does.
struct Rules {
    chip: Chip,
    rows: Vec<&'static HazardRow>,
    /// For how long what happened counts, of all that was asked for.
    longest: RefCell<Vec<(First, u8)>>,
}

impl Rules {
    fn new(chip: Chip) -> Rules {
        let mut rows: Vec<&HazardRow> = TABLE.iter().collect();
        rows.sort_by_key(|row| row.second);
        Rules { chip, rows, longest: RefCell::default() }
    }

    /// The most wait states that any row asks for behind what an instruction did.
    fn longest(&self, first: First) -> u8 {
        let mut known = self.longest.borrow_mut();
        if let Some(&(_, longest)) = known.iter().find(|k| k.0 == first) {
            return longest;
        }
        let states = self.rows.iter().filter_map(|row| (row.first)(first).map(|passes| (row.states)(passes, self.chip)));
        let longest = states.max().unwrap_or(0);
        known.push((first, longest));
        longest
    }

    /// Wait states between what an instruction did and what another is about to do.
    fn states(&self, first: First, second: Second) -> u8 {
        let from = self.rows.partition_point(|row| row.second < second);
        let rows = self.rows[from..].iter().take_while(|row| row.second == second);
        rows.filter_map(|row| (row.first)(first).map(|passes| (row.states)(passes, self.chip))).max().unwrap_or(0)
    }
}

/// The most that one `s_nop` is.
const NOP: u8 = 16;

/// Something that happened, to which words, and wait states since.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Event {
    first: First,
    words: Range16,
    since: u8,
    /// Wait states behind which it counts no more.
    longest: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Range16(u16, u16);

impl Range16 {
    fn of(range: &Range<usize>) -> Range16 {
        Range16(range.start as u16, range.end as u16)
    }

    fn meets(self, range: &Range<usize>) -> bool {
        usize::from(self.0) < range.end && range.start < usize::from(self.1)
    }
}

type SecondDeeds = SmallVec<[(Second, Range<usize>); 8]>;

fn slot_kind(inst: &Inst, used: &Used) -> Option<Kind> {
    inst.op.desc().slots.get(used.operand).map(|s| s.kind)
}

/// What an instruction is about to do to which words. What it does to no register in particular names `exec` or `m0`.
fn deeds(inst: &Inst, class: Class) -> SecondDeeds {
    let mut deeds = SecondDeeds::new();
    let vector = matches!(class, Class::Vector);
    let lane_read = matches!(inst.op, Opcode::VReadlaneB32 | Opcode::VReadfirstlaneB32);
    let div_fmas = matches!(inst.op, Opcode::VDivFmasF32 | Opcode::VDivFmasF64);
    for used in used(inst) {
        let words = used.words.clone();
        if words.is_empty() {
            continue;
        }
        let mut push = |second| deeds.push((second, words.clone()));
        match (class, is_vector(words.start)) {
            (Class::Scalar, _) => {}
            (Class::Matrix(..), true) if used.writes => push(Second::AddendOverlap),
            (Class::Matrix(..), true) if slot_kind(inst, &used) == Some(Kind::AccSource) => push(Second::Addend),
            (Class::Matrix(..), true) => push(Second::Factor),
            (Class::Vector, true) => {
                if used.writes {
                    push(Second::VectorWrites);
                }
                if used.reads {
                    push(Second::VectorReads);
                    if !is_transcendental(inst.op) {
                        push(Second::PlainReads);
                    }
                    if inst.mods.dpp.is_some() {
                        push(Second::Lanes);
                    }
                    if lane_read {
                        push(Second::LaneRead);
                    }
                }
            }
            (Class::Memory, true) => {
                if used.writes {
                    push(Second::MemoryWrites);
                }
                if used.reads {
                    push(Second::MemoryReads);
                }
            }
            (Class::Memory, false) if used.reads => push(Second::MemoryScalar),
            (Class::Vector | Class::Matrix(..), false) if used.reads && words.start != named(Fixed::Exec).start => {
                push(Second::VectorScalar);
                let selects = matches!(inst.op, Opcode::VReadlaneB32 | Opcode::VWritelaneB32) && used.operand == 2;
                if selects {
                    push(Second::LaneSelect);
                }
                if div_fmas {
                    push(Second::DivFmas);
                }
            }
            _ => {}
        }
    }
    if matches!(class, Class::Matrix(..)) {
        deeds.push((Second::Matrix, named(Fixed::Exec)));
    }
    if vector && inst.mods.dpp.is_some() {
        deeds.push((Second::AcrossLanes, named(Fixed::Exec)));
    }
    if matches!(inst.op, Opcode::VReadlaneB32 | Opcode::VReadfirstlaneB32 | Opcode::VWritelaneB32) {
        deeds.push((Second::OneLane, named(Fixed::Exec)));
    }
    if fills_lds(inst) {
        deeds.push((Second::FillsLds, named(Fixed::M0)));
    }
    deeds
}

/// What an instruction did to which words.
fn events(inst: &Inst, class: Class, rules: &Rules) -> SmallVec<[Event; 6]> {
    let mut events = SmallVec::new();
    let format = inst.op.desc().form.format;
    let mut push = |first, words: &Range<usize>| {
        let longest = rules.longest(first);
        if longest > 0 {
            events.push(Event { first, words: Range16::of(words), since: 0, longest });
        }
    };
    for used in used(inst) {
        let words = &used.words;
        if words.is_empty() {
            continue;
        }
        match (class, is_vector(words.start)) {
            (Class::Matrix(unit, passes), true) => {
                if used.writes {
                    push(First::MatrixResult(unit, passes), words);
                } else if slot_kind(inst, &used) == Some(Kind::AccSource) {
                    push(First::MatrixAddend(unit, passes), words);
                }
            }
            (Class::Vector, true) if used.writes => {
                push(First::Vector, words);
                if is_transcendental(inst.op) {
                    push(First::Transcendental, words);
                }
                if is_dot(inst.op) {
                    push(First::Dot(inst.op), words);
                }
                if writes_half(inst) {
                    push(First::VectorHalf, words);
                }
            }
            (Class::Vector, false) if used.writes => {
                let first = if words.start == named(Fixed::Exec).start { First::VectorExec } else { First::VectorScalar };
                push(first, words);
            }
            (Class::Memory, true) if !used.writes && format != Format::Ds => {
                let data = inst.op.desc().slots.get(used.operand).is_some_and(|s| s.kind == Kind::VectorOrAcc && s.access == Access::Use);
                if data && words.len() > 2 {
                    push(First::WideStore, words);
                }
            }
            (Class::Scalar, false) if used.writes && words.start == named(Fixed::M0).start => push(First::M0, words),
            _ => {}
        }
    }
    events
}

/// Wait states that an instruction needs before it.
fn needed(lately: &[Event], inst: &Inst, class: Class, rules: &Rules) -> u8 {
    if lately.is_empty() || class == Class::Scalar {
        return 0;
    }
    let mut most = 0;
    for (second, words) in deeds(inst, class) {
        for event in lately.iter().filter(|e| e.words.meets(&words)) {
            // Another product of the same kind takes the sum of the one before without waiting.
            if event.first == First::Dot(inst.op) {
                continue;
            }
            let second = match second {
                Second::Addend if matches!(event.first, First::MatrixResult(..)) && event.words != Range16::of(&words) => {
                    Second::AddendOverlap
                }
                // The same registers as C and D: what is asked of C holds.
                Second::AddendOverlap if event.words == Range16::of(&words) && matches!(event.first, First::MatrixResult(..)) => {
                    Second::Addend
                }
                other => other,
            };
            most = most.max(rules.states(event.first, second).saturating_sub(event.since));
        }
    }
    most
}

/// Wait states pass.
fn pass(lately: &mut Vec<Event>, states: u8) {
    lately.retain_mut(|e| {
        e.since = e.since.saturating_add(states);
        e.since < e.longest
    });
}

/// Walks a block; hands each instruction that needs wait states with their number to `each`.
fn walk(block: &BlockData, rules: &Rules, lately: &mut Vec<Event>, mut each: impl FnMut(usize, u8)) {
    for (at, inst) in block.insts.iter().enumerate() {
        let class = class(inst, rules.chip);
        let states = needed(lately, inst, class, rules);
        if states > 0 {
            pass(lately, states);
            each(at, states);
        }
        let own = match (inst.op, inst.operands.first()) {
            (Opcode::SNop, Some(Operand::Imm(n))) => (*n as u8 & 15) + 1,
            _ => 1,
        };
        pass(lately, own);
        for event in events(inst, class, rules) {
            // It has happened now; what happened before to the same words stays.
            match lately.iter_mut().find(|e| e.first == event.first && e.words == event.words) {
                Some(old) => old.since = 0,
                None => lately.push(event),
            }
        }
    }
}

fn join(into: &mut Vec<Event>, other: &Vec<Event>) {
    for event in other {
        match into.iter_mut().find(|e| e.first == event.first && e.words == event.words) {
            Some(old) => old.since = old.since.min(event.since),
            None => into.push(event.clone()),
        }
    }
    into.sort_unstable();
}

/// Inserts `s_nop`.
pub(super) fn insert(program: &mut Program) {
    let rules = &Rules::new(program.chip);
    let mut entry = flow::entries(program, Vec::new(), join, |lately, block| walk(block, rules, lately, |_, _| {}));
    for (block, data) in program.blocks.iter_mut() {
        let Some(mut lately) = entry[block.index()].take() else { continue };
        let mut gaps = Vec::new();
        walk(data, rules, &mut lately, |at, states| gaps.push((at, states)));
        if gaps.is_empty() {
            continue;
        }
        let mut gaps = gaps.into_iter().peekable();
        let mut out = Vec::with_capacity(data.insts.len() + 8);
        for (at, inst) in std::mem::take(&mut data.insts).into_iter().enumerate() {
            if let Some((_, mut states)) = gaps.next_if(|g| g.0 == at) {
                while states > 0 {
                    let some = states.min(NOP);
                    out.push(Inst::new(Opcode::SNop, [Operand::Imm(i64::from(some) - 1)]));
                    states -= some;
                }
            }
            out.push(inst);
        }
        data.insts = out;
    }
}
