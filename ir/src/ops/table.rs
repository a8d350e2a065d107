//! The rows.

use super::info::{AttrKind, Effects, ErrorBound, OpInfo, OperandInfo, OperandKind, Rule, Work};

/// Hands all rows to a macro, in three pairs of braces: rows, the elementwise ops, more rows. A row of an elementwise op says at its end
/// what work it is, see [`Work`], and `within` which error a function of `f32` may have, see [`ErrorBound`].
#[rustfmt::skip]
macro_rules! op_rows {
    ($then:ident) => { $then! { {
    /// A scalar literal. Written in place of an operand: `7`, `-1i64`, `0.5`, `1.5bf16`, `inf`, `nan`, `true`; without a suffix it takes the type that its place asks for, else `i32` or `f32`.
    Const const () Literal - Explicit Pure 0;
    /// This program instance's position on a grid axis, from 0.
    ProgramId program_id () Grid - Index Pure 0;
    /// The grid's extent along an axis.
    NumPrograms num_programs () Grid - Index Pure 0;
    /// A view's extent along a dimension.
    Dim dim (view) - Dim Index Pure 0;
    /// The index of each element along a dimension: 0, 1, 2, ….
    Iota iota () Dim - Iota Pure 0;
    /// A tile whose elements all equal a scalar.
    Splat splat (value) - - Splat Pure 0;
    } {
    /// Sum; integers wrap, floats round to nearest even.
    Add add (a, b) - - SameNumber Pure 0 Simple;
    /// Difference; integers wrap.
    Sub sub (a, b) - - SameNumber Pure 0 Simple;
    /// Product; integers wrap.
    Mul mul (a, b) - - SameNumber Pure 0 Product;
    /// Quotient. Signed integers truncate toward zero; division by zero gives 0 and the most negative number divided by -1 wraps. Floats round to nearest even.
    Div div (a, b) - - SameNumber Pure 0 Division;
    /// Signed integer remainder with the sign of the dividend: `a - div(a, b) * b`, so a zero divisor gives the dividend.
    Rem rem (a, b) - - SameInt Pure 0 Quotient;
    /// Unsigned integer quotient; division by zero gives 0.
    DivU div_u (a, b) - - SameInt Pure 0 Quotient;
    /// Unsigned integer remainder; a zero divisor gives the dividend.
    RemU rem_u (a, b) - - SameInt Pure 0 Quotient;
    /// Upper half of the signed product of twice the width.
    MulHi mulhi (a, b) - - SameInt Pure 0 Product;
    /// Upper half of the unsigned product of twice the width.
    MulHiU mulhi_u (a, b) - - SameInt Pure 0 Product;
    /// Fused multiply-add `a * b + c` with one rounding; `f16` and `bf16` round the `f32` result of a fused `f32` operation.
    Fma fma (a, b, c) - - SameFloat Pure 0 Simple;
    /// Smaller operand; a NaN operand gives NaN; -0 is smaller than +0. Signed for integers.
    Minimum minimum (a, b) - - SameNumber Pure 0 Simple;
    /// Larger operand; a NaN operand gives NaN; +0 is larger than -0. Signed for integers.
    Maximum maximum (a, b) - - SameNumber Pure 0 Simple;
    /// Smaller operand, read unsigned.
    MinimumU minimum_u (a, b) - - SameInt Pure 0 Simple;
    /// Larger operand, read unsigned.
    MaximumU maximum_u (a, b) - - SameInt Pure 0 Simple;
    /// Smaller operand; of a number and a NaN, the number.
    MinNum minnum (a, b) - - SameFloat Pure 0 Simple;
    /// Larger operand; of a number and a NaN, the number.
    MaxNum maxnum (a, b) - - SameFloat Pure 0 Simple;
    /// Negation; integers wrap, floats flip the sign bit.
    Neg neg (a) - - SameNumber Pure 0 Sign;
    /// Absolute value; the most negative integer stays itself.
    Abs abs (a) - - SameNumber Pure 0 Sign;

    /// Bitwise (logical for `i1`) and.
    And and (a, b) - - SameBits Pure 0 Simple;
    /// Bitwise (logical for `i1`) or.
    Or or (a, b) - - SameBits Pure 0 Simple;
    /// Bitwise (logical for `i1`) exclusive or.
    Xor xor (a, b) - - SameBits Pure 0 Simple;
    /// Bitwise (logical for `i1`) complement.
    Not not (a) - - SameBits Pure 0 Simple;
    /// Shift left; a shift by the width or more (read unsigned) gives 0.
    Shl shl (a, b) - - SameInt Pure 0 Simple;
    /// Arithmetic shift right; a shift by the width or more gives the sign in every bit.
    ShrS shr_s (a, b) - - SameInt Pure 0 Simple;
    /// Logical shift right; a shift by the width or more gives 0.
    ShrU shr_u (a, b) - - SameInt Pure 0 Simple;

    /// Number of bits that are 1.
    Popcount popcount (a) - - SameInt Pure 0 Simple;
    /// Number of zero bits above the highest bit that is 1; the width for 0.
    Clz clz (a) - - SameInt Pure 0 Simple;

    /// `e^a`; error at most 2^-21 of the result for `f32`, 2^-50 for `f64`, or 2^-126 (2^-1022 for `f64`) if that is more: a subnormal result may be 0.
    Exp exp (a) - - SameFloat Pure 0 Composite(9) within(-21, -126);
    /// `2^a`; error at most 2^-22 of the result for `f32`, 2^-50 for `f64`, or 2^-126 (2^-1022 for `f64`) if that is more: a subnormal result may be 0.
    Exp2 exp2 (a) - - SameFloat Pure 0 Special(3) within(-22, -126);
    /// Natural logarithm; for `f32` the absolute error is at most 2^-21 on [0.5, 2], relative 2^-21 elsewhere; for `f64` relative 2^-50; NaN below 0, -inf at 0.
    Log log (a) - - SameFloat Pure 0 Composite(4) within(-21, -21);
    /// Base 2 logarithm; errors as `log`.
    Log2 log2 (a) - - SameFloat Pure 0 Special(3) within(-21, -21);
    /// Square root, rounded to nearest even; NaN below 0.
    Sqrt sqrt (a) - - SameFloat Pure 0 Special(12);
    /// `1 / sqrt(a)`; relative error at most 2^-22 for `f32`.
    Rsqrt rsqrt (a) - - SameFloat Pure 0 Special(3) within(-22);
    /// Hyperbolic tangent; relative error at most 2^-20 for `f32`, 2^-50 for `f64`.
    Tanh tanh (a) - - SameFloat Pure 0 Special(12) within(-20);
    /// `1 / a`; relative error at most 2^-22 for `f32`, rounded to nearest even for `f64`.
    Rcp rcp (a) - - SameFloat Pure 0 Special(3) within(-22);
    /// Sine of `a` radians, of any size; relative error at most 2^-21 for `f32`, 2^-51 for `f64`; NaN for infinities.
    Sin sin (a) - - SameFloat Pure 0 Composite(48) within(-21);
    /// Cosine of `a` radians, of any size; relative error at most 2^-21 for `f32`, 2^-51 for `f64`; NaN for infinities.
    Cos cos (a) - - SameFloat Pure 0 Composite(48) within(-21);
    /// Error function; relative error at most 2^-21 for `f32`, 2^-50 for `f64`.
    Erf erf (a) - - SameFloat Pure 0 Composite(18) within(-21);
    /// Angle of the point `(b, a)` from the positive first axis, in `[-pi, pi]`: the arc tangent of `a / b` in the quadrant of both signs. The sign is that of `a`, zeros included; `b` of -0 is to the left; two infinities count as equal. Relative error at most 2^-21 for `f32`, 2^-50 for `f64`, or half the smallest number if that is more.
    Atan2 atan2 (a, b) - - SameFloat Pure 0 Composite(48) within(-21);
    /// Largest integral value not above.
    Floor floor (a) - - SameFloat Pure 0 Simple;
    /// Smallest integral value not below.
    Ceil ceil (a) - - SameFloat Pure 0 Simple;
    /// Nearest integral value, ties to even.
    Round round (a) - - SameFloat Pure 0 Simple;
    /// Integral value toward zero.
    Trunc trunc (a) - - SameFloat Pure 0 Simple;

    /// Comparison of two values of one type.
    Cmp cmp (a, b) Cmp - Compare Pure 0 Simple;
    /// The second operand where the condition holds, else the third; the condition is a scalar or a tile of the shape.
    Select select (condition, a, b) - - Select Pure 0 Simple;
    /// Conversion by value. To a float: round to nearest even, overflow to infinity; where the type has none (`f8e4m3`, `f8e4m3fnuz`, `f8e5m2fnuz`, `f8e8m0`, `f4e2m1`), overflow and infinity to the largest number of the sign. To `f8e8m0`, which has only powers of two: a tie to the even code, zero to 2^-127, negative numbers to NaN. To `f4e2m1`, which has no NaN: NaN to 6. Float to integer: truncate, saturate, NaN gives 0. Integer to integer: wrap or sign-extend (`i1` extends with zeros; to `i1` means `!= 0`).
    Cast cast (a) - - Cast Pure 0 Simple;
    /// The same bits read as another type of the same width. Between elements of 8 and of 4 bits the last extent of a tile doubles or halves; the element with the even index is the low half.
    Bitcast bitcast (a) - - Bitcast Pure 0 Rename;
    } {
    /// Repeats the extents that are 1.
    Broadcast broadcast (a) - - Broadcast Pure 0;
    /// The same elements in row-major order under other extents.
    Reshape reshape (a) - - Reshape Pure 0;
    /// Permutes the dimensions: result dimension `i` is operand dimension `perm[i]`.
    Transpose transpose (a) - Perm Transpose Pure 0;
    /// Two tiles interleaved: element `[…, 0]` is of the first, `[…, 1]` of the second.
    Join join (a, b) - - Join Pure 0;
    /// The inverse of `join`: the elements `[…, 0]` and the elements `[…, 1]`.
    Split split (a) - - Split Pure 0;
    /// The second tile behind the first along an axis.
    Concat concat (a, b) - AxisDim Concat Pure 0;
    /// The elements at constant offsets: result element `i` is operand element `offset + i`.
    Slice slice (a) - Offsets Slice Pure 0;
    /// Reverses the order along an axis.
    Flip flip (a) - AxisDim Flip Pure 0;
    /// Combines the elements along an axis in a fixed tree (see `docs/language.md`), so that a result never depends on the schedule.
    Reduce reduce (a) Reduce AxisDim Reduce Pure 0;
    /// Inclusive scan: each element becomes the combination of the elements up to it along an axis, in a fixed tree (see `docs/language.md`), so that a result never depends on the schedule.
    Scan scan (a) Reduce AxisDim Scan Pure 0;
    /// As `scan` from the last element backward: `flip` of `scan` of `flip`.
    ScanReverse scan_reverse (a) Reduce AxisDim Scan Pure 0;
    /// `v1, v2 = reduce_by a, b, axis 0 combine v3, v4 with v5, v6 { … yield c, d }`: as `reduce`, of one or more tiles at a time, with an op of the author's: the region gets an element of each tile, then another of each, and yields what they combine to. The tree is that of `reduce` and takes elements out of their order: the op should be associative and commutative (for one that is not commutative, take the last element of `scan_by`). The result is that of this tree, whatever the op is.
    ReduceBy reduce_by ((*tiles)) - AxisDim ReduceBy Pure 1;
    /// `v1, v2 = scan_by a, b, axis 0 combine v3, v4 with v5, v6 { … yield c, d }`: as `scan`, of one or more tiles at a time, with an op of the author's, which should be associative; it gets what comes earlier along the axis first.
    ScanBy scan_by ((*tiles)) - AxisDim ScanBy Pure 1;
    /// As `scan_by` from the last element backward: `flip` of `scan_by` of `flip`.
    ScanReverseBy scan_reverse_by ((*tiles)) - AxisDim ScanBy Pure 1;
    /// Position of the smallest element along an axis: the lowest of equal ones (-0 and +0 are equal); of the first NaN if there is one. Signed for integers.
    ArgMin argmin (a) - AxisDim ArgReduce Pure 0;
    /// Position of the largest element along an axis; ties and NaN as for `argmin`.
    ArgMax argmax (a) - AxisDim ArgReduce Pure 0;
    /// Matrix product `a * b + c`: `MxK` by `KxN` plus `MxN`, or for each index of a leading dimension that all three have. Floats: products are exact, the sum may run in any order and round to the accumulator type at any step; with operands of 8 bits, parts of it over a depth of up to 128 may keep only 13 bits below the highest bit of their largest addend.
    Dot dot (a, b, c) - Precision Dot Pure 0;
    /// Matrix product of block-scaled operands (the OCP microscaling formats MXFP8 and MXFP4): `c + sum over blocks of scale_a * scale_b * (block of a * block of b)`, where a block is 32 elements along K and its scale one power of two. `scale_a` has one scale per row of `a` and block, `scale_b` one per block and column of `b`. A scale that is NaN makes its row or column NaN. An element times its own scale is exact, but for the ends of the range: beyond the largest `f32` it may be an infinity (the standard leaves it to implementations), and below 2^-126 it may be rounded to a multiple of 2^-133, or be zero. Their products are exact, whatever the scales, and are added up as those of `dot` with operands of 8 bits: the sum may run in any order and round to `f32` at any step, and parts of it over a depth of up to 128 may keep only 13 bits below the highest bit of their largest addend.
    DotScaled dot_scaled (a, scale_a, b, scale_b, c) - - DotScaled Pure 0;

    /// Reads a tile of a view at an offset per dimension. Elements outside the view, or whose mask is false, are `other` (0 if absent).
    Load load (view, [indices], (?mask), (?other)) - Cache Load Reads 0;
    /// Writes a tile to a view at an offset per dimension. Elements outside the view, or whose mask is false, are not written.
    Store store (view, [indices], value, (?mask)) - Cache Store Writes 0;
    /// Asks the caches to fetch a tile of a view, of the written extents, at an offset per dimension; elements outside the view are not. For speed alone: it changes no number and waits for nothing. What is near the edge of a line of the caches may be left out.
        Prefetch prefetch (view, [indices]) - Offsets Prefetch Observes 0;
        /// Reads the elements of a view that tiles of indices name, one tile per dimension. Elements outside the view, or whose mask is false, are `other` (0 if absent).
    Gather gather (view, [indices], (?mask), (?other)) - Cache Gather Reads 0;
    /// Writes a tile to the elements of a view that tiles of indices name. Elements outside the view, or whose mask is false, are not written. Two elements of the tile that meet in one place must have the same bits; which of different ones would stay is not defined, and the interpreter refuses them.
    Scatter scatter (view, [indices], value, (?mask)) - Cache Scatter Writes 0;
    /// Updates the elements of a view that tiles of indices name, each in one indivisible step, and gives the values from before. Where the index is outside the view or the mask is false nothing happens and the result is 0. Updates that meet in one place happen one after the other in an order that is not defined (the interpreter takes the programs in its order and the elements in row-major order): integer results in memory do not depend on it; a float `add` of `n` values rounds after each step, so it is within `n * u * (sum of magnitudes)` of the exact sum, `u` being half a unit in the last place of 1, and `f32` may take a subnormal operand or sum for 0. Of floats only `add` and `xchg` exist.
    Atomic atomic (view, [indices], value, (?mask)) Atomic Sync Atomic Updates 0;
    /// Compare and swap, as `atomic`: where the element equals `compare` it becomes `value`; integers only. The result is the values from before.
    AtomicCas atomic_cas (view, [indices], compare, value, (?mask)) - Sync Atomic Updates 0;

    /// Reads elements of a tile along an axis: `result[…, i, …] = a[…, indices[…, i, …], …]`. An index below 0 or beyond the axis gives 0.
    GatherTile gather_tile (a, indices) - AxisDim GatherTile Pure 0;
    /// Counts how often each of the numbers 0, 1, 2, … appears among the elements of an integer tile; the written type says how many numbers. Other numbers, and elements whose mask is false, are not counted.
    Histogram histogram (a, (?mask)) - - Histogram Pure 0;
    /// The elements of each line along an axis in order. Integers are signed, `false` comes before `true`, -0 before +0, and NaN (of which the result has the default one) last in either direction.
    Sort sort (a) Sort AxisDim Sort Pure 0;
    /// Where the elements of `sort` came from: positions along the axis. Equal elements keep their order in either direction, so the result is unique.
    ArgSort argsort (a) Sort AxisDim ArgSort Pure 0;
    /// The first elements of `sort`, as many as the written type has along the axis: `descending` gives the largest.
    TopK top_k (a) Sort AxisDim TopK Pure 0;
    /// The first elements of `argsort`: of equal elements the one at the lowest position comes first.
    ArgTopK arg_top_k (a) Sort AxisDim ArgTopK Pure 0;

    /// Philox4x32-10 of Salmon, Moraes, Dror and Shaw (2011): four random words from a counter of four words and a key of two. Ten rounds of `(c0, c1, c2, c3) = (mulhi_u(0xcd9e8d57, c2) ^ c1 ^ k0, 0xcd9e8d57 * c2, mulhi_u(0xd2511f53, c0) ^ c3 ^ k1, 0xd2511f53 * c0)`, with `k0 += 0x9e3779b9` and `k1 += 0xbb67ae85` in between.
    Philox philox (c0, c1, c2, c3, k0, k1) - - Philox Pure 0;
    /// The operand, which the author promises to be a multiple of a number; wider accesses follow from it. The interpreter checks the promise, no device does.
    Assume assume (a) - Divisor Assume Pure 0;
    /// The operand, which from here on lies in registers in the layout given, and so does what is computed from it element by element, accumulated into it, or carried by loops and choices, up to a `release_layout`. Two requirements that are written differently must not meet in one value. Numbers do not change.
    RequireLayout require_layout (a) - Layout Held Pure 0;
    /// The operand, whose layout is free again.
    ReleaseLayout release_layout (a) - - Held Pure 0;
    /// Stops the launch with an error unless every element holds.
    Assert assert (condition) - - Assert Observes 0;
    /// Reports values: the interpreter keeps a line per program instance; no device has a way to print.
    Print print ((*values)) - - Print Observes 0;

    /// `for v1 in lo..hi step s carry v2 = init { … yield next }`: runs while the index is below `hi` (signed); the results are the carried values. The step must be positive; one that is not stops the launch.
    For for (lo, hi, step, (*init)) - - Control Control 1;
    /// `while carry v2 = init { … yield condition } do carry v3 { … yield next }`: repeats while the first region yields true.
    While while ((*init)) - - Control Control 2;
    /// `if c { … yield a } else { … yield b }` on a scalar `i1`.
    If if (condition) - - Control Control 2;
    /// Tasks that run concurrently, each with warps of its own; the last instruction of the kernel's body. See [Explicit control](#explicit-control).
    Tasks tasks () Tasks - Control Control 1;
    /// Ends a region with its results.
    Yield yield ((*values)) - - Control Control 0;

    /// A tile in the program instance's local memory, with undefined content; `alias=` names a buffer, at least as large, whose bytes it shares. `swizzle=` says how many bytes of a row, 32, 64 or 128, lie side by side where async units use the buffer; where it is not said, as many as its rows permit. Stands in the kernel's body.
    LocalAlloc local_alloc ((?alias)) - Swizzle Handle Shared 0;
    /// The part of a buffer at a position of its first dimension, which disappears: a slot of a ring. A position outside makes a handle that must not be used.
    LocalIndex local_index (buffer, index) - - Local Pure 0;
    /// The part of a buffer of the written type, at constant offsets.
    LocalSlice local_slice (buffer) - Offsets Handle Pure 0;
    /// The buffer with its dimensions permuted: dimension `i` is dimension `perm[i]` of the operand. Nothing moves.
    LocalTranspose local_transpose (buffer) - Perm Local Pure 0;
    /// The same bytes, in row-major order, as a buffer of another type of the same size. The operand is no slice and not transposed.
    LocalReinterpret local_reinterpret (buffer) - - Handle Pure 0;
    /// The tile in a buffer. Content that an async copy is still bringing must not be read: wait for its barrier.
    LocalLoad local_load (buffer) - - Local Shared 0;
    /// Writes a tile to a buffer, where the mask is true: what it leaves out stays as it was written before. Other tasks see it after a barrier, async units after `fence_async`. What an async unit still reads must not be written.
    LocalStore local_store (buffer, value, (?mask)) - - Act Shared 0;

    /// Barriers, each of which counts phases 0, 1, 2, …: a phase ends when it got the number of arrivals and all bytes that it expects. Stands in the kernel's body.
    BarrierAlloc barrier_alloc () Count - Handle Shared 0;
    /// One barrier of several. A position outside makes a handle that must not be used.
    BarrierIndex barrier_index (barrier, index) - - Local Pure 0;
    /// One arrival, after which the phase waits for so many bytes of async copies besides.
    BarrierExpect barrier_expect (barrier) - Count Act Shared 0;
    /// One arrival of the whole task (of the whole program instance outside of tasks): what all its lanes did to local memory before comes before the end of the phase.
    BarrierArrive barrier_arrive (barrier) - - Act Shared 0;
    /// Waits for the end of the barrier's phase of that parity: returns unless the phase that is running has it. A fresh barrier is in phase 0, so waiting with parity 1 returns at once.
    BarrierWait barrier_wait (barrier, parity) - - Act Shared 0;
    /// Waits until all lanes of the task are here; what they did to local memory before comes before what they do behind.
    TaskBarrier task_barrier () - - Act Shared 0;
    /// Waits until so many warps of any tasks came to the barrier of that number (1 to 15), by this op or by `named_barrier_arrive`.
    NamedBarrierSync named_barrier_sync () Count Count Act Shared 0;
    /// Comes to the barrier of that number without waiting.
    NamedBarrierArrive named_barrier_arrive () Count Count Act Shared 0;
    /// Each warpgroup of the task waits for its first turn: the first group's is now, that of any other begins when the group in front of it passes its own. No value depends on turns: while one group multiplies, the others compute.
    TurnFirst turn_first () - - Act Shared 0;
    /// Each warpgroup of the task waits for its next turn, behind `turn_pass`: the first group's begins when the last one passes its own.
    TurnWait turn_wait () - - Act Shared 0;
    /// Ends the turn of each warpgroup of the task: that of the next one begins.
    TurnPass turn_pass () - - Act Shared 0;
    /// As `turn_pass`, behind the last turn: the last group has nobody to pass it to.
    TurnLast turn_last () - - Act Shared 0;
    /// What the task wrote to local memory before is seen by the async units behind it: needed between `local_store` and an `async_store`, `async_reduce` or `async_dot` of that buffer.
    FenceAsync fence_async () - - Act Shared 0;

    /// Begins a copy of the box of the view at an offset per dimension into a buffer of its extents; elements outside the view are zeros. Its bytes arrive at the barrier. `multicast=` is a bit mask of ranks: the box goes to that buffer, its bytes to that barrier, of each of these blocks of the cluster. Of a view whose elements share bytes the buffer holds the bytes, as `i8`, half as many in a row.
    AsyncLoad async_load (view, [indices], buffer, barrier, (?multicast)) - - Act AsyncReads 0;
    /// Begins a copy of the tile of the view at an offset per dimension into a buffer of its extents, by the task's lanes, each of which copies a share; elements outside the view, or whose mask is false, are `other` (0 if absent). The copy belongs to the group that is open. What the task did with these bytes before must be behind a `task_barrier`. Of a view whose elements share bytes the buffer may hold the bytes, as `i8`, half as many in a row, where there is neither mask nor `other`.
    CopyAsync copy_async (view, [indices], buffer, (?mask), (?other)) - - Act AsyncReads 0;
    /// As `copy_async` of the elements that tiles of indices name, as `gather` takes them; the buffer has the extents of these tiles.
    GatherAsync gather_async (view, [indices], buffer, (?mask)) - - Act AsyncReads 0;
    /// Closes the group of the `copy_async` that the task began since the last one; the group may be empty.
    CopyAsyncCommit copy_async_commit () - - Act Shared 0;
    /// Waits until at most so many of the task's newest groups of `copy_async` are in flight: each lane for its own share. The next `task_barrier` shows the buffers to all lanes: behind it the task may read them.
    CopyAsyncWait copy_async_wait () - Count Act Shared 0;
    /// One arrival of the whole task, as `barrier_arrive`; the phase ends only when the `copy_async` that the task has begun since its last `copy_async_arrive`, and has not waited for, are there. Nobody of the task waits: who waits for the barrier sees the buffers. Async units see them behind a `fence_async` of the task that has waited.
    CopyAsyncArrive copy_async_arrive (barrier) - - Act Shared 0;
    /// Begins a copy of a buffer to the box of the view at an offset per dimension; elements outside the view are not written. The buffer must not be written until `async_store_wait`. Done at the kernel's end.
    AsyncStore async_store (view, [indices], buffer) - - Act AsyncWrites 0;
    /// As `async_store`, but each element of the box is updated, as by a relaxed `atomic` of all programs.
    AsyncReduce async_reduce (view, [indices], buffer) Atomic - Act AsyncUpdates 0;
    /// Waits until at most so many of the task's newest `async_store` and `async_reduce` still read their buffers.
    AsyncStoreWait async_store_wait () - Count Act Shared 0;
    /// Begins a matrix product `a * b + c`, as `dot`, of which `b`, and `a` unless it is a tile, lie in local memory. Until `async_dot_wait` the buffers must not be written, and the result is good for nothing but to be the `c` of a further `async_dot`.
    AsyncDot async_dot (a, b, c) - Precision Local Shared 0;
    /// Waits until at most so many of the task's newest `async_dot` are in flight; the result is the operand, which may be read if its product is not among them.
    AsyncDotWait async_dot_wait (product) - Count Local Shared 0;

    /// What stands in front of it is issued before what stands behind it, though neither needs the other: an assembler that would move a wait for products up in front of what lanes compute meanwhile leaves it where it stands. It waits for nothing, and orders nothing that others see.
    SchedBarrier sched_barrier () - - Act Shared 0;

    /// The program instance's position in its cluster, from 0: its `program_id x` modulo the cluster's size.
    ClusterRank cluster_rank () - - Index Pure 0;
    /// The number of program instances of a cluster.
    ClusterSize cluster_size () - - Index Pure 0;
    /// The number of this program instance among those that run, from 0. A kernel that asks for it is persistent: fewer instances may run than the launch grid has positions, and the instance takes the positions `worker_id`, `worker_id + num_workers`, … (counted x fastest, below the product of the grid's extents, `num_programs`) in a loop of its own. It asks for no `program_id`, and has no cluster.
    WorkerId worker_id () - - Index Pure 0;
    /// The number of program instances that run; see `worker_id`. No result depends on it.
    NumWorkers num_workers () - - Index Pure 0;
    /// Waits until all tasks of all blocks of the cluster are here, or have ended; what they did to local memory before, their own or a neighbour's, comes before what they do behind.
    ClusterBarrier cluster_barrier () - - Act Shared 0;
    /// The first half of `cluster_barrier`: comes without waiting.
    ClusterArrive cluster_arrive () - - Act Shared 0;
    /// The second half of `cluster_barrier`: waits.
    ClusterWait cluster_wait () - - Act Shared 0;
    /// The tile in the same buffer of another block of the cluster.
    RemoteLoad remote_load (buffer, rank) - - Local Shared 0;
    /// Writes a tile to the same buffer of another block of the cluster, which sees it after a cluster barrier.
    RemoteStore remote_store (buffer, rank, value) - - Act Shared 0;
    /// Begins to write a tile to the same buffer of another block of the cluster; the bytes arrive at the same barrier of that block.
    RemoteStoreAsync remote_store_async (buffer, rank, value, barrier) - - Act Shared 0;
    /// One arrival at the same barrier of another block of the cluster, as `barrier_arrive`.
    RemoteArrive remote_arrive (barrier, rank) - - Act Shared 0;

    /// A ring of slots through which tiles travel from one task to others; the number says how many tasks (replicas count) take each step, 1 if absent. Stands in the kernel's body.
    ChannelAlloc channel_alloc () Few - Handle Shared 0;
    /// Waits until the slot of a step (the step modulo the slots) is free, puts a tile of each of the channel's types, and makes it full. Steps are put in order 0, 1, 2, ….
    ChannelPut channel_put (channel, step, (*tiles)) - - Act Shared 0;
    /// Waits until the slot of a step is full; the results are its tiles.
    ChannelGet channel_get (channel, step) - - Receive Shared 0;
    /// This consumer needs the slot of a step no longer; when all consumers said so it is free.
    ChannelConsumed channel_consumed (channel, step) - - Act Shared 0;
    } } };
}

op_rows!(define_ops);
