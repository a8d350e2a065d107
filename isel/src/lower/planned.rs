//! Plans of conversions between layouts: those of the last few kinds are remembered.

use std::rc::Rc;
use tilelift_ir::layout::{Conversion, Layout, plan_conversion};
use tilelift_lane::Target;
use tilelift_schedule::LowerError;

/// Conversions whose plans are remembered.
const PLANNED: usize = 8;

/// A conversion with its plan.
struct KnownConversion {
    from: Rc<Layout>,
    to: Rc<Layout>,
    /// Bytes of an element.
    bytes: u32,
    plan: Rc<Conversion>,
}

/// The last conversions that were planned: a kernel has many of few kinds.
#[derive(Default)]
pub(super) struct Planned {
    known: Vec<KnownConversion>,
    /// The one that is forgotten next.
    next: usize,
}

impl Planned {
    /// How elements of so many bytes come from one layout to another one.
    pub fn between(&mut self, from: &Rc<Layout>, to: &Rc<Layout>, bytes: u32, target: &Target) -> Result<Rc<Conversion>, LowerError> {
        let same = |x: &Rc<Layout>, y: &Rc<Layout>| Rc::ptr_eq(x, y) || x == y;
        if let Some(known) = self.known.iter().find(|k| k.bytes == bytes && same(&k.from, from) && same(&k.to, to)) {
            return Ok(known.plan.clone());
        }
        let plan = Rc::new(plan_conversion(from, to, bytes, target.lanes, &target.banks)?);
        let made = KnownConversion { from: from.clone(), to: to.clone(), bytes, plan: plan.clone() };
        match self.known.get_mut(self.next) {
            Some(old) => *old = made,
            None => self.known.push(made),
        }
        self.next = (self.next + 1) % PLANNED;
        Ok(plan)
    }
}
