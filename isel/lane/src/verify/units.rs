//! Rules of roles and units.

use super::super::unit::{GroupOperand, Multiply, OperandA, Unit};
use super::checks::{Check, Typing, Verifier, fragment_values};
use super::error::{LaneProblem, LaneVerifyError};
use crate::frame::ParamSource;
use crate::inst::{Block, Inst, Roles};
use crate::machine::{Target, Units};
use crate::op::Reduction;
use crate::print::inst_text;
use crate::program::Program;
use crate::registers::Registers;
use crate::value::LVal;
use crate::visit::blocks;
use cranelift_entity::EntityRef;
use tilelift_ir::Scalar;

/// Roles stand at the end of a program and nowhere else.
pub(super) fn last(program: &Program) -> Check {
    fn inside(block: &[Inst]) -> bool {
        block.iter().any(|i| match i {
            Inst::Roles(_) => true,
            Inst::For(l) => inside(&l.body),
            Inst::While(l) => inside(&l.test) || inside(&l.body),
            Inst::If(c) => inside(&c.then) || inside(&c.otherwise),
            _ => false,
        })
    }
    let (front, roles) = match program.body.split_last() {
        Some((Inst::Roles(r), front)) => (front, Some(r)),
        Some(_) | None => (&program.body[..], None),
    };
    let nested = roles.is_some_and(|r| r.roles.iter().any(|r| inside(&r.body)));
    if nested || inside(front) { Err(LaneProblem::RolesInside) } else { Ok(()) }
}

/// All warps together have the registers that they ask for.
pub(super) fn registers(program: &Program, target: &Target) -> Check {
    let Some(units) = &target.units else { return Ok(()) };
    Registers::of(target, units, program.warps).check(program).map_err(LaneProblem::Registers)
}

fn offered<'t>(target: &'t Target, what: &'static str) -> Result<&'t Units, LaneProblem> {
    target.units.as_ref().ok_or(LaneProblem::NoUnit(what))
}

pub(super) fn roles(v: &mut Verifier<'_>, inst: &Inst, roles: &Roles) -> Result<(), LaneVerifyError> {
    let program = v.program;
    let at = |problem| LaneVerifyError { inst: Some(inst_text(program, inst)), problem };
    offered(v.target, "roles").map_err(at)?;
    let mut next = 0;
    for r in &roles.roles {
        let end = u64::from(r.first) + u64::from(r.replicas) * (u64::from(r.warps) + u64::from(r.idle));
        if r.warps == 0 || r.replicas == 0 || r.first < next || end > u64::from(program.warps) {
            return Err(at(LaneProblem::RoleWarps(r.name.clone())));
        }
        if !same_turns(&r.body, &mut None) {
            return Err(at(LaneProblem::UnitShape("turns at several barriers")));
        }
        next = r.end();
    }
    for r in &roles.roles {
        v.role = Some((r.warps, r.single));
        let first = v.defined.len();
        v.block(&r.body)?;
        v.end(first);
    }
    v.role = None;
    Ok(())
}

/// True if all turns of a block are at the barriers that were found first: a role has its barriers' numbers in registers.
fn same_turns(block: &Block, found: &mut Option<u32>) -> bool {
    block.iter().all(|i| match i {
        Inst::Unit(u) => match **u {
            Unit::Turn { id, .. } => *found.get_or_insert(id) == id,
            _ => true,
        },
        other => blocks(other).all(|b| same_turns(b, found)),
    })
}

/// A launch parameter that describes a tensor of as many dimensions as there are indices.
fn tensor(v: &Verifier<'_>, map: u32, at: Option<&[LVal]>) -> Check {
    let ParamSource::Tensor(t) = v.program.params.get(map as usize).ok_or(LaneProblem::NotATensor { index: map })?.source else {
        return Err(LaneProblem::NotATensor { index: map });
    };
    let bulk = offered(v.target, "bulk copies")?.bulk;
    let rank = usize::from(t.rank);
    if rank == 0 || u32::from(t.rank) > bulk.max_rank || at.is_some_and(|at| at.len() != rank) {
        return Err(LaneProblem::NotATensor { index: map });
    }
    let fits = t.extents[..rank].iter().all(|&e| (1..=bulk.max_box).contains(&e));
    let row = t.extents[0] * t.elem.bytes();
    // A row that lies as in memory has no swizzle, nor rows behind it.
    let lies = match t.swizzle {
        0 => row.is_multiple_of(bulk.align) && t.extents[1..rank].iter().all(|&e| e == 1),
        width => bulk.swizzles.contains(&width) && row == width,
    };
    if !fits || !lies {
        return Err(LaneProblem::UnitShape("the box"));
    }
    Ok(())
}

/// Only warpgroups that run together may execute it.
fn groups(v: &Verifier<'_>) -> Result<(), LaneProblem> {
    let units = offered(v.target, "warpgroups")?;
    match v.role {
        Some((_, true)) => Err(LaneProblem::SingleLane),
        Some((warps, false)) if !warps.is_multiple_of(units.group_warps) => Err(LaneProblem::UnitShape("the role's number of warps")),
        Some(_) => Ok(()),
        None if v.program.warps.is_multiple_of(units.group_warps) => Ok(()),
        None => Err(LaneProblem::UnitShape("the program's number of warps")),
    }
}

fn multiply(v: &Verifier<'_>, m: &Multiply) -> Check {
    groups(v)?;
    let units = offered(v.target, "group matrix instructions")?;
    let Some(row) = units.matrix.get(m.instr.index()) else { return Err(LaneProblem::NoUnit("such group matrix instruction")) };
    if m.n == 0 || !m.n.is_multiple_of(row.n_step) || m.n > row.n_max {
        return Err(LaneProblem::UnitShape("N of the multiplication"));
    }
    let operand = |o: &GroupOperand| {
        let along = o.atoms.along_k || row.any_order;
        if along && units.bulk.swizzles.contains(&o.atoms.swizzle) { Ok(()) } else { Err(LaneProblem::UnitShape("an operand")) }
    };
    match (&m.a, &row.a) {
        (OperandA::Shared(o), _) => operand(o)?,
        (OperandA::Regs(words), Some(map)) => {
            let (want, _) = fragment_values(map, row.operand);
            if words.len() != want {
                return Err(LaneProblem::Count { what: "words of the operand A", got: words.len(), want: want.to_string() });
            }
        }
        (OperandA::Regs(_), None) => return Err(LaneProblem::NoUnit("group matrix instruction with its operand A in registers")),
    }
    operand(&m.b)?;
    let (per, ty) = fragment_values(&row.d, row.acc);
    let want = per * (m.n / row.d.shape[1]) as usize;
    if m.c.len() != want || m.dsts.len() != want {
        return Err(LaneProblem::Count { what: "accumulators", got: m.c.len().max(m.dsts.len()), want: want.to_string() });
    }
    v.have_type(&m.c, ty)?;
    v.have_type(&m.dsts, ty)
}

/// One lane must run it: that of its role, or the one where its guard holds.
fn alone(v: &Verifier<'_>, g: Option<LVal>, what: &'static str) -> Check {
    match (v.role, g) {
        (_, Some(_)) | (Some((_, true)), None) => Ok(()),
        (Some((_, false)) | None, None) => Err(LaneProblem::UnitShape(what)),
    }
}

/// Only programs in clusters have it.
fn clusters(v: &Verifier<'_>) -> Check {
    offered(v.target, "clusters")?;
    if v.program.cluster > 1 { Ok(()) } else { Err(LaneProblem::NoUnit("cluster in this program")) }
}

/// What the copy units combine.
fn reduction(v: &Verifier<'_>, map: u32, r: Reduction) -> Check {
    let Some(ParamSource::Tensor(t)) = v.program.params.get(map as usize).map(|p| p.source) else { return Ok(()) };
    let fits = match r {
        Reduction::Add => matches!(t.elem, Scalar::I32 | Scalar::F32 | Scalar::F16 | Scalar::BF16),
        Reduction::Minimum | Reduction::Maximum => matches!(t.elem, Scalar::I32 | Scalar::I64 | Scalar::F16 | Scalar::BF16),
        Reduction::And | Reduction::Or | Reduction::Xor => matches!(t.elem, Scalar::I32 | Scalar::I64),
    };
    if fits { Ok(()) } else { Err(LaneProblem::UnitShape("a reduction of such elements")) }
}

pub(super) fn unit(v: &mut Verifier<'_>, u: &Unit) -> Check {
    if *u == Unit::AwaitPrevious {
        return if v.target.early_launch { Ok(()) } else { Err(LaneProblem::NoUnit("launches that overlap")) };
    }
    offered(v.target, "asynchronous units")?;
    let mut t = Typing::new(v, u.takes());
    u.typed(|vals, kind, made| t.field(vals, kind, made));
    t.end()?;
    shape(v, u)?;
    v.made(u.results())
}

/// Who may run it, counts and boxes, and what the target offers.
fn shape(v: &Verifier<'_>, u: &Unit) -> Check {
    match u {
        Unit::ArriveExpect { guard: g, .. } => alone(v, *g, "an arrival with bytes of more than one lane"),
        Unit::ArriveCopies { .. } if v.target.copy_async.is_empty() => Err(LaneProblem::CopySize { got: 0, offered: v.target.copy_async }),
        Unit::PrefetchMap { map, .. } => tensor(v, *map, None),
        Unit::BulkLoad { map, at, ranks, guard: g, .. } => {
            alone(v, *g, "a bulk load by more than one lane")?;
            if ranks.is_some() {
                clusters(v)?;
            }
            tensor(v, *map, Some(at))
        }
        Unit::BulkStore { map, at, reduce, .. } => {
            tensor(v, *map, Some(at))?;
            reduce.map_or(Ok(()), |r| reduction(v, *map, r))
        }
        Unit::GroupBarrier { warps } => {
            groups(v)?;
            let all = v.role.map_or(v.program.warps, |r| r.0);
            if *warps > 0 && all.is_multiple_of(*warps) { Ok(()) } else { Err(LaneProblem::UnitShape("a group barrier")) }
        }
        Unit::StoreMatrix { .. } if matches!(v.role, Some((_, true))) => Err(LaneProblem::SingleLane),
        Unit::StoreMatrix { srcs, .. } if ![1, 2, 4].contains(&srcs.len()) => {
            Err(LaneProblem::Count { what: "matrices", got: srcs.len(), want: "1, 2 or 4".into() })
        }
        Unit::FenceMatrices | Unit::CommitMatrices | Unit::WaitMatrices { .. } => groups(v),
        Unit::Multiply(m) => multiply(v, m),
        Unit::NamedBarrier { id, warps, .. } => {
            let have = offered(v.target, "named barriers")?.named_barriers;
            let own = match v.role {
                Some((_, true)) => return Err(LaneProblem::SingleLane),
                Some((warps, false)) => warps,
                None => v.program.warps,
            };
            if *id < have && (own..=v.program.warps).contains(warps) { Ok(()) } else { Err(LaneProblem::UnitShape("a named barrier")) }
        }
        Unit::Turn { id, groups: taking, .. } => {
            groups(v)?;
            let units = offered(v.target, "named barriers")?;
            let warps = v.role.map_or(0, |r| r.0);
            let whole = warps == taking * units.group_warps;
            if whole && id + taking <= units.named_barriers { Ok(()) } else { Err(LaneProblem::UnitShape("turns")) }
        }
        Unit::ClusterArrive { .. } | Unit::ClusterWait | Unit::Remote { .. } => clusters(v),
        Unit::RemoteLoad { dsts, .. } => {
            clusters(v)?;
            v.vector(dsts)
        }
        Unit::RemoteStore { srcs, .. } | Unit::RemoteStoreAsync { srcs, .. } => {
            clusters(v)?;
            v.vector(srcs)
        }
        _ => Ok(()),
    }
}
