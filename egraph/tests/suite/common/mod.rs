//! Programs over letters, for the tests of rules: their kernels, random inputs, and runs on the interpreter.
//!
//! Letters: `T`, `U` element types; `A`, `B` tiles `8x16` of them, `M` one of `i1`; `a b c` random tiles `A`, `m` a
//! random `M`; `s r` random scalars of `T`; `i j` small scalars of `i32`; `one`, `zero` literals. The last value is the result.

mod draft;

pub use draft::Draft;

use tilelift_interp::{self as interp, Arg, Buffer, Memory, ScalarArg, ViewArg, interpret};
use tilelift_ir::{Cursor, Extent, Kernel, Op, Scalar, Type, ViewType, num, text, verify};

const ROWS: i64 = 16;
const COLS: i64 = 32;

/// A small generator of bits; equal seeds give equal inputs.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A value of a type: any bits, an edge, or (always, if `tame`) a number of moderate size.
    pub fn element(&mut self, ty: Scalar, tame: bool) -> u64 {
        let (r, kind) = (self.next(), self.next() % 4);
        let mask = if ty.bits() == 64 { u64::MAX } else { (1 << ty.bits()) - 1 };
        if tame || kind == 0 {
            let x = (r % 4001) as f64 / 500.0 - 4.0;
            return if ty.is_float() { num::to_bits(num::round(x, ty), ty) } else { x as i64 as u64 & mask };
        }
        if kind == 1 {
            return if ty.is_float() {
                let edges = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, num::largest(ty)];
                num::to_bits(num::round(edges[r as usize % edges.len()], ty), ty)
            } else {
                let top = 1u64 << (ty.bits() - 1);
                [0, 1, mask, top & mask, (top - 1) & mask][r as usize % 5]
            };
        }
        r & mask
    }
}

/// The kernel of a program, with a store of its last value.
pub fn program(body: &str, t: Scalar, u: Scalar) -> Kernel {
    let mut code = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, code: &mut String| {
        let new = match word.as_str() {
            "T" => t.name().to_owned(),
            "U" => u.name().to_owned(),
            "A" => format!("tile<8x16x{t}>"),
            "B" => format!("tile<8x16x{u}>"),
            "M" => "tile<8x16xi1>".to_owned(),
            "inf_T" => format!("inf_{t}"),
            "nan_T" => format!("nan_{t}"),
            "zero_T" if t == Scalar::I1 => "false".into(),
            "zero_T" if t.is_float() => "0.0".into(),
            "zero_T" => "0".into(),
            "a" => "v10".into(),
            "b" => "v11".into(),
            "c" => "v12".into(),
            "m" => "v14".into(),
            "s" => "v4".into(),
            "r" => "v5".into(),
            "i" => "v6".into(),
            "j" => "v7".into(),
            "one" => "1".into(),
            "zero" => "0".into(),
            // An extent in front of the element, such as 8x1xT.
            w if w.ends_with("xT") => format!("{}{t}", &w[..w.len() - 1]),
            w if w.ends_with("xU") => format!("{}{u}", &w[..w.len() - 1]),
            w => w.to_owned(),
        };
        code.push_str(&new);
        word.clear();
    };
    for ch in body.chars() {
        if ch.is_alphanumeric() || ch == '_' {
            word.push(ch);
        } else {
            flush(&mut word, &mut code);
            code.push(ch);
        }
    }
    flush(&mut word, &mut code);
    let view = format!("view<{t}, [{ROWS}, {COLS}]>");
    let source = format!(
        "kernel @rule(v0: {view}, v1: {view}, v2: {view}, v3: view<i8, [8, 16]>, v4: {t}, v5: {t}, v6: i32, v7: i32) {{\n\
         v10 = load v0[0, 0] : tile<8x16x{t}>\nv11 = load v1[0, 0] : tile<8x16x{t}>\nv12 = load v2[0, 0] : tile<8x16x{t}>\n\
         v13 = load v3[0, 0] : tile<8x16xi8>\nv14 = cast v13 : tile<8x16xi1>\n{code}\n}}\n"
    );
    let file = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut kernel = file.kernels[0].clone();
    let last = *kernel.regions[kernel.body].insts.last().expect("a program has instructions");
    let mut value = *kernel.insts[last].results.last().expect("the last instruction has a result");
    let mut end = Cursor::end(&kernel, kernel.body);
    let elem = kernel.ty(value).elem();
    if matches!(kernel.ty(value), Type::Scalar(_)) {
        let splat = kernel.add_inst(Op::Splat, &[value], 0, &[], &[], &[Type::tile(&[1], elem)]);
        end.insert(&mut kernel, splat);
        value = kernel.insts[splat].results[0];
    }
    let shape = kernel.ty(value).shape().expect("a tile").to_vec();
    let dims: Vec<Extent> = shape.iter().map(|&e| Extent::Fixed(e)).collect();
    let out = kernel.add_param(ViewType::dense(elem, &dims).into());
    let zero = kernel.add_inst(Op::Const, &[], 0, &[tilelift_ir::Attr::Literal(tilelift_ir::Literal::Int(0))], &[], &[Scalar::I32.into()]);
    end.insert(&mut kernel, zero);
    let zero = kernel.insts[zero].results[0];
    let args: Vec<_> = [out].into_iter().chain(shape.iter().map(|_| zero)).chain([value]).collect();
    let store = kernel.add_inst(Op::Store, &args, 0, &[tilelift_ir::Attr::Cache(tilelift_ir::CacheHint::Normal)], &[], &[]);
    end.insert(&mut kernel, store);
    verify(&kernel).unwrap_or_else(|e| panic!("{e}\n{source}"));
    kernel
}

pub fn run(kernel: &Kernel, t: Scalar, seed: u64, tame: bool) -> Vec<u64> {
    let mut random = Random(seed);
    let mut memory = Memory::new();
    let mut args: Vec<Arg> = Vec::new();
    let tensor = |elem: Scalar, shape: &[i64], random: &mut Random, memory: &mut Memory| {
        let count: i64 = shape.iter().product();
        let width = elem.bytes() as usize;
        let bytes = (0..count).flat_map(|_| random.element(elem, tame).to_le_bytes()[..width].to_vec()).collect();
        let buffer = memory.add(Buffer::from_bytes(bytes));
        ViewArg::dense(buffer, elem, shape).into()
    };
    for _ in 0..3 {
        args.push(tensor(t, &[ROWS, COLS], &mut random, &mut memory));
    }
    args.push(tensor(Scalar::I8, &[8, 16], &mut random, &mut memory));
    let scalar = |bits: u64| {
        if t.is_float() { ScalarArg::float(t, num::from_bits(bits, t)) } else { ScalarArg::int(t, num::wrap(bits as i64, t)) }
    };
    for _ in 0..2 {
        let bits = random.element(t, tame);
        args.push(scalar(bits).into());
    }
    for _ in 0..2 {
        args.push(ScalarArg::int(Scalar::I32, (random.next() % 24) as i64 - 3).into());
    }
    let out = kernel.ty(*kernel.params.last().expect("an output")).as_view().expect("a view").clone();
    let shape: Vec<i64> = out.dims.iter().map(|d| i64::from(d.divisor())).collect();
    args.push(tensor(out.elem, &shape, &mut random, &mut memory));
    let verified = verify(kernel).expect("verified before");
    interpret(&verified, [1, 1, 1], &args, &mut memory, &interp::Options::default())
        .unwrap_or_else(|e| panic!("{e}\n{}", text::print(kernel)));
    let width = out.elem.bytes() as usize;
    let raw = memory.buffers.last().expect("buffers").bytes().to_vec();
    raw.chunks(width)
        .map(|c| {
            let mut bytes = [0; 8];
            bytes[..width].copy_from_slice(c);
            u64::from_le_bytes(bytes)
        })
        .collect()
}
