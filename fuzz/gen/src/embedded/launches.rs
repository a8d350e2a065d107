//! Arguments of launches.

use super::subjects::subjects;
use crate::source::Source;
use std::sync::Arc;
use tilelift::Artifact;
use tilelift::interp::{Arg, ScalarArg, ViewArg};
use tilelift::ir::Scalar;
use tilelift::launch::{Argument, BindError, Bound, Lent, describe};

/// What a launch is bound with; every view has a buffer of its own, by its argument's number.
#[derive(Clone)]
struct Asked {
    grid: [u32; 3],
    args: Vec<Arg>,
    lent: Vec<Lent>,
}

impl Asked {
    fn bind(&self, artifact: &Arc<Artifact>) -> Result<Bound, BindError> {
        Bound::new(artifact.clone(), self.grid, &self.args, &self.lent)
    }
}

/// Any arguments of a launch, then any changes of it; how many of these were taken and refused.
///
/// # Panics
/// If a change is taken that binding anew refuses, or the other way round, if it leaves other parameters behind, or if a refused one leaves any.
pub fn any_launch(src: &mut Source) -> [u32; 2] {
    let mut counts = [0; 2];
    let all = subjects();
    let artifact = &all[src.below(all.len() as u32) as usize];
    let mut asked = if src.chance(200) { fitting(artifact) } else { any(src, artifact) };
    let Ok(mut bound) = asked.bind(artifact) else { return counts };
    for _ in 0..src.below(12) {
        let before = bound.clone();
        let mut next = asked.clone();
        let changed = change(src, artifact, &mut bound, &mut next);
        let Some(changed) = changed else { continue };
        let fresh = next.bind(artifact);
        counts[usize::from(changed.is_err())] += 1;
        assert_eq!(changed.is_ok(), fresh.is_ok(), "{changed:?} of a change, {:?} of binding anew", fresh.as_ref().map(|_| ()));
        match fresh {
            Ok(fresh) => {
                assert_eq!(bound.parameters(), fresh.parameters(), "a change leaves other parameters");
                assert_eq!((bound.blocks(7), bound.argument_buffer().ok()), (fresh.blocks(7), fresh.argument_buffer().ok()));
                asked = next;
            }
            Err(_) => assert_eq!(format!("{bound:?}"), format!("{before:?}"), "a refused change leaves something"),
        }
    }
    counts
}

/// A launch of plain arguments, for an artifact of which nobody knows more: it is bound, or refused.
pub(super) fn plain(artifact: &Arc<Artifact>) {
    let asked = fitting(artifact);
    if let Ok(mut bound) = asked.bind(artifact) {
        let _ = (bound.set_extent(0, 0, 64), bound.set_pointer(0, Lent { address: 1 << 40, len: 1 << 30 }, 0), bound.set_grid([2, 1, 1]));
        let _ = (bound.parameters(), bound.argument_buffer());
    }
    let _ = describe(artifact);
}

/// Arguments that keep what most kernels promise.
fn fitting(artifact: &Artifact) -> Asked {
    let lent = (0..artifact.arguments.len() as u64).map(|n| Lent { address: (n + 1) << 24, len: 1 << 20 }).collect();
    let mut args: Vec<Arg> = artifact.arguments.iter().enumerate().map(|(n, a)| usual(n, a)).collect();
    for &(output, input) in &artifact.in_place {
        if let (Some(place), Some(same)) = (args.get(input as usize).cloned(), args.get_mut(output as usize)) {
            *same = place;
        }
    }
    Asked { grid: [4, 1, 1], args, lent }
}

fn usual(n: usize, a: &Argument) -> Arg {
    match a {
        Argument::View { ty, .. } => ViewArg::dense(n, ty.elem, &vec![128; ty.rank()]).into(),
        Argument::Scalar { elem, multiple_of } => ScalarArg::int(*elem, 3 * i64::from(*multiple_of)).into(),
        _ => ScalarArg::int(Scalar::I32, 0).into(),
    }
}

/// Arguments that keep nothing.
fn any(src: &mut Source, artifact: &Artifact) -> Asked {
    let mut asked = fitting(artifact);
    asked.grid = grid(src);
    for n in 0..asked.args.len() {
        match src.below(5) {
            0 => {}
            1 => asked.args[n] = scalar(src).into(),
            _ => {
                let rank = if src.chance(30) { src.below(9) as usize } else { artifact.arguments[n].rank() };
                let shape: Vec<i64> = (0..rank).map(|_| extent(src)).collect();
                let elem = if src.chance(20) { Scalar::F64 } else { artifact.arguments[n].elem() };
                // Another's buffer, or none that there is.
                let buffer = if src.chance(30) { src.below(5) as usize } else { n };
                let mut view = ViewArg::dense(buffer, elem, &shape).at(offset(src));
                if src.chance(100) {
                    let strides = if src.chance(30) { src.below(9) as usize } else { rank };
                    view = view.with_strides(&(0..strides).map(|_| extent(src)).collect::<Vec<_>>());
                }
                asked.args[n] = view.into();
            }
        }
        asked.lent[n] = memory(src);
    }
    if src.chance(20) {
        asked.args.pop();
    }
    asked
}

fn grid(src: &mut Source) -> [u32; 3] {
    [(); 3].map(|()| [1, 0, 2, 3, 7, 65535, 65536, i32::MAX as u32, u32::MAX][src.below(9) as usize])
}

fn extent(src: &mut Source) -> i64 {
    match src.below(3) {
        0 => [0, 1, 64, 128, -1, -64, i64::from(i32::MAX), 1 << 31, i64::MAX, i64::MIN][src.below(10) as usize],
        1 => 64 * src.range(0, 8),
        _ => src.range(0, 300),
    }
}

fn offset(src: &mut Source) -> u64 {
    [0, 16, 256, 4, 1, 1 << 20, u64::MAX, u64::MAX - 15][src.below(8) as usize]
}

fn memory(src: &mut Source) -> Lent {
    let address = match src.below(4) {
        0 => [0, 1, 1 << 24, u64::MAX, u64::MAX - (1 << 20)][src.below(5) as usize],
        // Near the others, so that some meet.
        _ => ((1 + u64::from(src.below(4))) << 24) + 128 * u64::from(src.below(3)),
    };
    Lent { address, len: [1 << 20, 0, 4, 1 << 16, 1 << 40, u64::MAX][src.below(6) as usize] }
}

fn scalar(src: &mut Source) -> ScalarArg {
    let elem = *src.pick(Scalar::ALL).unwrap_or(&Scalar::F32);
    if src.chance(128) { ScalarArg::int(elem, src.range(0, 300) - 150) } else { ScalarArg::float(elem, 0.5) }
}

/// Changes a binding in one thing, and says what should be bound then; nothing if the change has no such form.
fn change(src: &mut Source, artifact: &Artifact, bound: &mut Bound, next: &mut Asked) -> Option<Result<(), BindError>> {
    let count = artifact.arguments.len() as u32;
    let param = src.below(count + 1) as usize;
    match src.below(4) {
        0 => {
            let (memory, offset) = (memory(src), offset(src));
            let done = bound.set_pointer(param, memory, offset);
            let Some(Arg::View(v)) = next.args.get(param).cloned() else { return refused(done) };
            next.lent[v.buffer] = memory;
            for n in partners(artifact, param) {
                next.args[n] = v.clone().at(offset).into();
            }
            Some(done)
        }
        1 => {
            let (dim, to) = (src.below(4) as usize, extent(src));
            let done = bound.set_extent(param, dim, to);
            let group = artifact.together.iter().find(|g| g.contains(&(param as u32, dim as u32)));
            let group = group.cloned().unwrap_or_else(|| vec![(param as u32, dim as u32)]);
            for (arg, dim) in group {
                for n in partners(artifact, arg as usize) {
                    let Some(Arg::View(v)) = next.args.get_mut(n) else { return refused(done) };
                    let Some(place) = v.shape.get_mut(dim as usize) else { return refused(done) };
                    *place = to;
                    if matches!(&artifact.arguments[n], Argument::View { ty, .. } if ty.strides.is_none()) {
                        *v = ViewArg::dense(v.buffer, v.elem, &v.shape.clone()).at(v.offset_bytes);
                    }
                }
            }
            Some(done)
        }
        2 => {
            let value = scalar(src);
            let done = bound.set_scalar(param, value);
            let Some(Arg::Scalar(had)) = next.args.get_mut(param) else { return refused(done) };
            *had = value;
            Some(done)
        }
        _ => {
            next.grid = grid(src);
            Some(bound.set_grid(next.grid))
        }
    }
}

/// A change of what is not there.
fn refused(done: Result<(), BindError>) -> Option<Result<(), BindError>> {
    assert!(matches!(done, Err(BindError::NoArgument { .. })), "{done:?} of an argument that there is not");
    None
}

/// An argument and what has to be the same view.
fn partners(artifact: &Artifact, param: usize) -> Vec<usize> {
    let of = |&(o, i): &(u32, u32)| [(o, i), (i, o)].into_iter().find(|p| p.0 as usize == param).map(|p| p.1 as usize);
    [param].into_iter().chain(artifact.in_place.iter().filter_map(of)).collect()
}
