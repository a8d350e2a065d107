//! Terms: what a rule answers, a small tree over classes that is looked up before it is built.
//!
//! Types are inferred by [`tilelift_ir::typing`], so a term of a wrong type is no term. Operands of commutative ops are put in order
//! here, in the only place that makes nodes: constants last, then by class.

use crate::graph::{Graph, Read};
use crate::language::{Attrs, Head, Kids, Node};
use egg::{Id, Language};
use smallvec::SmallVec;
use tilelift_ir::{Attr, CmpOp, Literal, Op, Scalar, Type, typing};

/// A class, or an op on terms.
#[derive(Clone, Debug)]
pub(crate) enum Term {
    Class(Id),
    Op(Box<OpTerm>),
    /// A fold or a state of one, whose head says all of it.
    Loop(Head, SmallVec<[Box<Term>; 6]>),
}

/// An op on terms.
#[derive(Clone, Debug)]
pub(crate) struct OpTerm {
    op: Op,
    present: u8,
    attrs: Attrs,
    /// The written type, of ops that have one.
    ty: Option<Type>,
    result: u8,
    epoch: u32,
    kids: SmallVec<[Term; 3]>,
}

impl From<Id> for Term {
    fn from(id: Id) -> Term {
        Term::Class(id)
    }
}
impl From<&Id> for Term {
    fn from(id: &Id) -> Term {
        Term::Class(*id)
    }
}

impl Term {
    /// An op without a written type.
    pub(crate) fn op<const N: usize>(op: Op, kids: [Term; N]) -> Term {
        Term::make(op, &[], None, kids.into_iter().collect())
    }
    /// An op with attributes and perhaps a written type.
    pub(crate) fn with<const N: usize>(op: Op, attrs: &[Attr], ty: Option<Type>, kids: [Term; N]) -> Term {
        Term::make(op, attrs, ty, kids.into_iter().collect())
    }
    /// As [`Term::with`] for a list of children.
    pub(crate) fn make(op: Op, attrs: &[Attr], ty: Option<Type>, kids: SmallVec<[Term; 3]>) -> Term {
        Term::Op(Box::new(OpTerm { op, present: 0, attrs: attrs.iter().cloned().collect(), ty, result: 0, epoch: 0, kids }))
    }
    /// A node with other children, and perhaps other presence bits; it keeps its epoch.
    pub(crate) fn again(g: &Graph, node: &Node, present: u8, kids: SmallVec<[Term; 3]>) -> Option<Term> {
        let Head::Op { op, result, epoch, .. } = node.head else { return None };
        let ty = op.info().typed().then(|| g.node_ty(node).clone());
        Some(Term::Op(Box::new(OpTerm { op, present, attrs: g.attrs(node).iter().cloned().collect(), ty, result, epoch, kids })))
    }
    /// A literal.
    pub(crate) fn lit(literal: Literal, elem: Scalar) -> Term {
        Term::with(Op::Const, &[Attr::Literal(literal)], Some(Type::Scalar(elem)), [])
    }
    /// A scalar or tile of equal elements.
    pub(crate) fn full(literal: Literal, ty: &Type) -> Term {
        let scalar = Term::lit(literal, ty.elem());
        match ty {
            Type::Tile(_) => Term::with(Op::Splat, &[], Some(ty.clone()), [scalar]),
            Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => scalar,
        }
    }
    /// An integer in every element, wrapped to the type.
    pub(crate) fn int(i: i64, ty: &Type) -> Term {
        Term::full(Literal::Int(tilelift_ir::num::wrap(i, ty.elem())), ty)
    }
    /// A float in every element, which the type must represent.
    pub(crate) fn float(x: f64, ty: &Type) -> Term {
        Term::full(Literal::Float(x.to_bits()), ty)
    }

    /// A fold, or a state of one.
    pub(crate) fn of_loop(head: Head, kids: impl IntoIterator<Item = Term>) -> Term {
        Term::Loop(head, kids.into_iter().map(Box::new).collect())
    }

    /// The class of the term, if all of it is in the graph.
    pub(crate) fn find(&self, g: &Graph) -> Option<Id> {
        match self {
            Term::Class(id) => Some(g.find(*id)),
            Term::Op(t) => {
                let kids: Kids = t.kids.iter().map(|k| k.find(g)).collect::<Option<_>>()?;
                let ty = g.analysis.pool.find_type(&t.ty(g, &kids)?)?;
                let attrs = g.analysis.pool.find_attrs(&t.attrs)?;
                let mut node = Node { head: Head::Op { op: t.op, present: t.present, attrs, ty, result: t.result, epoch: t.epoch }, kids };
                order(g, &mut node);
                g.lookup(node)
            }
            Term::Loop(head, kids) => {
                let kids: Kids = kids.iter().map(|k| k.find(g)).collect::<Option<_>>()?;
                g.lookup(Node { head: *head, kids })
            }
        }
    }

    /// Adds the term; the class is the uncanonical one, whose expression is the term. `None` if it has no type.
    pub(crate) fn build(&self, g: &mut Graph) -> Option<Id> {
        match self {
            Term::Class(id) => Some(*id),
            Term::Op(t) => {
                let kids: Kids = t.kids.iter().map(|k| k.build(g)).collect::<Option<_>>()?;
                let ty = t.ty(g, &kids)?;
                let ty = g.analysis.pool.add_type(&ty);
                let attrs = g.analysis.pool.add_attrs(&t.attrs);
                let mut node = Node { head: Head::Op { op: t.op, present: t.present, attrs, ty, result: t.result, epoch: t.epoch }, kids };
                order(g, &mut node);
                Some(g.add_uncanonical(node))
            }
            Term::Loop(head, kids) => {
                let kids: Kids = kids.iter().map(|k| k.build(g)).collect::<Option<_>>()?;
                Some(g.add_uncanonical(Node { head: *head, kids }))
            }
        }
    }
}

impl OpTerm {
    fn ty(&self, g: &Graph, kids: &[Id]) -> Option<Type> {
        let types: SmallVec<[&Type; 6]> = kids.iter().map(|&k| g.ty(k)).collect();
        typing::result_type(self.op, &types, self.present, &self.attrs, self.ty.as_ref()).ok()?
    }
}

/// True if the first two operands may change places; results are the same bits.
fn commutes(g: &Graph, node: &Node) -> bool {
    match node.op() {
        Some(
            Op::Add
            | Op::Mul
            | Op::MulHi
            | Op::MulHiU
            | Op::Minimum
            | Op::Maximum
            | Op::MinimumU
            | Op::MaximumU
            | Op::MinNum
            | Op::MaxNum
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Fma,
        ) => true,
        Some(Op::Cmp) => matches!(g.attrs(node).first(), Some(Attr::Cmp(CmpOp::Eq | CmpOp::Ne))),
        _ => false,
    }
}

/// Puts the operands of a commutative op in order.
pub(crate) fn order(g: &Graph, node: &mut Node) {
    if commutes(g, node) {
        let key = |id: Id| {
            let id = g.find(id);
            (g[id].data.value.is_some(), id)
        };
        let kids = node.children_mut();
        if key(kids[1]) < key(kids[0]) {
            kids.swap(0, 1);
        }
    }
}
