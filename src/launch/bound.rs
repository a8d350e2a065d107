//! A launch with its arguments, known by addresses: checked once, changed a little, launched often.
//!
//! ```text
//! Artifact, grid, args, lent memory ── Bound::new: every check ─► Bound ── pointer, scalar, extent: one check each ─► Bound
//! ```

use super::check::{check, misaligned, multiple, shared_by_address};
use super::error::BindError;
use super::values::{Parameter, TensorParam, kernel_arguments};
use crate::artifact::{Argument, Artifact, GridRule, Param, ParamSource};
use std::sync::Arc;
use tilelift_interp::{Arg, ArgError, ScalarArg, ViewArg};
use tilelift_isel::abi::{self, ParamValue};
use tilelift_isel::lane;

/// Device memory that a host lends for a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Lent {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// An artifact with a grid and arguments that keep what its kernel promises, and the values of its launch parameters.
#[derive(Clone, Debug)]
pub struct Bound {
    artifact: Arc<Artifact>,
    params: Box<[lane::Param]>,
    grid: [u32; 3],
    args: Vec<Arg>,
    lent: Vec<Lent>,
    values: Vec<ParamValue>,
}

impl Bound {
    /// Checks everything: the grid against the artifact's rule, the arguments against what the kernel promises and against the memory that is
    /// lent for them, extents that belong together against each other, and memory that is lent twice. `args` refer to `lent` by number. A grid
    /// with a 0 in it is right, and is no work.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(artifact: Arc<Artifact>, grid: [u32; 3], args: &[Arg], lent: &[Lent]) -> Result<Bound, BindError> {
        let params = artifact.params.iter().map(|p: &Param| p.to_lane()).collect();
        let mut bound = Bound { artifact, params, grid, args: args.to_vec(), lent: lent.to_vec(), values: Vec::new() };
        bound.check()?;
        bound.fill()?;
        Ok(bound)
    }

    /// All checks.
    fn check(&self) -> Result<(), BindError> {
        self.artifact.grid_rule().check(self.grid).map_err(BindError::Grid)?;
        let lens: Vec<u64> = self.lent.iter().map(|l| l.len).collect();
        check(&self.artifact, &self.unified(), &lens).map_err(BindError::Args)?;
        self.check_addresses()?;
        self.check_together()
    }

    /// The arguments, where those that have to be one view are one also if their memory is lent under two numbers.
    fn unified(&self) -> Vec<Arg> {
        let mut args = self.args.clone();
        for &(output, input) in &self.artifact.in_place {
            if let (Some(Arg::View(o)), Some(Arg::View(i))) = (self.args.get(output as usize), self.args.get(input as usize)) {
                let at = |v: &ViewArg| {
                    self.lent.get(v.buffer).map(|l| (l.address.wrapping_add(v.offset_bytes), l.len.wrapping_sub(v.offset_bytes)))
                };
                if at(o) == at(i) && (&o.shape, &o.strides) == (&i.shape, &i.strides) {
                    args[output as usize] = Arg::View(i.clone());
                }
            }
        }
        args
    }

    /// An argument and what has to be the same view.
    fn partners(&self, param: usize) -> Vec<usize> {
        let mut all = vec![param];
        for &(o, i) in &self.artifact.in_place {
            let (o, i) = (o as usize, i as usize);
            all.extend([(o, i), (i, o)].iter().filter(|p| p.0 == param).map(|p| p.1));
        }
        all
    }

    fn check_addresses(&self) -> Result<(), BindError> {
        if !self.has_work() {
            return Ok(());
        }
        let base = |buffer: usize| self.lent.get(buffer).map_or(0, |l| l.address);
        if let Some(m) = misaligned(&self.artifact, &self.args, base) {
            return Err(BindError::Misaligned(m));
        }
        shared_by_address(&self.artifact, &self.args, base).map_or(Ok(()), |e| Err(BindError::Args(e)))
    }

    fn check_together(&self) -> Result<(), BindError> {
        for group in &self.artifact.together {
            let mut first: Option<((usize, usize), i64)> = None;
            for &(arg, dim) in group {
                let at = (arg as usize, dim as usize);
                let extent = self.view(at.0)?.shape.get(at.1).copied();
                let extent = extent.ok_or(BindError::NoArgument { param: at.0, want: "view with that dimension" })?;
                match first {
                    None => first = Some((at, extent)),
                    Some((one, had)) if had != extent => {
                        return Err(BindError::Together { one, other: at, extents: [had, extent] });
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// What no one launches needs no values, and may have no addresses.
    fn fill(&mut self) -> Result<(), BindError> {
        self.values = if self.has_work() { self.filled(&self.params)? } else { Vec::new() };
        Ok(())
    }

    fn filled(&self, params: &[lane::Param]) -> Result<Vec<ParamValue>, BindError> {
        let at = |buffer: usize, offset: u64| self.lent.get(buffer).map_or(0, |l| l.address).wrapping_add(offset);
        abi::marshal(params, self.artifact.grid_rule().instances(self.grid).unwrap_or(self.grid), &self.args, at)
            .map_err(|e| BindError::Unfilled(e.into()))
    }

    /// Fills again the parameters that come of an argument. Nothing is changed if one can't be filled.
    fn refill(&mut self, arg: usize) -> Result<(), BindError> {
        if !self.has_work() {
            return Ok(());
        }
        let of = |p: &Param| match p.source {
            ParamSource::Pointer(n) | ParamSource::Extent(n, _) | ParamSource::Stride(n, _) | ParamSource::Scalar(n) => n as usize == arg,
            ParamSource::Tensor(t) => t.view as usize == arg,
            ParamSource::Grid(_) => false,
        };
        for n in 0..self.params.len() {
            if of(&self.artifact.params[n]) {
                let value = self.filled(&self.params[n..=n])?.pop();
                if let (Some(value), Some(place)) = (value, self.values.get_mut(n)) {
                    *place = value;
                }
            }
        }
        Ok(())
    }

    fn view(&self, param: usize) -> Result<&ViewArg, BindError> {
        match self.args.get(param) {
            Some(Arg::View(v)) => Ok(v),
            Some(Arg::Scalar(_)) | None => Err(BindError::NoArgument { param, want: "view" }),
        }
    }

    /// Gives a view other memory, and the view whose place it has: extents and strides stay. Checked are that it fits, its alignment, and whether it
    /// shares bytes with others.
    ///
    /// # Errors
    /// What is wrong; nothing is changed then.
    pub fn set_pointer(&mut self, param: usize, memory: Lent, offset_bytes: u64) -> Result<(), BindError> {
        let mut next = self.view(param)?.clone();
        next.offset_bytes = offset_bytes;
        let align = self.artifact.arguments.get(param).map_or(1, Argument::align);
        if !offset_bytes.is_multiple_of(u64::from(align)) {
            return Err(BindError::Args(ArgError::Alignment { param, align, offset: offset_bytes }));
        }
        let end = next.byte_range().end;
        if end > u128::from(memory.len) {
            return Err(BindError::Args(ArgError::Outside { param, end, len: memory.len }));
        }
        let changed = self.partners(param);
        let (args, lent, values) = (self.args.clone(), self.lent.clone(), self.values.clone());
        // Others may refer to the buffer that it had: then it has one of its own from now on.
        let others = (0..self.args.len()).filter(|n| !changed.contains(n));
        if others.clone().any(|n| self.view(n).is_ok_and(|v| v.buffer == next.buffer)) {
            next.buffer = self.lent.len();
            self.lent.push(memory);
        } else {
            self.lent[next.buffer] = memory;
        }
        for &n in &changed {
            self.args[n] = Arg::View(next.clone());
        }
        let checked = self.check_addresses().and_then(|()| changed.iter().try_for_each(|&n| self.refill(n)));
        if checked.is_err() {
            (self.args, self.lent, self.values) = (args, lent, values);
        }
        checked
    }

    /// Gives a scalar argument another value.
    ///
    /// # Errors
    /// A value of another type; nothing is changed then.
    pub fn set_scalar(&mut self, param: usize, value: ScalarArg) -> Result<(), BindError> {
        match self.args.get_mut(param) {
            Some(Arg::Scalar(had)) if had.elem() == value.elem() => {
                multiple(&self.artifact, param, &value.into()).map_err(BindError::Args)?;
                *had = value;
            }
            Some(Arg::Scalar(had)) => {
                return Err(BindError::Args(ArgError::Element { param, want: had.elem(), got: value.elem() }));
            }
            Some(Arg::View(_)) | None => return Err(BindError::NoArgument { param, want: "number" }),
        }
        self.refill(param)
    }

    /// Gives one extent another value, and those that belong together with it: a batch of more rows. A dense view stays dense. Checked are what
    /// the kernel promises of the extent, that the views fit their memory, and whether they share bytes with others.
    ///
    /// # Errors
    /// What is wrong; nothing is changed then.
    pub fn set_extent(&mut self, param: usize, dim: usize, extent: i64) -> Result<(), BindError> {
        let here = (param as u32, dim as u32);
        let mut group = self.artifact.together.iter().find(|g| g.contains(&here)).cloned().unwrap_or_else(|| vec![here]);
        let same: Vec<(u32, u32)> =
            group.iter().flat_map(|&(a, d)| self.partners(a as usize).into_iter().map(move |p| (p as u32, d))).collect();
        group.extend(same);
        let (args, values) = (self.args.clone(), self.values.clone());
        let changed = group.iter().try_for_each(|&(arg, dim)| self.put_extent(arg as usize, dim as usize, extent));
        let lens: Vec<u64> = self.lent.iter().map(|l| l.len).collect();
        let checked = changed
            .and_then(|()| check(&self.artifact, &self.unified(), &lens).map_err(BindError::Args))
            .and_then(|()| self.check_addresses())
            .and_then(|()| group.iter().try_for_each(|&(arg, _)| self.refill(arg as usize)));
        if checked.is_err() {
            (self.args, self.values) = (args, values);
        }
        checked
    }

    fn put_extent(&mut self, param: usize, dim: usize, extent: i64) -> Result<(), BindError> {
        let missing = BindError::NoArgument { param, want: "view with that dimension" };
        let dense = matches!(self.artifact.arguments.get(param), Some(Argument::View { ty, .. }) if ty.strides.is_none());
        let Some(Arg::View(v)) = self.args.get_mut(param) else { return Err(missing) };
        *v.shape.get_mut(dim).ok_or(missing)? = extent;
        if dense {
            let shape = v.shape.clone();
            v.strides = ViewArg::dense(v.buffer, v.elem, &shape).strides;
        }
        Ok(())
    }

    /// Asks for another grid.
    ///
    /// # Errors
    /// A grid that the artifact's rule forbids; nothing is changed then.
    pub fn set_grid(&mut self, grid: [u32; 3]) -> Result<(), BindError> {
        self.artifact.grid_rule().check(grid).map_err(BindError::Grid)?;
        let had = std::mem::replace(&mut self.grid, grid);
        // An empty grid let what addresses say pass.
        let checked = self.check().and_then(|()| self.fill());
        if checked.is_err() {
            self.grid = had;
        }
        checked
    }

    /// The artifact.
    pub fn artifact(&self) -> &Arc<Artifact> {
        &self.artifact
    }
    /// The grid that is asked for; [`GridRule::blocks`] says how many blocks are launched of it.
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }
    /// The arguments.
    pub fn args(&self) -> &[Arg] {
        &self.args
    }
    /// True if there is something to launch.
    pub fn has_work(&self) -> bool {
        GridRule::has_work(self.grid)
    }
    /// The launch parameters in order, for a host that launches by itself; none if there is nothing to launch.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.values.iter().map(Parameter::of).collect()
    }
    /// The same as one buffer of arguments, as HIP takes it; nothing if there is nothing to launch.
    ///
    /// # Errors
    /// A launch parameter that describes a tensor.
    pub fn argument_buffer(&self) -> Result<Vec<u8>, TensorParam> {
        kernel_arguments(&self.values)
    }
    /// The blocks to launch, where so many run at once (of a persistent kernel: one a multiprocessor); zeros if there is nothing to launch.
    pub fn blocks(&self, at_once: u32) -> [u32; 3] {
        if self.has_work() { self.artifact.grid_rule().blocks(self.grid, at_once) } else { [0; 3] }
    }
    /// As the devices here take them.
    #[cfg(any(feature = "cuda", feature = "hip"))]
    pub(crate) fn values(&self) -> &[ParamValue] {
        &self.values
    }
}
