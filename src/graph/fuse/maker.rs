//! Makes a kernel of parts of others: parameters follow from the tensors and scalars that the parts use, instructions are typed by the
//! IR's own rules, and [`Copier`] copies a body with room for a change at each instruction.

use super::atoms::ScalarKey;
use super::report::{FuseRule, Refusal, RefusalKind};
use crate::graph::nodes::{Graph, Node, NodeArg, TensorId};
use crate::graph::size::Size;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::typing::result_type;
use tilelift_ir::{Attr, CmpOp, Cursor, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

/// Characters of a fused kernel's name.
const LONGEST_NAME: usize = 100;

/// The name of a kernel that is made of others.
pub(crate) fn joined_name<'n>(kernels: impl Iterator<Item = &'n Kernel>) -> String {
    let mut name = kernels.map(|k| k.name.as_str()).collect::<Vec<_>>().join("_");
    // Names are letters, digits and _.
    name.truncate(LONGEST_NAME);
    name
}

/// The conversion by which a value got its element type.
pub(super) fn conversion(kernel: &Kernel, mut v: Value) -> Option<Inst> {
    loop {
        let inst = kernel.def_inst(v)?;
        match kernel.insts[inst].op {
            Op::Cast => return Some(inst),
            Op::Reshape | Op::Transpose | Op::Broadcast | Op::Slice => v = kernel.insts[inst].args[0],
            _ => return None,
        }
    }
}

/// What is known of the first index of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Start {
    /// The number that it is.
    pub number: Option<i32>,
    /// It may be below 0.
    pub low: bool,
}

/// A kernel in the making.
pub(crate) struct Maker<'g> {
    pub graph: &'g Graph,
    pub kernel: Kernel,
    pub args: Vec<NodeArg>,
    /// Where instructions go, a cursor per region that is being made, the kernel's body first.
    at: Vec<Cursor>,
    /// The number of regions around each value.
    levels: BTreeMap<Value, usize>,
    /// The tensors that shall disappear.
    gone: Vec<TensorId>,
    /// Tensors whose extents stand in for those of one that is gone.
    others: Vec<TensorId>,
    /// The rules by which producers were written again.
    pub rules: Vec<FuseRule>,
    /// Conversions to the element type of a tensor that is stored no more, which may be left out.
    pub narrowed: BTreeSet<Value>,
}

impl<'g> Maker<'g> {
    pub fn new(graph: &'g Graph, name: &str, gone: Vec<TensorId>, others: Vec<TensorId>) -> Maker<'g> {
        let kernel = Kernel::new(name);
        let at = vec![Cursor::start(kernel.body)];
        Maker { graph, kernel, args: Vec::new(), at, levels: BTreeMap::new(), gone, others, rules: Vec::new(), narrowed: BTreeSet::new() }
    }

    /// Starts a region; what is made goes there until [`Maker::leave`].
    pub fn enter(&mut self) -> Region {
        let region = self.kernel.add_region();
        self.at.push(Cursor::start(region));
        region
    }

    /// Ends the region that was entered last.
    pub fn leave(&mut self) {
        self.at.pop();
    }

    /// The parameter that a region that was entered gets next.
    pub fn region_param(&mut self, region: Region, ty: Type) -> Value {
        let v = self.kernel.add_region_param(region, ty);
        self.levels.insert(v, self.region_level(region));
        v
    }

    /// Regions around what is made in a region that was entered, that one with them.
    pub fn region_level(&self, region: Region) -> usize {
        self.at.iter().position(|c| c.region == region).unwrap_or(self.depth())
    }

    /// Regions around what is made now.
    pub fn depth(&self) -> usize {
        self.at.len() - 1
    }

    /// Regions around a value.
    pub fn level(&self, v: Value) -> usize {
        self.levels.get(&v).copied().unwrap_or(0)
    }

    /// Makes what follows further out, in front of the loop that is being made there; the regions inside, for [`Maker::back_in`].
    pub fn out_to(&mut self, level: usize) -> Vec<Cursor> {
        self.at.split_off((level + 1).min(self.at.len()))
    }

    /// Back in the regions that [`Maker::out_to`] left.
    pub fn back_in(&mut self, inside: Vec<Cursor>) {
        self.at.extend(inside);
    }

    /// True if a tensor shall disappear.
    pub fn is_gone(&self, id: TensorId) -> bool {
        self.gone.contains(&id)
    }

    fn param(&mut self, arg: NodeArg, ty: Type) -> Value {
        self.args.push(arg);
        self.kernel.add_param(ty)
    }

    /// The parameter of a tensor.
    pub fn view(&mut self, id: TensorId, flat: bool) -> Result<Value, Refusal> {
        let arg = if flat { NodeArg::Flat(id) } else { NodeArg::Tensor(id) };
        if self.gone.contains(&id) {
            let name = &self.graph.tensors()[id.index()].name;
            return Err(Refusal::new(RefusalKind::Place, format!("`{name}` is accessed in another way, too")));
        }
        match self.args.iter().position(|a| *a == arg) {
            Some(p) => Ok(self.kernel.params[p]),
            None => {
                let ty = self.graph.view_type(id, flat).into();
                Ok(self.param(arg, ty))
            }
        }
    }

    /// The parameter of a scalar argument.
    pub fn scalar(&mut self, arg: &NodeArg, ty: &Type) -> Value {
        let key = ScalarKey::of(arg);
        match self.args.iter().position(|a| ScalarKey::of(a) == key && key.is_some()) {
            Some(p) => self.kernel.params[p],
            None => self.param(*arg, ty.clone()),
        }
    }

    /// Appends an instruction whose results have these types.
    pub fn push(&mut self, op: Op, args: &[Value], present: u8, attrs: &[Attr], regions: &[Region], types: &[Type]) -> Inst {
        let inst = self.kernel.add_inst(op, args, present, attrs, regions, types);
        let level = self.depth();
        if let Some(at) = self.at.last_mut() {
            at.insert(&mut self.kernel, inst);
        }
        self.levels.extend(self.kernel.insts[inst].results.iter().map(|&r| (r, level)));
        inst
    }

    /// Appends an op without regions; the types of its results follow from the IR's rules.
    pub fn results(&mut self, op: Op, args: &[Value], present: u8, attrs: &[Attr], explicit: Option<&Type>) -> Result<Vec<Value>, Refusal> {
        let types: Vec<&Type> = args.iter().map(|&v| self.kernel.ty(v)).collect();
        let made = result_type(op, &types, present, attrs, explicit).map_err(|e| Refusal::new(RefusalKind::Shape, e))?;
        let all: Vec<Type> = made.into_iter().cycle().take(op.info().results()).collect();
        let inst = self.push(op, args, present, attrs, &[], &all);
        Ok(self.kernel.insts[inst].results.to_vec())
    }

    /// As [`Maker::results`] for an op with one result.
    pub fn op(&mut self, op: Op, args: &[Value], attrs: &[Attr], explicit: Option<&Type>) -> Result<Value, Refusal> {
        let all = self.results(op, args, 0, attrs, explicit)?;
        all.first().copied().ok_or_else(|| Refusal::new(RefusalKind::Shape, format!("`{op}` has no result")))
    }

    /// Lets a tile be what it was before it got the element type of a tensor that is stored no more, for those who convert it back.
    pub fn narrows(&mut self, tile: Value) {
        let made = conversion(&self.kernel, tile).and_then(|i| self.kernel.insts[i].results.first().copied());
        self.narrowed.extend(made);
    }

    /// What a value was before it went through the element type of a tensor that is stored no more, if it was of this type.
    pub fn widened(&mut self, v: Value, elem: Scalar) -> Result<Option<Value>, Refusal> {
        let Some(inst) = self.kernel.def_inst(v).filter(|_| elem.is_float()) else { return Ok(None) };
        let d = self.kernel.insts[inst].clone();
        let Type::Tile(mut ty) = self.kernel.ty(v).clone() else { return Ok(None) };
        match d.op {
            Op::Cast => {
                let from = self.kernel.ty(d.args[0]).elem();
                Ok((self.narrowed.contains(&v) && from == elem && ty.elem.is_float()).then_some(d.args[0]))
            }
            Op::Reshape | Op::Transpose | Op::Broadcast | Op::Slice => {
                let Some(x) = self.widened(d.args[0], elem)? else { return Ok(None) };
                ty.elem = elem;
                let ty = Type::Tile(ty);
                self.op(d.op, &[x], &d.attrs, d.op.info().typed().then_some(&ty)).map(Some)
            }
            Op::Select => {
                let Some(x) = self.widened(d.args[1], elem)? else { return Ok(None) };
                ty.elem = elem;
                let other = self.op(Op::Cast, &[d.args[2]], &[], Some(&Type::Tile(ty)))?;
                self.op(Op::Select, &[d.args[0], x, other], &[], None).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A sum with a number.
    pub fn plus(&mut self, v: Value, n: i32) -> Result<Value, Refusal> {
        if n == 0 {
            return Ok(v);
        }
        let n = self.literal(Literal::Int(i64::from(n)), Scalar::I32);
        self.op(Op::Add, &[v, n], &[], None)
    }

    pub fn literal(&mut self, literal: Literal, elem: Scalar) -> Value {
        let inst = self.push(Op::Const, &[], 0, &[Attr::Literal(literal)], &[], &[Type::Scalar(elem)]);
        self.kernel.insts[inst].results[0]
    }

    /// An extent: that of a tensor that remains, or a literal.
    pub fn size(&mut self, size: &Size) -> Result<Value, Refusal> {
        let graph = self.graph;
        let has = |id: &TensorId| graph.tensors()[id.index()].dims.iter().position(|d| d == size);
        if let Some((id, d)) = self.others.iter().find_map(|id| Some((*id, has(id)?))) {
            let view = self.view(id, false)?;
            return self.op(Op::Dim, &[view], &[Attr::Dim(d as u32)], None);
        }
        match size.fixed() {
            Some(n) => Ok(self.literal(Literal::Int(i64::from(n)), Scalar::I32)),
            None => Err(Refusal::new(RefusalKind::Shape, format!("no tensor that remains has the extent {}", graph.say(size)))),
        }
    }

    pub fn splat(&mut self, scalar: Value, shape: &[u32]) -> Result<Value, Refusal> {
        let ty = Type::tile(shape, self.kernel.ty(scalar).elem());
        self.op(Op::Splat, &[scalar], &[], Some(&ty))
    }

    /// A tile at a place where it lies inside a tensor, `other` elsewhere; dimensions for which `free` holds are not asked. Of starts it is
    /// given what is known.
    pub fn inside(
        &mut self,
        tile: Value,
        (at, starts): (&[Value], &[Start]),
        extents: &[Size],
        other: Option<Value>,
        free: &[bool],
    ) -> Result<Value, Refusal> {
        let Type::Tile(ty) = self.kernel.ty(tile).clone() else { return Ok(tile) };
        let mut mask = None;
        for (d, size) in extents.iter().enumerate() {
            let known = starts[d].number.zip(size.fixed());
            let fits = known.is_some_and(|(s, n)| s >= 0 && i64::from(s) + i64::from(ty.shape[d]) <= i64::from(n));
            if free[d] || fits {
                continue;
            }
            let along = Type::tile(&ty.shape, Scalar::I32);
            let iota = self.op(Op::Iota, &[], &[Attr::Dim(d as u32)], Some(&along))?;
            let start = self.splat(at[d], &ty.shape)?;
            let place = self.op(Op::Add, &[start, iota], &[], None)?;
            let end = self.size(size)?;
            let end = self.splat(end, &ty.shape)?;
            let mut here = self.op(Op::Cmp, &[place, end], &[Attr::Cmp(CmpOp::Lt)], None)?;
            if starts[d].low {
                let zero = self.literal(Literal::Int(0), Scalar::I32);
                let zero = self.splat(zero, &ty.shape)?;
                let above = self.op(Op::Cmp, &[place, zero], &[Attr::Cmp(CmpOp::Ge)], None)?;
                here = self.op(Op::And, &[above, here], &[], None)?;
            }
            mask = Some(match mask {
                Some(m) => self.op(Op::And, &[m, here], &[], None)?,
                None => here,
            });
        }
        let Some(mask) = mask else { return Ok(tile) };
        let other = match other {
            Some(o) => o,
            None => self.zero(ty.elem)?,
        };
        let other = self.splat(other, &ty.shape)?;
        self.op(Op::Select, &[mask, tile, other], &[], None)
    }

    /// What a load reads outside if nothing else is said: all bits 0.
    pub fn zero(&mut self, elem: Scalar) -> Result<Value, Refusal> {
        if elem.is_narrow() {
            let byte = self.literal(Literal::Int(0), Scalar::I8);
            if elem.bits() == 8 {
                return self.op(Op::Bitcast, &[byte], &[], Some(&Type::Scalar(elem)));
            }
            return self.op(Op::Cast, &[byte], &[], Some(&Type::Scalar(elem)));
        }
        Ok(self.literal(if elem.is_float() { Literal::Float(0f64.to_bits()) } else { Literal::Int(0) }, elem))
    }
}

/// Copies bodies into a kernel in the making.
pub(crate) struct Copier<'g> {
    pub node: &'g Node,
    pub map: BTreeMap<Value, Value>,
}

/// What may be done in an instruction's place: `true` if it was.
pub(crate) type Change<'a, 'g> = dyn FnMut(&mut Copier<'g>, &mut Maker<'g>, Inst) -> Result<bool, Refusal> + 'a;

impl<'g> Copier<'g> {
    pub fn new(node: &'g Node) -> Copier<'g> {
        Copier { node, map: BTreeMap::new() }
    }

    /// The copy of a value.
    pub fn value(&mut self, maker: &mut Maker<'g>, v: Value) -> Result<Value, Refusal> {
        if let Some(&new) = self.map.get(&v) {
            return Ok(new);
        }
        let node = self.node;
        let Some(param) = node.kernel.params.iter().position(|&p| p == v) else {
            return Err(Refusal::new(RefusalKind::Place, format!("{v} is used where it is not there")));
        };
        Ok(match node.args[param].tensor() {
            Some((id, flat)) => maker.view(id, flat)?,
            None => maker.scalar(&node.args[param], node.kernel.ty(v)),
        })
    }

    pub fn values(&mut self, maker: &mut Maker<'g>, all: &[Value]) -> Result<Vec<Value>, Refusal> {
        all.iter().map(|&v| self.value(maker, v)).collect()
    }

    pub fn body(&mut self, maker: &mut Maker<'g>, change: &mut Change<'_, 'g>) -> Result<(), Refusal> {
        self.region(maker, self.node.kernel.body, change)
    }

    fn region(&mut self, maker: &mut Maker<'g>, region: Region, change: &mut Change<'_, 'g>) -> Result<(), Refusal> {
        let node = self.node;
        for &inst in &node.kernel.regions[region].insts {
            if !change(self, maker, inst)? {
                self.inst(maker, inst, change)?;
            }
        }
        Ok(())
    }

    fn inst(&mut self, maker: &mut Maker<'g>, inst: Inst, change: &mut Change<'_, 'g>) -> Result<(), Refusal> {
        let node = self.node;
        let d = &node.kernel.insts[inst];
        if let (Op::Dim, Some(Attr::Dim(k))) = (d.op, d.attrs.first())
            && let Some((id, flat)) = node.kernel.params.iter().position(|&p| p == d.args[0]).and_then(|p| node.args[p].tensor())
            && maker.gone.contains(&id)
        {
            let graph = maker.graph;
            let extents = graph.extents(&graph.tensors()[id.index()], flat);
            let size = maker.size(&extents[*k as usize])?;
            self.map.insert(d.results[0], size);
            return Ok(());
        }
        let args = self.values(maker, &d.args)?;
        if d.op == Op::Cast
            && let Some(wide) = maker.widened(args[0], node.kernel.ty(d.results[0]).elem())?
        {
            self.map.insert(d.results[0], wide);
            return Ok(());
        }
        let mut regions = Vec::new();
        for &r in &d.regions {
            let new = maker.enter();
            for &p in &node.kernel.regions[r].params {
                let v = maker.region_param(new, node.kernel.ty(p).clone());
                self.map.insert(p, v);
            }
            self.region(maker, r, change)?;
            maker.leave();
            regions.push(new);
        }
        let types: Vec<Type> = d.results.iter().map(|&r| node.kernel.ty(r).clone()).collect();
        let new = maker.push(d.op, &args, d.present, &d.attrs, &regions, &types);
        for (k, &r) in d.results.iter().enumerate() {
            let v = maker.kernel.insts[new].results[k];
            self.map.insert(r, v);
        }
        Ok(())
    }
}
