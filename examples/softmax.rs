//! `cargo run --release --example softmax`: a row softmax in one kernel, where a library would launch three.
//!
//! An instance holds a whole row in one tile, so the maximum, the exponentials, their sum and the division never leave registers:
//! memory is read once and written once. Three things are worth a look:
//!  * a tile may be longer than the row. Elements outside the view read what `other` says; here `-inf`, whose exponential is 0;
//!  * `reduce_keep` leaves an axis of extent 1, which the next operation repeats along the row;
//!  * the order of a reduction is part of the language, so interpreter, simulator and GPU give the same bits for the sum.
//!
//! The interpreter defines what a kernel means. This program runs it beside the simulator of the compiled text and compares both with
//! a softmax in `f64`.

use tilelift::interp::{self, Arg, Buffer, Memory, ViewArg};
use tilelift::ir::{Access, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, ViewType};
use tilelift::runtime::sim::SimDevice;

const ROWS: usize = 5;
const COLS: usize = 300;

fn softmax() -> Result<Kernel, tilelift::ir::BuildErrors> {
    let mut b = KernelBuilder::new("softmax");
    b.warps(1);
    // Rows of a multiple of 4 elements: accesses of 16 bytes are legal.
    let view = ViewType::dense(Scalar::F32, &[Extent::Dynamic(1), Extent::Dynamic(4)]);
    let [x, y] = [(); 2].map(|()| b.param(view.clone()));
    let row = b.program_id(0);
    let col = b.constant(0, Scalar::I32);
    let outside = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
    let t = b.load_with(x, &[row, col], &[1, 512], outside);
    let max = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let t = b.sub(t, max);
    let e = b.exp(t);
    let sum = b.reduce_keep(ReduceOp::Add, e, 1);
    let p = b.div(e, sum);
    b.store(y, &[row, col], p);
    b.finish()
}

fn floats(memory: &Memory, buffer: usize) -> Vec<f32> {
    memory.buffers[buffer].bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kernel = softmax()?;
    let input: Vec<f32> = (0..ROWS * COLS).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect();
    let mut memory = Memory::new();
    memory.add(Buffer::from_bytes(input.iter().flat_map(|v| v.to_le_bytes()).collect()));
    memory.add(Buffer::uninit(4 * ROWS * COLS));
    let args: Vec<Arg> = (0..2).map(|i| ViewArg::dense(i, Scalar::F32, &[ROWS as i64, COLS as i64]).into()).collect();
    let grid = [ROWS as u32, 1, 1];

    let mut meant = memory.clone();
    interp::interpret(&tilelift::ir::verify(&kernel)?, grid, &args, &mut meant, &interp::Options::default())?;

    let artifact = tilelift::compile(&kernel, &tilelift::targets::usual(), &tilelift::Options::default())?;
    let device = SimDevice::default();
    let report = device.execute(&device.load(&artifact)?, grid, &args, &mut memory)?;

    let (want, got) = (floats(&meant, 1), floats(&memory, 1));
    let mut worst = 0f64;
    for r in 0..ROWS {
        let row = &input[r * COLS..(r + 1) * COLS];
        let max = row.iter().fold(f32::NEG_INFINITY, |m, &v| m.max(v));
        let sum: f64 = row.iter().map(|&v| f64::from(v - max).exp()).sum();
        for c in 0..COLS {
            let exact = f64::from(row[c] - max).exp() / sum;
            for found in [want[r * COLS + c], got[r * COLS + c]] {
                worst = worst.max((f64::from(found) / exact - 1.0).abs());
            }
        }
    }
    assert!(worst < 1e-5, "{worst}");
    println!("softmax of {ROWS} x {COLS}: largest relative error {worst:.1e}");
    println!("{} sectors of memory for {} bytes in and out", report.sectors, 8 * ROWS * COLS);
    Ok(())
}
