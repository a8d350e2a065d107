//! Small lane programs written instruction by instruction, run in two ways: by the lane interpreter, which defines what they
//! mean, and as PTX text in the simulator. The text is assembled too where the assembler is installed.

pub mod arguments;
pub mod assembler;
pub mod launch;
pub mod left_out;
pub mod schedule_text;
pub mod units;
pub mod written;

use cranelift_entity::PrimaryMap;
use smallvec::smallvec;
use tilelift_interp::{Arg, Buffer, Memory, ViewArg};
use tilelift_ir::{GridAxis, Scalar, num};
use tilelift_isel::Target;
use tilelift_isel::lane::{
    Alloc, AllocId, BinOp, Block, Inst, LTy, LVal, LaneOptions, Param, ParamSource, Program, Special, UnOp, Vals, interpret,
};
use tilelift_nvptx::{EmitOptions, PtxKernel, emit, sm_80};
use tilelift_nvptx_sim as sim;

pub const I1: LTy = LTy::I1;
pub const I32: LTy = LTy::I32;
pub const I64: LTy = LTy::I64;
pub const F32: LTy = LTy::F32;
pub const B32: LTy = LTy::B32;

/// A program under construction.
pub struct Asm {
    pub p: Program,
    blocks: Vec<Block>,
}

impl Asm {
    pub fn new(name: &str, warps: u32) -> Asm {
        let p = Program {
            name: name.into(),
            params: Vec::new(),
            warps,
            lanes: 32,
            cluster: 1,
            positions: [1; 3],
            allocs: PrimaryMap::new(),
            shared_bytes: 0,
            vals: PrimaryMap::new(),
            body: Vec::new(),
        };
        Asm { p, blocks: vec![Vec::new()] }
    }
    pub fn val(&mut self, ty: LTy) -> LVal {
        self.p.vals.push(ty)
    }
    pub fn vals(&mut self, ty: LTy, n: usize) -> Vals {
        (0..n).map(|_| self.val(ty)).collect()
    }
    pub fn push(&mut self, inst: Inst) {
        self.blocks.last_mut().unwrap().push(inst);
    }
    pub fn def(&mut self, ty: LTy, make: impl FnOnce(LVal) -> Inst) -> LVal {
        let v = self.val(ty);
        self.push(make(v));
        v
    }
    /// Instructions that `f` makes, as a block.
    pub fn block<R>(&mut self, f: impl FnOnce(&mut Asm) -> R) -> (Block, R) {
        self.blocks.push(Vec::new());
        let r = f(self);
        (self.blocks.pop().unwrap(), r)
    }
    pub fn constant(&mut self, ty: LTy, bits: u64) -> LVal {
        self.def(ty, |dst| Inst::Const { dst, bits })
    }
    pub fn i32(&mut self, x: i32) -> LVal {
        self.constant(I32, i64::from(x) as u64)
    }
    pub fn f32(&mut self, x: f32) -> LVal {
        self.constant(F32, x.to_bits().into())
    }
    pub fn un(&mut self, op: UnOp, a: LVal) -> LVal {
        let ty = self.p.vals[a];
        self.def(ty, |dst| Inst::Un { dst, op, a })
    }
    pub fn bin(&mut self, op: BinOp, a: LVal, b: LVal) -> LVal {
        let ty = self.p.vals[a];
        self.def(ty, |dst| Inst::Bin { dst, op, a, b })
    }
    pub fn special(&mut self, what: Special) -> LVal {
        self.def(I32, |dst| Inst::Special { dst, what })
    }
    /// The thread's number in the grid's x direction.
    pub fn thread(&mut self) -> LVal {
        let lane = self.special(Special::Lane);
        let warp = self.special(Special::Warp);
        let program = self.special(Special::ProgramId(GridAxis::X));
        let (lanes, warps) = (self.i32(32), self.i32(self.p.warps as i32));
        let warp = self.def(I32, |dst| Inst::Fma { dst, a: program, b: warps, c: warp });
        self.def(I32, |dst| Inst::Fma { dst, a: warp, b: lanes, c: lane })
    }
    pub fn param(&mut self, ty: LTy, source: ParamSource) -> LVal {
        let index = self.p.params.len() as u32;
        self.p.params.push(Param { ty, source });
        self.def(ty, |dst| Inst::Param { dst, index })
    }
    pub fn pointer(&mut self, view: u32) -> LVal {
        self.param(I64, ParamSource::Pointer(view))
    }
    /// The address of element `index` of a view.
    pub fn address(&mut self, pointer: LVal, index: LVal, bytes: u32) -> LVal {
        let b = self.i32(bytes as i32);
        self.def(I64, |dst| Inst::MadWide { dst, a: index, b, c: pointer })
    }
    pub fn load(&mut self, ty: LTy, n: usize, addr: LVal, offset: i32) -> Vals {
        let dsts = self.vals(ty, n);
        self.push(Inst::LoadGlobal {
            dsts: dsts.clone(),
            addr,
            offset,
            guard: None,
            other: Vals::new(),
            cache: tilelift_ir::CacheHint::Normal,
        });
        dsts
    }
    pub fn store(&mut self, srcs: &[LVal], addr: LVal, offset: i32) {
        self.push(Inst::StoreGlobal { srcs: srcs.into(), addr, offset, guard: None, cache: tilelift_ir::CacheHint::Normal });
    }
    pub fn alloc(&mut self, bytes: u32) -> AllocId {
        let offset = self.p.shared_bytes.next_multiple_of(128);
        self.p.shared_bytes = offset + bytes;
        self.p.allocs.push(Alloc { bytes, align: 128, offset, region_bytes: 0, slot: 0, name: None, purpose: "test" })
    }
    pub fn shared(&mut self, alloc: AllocId) -> LVal {
        self.def(I32, |dst| Inst::SharedAddr { dst, alloc })
    }
    pub fn finish(mut self) -> Program {
        self.p.body = self.blocks.pop().unwrap();
        self.p
    }
}

/// A buffer of a run: element type and contents; argument `i` is the view of buffer `i`.
#[derive(Clone)]
pub struct Data {
    pub elem: Scalar,
    pub bytes: Vec<u8>,
}

impl Data {
    pub fn bits(elem: Scalar, values: &[u64]) -> Data {
        let n = elem.bytes() as usize;
        Data { elem, bytes: values.iter().flat_map(|v| v.to_le_bytes()[..n].to_vec()).collect() }
    }
    pub fn zeros(elem: Scalar, n: usize) -> Data {
        Data { elem, bytes: vec![0; n * elem.bytes() as usize] }
    }
    pub fn words(&self) -> Vec<u64> {
        words(self.elem, &self.bytes)
    }
}

fn words(elem: Scalar, bytes: &[u8]) -> Vec<u64> {
    let n = elem.bytes() as usize;
    bytes
        .chunks_exact(n)
        .map(|c| {
            let mut w = [0; 8];
            w[..n].copy_from_slice(c);
            u64::from_le_bytes(w)
        })
        .collect()
}

/// The program as text.
pub fn text(program: &Program, target: &Target) -> PtxKernel {
    emit(program, target, &EmitOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", program.name))
}

/// Texts for the assembler, collected so that it starts once per test.
#[derive(Default)]
pub struct Assembly {
    module: String,
    entries: u32,
}

impl Assembly {
    /// Appends a kernel to the module, under a name of its own.
    pub fn add(&mut self, kernel: &PtxKernel) {
        let at = kernel.text.find(".visible .entry ").unwrap();
        if self.entries == 0 {
            // The first text brings version and target; shared memory is declared whether or not that one has any.
            let head = kernel.text[..at].lines().take(3).map(|l| format!("{l}\n")).collect::<String>();
            self.module = format!("{head}.extern .shared .align 1024 .b8 smem[];\n");
        }
        self.entries += 1;
        self.module.push_str(&kernel.text[at..].replacen(&kernel.entry, &format!("{}_{}", kernel.entry, self.entries), 1));
    }

    /// Assembles what was added; panics with the text if it is refused, warned of or spills.
    pub fn check(&self, arch: &str) {
        assert!(self.entries > 0, "nothing to assemble");
        assembler::nothing_to_say("the module", &self.module, arch);
    }
}

/// What the lane interpreter leaves in the buffers.
pub fn defined(program: &Program, grid: u32, data: &[Data]) -> Vec<Vec<u8>> {
    let mut memory = Memory::new();
    let args: Vec<Arg> = data
        .iter()
        .map(|d| {
            let b = memory.add(Buffer::from_bytes(d.bytes.clone()));
            Arg::View(ViewArg::dense(b, d.elem, &[(d.bytes.len() / d.elem.bytes() as usize) as i64]))
        })
        .collect();
    let options = LaneOptions::default();
    interpret(program, &sm_80(), [grid, 1, 1], &args, &mut memory, &options).unwrap_or_else(|e| panic!("{}: {e}", program.name));
    memory.buffers.iter().map(|b| b.bytes().to_vec()).collect()
}

/// What the text leaves in the buffers; every launch parameter is a pointer.
pub fn simulated(kernel: &PtxKernel, grid: u32, data: &[Data]) -> Vec<Vec<u8>> {
    let module = sim::Module::parse(&kernel.text).unwrap_or_else(|e| panic!("{e}\n{}", kernel.text));
    let mut memory = sim::Memory::new();
    let addresses: Vec<u64> =
        data.iter().enumerate().map(|(i, d)| memory.alloc(&format!("b{i}"), sim::Init::Bytes(d.bytes.clone()))).collect();
    let args: Vec<sim::Arg> = kernel
        .params
        .iter()
        .map(|p| match p.source {
            ParamSource::Pointer(v) => sim::Arg::U64(addresses[v as usize]),
            ParamSource::Extent(v, _) => {
                let d = &data[v as usize];
                sim::Arg::U32((d.bytes.len() / d.elem.bytes() as usize) as u32)
            }
            ParamSource::Stride(..) | ParamSource::Scalar(_) | ParamSource::Grid(_) | ParamSource::Tensor(_) => {
                panic!("tests pass pointers and extents")
            }
        })
        .collect();
    let launch = sim::Launch {
        entry: &kernel.entry,
        grid: [grid, 1, 1],
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        args: &args,
        config: sim::SimConfig::default(),
    };
    module.launch(&launch, &mut memory).unwrap_or_else(|e| panic!("{e}\n{}", kernel.text));
    addresses.iter().zip(data).map(|(&a, d)| memory.read(a, d.bytes.len()).unwrap().to_vec()).collect()
}

/// How much a float may differ.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// Not at all; NaNs are alike.
    Exact,
    /// Relative error at most this, or one unit in the last place of the type.
    Relative(f64),
    /// As the ops `exp` and `exp2`: relative, and a subnormal `f32` may be 0, of `bf16`, too.
    Exp2(f64),
    /// As the op `log`: absolute on [0.5, 2] of the operand (buffer 0), relative elsewhere.
    Log(f64),
}

/// One unit in the last place at `x`.
fn ulp(x: f64, elem: Scalar) -> f64 {
    let (p, emin) = match elem {
        Scalar::F16 => (11, -14),
        Scalar::BF16 => (8, -126),
        Scalar::F32 => (24, -126),
        Scalar::F64 | Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => (53, -1022),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4 => {
            unreachable!("lanes hold codes of 8-bit floats as i8")
        }
    };
    let e = (x.abs().max(f64::MIN_POSITIVE).log2().floor() as i32).max(emin);
    2f64.powi(e - p + 1)
}

/// Runs a program both ways and compares the last buffer.
pub fn agree(assembly: &mut Assembly, program: &Program, grid: u32, data: &[Data], tolerance: Tolerance) {
    let kernel = text(program, &sm_80());
    assembly.add(&kernel);
    let (want, got) = (defined(program, grid, data), simulated(&kernel, grid, data));
    compare(&program.name, &want, &got, data, tolerance, &kernel.text);
}

/// Compares the last buffers of two runs.
pub fn compare(name: &str, want: &[Vec<u8>], got: &[Vec<u8>], data: &[Data], tolerance: Tolerance, text: &str) {
    let last = data.len() - 1;
    let elem = data[last].elem;
    let (want, got) = (words(elem, &want[last]), words(elem, &got[last]));
    let inputs: Vec<Vec<u64>> = data[..last].iter().map(Data::words).collect();
    for (i, (&w, &g)) in want.iter().zip(&got).enumerate() {
        let same = if elem.is_float() {
            let (w, g) = (num::from_bits(w, elem), num::from_bits(g, elem));
            let equal = w.to_bits() == g.to_bits() || w.is_nan() && g.is_nan();
            match tolerance {
                Tolerance::Exact => equal,
                Tolerance::Relative(r) => equal || w == g || (w - g).abs() <= (r * w.abs()).max(slack(w, elem)),
                Tolerance::Exp2(r) => {
                    let least = if matches!(elem, Scalar::F32 | Scalar::BF16) { f64::from(f32::MIN_POSITIVE) } else { slack(w, elem) };
                    equal || w == g || (w - g).abs() <= (r * w.abs()).max(least)
                }
                Tolerance::Log(r) => {
                    let x = num::from_bits(inputs[0][i], data[0].elem);
                    let bound = if (0.5..=2.0).contains(&x) { r } else { r * w.abs() };
                    equal || w == g || (w - g).abs() <= bound.max(slack(w, elem))
                }
            }
        } else {
            w == g
        };
        let inputs = || inputs.iter().filter_map(|w| w.get(i)).collect::<Vec<_>>();
        assert!(same, "{name} element {i}: want {w:#x}, got {g:#x}, from {:x?}, {tolerance:?}\n{text}", inputs());
    }
}

/// What any result may be off by: a unit of the 16-bit formats, half a unit of the smallest `f32`.
fn slack(w: f64, elem: Scalar) -> f64 {
    match elem {
        Scalar::F16 | Scalar::BF16 => ulp(w, elem),
        Scalar::F32 => 2f64.powi(-149),
        Scalar::F64 => f64::from_bits(1),
        Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => 0.0,
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4 => {
            unreachable!("lanes hold codes of 8-bit floats as i8")
        }
    }
}

/// A small generator of numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Numbers where a type is likely to go wrong, as bits.
pub fn edges(elem: Scalar) -> Vec<u64> {
    let mask = u64::MAX >> (64 - elem.bits().max(8));
    if elem == Scalar::I1 {
        return vec![0, 1];
    }
    if !elem.is_float() {
        let top = 1u64 << (elem.bits() - 1);
        let near = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 200, 255];
        return near
            .iter()
            .flat_map(|&x: &u64| [x, x.wrapping_neg(), top.wrapping_add(x), top.wrapping_sub(x)])
            .map(|x| x & mask)
            .collect();
    }
    let mut out: Vec<u64> = [
        0.0,
        1.0,
        0.5,
        2.0,
        1.5,
        2.5,
        0.1,
        3.7,
        10.0,
        0.25,
        0.55,
        0.5500001,
        0.7,
        1e-3,
        88.0,
        88.7,
        87.0,
        100.0,
        104.0,
        127.5,
        128.4,
        255.9,
        1000.0,
        32767.5,
        32768.0,
        65504.0,
        2147483520.0,
        2147483648.0,
        4e9,
        9.2e18,
        1e19,
        1e30,
        3e38,
        1e-6,
        1e-20,
        6e-39,
        1e-44,
        126.0,
        126.9,
        149.0,
        150.0,
        16777217.0,
    ]
    .iter()
    .flat_map(|&x: &f64| [num::to_bits(num::round(x, elem), elem), num::to_bits(num::round(-x, elem), elem)])
    .collect();
    out.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|x| num::to_bits(x, elem)));
    // The smallest number, the largest below the normal ones, the smallest normal, the largest.
    let fraction = match elem {
        Scalar::F16 => 10,
        Scalar::BF16 => 7,
        Scalar::F32 => 23,
        Scalar::F64 | Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => 52,
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4 => {
            unreachable!("lanes hold codes of 8-bit floats as i8")
        }
    };
    let inf = num::to_bits(f64::INFINITY, elem);
    out.extend([1, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1, inf - 1]);
    out
}

/// Bits of a random number of a type, about half of them of ordinary size.
pub fn random(elem: Scalar, r: &mut Random) -> u64 {
    let x = r.next();
    let mask = u64::MAX >> (64 - elem.bits().max(8));
    match elem {
        Scalar::I1 => x & 1,
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => (x >> (r.next() % u64::from(elem.bits()))) & mask,
        Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64 => {
            if x & 1 == 0 {
                r.next() & mask
            } else {
                let f = (r.next() as i64 as f64) / 2f64.powi(63 - (r.next() % 12) as i32);
                num::to_bits(num::round(f, elem), elem)
            }
        }
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4 => {
            unreachable!("lanes hold codes of 8-bit floats as i8")
        }
    }
}

/// `n` values: the edges, then random ones.
pub fn sample(elem: Scalar, n: usize, seed: u64) -> Vec<u64> {
    let mut r = Random(seed);
    let mut out = edges(elem);
    while out.len() < n {
        out.push(random(elem, &mut r));
    }
    out.truncate(n);
    out
}

/// All pairs of edges as two lists, then random pairs, `n` in all.
pub fn pairs(elem: Scalar, n: usize, seed: u64) -> (Vec<u64>, Vec<u64>) {
    let mut r = Random(seed);
    let e = edges(elem);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for &x in &e {
        for &y in &e {
            a.push(x);
            b.push(y);
        }
    }
    while a.len() < n {
        a.push(random(elem, &mut r));
        b.push(random(elem, &mut r));
    }
    (a, b)
}

/// A program of `threads()` threads: thread `i` loads element `i` of each operand, computes, and stores element `i` of the result.
pub fn elementwise(name: &str, operands: &[LTy], result: LTy, f: impl FnOnce(&mut Asm, &[LVal]) -> LVal) -> Program {
    let mut a = Asm::new(name, 1);
    let t = a.thread();
    let mut values = Vec::new();
    for (i, &ty) in operands.iter().enumerate() {
        let p = a.pointer(i as u32);
        let at = a.address(p, t, ty.bytes());
        values.push(a.load(ty, 1, at, 0)[0]);
    }
    let r = f(&mut a, &values);
    let p = a.pointer(operands.len() as u32);
    let at = a.address(p, t, result.bytes());
    a.push(Inst::StoreGlobal { srcs: smallvec![r], addr: at, offset: 0, guard: None, cache: tilelift_ir::CacheHint::Normal });
    a.finish()
}
