//! Kernels whose author says who does what: where the tasks run, how their buffers lie, which instructions their products take.

use super::buffers::{Form, buffers, handle};
use super::{LowerOptions, PanelTile};
use crate::error::LowerError;
use crate::lane::entry_registers;
use crate::target::{GroupMatrixId, Target, Units};
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;
use std::fmt;
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Region, Type};

/// A kernel with explicit control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explicit {
    /// Its tasks, a role per replica; none if the whole program instance is one task.
    pub roles: Vec<TaskRole>,
    /// Warps of the program instance.
    pub warps: u32,
    /// It is lowered without a proof.
    pub unproven: bool,
    pub(crate) forms: BTreeMap<Inst, Form>,
    pub(crate) boxes: BTreeMap<Inst, PanelTile>,
    pub(crate) dots: BTreeMap<Inst, GroupMatrixId>,
}

/// A replica of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRole {
    /// The task's name, with the replica's number if there are several.
    pub name: String,
    /// Its region.
    pub(crate) region: Region,
    /// The replica's number.
    pub replica: u32,
    /// First warp and number of warps.
    pub warps: [u32; 2],
    /// Warps behind them that only take part in the change of registers.
    pub idle: u32,
    /// One lane does it all.
    pub single: bool,
    /// Registers per lane.
    pub registers: Option<u32>,
}

impl fmt::Display for Explicit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "explicit: {} warps", self.warps)?;
        for r in &self.roles {
            write!(f, ", {} on {}..{}", r.name, r.warps[0], r.warps[0] + r.warps[1])?;
            if r.single {
                f.write_str(" (one lane)")?;
            }
            if let Some(n) = r.registers {
                write!(f, " with {n} registers")?;
            }
        }
        Ok(())
    }
}

/// The `tasks` of a kernel.
pub(crate) fn tasks(kernel: &Kernel) -> Option<Inst> {
    kernel.regions[kernel.body].insts.iter().copied().find(|&i| kernel.insts[i].op == Op::Tasks)
}

/// What an op needs of the target.
fn unit(op: Op) -> Option<&'static str> {
    match op {
        Op::LocalAlloc
        | Op::LocalIndex
        | Op::LocalSlice
        | Op::LocalTranspose
        | Op::LocalReinterpret
        | Op::LocalLoad
        | Op::LocalStore
        | Op::TaskBarrier
        | Op::FenceAsync
        | Op::ClusterRank
        | Op::ClusterSize
        | Op::WorkerId
        | Op::NumWorkers => None,
        Op::ChannelAlloc | Op::ChannelPut | Op::ChannelGet | Op::ChannelConsumed => None,
        _ => Some("no barrier words and asynchronous units"),
    }
}

/// Plans a kernel with explicit control.
///
/// # Errors
/// What the target lacks, what no layout of a buffer satisfies, what does not fit the warps.
pub(crate) fn explicit(kernel: &Kernel, target: &Target, options: &LowerOptions, outer: u32) -> Result<Explicit, LowerError> {
    let mut missing = None;
    kernel.walk(kernel.body, &mut |i| {
        let op = kernel.insts[i].op;
        if op.is_explicit() && target.units.is_none() && missing.is_none() {
            missing = unit(op)
                .map(|why| LowerError::unsupported(format!("`{op}` on {}", target.name), format!("it has {why}")).at(kernel.locs[i]));
        }
    });
    if let Some(e) = missing {
        return Err(e);
    }
    let most = target.units.as_ref().map_or(1, |u| u.max_cluster);
    if kernel.cluster > most {
        let why =
            if most == 1 { format!("{} has no clusters", target.name) } else { format!("{} has clusters of up to {most}", target.name) };
        return Err(LowerError::unsupported(format!("a cluster of {}", kernel.cluster), why).at(kernel.hint_locs[2]));
    }
    meetings(kernel)?;
    let placed = buffers(kernel, target.units.as_ref())?;
    let mut dots = BTreeMap::new();
    let (roles, warps) = match (tasks(kernel), &target.units) {
        (Some(i), Some(units)) => roles(kernel, target, units, i)?,
        _ => (Vec::new(), outer),
    };
    let group = target.units.as_ref().map_or(1, |u| u.group_warps);
    if let Some(units) = &target.units {
        let mut products = |r: Region, warps: u32| -> Result<(), LowerError> {
            let mut list = Vec::new();
            kernel.walk(r, &mut |i| list.push(i));
            for i in list.into_iter().filter(|&i| kernel.insts[i].op == Op::AsyncDot) {
                if roles.iter().any(|x| x.region != r && inside(kernel, x.region, i)) {
                    continue;
                }
                let q = product(kernel, units, i, warps / group)
                    .map_err(|why| LowerError::unsupported("`async_dot`", why).at(kernel.locs[i]))?;
                dots.insert(i, q);
            }
            Ok(())
        };
        products(kernel.body, warps)?;
        for r in &roles {
            products(r.region, r.warps[1])?;
        }
    }
    if warps > target.max_warps {
        return Err(LowerError::ResourceExceeded {
            resource: "warps",
            need: warps.into(),
            have: target.max_warps.into(),
            remedy: "use fewer or smaller tasks".into(),
            loc: Default::default(),
        });
    }
    Ok(Explicit { roles, warps, unproven: options.unproven, forms: placed.forms, boxes: placed.boxes, dots })
}

/// Refuses meetings that can't take place: with a cluster where there is none, and at named barriers of warps that are not there.
fn meetings(kernel: &Kernel) -> Result<(), LowerError> {
    // The warps of the task that an instruction stands in.
    let (mut own, mut all) = (BTreeMap::new(), 0);
    if let Some(i) = tasks(kernel)
        && let Some(Attr::Tasks(list)) = kernel.insts[i].attrs.first()
    {
        for (t, &r) in list.iter().zip(&kernel.insts[i].regions) {
            all += t.warps * t.replicas;
            kernel.walk(r, &mut |i| _ = own.insert(i, t.warps));
        }
    }
    let mut wrong = None;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let why = match (d.op, own.get(&i), d.attrs.get(1)) {
            (
                Op::ClusterArrive
                | Op::ClusterWait
                | Op::ClusterBarrier
                | Op::RemoteLoad
                | Op::RemoteStore
                | Op::RemoteStoreAsync
                | Op::RemoteArrive,
                ..,
            ) if kernel.cluster <= 1 => "the kernel has no clusters; write `cluster 2` or more behind its parameters".to_owned(),
            (Op::NamedBarrierSync | Op::NamedBarrierArrive, None, _) => {
                "how many warps come is known of tasks only; use `task_barrier`, or move it into a task".to_owned()
            }
            (Op::NamedBarrierSync | Op::NamedBarrierArrive, Some(&own), Some(&Attr::Count(n))) if !(own..=all).contains(&n) => {
                format!("{n} warps can't meet: the task that comes has {own}, all tasks have {all}; say how many warps come")
            }
            _ => return,
        };
        wrong = wrong.take().or(Some(LowerError::unsupported(format!("`{}` here", d.op), why).at(kernel.locs[i])));
    });
    wrong.map_or(Ok(()), Err)
}

fn inside(kernel: &Kernel, r: Region, i: Inst) -> bool {
    let mut found = false;
    kernel.walk(r, &mut |j| found |= i == j);
    found
}

/// True if one lane can do all that a region asks for.
fn single(kernel: &Kernel, r: Region) -> bool {
    let mut lanes = false;
    kernel.walk(r, &mut |i| {
        let d = &kernel.insts[i];
        let tile = |v: &tilelift_ir::Value| matches!(kernel.ty(*v), Type::Tile(_));
        let together = matches!(
            d.op,
            Op::NamedBarrierSync
                | Op::NamedBarrierArrive
                | Op::ClusterArrive
                | Op::ClusterWait
                | Op::ClusterBarrier
                | Op::Print
                | Op::Assert
                | Op::While
                | Op::Load
                | Op::Store
                | Op::Atomic
                | Op::AtomicCas
        );
        lanes |= together || d.args.iter().chain(&d.results).any(tile) || d.op == Op::LocalLoad || d.op == Op::LocalStore;
    });
    !lanes
}

/// Places the tasks on warps.
fn roles(kernel: &Kernel, target: &Target, units: &Units, i: Inst) -> Result<(Vec<TaskRole>, u32), LowerError> {
    let d = &kernel.insts[i];
    let Some(Attr::Tasks(list)) = d.attrs.first() else { return Ok((Vec::new(), 1)) };
    let group = units.group_warps;
    let mut next = 0u32;
    let mut out = Vec::new();
    for (t, &region) in list.iter().zip(&d.regions) {
        let single = single(kernel, region);
        for replica in 0..t.replicas {
            // Groups multiply, and change registers, as a whole.
            let whole = t.warps >= group || t.registers.is_some();
            let first = if whole { next.next_multiple_of(group) } else { next };
            // A task of a warp or two stays in one group of warps.
            let first = if first / group != (first + t.warps - 1) / group { first.next_multiple_of(group) } else { first };
            let idle = if t.registers.is_some() { t.warps.next_multiple_of(group) - t.warps } else { 0 };
            let name = if t.replicas > 1 { format!("{}{replica}", t.name) } else { t.name.clone() };
            out.push(TaskRole { name, region, replica, warps: [first, t.warps], idle, single, registers: t.registers });
            next = first + t.warps + idle;
        }
    }
    let mut warps = next;
    let outer_tiles = kernel.regions[kernel.body]
        .insts
        .iter()
        .any(|&j| j != i && kernel.insts[j].results.iter().chain(&kernel.insts[j].args).any(|&v| matches!(kernel.ty(v), Type::Tile(_))));
    if outer_tiles {
        // Layouts are for powers of two.
        warps = warps.next_power_of_two();
    }
    if out.iter().any(|r| r.registers.is_some()) {
        warps = warps.next_multiple_of(group);
    }
    derive_registers(kernel, target, units, &mut out, &mut warps);
    Ok((out, warps))
}

/// Where the author says nothing of registers, and one lane's tasks stand beside tasks that multiply, the former give theirs away.
fn derive_registers(kernel: &Kernel, target: &Target, units: &Units, roles: &mut [TaskRole], warps: &mut u32) {
    let group = units.group_warps;
    let multiplies = |r: &TaskRole| {
        let mut found = false;
        kernel.walk(r.region, &mut |i| found |= kernel.insts[i].op == Op::AsyncDot);
        found
    };
    let all = warps.next_multiple_of(group);
    let pool = &units.registers;
    let entry = entry_registers(target, units, all);
    let groups = roles.iter().all(|r| r.warps[1].is_multiple_of(group) || r.single);
    let small: Vec<usize> = (0..roles.len()).filter(|&n| !roles[n].warps[1].is_multiple_of(group)).collect();
    // The small ones must be alone in their group: then its idle warps change with them.
    let apart = small.iter().all(|&n| {
        let own = roles[n].warps[0] / group;
        roles[n].warps[0].is_multiple_of(group) && roles.iter().filter(|r| r.warps[0] / group == own).count() == 1
    });
    let any = roles.iter().any(|r| r.registers.is_some());
    if any || !groups || !apart || small.is_empty() || entry >= pool.most || !roles.iter().all(|r| r.single || multiplies(r)) {
        return;
    }
    let (mut copying, mut computing) = (0, 0);
    for r in roles.iter() {
        *(if r.single { &mut copying } else { &mut computing }) += r.warps[1].next_multiple_of(group);
    }
    if computing == 0 {
        return;
    }
    let have = entry * all;
    let each = (have.saturating_sub(copying * pool.copier) / computing / pool.unit * pool.unit).min(pool.most);
    for r in roles.iter_mut() {
        r.idle = r.warps[1].next_multiple_of(group) - r.warps[1];
        r.registers = Some(if r.single { pool.copier } else { each });
    }
    *warps = all;
}

/// The instruction for an asynchronous product.
fn product(kernel: &Kernel, units: &Units, i: Inst, groups: u32) -> Result<GroupMatrixId, String> {
    let d = &kernel.insts[i];
    let precision = match d.attrs.first() {
        Some(Attr::Precision(p)) => *p,
        _ => Precision::Exact,
    };
    let (ea, eb, acc) = (kernel.ty(d.args[0]).elem(), kernel.ty(d.args[1]).elem(), kernel.ty(d.results[0]).elem());
    let Some(at) = units.matrix.iter().position(|x| x.operand == ea && x.operand == eb && x.acc == acc && x.precision == precision) else {
        return Err(format!("no group matrix instruction multiplies {ea} by {eb} into {acc} with precision {precision}"));
    };
    let row = &units.matrix[at];
    let shape = |v: tilelift_ir::Value| match kernel.ty(v) {
        Type::Tile(t) => t.shape.to_vec(),
        Type::Shared(t) => t.shape.to_vec(),
        _ => Vec::new(),
    };
    let (a, c) = (shape(d.args[0]), shape(d.args[2]));
    let ([m, k], [_, n]) = (&a[..], &c[..]) else { return Err("group matrix instructions take matrices".into()) };
    if groups == 0 {
        return Err(format!("it takes {} warps of a task", units.group_warps));
    }
    if !m.is_multiple_of(row.m * groups) || !k.is_multiple_of(row.k) || !n.is_multiple_of(row.n_step) || *n > row.n_max {
        return Err(format!(
            "{m}x{n}x{k} on {groups} groups of warps is not made up of {}xNx{}, N a multiple of {} up to {}",
            row.m, row.k, row.n_step, row.n_max
        ));
    }
    if handle(kernel, d.args[0]).is_none() && row.a.is_none() {
        return Err(format!("{} takes no left operand from registers", row.name));
    }
    Ok(GroupMatrixId::new(at))
}
