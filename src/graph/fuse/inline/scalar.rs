//! Scalars of a producer in the new kernel.

use super::super::maker::Maker;
use super::super::report::{Refusal, RefusalKind};
use super::writer::Writer;
use tilelift_ir::{Attr, Effects, Literal, Op, Scalar, Type, Value, ValueDef};

impl<'g> Writer<'_, 'g> {
    /// A scalar; it must not depend on the program's position, but for what is the index of a dimension of extent 1.
    pub fn scalar(&mut self, maker: &mut Maker<'g>, v: Value) -> Result<Value, Refusal> {
        let key = (v, Vec::new());
        if let Some(&new) = self.done.get(&key) {
            return Ok(new);
        }
        self.deeper(maker)?;
        let new = self.made(maker, v)?;
        self.back();
        self.done.insert(key, new);
        Ok(new)
    }

    /// The extent of a tensor that remains, asked of that tensor: loops over it have the bounds that they had.
    fn dim(&self, maker: &mut Maker<'g>, v: Value) -> Result<Option<Value>, Refusal> {
        let seen = &self.source.seen;
        let Some(d) = seen.node.kernel.def_inst(v).map(|i| &seen.node.kernel.insts[i]).filter(|d| d.op == Op::Dim) else { return Ok(None) };
        let Some((id, flat)) = seen.tensor(d.args[0]).filter(|(id, _)| !maker.is_gone(*id)) else { return Ok(None) };
        let view = maker.view(id, flat)?;
        maker.op(Op::Dim, &[view], &d.attrs, None).map(Some)
    }

    fn made(&mut self, maker: &mut Maker<'g>, v: Value) -> Result<Value, Refusal> {
        let seen = &self.source.seen;
        let (node, kernel) = (seen.node, &seen.node.kernel);
        if let Some(extent) = self.dim(maker, v)? {
            return Ok(extent);
        }
        let sum = seen.sums.get(&v).filter(|_| *kernel.ty(v) == Type::Scalar(Scalar::I32));
        if let Some(n) = sum.and_then(|s| s.as_number()) {
            return Ok(maker.literal(Literal::Int(i64::from(n)), Scalar::I32));
        }
        let place = sum.and_then(|s| self.places.iter().find_map(|(p, at)| Some((*at, s.beyond(p)?))));
        if let Some((at, n)) = place {
            return maker.plus(at, n);
        }
        let (i, n) = match kernel.values[v].def {
            ValueDef::KernelParam(p) => return Ok(maker.scalar(&node.args[p as usize], kernel.ty(v))),
            ValueDef::RegionParam(region, n) => return self.carried(maker, v, region, n as usize, &[]),
            ValueDef::Result(i, n) => (i, n as usize),
        };
        let d = &kernel.insts[i];
        match (d.op, d.attrs.first()) {
            (Op::ProgramId | Op::NumPrograms, _) => self.no(i, "the program's position is used for more than the place of its tiles"),
            (Op::Dim, Some(Attr::Dim(k))) => {
                let Some((id, flat)) = seen.tensor(d.args[0]) else { return self.no(i, "is of no tensor") };
                let extents = maker.graph.extents(&maker.graph.tensors()[id.index()], flat);
                maker.size(&extents[*k as usize])
            }
            (Op::For, _) => self.for_loop(maker, i, n, &[]),
            (Op::Reduce, _) => self.reduce(maker, i, &[]),
            (Op::Assume, _) => self.scalar(maker, d.args[0]),
            (op, _) if d.regions.is_empty() && op.info().effects == Effects::Pure => {
                let mut args = Vec::new();
                for &a in &d.args {
                    if kernel.ty(a).as_tile().is_some() {
                        return self.no(i, "makes a scalar of a tile");
                    }
                    args.push(self.scalar(maker, a)?);
                }
                let explicit = (op.info().typed() || op == Op::Const).then(|| kernel.ty(v).clone());
                Ok(maker.results(op, &args, d.present, &d.attrs, explicit.as_ref())?[n])
            }
            _ => Err(Refusal::new(RefusalKind::Shape, format!("`{}` in `{}`: can't be written at another tile", d.op, node.name))),
        }
    }
}
