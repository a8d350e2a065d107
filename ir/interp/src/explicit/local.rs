//! Local memory of a program instance: bytes, who touched them last, and what async units do with them.
//!
//! ```text
//! agents: the tasks, and the barriers (which speak for the copies whose bytes they counted)
//! clock:  per agent, how much of what it did comes before; joined where one waits for another
//!         and how much of what it read is over, which is less: the bytes of a remote store tell it, but not what was written
//!         and how far it has come, which is least: the bytes of any copy tell it
//! region: the bytes of one access      last write: (agent, time), or a copy that is in flight      reads since then
//! ```
//! An access is right if the writes (and for a write, the reads) that it meets come before it by its task's clock.

use crate::data::Data;
use crate::memory::{read_floats, read_ints, write_floats, write_ints};
use crate::shapes::{count, each_row, strides};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use tilelift_ir::Inst;
use tilelift_ir::types::{Scalar, Shape, SharedType};

/// What comes before: a time per agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    known: Vec<u32>,
    /// Reads up to here are over, whether or not what the agent wrote is known.
    over: Vec<u32>,
    /// The agent has come as far as here, whether or not what it did is seen.
    came: Vec<u32>,
}

fn raise(times: &mut Vec<u32>, others: &[u32]) {
    if times.len() < others.len() {
        times.resize(others.len(), 0);
    }
    times.iter_mut().zip(others).for_each(|(t, &o)| *t = (*t).max(o));
}

impl Clock {
    pub(super) fn get(&self, agent: usize) -> u32 {
        self.known.get(agent).copied().unwrap_or(0)
    }
    pub(super) fn set(&mut self, agent: usize, time: u32) {
        if self.known.len() <= agent {
            self.known.resize(agent + 1, 0);
        }
        self.known[agent] = time;
    }
    pub(super) fn join(&mut self, other: &Clock) {
        raise(&mut self.known, &other.known);
        raise(&mut self.over, &other.over);
        raise(&mut self.came, &other.came);
    }
    /// What the bytes of any copy bring: how far those have come of whom its task knew when it began.
    pub(super) fn join_came(&mut self, other: &Clock) {
        raise(&mut self.came, &other.known);
        raise(&mut self.came, &other.came);
    }
    /// How far an agent is known to have come.
    pub(super) fn reached(&self, agent: usize) -> u32 {
        self.get(agent).max(self.came.get(agent).copied().unwrap_or(0))
    }
    /// What a remote store's bytes bring: the copies that had arrived, those of the first `copies` agents, and the reads that were over.
    pub(super) fn join_over(&mut self, other: &Clock, copies: usize) {
        raise(&mut self.known, &other.known[..copies.min(other.known.len())]);
        raise(&mut self.over, &other.over);
        raise(&mut self.over, &other.known);
        self.join_came(other);
    }
    /// True if a read is over.
    fn is_over(&self, m: &Mark) -> bool {
        self.get(m.agent).max(self.over.get(m.agent).copied().unwrap_or(0)) >= m.time
    }
}

/// Who did something, when, and where in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) agent: usize,
    pub(super) time: u32,
    pub(super) site: Site,
}

/// An instruction of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Site {
    pub(super) fiber: usize,
    pub(super) inst: Inst,
}

/// A part of an allocation, as a handle names it; strides and offset in elements.
#[derive(Clone, Debug)]
pub(super) struct Buf {
    /// The allocation that owns the bytes.
    pub(super) local: usize,
    pub(super) elem: Scalar,
    pub(super) shape: Shape,
    strides: SmallVec<[usize; 4]>,
    at: usize,
    /// The position and the extent that it should have been below.
    pub(super) outside: Option<(i64, u32)>,
}

impl Buf {
    pub(super) fn new(local: usize, ty: &SharedType) -> Buf {
        Buf { local, elem: ty.elem, shape: ty.shape.clone(), strides: strides(&ty.shape), at: 0, outside: None }
    }
    pub(super) fn index(&self, i: i64) -> Buf {
        let extent = self.shape[0];
        let inside = (0..i64::from(extent)).contains(&i);
        Buf {
            local: self.local,
            elem: self.elem,
            shape: Shape::from_slice(&self.shape[1..]),
            strides: SmallVec::from_slice(&self.strides[1..]),
            at: self.at + if inside { i as usize * self.strides[0] } else { 0 },
            outside: self.outside.or((!inside).then_some((i, extent))),
        }
    }
    pub(super) fn slice(&self, offsets: &[u32], shape: &[u32]) -> Buf {
        let at = offsets.iter().zip(&self.strides).map(|(&o, &s)| o as usize * s).sum::<usize>();
        Buf { shape: Shape::from_slice(shape), at: self.at + at, ..self.clone() }
    }
    pub(super) fn transpose(&self, perm: &[u32]) -> Buf {
        Buf {
            shape: perm.iter().map(|&p| self.shape[p as usize]).collect(),
            strides: perm.iter().map(|&p| self.strides[p as usize]).collect(),
            ..self.clone()
        }
    }
    pub(super) fn reinterpret(&self, ty: &SharedType) -> Buf {
        let at = ty.elem.held_in(self.elem.storage(self.at));
        Buf { elem: ty.elem, shape: ty.shape.clone(), strides: strides(&ty.shape), at, ..self.clone() }
    }
    /// Bytes of the content.
    pub(super) fn bytes(&self) -> usize {
        self.elem.storage(count(&self.shape))
    }

    /// The bytes in ascending order, neighbours joined.
    fn runs(&self) -> Vec<Range<usize>> {
        let mut dims: SmallVec<[(usize, u32); 4]> =
            self.strides.iter().copied().zip(self.shape.iter().copied()).filter(|d| d.1 > 1).collect();
        dims.sort_by_key(|d| std::cmp::Reverse(d.0));
        let mut run = 1;
        while let Some(&(stride, extent)) = dims.last()
            && stride == run
        {
            run *= extent as usize;
            dims.pop();
        }
        let extents: SmallVec<[u32; 4]> = dims.iter().map(|d| d.1).collect();
        let mut out = Vec::new();
        each_row(&extents, |at| {
            let start = self.at + at.iter().zip(&dims).map(|(&i, d)| i * d.0).sum::<usize>();
            out.push(self.elem.storage(start)..self.elem.storage(start + run));
        });
        out
    }

    /// Calls `f(first element of the tile, byte, stride in bytes, elements)` for every line of the innermost dimension.
    fn lines(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let last = self.shape.len() - 1;
        let (inner, mut element) = (self.shape[last] as usize, 0);
        each_row(&self.shape[..last], |at| {
            let start = self.at + at.iter().zip(&self.strides).map(|(&i, &s)| i * s).sum::<usize>();
            f(element, self.elem.storage(start), self.elem.storage(self.strides[last]), inner);
            element += inner;
        });
    }
}

/// What keeps an access from being right.
pub(super) enum Clash {
    /// Bytes that nothing wrote.
    Undefined,
    /// Bytes that a copy is bringing.
    Coming(Site),
    /// Another access that does not come before.
    Race(Site),
    /// The same task did something there, and its lanes have not met since.
    Unmet(Site),
    /// An async unit still reads.
    Used(Site),
    /// An async unit does not see what a task wrote.
    Unfenced(usize),
}

enum Write {
    Done(Mark),
    Coming(u64, Site),
}

struct Region {
    runs: Vec<Range<usize>>,
    write: Option<Write>,
    reads: Vec<Mark>,
}

/// An async unit that reads.
pub(super) struct User {
    pub(super) site: Site,
    /// Its number among its task's stores, or products.
    pub(super) number: u64,
    pub(super) product: bool,
    runs: Vec<Range<usize>>,
}

/// An allocation.
pub(super) struct Local {
    bytes: Vec<u8>,
    written: Vec<bool>,
    /// The task that wrote a byte last, plus 1, and how many fences it had done.
    fresh: Vec<(u32, u32)>,
    regions: Vec<Region>,
    pub(super) users: Vec<User>,
}

fn overlap(a: &[Range<usize>], b: &[Range<usize>]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i].end <= b[j].start {
            i += 1;
        } else if b[j].end <= a[i].start {
            j += 1;
        } else {
            return true;
        }
    }
    false
}

impl Local {
    pub(super) fn new(bytes: usize) -> Local {
        Local { bytes: vec![0xff; bytes], written: vec![false; bytes], fresh: vec![(0, 0); bytes], regions: Vec::new(), users: Vec::new() }
    }

    fn region(&mut self, runs: Vec<Range<usize>>) -> &mut Region {
        let at = self.regions.iter().position(|r| r.runs == runs).unwrap_or_else(|| {
            self.regions.push(Region { runs, write: None, reads: Vec::new() });
            self.regions.len() - 1
        });
        &mut self.regions[at]
    }

    /// Checks a read and notes it. An async unit gives the fences that each task has done.
    pub(super) fn read(&mut self, buf: &Buf, clock: &Clock, mark: Mark, fences: Option<&[u32]>) -> Result<(), Clash> {
        let runs = buf.runs();
        for r in self.regions.iter().filter(|r| overlap(&r.runs, &runs)) {
            match &r.write {
                Some(Write::Coming(_, site)) => return Err(Clash::Coming(*site)),
                Some(Write::Done(w)) if clock.get(w.agent) < w.time => return Err(Clash::Race(w.site)),
                Some(Write::Done(_)) | None => {}
            }
        }
        if runs.iter().any(|r| self.written[r.clone()].contains(&false)) {
            return Err(Clash::Undefined);
        }
        self.fenced(&runs, fences)?;
        let region = self.region(runs);
        region.reads.retain(|m| m.agent != mark.agent);
        region.reads.push(mark);
        Ok(())
    }

    fn fenced(&self, runs: &[Range<usize>], fences: Option<&[u32]>) -> Result<(), Clash> {
        let Some(fences) = fences else { return Ok(()) };
        let stale = |&&(fiber, n): &&(u32, u32)| fiber > 0 && fences.get(fiber as usize - 1) == Some(&n);
        match runs.iter().flat_map(|r| &self.fresh[r.clone()]).find(stale) {
            Some(&(fiber, _)) => Err(Clash::Unfenced(fiber as usize - 1)),
            None => Ok(()),
        }
    }

    fn check_write(&self, runs: &[Range<usize>], clock: &Clock) -> Result<(), Clash> {
        if let Some(u) = self.users.iter().find(|u| overlap(&u.runs, runs)) {
            return Err(Clash::Used(u.site));
        }
        for r in self.regions.iter().filter(|r| overlap(&r.runs, runs)) {
            match &r.write {
                Some(Write::Coming(_, site)) => return Err(Clash::Coming(*site)),
                Some(Write::Done(w)) if clock.get(w.agent) < w.time => return Err(Clash::Race(w.site)),
                Some(Write::Done(_)) | None => {}
            }
            if let Some(m) = r.reads.iter().find(|m| !clock.is_over(m)) {
                return Err(Clash::Race(m.site));
            }
        }
        Ok(())
    }

    /// Checks a write of a task that has done `fences` fences, and does it.
    pub(super) fn write(&mut self, buf: &Buf, data: &Data, clock: &Clock, mark: Mark, fences: u32) -> Result<(), Clash> {
        let runs = buf.runs();
        self.check_write(&runs, clock)?;
        self.put(buf, data);
        for r in &runs {
            self.fresh[r.clone()].fill((mark.site.fiber as u32 + 1, fences));
        }
        let region = self.region(runs);
        (region.write, region.reads) = (Some(Write::Done(mark)), Vec::new());
        Ok(())
    }

    /// Checks that what an agent did with bytes was over at a time, when its lanes met.
    pub(super) fn met(&self, buf: &Buf, agent: usize, met: u32) -> Result<(), Clash> {
        let runs = buf.runs();
        let late = |m: &Mark| m.agent == agent && m.time > met;
        for r in self.regions.iter().filter(|r| overlap(&r.runs, &runs)) {
            let write = if let Some(Write::Done(w)) = &r.write { Some(w) } else { None };
            if let Some(m) = write.into_iter().chain(&r.reads).find(|m| late(m)) {
                return Err(Clash::Unmet(m.site));
            }
        }
        Ok(())
    }

    /// Checks the start of a copy into the bytes, whose content is undefined until it has landed.
    pub(super) fn expect(&mut self, buf: &Buf, clock: &Clock, load: u64, site: Site, fences: Option<&[u32]>) -> Result<(), Clash> {
        let runs = buf.runs();
        self.check_write(&runs, clock)?;
        self.fenced(&runs, fences)?;
        let region = self.region(runs);
        (region.write, region.reads) = (Some(Write::Coming(load, site)), Vec::new());
        Ok(())
    }

    /// A copy's phase has ended.
    pub(super) fn landed(&mut self, load: u64, agent: usize, time: u32) {
        for r in &mut self.regions {
            if let Some(Write::Coming(n, site)) = r.write
                && n == load
            {
                r.write = Some(Write::Done(Mark { agent, time, site }));
            }
        }
    }

    /// Notes that an async unit reads from now on.
    pub(super) fn used(&mut self, buf: &Buf, site: Site, number: u64, product: bool) {
        self.users.push(User { site, number, product, runs: buf.runs() });
    }

    /// Ends the reads of a task's stores or products up to a number; they come before what `mark` comes before.
    pub(super) fn released(&mut self, product: bool, up_to: u64, mark: Mark) {
        let (done, kept) = std::mem::take(&mut self.users)
            .into_iter()
            .partition(|u: &User| u.site.fiber == mark.site.fiber && u.product == product && u.number < up_to);
        self.users = kept;
        let done: Vec<User> = done;
        for u in done {
            let region = self.region(u.runs);
            region.reads.retain(|m| m.agent != mark.agent);
            region.reads.push(Mark { site: u.site, ..mark });
        }
    }

    /// The content.
    pub(super) fn get(&self, buf: &Buf) -> Data {
        let n = count(&buf.shape);
        if buf.elem.is_float() {
            let mut out = vec![0.0; n];
            buf.lines(|e, at, stride, len| read_floats(&self.bytes, at, stride, buf.elem, &mut out[e..e + len]));
            Data::Float(Rc::new(out))
        } else {
            let mut out = vec![0; n];
            buf.lines(|e, at, stride, len| read_ints(&self.bytes, at, stride, buf.elem, &mut out[e..e + len]));
            Data::Int(Rc::new(out))
        }
    }

    /// Writes the content without asking.
    pub(super) fn put(&mut self, buf: &Buf, data: &Data) {
        let bytes = &mut self.bytes;
        match data {
            Data::Float(v) => buf.lines(|e, at, stride, len| write_floats(bytes, at, stride, buf.elem, &v[e..e + len])),
            Data::Int(v) => buf.lines(|e, at, stride, len| write_ints(bytes, at, stride, buf.elem, &v[e..e + len])),
        }
        for r in buf.runs() {
            self.written[r.clone()].fill(true);
            self.fresh[r].fill((0, 0));
        }
    }
}
