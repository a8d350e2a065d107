//! Rings whose slots may lie in any map: lanes copy into them, one load fetches from them for products, and nobody else looks at them.
//!
//! ```text
//! copy_async ─► slot ─► local_load ─► dot, dot, …       whoever fills and whoever fetches are known: a map is their affair alone
//! ```
//!
//! That is so of rings that the compiler writes and of those that authors write: it follows from who uses the buffer.

use super::buffer_layout::BufferLayout;
use super::handle::{allocation, handle};
use super::lanes::{read_by_products, stores_load};
use super::tasks::TaskPlan;
use std::rc::Rc;
use tilelift_ir::layout::{LayoutError, SharedMap, operand_swizzle, swizzle_of_width};
use tilelift_ir::{Attr, Inst, Kernel, Op};

/// A ring that lanes fill and one load fetches from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchedRing {
    /// Its allocation.
    pub root: Inst,
    /// The load.
    pub load: Inst,
    /// The copies, and the loads whose tiles lanes store there, in program order; one at least.
    pub copies: Vec<Inst>,
    /// Extents of a slot.
    pub shape: Vec<u32>,
    /// Dimension of a slot for each of the loaded tile.
    pub seen: Vec<usize>,
    /// The products fetch from it as its buffer lies without a map of its own.
    pub fetched: bool,
}

impl FetchedRing {
    /// The map of a slot where no other one is chosen, as the load sees it; for pricing alone where products do not fetch from it.
    ///
    /// # Errors
    /// A slot that has no such map.
    pub fn plain(&self, buffer: &BufferLayout) -> Result<SharedMap, LayoutError> {
        let lead = buffer.shape.len() - self.shape.len();
        let map = match buffer.swizzled {
            Some(p) if self.fetched => operand_swizzle(&self.shape, buffer.size, p.contiguous - lead),
            Some(p) => swizzle_of_width(&self.shape, buffer.size, p.contiguous - lead, p.swizzle),
            None => SharedMap::row_major(&self.shape, &(0..self.shape.len()).rev().collect::<Vec<_>>()),
        };
        map?.transpose(&self.seen)
    }

    /// The map of a slot from that of the loaded tile.
    ///
    /// # Errors
    /// A map of another tile.
    pub fn slot(&self, seen: &SharedMap) -> Result<Rc<SharedMap>, LayoutError> {
        let mut back = vec![0; self.seen.len()];
        self.seen.iter().enumerate().for_each(|(k, &of)| back[of] = k);
        Ok(Rc::new(seen.transpose(&back)?))
    }
}

/// The rings of a kernel, by the loads that fetch from them, in program order.
pub fn slots(kernel: &Kernel, plan: &TaskPlan) -> Vec<FetchedRing> {
    let loads = read_by_products(kernel);
    if loads.is_empty() {
        return Vec::new();
    }
    loads.iter().filter_map(|&(load, _)| ring(kernel, plan, load, false)).collect()
}

/// The same where several loads fetch from a ring, all alike, for products of several steps: each ring once, by its first load.
pub fn slots_of_steps(kernel: &Kernel, plan: &TaskPlan) -> Vec<FetchedRing> {
    let mut found: Vec<FetchedRing> = Vec::new();
    for (load, _) in read_by_products(kernel) {
        let ring = ring(kernel, plan, load, true).filter(|r| found.iter().all(|f| f.root != r.root));
        found.extend(ring);
    }
    found
}

/// The ring that a load fetches from, if there is one; with others that see it as this one does, if they may.
fn ring(kernel: &Kernel, plan: &TaskPlan, load: Inst, others: bool) -> Option<FetchedRing> {
    let h = handle(kernel, kernel.insts[load].args[0])?;
    let (root, buffer) = (h.root, plan.buffers.get(&h.root)?);
    let free = kernel.insts[root].op == Op::LocalAlloc
        && kernel.insts[root].args.is_empty()
        && matches!(kernel.insts[root].attrs.first(), Some(Attr::Count(0)))
        && plan.locals.aliases(root).is_empty()
        && allocation(kernel, root) == root;
    let lead = buffer.shape.len().checked_sub(h.parts.len())?;
    // All of a slot, its dimensions as they are, but for the load's, which may have them in another order.
    let whole = |v, ordered: bool| {
        handle(kernel, v).is_some_and(|x| {
            let mut of: Vec<usize> = x.parts.iter().map(|p| p.of).collect();
            if !ordered {
                of.sort_unstable();
            }
            x.root == root
                && of.into_iter().eq(lead..buffer.shape.len())
                && x.parts.iter().all(|p| p.at == 0 && p.extent == buffer.shape[p.of])
        })
    };
    let seen_alike = |v| handle(kernel, v).is_some_and(|x| x.parts.iter().map(|p| p.of).eq(h.parts.iter().map(|p| p.of)));
    let mut copies = Vec::new();
    for &i in plan.locals.uses(root) {
        let d = &kernel.insts[i];
        match d.op {
            Op::LocalAlloc if i == root => {}
            Op::LocalIndex | Op::LocalTranspose => {}
            Op::LocalLoad if (i == load || others && seen_alike(d.args[0])) && whole(d.args[0], false) => {}
            Op::CopyAsync if whole(kernel.operand(i, "buffer")[0], true) => copies.push(i),
            Op::LocalStore if plan.by_lanes && whole(d.args[0], true) => copies.push(stores_load(kernel, i)?),
            _ => return None,
        }
    }
    let seen = h.parts.iter().map(|p| p.of - lead).collect();
    let shape = buffer.shape[lead..].to_vec();
    (free && !copies.is_empty()).then(|| FetchedRing { root, load, copies, shape, seen, fetched: buffer.is_fetched() })
}
