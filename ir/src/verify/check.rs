//! The walk over a kernel: structure, scope, and what each value's type must be by itself.

use super::error::{Place, VerifyCode, VerifyError};
use crate::entities::{Inst, Region, Value};
use crate::kernel::{InstData, Kernel, Loc, ValueDef, is_identifier};
use crate::ops::{Op, Rule};
use crate::text::MAX_NESTING;
use crate::types::{Extent, MAX_RANK, Type, ViewType};
use crate::typing::check_tile;
use crate::typing::{MAX_WARPS, check_handle};
use cranelift_entity::SecondaryMap;

/// The largest alignment that a view may promise, in bytes: a page.
const MAX_ALIGN: u32 = 4096;
/// The most stages of a pipelined loop.
const MAX_STAGES: u32 = 16;

/// Where the walk stands with a value.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Not met yet.
    #[default]
    Ahead,
    /// May be used.
    Open,
    /// Its region has ended.
    Closed,
}

pub(super) struct Checker<'k> {
    pub(super) k: &'k Kernel,
    errors: Vec<VerifyError>,
    states: SecondaryMap<Value, State>,
    /// Values whose type is unsound by itself; what uses them is not typed.
    unsound: SecondaryMap<Value, bool>,
    /// Instructions that stand in some region's list.
    listed: SecondaryMap<Inst, bool>,
    placed: SecondaryMap<Inst, bool>,
    entered: SecondaryMap<Region, bool>,
    /// Values defined in each open region.
    scopes: Vec<Vec<Value>>,
    /// The scope in which each value was defined.
    depths: SecondaryMap<Value, u32>,
    /// The scope of the task that the walk is in.
    task: Option<u32>,
    /// Instances ask which worker they are.
    pub(super) persistent: bool,
}

/// Every broken rule of a kernel.
pub(super) fn check(kernel: &Kernel) -> Vec<VerifyError> {
    let mut c = Checker {
        k: kernel,
        errors: Vec::new(),
        states: kernel.by_value(),
        unsound: SecondaryMap::new(),
        listed: kernel.by_inst(),
        placed: kernel.by_inst(),
        entered: SecondaryMap::new(),
        scopes: vec![Vec::new()],
        depths: kernel.by_value(),
        task: None,
        persistent: kernel.insts.values().any(|d| matches!(d.op, Op::WorkerId | Op::NumWorkers)),
    };
    // Names beyond the arenas must not grow the maps, so only what exists is noted.
    for r in kernel.regions.values() {
        for &i in r.insts.iter().filter(|&&i| kernel.insts.is_valid(i)) {
            c.listed[i] = true;
        }
    }
    c.header();
    c.params();
    c.body();
    if c.errors.is_empty() {
        c.layouts();
        c.products();
    }
    c.errors
}

impl<'k> Checker<'k> {
    pub(super) fn error(&mut self, code: VerifyCode, place: Place, loc: Loc, message: impl Into<String>) {
        self.errors.push(VerifyError { code, place, loc, message: message.into() });
    }

    pub(super) fn error_inst(&mut self, code: VerifyCode, inst: Inst, message: impl Into<String>) {
        let loc = self.loc(inst);
        self.error(code, Place::Inst(inst), loc, message);
    }

    pub(super) fn loc(&self, inst: Inst) -> Loc {
        self.k.locs.get(inst).copied().unwrap_or_default()
    }

    /// The type of a value, if it exists and its type is sound by itself.
    pub(super) fn sound_type(&self, v: Value) -> Option<&Type> {
        self.k.values.get(v).filter(|_| !self.unsound[v]).map(|d| &d.ty)
    }

    fn header(&mut self) {
        let k = self.k;
        let mut say = |code, loc, message: String| self.error(code, Place::Kernel, loc, message);
        if !is_identifier(&k.name) {
            say(VerifyCode::Name, Loc::default(), format!("{:?} is no kernel name; use a letter or _, then letters, digits and _", k.name));
        }
        if let Some(n) = k.hints.warps
            && !(n.is_power_of_two() && n <= MAX_WARPS)
        {
            say(VerifyCode::HintRange, k.hint_locs[0], format!("warps={n} is not a power of two from 1 to {MAX_WARPS}"));
        }
        if let Some(n) = k.hints.stages
            && !(1..=MAX_STAGES).contains(&n)
        {
            say(VerifyCode::HintRange, k.hint_locs[1], format!("stages={n} is not from 1 to {MAX_STAGES}"));
        }
        if !matches!(k.cluster, 1 | 2 | 4 | 8 | 16) {
            let message = format!("a cluster has {} program instances; it takes 1, 2, 4, 8 or 16", k.cluster);
            say(VerifyCode::ClusterRange, k.hint_locs[2], message);
        }
        if k.positions.contains(&0) {
            let message = format!("an instance stands for {:?} grid positions; it takes 1 at least along each axis", k.positions);
            say(VerifyCode::HintRange, k.hint_locs[3], message);
        }
    }

    fn params(&mut self) {
        let k = self.k;
        for (n, &v) in k.params.iter().enumerate() {
            let place = Place::Param(n as u32);
            let Some(ty) = self.define(v, ValueDef::KernelParam(n as u32), place, Loc::default()) else { continue };
            match ty {
                Type::Scalar(_) => {}
                Type::Tile(t) => {
                    self.unsound[v] |= check_tile(t).is_err();
                    self.error(
                        VerifyCode::ParamType,
                        place,
                        Loc::default(),
                        format!("a parameter can't be {t}; pass a view and load the tile"),
                    );
                }
                Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {
                    self.unsound[v] = true;
                    self.error(
                        VerifyCode::ParamType,
                        place,
                        Loc::default(),
                        format!("a parameter can't be {ty}; allocate it in the kernel's body"),
                    );
                }
                Type::View(view) => {
                    for message in view_faults(view) {
                        self.unsound[v] = true;
                        self.error(VerifyCode::ViewFacts, place, Loc::default(), message);
                    }
                }
            }
        }
    }

    /// Notes that a value is defined here; its type, unless something else is wrong with it.
    fn define(&mut self, v: Value, def: ValueDef, place: Place, loc: Loc) -> Option<&'k Type> {
        let k = self.k;
        let Some(data) = k.values.get(v) else {
            self.error(VerifyCode::BadReference, place, loc, format!("{v} does not exist; the kernel has {} values", k.values.len()));
            return None;
        };
        if data.def != def {
            let message = format!(
                "{v} stands here as {def:?}, but says that it is {:?}; make values with add_param, add_region_param and add_inst",
                data.def
            );
            self.error(VerifyCode::Origin, place, loc, message);
            return None;
        }
        if self.states[v] == State::Ahead {
            self.states[v] = State::Open;
            self.depths[v] = self.scopes.len() as u32;
            if let Some(s) = self.scopes.last_mut() {
                s.push(v);
            }
        }
        Some(&data.ty)
    }

    /// Defines a result or region parameter: a scalar or a tile within limits, or the handle that an op makes.
    fn define_inner(&mut self, v: Value, def: ValueDef, loc: Loc) {
        match self.define(v, def, Place::Value(v), loc) {
            Some(Type::Tile(t)) => {
                if let Err(message) = check_tile(t) {
                    self.unsound[v] = true;
                    self.error(VerifyCode::TileLimits, Place::Value(v), loc, message);
                }
            }
            Some(Type::View(t)) => {
                self.unsound[v] = true;
                let message = format!("{} is {t}; only kernel parameters are views, so use the parameter itself", self.k.value_text(v));
                self.error(VerifyCode::ViewPlace, Place::Value(v), loc, message);
            }
            Some(ty @ (Type::Shared(_) | Type::Barrier(_) | Type::Channel(_))) => {
                let by = if let ValueDef::Result(by, _) = def { self.k.insts.get(by) } else { None };
                if !by.is_some_and(|d| matches!(d.op.info().rule, Rule::Handle | Rule::Local)) {
                    self.unsound[v] = true;
                    let name = self.k.value_text(v);
                    let message =
                        format!("{name} is {ty}; handles are neither carried nor yielded, so use the handle itself, or an index of it");
                    self.error(VerifyCode::HandlePlace, Place::Value(v), loc, message);
                } else if let Err(message) = check_handle(ty) {
                    self.unsound[v] = true;
                    self.error(VerifyCode::TileLimits, Place::Value(v), loc, message);
                }
            }
            Some(Type::Scalar(_)) | None => {}
        }
    }

    fn body(&mut self) {
        let k = self.k;
        let Some(body) = k.regions.get(k.body) else {
            return self.error(
                VerifyCode::BadReference,
                Place::Region(k.body),
                Loc::default(),
                "the body does not exist; make it with add_region",
            );
        };
        if !body.params.is_empty() {
            let message = format!("the body has {} parameters; the kernel's parameters stand in `params`", body.params.len());
            self.error(VerifyCode::RegionParams, Place::Region(k.body), Loc::default(), message);
        }
        self.region(k.body, Loc::default());
    }

    /// A region that exists: its parameters and instructions. `loc` is the place of the instruction that holds it.
    fn region(&mut self, r: Region, loc: Loc) {
        let k = self.k;
        let Some(data) = k.regions.get(r) else { return };
        if std::mem::replace(&mut self.entered[r], true) {
            return self.error(
                VerifyCode::RegionShared,
                Place::Region(r),
                loc,
                format!("{r} is held twice; give each instruction regions of its own"),
            );
        }
        if self.scopes.len() > MAX_NESTING + 1 {
            let message = format!("regions nest deeper than {MAX_NESTING}; flatten the loops");
            return self.error(VerifyCode::Nesting, Place::Region(r), loc, message);
        }
        for (n, &v) in data.params.iter().enumerate() {
            self.define_inner(v, ValueDef::RegionParam(r, n as u32), loc);
        }
        let is_body = r == k.body;
        for (n, &i) in data.insts.iter().enumerate() {
            let Some(d) = k.insts.get(i) else {
                let message = format!("{i} does not exist; the kernel has {} instructions", k.insts.len());
                self.error(VerifyCode::BadReference, Place::Region(r), loc, message);
                continue;
            };
            if std::mem::replace(&mut self.placed[i], true) {
                self.error_inst(VerifyCode::PlacedTwice, i, format!("{i} (`{}`) stands in two places; make a second instruction", d.op));
                continue;
            }
            if d.op == Op::Yield && (is_body || n + 1 < data.insts.len()) {
                let remedy = if is_body { "the kernel's body has none; remove it" } else { "it ends a region; remove it or what follows" };
                self.error_inst(VerifyCode::StrayYield, i, format!("a `yield` stands out of place: {remedy}"));
            }
            self.placed(i, d, is_body, n + 1 == data.insts.len());
            self.inst(i, d);
        }
        let ended = data.insts.last().and_then(|&i| k.insts.get(i)).is_some_and(|d| d.op == Op::Yield);
        if !is_body && !ended {
            let of = k.holder(r).and_then(|i| k.insts.get(i)).map_or_else(|| format!("{r}"), |d| format!("a block of `{}`", d.op));
            self.error(
                VerifyCode::MissingYield,
                Place::Region(r),
                loc,
                format!("{of} ends without `yield`; end it with `yield` and its values"),
            );
        }
    }

    fn inst(&mut self, i: Inst, d: &'k InstData) {
        let operands = self.operands(i, d);
        let row = self.row(i, d);
        let loc = self.loc(i);
        for &r in &d.regions {
            if !self.k.regions.is_valid(r) {
                self.error_inst(
                    VerifyCode::BadReference,
                    i,
                    format!("{r} does not exist; the kernel has {} regions", self.k.regions.len()),
                );
                continue;
            }
            self.scopes.push(Vec::new());
            let outer = self.task;
            if d.op == Op::Tasks {
                self.task = Some(self.scopes.len() as u32);
            }
            self.region(r, loc);
            self.task = outer;
            for v in self.scopes.pop().unwrap_or_default() {
                self.states[v] = State::Closed;
            }
        }
        if row {
            if d.op.info().regions > 0 {
                self.control(i, d);
            } else if operands {
                self.types(i, d);
            }
        }
        for (n, &v) in d.results.iter().enumerate() {
            self.define_inner(v, ValueDef::Result(i, n as u32), loc);
        }
    }

    /// Existence, scope and place of the operands; true if they can be typed.
    fn operands(&mut self, i: Inst, d: &InstData) -> bool {
        let k = self.k;
        let before = self.errors.len();
        let mut sound = true;
        for (n, &v) in d.args.iter().enumerate() {
            let Some(data) = k.values.get(v) else {
                self.error_inst(
                    VerifyCode::BadReference,
                    i,
                    format!("operand {v} does not exist; the kernel has {} values", k.values.len()),
                );
                continue;
            };
            match self.states[v] {
                State::Open => {}
                State::Closed => {
                    let name = k.value_text(v);
                    let message = format!(
                        "operand {name} belongs to a region that has ended; yield it and use the result of the region's instruction"
                    );
                    self.error_inst(VerifyCode::OutOfScope, i, message);
                }
                State::Ahead => self.not_defined(i, v, data.def),
            }
            let view_place = n == 0 && d.op.info().operands.first().is_some_and(|o| o.name == "view");
            if matches!(data.ty, Type::View(_)) && !view_place {
                let name = k.value_text(v);
                let message = format!("operand {name} of `{}` is a view; load a tile of it, or use the view where it is needed", d.op);
                self.error_inst(VerifyCode::ViewPlace, i, message);
            }
            let outside = self.task.is_some_and(|t| self.states[v] == State::Open && self.depths[v] < t);
            self.explicit_operand(i, d, n, v, outside);
            sound &= !self.unsound[v];
        }
        sound && self.errors.len() == before
    }

    /// Says why an operand that the walk has not met is no good.
    fn not_defined(&mut self, i: Inst, v: Value, def: ValueDef) {
        let k = self.k;
        let name = k.value_text(v);
        let (code, message) = match def {
            ValueDef::Result(by, n) if k.insts.get(by).is_some_and(|d| d.results.get(n as usize) == Some(&v)) && self.listed[by] => {
                (VerifyCode::UseBeforeDefinition, format!("operand {name} is defined by {by}, which stands later; move one of the two"))
            }
            ValueDef::RegionParam(r, n) if k.regions.get(r).is_some_and(|d| d.params.get(n as usize) == Some(&v)) => (
                VerifyCode::OutOfScope,
                format!("operand {name} is a parameter of {r}, which does not enclose the use; carry or yield the value"),
            ),
            ValueDef::Result(..) | ValueDef::RegionParam(..) | ValueDef::KernelParam(_) => (
                VerifyCode::Undefined,
                format!("operand {name} is defined nowhere in the kernel; place its instruction, or use another value"),
            ),
        };
        self.error_inst(code, i, message);
    }
}

/// What is wrong with a view's facts.
fn view_faults(view: &ViewType) -> Vec<String> {
    let mut out = Vec::new();
    let rank = view.rank();
    if !(1..=MAX_RANK).contains(&rank) {
        out.push(format!("{view} has {rank} dimensions; a view has 1 to {MAX_RANK}"));
    }
    let strides = view.strides.as_deref().unwrap_or(&[]);
    if view.strides.is_some() && strides.len() != rank {
        out.push(format!("{view} has {rank} dimensions and {} strides; give one stride per dimension", strides.len()));
    }
    if view.dims.iter().chain(strides).any(|e| matches!(e, Extent::Dynamic(0))) {
        out.push(format!("{view} says ?%0; a divisor is positive"));
    }
    if view.dims.iter().chain(strides).any(|e| e.divisor() > i32::MAX as u32) {
        out.push(format!("{view} has an extent, stride or divisor above {}; extents are i32", i32::MAX));
    }
    if view.elem.is_packed() && (1..=MAX_RANK).contains(&rank) && (view.strides.is_none() || strides.len() == rank) {
        // The extent of the innermost dimension, and the steps of all others, in whole bytes.
        let even = |e: Extent| e.divisor().is_multiple_of(2);
        let odd_step = (0..rank - 1).find(|&d| !even(view.stride(d)));
        if !even(view.dims[rank - 1]) {
            out.push(format!(
                "{view} has rows that may end inside a byte; two {} share one, so promise an even last extent (`?%2`)",
                view.elem
            ));
        } else if view.stride(rank - 1) != Extent::Fixed(1) {
            out.push(format!("{view} has elements that are not neighbours; two {} share a byte, so the last stride is 1", view.elem));
        } else if let Some(d) = odd_step {
            out.push(format!("{view} has rows that may begin inside a byte; promise an even stride {d} (`?%2`)"));
        }
    }
    if !view.align.is_power_of_two() || view.align > MAX_ALIGN || view.align < view.elem.bytes() {
        out.push(format!(
            "{view} is aligned to {} bytes; an alignment is a power of two from the element's {} to {MAX_ALIGN}",
            view.align,
            view.elem.bytes()
        ));
    }
    out
}
