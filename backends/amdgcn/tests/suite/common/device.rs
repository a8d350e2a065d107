//! Lane programs run twice: by the lane interpreter, which defines them, and as a code object in the simulator.

use tilelift_amdgcn::{AmdKernel, Chip, emit, machine};
use tilelift_amdgcn_sim as sim;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift_ir::{Scalar, num};
use tilelift_isel::abi::{ParamValue, marshal};
use tilelift_lane::testing::Asm;
use tilelift_lane::{LTy, LVal, LaneOptions, Program, interpret};

/// The segment of arguments: launch parameters where the kernel has them.
pub fn segment(kernel: &AmdKernel, values: &[ParamValue]) -> Vec<u8> {
    let end = kernel.args.iter().map(|a| a.offset + a.size).max().unwrap_or(0);
    let mut bytes = vec![0; end as usize];
    for (arg, value) in kernel.args.iter().zip(values) {
        let ParamValue::Number { bits, .. } = value else { panic!("no such argument exists here") };
        let (at, size) = (arg.offset as usize, arg.size as usize);
        bytes[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    bytes
}

/// An empty program of a wavefront.
pub fn asm(name: &str) -> Asm {
    let mut a = Asm::new(1);
    a.p.lanes = 64;
    a.p.name = name.to_owned();
    a
}

/// Values of an argument: a view of them, or the first as a number.
pub enum Data {
    View(Scalar, Vec<u64>),
    Number(Scalar, u64),
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

/// Runs a program both ways on so many workgroups, for a chip; the views afterwards, by the interpreter and by the simulator.
pub fn both(chip: Chip, program: &Program, grid: u32, data: &[Data]) -> Result<[Vec<Vec<u64>>; 2], String> {
    let mut memory = Memory::new();
    let mut elems = Vec::new();
    let args: Vec<Arg> = data
        .iter()
        .map(|d| match d {
            Data::View(elem, values) => {
                let n = elem.bytes() as usize;
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()[..n].to_vec()).collect();
                elems.push(*elem);
                Arg::View(ViewArg::dense(memory.add(Buffer::from_bytes(bytes)), *elem, &[values.len() as i64]))
            }
            Data::Number(elem, bits) if elem.is_float() => ScalarArg::float(*elem, num::from_bits(*bits, *elem)).into(),
            Data::Number(elem, bits) => ScalarArg::int(*elem, *bits as i64).into(),
        })
        .collect();
    let kernel = emit(program, chip).map_err(|e| format!("emit for {chip}: {e}\n{program}"))?;
    let mut device = sim::Memory::new();
    // Words of 16-bit elements are updated as a whole: buffers end with one.
    let padded = |b: &Buffer| {
        let mut out = b.bytes().to_vec();
        out.resize(out.len().next_multiple_of(4), 0);
        out
    };
    let bases: Vec<u64> =
        memory.buffers.iter().enumerate().map(|(i, b)| device.alloc(&format!("b{i}"), sim::Init::Bytes(padded(b)))).collect();
    let values = marshal(&kernel.params, [grid, 1, 1], &args, |buffer, offset| bases[buffer] + offset).map_err(|e| e.to_string())?;
    let module = sim::Module::load(&kernel.object).map_err(|e| e.to_string())?;
    let launch = sim::Launch {
        kernel: &kernel.entry,
        grid: [grid, 1, 1],
        block: [kernel.threads, 1, 1],
        dynamic_lds: 0,
        args: &segment(&kernel, &values),
        config: sim::SimConfig::default(),
    };
    module.launch(&launch, &mut device).map_err(|e| format!("{chip}: {e}\n{program}\n{}", kernel.text))?;
    let got = memory.buffers.iter().zip(&bases).zip(&elems).map(|((b, &base), &elem)| words(elem, device.read(base, b.len()).unwrap()));
    let got: Vec<Vec<u64>> = got.collect();
    interpret(program, &machine::target(chip), [grid, 1, 1], &args, &mut memory, &LaneOptions::default()).map_err(|e| e.to_string())?;
    let want = memory.buffers.iter().zip(&elems).map(|(b, &elem)| words(elem, b.bytes())).collect();
    Ok([want, got])
}

/// How much floats may differ.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// Not at all; NaNs are alike.
    Exact,
    /// So many units in the last place, and subnormal numbers may be zeros.
    Units(i64),
    /// Absolute, or relative.
    Near(f64),
}

/// True if a result is good enough.
pub fn alike(elem: Scalar, want: u64, got: u64, tolerance: Tolerance) -> bool {
    if want == got || !elem.is_float() {
        return want == got;
    }
    let (w, g) = (num::from_bits(want, elem), num::from_bits(got, elem));
    if w.is_nan() || g.is_nan() {
        return w.is_nan() && g.is_nan();
    }
    match tolerance {
        Tolerance::Exact => false,
        Tolerance::Units(n) => {
            let least = if elem == Scalar::F16 { 2f64.powi(-14) } else { f64::from(f32::MIN_POSITIVE) };
            (w.abs() < least && g == 0.0) || (want as i64 - got as i64).abs() <= n
        }
        Tolerance::Near(e) => (w - g).abs() <= e * w.abs().max(1.0),
    }
}

/// Runs a program both ways, for every chip, and compares the last view.
pub fn agree(program: &Program, grid: u32, data: &[Data], tolerance: Tolerance) -> Result<(), String> {
    Chip::ALL.into_iter().try_for_each(|chip| agree_on(chip, program, grid, data, tolerance))
}

fn agree_on(chip: Chip, program: &Program, grid: u32, data: &[Data], tolerance: Tolerance) -> Result<(), String> {
    let [want, got] = both(chip, program, grid, data)?;
    let Some(Data::View(elem, _)) = data.last() else { return Err("no view".to_owned()) };
    let (want, got) = (want.last().unwrap(), got.last().unwrap());
    for (i, (&w, &g)) in want.iter().zip(got).enumerate() {
        if !alike(*elem, w, g, tolerance) {
            let from: Vec<String> = data[..data.len() - 1]
                .iter()
                .map(|d| match d {
                    Data::View(_, v) => format!("{:#x}", v.get(i).copied().unwrap_or(0)),
                    Data::Number(_, b) => format!("{b:#x}"),
                })
                .collect();
            return Err(format!("{chip}: {} element {i}: want {w:#x}, got {g:#x}, from {from:?}", program.name));
        }
    }
    Ok(())
}

/// A program in which each lane loads its element of every operand, computes, and stores its element of the result.
pub fn elementwise(name: &str, operands: &[LTy], result: LTy, f: impl FnOnce(&mut Asm, &[LVal]) -> LVal) -> Program {
    let mut a = asm(name);
    let values: Vec<LVal> = operands.iter().enumerate().map(|(i, &ty)| a.load(i as u32, ty)).collect();
    let r = f(&mut a, &values);
    assert_eq!(a.p.vals[r], result);
    a.store(operands.len() as u32, &[r]);
    a.p
}
