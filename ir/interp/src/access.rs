//! Loads and stores: tiles of views in memory.
//!
//! ```text
//!            view (extents 5 x 6)          a 3 x 4 tile at [3, -1]: rows 0..2 and columns 1..4 are inside,
//!         0 . . . . . .                    each row is one run of elements `stride` apart; a mask splits it
//!         3 # # # . . .                    into shorter runs
//!         4 # # # . . .
//! ```
//! An element is inside exactly if `0 <= index + offset < extent` in every dimension, in exact arithmetic.

use super::args::ViewArg;
use super::data::Data;
use super::error::Fault;
use super::memory::{Memory, bits_of_f64, encode, read_floats, read_ints, write_floats, write_ints};
use super::shapes::{each_row, strides};
use smallvec::SmallVec;
use std::ops::Range;
use tilelift_ir::types::Scalar;

/// A parameter bound to memory.
pub(crate) struct View {
    /// Parameter number.
    pub(crate) param: usize,
    /// The argument.
    pub(crate) arg: ViewArg,
}

/// Which program touched what in a written buffer. Programs run one after another, so the first reader tells whether any other than
/// the running one read.
pub(crate) struct Shadow {
    /// Bytes of a unit: the smallest element of the views on the buffer, which all of them are aligned to.
    pub(crate) unit: usize,
    /// Per unit, 1 + the ordinal of the last writer, or 0.
    pub(crate) writer: Vec<u32>,
    /// Per unit, 1 + the ordinal of the first reader, or 0. Empty if the kernel never reads the buffer.
    pub(crate) reader: Vec<u32>,
    /// Per unit, 1 + the ordinal of the only program that updated it atomically, [`MANY`], or 0. Empty without such updates.
    pub(crate) updater: Vec<u32>,
}

/// Stands for several programs in [`Shadow::updater`].
pub(crate) const MANY: u32 = u32::MAX;

/// Programs whose accesses come before those of the running one.
#[derive(Default)]
pub(crate) struct Released {
    /// Ordinals plus 1 of the programs that did a releasing update.
    pub(crate) programs: std::collections::BTreeSet<u32>,
    /// True if the running program did an acquiring update.
    pub(crate) acquired: bool,
}

impl Released {
    /// True if program `w` and the running one, `me`, are not ordered.
    fn foreign(&self, w: u32, me: u32) -> bool {
        w != 0 && w != me && !(self.acquired && (w == MANY || self.programs.contains(&w)))
    }
}

/// Memory as one program sees it.
pub(crate) struct Access<'a> {
    pub(crate) memory: &'a mut Memory,
    /// Per buffer; `None` for those no check is kept of.
    pub(crate) shadows: &'a mut [Option<Shadow>],
    /// 1 + the ordinal of the running program.
    pub(crate) me: u32,
    pub(crate) released: &'a Released,
}

/// A fault at an element, before its coordinates are known: number of the element in its run, and the other program of a conflict.
pub(super) enum RunFault {
    Uninitialised(usize),
    Conflict(usize, u32),
}

/// The bytes inside the view of a box, per buffer.
pub(super) fn rows(view: &View, index: &[i64], shape: &[u32]) -> Result<Vec<(usize, Range<usize>)>, Fault> {
    let mut out = Vec::new();
    each_run(
        view,
        index,
        shape,
        None,
        |_| [0; 3],
        |_, r| {
            let r = if r.elem.is_packed() { r.whole_bytes() } else { r };
            let size = r.elem.bytes() as usize;
            match r.stride == size {
                true => out.push((r.buffer, r.at..r.at + r.len * size)),
                false => out.extend((0..r.len).map(|i| (r.buffer, r.bytes(i)))),
            }
            Ok(())
        },
    )?;
    Ok(out)
}

/// Equally spaced elements in a buffer.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) buffer: usize,
    pub(super) at: usize,
    pub(super) stride: usize,
    pub(super) len: usize,
    pub(super) elem: Scalar,
}

impl Run {
    fn bytes(&self, i: usize) -> Range<usize> {
        let at = self.at + i * self.stride;
        at..at + self.elem.bytes() as usize
    }
    /// The same memory as bytes, for elements of which two share one.
    fn whole_bytes(self) -> Run {
        if self.elem.is_packed() { Run { stride: 1, len: self.len / 2, elem: Scalar::I8, ..self } } else { self }
    }
    fn end(&self) -> usize {
        if self.len == 0 { self.at } else { self.bytes(self.len - 1).end }
    }
    fn contiguous(&self) -> bool {
        self.stride == self.elem.bytes() as usize
    }
}

/// Calls `f(tile element number, coordinates of the first element, run)` for every run of elements inside the view and the mask.
/// `f` returns the fault of the run, whose coordinates are added here.
fn each_run(
    view: &View,
    index: &[i64],
    shape: &[u32],
    mask: Option<&[i64]>,
    program: impl Fn(u32) -> [u32; 3],
    mut f: impl FnMut(usize, Run) -> Result<(), RunFault>,
) -> Result<(), Fault> {
    let a = &view.arg;
    let size = a.elem.bytes() as usize;
    let last = shape.len() - 1;
    if a.elem.is_packed() && index[last] % 2 != 0 {
        return Err(Fault::InsideByte { param: view.param, index: index[last] });
    }
    // The range of tile offsets inside the view, per dimension.
    let inside: SmallVec<[Range<i64>; 4]> = (0..shape.len())
        .map(|d| {
            let lo = (-index[d]).clamp(0, i64::from(shape[d]));
            lo..(a.shape[d] - index[d]).clamp(lo, i64::from(shape[d]))
        })
        .collect();
    if inside.iter().any(|r| r.is_empty()) {
        return Ok(());
    }
    let extents: SmallVec<[u32; 4]> = inside[..last].iter().map(|r| (r.end - r.start) as u32).collect();
    let tile = strides(shape);
    let mut result = Ok(());
    each_row(&extents, |at| {
        if result.is_err() {
            return;
        }
        let (mut element, mut address) = (0usize, 0i64);
        for (d, &i) in at.iter().enumerate() {
            let t = inside[d].start + i as i64;
            element += t as usize * tile[d];
            address += (index[d] + t) * a.strides[d];
        }
        let row = inside[last].clone();
        let run_at = |from: i64, len: usize| Run {
            buffer: a.buffer,
            at: a.offset_bytes as usize + a.elem.storage((address + (index[last] + from) * a.strides[last]) as usize),
            stride: a.strides[last] as usize * size,
            len,
            elem: a.elem,
        };
        let mut one = |from: i64, to: i64| {
            f(element + from as usize, run_at(from, (to - from) as usize)).map_err(|fault| {
                let coordinates = |i: usize| {
                    let mut c: Vec<i64> = at.iter().enumerate().map(|(d, &i)| index[d] + inside[d].start + i as i64).collect();
                    c.push(index[last] + from + i as i64);
                    c
                };
                let step = if a.elem.is_packed() { 2 } else { 1 };
                match fault {
                    RunFault::Uninitialised(i) => Fault::Uninitialised { param: view.param, at: coordinates(i * step) },
                    RunFault::Conflict(i, w) => Fault::Conflict { param: view.param, at: coordinates(i * step), other: program(w) },
                }
            })
        };
        result = match mask {
            None => one(row.start, row.end),
            Some(mask) => {
                let mask = &mask[element..];
                let mut from = row.start;
                let mut done = Ok(());
                while from < row.end && done.is_ok() {
                    let on = mask[from as usize] != 0;
                    let to = (from..row.end).find(|&i| (mask[i as usize] != 0) != on).unwrap_or(row.end);
                    if on {
                        done = one(from, to);
                    }
                    from = to;
                }
                done
            }
        };
    });
    result
}

impl Access<'_> {
    /// Notes a read and finds elements never written, or written by another program.
    pub(super) fn check_read(&mut self, run: Run) -> Result<(), RunFault> {
        let buffer = &self.memory.buffers[run.buffer];
        if !buffer.fully_written()
            && let Some(i) = (0..run.len).find(|&i| !buffer.is_initialised(run.bytes(i)))
        {
            return Err(RunFault::Uninitialised(i));
        }
        if let Some(s) = &mut self.shadows[run.buffer] {
            let me = self.me;
            let released = self.released;
            let foreign = |w: &u32| released.foreign(*w, me);
            for i in 0..if s.reader.is_empty() { 0 } else { run.len } {
                let b = run.bytes(i);
                s.reader[b.start / s.unit..b.end / s.unit].iter_mut().filter(|r| **r == 0).for_each(|r| *r = me);
            }
            let clean = run.contiguous() && s.updater.is_empty() && !s.writer[run.at / s.unit..run.end() / s.unit].iter().any(foreign);
            if !clean {
                for i in 0..run.len {
                    let b = run.bytes(i);
                    let at = b.start / s.unit..b.end / s.unit;
                    let updaters = s.updater.get(at.clone()).unwrap_or(&[]);
                    if let Some(w) = s.writer[at].iter().chain(updaters).find(|w| foreign(w)) {
                        return Err(RunFault::Conflict(i, *w));
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes a write and finds elements that another program read, or wrote with other bytes. `new` gives the bytes of element `i`.
    pub(super) fn check_write(&mut self, run: Run, new: impl Fn(usize) -> [u8; 8]) -> Result<(), RunFault> {
        if let Some(s) = &mut self.shadows[run.buffer] {
            let me = self.me;
            let old = self.memory.buffers[run.buffer].bytes();
            for i in 0..run.len {
                let b = run.bytes(i);
                let at = b.start / s.unit..b.end / s.unit;
                let readers = s.reader.get(at.clone()).unwrap_or(&[]);
                let updaters = s.updater.get(at.clone()).unwrap_or(&[]);
                let released = self.released;
                if let Some(&w) = updaters.iter().find(|&&w| released.foreign(w, me)) {
                    return Err(RunFault::Conflict(i, w));
                }
                let units = &mut s.writer[at];
                if let Some(&w) = units.iter().chain(readers).find(|&&w| released.foreign(w, me))
                    && old[b.clone()] != new(i)[..b.len()]
                {
                    return Err(RunFault::Conflict(i, w));
                }
                units.fill(me);
            }
        }
        let buffer = &mut self.memory.buffers[run.buffer];
        if !buffer.fully_written() {
            if run.contiguous() {
                buffer.mark(run.at..run.end());
            } else {
                (0..run.len).for_each(|i| buffer.mark(run.bytes(i)));
            }
        }
        Ok(())
    }

    /// Notes an atomic update and finds elements never written, or read or written plainly by another program.
    pub(super) fn check_update(&mut self, run: Run) -> Result<(), RunFault> {
        let buffer = &self.memory.buffers[run.buffer];
        if !buffer.is_initialised(run.bytes(0)) {
            return Err(RunFault::Uninitialised(0));
        }
        if let Some(s) = &mut self.shadows[run.buffer] {
            let (me, released) = (self.me, self.released);
            let b = run.bytes(0);
            let at = b.start / s.unit..b.end / s.unit;
            let readers = s.reader.get(at.clone()).unwrap_or(&[]);
            if let Some(&w) = s.writer[at.clone()].iter().chain(readers).find(|&&w| released.foreign(w, me)) {
                return Err(RunFault::Conflict(0, w));
            }
            s.updater[at].iter_mut().for_each(|u| *u = if *u == 0 || *u == me { me } else { MANY });
        }
        Ok(())
    }

    /// Reads a tile; elements outside the view or the mask are `other`.
    pub(crate) fn load(
        &mut self,
        view: &View,
        index: &[i64],
        shape: &[u32],
        mask: Option<&[i64]>,
        other: Data,
        program: impl Fn(u32) -> [u32; 3],
    ) -> Result<Data, Fault> {
        let n = super::shapes::count(shape);
        if let (true, Some(m)) = (view.arg.elem.is_packed(), mask) {
            // Whole bytes are read where one of their halves is wanted.
            let pairs: Vec<i64> = m.chunks(2).flat_map(|p| [i64::from(p.iter().any(|&x| x != 0)); 2]).collect();
            let read = self.load_runs(view, index, shape, Some(&pairs), super::shapes::splat(&other, n), program)?;
            let wanted = Data::ints(m.to_vec());
            return super::elementwise::select(&wanted, read, super::shapes::splat(&other, n), false);
        }
        self.load_runs(view, index, shape, mask, super::shapes::splat(&other, n), program)
    }

    fn load_runs(
        &mut self,
        view: &View,
        index: &[i64],
        shape: &[u32],
        mask: Option<&[i64]>,
        start: Data,
        program: impl Fn(u32) -> [u32; 3],
    ) -> Result<Data, Fault> {
        Ok(match start {
            Data::Float(mut v) => {
                let out = std::rc::Rc::make_mut(&mut v);
                each_run(view, index, shape, mask, program, |e, r| {
                    self.check_read(r.whole_bytes())?;
                    read_floats(self.memory.buffers[r.buffer].bytes(), r.at, r.stride, r.elem, &mut out[e..e + r.len]);
                    Ok(())
                })?;
                Data::Float(v)
            }
            Data::Int(mut v) => {
                let out = std::rc::Rc::make_mut(&mut v);
                each_run(view, index, shape, mask, program, |e, r| {
                    self.check_read(r.whole_bytes())?;
                    read_ints(self.memory.buffers[r.buffer].bytes(), r.at, r.stride, r.elem, &mut out[e..e + r.len]);
                    Ok(())
                })?;
                Data::Int(v)
            }
        })
    }

    /// Writes a tile; elements outside the view or the mask are skipped.
    pub(crate) fn store(
        &mut self,
        view: &View,
        index: &[i64],
        shape: &[u32],
        value: &Data,
        mask: Option<&[i64]>,
        program: impl Fn(u32) -> [u32; 3],
    ) -> Result<(), Fault> {
        each_run(view, index, shape, mask, program, |e, r| {
            if r.elem.is_packed() {
                let elem = r.elem;
                let new = match value {
                    Data::Float(v) => encode(elem, v[e..e + r.len].iter().map(|&x| bits_of_f64(elem, x))),
                    Data::Int(v) => encode(elem, v[e..e + r.len].iter().map(|&x| x as u64)),
                };
                self.check_write(r.whole_bytes(), |i| u64::from(new[i]).to_le_bytes())?;
                self.memory.buffers[r.buffer].raw_mut()[r.at..r.at + new.len()].copy_from_slice(&new);
                return Ok(());
            }
            match value {
                Data::Float(v) => {
                    let v = &v[e..e + r.len];
                    self.check_write(r, |i| bits_of_f64(r.elem, v[i]).to_le_bytes())?;
                    write_floats(self.memory.buffers[r.buffer].raw_mut(), r.at, r.stride, r.elem, v);
                }
                Data::Int(v) => {
                    let v = &v[e..e + r.len];
                    self.check_write(r, |i| v[i].to_le_bytes())?;
                    write_ints(self.memory.buffers[r.buffer].raw_mut(), r.at, r.stride, r.elem, v);
                }
            }
            Ok(())
        })
    }
}
