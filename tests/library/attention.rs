//! Attention over what an engine has: rows of a joint projection, a cache with room behind every sequence or with its heads side by side, fewer heads of
//! keys than of queries, queries behind a past. On the simulators of both vendors, against sums in `f64`.

use tilelift::interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift::ir::{Scalar, num};
use tilelift::isel::Schedule;
use tilelift::runtime::sim::SimDevice;
use tilelift::{Options, lower, targets};
use tilelift_kernels::{Attention, Pitch};

const DIM: usize = 64;
const SCALE: f64 = 0.125;

/// How a tensor of heads, rows and elements lies.
#[derive(Clone, Copy, Debug)]
struct Lie {
    pitch: Pitch,
    first: usize,
    room: usize,
}

impl Lie {
    /// Heads side by side in rows of so many elements, from one of them on.
    fn side_by_side(rows: usize, width: usize, first: usize) -> Lie {
        Lie { pitch: Pitch::new(width as u64, DIM as u64), first, room: rows * width }
    }
    /// Heads one behind the other, each with room for so many rows.
    fn with_room(heads: usize, rows: usize) -> Lie {
        Lie { pitch: Pitch::new(DIM as u64, (rows * DIM) as u64), first: 0, room: heads * rows * DIM }
    }
    fn at(&self, head: usize, row: usize, d: usize) -> usize {
        self.first + head * self.pitch.batch as usize + row * self.pitch.row as usize + d
    }
    fn view(&self, buffer: usize, heads: usize, rows: usize) -> Arg {
        let shape = [heads as i64, rows as i64, DIM as i64];
        let strides = [self.pitch.batch as i64, self.pitch.row as i64, 1];
        ViewArg::dense(buffer, Scalar::F16, &shape).with_strides(&strides).at(2 * self.first as u64).into()
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    /// Heads of queries, and of keys.
    heads: [usize; 2],
    /// Queries, and keys.
    rows: [usize; 2],
    causal: bool,
    /// Queries, cache, output.
    lies: [Lie; 3],
}

fn value(tensor: usize, i: usize) -> f64 {
    num::round(((i.wrapping_mul(7919) + tensor * 131 + i / 13) % 17) as f64 / 8.0 - 1.0, Scalar::F16)
}

/// The elements of a tensor in its buffer; what lies between is no number.
fn filled(tensor: usize, lie: &Lie, heads: usize, rows: usize) -> Vec<f64> {
    let mut all = vec![f64::NAN; lie.room];
    for h in 0..heads {
        for r in 0..rows {
            for d in 0..DIM {
                all[lie.at(h, r, d)] = value(tensor, (h * rows + r) * DIM + d);
            }
        }
    }
    all
}

/// One row of the output.
fn row(case: &Case, [q, k, v]: [&[f64]; 3], head: usize, query: usize) -> Vec<f64> {
    let ([heads, key_heads], [queries, keys]) = (case.heads, case.rows);
    let key_head = head / (heads / key_heads);
    let seen = if case.causal { query + 1 + keys - queries } else { keys };
    let of = |t: &[f64], lie: &Lie, h: usize, r: usize, d: usize| t[lie.at(h, r, d)];
    let score =
        |key: usize| SCALE * (0..DIM).map(|d| of(q, &case.lies[0], head, query, d) * of(k, &case.lies[1], key_head, key, d)).sum::<f64>();
    let scores: Vec<f64> = (0..seen).map(score).collect();
    let most = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    (0..DIM).map(|d| weights.iter().enumerate().map(|(key, w)| w * of(v, &case.lies[1], key_head, key, d)).sum::<f64>() / sum).collect()
}

fn judge(case: &Case, target: &str) {
    let ([heads, key_heads], [queries, keys]) = (case.heads, case.rows);
    let target = targets::by_name(target).unwrap_or_else(|| panic!("{target}"));
    let [q, kv, o] = case.lies.map(|l| Some(l.pitch));
    let plain = Attention::new(Scalar::F16, DIM as u32, case.causal).for_shape(queries as u32, keys as u32).heads(heads as u32);
    let plain = plain.pitched(q, kv, o).sharing((heads / key_heads) as u32);
    let attention = if target.units.is_some() { plain.for_units() } else { plain };
    let attention = if keys > queries { attention.with_past() } else { attention };
    let kernel = attention.build().unwrap_or_else(|e| panic!("{e}"));
    if target.units.is_some() {
        let lowered = lower(&kernel, &target, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        assert!(matches!(lowered.plan.schedule, Schedule::Specialised(_)), "{case:?}: {}", lowered.plan);
    }
    let artifact = tilelift::compile(&kernel, &target, &Options::default()).unwrap_or_else(|e| panic!("{case:?}: {e}"));
    let data = [0, 1, 2].map(|t: usize| match t {
        0 => filled(0, &case.lies[0], heads, queries),
        t => filled(t, &case.lies[1], key_heads, keys),
    });
    let mut memory = Memory::new();
    for values in &data {
        memory.add(Buffer::from_f64(Scalar::F16, values.iter().copied()));
    }
    memory.add(Buffer::uninit_elements(Scalar::F16, case.lies[2].room));
    let args = [
        case.lies[0].view(0, heads, queries),
        case.lies[1].view(1, key_heads, keys),
        case.lies[1].view(2, key_heads, keys),
        case.lies[2].view(3, heads, queries),
        ScalarArg::float(Scalar::F32, SCALE).into(),
    ];
    let device = SimDevice::default();
    let loaded = device.load(&artifact).unwrap_or_else(|e| panic!("{e}"));
    let grid = attention.grid(queries as u32, heads as u32);
    device.execute(&loaded, grid, &args, &mut memory).unwrap_or_else(|e| panic!("{case:?} on {}: {e}", target.name));
    let got = memory.buffers[3].read_f64(Scalar::F16);
    for h in 0..heads {
        for r in 0..queries {
            let want = row(case, [&data[0], &data[1], &data[2]], h, r);
            for (d, want) in want.into_iter().enumerate() {
                let got = got[case.lies[2].at(h, r, d)];
                assert!((got - want).abs() < 4e-3, "{case:?} on {}: head {h}, query {r}, element {d} is {got}, not {want}", target.name);
            }
        }
    }
}

#[test]
fn caches_with_strides_shared_heads_and_a_past() {
    let joint = |queries: usize, heads: usize, key_heads: usize| Lie::side_by_side(queries, (heads + 2 * key_heads) * DIM, 0);
    for target in ["sm_80", "sm_90a", "gfx942"] {
        for case in [
            // A joint projection, a cache with its heads side by side, four heads of queries to one of keys, a past of 37.
            Case {
                heads: [4, 1],
                rows: [33, 70],
                causal: true,
                lies: [joint(33, 4, 1), Lie::side_by_side(96, DIM, 0), Lie::side_by_side(33, 4 * DIM, 0)],
            },
            // A cache with room behind every head, a chunk of one query.
            Case { heads: [4, 2], rows: [1, 130], causal: true, lies: [joint(1, 4, 2), Lie::with_room(2, 256), Lie::with_room(4, 1)] },
            // No past, no mask; the output in the columns of a wider tensor.
            Case {
                heads: [2, 2],
                rows: [40, 40],
                causal: false,
                lies: [Lie::with_room(2, 48), Lie::side_by_side(64, 4 * DIM, 2 * DIM), Lie::side_by_side(40, 3 * DIM, DIM)],
            },
            Case { heads: [4, 2], rows: [40, 40], causal: true, lies: [joint(40, 4, 2), joint(40, 4, 2), Lie::with_room(4, 40)] },
        ] {
            judge(&case, target);
        }
    }
}

#[test]
fn no_head_of_keys_is_refused() {
    let e = Attention::new(Scalar::F16, 64, true).heads(4).sharing(0).build();
    assert!(e.is_err_and(|e| e.to_string().contains("per_key_head")));
}
