//! Registers of all warps of a program, with and without a role: the pool, who holds what of it, and what instructions need at the start.
//!
//! ```text
//! launch   every lane of every warp starts with the same number: what the threads of a program leave to each of them
//! role     its warpgroups change their number once, at its start: what they give up goes to the pool, what they ask for comes from there;
//!          roles that share a group change to the same number
//! others   warps of no role, and roles that ask for nothing, keep what they started with; warps that are done keep theirs, too
//! ```
//!
//! A group that gives registers up waits for nobody, and one that asks waits until the pool has them. Nobody waits for ever, in whatever
//! order the groups come, exactly if all fits in the end: whoever waits then finds that those who have given up, and those who still hold
//! what they started with, leave at least what all who wait ask for. If it does not fit, the last one waits for ever in every order.

use super::inst::{Block, Inst, Role};
use super::program::Program;
use super::unit::{OperandA, Unit};
use super::visit;
use crate::machine::{Target, Units};
use std::fmt;

/// Registers per lane that a program starts with, and what its groups may change it to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// Registers per lane at the start.
    pub entry: u32,
    /// Registers per lane are a multiple of this …
    pub unit: u32,
    /// … from this …
    pub least: u32,
    /// … to this.
    pub most: u32,
    /// Warps that change theirs together.
    pub group_warps: u32,
    /// Registers per lane that a matrix instruction of a group needs at the start beside its operands.
    pub beside_matrix: u32,
}

/// Warps that hold equally many registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The role; `None` for warps without one.
    pub role: Option<String>,
    /// Number of warps.
    pub warps: u32,
    /// Registers per lane, from the start of the role on.
    pub registers: u32,
}

/// Why registers of a program do not come together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// A role changes its registers, but not all warps of its groups do so.
    PartOfGroup {
        /// The role.
        role: String,
        /// Warps of a group.
        group: u32,
    },
    /// A number of registers that no group can have.
    Number {
        /// The role.
        role: String,
        /// What it asks for.
        registers: u32,
        /// What numbers have to be a multiple of.
        unit: u32,
        /// The least and the greatest.
        range: [u32; 2],
    },
    /// All warps together end up with more than there is: somebody waits for ever.
    Pool {
        /// Who holds what in the end.
        holders: Vec<Holder>,
        /// Lanes of a warp.
        lanes: u32,
        /// Registers of the program.
        have: u32,
    },
    /// A matrix instruction that the registers do not hold.
    Matrix {
        /// The role, if it stands in one.
        role: Option<String>,
        /// What it needs per lane.
        need: u32,
        /// What there is per lane: at the start, or in the role, whichever is less.
        have: u32,
    },
}

impl RegisterError {
    /// How many registers are needed, and how many there are.
    pub fn numbers(&self) -> [u32; 2] {
        match self {
            RegisterError::PartOfGroup { group, .. } => [*group, *group],
            RegisterError::Number { registers, range, .. } => [*registers, range[1]],
            RegisterError::Pool { holders, lanes, have } => [holders.iter().map(|h| h.warps * lanes * h.registers).sum(), *have],
            RegisterError::Matrix { need, have, .. } => [*need, *have],
        }
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [need, have] = self.numbers();
        match self {
            RegisterError::PartOfGroup { role, group } => {
                write!(f, "{role} changes its registers, but not all warps of its groups of {group}, which change theirs together")
            }
            RegisterError::Number { role, registers, unit, range: [least, most] } => {
                write!(f, "{role} asks for {registers} registers per lane; it takes a multiple of {unit} from {least} to {most}")
            }
            RegisterError::Pool { holders, lanes, .. } => {
                write!(f, "the warps end up with {need} registers, and the program has {have}, so that one waits for ever: ")?;
                table(f, holders, *lanes)
            }
            RegisterError::Matrix { role, .. } => {
                let who = role.as_deref().unwrap_or("the program");
                write!(
                    f,
                    "a matrix instruction of {who} needs {need} registers per lane, but there are {have}, at the start or in the role"
                )
            }
        }
    }
}

impl std::error::Error for RegisterError {}

/// Who holds what, in one line.
fn table(f: &mut fmt::Formatter<'_>, holders: &[Holder], lanes: u32) -> fmt::Result {
    for (n, h) in holders.iter().enumerate() {
        let comma = if n > 0 { ", " } else { "" };
        let who = h.role.as_deref().unwrap_or("warps without a role");
        write!(f, "{comma}{who} {} lanes x {}", h.warps * lanes, h.registers)?;
    }
    Ok(())
}

impl Registers {
    /// What a target gives to a program of so many warps that has a multiprocessor for itself.
    pub fn of(target: &Target, units: &Units, warps: u32) -> Registers {
        let pool = &units.registers;
        let even = |n: u32| n / pool.unit * pool.unit;
        Registers {
            entry: even(pool.total / (warps * target.lanes).max(1)).min(even(target.registers)),
            unit: pool.unit,
            least: pool.least,
            most: pool.most,
            group_warps: units.group_warps,
            beside_matrix: pool.beside_matrix,
        }
    }

    /// The same where no lane may start with more than so many.
    pub fn at_most(self, registers: u32) -> Registers {
        Registers { entry: self.entry.min(registers / self.unit * self.unit), ..self }
    }

    /// Checks all warps of a program, and its matrix instructions.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check(&self, program: &Program) -> Result<(), RegisterError> {
        self.check_pool(program)?;
        let roles = program.roles().map_or(&[][..], |r| &r.roles[..]);
        for r in roles {
            self.check_matrix(most_operands(&r.body), r.registers).map_err(|[need, have]| {
                let role = Some(r.name.clone());
                RegisterError::Matrix { role, need, have }
            })?;
        }
        // What stands in front of roles, or in a program without them, has what it starts with.
        let most = if roles.is_empty() { most_operands(&program.body) } else { None };
        self.check_matrix(most, None).map_err(|[need, have]| RegisterError::Matrix { role: None, need, have })
    }

    /// Whether a matrix instruction whose operands take so many registers per lane can stand in a role that asks for so many, if it asks:
    /// it has to fit what the program starts with, too, because that is where assemblers look. Else what it needs, and what there is.
    pub fn check_matrix(&self, operands: Option<u32>, asked: Option<u32>) -> Result<(), [u32; 2]> {
        let (need, have) = (operands.map_or(0, |n| n + self.beside_matrix), self.entry.min(asked.unwrap_or(self.entry)));
        if need > have { Err([need, have]) } else { Ok(()) }
    }

    /// Checks all warps of a program.
    ///
    /// # Errors
    /// The first role whose change is none, or that all together do not fit.
    pub fn check_pool(&self, program: &Program) -> Result<(), RegisterError> {
        let roles = program.roles().map_or(&[][..], |r| &r.roles[..]);
        let changed = |warp: u32| roles.iter().find(|r| (r.first..r.end()).contains(&warp)).and_then(|r| r.registers);
        for r in roles {
            let Some(n) = r.registers else { continue };
            let (first, end) = (r.first / self.group_warps, r.end().div_ceil(self.group_warps));
            if (first * self.group_warps..end * self.group_warps).any(|warp| changed(warp) != Some(n)) {
                return Err(RegisterError::PartOfGroup { role: r.name.clone(), group: self.group_warps });
            }
            if !n.is_multiple_of(self.unit) || !(self.least..=self.most).contains(&n) {
                let range = [self.least, self.most];
                return Err(RegisterError::Number { role: r.name.clone(), registers: n, unit: self.unit, range });
            }
        }
        if roles.iter().all(|r| r.registers.is_none()) {
            return Ok(());
        }
        let error = RegisterError::Pool {
            holders: self.holders(program.warps, roles),
            lanes: program.lanes,
            have: self.entry * program.warps * program.lanes,
        };
        let [need, have] = error.numbers();
        if need > have { Err(error) } else { Ok(()) }
    }

    fn holders(&self, warps: u32, roles: &[Role]) -> Vec<Holder> {
        let mut out: Vec<Holder> = roles
            .iter()
            .map(|r| Holder { role: Some(r.name.clone()), warps: r.end() - r.first, registers: r.registers.unwrap_or(self.entry) })
            .collect();
        let alone = warps.saturating_sub(out.iter().map(|h| h.warps).sum());
        if alone > 0 {
            out.push(Holder { role: None, warps: alone, registers: self.entry });
        }
        out
    }
}

/// Registers per lane of the operands of the largest matrix instruction of a group in a block.
fn most_operands(block: &Block) -> Option<u32> {
    let mut most = None;
    for inst in block {
        let own = match inst {
            Inst::Unit(u) => match &**u {
                Unit::Multiply(m) => {
                    let left = if let OperandA::Regs(words) = &m.a { words.len() } else { 0 };
                    Some((m.c.len() + left) as u32)
                }
                _ => None,
            },
            other if other.control().is_some() => visit::blocks(other).filter_map(most_operands).max(),
            _ => None,
        };
        most = most.max(own);
    }
    most
}
