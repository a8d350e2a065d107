//! Kernels whose author says who does what: where the tasks run, how their buffers lie, which instructions their products take.

use super::buffer_layout::BufferLayout;
use super::buffers::{Buffers, buffers};
use super::handle::handle;
use super::lanes::{Fetches, fetches};
use super::locals::{Locals, views};
use super::options::{LowerOptions, ProofScope};
use super::registers::{IdleWarps, share};
use super::role::TaskRole;
use super::shares::{Copies, copies};
use super::tensor_boxes::SwizzledTile;
use crate::error::LowerError;
use crate::reason::{Lacking, NoMeeting, NoProduct, Outline, Remedy, Resource, RoleOutline, Unsupported};
use cranelift_entity::EntityRef;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tilelift_ir::{Attr, Effects, Inst, Kernel, Op, Precision, ProgramOrder, Region, Type};
use tilelift_lane::Registers;
use tilelift_lane::hash::Set;
use tilelift_lane::{GroupMatrixId, Target, Units};

/// Registers of a lane from which on some more or less do not matter.
const AMPLE: u32 = 128;

/// How a kernel with explicit control runs: one whose author says who does what, with tasks or without.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskPlan {
    /// Its tasks, a role per replica; none if the whole program instance is one task.
    pub roles: Vec<TaskRole>,
    /// Warpgroups of no task, which give registers up.
    pub idle: Vec<IdleWarps>,
    /// Warps of the program instance.
    pub warps: u32,
    /// Warps of a group.
    pub group: u32,
    /// Warps over which tiles in front of the tasks are spread: all, or one, if each warp has them whole.
    pub front: u32,
    /// It is lowered without a proof.
    pub unproven: bool,
    /// How each buffer lies in shared memory.
    pub buffers: BTreeMap<Inst, BufferLayout>,
    /// What each bulk copy moves.
    pub boxes: BTreeMap<Inst, SwizzledTile>,
    /// Stores of lanes that round what they store to tf32, for products.
    pub rounded: BTreeSet<Inst>,
    /// The matrix instruction of each asynchronous dot.
    pub dots: BTreeMap<Inst, GroupMatrixId>,
    /// Those that each group of a task computes.
    pub copies: Copies,
    /// Who touches which allocation.
    pub locals: Rc<Locals>,
    /// What products do with buffers that lanes have filled.
    pub fetches: Rc<Fetches>,
    /// What lanes store for products lies and is fetched as what they copy ([`Target::moves_by_lanes`]).
    pub by_lanes: bool,
}

impl TaskPlan {
    /// What is said of it.
    pub(super) fn outline(&self) -> Outline {
        let role = |r: &TaskRole| RoleOutline { name: r.name.clone(), warps: r.warps, single: r.single, registers: r.registers };
        Outline::Tasks {
            warps: self.warps,
            roles: self.roles.iter().map(role).collect(),
            idle: self.idle.iter().map(|i| (i.warps, i.registers)).collect(),
        }
    }

    /// How many replicas of a task run one text: all of them, if they lie side by side and change their registers as groups, to so many that some are
    /// left for addresses that a replica's number would make literals; else 1. How many a task has that does not change them is the assembler's choice.
    pub fn replicas(&self, role: &TaskRole) -> u32 {
        let all = || self.roles.iter().filter(|r| r.region == role.region);
        let Some(first) = all().next() else { return 1 };
        let beside = |r: &TaskRole| r.warps[0] == first.warps[0] + r.replica * (first.warps[1] + first.idle);
        let alike = |r: &TaskRole| (r.warps[1], r.idle, r.registers) == (first.warps[1], first.idle, first.registers);
        let ample = first.registers.is_some_and(|n| n >= AMPLE) && first.warps[0].is_multiple_of(self.group);
        if ample && all().all(|r| beside(r) && alike(r)) { all().count() as u32 } else { 1 }
    }

    /// True for a role that is written: of replicas that run one text, the first.
    pub fn written(&self, r: &TaskRole) -> bool {
        r.replica == 0 || self.replicas(r) == 1
    }

    /// The same plan with buffers in other layouts.
    pub fn with_buffers(&self, kernel: &Kernel, buffers: BTreeMap<Inst, BufferLayout>) -> TaskPlan {
        TaskPlan { fetches: Rc::new(fetches(kernel, &buffers, self.by_lanes)), buffers, ..self.clone() }
    }
}

/// The `tasks` of a kernel.
pub fn tasks(kernel: &Kernel) -> Option<Inst> {
    kernel.regions[kernel.body].insts.iter().copied().find(|&i| kernel.insts[i].op == Op::Tasks)
}

/// True for an op that needs mbarriers and asynchronous units.
pub fn needs_units(op: Op) -> bool {
    !matches!(
        op,
        Op::LocalAlloc
            | Op::LocalIndex
            | Op::LocalSlice
            | Op::LocalTranspose
            | Op::LocalReinterpret
            | Op::LocalLoad
            | Op::LocalStore
            | Op::CopyAsync
            | Op::GatherAsync
            | Op::CopyAsyncCommit
            | Op::CopyAsyncWait
            | Op::TaskBarrier
            | Op::FenceAsync
            | Op::ClusterRank
            | Op::ClusterSize
            | Op::WorkerId
            | Op::NumWorkers
            | Op::ChannelAlloc
            | Op::ChannelPut
            | Op::ChannelGet
            | Op::ChannelConsumed
    )
}

/// Plans a kernel with explicit control.
///
/// # Errors
/// What the target lacks, what no layout of a buffer satisfies, what does not fit the warps.
pub fn plan_tasks(kernel: &Kernel, target: &Target, options: &LowerOptions, outer: u32) -> Result<TaskPlan, LowerError> {
    if target.units.is_none() {
        let mut missing = None;
        kernel.walk(kernel.body, &mut |i| {
            let op = kernel.insts[i].op;
            if op.is_explicit() && missing.is_none() && needs_units(op) {
                missing = Some(LowerError::from(Lacking::Units(op, target.name)).at(kernel.locs[i]));
            }
        });
        if let Some(e) = missing {
            return Err(e);
        }
    }
    let most = target.units.as_ref().map_or(1, |u| u.max_cluster);
    if kernel.cluster > most {
        let why = Lacking::Cluster { size: kernel.cluster, most, target: target.name };
        return Err(LowerError::from(why).at(kernel.hint_locs[2]));
    }
    let order = ProgramOrder::of(kernel);
    let insts = order.insts(kernel.body);
    meetings(kernel, insts)?;
    views(kernel, insts)?;
    let placed = buffers(kernel, target, insts)?;
    let (mut dots, mut all) = (BTreeMap::new(), Copies::default());
    let Placed { roles, idle, warps, front } = match (tasks(kernel), &target.units) {
        (Some(i), Some(units)) => roles(kernel, &order, target, (units, i))?,
        _ => Placed { roles: Vec::new(), idle: Vec::new(), warps: outer, front: outer },
    };
    let group = target.units.as_ref().map_or(1, |u| u.group_warps);
    turns(kernel, &order, &roles, group)?;
    if let Some(units) = &target.units {
        let registers = Registers::of(target, units, warps.max(1));
        let of: Vec<Vec<Inst>> = roles.iter().map(|r| products_of(&order, r.region)).collect();
        let mut front = products_of(&order, kernel.body);
        let inside: Set<Inst> = of.iter().flatten().copied().collect();
        front.retain(|i| !inside.contains(i));
        let mut products = |list: Vec<Inst>, task: Option<&TaskRole>| -> Result<(), LowerError> {
            let warps = task.map_or(warps, |t| t.warps[1]);
            let mut own = BTreeMap::new();
            for i in list {
                let q = product(kernel, units, i, warps / group).map_err(|why| LowerError::NoProduct {
                    op: kernel.insts[i].op,
                    why: Box::new(why),
                    loc: kernel.locs[i],
                })?;
                own.insert(i, q);
            }
            let found = copies(kernel, units, &own, warps / group, &|_, _| true);
            for (&i, &q) in &own {
                product_registers(kernel, units, (i, q, warps / group), (&found, &registers), task).map_err(|e| e.at(kernel.locs[i]))?;
            }
            dots.extend(own);
            all.products.extend(found.products);
            all.readers.extend(found.readers);
            Ok(())
        };
        products(front, None)?;
        for (r, list) in roles.iter().zip(of) {
            products(list, Some(r))?;
        }
    }
    if warps > target.max_warps {
        return Err(LowerError::ResourceExceeded {
            resource: Resource::Warps,
            need: warps.into(),
            have: target.max_warps.into(),
            remedy: Box::new(Remedy::Tasks),
            loc: Default::default(),
        });
    }
    let by_lanes = target.moves_by_lanes();
    let fetches = Rc::new(fetches(kernel, &placed.buffers, by_lanes));
    let Buffers { buffers, boxes, rounded, locals } = placed;
    Ok(TaskPlan {
        roles,
        idle,
        warps,
        group,
        front,
        unproven: options.proof == ProofScope::Nothing,
        buffers,
        boxes,
        rounded,
        dots,
        copies: all,
        locals: Rc::new(locals),
        fetches,
        by_lanes,
    })
}

/// The asynchronous products of a region, in program order.
fn products_of(order: &ProgramOrder, r: Region) -> Vec<Inst> {
    order.with(r, |op| op == Op::AsyncDot).collect()
}

/// Refuses meetings that can't take place, of a kernel with these instructions: with a cluster where there is none, and at named barriers of warps that are
/// not there.
fn meetings(kernel: &Kernel, insts: &[Inst]) -> Result<(), LowerError> {
    let named = |op: Op| matches!(op, Op::NamedBarrierSync | Op::NamedBarrierArrive);
    // The warps of the task that an instruction stands in, and those of all.
    let (mut own, mut all) = (BTreeMap::new(), 0);
    if insts.iter().any(|&i| named(kernel.insts[i].op))
        && let Some(i) = tasks(kernel)
        && let Some(Attr::Tasks(list)) = kernel.insts[i].attrs.first()
    {
        for (t, &r) in list.iter().zip(&kernel.insts[i].regions) {
            all += t.warps * t.replicas;
            kernel.walk(r, &mut |i| {
                if named(kernel.insts[i].op) {
                    own.insert(i, t.warps);
                }
            });
        }
    }
    for &i in insts {
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
            ) if kernel.cluster <= 1 => NoMeeting::Cluster,
            (Op::NamedBarrierSync | Op::NamedBarrierArrive, None, _) => NoMeeting::NoTask,
            (Op::NamedBarrierSync | Op::NamedBarrierArrive, Some(&own), Some(&Attr::Count(n))) if !(own..=all).contains(&n) => {
                NoMeeting::Warps { meet: n, own, all }
            }
            _ => continue,
        };
        return Err(LowerError::from(Unsupported::Meeting(d.op, why)).at(kernel.locs[i]));
    }
    Ok(())
}

/// Refuses turns of what is no task of whole warpgroups.
fn turns(kernel: &Kernel, order: &ProgramOrder, roles: &[TaskRole], group: u32) -> Result<(), LowerError> {
    let mut inside = BTreeMap::new();
    for i in order.with(kernel.body, takes_turns) {
        if inside.is_empty() {
            for r in roles {
                let replicas = roles.iter().filter(|other| other.region == r.region).count() as u32;
                inside.extend(order.insts(r.region).iter().map(|&i| (i, (r.warps[1], replicas))));
            }
        }
        let why = match inside.get(&i) {
            None => NoMeeting::TurnsOutside,
            Some(&(warps, 1)) if warps.is_multiple_of(group) => continue,
            Some(&(warps, replicas)) => NoMeeting::Turns { warps, group, replicas },
        };
        return Err(LowerError::from(Unsupported::Meeting(kernel.insts[i].op, why)).at(kernel.locs[i]));
    }
    Ok(())
}

/// True for the ends of turns of a task's warpgroups.
pub fn takes_turns(op: Op) -> bool {
    matches!(op, Op::TurnFirst | Op::TurnWait | Op::TurnPass | Op::TurnLast)
}

/// True if one lane can do all that a region asks for.
fn single(kernel: &Kernel, order: &ProgramOrder, r: Region) -> bool {
    let by_lanes = |&i: &Inst| {
        let d = &kernel.insts[i];
        let tile = |v: &tilelift_ir::Value| matches!(kernel.ty(*v), Type::Tile(_));
        let together = matches!(
            d.op,
            Op::NamedBarrierSync
                | Op::NamedBarrierArrive
                | Op::TurnFirst
                | Op::TurnWait
                | Op::TurnPass
                | Op::TurnLast
                | Op::ClusterArrive
                | Op::ClusterWait
                | Op::ClusterBarrier
                | Op::Print
                | Op::Assert
                | Op::While
                | Op::Load
                | Op::Store
                | Op::Prefetch
                | Op::CopyAsync
                | Op::GatherAsync
                | Op::CopyAsyncCommit
                | Op::CopyAsyncWait
                | Op::CopyAsyncArrive
                | Op::Atomic
                | Op::AtomicCas
        );
        together || d.args.iter().chain(&d.results).any(tile) || d.op == Op::LocalLoad || d.op == Op::LocalStore
    };
    !order.insts(r).iter().any(by_lanes)
}

/// Tasks on their warps.
struct Placed {
    roles: Vec<TaskRole>,
    idle: Vec<IdleWarps>,
    warps: u32,
    front: u32,
}

/// Places the tasks on warps.
fn roles(kernel: &Kernel, order: &ProgramOrder, target: &Target, (units, i): (&Units, Inst)) -> Result<Placed, LowerError> {
    let d = &kernel.insts[i];
    let list = if let Some(Attr::Tasks(list)) = d.attrs.first() { &list[..] } else { &[] };
    let group = units.group_warps;
    let mut next = 0u32;
    let mut out = Vec::new();
    for (t, &region) in list.iter().zip(&d.regions) {
        let single = single(kernel, order, region);
        for replica in 0..t.replicas {
            // Groups multiply, and change registers, as a whole.
            let whole = t.warps >= group || t.registers.is_some();
            let first = if whole { next.next_multiple_of(group) } else { next };
            // A task of a warp or two stays in one warpgroup.
            let first = if first / group != (first + t.warps - 1) / group { first.next_multiple_of(group) } else { first };
            let idle = if t.registers.is_some() { t.warps.next_multiple_of(group) - t.warps } else { 0 };
            let name = if t.replicas > 1 { format!("{}{replica}", t.name) } else { t.name.clone() };
            out.push(TaskRole {
                task: t.name.clone(),
                name,
                region,
                replica,
                warps: [first, t.warps],
                idle,
                single,
                registers: t.registers,
            });
            next = first + t.warps + idle;
        }
    }
    let group_of = |warps: u32| if out.iter().any(|r| r.registers.is_some()) { warps.next_multiple_of(group) } else { warps };
    let front = front(kernel, i);
    // Layouts are for powers of two.
    let mut warps = group_of(if front == TaskFront::Spread { next.next_power_of_two() } else { next });
    let idle = share(kernel, target, units, &mut out, &mut warps)?;
    let front = if front == TaskFront::Whole && !warps.is_power_of_two() { 1 } else { warps };
    Ok(Placed { roles: out, idle, warps, front })
}

/// What stands in front of tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskFront {
    /// No tiles.
    Scalars,
    /// Short rows that are loaded or computed: every warp may have them whole.
    Whole,
    /// Tiles that are spread over all warps.
    Spread,
}

/// Elements of a row that every warp has whole at most: a few registers of each lane, which pass among its lanes.
const WHOLE: u64 = 256;

fn front(kernel: &Kernel, tasks: Inst) -> TaskFront {
    let mut found = TaskFront::Scalars;
    let mut look = |i: Inst| {
        let d = &kernel.insts[i];
        let mut tiles = d.results.iter().chain(&d.args).filter_map(|&v| if let Type::Tile(t) = kernel.ty(v) { Some(t) } else { None });
        // Operands of a dot may wait in shared memory, which all warps would write.
        let mut whole = matches!(d.op.info().effects, Effects::Pure) && d.op != Op::Dot || d.op == Op::Load;
        let mut any = false;
        for t in &mut tiles {
            any = true;
            whole &= t.elements() <= WHOLE && t.shape.iter().filter(|&&e| e > 1).count() <= 1;
        }
        found = match (any, whole) {
            (true, false) => TaskFront::Spread,
            (true, true) if found == TaskFront::Scalars => TaskFront::Whole,
            _ => found,
        };
    };
    for &j in kernel.regions[kernel.body].insts.iter().filter(|&&j| j != tasks) {
        look(j);
        kernel.insts[j].regions.iter().for_each(|&r| kernel.walk(r, &mut look));
    }
    found
}

/// Refuses a product whose operands the registers do not hold: those of its task, and what the program starts with, where assemblers look.
fn product_registers(
    kernel: &Kernel,
    units: &Units,
    (i, q, groups): (Inst, GroupMatrixId, u32),
    (copies, registers): (&Copies, &Registers),
    task: Option<&TaskRole>,
) -> Result<(), LowerError> {
    let row = &units.matrix[q.index()];
    let d = &kernel.insts[i];
    let Type::Tile(t) = kernel.ty(d.results[0]) else { return Ok(()) };
    let n = t.shape.last().copied().unwrap_or(0);
    let across = copies.shares(row, i, [t.shape[0], n], groups).map_or(1, |s| s[1]);
    let left = handle(kernel, d.args[0]).is_none();
    let operands = |n: u32| row.registers(n, left);
    let asked = task.and_then(|t| t.registers);
    let Err([need, have]) = registers.check_matrix(Some(operands(n / across)), asked) else { return Ok(()) };
    let fits =
        (1..n / across / row.n_step).rev().map(|k| k * row.n_step).find(|&n| registers.check_matrix(Some(operands(n)), asked).is_ok());
    Err(LowerError::ResourceExceeded {
        resource: Resource::ProductRegisters,
        need: need.into(),
        have: have.into(),
        remedy: Box::new(Remedy::Product { columns: fits.map(|n| n * across), asked: asked == Some(have) }),
        loc: Default::default(),
    })
}

/// The instruction for an asynchronous product.
fn product(kernel: &Kernel, units: &Units, i: Inst, groups: u32) -> Result<GroupMatrixId, NoProduct> {
    let d = &kernel.insts[i];
    let precision = match d.attrs.first() {
        Some(Attr::Precision(p)) => *p,
        _ => Precision::Exact,
    };
    let (ea, eb, acc) = (kernel.ty(d.args[0]).elem(), kernel.ty(d.args[1]).elem(), kernel.ty(d.results[0]).elem());
    let Some(at) = units.matrix.iter().position(|x| x.takes([ea, eb], acc, precision)) else {
        return Err(NoProduct::Types { elems: [ea, eb, acc], precision });
    };
    let row = &units.matrix[at];
    let shape = |v: tilelift_ir::Value| match kernel.ty(v) {
        Type::Tile(t) => t.shape.to_vec(),
        Type::Shared(t) => t.shape.to_vec(),
        _ => Vec::new(),
    };
    let (a, c) = (shape(d.args[0]), shape(d.args[2]));
    let (&[m, k], &[_, n]) = (&a[..], &c[..]) else { return Err(NoProduct::NoMatrices) };
    if groups == 0 {
        return Err(NoProduct::Warps { group: units.group_warps });
    }
    if row.shares([m, n], groups).is_none() || !k.is_multiple_of(row.k) {
        let (each, columns) = ([row.m, row.k], [row.n_step, row.n_max]);
        return Err(NoProduct::Shape { shape: [m, n, k], groups: Some(groups), each, columns });
    }
    if handle(kernel, d.args[0]).is_none() && row.a.is_none() {
        return Err(NoProduct::NoRegisters { instruction: row.name });
    }
    Ok(GroupMatrixId::new(at))
}
