//! Examples of the codes of explicit control.

use super::VerifyCode;
use super::tests::text;
use crate::kernel::Kernel;
use crate::ops::{Attr, Op};
use crate::types::Type;

/// A body with handles, and tasks that a test may change.
fn body(front: &str, task: &str, rest: &str) -> Kernel {
    text(&format!(
        "kernel @e(v0: view<f32, [?, ?]>, v1: i32) {{
            v2 = local_alloc : shared<2x16x32xf32>
            v3 = barrier_alloc 1 : barrier<2>
            v4 = splat 0.0 : tile<16x32xf32>
            {front}
            tasks {{
                task one warps 1 {{
                    v5 = local_index v2, 0
                    {task}
                    yield
                }}
            }}
            {rest}
        }}"
    ))
}

/// Tasks with these headers.
fn tasks(heads: &[&str]) -> Kernel {
    let all = heads.iter().map(|h| format!("task {h} {{ yield\n}}")).collect::<Vec<_>>().join("\n");
    text(&format!("kernel @t() {{\n tasks {{\n{all}\n}}\n}}"))
}

/// A product of two buffers, and what is done with it.
fn product(then: &str) -> Kernel {
    text(&format!(
        "kernel @p(v0: view<f32, [?, ?]>, v1: i32) {{
            v2 = local_alloc : shared<64x16xbf16>
            v3 = local_alloc : shared<16x32xbf16>
            v4 = splat 0.0 : tile<64x32xf32>
            v5 = async_dot v2, v3, v4
            {then}
        }}"
    ))
}

/// What obeys the rule of a code, and what breaks it.
pub(super) fn examples(code: VerifyCode) -> (Vec<Kernel>, Vec<Kernel>) {
    use VerifyCode as C;
    match code {
        C::ClusterRange => (
            vec![text("kernel @c() cluster 16 {\n}"), text("kernel @c() cluster 1 {\n}")],
            vec![text("kernel @c() cluster 3 {\n}"), text("kernel @c() cluster 0 {\n}"), text("kernel @c() cluster 32 {\n}")],
        ),
        C::TasksPlace => (
            vec![body("", "", "")],
            vec![
                body("", "", "store v0[0, 0], v4"),
                body("", "tasks {\ntask two warps 1 { yield\n}\n}", ""),
                text("kernel @t(v0: i1) {\n if v0 { tasks {\ntask two warps 1 { yield\n}\n}\n yield } else { yield }\n}"),
                text("kernel @t() {\n tasks {\ntask a warps 1 { yield\n}\n}\n tasks {\ntask b warps 1 { yield\n}\n}\n}"),
            ],
        ),
        C::AllocPlace => (
            vec![body("v90 = channel_alloc : channel<1, tile<4xf32>>", "", "")],
            vec![
                body("", "v90 = local_alloc : shared<4xf32>", ""),
                body("", "v90 = barrier_alloc 1 : barrier<1>", ""),
                text("kernel @a(v0: i32) {\n for v1 in 0..v0 step 1 {\n v2 = channel_alloc : channel<1, tile<4xf32>>\n yield }\n}"),
            ],
        ),
        C::TaskShape => (
            vec![tasks(&["a warps 1", "b_1 warps 8 registers 24 replicas 3 as v9"]), tasks(&["a warps 32 registers 240"])],
            vec![
                tasks(&[]),
                tasks(&["a warps 1", "a warps 1"]),
                tasks(&["a warps 3"]),
                tasks(&["a warps 0"]),
                tasks(&["a warps 64"]),
                tasks(&["a warps 1 replicas 0 as v9"]),
                tasks(&["a warps 8 replicas 4294967295 as v9"]),
                tasks(&["a warps 16", "b warps 8 replicas 3 as v9"]),
                tasks(&["a warps 4 registers 20"]),
                tasks(&["a warps 4 registers 248"]),
                tasks(&["a warps 4 registers 25"]),
                {
                    let mut k = tasks(&["a warps 4"]);
                    let i = k.regions[k.body].insts[0];
                    if let Some(Attr::Tasks(t)) = k.insts[i].attrs.first_mut() {
                        t[0].name = "9 b".into();
                    }
                    k
                },
            ],
        ),
        C::TaskCapture => (
            vec![body(
                "v90 = reduce add v4, axis 0\nv91 = reduce add v90, axis 0",
                "v92 = splat v91 : tile<16x32xf32>\nlocal_store v5, v92",
                "",
            )],
            vec![
                body("", "local_store v5, v4", ""),
                body("", "for v90 in 0..v1 step 1 {\n store v0[v90, 0], v4\n yield }", ""),
                body("", "v90 = for v91 in 0..v1 step 1 carry v92 = v4 { yield v92 }\n local_store v5, v90", ""),
            ],
        ),
        C::HandlePlace => (
            vec![body("", "v90 = local_load v5\n store v0[0, 0], v90", "")],
            vec![
                body("", "v92 = for v90 in 0..v1 step 1 carry v91 = v5 { yield v91 }", ""),
                body("", "v90 = cmp lt v1, 0\nv91 = if v90 { yield v3 } else { yield v3 }", ""),
                {
                    let mut k = body("", "print v1", "");
                    let barriers = k.values.keys().find(|&v| *k.ty(v) == Type::Barrier(2)).expect("allocated");
                    let i = k.insts.iter().find(|(_, d)| d.op == Op::Print).expect("there").0;
                    k.insts[i].args[0] = barriers;
                    k
                },
                {
                    let mut k = body("", "", "");
                    let last = *k.regions[k.body].insts.last().expect("tasks");
                    let first = k.insts[last].regions[0];
                    k.add_region_param(first, Type::Barrier(1));
                    k
                },
            ],
        ),
        C::WholeBuffer => (
            vec![body(
                "v90 = local_alloc alias=v2 : shared<1024xf32>\nv91 = local_index v2, 1\nv92 = local_reinterpret v91 : shared<512xi32>",
                "",
                "",
            )],
            vec![
                body("v90 = local_alloc alias=v2 : shared<16xf32>\nv91 = local_alloc alias=v90 : shared<16xf32>", "", ""),
                body("v90 = local_index v2, 1\nv91 = local_alloc alias=v90 : shared<16xf32>", "", ""),
                body("v90 = local_slice v2, [0, 0, 0] : shared<1x16x32xf32>\nv91 = local_reinterpret v90 : shared<512xi32>", "", ""),
                body("v90 = local_transpose v2, [0, 2, 1]\nv91 = local_reinterpret v90 : shared<1024xi32>", "", ""),
            ],
        ),
        C::ProductInFlight => (
            vec![
                product("v6 = async_dot v2, v3, v5\nv7 = async_dot_wait v6, 0\nstore v0[0, 0], v7"),
                product("v6 = for v7 in 0..v1 step 1 carry v8 = v5 {\nv9 = async_dot v2, v3, v8\nyield v9\n}\nv10 = async_dot_wait v6, 0"),
            ],
            vec![
                product("store v0[0, 0], v5"),
                product("v6 = add v5, v4"),
                product("v6 = for v7 in 0..v1 step 1 carry v8 = v1 {\nprint v5\nyield v8\n}"),
            ],
        ),
        C::Position => (
            vec![
                body("v90 = local_index v2, 1\nv91 = barrier_index v3, 1", "barrier_arrive v91", ""),
                body("v90 = sub 0, 1\nv91 = local_index v2, v90\nv92 = local_index v2, v1", "", ""),
            ],
            vec![
                body("v90 = local_index v2, 2", "", ""),
                body("", "v90 = local_index v2, -1", ""),
                body("", "v90 = local_index v5, 16", ""),
                body("", "v90 = barrier_index v3, 2\nbarrier_arrive v90", ""),
                body("v90 = barrier_index v3, 1\nv91 = barrier_index v90, 1", "", ""),
            ],
        ),
        C::WaitedFor => (
            vec![
                product("v6 = async_dot_wait v5, 1\nv7 = async_dot_wait v6, 0"),
                product("v6 = for v7 in 0..v1 step 1 carry v8 = v4 {\nv9 = async_dot_wait v8, 0\nv10 = async_dot v2, v3, v9\nyield v10\n}\nv11 = async_dot_wait v6, 0"),
                product("v6 = cmp gt v1, 0\nv7 = if v6 {\nyield v4\n} else {\nyield v5\n}\nv8 = async_dot_wait v7, 0"),
                product(
                    "v6, v7 = while carry v8 = v1, v9 = v4 {\nv10 = cmp gt v8, 0\nv11 = async_dot_wait v9, 0\nyield v10\n} do carry v12, v13 {
                     v14 = async_dot v2, v3, v13\nv15 = sub v12, 1\nyield v15, v14\n}\nv16 = async_dot_wait v7, 0",
                ),
            ],
            vec![
                product("v6 = async_dot_wait v4, 0"),
                product("v6 = async_dot_wait v5, 0\nv7 = add v6, v6\nv8 = async_dot_wait v7, 0"),
                product("v6 = for v7 in 0..v1 step 1 carry v8 = v4 {\nv9 = async_dot_wait v8, 0\nv10 = add v9, v9\nyield v10\n}\nv11 = async_dot_wait v5, 0"),
            ],
        ),
        C::Unawaited => (
            vec![
                // By a wait for a later one, by one that leaves as many in flight as come in between, in a later round, behind the loop.
                product("v6 = async_dot v2, v3, v4\nv7 = async_dot_wait v6, 0"),
                product("v6 = async_dot v2, v3, v4\nv7 = async_dot_wait v6, 1\nv8 = async_dot_wait v6, 0"),
                product("v6 = for v7 in 0..v1 step 1 carry v8 = v5 {\nv9 = async_dot_wait v8, 0\nv10 = async_dot v2, v3, v9\nyield v10\n}"),
                product("v6 = for v7 in 0..v1 step 1 carry v8 = v5 {\nv9 = async_dot v2, v3, v8\nyield v9\n}\nv10 = async_dot_wait v6, 3"),
                product("v6 = cmp gt v1, 0\nif v6 {\nv7 = async_dot_wait v5, 0\nyield\n} else {\nyield\n}"),
            ],
            vec![
                product(""),
                product("v6 = async_dot_wait v5, 1"),
                product("v6 = async_dot v2, v3, v4\nv7 = async_dot_wait v6, 1"),
                product("v6 = async_dot_wait v5, 0\nfor v7 in 0..v1 step 1 {\nv8 = async_dot v2, v3, v4\nyield\n}"),
                product("v6 = cmp gt v1, 0\nif v6 {\nv7 = async_dot_wait v5, 0\nyield\n} else {\nv8 = async_dot v2, v3, v4\nyield\n}"),
                product("tasks {\ntask a warps 4 {\nv90 = splat 0.0 : tile<64x32xf32>\nv91 = async_dot v2, v3, v90\nv92 = async_dot_wait v91, 0\nyield\n}\n}"),
            ],
        ),
        _ => unreachable!("{code} has its examples elsewhere"),
    }
}
