//! Wait states: what must lie between two instructions because the hardware does not wait by itself.
//!
//! One wait state is an issued instruction, or a unit of `s_nop`. Per register there is noted which kind of instruction wrote it and when;
//! every later access is compared with the rules of the chip. The numbers are those of LLVM's recogniser, where they were
//! confirmed by what it emits.

use crate::chip::Chip;
use crate::decode::inst::{Access, EXEC, File, Inst, M0, Op, Role, Vector};
use crate::fault::{FaultKind, Rule};
use crate::isa::matrix::Unit;
use crate::isa::vector::{Class, Enc, Kind};

/// Who wrote a register last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writer {
    None,
    Vector,
    /// Only the upper half, or a byte, of the register.
    Part,
    Trans,
    /// A dot product: its number, so that chains of the same one are known.
    Dot(u16),
    /// A matrix instruction: the unit, passes, and the first register and count of its result.
    Matrix(Unit, u8, u16, u8),
}

#[derive(Clone, Copy, Debug)]
struct Note {
    writer: Writer,
    at: u64,
    from: u64,
    /// The addend of a matrix instruction: when read, passes, unit.
    addend_at: u64,
    addend_from: u64,
    addend: Option<(Unit, u8)>,
    /// The data of a wide store.
    data_at: u64,
    data_from: u64,
}

const NEVER: u64 = 0;
const NOTE: Note =
    Note { writer: Writer::None, at: NEVER, from: 0, addend_at: NEVER, addend_from: 0, addend: None, data_at: NEVER, data_from: 0 };

/// When something happened, and the instruction.
type When = (u64, u64);

/// The notes of a wave.
#[derive(Debug)]
pub(crate) struct Hazards {
    chip: Chip,
    /// Wait states since the start, offset so that nothing at first is near.
    now: u64,
    v: Vec<Note>,
    /// Scalar registers: when a vector instruction wrote them.
    s: [When; 128],
    exec: When,
    m0: When,
}

impl Hazards {
    pub fn new(chip: Chip, registers: usize) -> Hazards {
        Hazards { chip, now: 1000, v: vec![NOTE; registers], s: [(NEVER, 0); 128], exec: (NEVER, 0), m0: (NEVER, 0) }
    }

    fn demand(&self, rule: Rule, register: impl Fn() -> String, when: When, needed: u32) -> Result<(), FaultKind> {
        let had = self.now - when.0 - 1;
        if when.0 == NEVER || had >= u64::from(needed) {
            return Ok(());
        }
        Err(FaultKind::Hazard { rule, register: register(), first: when.1, needed, had: had as u32 })
    }

    /// Checks an instruction that is about to issue. `slot` maps vector registers to their notes.
    pub fn check(&self, inst: &Inst, slot: &dyn Fn(File, u16) -> usize) -> Result<(), FaultKind> {
        match &inst.op {
            Op::Vector(v) => {
                if v.dpp.is_some() {
                    self.demand(Rule::ExecBeforeDpp, || "exec".into(), self.exec, 5)?;
                }
                if self.chip != Chip::Gfx90a && matches!(v.row.kind, Kind::ReadLane | Kind::ReadFirst | Kind::WriteLane) {
                    self.demand(Rule::ExecBeforeLane, || "exec".into(), self.exec, 4)?;
                }
            }
            Op::Matrix(_) => self.demand(Rule::ExecBeforeMatrix, || "exec".into(), self.exec, 4)?,
            Op::Mem(m) if m.lds => self.demand(Rule::M0BeforeLds, || "m0".into(), self.m0, 1)?,
            Op::Program(..) | Op::Scalar(_) | Op::Smem(_) => return Ok(()),
            Op::Ds(_) | Op::Mem(_) => {}
        }
        for a in &inst.access {
            if a.file == File::S {
                if !a.write {
                    self.scalar(inst, a)?;
                }
                continue;
            }
            for i in 0..u16::from(a.count) {
                let note = &self.v[slot(a.file, a.first + i)];
                let name = || format!("{}{}", if a.file == File::A { 'a' } else { 'v' }, a.first + i);
                if note.at != NEVER && self.now - note.at <= 24 {
                    self.vector(inst, a, note, slot(a.file, a.first), name)?;
                }
                if a.write && matches!(inst.op, Op::Vector(_)) {
                    self.overwrite(note, name)?;
                }
            }
        }
        Ok(())
    }

    fn scalar(&self, inst: &Inst, a: &Access) -> Result<(), FaultKind> {
        for n in a.first..a.first + u16::from(a.count) {
            let when = self.s[usize::from(n) & 127];
            let name = || format!("s{n}");
            let (rule, needed) = match (&inst.op, a.role) {
                (Op::Mem(_), _) if n != u16::from(M0) => (Rule::ScalarInAddress, 5),
                (_, Role::LaneSelect) => (Rule::ScalarAsLane, 4),
                (_, Role::DivFmas) => (Rule::DivFmas, 4),
                (Op::Vector(_), _) if self.chip != Chip::Gfx90a => (Rule::ScalarInVector, 2),
                _ => continue,
            };
            self.demand(rule, name, when, needed)?;
        }
        Ok(())
    }

    /// A vector register that was written lately.
    fn vector(&self, inst: &Inst, a: &Access, note: &Note, first: usize, name: impl Fn() -> String) -> Result<(), FaultKind> {
        let when = (note.at, note.from);
        match (note.writer, &inst.op) {
            (Writer::None, _) => Ok(()),
            (Writer::Matrix(unit, passes, d, n), Op::Matrix(m)) => {
                if a.write {
                    return Ok(());
                }
                if a.role == Role::MatAB {
                    return self.demand(Rule::MatrixResultAsFactor, name, when, result_as_factor(self.chip, unit, passes));
                }
                let exact = usize::from(d) == first && n == a.count;
                let same_unit = (m.row.unit() == Unit::Dgemm) == (unit == Unit::Dgemm);
                let needed = result_as_addend(self.chip, unit, passes, exact && same_unit);
                self.demand(Rule::MatrixResultAsAddend, name, when, needed)
            }
            (Writer::Matrix(unit, passes, ..), op) => {
                let memory = !matches!(op, Op::Vector(_));
                if a.write && memory {
                    return Ok(());
                }
                let rule = if a.write { Rule::MatrixResultOverwritten } else { Rule::MatrixResultRead };
                self.demand(rule, name, when, result_read(self.chip, unit, passes, memory))
            }
            (_, Op::Matrix(_)) if !a.write => self.demand(Rule::VectorResultInMatrix, name, when, 2),
            (Writer::Dot(op), Op::Vector(v)) if op != v.row.op || v.row.class != Class::Dot => self.demand(Rule::DotProduct, name, when, 3),
            (_, Op::Vector(_)) if a.role == Role::Dpp => self.demand(Rule::VectorResultInDpp, name, when, 2),
            (_, Op::Vector(_)) if a.role == Role::LaneSource && self.chip != Chip::Gfx90a => {
                self.demand(Rule::VectorResultInLane, name, when, 1)
            }
            (Writer::Part, Op::Vector(_)) if !a.write && self.chip != Chip::Gfx90a => self.demand(Rule::PartialResult, name, when, 1),
            (Writer::Trans, Op::Vector(v)) if v.row.class != Class::Trans && !a.write && self.chip != Chip::Gfx90a => {
                self.demand(Rule::Transcendental, name, when, 1)
            }
            _ => Ok(()),
        }
    }

    /// A vector register that a vector instruction overwrites.
    fn overwrite(&self, note: &Note, name: impl Fn() -> String + Copy) -> Result<(), FaultKind> {
        if let Some((unit, passes)) = note.addend {
            let needed = match (unit, self.chip) {
                (Unit::Dgemm, _) => 0,
                (Unit::Sgemm, Chip::Gfx942 | Chip::Gfx950) => 0,
                _ => u32::from(passes) - 1,
            };
            self.demand(Rule::MatrixAddendOverwritten, name, (note.addend_at, note.addend_from), needed)?;
        }
        self.demand(Rule::StoreDataOverwritten, name, (note.data_at, note.data_from), 1)
    }

    /// Notes an instruction that has issued.
    pub fn note(&mut self, inst: &Inst, states: u64, slot: &dyn Fn(File, u16) -> usize) {
        let (at, from) = (self.now, inst.address);
        let writer = match &inst.op {
            Op::Vector(v) if writes_part(v) => Some(Writer::Part),
            Op::Vector(v) => Some(match v.row.class {
                Class::Trans => Writer::Trans,
                Class::Dot => Writer::Dot(v.row.op),
                Class::Plain | Class::Wide => Writer::Vector,
            }),
            Op::Matrix(m) => {
                Some(Writer::Matrix(m.row.unit(), m.row.passes, slot(m.dst.0, u16::from(m.dst.1)) as u16, m.row.results() as u8))
            }
            _ => None,
        };
        for a in &inst.access {
            match (a.file, a.write) {
                (File::S, true) => {
                    for n in a.first..a.first + u16::from(a.count) {
                        self.note_scalar(n, writer.is_some(), (at, from));
                    }
                }
                (File::S, false) => {}
                (file, write) => {
                    for i in 0..u16::from(a.count) {
                        let note = &mut self.v[slot(file, a.first + i)];
                        if write {
                            note.writer = writer.unwrap_or(Writer::None);
                            (note.at, note.from) = (at, from);
                        } else if let (Role::MatC, Op::Matrix(m)) = (a.role, &inst.op) {
                            note.addend = Some((m.row.unit(), m.row.passes));
                            (note.addend_at, note.addend_from) = (at, from);
                        } else if a.role == Role::Data && a.count > 2 && matches!(inst.op, Op::Mem(_)) {
                            (note.data_at, note.data_from) = (at, from);
                        }
                    }
                }
            }
        }
        self.now += states;
    }

    fn note_scalar(&mut self, n: u16, vector: bool, when: When) {
        let Some(s) = self.s.get_mut(usize::from(n)) else { return };
        *s = if vector { when } else { (NEVER, 0) };
        if n & !1 == u16::from(EXEC) {
            self.exec = if vector { when } else { (NEVER, 0) };
        }
        if n == u16::from(M0) && !vector {
            self.m0 = when;
        }
    }
}

/// The result goes to the upper half or a byte of its register, and there is a path that forwards whole registers only.
fn writes_part(v: &Vector) -> bool {
    let half = v.long && v.row.enc != Enc::P && v.op_sel >> 3 & 1 != 0;
    half || v.row.kind == Kind::Byte && v.op_sel >> 2 & 3 != 0
        || v.sdwa.is_some_and(|s| s.dst != 6) && !matches!(v.row.kind, Kind::Cmp { .. })
}

/// Wait states from a matrix result to A or B of the next matrix instruction.
fn result_as_factor(chip: Chip, unit: Unit, passes: u8) -> u32 {
    match unit {
        Unit::Dgemm => {
            if passes > 4 {
                11
            } else {
                6
            }
        }
        _ => smfma(chip, unit, passes),
    }
}

/// To a reader outside the matrix unit, or to a vector instruction that overwrites it.
fn result_read(chip: Chip, unit: Unit, passes: u8, memory: bool) -> u32 {
    match (unit, memory) {
        (Unit::Dgemm, false) => {
            if passes > 4 {
                11
            } else {
                6
            }
        }
        (Unit::Dgemm, true) => {
            if passes > 4 {
                18
            } else {
                9
            }
        }
        _ => smfma(chip, unit, passes),
    }
}

fn smfma(chip: Chip, unit: Unit, passes: u8) -> u32 {
    let p = u32::from(passes);
    match (chip, unit) {
        (Chip::Gfx90a, _) => match passes {
            0..=4 => 5,
            5..=8 => 11,
            _ => 19,
        },
        (_, Unit::Sgemm) => p + 2,
        (Chip::Gfx942, _) => p + 3,
        // The last number is the assembler's look-ahead.
        (Chip::Gfx950, _) => (p + 4).min(19),
    }
}

/// To the addend of the next matrix instruction; `exact` if it is the same registers.
fn result_as_addend(chip: Chip, unit: Unit, passes: u8, exact: bool) -> u32 {
    let p = u32::from(passes);
    match (unit, exact) {
        (Unit::Dgemm, true) => {
            if passes > 4 {
                0
            } else {
                4
            }
        }
        (Unit::Dgemm, false) => {
            if passes > 4 {
                9
            } else {
                4
            }
        }
        (_, true) => {
            if chip != Chip::Gfx90a && passes == 2 {
                2
            } else {
                0
            }
        }
        (_, false) => match (chip, unit) {
            (Chip::Gfx90a, _) => match passes {
                0..=4 => 2,
                5..=8 => 8,
                _ => 16,
            },
            (_, Unit::Sgemm) => p,
            (Chip::Gfx942, _) => p + 1,
            (Chip::Gfx950, _) => p + 2,
        },
    }
}
