//! Accesses through tiles of indices: gather, scatter, atomic updates.
//!
//! ```text
//! element e of the tiles    at = (index0[e], index1[e], …), inside exactly if 0 <= at[d] < extent[d] for every d
//! ```
//!
//! Elements are taken in row-major order. Updates of different programs do not conflict with one another, but a plain access to an
//! element that another program updated does, unless it is ordered behind: the running program has done an acquiring update, and the
//! other one a releasing update (which pair of updates met is not asked).

use super::access::{Access, Run, RunFault, View};
use super::data::Data;
use super::error::Fault;
use super::memory::{bits_of_f64, read_floats, read_ints, write_floats, write_ints};
use std::collections::BTreeMap;
use tilelift_ir::num;
use tilelift_ir::ops::AtomicOp;
use tilelift_ir::types::Scalar;

/// Where the elements of an access are.
pub(crate) struct Places<'a> {
    pub(crate) view: &'a View,
    /// One tile of indices per dimension.
    pub(crate) index: Vec<&'a [i64]>,
    pub(crate) mask: Option<&'a [i64]>,
}

impl Places<'_> {
    fn len(&self) -> usize {
        self.index.first().map_or(0, |i| i.len())
    }

    /// Element `e` in memory, unless it is masked off or outside the view.
    fn at(&self, e: usize) -> Option<Run> {
        if self.mask.is_some_and(|m| m[e] == 0) {
            return None;
        }
        let a = &self.view.arg;
        let mut address = 0;
        for (d, index) in self.index.iter().enumerate() {
            if index[e] < 0 || index[e] >= a.shape[d] {
                return None;
            }
            address += index[e] * a.strides[d];
        }
        let size = a.elem.bytes() as usize;
        Some(Run { buffer: a.buffer, at: a.offset_bytes as usize + address as usize * size, stride: size, len: 1, elem: a.elem })
    }

    fn fault(&self, e: usize, fault: RunFault, program: impl Fn(u32) -> [u32; 3]) -> Fault {
        let at: Vec<i64> = self.index.iter().map(|i| i[e]).collect();
        match fault {
            RunFault::Uninitialised(_) => Fault::Uninitialised { param: self.view.param, at },
            RunFault::Conflict(_, w) => Fault::Conflict { param: self.view.param, at, other: program(w) },
        }
    }
}

/// The operands of an update: of a compare and swap two, else one.
pub(crate) enum Change<'a> {
    Op(AtomicOp, &'a Data),
    Cas(&'a [i64], &'a [i64]),
}

/// The integer `o op v` of a type.
fn update_int(op: AtomicOp, elem: Scalar, o: i64, v: i64) -> i64 {
    let unsigned = |x: i64| x as u64 & (u64::MAX >> (64 - elem.bits()));
    match op {
        AtomicOp::Add => num::wrap(o.wrapping_add(v), elem),
        AtomicOp::Min => o.min(v),
        AtomicOp::Max => o.max(v),
        AtomicOp::Umin => std::cmp::min_by_key(o, v, |&x| unsigned(x)),
        AtomicOp::Umax => std::cmp::max_by_key(o, v, |&x| unsigned(x)),
        AtomicOp::And => o & v,
        AtomicOp::Or => o | v,
        AtomicOp::Xor => o ^ v,
        AtomicOp::Xchg => v,
    }
}

impl Access<'_> {
    /// Reads the elements that index tiles name; those outside the view or the mask are `other`.
    pub(crate) fn gather(&mut self, p: &Places<'_>, other: Data, program: impl Fn(u32) -> [u32; 3]) -> Result<Data, Fault> {
        let mut out = super::shapes::splat(&other, p.len());
        for e in 0..p.len() {
            let Some(r) = p.at(e) else { continue };
            self.check_read(r).map_err(|f| p.fault(e, f, &program))?;
            let bytes = self.memory.buffers[r.buffer].bytes();
            match &mut out {
                Data::Float(v) => read_floats(bytes, r.at, r.stride, r.elem, &mut std::rc::Rc::make_mut(v)[e..=e]),
                Data::Int(v) => read_ints(bytes, r.at, r.stride, r.elem, &mut std::rc::Rc::make_mut(v)[e..=e]),
            }
        }
        Ok(out)
    }

    /// Writes the elements that index tiles name; two that meet must have the same bits.
    pub(crate) fn scatter(&mut self, p: &Places<'_>, value: &Data, program: impl Fn(u32) -> [u32; 3]) -> Result<(), Fault> {
        let mut seen: BTreeMap<usize, u64> = BTreeMap::new();
        for e in 0..p.len() {
            let Some(r) = p.at(e) else { continue };
            let bits = match value {
                Data::Float(v) => bits_of_f64(r.elem, v[e]),
                Data::Int(v) => v[e] as u64,
            };
            if seen.insert(r.at, bits).is_some_and(|old| old != bits) {
                return Err(Fault::Collision { param: p.view.param, at: p.index.iter().map(|i| i[e]).collect() });
            }
            self.check_write(r, |_| bits.to_le_bytes()).map_err(|f| p.fault(e, f, &program))?;
            let bytes = self.memory.buffers[r.buffer].raw_mut();
            match value {
                Data::Float(v) => write_floats(bytes, r.at, r.stride, r.elem, &v[e..=e]),
                Data::Int(v) => write_ints(bytes, r.at, r.stride, r.elem, &v[e..=e]),
            }
        }
        Ok(())
    }

    /// Updates the elements that index tiles name, one after the other; gives the values from before, 0 for those left out.
    pub(crate) fn update(&mut self, p: &Places<'_>, change: &Change<'_>, program: impl Fn(u32) -> [u32; 3]) -> Result<Data, Fault> {
        let elem = p.view.arg.elem;
        let (mut floats, mut ints) = (Vec::new(), Vec::new());
        for e in 0..p.len() {
            let (mut x, mut i) = ([0.0], [0]);
            if let Some(r) = p.at(e) {
                self.check_update(r).map_err(|f| p.fault(e, f, &program))?;
                let bytes = self.memory.buffers[r.buffer].raw_mut();
                match change {
                    Change::Op(op, Data::Float(v)) => {
                        read_floats(bytes, r.at, r.stride, r.elem, &mut x);
                        let next = if *op == AtomicOp::Add { num::round(x[0] + v[e], elem) } else { v[e] };
                        write_floats(bytes, r.at, r.stride, r.elem, &[next]);
                    }
                    Change::Op(op, Data::Int(v)) => {
                        read_ints(bytes, r.at, r.stride, r.elem, &mut i);
                        write_ints(bytes, r.at, r.stride, r.elem, &[update_int(*op, elem, i[0], v[e])]);
                    }
                    Change::Cas(compare, value) => {
                        read_ints(bytes, r.at, r.stride, r.elem, &mut i);
                        if i[0] == compare[e] {
                            write_ints(bytes, r.at, r.stride, r.elem, &value[e..=e]);
                        }
                    }
                }
            }
            if elem.is_float() { floats.push(x[0]) } else { ints.push(i[0]) }
        }
        Ok(if elem.is_float() { Data::floats(floats) } else { Data::ints(ints) })
    }
}
