//! Kernels that repeat one step: a table of steps, one for each way in which a stage of the compiler could take more than its share.
//!
//! ```text
//! family × around × shape × element × instructions × level × target       all from a seed
//! ```

use super::family::{Family, Need};
use super::names::{BINARY, UNARY};
use super::tasks;
use super::text::{Around, Text};
use tilelift_kernels::rng;

const FLOATS: &[&str] = &["f32", "f32", "f16", "bf16", "f64"];
const INTS: &[&str] = &["i32", "i32", "i64", "i8"];
const NUMBERS: &[&str] = &["f32", "f16", "f64", "i32", "i64", "i8"];
const WORDS: &[&str] = &["i32"];
const ALL: &[Around] = &Around::ALL;
const STRAIGHT: &[Around] = &[Around::Straight];
const TASKS: &[Around] = &[Around::Tasks];

const fn plain(name: &'static str, types: &'static [&'static str], step: fn(&mut Text, usize)) -> Family {
    Family { name, types, square: false, pairs: false, around: ALL, needs: &[], front: None, step }
}

const fn local(name: &'static str, around: &'static [Around], needs: &'static [Need], step: fn(&mut Text, usize)) -> Family {
    Family { name, types: FLOATS, square: false, pairs: false, around, needs, front: None, step }
}

/// Every family.
pub const FAMILIES: &[Family] = &[
    // Elementwise ops, scalars, values that are used often or live long.
    plain("unary", FLOATS, |t, k| {
        t.becomes(format!("{} v{}", UNARY[k % UNARY.len()], t.x));
    }),
    plain("binary", FLOATS, |t, k| {
        t.becomes(format!("{} v{}, v{}", BINARY[k % BINARY.len()], t.x, t.base));
    }),
    plain("integers", INTS, |t, k| {
        let op = ["add", "mul", "xor", "div", "rem_u", "shl", "mulhi", "minimum_u"][k % 8];
        t.becomes(format!("{op} v{}, v{}", t.x, t.base));
    }),
    plain("division", FLOATS, |t, _| t.becomes(format!("div v{}, v{}", t.x, t.base))),
    plain("select", NUMBERS, |t, _| {
        let c = t.def(format!("cmp lt v{}, v{}", t.x, t.base));
        t.becomes(format!("select v{c}, v{}, v{}", t.x, t.base));
    }),
    plain("cast", NUMBERS, |t, k| {
        let (there, back) = (t.tile_of(["f64", "i8", "f16", "i64"][k % 4]), t.tile());
        let wide = t.def(format!("cast v{} : {there}", t.x));
        t.becomes(format!("cast v{wide} : {back}"));
    }),
    plain("literals", FLOATS, |t, k| {
        let tile = t.tile();
        let literal = t.def(format!("splat {k}.5 : {tile}"));
        t.becomes(format!("add v{}, v{literal}", t.x));
    }),
    plain("scalars", FLOATS, |t, k| {
        let last = t.kept.last().copied().unwrap_or(t.at);
        let next = t.of(["add", "mul", "xor", "rem"][k % 4], last, &format!("{}", k % 1000 + 1));
        t.kept = vec![next];
        if k % 8 == 7 {
            let same = t.def(format!("cmp eq v{next}, v{}", t.at));
            t.becomes(format!("select v{same}, v{}, v{}", t.x, t.base));
            t.kept.clear();
        }
    }),
    plain("sums_of_all", NUMBERS, |t, k| {
        // A value lives until it is added again much later.
        let far = t.kept.get(k / 2).copied().unwrap_or(t.base);
        t.becomes(format!("add v{}, v{far}", t.x));
        t.kept.push(t.x);
    }),
    plain("positions", FLOATS, |t, k| {
        let axis = ["x", "y", "z"][k % 3];
        let (at, last) = (t.def(format!("program_id {axis}")), t.at);
        let sum = t.def(format!("add v{at}, v{last}"));
        let there = t.def(format!("cmp lt v{sum}, {k}"));
        t.becomes(format!("select v{there}, v{}, v{}", t.x, t.base));
    }),
    plain("philox", WORDS, |t, _| {
        let [a, b, c] = [t.name(), t.name(), t.name()];
        let (x, base) = (t.x, t.base);
        let d = t.name();
        t.line(format!("v{a}, v{b}, v{c}, v{d} = philox v{x}, v{base}, v{base}, v{x}, v{base}, v{x}"));
        t.becomes(format!("xor v{a}, v{d}"));
    }),
    // Ops that move elements.
    plain("broadcast", NUMBERS, |t, _| {
        let ([r, c], ty, tile) = (t.shape, t.ty, t.tile());
        let sums = t.def(format!("reduce maximum v{}, axis 1", t.x));
        let column = t.def(format!("reshape v{sums} : tile<{r}x1x{ty}>"));
        let wide = t.def(format!("broadcast v{column} : {tile}"));
        let _ = c;
        t.becomes(format!("add v{}, v{wide}", t.x));
    }),
    plain("reshape", NUMBERS, |t, k| {
        let ([r, c], ty, tile) = (t.shape, t.ty, t.tile());
        let flat = if k % 2 == 0 { format!("tile<{}x{ty}>", r * c) } else { format!("tile<{c}x{r}x{ty}>") };
        let flat = t.def(format!("reshape v{} : {flat}", t.x));
        let changed = t.def(format!("add v{flat}, v{flat}"));
        t.becomes(format!("reshape v{changed} : {tile}"));
    }),
    plain("transpose", NUMBERS, |t, _| {
        let turned = t.def(format!("transpose v{}, [1, 0]", t.x));
        let changed = t.def(format!("neg v{turned}"));
        let back = t.def(format!("transpose v{changed}, [1, 0]"));
        t.becomes(format!("add v{back}, v{}", t.base));
    }),
    Family {
        square: true,
        ..plain("transposed_sum", NUMBERS, |t, _| {
            let turned = t.def(format!("transpose v{}, [1, 0]", t.x));
            t.becomes(format!("add v{turned}, v{}", t.x));
        })
    },
    Family { square: true, ..plain("turns", NUMBERS, |t, _| t.becomes(format!("transpose v{}, [1, 0]", t.x))) },
    plain("join", NUMBERS, |t, _| {
        let joined = t.def(format!("join v{}, v{}", t.x, t.base));
        let changed = t.def(format!("add v{joined}, v{joined}"));
        let (a, b) = (t.name(), t.name());
        t.line(format!("v{a}, v{b} = split v{changed}"));
        t.becomes(format!("add v{a}, v{b}"));
    }),
    plain("concat", NUMBERS, |t, k| {
        let tile = t.tile();
        let axis = k % 2;
        let both = t.def(format!("concat v{}, v{}, axis {axis}", t.x, t.base));
        let half = t.shape[axis].div_ceil(2);
        let offsets = if axis == 0 { [half, 0] } else { [0, half] };
        t.becomes(format!("slice v{both}, [{}, {}] : {tile}", offsets[0], offsets[1]));
    }),
    plain("flip", NUMBERS, |t, k| {
        let turned = t.def(format!("flip v{}, axis {}", t.x, k % 2));
        t.becomes(format!("add v{turned}, v{}", t.x));
    }),
    // Ops along an axis.
    plain("reduce", NUMBERS, |t, k| {
        let (axis, tile) = (k % 2, t.tile());
        let sums = t.def(format!("reduce add v{}, axis {axis}", t.x));
        let shape = if axis == 0 { format!("tile<1x{}x{}>", t.shape[1], t.ty) } else { format!("tile<{}x1x{}>", t.shape[0], t.ty) };
        let line = t.def(format!("reshape v{sums} : {shape}"));
        let wide = t.def(format!("broadcast v{line} : {tile}"));
        t.becomes(format!("sub v{}, v{wide}", t.x));
    }),
    plain("scan", NUMBERS, |t, k| {
        t.becomes(format!("{} add v{}, axis {}", ["scan", "scan_reverse"][k / 2 % 2], t.x, k % 2));
    }),
    plain("reduce_by", NUMBERS, |t, k| {
        combined(t, "reduce_by", k % 2);
        let tile = t.tile();
        let shape = if k % 2 == 0 { format!("tile<1x{}x{}>", t.shape[1], t.ty) } else { format!("tile<{}x1x{}>", t.shape[0], t.ty) };
        let line = t.def(format!("reshape v{} : {shape}", t.x));
        t.becomes(format!("broadcast v{line} : {tile}"));
    }),
    plain("scan_by", NUMBERS, |t, k| combined(t, "scan_by", k % 2)),
    plain("argmax", NUMBERS, |t, k| {
        let (axis, tile, ty) = (k % 2, t.tile(), t.ty);
        let places = t.def(format!("argmax v{}, axis {axis}", t.x));
        let shape = if axis == 0 { format!("1x{}", t.shape[1]) } else { format!("{}x1", t.shape[0]) };
        let line = t.def(format!("reshape v{places} : tile<{shape}xi32>"));
        let line = if ty == "i32" { line } else { t.def(format!("cast v{line} : tile<{shape}x{ty}>")) };
        let wide = t.def(format!("broadcast v{line} : {tile}"));
        t.becomes(format!("add v{}, v{wide}", t.x));
    }),
    plain("sort", NUMBERS, |t, k| {
        t.becomes(format!("sort {} v{}, axis {}", ["ascending", "descending"][k / 2 % 2], t.x, k % 2));
    }),
    plain("argsort", NUMBERS, |t, k| {
        let places = t.def(format!("argsort ascending v{}, axis {}", t.x, k % 2));
        t.becomes(format!("gather_tile v{}, v{places}, axis {}", t.x, k % 2));
    }),
    plain("gather_tile", NUMBERS, |t, k| {
        let at = t.def(format!("add v{}, {}", t.cols, k % 7));
        t.becomes(format!("gather_tile v{}, v{at}, axis {}", t.x, k % 2));
    }),
    plain("histogram", WORDS, |t, _| {
        let [r, c] = t.shape;
        let counts = t.def(format!("histogram v{} : tile<{c}xi32>", t.x));
        let line = t.def(format!("reshape v{counts} : tile<1x{c}xi32>"));
        let _ = r;
        let tile = t.tile();
        let wide = t.def(format!("broadcast v{line} : {tile}"));
        t.becomes(format!("add v{}, v{wide}", t.x));
    }),
    Family {
        square: true,
        ..plain("dot", &["f32", "f16", "bf16", "f64"], |t, k| {
            let (tile, ty) = (t.tile(), t.ty);
            let sums = if ty == "f64" { "f64" } else { "f32" };
            let sums = t.tile_of(sums);
            let zero = t.def(format!("splat 0.0 : {sums}"));
            let turned = if k % 2 == 0 { t.base } else { t.def(format!("transpose v{}, [1, 0]", t.base)) };
            let sum = t.def(format!("dot v{}, v{turned}, v{zero}", t.x));
            t.becomes(format!("cast v{sum} : {tile}"));
        })
    },
    // Global memory.
    plain("load", NUMBERS, |t, k| {
        let (tile, row) = (t.tile(), t.of("add", t.at, &format!("{}", k % 10_000)));
        let more = t.def(format!("load v0[v{row}, {}] : {tile}", 16 * (k % 5)));
        t.becomes(format!("add v{}, v{more}", t.x));
    }),
    plain("store", NUMBERS, |t, k| {
        let row = t.of("add", t.at, &format!("{k}"));
        t.line(format!("store v1[v{row}, 0], v{}", t.x));
    }),
    plain("store_in_one_place", NUMBERS, |t, k| {
        t.line(format!("store v1[0, {}], v{}", 16 * (k % 3), t.x));
    }),
    plain("store_and_load", NUMBERS, |t, k| {
        let tile = t.tile();
        let row = t.of("add", t.at, &format!("{}", k % 100));
        t.line(format!("store v1[v{row}, 0], v{}", t.x));
        t.becomes(format!("load v1[v{}, {}] : {tile}", t.at, k % 5));
    }),
    plain("masked", NUMBERS, |t, k| {
        let (tile, mask) = (t.tile(), t.mask);
        let more = t.def(format!("load v0[{k}, 0], mask=v{mask} : {tile}"));
        let other = t.def(format!("cmp ne v{more}, v{}", t.x));
        t.line(format!("store v1[{k}, 0], v{more}, mask=v{other}"));
    }),
    plain("gather", NUMBERS, |t, k| {
        let at = t.of("add", t.rows, &format!("{}", k % 1000));
        let more = t.def(format!("gather v0[v{at}, v{}]", t.cols));
        t.becomes(format!("add v{}, v{more}", t.x));
    }),
    plain("scatter", NUMBERS, |t, k| {
        let at = t.of("add", t.rows, &format!("{}", k % 1000));
        t.line(format!("scatter v1[v{at}, v{}], v{}", t.cols, t.x));
    }),
    plain("atomic", &["i32", "i64", "f32"], |t, k| {
        let at = t.of("add", t.rows, &format!("{}", k % 1000));
        let _ = t.def(format!("atomic add v1[v{at}, v{}], v{}", t.cols, t.x));
    }),
    plain("atomic_results", &["i32", "i64"], |t, k| {
        let at = t.of("add", t.rows, &format!("{}", k % 1000));
        let before = t.def(format!("atomic_cas v1[v{at}, v{}], v{}, v{}", t.cols, t.x, t.base));
        t.becomes(format!("xor v{}, v{before}", t.x));
    }),
    plain("prefetch", NUMBERS, |t, k| {
        let [r, c] = t.shape;
        t.line(format!("prefetch v0[{k}, 0], [{r}, {c}]"));
    }),
    plain("assert", NUMBERS, |t, k| {
        let below = t.of("cmp lt", t.at, &format!("{k}"));
        t.line(format!("assert v{below}"));
    }),
    plain("assume", NUMBERS, |t, k| {
        let (tile, far) = (t.tile(), t.of("mul", t.at, &format!("{}", 16 * (k % 100 + 1))));
        let even = t.of("assume", far, "multiple 16");
        let more = t.def(format!("load v0[0, v{even}] : {tile}"));
        t.becomes(format!("add v{}, v{more}", t.x));
    }),
    plain("require", NUMBERS, |t, k| {
        let layout = if k % 2 == 0 { "order=[1, 0]" } else { "order=[0, 1]" };
        let held = t.def(format!("require_layout v{}, blocked(size=[1, 1], lanes=[4, 8], warps=[{}, 1], {layout})", t.x, t.warps));
        let changed = t.def(format!("add v{held}, v{held}"));
        t.becomes(format!("release_layout v{changed}"));
    }),
    // Control.
    plain("nested_choices", NUMBERS, |t, k| {
        // The deepest that the rules allow beside loops around it.
        let (depth, x) = (30, t.x);
        let mut conditions = Vec::new();
        for d in 0..depth {
            let c = t.of("cmp eq", t.at, &format!("{}", k + d));
            let result = t.name();
            t.line(format!("v{result} = if v{c} {{"));
            conditions.push(result);
        }
        t.becomes(format!("add v{x}, v{}", t.base));
        for result in conditions.into_iter().rev() {
            let inner = t.x;
            t.line(format!("yield v{inner}\n}} else {{\nyield v{x}\n}}"));
            t.x = result;
        }
    }),
    plain("wide_choice", NUMBERS, |t, _| wide(t, 40, Wide::If)),
    plain("wide_loop", NUMBERS, |t, _| wide(t, 40, Wide::For)),
    plain("wider_choice", NUMBERS, |t, _| wide(t, 1500, Wide::If)),
    plain("wider_loop", NUMBERS, |t, _| wide(t, 1500, Wide::For)),
    plain("whiles", NUMBERS, |t, k| {
        let [result, before, round, count, end] = std::array::from_fn(|_| t.name());
        let (x, at) = (t.x, t.at);
        let carried = t.name();
        t.line(format!("v{result}, v{end} = while carry v{before} = v{x}, v{count} = v{at} {{"));
        let more = t.of("cmp gt", count, &format!("{}", k % 5));
        t.line(format!("yield v{more}\n}} do carry v{carried}, v{round} {{"));
        let changed = t.def(format!("add v{carried}, v{}", t.base));
        let less = t.of("shr_s", round, "1");
        t.line(format!("yield v{changed}, v{less}\n}}"));
        t.x = result;
    }),
    plain("sum_loops", NUMBERS, |t, k| {
        let tile = t.tile();
        let [result, index, carried] = std::array::from_fn(|_| t.name());
        let (x, at) = (t.x, t.at);
        t.line(format!("v{result} = for v{index} in 0..v{at} step {} carry v{carried} = v{x} {{", 16 + k % 3));
        let more = t.def(format!("load v0[v{index}, 0] : {tile}"));
        let sum = t.def(format!("add v{carried}, v{more}"));
        t.line(format!("yield v{sum}\n}}"));
        t.x = result;
    }),
    Family {
        square: true,
        ..plain("matmul_loops", &["f32", "f16", "bf16"], |t, _| {
            let (tile, sums, at) = (t.tile(), t.tile_of("f32"), t.at);
            let zero = t.def(format!("splat 0.0 : {sums}"));
            let [result, index, carried] = std::array::from_fn(|_| t.name());
            t.line(format!("v{result} = for v{index} in 0..v{at} step {} carry v{carried} = v{zero} {{", t.shape[0]));
            let a = t.def(format!("load v0[0, v{index}] : {tile}"));
            let b = t.def(format!("load v0[v{index}, 0] : {tile}"));
            let sum = t.def(format!("dot v{a}, v{b}, v{carried}"));
            t.line(format!("yield v{sum}\n}}"));
            let back = t.def(format!("cast v{result} : {tile}"));
            t.becomes(format!("add v{back}, v{}", t.x));
        })
    },
    // Local memory, barriers, copies.
    local("local", ALL, &[Need::Ring], |t, k| {
        let slot = t.slot(k);
        t.line(format!("local_store v{slot}, v{}", t.x));
        t.line("task_barrier");
        t.becomes(format!("local_load v{slot}"));
        t.line("task_barrier");
    }),
    Family { front: Some(tasks::buffers), ..local("buffers", &[Around::Straight, Around::Tasks], &[], tasks::through_buffer) },
    Family { front: Some(tasks::aliases), ..local("aliases", STRAIGHT, &[], tasks::through_buffer) },
    local("parts", STRAIGHT, &[Need::Ring], |t, k| {
        let slot = t.slot(k);
        let turned = t.def(format!("local_transpose v{slot}, [1, 0]"));
        let back = t.def(format!("transpose v{}, [1, 0]", t.x));
        t.line(format!("local_store v{turned}, v{back}"));
        let [r, c] = t.shape;
        let ty = t.ty;
        let part = t.def(format!("local_slice v{slot}, [0, 0] : shared<{r}x{c}x{ty}>"));
        t.becomes(format!("local_load v{part}"));
    }),
    local("views", STRAIGHT, &[Need::Ring], |t, k| views(t, k, 30)),
    // More views of views than anybody follows.
    local("endless_views", STRAIGHT, &[Need::Ring], |t, k| views(t, k, 300)),
    Family { front: Some(tasks::bits), ..local("parities", STRAIGHT, &[Need::Barriers], tasks::wait_by_bits) },
    local("copies", &[Around::Straight, Around::Loop, Around::Loops, Around::Tasks], &[Need::Ring], |t, k| {
        let slot = t.slot(k);
        t.line(format!("copy_async v0[{k}, 0], v{slot}"));
        t.line("copy_async_commit");
        t.line("copy_async_wait 0");
        t.line("task_barrier");
        let more = t.def(format!("local_load v{slot}"));
        t.line("task_barrier");
        t.becomes(format!("add v{}, v{more}", t.x));
    }),
    local("unit_copies", STRAIGHT, &[Need::Ring, Need::Barriers], |t, k| {
        let bytes = t.shape[0] * t.shape[1] * bytes(t.ty);
        let slot = t.slot(k);
        let barrier = t.of("barrier_index", t.barriers, &format!("{}", k % 4));
        t.line(format!("barrier_expect v{barrier}, {bytes}"));
        t.line(format!("async_load v0[{k}, 0], v{slot}, v{barrier}"));
        t.line(format!("barrier_wait v{barrier}, {}", k / 4 % 2));
        let more = t.def(format!("local_load v{slot}"));
        t.line("fence_async");
        t.line("task_barrier");
        t.becomes(format!("add v{}, v{more}", t.x));
    }),
    local("unit_stores", STRAIGHT, &[Need::Ring, Need::Units], |t, k| {
        let slot = t.slot(k);
        t.line(format!("local_store v{slot}, v{}", t.x));
        t.line("fence_async");
        t.line("task_barrier");
        t.line(format!("async_store v1[{k}, 0], v{slot}"));
        t.line("async_store_wait 0");
        t.line("task_barrier");
    }),
    Family { pairs: true, ..local("meetings", TASKS, &[], tasks::meet) },
    local("barriers", &[Around::Straight, Around::Loop, Around::Tasks], &[], |t, _| t.line("task_barrier")),
    Family { front: Some(tasks::words), ..local("mbarriers", &[Around::Straight, Around::Tasks], &[Need::Units], tasks::pass_word) },
    Family { pairs: true, front: Some(tasks::channels), ..local("channels", TASKS, &[], tasks::through_channels) },
    // Channels in loops of their own: they are not proved, and said so soon.
    Family { pairs: true, front: Some(tasks::channels), ..local("channel_loops", TASKS, &[], tasks::through_channel) },
    local("cluster_barriers", STRAIGHT, &[Need::Cluster], |t, _| t.line("cluster_barrier")),
    local("cluster_reads", STRAIGHT, &[Need::Cluster, Need::Ring], |t, k| {
        let slot = t.slot(k);
        t.line(format!("local_store v{slot}, v{}", t.x));
        t.line("cluster_barrier");
        t.becomes(format!("remote_load v{slot}, {}", k % 2));
        t.line("cluster_barrier");
    }),
];

fn bytes(ty: &str) -> u32 {
    ty.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().map_or(4, |bits: u32| bits / 8)
}

/// An op along an axis whose region adds.
fn combined(t: &mut Text, op: &str, axis: usize) {
    let [result, a, b] = std::array::from_fn(|_| t.name());
    let x = t.x;
    t.line(format!("v{result} = {op} v{x}, axis {axis} combine v{a} with v{b} {{"));
    let sum = t.def(format!("add v{a}, v{b}"));
    let most = t.def(format!("maximum v{sum}, v{b}"));
    t.line(format!("yield v{most}\n}}"));
    t.x = result;
}

/// A slot, turned around so often, and what lies there.
fn views(t: &mut Text, k: usize, depth: usize) {
    let mut view = t.slot(k);
    for _ in 0..2 * (depth / 2) {
        view = t.of("local_transpose", view, "[1, 0]");
    }
    t.line(format!("local_store v{view}, v{}", t.x));
    t.line("task_barrier");
    t.becomes(format!("local_load v{view}"));
    t.line("task_barrier");
}

enum Wide {
    If,
    For,
}

/// Control with so many results.
fn wide(t: &mut Text, width: usize, kind: Wide) {
    let results: Vec<u32> = (0..width).map(|_| t.name()).collect();
    let list = |v: &[u32]| v.iter().map(|v| format!("v{v}")).collect::<Vec<_>>().join(", ");
    let (x, at, condition) = (t.x, t.at, t.condition);
    let names = list(&results);
    let inside: Vec<u32> = match kind {
        Wide::If => {
            t.line(format!("{names} = if v{condition} {{"));
            vec![x; width]
        }
        Wide::For => {
            let (index, carried) = (t.name(), (0..width).map(|_| t.name()).collect::<Vec<_>>());
            let inits = carried.iter().map(|v| format!("v{v} = v{x}")).collect::<Vec<_>>().join(", ");
            t.line(format!("{names} = for v{index} in 0..v{at} step 1 carry {inits} {{"));
            carried
        }
    };
    let next: Vec<u32> = (0..width).map(|i| t.def(format!("add v{}, v{}", inside[i], inside[(i + 1) % width]))).collect();
    let yields = list(&next);
    match kind {
        Wide::If => t.line(format!("yield {yields}\n}} else {{\nyield {}\n}}", list(&vec![x; width]))),
        Wide::For => t.line(format!("yield {yields}\n}}")),
    }
    t.becomes(format!("add v{}, v{}", results[0], results[width - 1]));
    for &r in &results[1..width - 1] {
        t.becomes(format!("add v{}, v{r}", t.x));
    }
}

/// The kernel of a family that a seed picks, of up to so many instructions.
pub fn of_seed(seed: u64, most: usize) -> String {
    let r = |i: u64| rng::bits(seed, 300 + i) as usize;
    let family = &FAMILIES[r(0) % FAMILIES.len()];
    let around = family.around[r(1) % family.around.len()];
    // Few are long, for those take long.
    let most = most.min([100, 300, 3000, 3000, 10_000, 49_000][r(2) % 6]);
    let n = most / 2 + r(3) % (most / 2).max(1);
    let shape = SHAPES[r(4) % SHAPES.len()];
    let shape = if family.square { [shape[1]; 2] } else { shape };
    family.kernel(around, n, shape, family.types[r(5) % family.types.len()], 1 << (r(6) % 4))
}

/// Extents of tiles.
pub const SHAPES: &[[u32; 2]] = &[[1, 16], [4, 32], [16, 16], [8, 48], [32, 64], [64, 64], [16, 256], [128, 128]];
