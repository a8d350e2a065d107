//! Tests of the interpreter: a case per op, checked against arithmetic that shares nothing with it (native Rust types, or closed
//! forms), then control, memory, arguments and faults.

mod arguments;
mod casts;
mod channels;
mod combine;
mod control;
mod conversions;
mod elementwise;
mod explicit;
mod faults;
mod folds;
mod in_flight;
mod indexed;
mod lanes;
mod memory;
mod multiples;
mod order;
mod random;
mod scaled;
mod shapes;

use std::cell::RefCell;
use std::collections::BTreeSet;
use tilelift_interp::{Arg, Buffer, InterpError, Memory, Options, ScalarArg, Stats, ViewArg, interpret};
use tilelift_ir::ops::Op;
use tilelift_ir::types::{Extent, Scalar, ViewType};
use tilelift_ir::{Kernel, KernelBuilder, Value, verify};

/// One case per op; the test below fails for an op without one, or whose case does not run it.
const CASES: &[(Op, fn())] = &[
    (Op::Const, shapes::constants_and_splats),
    (Op::ProgramId, control::program_ids_and_counts),
    (Op::NumPrograms, control::program_ids_and_counts),
    (Op::Dim, memory::dims_and_edges),
    (Op::Iota, shapes::iotas),
    (Op::Splat, shapes::constants_and_splats),
    (Op::Add, elementwise::arithmetic),
    (Op::Sub, elementwise::arithmetic),
    (Op::Mul, elementwise::arithmetic),
    (Op::Div, elementwise::arithmetic),
    (Op::Rem, elementwise::integer_arithmetic),
    (Op::Fma, elementwise::fused),
    (Op::Minimum, elementwise::extremes),
    (Op::Maximum, elementwise::extremes),
    (Op::MinNum, elementwise::extremes),
    (Op::MaxNum, elementwise::extremes),
    (Op::Neg, elementwise::signs),
    (Op::Abs, elementwise::signs),
    (Op::And, elementwise::bits),
    (Op::Or, elementwise::bits),
    (Op::Xor, elementwise::bits),
    (Op::Not, elementwise::bits),
    (Op::Shl, elementwise::shifts),
    (Op::ShrS, elementwise::shifts),
    (Op::ShrU, elementwise::shifts),
    (Op::Exp, elementwise::functions),
    (Op::Exp2, elementwise::functions),
    (Op::Log, elementwise::functions),
    (Op::Log2, elementwise::functions),
    (Op::Sqrt, elementwise::functions),
    (Op::Rsqrt, elementwise::functions),
    (Op::Tanh, elementwise::functions),
    (Op::Floor, elementwise::functions),
    (Op::Ceil, elementwise::functions),
    (Op::Rcp, elementwise::functions),
    (Op::Sin, elementwise::functions),
    (Op::Cos, elementwise::functions),
    (Op::Erf, elementwise::functions),
    (Op::Atan2, elementwise::angles),
    (Op::Round, elementwise::functions),
    (Op::Trunc, elementwise::functions),
    (Op::DivU, elementwise::unsigned),
    (Op::RemU, elementwise::unsigned),
    (Op::MulHi, elementwise::unsigned),
    (Op::MulHiU, elementwise::unsigned),
    (Op::MinimumU, elementwise::unsigned),
    (Op::MaximumU, elementwise::unsigned),
    (Op::Popcount, elementwise::unsigned),
    (Op::Clz, elementwise::unsigned),
    (Op::Cmp, conversions::comparisons),
    (Op::Select, conversions::selections),
    (Op::Cast, conversions::casts),
    (Op::Bitcast, conversions::bitcasts),
    (Op::Broadcast, shapes::broadcasts),
    (Op::Reshape, shapes::reshapes),
    (Op::Transpose, shapes::transposes),
    (Op::Reduce, folds::reductions_of_integers),
    (Op::Join, shapes::joins_and_splits),
    (Op::Split, shapes::joins_and_splits),
    (Op::Concat, shapes::concats_and_slices),
    (Op::Slice, shapes::concats_and_slices),
    (Op::Flip, shapes::flips),
    (Op::Scan, folds::scans),
    (Op::ScanReverse, folds::scans),
    (Op::ArgMin, folds::positions_of_extremes),
    (Op::ArgMax, folds::positions_of_extremes),
    (Op::ReduceBy, combine::reductions_follow_the_tree),
    (Op::ScanBy, combine::scans_go_in_order),
    (Op::ScanReverseBy, combine::scans_go_in_order),
    (Op::Philox, combine::philox_words),
    (Op::Assume, faults::assumptions_and_assertions),
    (Op::RequireLayout, shapes::required_layouts),
    (Op::ReleaseLayout, shapes::required_layouts),
    (Op::Assert, faults::assumptions_and_assertions),
    (Op::Print, faults::prints),
    (Op::Dot, folds::dots_of_every_type),
    (Op::DotScaled, scaled::scales_belong_to_blocks_of_rows_and_columns),
    (Op::Load, memory::dims_and_edges),
    (Op::Store, memory::dims_and_edges),
    (Op::Prefetch, memory::prefetches_change_nothing),
    (Op::Gather, indexed::gathers_and_scatters),
    (Op::Scatter, indexed::gathers_and_scatters),
    (Op::Atomic, indexed::updates),
    (Op::AtomicCas, indexed::updates),
    (Op::GatherTile, order::gathers_inside_tiles),
    (Op::Histogram, order::histograms),
    (Op::Sort, order::sorts),
    (Op::ArgSort, order::sorts),
    (Op::TopK, order::first_elements),
    (Op::ArgTopK, order::first_elements),
    (Op::For, control::for_loops),
    (Op::While, control::while_loops),
    (Op::If, control::branches),
    (Op::Yield, control::branches),
    (Op::LocalIndex, explicit::a_ring_with_a_product_in_flight),
    (Op::BarrierIndex, explicit::a_ring_with_a_product_in_flight),
    (Op::BarrierExpect, explicit::a_ring_with_a_product_in_flight),
    (Op::BarrierArrive, explicit::a_ring_with_a_product_in_flight),
    (Op::BarrierWait, explicit::a_ring_with_a_product_in_flight),
    (Op::AsyncLoad, explicit::a_ring_with_a_product_in_flight),
    (Op::CopyAsync, lanes::a_pipelined_product),
    (Op::CopyAsyncCommit, lanes::a_pipelined_product),
    (Op::CopyAsyncWait, lanes::a_pipelined_product),
    (Op::CopyAsyncArrive, lanes::rows_that_arrive),
    (Op::GatherAsync, lanes::rows_that_arrive),
    (Op::AsyncDot, explicit::a_ring_with_a_product_in_flight),
    (Op::AsyncDotWait, explicit::a_ring_with_a_product_in_flight),
    (Op::SchedBarrier, explicit::a_product_beside_lanes),
    (Op::TurnFirst, explicit::products_in_turns),
    (Op::TurnWait, explicit::products_in_turns),
    (Op::TurnPass, explicit::products_in_turns),
    (Op::TurnLast, explicit::products_in_turns),
    (Op::Tasks, explicit::a_ring_with_a_product_in_flight),
    (Op::LocalAlloc, explicit::staging),
    (Op::LocalSlice, explicit::staging),
    (Op::LocalTranspose, explicit::staging),
    (Op::LocalReinterpret, explicit::staging),
    (Op::LocalLoad, explicit::staging),
    (Op::LocalStore, explicit::staging),
    (Op::TaskBarrier, explicit::staging),
    (Op::FenceAsync, explicit::staging),
    (Op::AsyncStore, explicit::staging),
    (Op::AsyncReduce, explicit::staging),
    (Op::AsyncStoreWait, explicit::staging),
    (Op::BarrierAlloc, explicit::clusters),
    (Op::ClusterRank, explicit::clusters),
    (Op::ClusterSize, explicit::clusters),
    (Op::WorkerId, explicit::workers),
    (Op::NumWorkers, explicit::workers),
    (Op::ClusterBarrier, explicit::clusters),
    (Op::ClusterArrive, explicit::clusters),
    (Op::ClusterWait, explicit::clusters),
    (Op::RemoteLoad, explicit::clusters),
    (Op::RemoteStore, explicit::clusters),
    (Op::RemoteStoreAsync, explicit::clusters),
    (Op::RemoteArrive, explicit::clusters),
    (Op::NamedBarrierSync, explicit::named_barriers),
    (Op::NamedBarrierArrive, explicit::named_barriers),
    (Op::ChannelAlloc, explicit::channels),
    (Op::ChannelPut, explicit::channels),
    (Op::ChannelGet, explicit::channels),
    (Op::ChannelConsumed, explicit::channels),
];

thread_local! {
    /// Ops of the kernels that ran to their end on this thread.
    static SEEN: RefCell<BTreeSet<Op>> = const { RefCell::new(BTreeSet::new()) };
}

#[test]
fn every_op_has_a_case_that_runs_it() {
    for &op in Op::ALL {
        let case = CASES.iter().find(|c| c.0 == op).unwrap_or_else(|| panic!("`{op}` has no case: add one to CASES"));
        SEEN.with_borrow_mut(BTreeSet::clear);
        (case.1)();
        assert!(SEEN.with_borrow(|s| s.contains(&op)), "the case of `{op}` never ran it");
    }
}

/// Elements of a buffer.
#[derive(Clone, Debug)]
pub(crate) enum Nums {
    F(Scalar, Vec<f64>),
    I(Scalar, Vec<i64>),
}

impl Nums {
    pub(crate) fn elem(&self) -> Scalar {
        match self {
            Nums::F(e, _) | Nums::I(e, _) => *e,
        }
    }
    pub(crate) fn len(&self) -> usize {
        match self {
            Nums::F(_, v) => v.len(),
            Nums::I(_, v) => v.len(),
        }
    }
    pub(crate) fn buffer(&self) -> Buffer {
        match self {
            Nums::F(e, v) => Buffer::from_f64(*e, v.iter().copied()),
            Nums::I(e, v) => Buffer::from_i64(*e, v.iter().copied()),
        }
    }
}

pub(crate) fn view(elem: Scalar, rank: usize) -> ViewType {
    let last = Extent::Dynamic(if elem.is_packed() { 2 } else { 1 });
    ViewType::dense(elem, &[vec![Extent::Dynamic(1); rank.saturating_sub(1)], vec![last; rank.min(1)]].concat())
}

/// Verifies and runs a kernel, noting its ops when it succeeds.
pub(crate) fn run(kernel: &Kernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory, options: &Options) -> Result<Stats, InterpError> {
    let verified = verify(kernel).expect("a valid kernel");
    let stats = interpret(&verified, grid, args, memory, options)?;
    kernel.walk(kernel.body, &mut |i| SEEN.with_borrow_mut(|s| _ = s.insert(kernel.insts[i].op)));
    Ok(stats)
}

/// Loads each input as one tile of its given shape, applies `body`, and returns the result's buffer.
pub(crate) fn eval(inputs: &[(&Nums, &[u32])], out: (Scalar, &[u32]), body: impl FnOnce(&mut KernelBuilder, &[Value]) -> Value) -> Buffer {
    let mut b = KernelBuilder::new("case");
    let mut memory = Memory::new();
    let mut args: Vec<Arg> = Vec::new();
    let extents = |s: &[u32]| s.iter().map(|&e| i64::from(e)).collect::<Vec<_>>();
    let params: Vec<Value> = inputs.iter().map(|(n, s)| b.param(view(n.elem(), s.len()))).collect();
    for (n, s) in inputs {
        let i = memory.add(n.buffer());
        args.push(ViewArg::dense(i, n.elem(), &extents(s)).into());
    }
    let count = out.1.iter().product::<u32>() as usize;
    let i = memory.add(Buffer::uninit_elements(out.0, count));
    args.push(ViewArg::dense(i, out.0, &extents(out.1)).into());
    let result = b.param(view(out.0, out.1.len()));
    let zero = b.constant(0, Scalar::I32);
    let tiles: Vec<Value> = params.iter().zip(inputs).map(|(&p, (_, s))| b.load(p, &vec![zero; s.len()], s)).collect();
    let v = body(&mut b, &tiles);
    b.store(result, &vec![zero; out.1.len()], v);
    let kernel = b.finish().expect("a valid kernel");
    run(&kernel, [1, 1, 1], &args, &mut memory, &Options::default()).expect("the case runs");
    memory.buffers.swap_remove(i)
}

/// A binary op on all pairs of the two lists.
pub(crate) fn pairs<T: Copy>(xs: &[T]) -> (Vec<T>, Vec<T>) {
    let n = xs.len();
    ((0..n * n).map(|i| xs[i / n]).collect(), (0..n * n).map(|i| xs[i % n]).collect())
}

/// One-dimensional [`eval`].
pub(crate) fn eval1(inputs: &[&Nums], out: Scalar, body: impl FnOnce(&mut KernelBuilder, &[Value]) -> Value) -> Buffer {
    let shape = [inputs[0].len() as u32];
    let with: Vec<(&Nums, &[u32])> = inputs.iter().map(|n| (*n, &shape[..])).collect();
    eval(&with, (out, &shape), body)
}

/// Bits equal, all NaN alike.
#[track_caller]
pub(crate) fn assert_floats(got: &[f64], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!(g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan()), "{what}, element {i}: got {g:e}, want {w:e}");
    }
}

/// A seeded stream of numbers (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// In [-1, 1), with 24 significant bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 40) as f64 / f64::from(1 << 23) - 1.0
    }
}

/// A scalar argument.
pub(crate) fn number(elem: Scalar, x: i64) -> Arg {
    ScalarArg::int(elem, x).into()
}
