//! The first elements of long rows, and choices among them: on the interpreter, beside the host's.

use tilelift_interp::{Arg, Buffer, Memory, Options, ScalarArg, ViewArg, interpret};
use tilelift_ir::verify::verify;
use tilelift_ir::{Scalar, SortOrder};
use tilelift_kernels::{TopK, TopKArgument, TopKLaunch};

/// Numbers from 0 to below 1.
fn uniform(seed: u64, i: u64) -> f32 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x ^ (x >> 32)) >> 40) as f32 / (1u32 << 24) as f32
}

/// Runs the launches; what stands in the buffers behind `x` and the workspaces.
fn run(
    c: &TopK,
    launches: &[TopKLaunch],
    x: &[f32],
    rows: u32,
    cols: u32,
    behind: &[(Scalar, Vec<u32>, Vec<u8>)],
    scalars: [f32; 2],
) -> Vec<Vec<u8>> {
    let mut list = vec![ViewArg::dense(0, Scalar::F32, &[rows.into(), cols.into()])];
    let mut buffers = vec![Buffer::from_bytes(x.iter().flat_map(|v| v.to_le_bytes()).collect())];
    for w in c.workspaces(rows, cols) {
        list.push(ViewArg::dense(buffers.len(), w.elem, &w.shape.iter().map(|&e| i64::from(e)).collect::<Vec<_>>()));
        buffers.push(Buffer::uninit(w.bytes() as usize));
    }
    let first = buffers.len();
    for (elem, shape, bytes) in behind {
        list.push(ViewArg::dense(buffers.len(), *elem, &shape.iter().map(|&e| i64::from(e)).collect::<Vec<_>>()));
        buffers.push(Buffer::from_bytes(bytes.clone()));
    }
    let mut memory = Memory { buffers, ..Memory::default() };
    for l in launches {
        let arg = |a: &TopKArgument| -> Arg {
            match *a {
                TopKArgument::Rows => list[0].clone().into(),
                TopKArgument::Workspace(n) => list[1 + n].clone().into(),
                TopKArgument::Values | TopKArgument::Number => list[first].clone().into(),
                TopKArgument::Positions | TopKArgument::Next => list[first + 1].clone().into(),
                TopKArgument::InverseTemperature => ScalarArg::float(Scalar::F32, f64::from(scalars[0])).into(),
                TopKArgument::TopP => ScalarArg::float(Scalar::F32, f64::from(scalars[1])).into(),
            }
        };
        let args: Vec<Arg> = l.arguments.iter().map(arg).collect();
        interpret(&verify(&l.kernel).expect("it verifies"), l.grid, &args, &mut memory, &Options::default()).expect("it runs");
    }
    memory.buffers[first..].iter().map(|b| b.bytes().to_vec()).collect()
}

fn i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Positions of a row in order: the largest first, of equal ones the first.
fn order(row: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
    order
}

#[test]
fn equal_elements_are_taken_in_the_order_of_their_positions() {
    // Few values, so that groups have equal heads, and the last elements kept are some of many.
    let rows = 2;
    for (cols, levels, k) in [(9000, 1, 1), (9000, 1, 5), (9000, 1, 33), (9000, 1, 700), (40_000, 2, 20)] {
        let x: Vec<f32> = (0..rows * cols).map(|i| (uniform(7, i.into()) * 40.0).floor()).collect();
        let c = TopK::new(Scalar::F32, SortOrder::Descending, cols, k);
        assert_eq!(c.heads(cols).len(), levels, "{cols}, {k}");
        let out = |elem| (elem, vec![rows, k], vec![0xff; (rows * k * 4) as usize]);
        let got = run(&c, &c.launches(rows, cols).unwrap(), &x, rows, cols, &[out(Scalar::F32), out(Scalar::I32)], [0.0; 2]);
        for r in 0..rows as usize {
            let row = &x[r * cols as usize..(r + 1) * cols as usize];
            let want: Vec<i32> = order(row)[..k as usize].iter().map(|&p| p as i32).collect();
            assert_eq!(i32s(&got[1])[r * k as usize..(r + 1) * k as usize], want, "k = {k}, row {r}");
        }
    }
}

#[test]
fn choices_have_the_probabilities_of_their_softmax() {
    let (rows, cols, k) = (40, 5000, 20);
    let x: Vec<f32> = (0..rows * cols).map(|i| uniform(3, i.into()) * 300.0).collect();
    let numbers: Vec<f32> = (0..rows).map(|i| uniform(9, i.into())).collect();
    // Below the capacity, too: a kernel for rows of up to so many columns.
    for most in [cols, 40_000] {
        let c = TopK::new(Scalar::F32, SortOrder::Descending, most, k);
        for [temperature, p] in [[0.8f32, 1.0], [0.3, 0.7], [2.0, 0.01]] {
            let behind = [
                (Scalar::F32, vec![rows], numbers.iter().flat_map(|v| v.to_le_bytes()).collect()),
                (Scalar::I32, vec![rows], vec![0xff; 4 * rows as usize]),
            ];
            let got = run(&c, &c.sampling(rows, cols).unwrap(), &x, rows, cols, &behind, [1.0 / temperature, p]);
            let (mut compared, mut all) = (0, Vec::new());
            for (r, &next) in i32s(&got[1]).iter().enumerate() {
                let row = &x[r * cols as usize..(r + 1) * cols as usize];
                let order = &order(row)[..k as usize];
                let weight = |&t: &usize| (f64::from(row[t] - row[order[0]]) / f64::from(temperature)).exp();
                let total: f64 = order.iter().map(weight).sum();
                let mut before = 0.0;
                let mut kept = Vec::new();
                for t in order.iter().take_while(|t| {
                    let counts = before < f64::from(p) * total;
                    before += weight(t);
                    counts
                }) {
                    kept.push(*t);
                }
                let total: f64 = kept.iter().map(weight).sum();
                assert!(kept.contains(&(next as usize)), "row {r}: {next} is none of {kept:?}");
                let (mut sum, u) = (0.0, f64::from(numbers[r]));
                for t in &kept {
                    let from = sum / total;
                    sum += weight(t);
                    // At the edge of a share either neighbour is right.
                    if u > from + 1e-5 && u < sum / total - 1e-5 {
                        assert_eq!(next as usize, *t, "row {r}, u = {u}");
                        compared += 1;
                    }
                }
                all.push(kept.len());
            }
            assert!(compared > 30, "{compared}");
            // The smallest probability leaves the most likely one alone; others leave a choice.
            assert_eq!(all.iter().all(|&n| n == 1), p < 0.1, "{all:?}");
        }
    }
}

#[test]
fn what_is_no_number_is_not_chosen() {
    // As many elements kept as there are, no power of two of them; a NaN, an infinity that masks, and a row of nothing else.
    let (rows, cols, k) = (4, 20, 20);
    let mut x: Vec<f32> = (0..rows * cols).map(|i| uniform(5, i.into())).collect();
    x[20..40].fill(f32::NAN);
    x[27] = 0.5;
    x[40..60].fill(f32::NEG_INFINITY);
    x[58] = -3.0;
    x[60..].fill(f32::NEG_INFINITY);
    let c = TopK::new(Scalar::F32, SortOrder::Descending, cols, k);
    let numbers: Vec<u8> = [0.999_999f32; 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    let behind = [(Scalar::F32, vec![rows], numbers), (Scalar::I32, vec![rows], vec![0xff; 16])];
    let got = run(&c, &c.sampling(rows, cols).unwrap(), &x, rows, cols, &behind, [1.0, 1.0]);
    let next = i32s(&got[1]);
    // A number just below 1 chooses the least likely one.
    assert_eq!(next[0] as usize, order(&x[..20])[19]);
    assert_eq!(next[1..3], [7, 18]);
    assert!((0..20).contains(&next[3]), "{next:?}");
}

#[test]
fn what_is_not_kept_has_no_part_in_a_choice() {
    // The smallest three, beside a number that would leave them no probability.
    let x = [2.0f32, 1000.0, 1.0, 3.0];
    let c = TopK::new(Scalar::F32, SortOrder::Ascending, 4, 3);
    // Shares of 1, 2 and 3 are 0.09, 0.245 and 0.665.
    for (u, want) in [(0.05f32, 2), (0.2, 0), (0.5, 3)] {
        let behind = [(Scalar::F32, vec![1], u.to_le_bytes().to_vec()), (Scalar::I32, vec![1], vec![0xff; 4])];
        assert_eq!(i32s(&run(&c, &c.sampling(1, 4).unwrap(), &x, 1, 4, &behind, [1.0, 1.0])[1]), [want], "{u}");
    }
}

#[test]
fn any_configuration_is_launches_or_an_error() {
    const ODD: [u32; 9] = [0, 1, 2, 3, 7, 64, 4097, 1 << 30, u32::MAX];
    let mut built = 0;
    for k in ODD {
        for cols in ODD {
            for group in ODD {
                for elem in [Scalar::F16, Scalar::I64, Scalar::I4] {
                    let c = TopK { group, ..TopK::new(elem, SortOrder::Ascending, cols, k) };
                    built += u32::from(c.launches(cols, cols).is_ok()) + u32::from(c.sampling(3, cols).is_ok());
                    let _ = c.for_shape(k, cols).workspaces(k, cols);
                }
            }
        }
    }
    assert!(built > 100, "{built}");
}
