use super::*;
use tilelift_ir::text;

const DIES: Dies = Dies { count: 8, processors: 38, chunk: 32 };

fn order(kernel: &str) -> Option<DieOrder> {
    let file = text::parse(kernel).unwrap_or_else(|e| panic!("{e}"));
    DieOrder::of(&file.kernels[0], DIES, &tilelift_lane::testing::target().costs)
}

/// Every position is worked at once, whatever the grid.
fn is_bijection(order: DieOrder, grid: [u64; 3]) {
    let n: u64 = grid[..order.axes as usize].iter().product();
    let mut seen = vec![false; n as usize];
    for w in 0..n {
        let [x, y, z] = order.position(w, grid);
        assert!(x < grid[0] && y < grid[1].max(1) && z < grid[2].max(1), "{order:?} {grid:?}: {w}");
        let at = &mut seen[(x + grid[0] * (y + grid[1] * z)) as usize];
        assert!(!std::mem::replace(at, true), "{order:?} {grid:?}: {w}");
    }
}

#[test]
fn orders_are_bijections() {
    for (count, chunk) in [(8, 32), (4, 8), (2, 1), (1, 4)] {
        let order = DieOrder { axes: 1, count, chunk, group: 1 };
        (0..700).chain([1024, 4095, 4096, 4097]).for_each(|n| is_bijection(order, [n, 1, 1]));
        for group in [1, 8, 3] {
            for (x, y, z) in
                (1..20).flat_map(|x| (1..20).map(move |y| (x, y, 1 + (x * y) % 3))).chain([(300, 2, 1), (3, 301, 2), (33, 70, 1)])
            {
                is_bijection(DieOrder { axes: 2, count, chunk, group }, [x, y, 1]);
                is_bijection(DieOrder { axes: 3, count, chunk, group }, [x, y, z]);
            }
        }
    }
    // What is launched to one die follows one another.
    let order = DieOrder { axes: 1, count: 8, chunk: 32, group: 1 };
    let first: Vec<u64> = (0..32).map(|n| order.position(8 * n, [1000, 1, 1])[0]).collect();
    assert_eq!(first, (0..32).collect::<Vec<_>>());
}

/// A product of some depth; `behind` is what becomes of its sums.
fn product(depth: &str, behind: &str) -> String {
    format!(
        "kernel @k(v0: view<f16, [?, ?]>, v1: view<f16, [?, ?]>, v2: view<f32, [?, ?]>) {{
            v3 = program_id x
            v4 = program_id y
            v5 = mul v3, 64
            v6 = mul v4, 64
            v7 = dim v0, 1
            v9 = splat 0.0 : tile<64x64xf32>
            v10 = for v20 in 0..{depth} step 64 carry v21 = v9 {{
                v22 = load v0[v6, v20] : tile<64x64xf16>
                v23 = load v1[v20, v5] : tile<64x64xf16>
                v24 = dot v22, v23, v21
                yield v24
            }}
            {behind}
        }}"
    )
}

#[test]
fn products_share_rows_and_columns() {
    let made = order(&product("v7", "store v2[v6, v5], v10"));
    assert_eq!(made, Some(DieOrder { axes: 2, count: 8, chunk: 32, group: GROUP }));
}

/// What instances could tell, what nobody shares, and what takes longer to compute than it saves, stays.
#[test]
fn others_stay_as_they_are_launched() {
    let update = "v11 = splat 0 : tile<64x64xi32>\nv12 = atomic add v2[v11, v11], v10";
    assert_eq!(order(&product("v7", update)), None, "an update");
    let reads = "v11 = load v2[v6, v5] : tile<64x64xf32>\nv12 = add v10, v11\nstore v2[v6, v5], v12";
    assert_eq!(order(&product("v7", reads)), None, "reads what it writes");
    assert_eq!(order(&product("64", "store v2[v6, v5], v10")), None, "one step");
    let rows = "kernel @k(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>) {
        v2 = program_id x
        v3 = load v0[v2, 0] : tile<1x4096xf32>
        v4 = exp v3
        store v1[v2, 0], v4
    }";
    assert_eq!(order(rows), None, "rows of its own");
}
