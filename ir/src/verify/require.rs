//! Checks of required layouts: each fits its tile, no two meet. Runs on kernels that have no other fault.

use super::check::Checker;
use super::error::VerifyCode;
use crate::entities::{Inst, Value};
use crate::kernel::ValueDef;
use crate::ops::Op;
use crate::require::{requirements, spec};

impl Checker<'_> {
    pub(super) fn layouts(&mut self) {
        let k = self.k;
        let mut sites = Vec::new();
        k.walk(k.body, &mut |i| sites.extend((k.insts[i].op == Op::RequireLayout).then_some(i)));
        if sites.is_empty() {
            return;
        }
        for &i in &sites {
            let v = k.insts[i].args[0];
            if let (Some(l), Some(shape)) = (spec(k, i), k.ty(v).shape())
                && let Err(why) = l.layout(shape)
            {
                let message = format!("{l} does not fit {}, which is made {}: {why}", k.ty(v), self.origin(v));
                self.error_inst(VerifyCode::Layout, i, message);
            }
        }
        if let Err(m) = requirements(k) {
            let [a, b] = m.sites.map(|s| (spec(k, s).map(ToString::to_string).unwrap_or_default(), self.site(s)));
            let message = format!(
                "two layouts are required of what `{}` {} makes: {} {}, and {} {}; release one of them with `release_layout` before they meet",
                k.insts[m.at].op,
                self.site(m.at),
                a.0,
                a.1,
                b.0,
                b.1
            );
            self.error_inst(VerifyCode::Layout, m.sites[1], message);
        }
    }

    /// Where an instruction stands, for people.
    fn site(&self, i: Inst) -> String {
        let loc = self.loc(i);
        if loc.is_known() { format!("at {loc}") } else { format!("at {i}") }
    }

    /// What made a value, for people.
    pub(super) fn origin(&self, v: Value) -> String {
        match self.k.values[v].def {
            ValueDef::Result(i, _) => format!("by `{}` {}", self.k.insts[i].op, self.site(i)),
            ValueDef::RegionParam(r, _) => {
                let owner = self.k.holder(r);
                owner.map_or_else(|| format!("by {r}"), |i| format!("by `{}` {}", self.k.insts[i].op, self.site(i)))
            }
            ValueDef::KernelParam(n) => format!("as parameter {n}"),
        }
    }
}
