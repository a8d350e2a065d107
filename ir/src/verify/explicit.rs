//! Checks of explicit control: where tasks and allocations stand, what tasks use, where handles go.

use super::check::Checker;
use super::error::VerifyCode;
use crate::entities::{Inst, Value};
use crate::kernel::{InstData, ValueDef, is_identifier};
use crate::ops::{Attr, Literal, Op, Rule, Task};
use crate::types::{Scalar, Type};
use crate::typing::MAX_WARPS;

/// Registers per lane that a task may ask for.
const REGISTERS: std::ops::RangeInclusive<u32> = 24..=240;

impl<'k> Checker<'k> {
    /// Where an instruction stands; `last` if nothing follows it in its region.
    pub(super) fn placed(&mut self, i: Inst, d: &InstData, in_body: bool, last: bool) {
        match d.op {
            Op::Tasks if !in_body => {
                self.error_inst(VerifyCode::TasksPlace, i, "`tasks` stands inside a region; it belongs at the end of the kernel's body");
            }
            Op::Tasks if !last => {
                let message =
                    "something follows `tasks`; it is the last instruction of the kernel's body, so move what follows into a task";
                self.error_inst(VerifyCode::TasksPlace, i, message);
            }
            Op::ProgramId if self.persistent => {
                let message = "`program_id` stands beside `worker_id`, whose kernel takes many positions of the grid; count them instead: \
                               `for v1 in worker_id..all step num_workers`";
                self.error_inst(VerifyCode::Persistent, i, message);
            }
            Op::WorkerId | Op::NumWorkers if self.k.cluster != 1 => {
                let message =
                    format!("`{}` stands in a kernel with clusters, whose instances do not run one by one; remove `cluster`", d.op);
                self.error_inst(VerifyCode::Persistent, i, message);
            }
            Op::LocalAlloc | Op::BarrierAlloc | Op::ChannelAlloc if !in_body => {
                let message =
                    format!("`{}` stands inside a region; move it to the kernel's body, in front of the regions that use it", d.op);
                self.error_inst(VerifyCode::AllocPlace, i, message);
            }
            _ => {}
        }
    }

    /// Number, names, warps and registers of tasks, and their regions' parameters.
    pub(super) fn tasks(&mut self, i: Inst, d: &'k InstData) {
        let Some(Attr::Tasks(tasks)) = d.attrs.first() else { return };
        for (n, t) in tasks.iter().enumerate() {
            for message in task_faults(t, &tasks[..n]) {
                self.error_inst(VerifyCode::TaskShape, i, message);
            }
        }
        let warps = tasks.iter().fold(0u32, |n, t| n.saturating_add(t.warps.saturating_mul(t.replicas)));
        if tasks.is_empty() || warps > MAX_WARPS {
            let message = format!("`tasks` has {} tasks of {warps} warps together; it takes 1 to {MAX_WARPS} warps", tasks.len());
            self.error_inst(VerifyCode::TaskShape, i, message);
        }
        for &r in &d.regions {
            self.region_params(i, r, &[Type::Scalar(Scalar::I32)]);
            self.yield_types(i, r, &[]);
        }
        self.results(i, d, &[]);
        if self.k.hints.warps.is_some() {
            let message = "`warps=` stands beside `tasks`, which say how many warps there are; remove the hint";
            self.error(VerifyCode::HintRange, super::Place::Kernel, self.k.hint_locs[0], message);
        }
    }

    /// What an operand may be of explicit control, where it is used: `outside` if it is defined in front of the task around the use.
    pub(super) fn explicit_operand(&mut self, i: Inst, d: &InstData, n: usize, v: Value, outside: bool) {
        let Some(data) = self.k.values.get(v) else { return };
        let k = self.k;
        let name = k.value_name(v);
        if outside && matches!(data.ty, Type::Tile(_)) {
            let message = format!(
                "operand {name} is {}, which was made in front of the tasks; tiles belong to lanes, so make it in the task or pass it through \
                 local memory",
                data.ty
            );
            self.error_inst(VerifyCode::TaskCapture, i, message);
        }
        let rule = d.op.info().rule;
        if data.ty.is_handle() && !matches!(rule, Rule::Handle | Rule::Local | Rule::Act | Rule::Receive) {
            let message = format!(
                "operand {name} of `{}` is {}; handles are named where they are used, never carried, yielded or computed with",
                d.op, data.ty
            );
            self.error_inst(VerifyCode::HandlePlace, i, message);
        }
        self.position(i, d, n, v);
        let ValueDef::Result(by, _) = data.def else { return };
        let Some(maker) = self.k.insts.get(by).map(|m| (m.op, m.args.is_empty())) else { return };
        let whole = match d.op {
            Op::LocalAlloc => maker == (Op::LocalAlloc, true),
            Op::LocalReinterpret => !matches!(maker.0, Op::LocalSlice | Op::LocalTranspose),
            _ => true,
        };
        if !whole {
            let message = if d.op == Op::LocalAlloc {
                format!("`alias={name}` names no allocation of its own; name the one that owns the bytes")
            } else {
                format!("`{}` takes the bytes of {name}, which is a slice or transposed; reinterpret the whole buffer first", d.op)
            };
            self.error_inst(VerifyCode::WholeBuffer, i, message);
        }
        let waits = matches!(d.op, Op::AsyncDotWait | Op::Yield | Op::For | Op::While) || d.op == Op::AsyncDot && n == 2;
        if maker.0 == Op::AsyncDot && !waits {
            let message = format!("operand {name} of `{}` is a product in flight; read the result of an `async_dot_wait` of it", d.op);
            self.error_inst(VerifyCode::ProductInFlight, i, message);
        }
    }
}

impl Checker<'_> {
    /// A literal position is inside of what it indexes.
    fn position(&mut self, i: Inst, d: &InstData, n: usize, v: Value) {
        if !matches!(d.op, Op::LocalIndex | Op::BarrierIndex) || n != 1 {
            return;
        }
        let Some(ValueDef::Result(by, _)) = self.k.values.get(v).map(|v| v.def) else { return };
        let Some(Attr::Literal(Literal::Int(at))) = self.k.insts.get(by).filter(|m| m.op == Op::Const).and_then(|m| m.attrs.first()) else {
            return;
        };
        let (count, what) = match d.args.first().and_then(|&v| self.sound_type(v)) {
            Some(Type::Barrier(count)) => (*count, "barrier"),
            Some(Type::Shared(s)) => (s.shape.first().copied().unwrap_or(0), "part"),
            _ => return,
        };
        if !(0..i64::from(count)).contains(at) {
            let message = format!(
                "`{}` takes position {at} of {}, which has {count} {what}{}; take one from 0 to {}, or allocate more",
                d.op,
                self.k.ty(d.args[0]),
                if count == 1 { "" } else { "s" },
                count.saturating_sub(1)
            );
            self.error_inst(VerifyCode::Position, i, message);
        }
    }
}

/// What is wrong with a task; `before` are those in front of it.
fn task_faults(t: &Task, before: &[Task]) -> Vec<String> {
    let mut out = Vec::new();
    if !is_identifier(&t.name) {
        out.push(format!("{:?} is no name of a task; use a letter or _, then letters, digits and _", t.name));
    }
    if before.iter().any(|b| b.name == t.name) {
        out.push(format!("two tasks have the name {}; rename one, or use replicas", t.name));
    }
    if !(t.warps.is_power_of_two() && t.warps <= MAX_WARPS) {
        out.push(format!("task {} has {} warps; it takes a power of two up to {MAX_WARPS}", t.name, t.warps));
    }
    if let Some(n) = t.registers
        && !(REGISTERS.contains(&n) && n % 8 == 0)
    {
        out.push(format!("task {} has {n} registers; it takes a multiple of 8 from {} to {}", t.name, REGISTERS.start(), REGISTERS.end()));
    }
    if t.replicas == 0 {
        out.push(format!("task {} has no replicas; it takes at least 1", t.name));
    }
    out
}
