//! Every dense matrix instruction of gfx942 against the layouts that AMD's calculator prints (`data/mfma_cdna3_layouts.txt`), with small
//! whole numbers so that every sum is exact. Operands are in VGPRs, in AGPRs, and the addend is a constant.

use crate::common::{Buf, Needs, Random, assemble, bytes, kernel, launch, u32s};
use tilelift_amdgcn_sim::{Chip, SimConfig};

/// A formula of the calculator: sums and products of lane, register and bit offset.
struct Formula<'a> {
    rest: &'a [u8],
    lane: u64,
    register: u64,
    bits: u64,
}

impl Formula<'_> {
    fn skip(&mut self) -> Option<u8> {
        while self.rest.first() == Some(&b' ') {
            self.rest = &self.rest[1..];
        }
        self.rest.first().copied()
    }

    fn sum(&mut self) -> u64 {
        let mut v = self.product();
        while self.skip() == Some(b'+') {
            self.rest = &self.rest[1..];
            v += self.product();
        }
        v
    }

    fn product(&mut self) -> u64 {
        let mut v = self.atom();
        while let Some(op @ (b'*' | b'/' | b'%')) = self.skip() {
            self.rest = &self.rest[1..];
            let w = self.atom();
            v = match op {
                b'*' => v * w,
                b'/' => v / w,
                _ => v % w,
            };
        }
        v
    }

    fn atom(&mut self) -> u64 {
        self.skip();
        for (word, value) in [("lane", self.lane), ("GPR_num", self.register), ("GPR_bits", self.bits)] {
            if self.rest.starts_with(word.as_bytes()) {
                self.rest = &self.rest[word.len()..];
                return value;
            }
        }
        if self.rest.starts_with(b"floor") {
            self.rest = &self.rest[5..];
        }
        if self.rest.first() == Some(&b'(') {
            self.rest = &self.rest[1..];
            let v = self.sum();
            assert_eq!(self.skip(), Some(b')'));
            self.rest = &self.rest[1..];
            return v;
        }
        let n = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        assert!(n > 0, "{}", String::from_utf8_lossy(self.rest));
        let v = std::str::from_utf8(&self.rest[..n]).expect("digits").parse().expect("a number");
        self.rest = &self.rest[n..];
        v
    }
}

fn eval(text: &str, lane: usize, register: usize, bits: usize) -> usize {
    Formula { rest: text.as_bytes(), lane: lane as u64, register: register as u64, bits: bits as u64 }.sum() as usize
}

/// The type of elements, by a part of the name.
fn code(ty: &str, v: i32) -> (u32, u64) {
    let small = |one: u64, step: u64, bits: u32| {
        // 0, 1, 2, 3 in a format of so many mantissa steps.
        let m = match v.abs() {
            0 => return (bits, 0),
            1 => one,
            2 => one + step,
            _ => one + step + step / 2,
        };
        (bits, if v < 0 { m | 1 << (bits - 1) } else { m })
    };
    match ty {
        "f64" => (64, f64::from(v).to_bits()),
        "f32" | "xf32" => (32, u64::from((v as f32).to_bits())),
        "bf16" => (16, u64::from((v as f32).to_bits() >> 16)),
        "f16" => small(0x3c00, 0x400, 16),
        "i8" => (8, u64::from(v as i8 as u8)),
        "fp8" => small(0x40, 8, 8),
        "bf8" => small(0x40, 4, 8),
        _ => panic!("{ty}"),
    }
}

struct Row<'a> {
    name: &'a str,
    a: [&'a str; 3],
    d: [&'a str; 3],
    a_registers: usize,
    c_registers: usize,
    types: (&'a str, &'a str),
}

fn parse(line: &str) -> Row<'_> {
    let mut parts = line.split('|').map(str::trim);
    let head: Vec<&str> = parts.next().expect("a name").split_whitespace().collect();
    let after = |word: &str| head[head.iter().position(|w| *w == word).expect("a word") + 1].parse().expect("a number");
    let fields: Vec<&str> = parts.map(|p| p.split_once(": ").expect("a formula").1).collect();
    let words: Vec<&str> = head[0].split('_').collect();
    let last = words[words.len() - 1];
    let before = words[words.len() - 2];
    let types =
        if last.ends_with("f8") || last == "fp8" { (if before.ends_with('8') { before } else { last }, last) } else { (last, last) };
    Row {
        name: head[0],
        a: [fields[0], fields[1], fields[2]],
        d: [fields[3], fields[4], fields[5]],
        a_registers: after("A"),
        c_registers: after("C"),
        types,
    }
}

/// Where the elements of a source go: lane, register, bit, and its three coordinates.
fn places(formulas: [&str; 3], registers: usize, bits: usize) -> Vec<([usize; 3], [usize; 3])> {
    let mut all = Vec::new();
    for lane in 0..64 {
        if bits == 64 {
            all.push(([lane, 0, 0], formulas.map(|f| eval(f, lane, 0, 0))));
            continue;
        }
        for r in 0..registers {
            for b in (0..32).step_by(bits) {
                all.push(([lane, r, b], formulas.map(|f| eval(f, lane, r, b))));
            }
        }
    }
    all
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Vgprs,
    Agprs,
    Constant,
}

fn text(row: &Row<'_>, variant: Variant, name: &str) -> String {
    let (n, m) = (row.a_registers, row.c_registers);
    let acc = variant == Variant::Agprs;
    let file = if acc { 'a' } else { 'v' };
    let tuple = |file: char, first: usize, count: usize| {
        if count == 1 { format!("{file}{first}") } else { format!("{file}[{first}:{}]", first + count - 1) }
    };
    let mut t = String::from("s_load_dwordx8 s[4:11], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n");
    // v0: the lane.
    for (count, first, base) in [(n, 2, 4), (n, 4, 6), (m, 8, 8)] {
        t += &format!("v_mul_u32_u24 v1, {}, v0\n", 4 * count);
        for i in 0..count {
            let to = if acc && first != 4 { format!("a{}", first + i) } else { format!("v{}", first + i) };
            t += &format!("global_load_dword {to}, v1, s[{base}:{}] offset:{}\n", base + 1, 4 * i);
        }
    }
    t += "s_waitcnt vmcnt(0)\n";
    // A may be in AGPRs while B is not.
    let a = tuple(file, 2, n);
    let c = match variant {
        Variant::Constant if name.starts_with("v_mfma_i32") => "1".to_owned(),
        Variant::Constant => "1.0".to_owned(),
        _ => tuple(file, 8, m),
    };
    t += &format!("{name} {}, {a}, {}, {c}\ns_nop 15\ns_nop 15\n", tuple(file, 40, m), tuple('v', 4, n));
    t += &format!("v_mul_u32_u24 v1, {}, v0\n", 4 * m);
    (0..m).for_each(|i| t += &format!("global_store_dword v1, {file}{}, s[10:11] offset:{}\n", 40 + i, 4 * i));
    t
}

fn check(row: &Row<'_>, chip: Chip, name: &str) {
    let mut random = Random(0x1234_5678_9abc_def1 ^ row.name.len() as u64);
    let mut number = move || (random.next() >> 20) as i32 % 4 * if random.next() >> 30 & 1 != 0 { 1 } else { -1 };
    let (ta, tb) = row.types;
    let n = row.a_registers;
    let mut sources = Vec::new();
    for ty in [ta, tb] {
        let bits = code(ty, 0).0 as usize;
        let mut words = vec![0u32; 64 * n];
        let mut values = std::collections::HashMap::new();
        for ([lane, r, b], place) in places(row.a, n, bits) {
            let v = number();
            let raw = code(ty, v).1;
            words[lane * n + r] |= (raw << b) as u32;
            if bits == 64 {
                words[lane * n + 1] = (raw >> 32) as u32;
            }
            assert!(values.insert(place, v).is_none(), "{name}: {place:?} twice");
        }
        sources.push((words, values));
    }
    let ct = if name.starts_with("v_mfma_i32") {
        "i32"
    } else if ta == "f64" {
        "f64"
    } else {
        "f32"
    };
    let (width, m) = (if ct == "f64" { 2 } else { 1 }, row.c_registers);
    let encode = |v: i32| match ct {
        "i32" => vec![v as u32],
        "f32" => vec![(v as f32).to_bits()],
        _ => vec![f64::from(v).to_bits() as u32, (f64::from(v).to_bits() >> 32) as u32],
    };
    let mut c = Vec::new();
    let mut addends = Vec::new();
    for lane in 0..64 {
        for r in (0..m).step_by(width) {
            let v = number();
            c.extend(encode(v));
            addends.push((row.d.map(|f| eval(f, lane, r, 0)), v));
        }
    }
    let depth = sources[0].1.keys().map(|k| k[1]).max().expect("elements") + 1;
    for variant in [Variant::Vgprs, Variant::Agprs, Variant::Constant] {
        let needs = Needs { chip, vgprs: 160, accum: 80, ..Needs::default() };
        let Some(object) = assemble(&kernel(&text(row, variant, name), needs), chip) else { return };
        let raw = |w: &[u32]| Buf::In(bytes(w, u32::to_le_bytes));
        let buffers = vec![raw(&sources[0].0), raw(&sources[1].0), raw(&c), Buf::Out(64 * 4 * m)];
        let (out, report) = launch(&object, 1, 64, buffers, SimConfig::default()).unwrap_or_else(|f| panic!("{name} {variant:?}: {f}"));
        assert_eq!(report.matrix, 1);
        let want: Vec<u32> = addends
            .iter()
            .flat_map(|&([i, j, block], v)| {
                let sum: i32 = (0..depth).map(|k| sources[0].1[&[i, k, block]] * sources[1].1[&[j, k, block]]).sum();
                encode(sum + if variant == Variant::Constant { 1 } else { v })
            })
            .collect();
        assert_eq!(u32s(&out[3]), want, "{name} {variant:?}");
    }
}

#[test]
fn gfx942() {
    for line in include_str!("../data/mfma_cdna3_layouts.txt").lines() {
        let row = parse(line);
        check(&row, Chip::Gfx942, row.name);
    }
}

/// The shapes that gfx90a shares with gfx942, under its names.
#[test]
fn gfx90a() {
    for (name, of) in [
        ("v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16"),
        ("v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16"),
        ("v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16"),
        ("v_mfma_f32_4x4x4f16", "v_mfma_f32_4x4x4_16b_f16"),
        ("v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_32x32x8_bf16"),
        ("v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16"),
        ("v_mfma_f32_32x32x2f32", "v_mfma_f32_32x32x2_f32"),
        ("v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32"),
        ("v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64"),
        ("v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64"),
    ] {
        let line = include_str!("../data/mfma_cdna3_layouts.txt").lines().find(|l| l.starts_with(&format!("{of} "))).expect("a row");
        check(&parse(line), Chip::Gfx90a, name);
    }
}
