//! Expanded programs compute what they did; the check agrees with what the interpreter finds.

use tilelift_interp::{Arg, Buffer, Memory, Options, ScalarArg, ViewArg, interpret};
use tilelift_ir::Kernel;
use tilelift_ir::Op;
use tilelift_ir::Scalar;
use tilelift_ir::channel::{Capabilities, ChannelProblem, check, expand};
use tilelift_ir::text::{parse, print};
use tilelift_ir::verify;

fn kernel(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernels.remove(0)
}

/// Contents of the views after a run, or the fault. The first two views are inputs.
fn run(k: &Kernel, extents: &[&[i64]], rounds: i64) -> Result<Vec<Vec<f64>>, String> {
    let verified = verify(k).unwrap_or_else(|e| panic!("{}", e.pretty(k)));
    let mut memory = Memory::new();
    let mut args: Vec<Arg> = Vec::new();
    for (v, shape) in extents.iter().enumerate() {
        let n = shape.iter().product::<i64>();
        let values = (0..n).map(|i| if v < 2 { ((i * 7 + v as i64 * 3) % 11 - 5) as f64 } else { 0.0 });
        let buffer = memory.add(Buffer::from_f64(Scalar::F32, values));
        args.push(ViewArg::dense(buffer, Scalar::F32, shape).into());
    }
    args.push(ScalarArg::int(Scalar::I32, rounds).into());
    interpret(&verified, [1, 1, 1], &args, &mut memory, &Options::default()).map_err(|e| e.to_string())?;
    Ok(memory.buffers.iter().map(|b| b.read_f64(Scalar::F32)).collect())
}

/// Products of tiles that come through a channel: the bodies of the put, of the get, and how many consumers there are.
fn pipeline(depth: u32, consumers: u32, put: &str, get: &str) -> Kernel {
    kernel(&format!(
        "kernel @pipeline(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>, v2: view<f32, [?, ?]>, v3: i32) {{
            v4 = channel_alloc {consumers} : channel<{depth}, tile<16x8xf32>, tile<8x16xf32>>
            tasks {{
                task producer warps 1 {{
                    for v5 in 0..v3 step 1 {{
                        v6 = mul v5, 8
                        {put}
                        channel_put v4, v5, v7, v8
                        yield
                    }}
                    yield
                }}
                task consumer warps 4 replicas {consumers} as v9 {{
                    v10 = splat 0.0 : tile<16x16xf32>
                    v11 = for v12 in 0..v3 step 1 carry v13 = v10 {{
                        v14, v15 = channel_get v4, v12
                        {get}
                        yield v16
                    }}
                    v17 = mul v9, 16
                    store v2[v17, 0], v11
                    yield
                }}
            }}
        }}"
    ))
}

const COPIED: &str = "v7 = load v0[0, v6] : tile<16x8xf32>\nv8 = load v1[v6, 0] : tile<8x16xf32>";
const MIXED: &str = "v7 = load v0[0, v6] : tile<16x8xf32>\nv40 = load v1[v6, 0] : tile<8x16xf32>\nv8 = add v40, v40";
const STORED: &str = "v40 = load v0[0, v6], other=1.0 : tile<16x8xf32>\nv7 = neg v40\nv41 = cast v5 : f32\nv8 = splat v41 : tile<8x16xf32>";
const MULTIPLIED: &str = "v16 = dot v14, v15, v13\nchannel_consumed v4, v12";
const TRANSPOSED: &str = "v50 = transpose v14, [1, 0]\nv51 = transpose v15, [1, 0]\nv52 = transpose v13, [1, 0]\nv53 = dot v51, v50, v52\nv16 = transpose v53, [1, 0]\nchannel_consumed v4, v12";
const RETURNED: &str = "channel_consumed v4, v12\nv16 = dot v14, v15, v13";
const ADDED: &str = "v50 = reduce add v14, axis 1\nv51 = reshape v50 : tile<16x1xf32>\nv52 = broadcast v51 : tile<16x16xf32>\nv53 = mul v14, v14\nv54 = dot v53, v15, v13\nchannel_consumed v4, v12\nv16 = add v54, v52";

#[test]
fn expanded_programs_compute_the_same() {
    let mut units = [0usize; 3];
    for put in [COPIED, MIXED, STORED] {
        for get in [MULTIPLIED, TRANSPOSED, RETURNED, ADDED] {
            for (depth, consumers) in [(1, 1), (2, 1), (3, 2), (5, 1), (1, 2)] {
                let k = pipeline(depth, consumers, put, get);
                check(&k).unwrap_or_else(|e| panic!("{e}\n{}", print(&k)));
                for all in [&Capabilities::ALL, &Capabilities::NONE] {
                    let made = expand(&k, all);
                    assert!(!made.regions.values().flat_map(|r| &r.insts).any(|&i| {
                        matches!(made.insts[i].op, Op::ChannelAlloc | Op::ChannelPut | Op::ChannelGet | Op::ChannelConsumed)
                    }));
                    let mut count = |op: Op, at: usize| made.walk(made.body, &mut |i| units[at] += usize::from(made.insts[i].op == op));
                    count(Op::AsyncLoad, 0);
                    count(Op::AsyncDot, 1);
                    count(Op::LocalStore, 2);
                    for rounds in [0, 1, 2, 3, 7, 12] {
                        let shapes: [&[i64]; 3] = [&[16, 50], &[50, 16], &[32, 16]];
                        let want = run(&k, &shapes, rounds).unwrap_or_else(|e| panic!("{e}\n{}", print(&k)));
                        let got = run(&made, &shapes, rounds).unwrap_or_else(|e| panic!("{e}\n{}", print(&made)));
                        assert_eq!(got, want, "{rounds} rounds of\n{}", print(&made));
                        assert!(rounds < 2 || want[2].iter().any(|&x| x != 0.0));
                    }
                }
            }
        }
    }
    // Two copies of two, one of two, none; products in place where the tiles are still there.
    assert_eq!(units, [4 * 5 * 3, 3 * 5 * 3, 4 * 5 * (2 + 3 + 4)]);
}

#[test]
fn a_kernel_without_channels_stays() {
    let k = kernel("kernel @k(v0: view<f32, [?]>) {\n v1 = load v0[0] : tile<4xf32>\n store v0[4], v1\n}");
    assert_eq!(print(&expand(&k, &Capabilities::ALL)), print(&k));
    assert_eq!(check(&k), Ok(()));
}

/// Two tasks that loop over the same rounds, with two channels: `x` to the second, `y` back.
fn two(depths: [u32; 2], first: &str, second: &str) -> Kernel {
    kernel(&format!(
        "kernel @two(v0: view<f32, [?, ?]>, v1: i32) {{
            v2 = channel_alloc : channel<{}, tile<4xf32>>
            v3 = channel_alloc : channel<{}, tile<4xf32>>
            tasks {{
                task a warps 1 {{
                    v10 = splat 0.0 : tile<4xf32>
                    {first}
                    yield
                }}
                task b warps 1 {{
                    v20 = splat 0.0 : tile<4xf32>
                    {second}
                    yield
                }}
            }}
        }}",
        depths[0], depths[1]
    ))
}

fn looped(index: u32, body: &str) -> String {
    format!("for v{index} in 0..v1 step 1 {{\n{body}\nyield\n}}")
}

#[test]
fn steps_are_counted_through_nested_loops() {
    let nest = |at: u32, op: &str| {
        let v = |n: u32| at + n;
        format!(
            "v{} = for v{} in 3..v1 step 2 carry v{} = 0 {{
                for v{} in 0..v1 step 1 {{
                    v{} = add v{}, v{}
                    {op}
                    yield
                }}
                v{} = add v{}, v1
                yield v{}
            }}",
            v(0),
            v(1),
            v(2),
            v(3),
            v(4),
            v(2),
            v(3),
            v(5),
            v(2),
            v(5)
        )
    };
    let k = two([2, 1], &nest(30, "channel_put v2, v34, v10"), &nest(40, "v49 = channel_get v2, v44\nchannel_consumed v2, v44"));
    assert_eq!(check(&k), Ok(()));
    // A counter that one of them does not carry on.
    let other = nest(40, "v49 = channel_get v2, v44\nchannel_consumed v2, v44").replace("v45 = add v42, v1", "v45 = add v42, 1");
    let e = check(&two([2, 1], &nest(30, "channel_put v2, v34, v10"), &other)).expect_err("the counter");
    assert!(e.problem == ChannelProblem::Step && e.sites[0].1 == Op::ChannelGet, "{e}");
}

#[test]
fn what_is_refused_names_both_sites() {
    let put = looped(30, "channel_put v2, v30, v10");
    let get = looped(40, "v41 = channel_get v2, v40\nchannel_consumed v2, v40");
    assert_eq!(check(&two([1, 1], &put, &get)), Ok(()));
    let plus = "v31 = add v30, 1\nchannel_put v2, v31, v10";
    let twice = "v42 = mul v40, 2\nv43 = channel_get v2, v42\nchannel_consumed v2, v42\nv44 = add v42, 1\nv45 = channel_get v2, v44\nchannel_consumed v2, v44";
    let sometimes = "v31 = cmp gt v1, 2\nif v31 {\nchannel_put v2, v30, v10\nyield\n} else {\nyield\n}";
    for (first, second, problem, sites) in [
        (looped(30, plus), get.clone(), ChannelProblem::Step, vec![Op::ChannelPut]),
        (looped(30, sometimes), get.clone(), ChannelProblem::Conditional, vec![Op::If, Op::ChannelPut]),
        (put.clone(), get.replace("0..v1", "1..v1"), ChannelProblem::Step, vec![Op::ChannelGet]),
        (put.clone(), get.replace("0..v1", "0..7"), ChannelProblem::Totals, vec![Op::ChannelPut, Op::ChannelGet]),
        (put.clone(), looped(40, twice), ChannelProblem::Totals, vec![Op::ChannelPut, Op::ChannelGet]),
        (put.clone(), looped(40, "v41 = channel_get v2, v40"), ChannelProblem::Totals, vec![Op::ChannelPut, Op::ChannelGet]),
        (
            put.clone(),
            looped(40, "channel_consumed v2, v40\nv41 = channel_get v2, v40"),
            ChannelProblem::ReturnBeforeGet,
            vec![Op::ChannelConsumed, Op::ChannelGet],
        ),
        (put.clone(), looped(40, "channel_put v2, v40, v20"), ChannelProblem::SeveralPut, vec![Op::ChannelPut, Op::ChannelPut]),
        (put.clone(), String::new(), ChannelProblem::Consumers { takers: 0, want: 1 }, vec![Op::ChannelAlloc, Op::ChannelPut]),
        (String::new(), get.clone(), ChannelProblem::NoPut, vec![Op::ChannelAlloc, Op::ChannelGet]),
        (
            format!("{put}\n{}", looped(50, "v51 = add v50, v1\nchannel_put v2, v51, v10")),
            get.clone(),
            ChannelProblem::Totals,
            vec![Op::ChannelPut, Op::ChannelGet],
        ),
        (
            looped(30, "v31 = channel_get v3, v30\nchannel_consumed v3, v30\nchannel_put v2, v30, v10"),
            looped(40, "v41 = channel_get v2, v40\nchannel_consumed v2, v40\nchannel_put v3, v40, v20"),
            ChannelProblem::Circle,
            vec![Op::ChannelGet, Op::ChannelPut],
        ),
    ] {
        let k = two([1, 1], &first, &second);
        let e = check(&k).expect_err("a problem");
        assert_eq!(e.problem, problem, "{e}\n{}", print(&k));
        assert_eq!(e.sites.iter().map(|s| s.1).collect::<Vec<_>>(), sites, "{e}");
        assert!(e.sites.iter().all(|s| e.to_string().contains(&format!("`{}` at {}:", s.1, s.2.line))), "{e}");
    }
}

/// Two tasks that use two channels in any order: the check finds a deadlock exactly where the interpreter does.
#[test]
fn the_check_agrees_with_the_interpreter() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % n
    };
    let (mut live, mut stuck) = (0, 0);
    for _ in 0..400 {
        let depths = [1 + next(3) as u32, 1 + next(3) as u32];
        let (ways, back) = (1 + next(3), next(3));
        // Per task: the operations on each channel in their order, merged at random.
        let put = |c: u32, n: u64| (0..n).map(move |j| ("put", c, j, n)).collect::<Vec<_>>();
        let mut take = |c: u32, n: u64| {
            let (mut out, mut got, mut gone) = (Vec::new(), 0, 0);
            while gone < n {
                if got < n && (got == gone || next(2) == 0) {
                    out.push(("get", c, got, n));
                    got += 1;
                } else {
                    out.push(("back", c, gone, n));
                    gone += 1;
                }
            }
            out
        };
        let (take_x, take_y) = (take(2, ways), take(3, back));
        let mut merged = |a: Vec<(&'static str, u32, u64, u64)>, b: Vec<(&'static str, u32, u64, u64)>| {
            let (mut a, mut b) = (std::collections::VecDeque::from(a), std::collections::VecDeque::from(b));
            let mut out = Vec::new();
            while !a.is_empty() || !b.is_empty() {
                let from = if b.is_empty() || !a.is_empty() && next(2) == 0 { &mut a } else { &mut b };
                out.extend(from.pop_front());
            }
            out
        };
        let (first, second) = (merged(put(2, ways), take_y), merged(take_x, put(3, back)));
        let mut name = 100;
        let mut body = |index: u32, tile: u32, ops: &[(&str, u32, u64, u64)]| {
            let mut out = String::new();
            for &(op, c, j, n) in ops {
                name += 3;
                out += &format!("v{name} = mul v{index}, {n}\nv{} = add v{name}, {j}\n", name + 1);
                out += &match op {
                    "put" => format!("channel_put v{c}, v{}, v{tile}\n", name + 1),
                    "get" => format!("v{} = channel_get v{c}, v{}\n", name + 2, name + 1),
                    _ => format!("channel_consumed v{c}, v{}\n", name + 1),
                };
            }
            looped(index, &out)
        };
        let (first, second) = (body(30, 10, &first), body(40, 20, &second));
        let k = two(depths, &first, &second);
        let said = check(&k);
        let found = (0..7).map(|n| run(&k, &[&[4, 4]], n)).collect::<Result<Vec<_>, _>>();
        match (&said, &found) {
            (Ok(()), Ok(_)) => live += 1,
            (Err(e), Err(fault)) => {
                assert!(e.problem == ChannelProblem::Circle && fault.contains("everybody waits"), "{e}\n{fault}");
                stuck += 1;
            }
            _ => panic!("the check says {said:?}, the interpreter {found:?}, of\n{}", print(&k)),
        }
        // The expansion lives as long, and no longer.
        let made = expand(&k, &Capabilities::ALL);
        assert_eq!(run(&made, &[&[4, 4]], 6).is_ok(), found.is_ok(), "{}", print(&made));
    }
    assert!(live > 50 && stuck > 50, "{live} live, {stuck} stuck");
}
