//! What stands at the kernel's beginning: arguments, and where the wavefront stands.
//!
//! ```text
//! s[0:1]   the argument segment          launch parameters in order, then the grid's extents that are asked for, each at its natural alignment
//! s2 ...   numbers of the workgroup      those that are asked for
//! v0       number in the workgroup       bits 0 to 5 are the lane, bits 6 to 9 the wavefront
//! ```

use super::error::{Reason, SelectError};
use super::ops::Numbers;
use super::role::Role;
use super::selector::{Done, Home, Selector, axis};
use crate::isa::Opcode;
use crate::mir::{ArgKind, File, Operand, Span};
use tilelift_lane::{Block, Control, LTy, Opcode as LaneOpcode, ParamSource, ShuffleFrom, Special, visit};

/// What a program asks for.
#[derive(Default)]
struct Asked {
    params: Vec<bool>,
    lane: bool,
    /// Distances of far lanes that loops ask for.
    far: Vec<u32>,
    /// Loops around what is looked at.
    depth: u32,
    warp: bool,
    program: [bool; 3],
    grid: [bool; 3],
}

impl Asked {
    fn block(&mut self, block: &Block, sel: &Selector<'_>) {
        for inst in block {
            match Role::of(inst) {
                Role::Param { index, dst } if sel.live.read(dst) => {
                    if let Some(p) = self.params.get_mut(index as usize) {
                        *p = true;
                    }
                }
                // Far lanes are named by number.
                Role::Shuffle(ShuffleFrom::Xor(mask @ 32..)) => {
                    self.lane = true;
                    if self.depth > 0 && !self.far.contains(&mask) {
                        self.far.push(mask);
                    }
                }
                Role::Special { what, dst } if sel.live.read(dst) => match what {
                    Special::Lane => self.lane = true,
                    Special::Warp => self.warp = true,
                    Special::ProgramId(a) => self.program[axis(a)] = true,
                    Special::NumPrograms(a) => self.grid[axis(a)] = true,
                    Special::Worker => self.program[0] = true,
                    Special::Workers => self.grid[0] = true,
                    Special::ClusterRank | Special::Replica => {}
                },
                Role::Control(control) => {
                    let inside = u32::from(matches!(control, Control::For(_) | Control::While(_)));
                    self.depth += inside;
                    visit::blocks(inst).for_each(|b| self.block(b, sel));
                    self.depth -= inside;
                }
                Role::Param { .. } | Role::Special { .. } | Role::Shuffle(_) | Role::Literal(_) => {}
                Role::Compute(_) | Role::Matrix { .. } | Role::Load(_) | Role::Store(_) | Role::Act | Role::Foreign => {}
            }
        }
    }
}

impl Selector<'_> {
    /// The kernel's beginning.
    pub(super) fn prologue(&mut self) -> Done {
        let params = &self.program.params;
        let mut asked = Asked { params: vec![false; params.len()], ..Asked::default() };
        asked.block(&self.program.body, self);
        // A program of one wavefront has no other.
        asked.warp &= self.program.warps > 1;
        self.mir.entry.workgroup = asked.program;
        // What stands in registers of its own is copied first.
        let segment = self.s2();
        self.emit(Opcode::SMovB64, [segment.into(), Span::physical(File::Scalar, 0, 2).into()]);
        for axis in 0..3 {
            if let Some(at) = self.mir.entry.workgroup_sgpr(axis) {
                let to = self.s();
                self.emit(Opcode::SMovB32, [to.into(), Span::physical(File::Scalar, at, 1).into()]);
                self.entry.program[axis] = Some(to);
            }
        }
        if asked.lane || asked.warp {
            let thread = self.v();
            self.emit(Opcode::VMovB32, [thread.into(), Span::physical(File::Vector, 0, 1).into()]);
            if asked.lane {
                self.entry.lane = Some(self.v_of(Opcode::VAndB32, &[63.into(), thread.into()]));
                self.entry.far = asked.far.iter().map(|&mask| (mask, self.far_lane(mask))).collect();
            }
            if asked.warp {
                let warp = self.v_of(Opcode::VBfeU32, &[thread.into(), 6.into(), 4.into()]);
                let to = self.s();
                self.first_lane(to, warp);
                self.entry.warp = Some(to);
            }
        }
        self.arguments(segment, &asked.params)?;
        for (axis, &asked) in asked.grid.iter().enumerate() {
            if asked {
                let offset = self.arg(4, ArgKind::Workgroups(axis as u8));
                self.entry.grid[axis] = Some(self.load_argument(segment, offset, 1));
            }
        }
        Ok(())
    }

    fn arguments(&mut self, segment: Span, asked: &[bool]) -> Done {
        let program = self.program;
        self.entry.params = vec![None; program.params.len()];
        for (i, param) in program.params.iter().enumerate() {
            if matches!(param.source, ParamSource::Tensor(_)) || param.ty == LTy::B32 {
                return Err(SelectError::Instruction(LaneOpcode::Param, Reason::Argument));
            }
            let kind = if matches!(param.source, ParamSource::Pointer(_)) { ArgKind::Pointer } else { ArgKind::Value };
            let offset = self.arg(param.ty.bytes(), kind);
            if !asked.get(i).is_some_and(|&a| a) {
                continue;
            }
            let loaded = match param.ty.bytes() {
                8 => self.load_argument(segment, offset, 2),
                4 => self.load_argument(segment, offset, 1),
                bytes => {
                    let word = self.load_argument(segment, offset & !3, 1);
                    self.narrow_argument(word, 8 * (offset & 3), 8 * bytes, param.ty)
                }
            };
            self.entry.params[i] = Some(loaded);
        }
        Ok(())
    }

    fn load_argument(&mut self, segment: Span, offset: u32, words: u8) -> Span {
        let to = self.fresh(File::Scalar, words);
        let op = if words == 2 { Opcode::SLoadDwordx2 } else { Opcode::SLoadDword };
        self.emit(op, [to.into(), segment.into(), Operand::Imm(offset.into())]);
        to
    }

    /// An argument of a byte or two in its word.
    fn narrow_argument(&mut self, word: Span, shift: u32, bits: u32, ty: LTy) -> Span {
        let field = Operand::Imm(i64::from(shift | bits << 16));
        match Numbers::of(ty) {
            Numbers::Truth => {
                let bit = self.s_of(Opcode::SBfeU32, &[word.into(), field]);
                self.salu(Opcode::SCmpLgU32, None, &[bit.into(), 0.into()]);
                self.s2_of(Opcode::SCselectB64, &[(-1).into(), 0.into()])
            }
            Numbers::Int(_) | Numbers::Wide | Numbers::None => self.s_of(Opcode::SBfeI32, &[word.into(), field]),
            Numbers::Float(_) => self.s_of(Opcode::SBfeU32, &[word.into(), field]),
        }
    }

    /// A launch parameter.
    pub(super) fn param(&mut self, dst: tilelift_lane::LVal, index: u32) -> Done {
        match self.entry.params.get(index as usize).copied().flatten() {
            Some(span) => self.is(dst, Home::Reg(span)),
            // Nobody reads it.
            None => self.is(dst, Home::Const(0)),
        }
        Ok(())
    }

    /// Where the lane stands.
    pub(super) fn special(&mut self, dst: tilelift_lane::LVal, what: Special) -> Done {
        let at = match what {
            Special::Lane => self.entry.lane,
            Special::Warp => self.entry.warp,
            Special::ProgramId(a) => self.entry.program[axis(a)],
            Special::Worker => self.entry.program[0],
            Special::NumPrograms(a) => self.entry.grid[axis(a)],
            Special::Workers => self.entry.grid[0],
            // There are no clusters, and no roles: every workgroup is the first of its own, and so are all its wavefronts.
            Special::ClusterRank | Special::Replica => None,
        };
        self.is(dst, at.map_or(Home::Const(0), Home::Reg));
        Ok(())
    }
}
