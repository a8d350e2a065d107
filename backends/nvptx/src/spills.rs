//! Registers that lanes hold at once, against what they are given: where the assembler of the target will spill.
//!
//! ```text
//! live intervals ─► words alive at each position ─► the most of them, of the program and of each role
//! ```
//!
//! The assembler orders instructions anew and may get along with fewer. Of the kernels of `tests/tile` for `sm_80` and `sm_90a`, `ptxas` 13.0 spilled
//! in 56 of the 88 of which this says so, and in 1 of 182 others (4 bytes).

use crate::analysis::{Defs, Lives};
use tilelift_isel::Target;
use tilelift_isel::lane::{Inst, LTy, LVal, Program};

/// Registers of a multiprocessor, which lanes of a program share.
const POOL: u32 = 1 << 16;
/// What registers per lane are a multiple of.
const UNIT: u32 = 8;
/// Registers that the assembler needs for itself.
const OWN: u32 = 2;

/// Lanes that hold more than they are given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spill {
    /// Their role; `None` for a program without roles, or what stands outside of them.
    pub role: Option<String>,
    /// Registers per lane that are needed at once.
    pub needs: u32,
    /// Registers per lane that there are.
    pub has: u32,
}

/// The parts of a program whose lanes hold more registers than the target gives them.
pub fn spills(program: &Program, target: &Target) -> Vec<Spill> {
    let defs = Defs::new(program);
    let lives = Lives::of(&defs, program);
    let alive = words_alive(program, &defs, &lives);
    let entry = (POOL / program.threads().max(1) / UNIT * UNIT).min(target.registers);
    let mut roles = Vec::new();
    for inst in &program.body {
        if let Inst::Roles(r) = inst {
            roles.extend(r.roles.iter().map(|r| (r.name.clone(), r.registers.unwrap_or(entry).min(target.registers))));
        }
    }
    let inside = |p: usize| lives.roles.iter().any(|&[from, to]| (from..=to).contains(&(p as u32)));
    let most = |words: &mut dyn Iterator<Item = u32>| words.max().unwrap_or(0) + OWN;
    let common = most(&mut alive.iter().enumerate().filter(|&(p, _)| !inside(p)).map(|(_, &n)| n));
    let mut found = vec![Spill { role: None, needs: common, has: entry }];
    for ((name, has), &[from, to]) in roles.into_iter().zip(&lives.roles) {
        let range = alive.get(from as usize..=to as usize).unwrap_or(&[]);
        found.push(Spill { role: Some(name), needs: most(&mut range.iter().copied()), has });
    }
    found.retain(|s| s.needs > s.has);
    found
}

/// 32-bit registers that are alive at each half position. Conditions have registers of their own.
fn words_alive(program: &Program, defs: &Defs<'_>, lives: &Lives) -> Vec<u32> {
    let words = |v: LVal| match program.vals[v] {
        LTy::I1 => 0,
        other => i64::from(other.bits().div_ceil(32)),
    };
    let mut change = vec![0i64; 2 * lives.positions as usize + 4];
    for v in program.vals.keys().filter(|&v| defs.in_register(v)) {
        let range = lives.at[v];
        change[range.start as usize] += words(v);
        change[range.end as usize + 1] -= words(v);
    }
    let mut now = 0;
    change
        .iter()
        .map(|c| {
            now += c;
            u32::try_from(now.max(0)).unwrap_or(u32::MAX)
        })
        .collect()
}
