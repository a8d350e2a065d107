//! Checks of one instruction against its row of the op table, and of its types.

use super::check::Checker;
use super::error::VerifyCode;
use crate::entities::Inst;
use crate::kernel::InstData;
use crate::num;
use crate::ops::{Attr, AttrKind, Literal, Op, OperandKind, Rule};
use crate::types::{Scalar, Type};
use crate::typing::result_types;
use smallvec::SmallVec;

/// True if an attribute is of the kind that a row asks for.
fn is_of(attr: &Attr, kind: AttrKind) -> bool {
    match kind {
        AttrKind::Grid => matches!(attr, Attr::Grid(_)),
        AttrKind::Cmp => matches!(attr, Attr::Cmp(_)),
        AttrKind::Reduce => matches!(attr, Attr::Reduce(_)),
        AttrKind::Dim | AttrKind::AxisDim => matches!(attr, Attr::Dim(_)),
        AttrKind::Perm => matches!(attr, Attr::Perm(_)),
        AttrKind::Offsets => matches!(attr, Attr::Offsets(_)),
        AttrKind::Divisor => matches!(attr, Attr::Divisor(_)),
        AttrKind::Precision => matches!(attr, Attr::Precision(_)),
        AttrKind::Atomic => matches!(attr, Attr::Atomic(_)),
        AttrKind::Sync => matches!(attr, Attr::Sync(..)),
        AttrKind::Cache => matches!(attr, Attr::Cache(_)),
        AttrKind::Sort => matches!(attr, Attr::Sort(_)),
        AttrKind::Count | AttrKind::Few | AttrKind::Swizzle => matches!(attr, Attr::Count(_)),
        AttrKind::Tasks => matches!(attr, Attr::Tasks(_)),
        AttrKind::Layout => matches!(attr, Attr::Layout(_)),
        AttrKind::Literal => matches!(attr, Attr::Literal(_)),
    }
}

impl<'k> Checker<'k> {
    /// Numbers of operands, attributes and regions; true if all are as the row asks.
    pub(super) fn row(&mut self, i: Inst, d: &InstData) -> bool {
        let info = d.op.info();
        let mut good = true;
        let mut say = |c: &mut Self, code, message: String| {
            good = false;
            c.error_inst(code, i, message);
        };

        let keywords =
            info.operands.iter().enumerate().filter(|(_, o)| o.kind == OperandKind::Keyword).fold(0u8, |bits, (j, _)| bits | 1 << j);
        if d.present & !keywords != 0 {
            let message =
                format!("presence bits {:#b} of `{}` name operands that are no keywords; only {keywords:#b} may be set", d.present, d.op);
            say(self, VerifyCode::Presence, message);
        }

        let of = |kind| info.operands.iter().filter(|o| o.kind == kind).count();
        let fixed = of(OperandKind::Plain) + (d.present & keywords).count_ones() as usize;
        let rank = match d.args.first().and_then(|&v| self.k.values.get(v)).map(|v| &v.ty) {
            Some(Type::View(v)) if of(OperandKind::Indices) > 0 => Some(v.rank()),
            // Without a view there is no rank to compare with; the typing rule says so.
            Some(_) | None => None,
        };
        let least = fixed + rank.unwrap_or(0);
        let open = of(OperandKind::Variadic) > 0 || (of(OperandKind::Indices) > 0 && rank.is_none());
        if d.args.len() < least || (d.args.len() > least && !open) {
            let at_least = if open { "at least " } else { "" };
            say(self, VerifyCode::OperandCount, format!("`{}` has {} operands here; it takes {at_least}{least}", d.op, d.args.len()));
        }

        let kinds: SmallVec<[AttrKind; 2]> = info.lead.into_iter().chain(info.trail).collect();
        if d.attrs.len() != kinds.len() || !d.attrs.iter().zip(&kinds).all(|(a, &k)| is_of(a, k)) {
            say(self, VerifyCode::Attributes, format!("`{}` has attributes {:?}; it takes {kinds:?}", d.op, d.attrs.as_slice()));
        }

        // Of tasks, as many as there are.
        let regions = if let (Op::Tasks, Some(Attr::Tasks(t))) = (d.op, d.attrs.first()) { t.len() } else { info.regions };
        if d.regions.len() != regions {
            say(self, VerifyCode::RegionCount, format!("`{}` has {} regions; it takes {regions}", d.op, d.regions.len()));
        }
        good
    }

    /// The number of results; false after an error.
    pub(super) fn result_count(&mut self, i: Inst, d: &InstData, want: usize) -> bool {
        let good = d.results.len() == want;
        if !good {
            self.error_inst(VerifyCode::ResultCount, i, format!("`{}` has {} results here; it makes {want}", d.op, d.results.len()));
        }
        good
    }

    /// Types of an instruction without regions, whose row and operands are in order.
    pub(super) fn types(&mut self, i: Inst, d: &InstData) {
        let makes = d.op.info().results();
        let open = d.op.info().rule == Rule::Receive;
        if !open && !self.result_count(i, d, makes) {
            return;
        }
        let k = self.k;
        let args: SmallVec<[&Type; 6]> = d.args.iter().filter_map(|&v| k.values.get(v)).map(|v| &v.ty).collect();
        let result = d.results.first().and_then(|&v| k.values.get(v)).map(|v| &v.ty);
        let explicit = result.filter(|_| d.op.info().typed());
        if makes >= 1 && result.is_none() {
            return; // The result does not exist, which is reported where it is defined.
        }
        match result_types(d.op, &args, d.present, &d.attrs, explicit) {
            Err(message) => self.error_inst(VerifyCode::TypeRule, i, message),
            Ok(want) => {
                if open && !self.result_count(i, d, want.len()) {
                    return;
                }
                let results = d.results.iter().filter_map(|&v| k.values.get(v)).map(|v| &v.ty);
                if let Some((have, want)) = results.zip(&want).find(|(have, want)| have != want) {
                    self.error_inst(VerifyCode::ResultType, i, format!("the result of `{}` is {have}; its operands make it {want}", d.op));
                }
            }
        }
        if let (Op::Const, Some(Attr::Literal(l)), Some(Type::Scalar(ty))) = (d.op, d.attrs.first(), result)
            && !is_value_of(*l, *ty)
        {
            let shown = match l {
                Literal::Int(x) => format!("integer {x}"),
                Literal::Float(bits) => format!("float {:?}", f64::from_bits(*bits)),
            };
            self.error_inst(VerifyCode::LiteralRange, i, format!("the {shown} is no value of {ty}; round or wrap it with `num` first"));
        }
    }
}

/// True if a type has the literal among its values.
fn is_value_of(l: Literal, ty: Scalar) -> bool {
    match l {
        Literal::Int(x) => !ty.is_float() && num::wrap(x, ty) == x,
        Literal::Float(bits) => {
            let x = f64::from_bits(bits);
            ty.is_float() && ((x.is_nan() && num::has_nan(ty)) || num::round(x, ty).to_bits() == bits)
        }
    }
}
