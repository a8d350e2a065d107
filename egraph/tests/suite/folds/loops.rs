//! Which loops become one, and in which order they stand: independent folds, nested loops, chains, random programs.

use super::*;
use crate::common::Draft;

const TWO_SUMS: &str = "kernel @two(v0: view<f32, [16, ?]>, v1: view<f32, [16]>, v2: view<f32, [16]>) {
    v3 = dim v0, 1
    v4 = splat 0.0 : tile<16xf32>
    v5 = for v6 in 0..v3 step 32 carry v7 = v4 {
        v8 = load v0[0, v6] : tile<16x32xf32>
        v9 = abs v8
        v10 = reduce maximum v9, axis 1
        v11 = maximum v7, v10
        yield v11
    }
    v12 = for v13 in 0..v3 step 32 carry v14 = v4 {
        v15 = load v0[0, v13] : tile<16x32xf32>
        v16 = reduce add v15, axis 1
        v17 = add v14, v16
        yield v17
    }
    store v1[0], v5
    store v2[0], v12
}";

#[test]
fn independent_folds_over_one_range_are_one_loop() {
    let kernel = parsed(TWO_SUMS);
    // To the bit, without leave.
    for class in [Class::Exact, Class::Free, Class::Reassoc] {
        let (is, _) = made(&kernel, &allow(class));
        assert_eq!((count(&is, Op::For), count(&is, Op::Load)), (1, 1), "{}", text::print(&is));
        for open in [0, 1, 32, 77] {
            near(&kernel, &is, open, 0.0);
        }
    }
    // Another range is another loop.
    let (is, _) = made(&parsed(&TWO_SUMS.replace("v13 in 0..v3", "v13 in 32..v3")), &allow(Class::Reassoc));
    assert_eq!(count(&is, Op::For), 2);
    // A store between them may change what is read.
    let stored = TWO_SUMS
        .replace("v12 = for", "store v0[0, 0], v5a\nv12 = for")
        .replace("v5a", "v20")
        .replace("store v0", "v19 = reshape v5 : tile<16x1xf32>\nv20 = broadcast v19 : tile<16x32xf32>\nstore v0");
    let (is, _) = made(&parsed(&stored), &allow(Class::Reassoc));
    assert_eq!((count(&is, Op::For), count(&is, Op::Load)), (2, 2), "{}", text::print(&is));
    near(&parsed(&stored), &is, 77, 0.0);
}

#[test]
fn nested_loops_over_one_range_keep_their_indices() {
    let source = "kernel @nested(v0: view<i32, [16, ?]>, v1: view<i32, [16]>, v2: view<i32, [16]>) {
    v3 = splat 0 : tile<16xi32>
    v4 = for v5 in 0..4 step 1 carry v6 = v3 {
        v7 = for v8 in 0..4 step 1 carry v9 = v3 {
            v10 = load v0[0, v8] : tile<16x1xi32>
            v11 = reshape v10 : tile<16xi32>
            v12 = mul v5, 7
            v13 = add v12, v8
            v14 = splat v13 : tile<16xi32>
            v15 = mul v11, v14
            v16 = add v9, v15
            yield v16
        }
        v17 = splat v5 : tile<16xi32>
        v18 = xor v7, v17
        v19 = add v6, v18
        yield v19
    }
    v20 = for v21 in 0..4 step 1 carry v22 = v3 {
        v23 = for v24 in 0..4 step 1 carry v25 = v3 {
            v26 = load v0[0, v24] : tile<16x1xi32>
            v27 = reshape v26 : tile<16xi32>
            v28 = add v25, v27
            yield v28
        }
        v29 = splat v21 : tile<16xi32>
        v30 = mul v23, v29
        v31 = maximum v22, v30
        yield v31
    }
    store v1[0], v4
    store v2[0], v20
}";
    let (is, report) = fused(source, &[3, 8], 0.0);
    // What does not change from one outer iteration to the next leaves the outer loop.
    let outer: Vec<_> = is.regions[is.body].insts.iter().filter(|&&i| is.insts[i].op == Op::For).collect();
    assert_eq!((outer.len(), count(&is, Op::For)), (2, 3), "{report}{}", text::print(&is));
}

/// Random programs of loops over a few ranges: integers, so that every rule keeps every bit.
impl Draft {
    fn one_of(&mut self, from: &[String]) -> String {
        from[self.pick(from.len())].clone()
    }

    /// A few statements; tiles that are visible grow by their results.
    fn block(&mut self, tiles: &mut Vec<String>, indices: &[String], depth: usize, writes: bool) {
        for _ in 0..2 + self.pick(3) {
            let kind = self.pick(10);
            let (a, b) = (self.one_of(tiles), self.one_of(tiles));
            let made = match kind {
                0 | 1 => {
                    let op = ["add", "sub", "mul", "xor", "maximum", "minimum"][self.pick(6)];
                    self.push(&format!("{op} {a}, {b}"))
                }
                2 | 3 => {
                    let (view, row) = (self.pick(2), self.pick(3));
                    let column = if indices.is_empty() { "1".to_owned() } else { self.one_of(indices) };
                    self.push(&format!("load v{view}[{row}, {column}] : tile<4x4xi32>"))
                }
                4 if !indices.is_empty() => {
                    let i = self.one_of(indices);
                    let s = self.push(&format!("splat {i} : tile<4x4xi32>"));
                    self.push(&format!("mul {s}, {a}"))
                }
                5 if writes && self.pick(3) == 0 => {
                    let at = self.pick(6);
                    self.lines.push(format!("store v1[{at}, 2], {a}"));
                    a
                }
                6 if writes && depth < 2 => {
                    let c = self.push(&format!("reduce maximum {a}, axis 1"));
                    let c = self.push(&format!("reduce add {c}, axis 0"));
                    let c = self.push(&format!("cmp lt {c}, 5"));
                    let result = format!("v{}", self.next);
                    self.next += 1;
                    self.lines.push(format!("{result} = if {c} {{"));
                    let mut inner = tiles.clone();
                    self.block(&mut inner, indices, depth + 1, true);
                    let y = inner[inner.len() - 1].clone();
                    self.lines.push(format!("yield {y}\n}} else {{\nyield {b}\n}}"));
                    result
                }
                _ if depth < 3 => self.fold(tiles, indices, depth, writes),
                _ => continue,
            };
            tiles.push(made);
        }
    }

    fn fold(&mut self, tiles: &[String], indices: &[String], depth: usize, writes: bool) -> String {
        let range = ["0..3 step 1", "0..4 step 1", "1..8 step 2", "0..v9 step 1"][self.pick(4)];
        let slots = 1 + self.pick(2);
        let take = |d: &mut Draft| {
            let v = format!("v{}", d.next);
            d.next += 1;
            v
        };
        let results: Vec<String> = (0..slots).map(|_| take(self)).collect();
        let index = take(self);
        let accs: Vec<String> = (0..slots).map(|_| take(self)).collect();
        let inits: Vec<String> =
            accs.iter().map(|a| format!("{a} = {}", if self.pick(2) == 0 { "v12".into() } else { self.one_of(tiles) })).collect();
        self.lines.push(format!("{} = for {index} in {range} carry {} {{", results.join(", "), inits.join(", ")));
        let (mut inner, mut inside) = (tiles.to_vec(), indices.to_vec());
        inside.push(index);
        // Seldom a store, or somebody who sees the accumulator.
        let stores = writes && self.pick(4) == 0;
        if self.pick(6) == 0 {
            inner.push(accs[0].clone());
        }
        self.block(&mut inner, &inside, depth + 1, stores);
        let yields: Vec<String> = accs
            .iter()
            .map(|acc| {
                let op = ["add", "add", "add", "maximum", "minimum_u", "xor", "or"][self.pick(7)];
                let e = self.one_of(&inner);
                if self.pick(2) == 0 { self.push(&format!("{op} {acc}, {e}")) } else { self.push(&format!("{op} {e}, {acc}")) }
            })
            .collect();
        self.lines.push(format!("yield {}\n}}", yields.join(", ")));
        results[0].clone()
    }
}

#[test]
fn random_loops_keep_every_bit() {
    let mut fewer = 0;
    for seed in 0..400u64 {
        let mut d = Draft::new(20, seed * 13 + 5);
        let mut tiles = vec!["v10".to_owned(), "v11".to_owned()];
        for _ in 0..3 {
            d.block(&mut tiles, &[], 0, true);
            let more = d.fold(&tiles, &[], 0, false);
            tiles.push(more);
        }
        let sum =
            tiles.iter().skip(2).cloned().collect::<Vec<_>>().into_iter().fold("v10".to_owned(), |s, t| d.push(&format!("xor {s}, {t}")));
        let source = format!(
            "kernel @random(v0: view<i32, [12, 12]>, v1: view<i32, [12, 12]>, v2: view<i32, [1]>) {{\n\
             v3 = load v2[0] : tile<1xi32>\nv4 = reduce add v3, axis 0\nv9 = and v4, 3\n\
             v10 = load v0[0, 0] : tile<4x4xi32>\nv11 = load v1[4, 4] : tile<4x4xi32>\nv12 = splat 0 : tile<4x4xi32>\n{}\nstore v1[8, 8], {sum}\n}}",
            d.lines.join("\n")
        );
        let kernel = parsed(&source);
        let want = run(&kernel, 0, seed, 1.0);
        for options in [
            allow(Class::Exact),
            allow(Class::Free),
            allow(Class::Approx),
            Options { chaos: Some(2 * seed), ..allow(Class::Approx) },
            Options { chaos: Some(2 * seed + 1), ..allow(Class::Approx) },
            Options { nodes: 150, ..allow(Class::Approx) },
        ] {
            let (is, _) = made(&kernel, &options);
            assert!(run(&is, 0, seed, 1.0) == want, "seed {seed}, {options:?}:\n{source}\nbecame\n{}", text::print(&is));
            fewer += usize::from(count(&is, Op::For) < count(&kernel, Op::For));
        }
    }
    assert!(fewer > 1000, "{fewer} programs have fewer loops");
}

/// Loops after one another, alternating between two ranges, each of which needs the one before.
#[test]
fn chains_of_loops_neither_nest_nor_hang() {
    let mut body = String::new();
    let mut last = "v1000".to_owned();
    for n in 0..200 {
        let v = |k: usize| format!("v{}", 2000 + 8 * n + k);
        body += &format!(
            "{} = for {} in 0..{} step 1 carry {} = v1000 {{\n{} = load v0[0, {}] : tile<16xf32>\n{} = add {}, {last}\n{} = add {}, {}\nyield {}\n}}\n",
            v(0),
            v(1),
            3 + n % 2,
            v(2),
            v(3),
            v(1),
            v(4),
            v(3),
            v(5),
            v(2),
            v(4),
            v(5)
        );
        last = v(0);
    }
    let source = format!(
        "kernel @chain(v0: view<f32, [16, ?]>, v1: view<f32, [16]>) {{\nv1000 = splat 0.0 : tile<16xf32>\n{body}store v1[0], {last}\n}}"
    )
    .replace("load v0[0,", "load v0[")
    .replace("[16, ?]", "[64]");
    let kernel = parsed(&source);
    for chaos in [None, Some(1), Some(2)] {
        let start = std::time::Instant::now();
        let (is, report) = made(&kernel, &Options { chaos, ..allow(Class::Approx) });
        println!("{report}");
        assert!(count(&is, Op::For) == 200 && start.elapsed().as_secs() < 20, "{report}");
    }
}
