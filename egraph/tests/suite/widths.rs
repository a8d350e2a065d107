//! Bitcasts between element widths, which make two elements of one or one of two: every rule is run on programs in which its operands
//! come through such casts and its result goes through them, with moves in between, and all rules together on random programs of
//! bytes and halves of bytes. A rule that takes such a cast for an op that works element by element changes the numbers.

use crate::common::{Draft, program, run};
use std::collections::BTreeMap;
use tilelift_egraph::rules::{self, Class, Rule, pairs};
use tilelift_egraph::{Options, optimise};
use tilelift_ir::{Op, Scalar, num, text, verify};

/// The element types of half a byte. Those of a byte are integers here: of a NaN only that it is one is defined.
const HALVES: [&str; 2] = ["i4", "f4e2m1"];

impl Draft {
    /// A tile of matrices of that type: as it was, moved to where other elements stand, or one row or column of it repeated.
    fn moved(&mut self, v: &str, [rows, columns]: [u32; 2], elem: &str) -> String {
        let ty = format!("tile<{rows}x{columns}x{elem}>");
        match self.pick(8) {
            0 => self.push(&format!("flip {v}, axis 1")),
            1 => self.push(&format!("flip {v}, axis 0")),
            2 => {
                let across = self.push(&format!("transpose {v}, [1, 0]"));
                self.push(&format!("reshape {across} : {ty}"))
            }
            3 => {
                let row = self.push(&format!("slice {v}, [{}, 0] : tile<1x{columns}x{elem}>", rows - 1));
                self.push(&format!("broadcast {row} : {ty}"))
            }
            4 => {
                let column = self.push(&format!("slice {v}, [0, 1] : tile<{rows}x1x{elem}>"));
                self.push(&format!("broadcast {column} : {ty}"))
            }
            5 => {
                let half = columns / 2;
                let [x, y] = [0, half].map(|at| self.push(&format!("slice {v}, [0, {at}] : tile<{rows}x{half}x{elem}>")));
                self.push(&format!("concat {y}, {x}, axis 1"))
            }
            6 => {
                let other = self.pick(8);
                let scalar = self.push(&format!("cast {other}i32 : {elem}"));
                let full = self.push(&format!("splat {scalar} : {ty}"));
                let [at, bound] = ["iota 1".to_owned(), format!("splat {}", self.next % 7)]
                    .map(|x| self.push(&format!("{x} : tile<{rows}x{columns}xi32>")));
                let where_ = self.push(&format!("cmp lt {at}, {bound}"));
                self.push(&format!("select {where_}, {v}, {full}"))
            }
            _ => v.to_owned(),
        }
    }
    /// A tile `8x16` of bytes as twice as many halves and back, moved before, between and behind.
    fn through(&mut self, bytes: &str) -> String {
        let elem = HALVES[self.pick(2)];
        let before = self.moved(bytes, [8, 16], "i8");
        let halves = self.push(&format!("bitcast {before} : tile<8x32x{elem}>"));
        let between = self.moved(&halves, [8, 32], elem);
        let whole = self.push(&format!("bitcast {between} : tile<8x16xi8>"));
        self.moved(&whole, [8, 16], "i8")
    }
    /// Any tile of the programs' type, or a splat of a scalar of it, by way of bytes and halves.
    fn operand(&mut self, letter: &str, t: Scalar) -> String {
        let splat = self.pick(3) == 0;
        let v = if splat { self.push("splat s : A") } else { letter.to_owned() };
        let bytes = if t == Scalar::I8 { v } else { self.push(&format!("cast {v} : tile<8x16xi8>")) };
        let whole = self.through(&bytes);
        if t == Scalar::I8 { whole } else { self.push(&format!("cast {whole} : A")) }
    }
}

/// Runs a program and what the optimizer makes of it; the steps that were taken.
fn same_bits(body: &str, [t, u]: [Scalar; 2], options: &Options, class: Class, what: &str) -> usize {
    let kernel = program(body, t, u);
    let verified = verify(&kernel).expect("verified before");
    let (made, report) = optimise(&verified, options);
    assert_eq!(report.fallback, None, "{what}:\n{}", text::print(&kernel));
    let elem = kernel.ty(*kernel.params.last().expect("an output")).elem();
    for seed in 0..2 {
        let tame = class != Class::Exact;
        let (want, got) = (run(&kernel, t, seed, tame), run(&made, t, seed, tame));
        for (n, (&w, &g)) in want.iter().zip(&got).enumerate() {
            let [x, y] = [w, g].map(|b| if elem.is_float() { num::from_bits(b, elem) } else { 0.0 });
            let near =
                w == g || x.is_nan() && y.is_nan() || tame && elem.is_float() && (x - y).abs() <= 2f64.powi(-6) + 2f64.powi(-14) * x.abs();
            assert!(near, "{what}, element {n}: {g:#x} instead of {w:#x}\n{}\nbecame\n{}", text::print(&kernel), text::print(&made));
        }
    }
    report.rules.iter().map(|r| r.applied).sum()
}

/// The last value that a program makes outside of regions.
fn last_value(body: &str) -> String {
    let (mut depth, mut last) = (0, "");
    for line in body.lines() {
        if depth == 0
            && let Some((results, _)) = line.split_once('=')
        {
            last = results.rsplit(',').next().unwrap_or(results).trim();
        }
        depth += line.matches('{').count();
        depth -= line.matches('}').count();
    }
    last.to_owned()
}

/// The rule's own program, with its operands and its result by way of bytes and halves.
fn check(rule: &'static Rule, round: u64) -> usize {
    let mut applied = 0;
    for (t, u) in pairs(rule.over) {
        let mut draft = Draft::new(200, round * 1000 + t as u64 * 16 + u as u64);
        let mut operands: BTreeMap<&str, String> = BTreeMap::new();
        if t != Scalar::I1 {
            for letter in ["a", "b", "c"] {
                operands.insert(letter, draft.operand(letter, t));
            }
        }
        let mut body = draft.lines.join("\n") + "\n";
        let mut word = String::new();
        for ch in rule.fires.chars().chain(['\n']) {
            if ch.is_alphanumeric() || ch == '_' {
                word.push(ch);
            } else {
                body += operands.get(word.as_str()).unwrap_or(&word);
                word.clear();
                body.push(ch);
            }
        }
        // The result's type shows after parsing; matrices of bytes with an even last extent go on through halves.
        let plain = program(body.trim_end(), t, u);
        let out = plain.ty(*plain.params.last().expect("an output")).as_view().expect("a view").clone();
        let shape: Vec<u32> = out.dims.iter().map(|d| d.divisor()).collect();
        if rule.class == Class::Exact && out.elem != Scalar::I1 && shape.len() == 2 && shape[0] >= 2 && shape[1] >= 2 {
            let last = last_value(&body);
            draft.lines.clear();
            let [rows, columns] = [shape[0], shape[1]];
            let bytes = if out.elem == Scalar::I8 { last } else { draft.push(&format!("cast {last} : tile<{rows}x{columns}xi8>")) };
            let elem = HALVES[draft.pick(2)];
            let halves = draft.push(&format!("bitcast {bytes} : tile<{rows}x{}x{elem}>", 2 * columns));
            let between = draft.moved(&halves, [rows, 2 * columns], elem);
            draft.push(&format!("bitcast {between} : tile<{rows}x{columns}xi8>"));
            body += &draft.lines.join("\n");
        }
        for chaos in [None, Some(round + 1)] {
            let only = Options { allow: Class::Approx, only: Some(rule.name), chaos, ..Options::default() };
            applied += same_bits(body.trim_end(), [t, u], &only, rule.class, rule.name);
        }
        let all = Options { chaos: Some(round), allow: rule.class, ..Options::default() };
        applied += same_bits(body.trim_end(), [t, u], &all, rule.class, rule.name);
    }
    applied
}

#[test]
fn every_rule_is_right_behind_and_in_front_of_casts_between_widths() {
    let mut applied = 0;
    for rule in rules::all() {
        applied += (0..3).map(|round| check(rule, round)).sum::<usize>();
    }
    assert!(applied > 10_000, "only {applied} equalities were found");
}

/// Random programs over bytes and halves of bytes, all rules together.
#[test]
fn random_programs_of_bytes_and_halves_keep_every_bit() {
    let (mut applied, mut casts) = (0, 0);
    for seed in 0..400u64 {
        let mut d = Draft::new(20, seed * 7 + 1);
        let mut values: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        for _ in 0..2 + d.pick(4) {
            let x = values[d.pick(values.len())].clone();
            let y = values[d.pick(values.len())].clone();
            let made = match d.pick(8) {
                0 => d.push(&format!("add {x}, {y}")),
                1 => d.push(&format!("select m, {x}, {y}")),
                2 => d.push("splat s : A"),
                3 => d.push(&format!("splat {} : A", [0, 17, 5, -1, 0x33][(seed % 5) as usize])),
                4 => d.push(&format!("xor {x}, {y}")),
                _ => d.through(&x),
            };
            values.push(made);
        }
        let (x, y) = (values[d.pick(values.len())].clone(), values[values.len() - 1].clone());
        let [x, y] = [x, y].map(|v| d.through(&v));
        d.push(&format!("sub {x}, {y}"));
        let body = d.lines.join("\n");
        casts += body.matches("bitcast").count();
        for chaos in [None, Some(seed)] {
            let options = Options { chaos, allow: Class::Exact, ..Options::default() };
            applied += same_bits(&body, [Scalar::I8; 2], &options, Class::Exact, &format!("seed {seed}"));
        }
    }
    assert!(applied > 2000 && casts > 1000, "{applied} equalities, {casts} casts");
}

/// Moves stay on their side of a cast between widths, and an equal element that is no longer one is not folded.
#[test]
fn a_splat_of_unequal_halves_is_no_splat() {
    for (body, kept) in [
        ("v20 = splat 5 : tile<8x16xi8>\nv21 = bitcast v20 : tile<8x32xi4>\nv22 = cast v21 : tile<8x32xi8>", true),
        ("v20 = splat 51 : tile<8x16xi8>\nv21 = bitcast v20 : tile<8x32xi4>\nv22 = cast v21 : tile<8x32xi8>", false),
        ("v20 = cast 2i32 : i4\nv21 = splat v20 : tile<8x32xi4>\nv22 = bitcast v21 : tile<8x16xi8>", false),
    ] {
        let kernel = program(body, Scalar::I8, Scalar::I8);
        let (made, _) = optimise(&verify(&kernel).expect("verified"), &Options::default());
        let mut left = false;
        made.walk(made.body, &mut |i| left |= made.insts[i].op == Op::Bitcast);
        assert_eq!(left, kept, "{}", text::print(&made));
        assert_eq!(run(&kernel, Scalar::I8, 1, false), run(&made, Scalar::I8, 1, false));
    }
}
