//! Ping-pong of two wavefronts that share a SIMD: where it is taken, and that a barrier too few is found, by the checker and in the simulator.

use crate::common::loops::{DEPTHS, Product, STEP, arguments};
use tilelift_amdgcn::alloc::{Allocated, allocate};
use tilelift_amdgcn::isa::Opcode;
use tilelift_amdgcn::mir::{Block, BlockData, Inst, Program, verify};
use tilelift_amdgcn::select::select;
use tilelift_amdgcn::{Chip, check, emit, encode::encode, machine, object, order};
use tilelift_amdgcn_sim::Module;
use tilelift_ir::Scalar;
use tilelift_isel::{LowerOptions, Lowered, lower};
use tilelift_kernels::Gemm;

const CHIP: Chip = Chip::Gfx942;

fn lowered(size: u32, waves: u32, ty: Scalar) -> Lowered {
    let gemm = Gemm::new(ty).output(Scalar::F16).tile(size, size, STEP).schedule(waves, 2).for_shape(1024, 1024, 1024);
    let kernel = gemm.build().expect("a kernel");
    let verified = tilelift_ir::verify::verify(&kernel).expect("a kernel");
    lower(&verified, &machine::target(CHIP), &LowerOptions::default()).unwrap_or_else(|e| panic!("{size}: {e}"))
}

fn ordered(lowered: &Lowered) -> (Program, Allocated) {
    let selected = select(&lowered.program, CHIP).unwrap_or_else(|e| panic!("{e}"));
    order::schedule_and_allocate(selected).unwrap_or_else(|e| panic!("{e}"))
}

/// Blocks that do nothing but wait once more.
fn once_more(program: &Program) -> Vec<Block> {
    let waits = |b: &BlockData| matches!(&b.insts[..], [only] if only.op == Opcode::SBarrier);
    program.blocks.iter().filter(|(_, b)| waits(b)).map(|(block, _)| block).collect()
}

/// It is taken where two wavefronts of a workgroup share a SIMD that no other workgroup is on, and where registers suffice.
#[test]
fn it_is_taken_where_two_wavefronts_have_a_unit() {
    let taken = |size, waves| {
        let (scheduled, allocated) = ordered(&lowered(size, waves, Scalar::F16));
        assert_eq!(verify(&scheduled), Ok(()));
        assert_eq!(check::barriers(&scheduled), Ok(()));
        check::allocation(&scheduled, &allocated).unwrap_or_else(|f| panic!("{:?}", f[0]));
        once_more(&scheduled).len()
    };
    assert_eq!(taken(256, 8), 2);
    assert_eq!(taken(128, 4), 0, "one wavefront a SIMD");
    assert_eq!(taken(128, 8), 0, "room for another workgroup");
}

/// Runs what a program becomes, in place of a product's own object.
fn runs(product: &Product, program: &Program) -> Result<bool, String> {
    let allocated = allocate(program.clone()).map_err(|e| e.to_string())?;
    let finished = order::finish(allocated);
    let code = encode(&finished).map_err(|e| e.to_string())?;
    let module = Module::load(&object::write(&finished, &code)).map_err(|e| e.to_string())?;
    product.launched(&module, DEPTHS[0]).map(|(_, right)| right).map_err(|f| f.to_string())
}

/// Each barrier of the loop in turn is taken away, and each of those by which halves are apart: where the checker is content, the product is right.
#[test]
fn faults_that_are_planted_are_found() {
    let lowered = lowered(256, 8, Scalar::F16);
    let made = emit(&lowered.program, CHIP).unwrap_or_else(|e| panic!("{e}"));
    let params = made.params.clone();
    let args = move |pointers: [u64; 3], depth: u32| arguments(&params, &pointers, &[[256, depth], [depth, 256], [256, 256]]);
    let (object, entry) = (made.object, made.entry);
    let product = Product {
        name: "planted".to_owned(),
        object,
        entry,
        size: 256,
        waves: 8,
        dynamic_lds: 0,
        unit_lds: 64 << 10,
        args: Box::new(args),
    };
    let (good, _) = ordered(&lowered);
    assert_eq!(check::barriers(&good), Ok(()));
    assert_eq!(runs(&product, &good), Ok(true));
    let mut found = Vec::new();
    for (block, data) in good.blocks.iter().filter(|(_, b)| b.depth > 0) {
        for at in (0..data.insts.len()).filter(|&at| data.insts[at].op == Opcode::SBarrier) {
            let mut bad = good.clone();
            bad.blocks[block].insts.remove(at);
            let right = runs(&product, &bad);
            println!("without the barrier {at} of {block}: {:?}, {right:?}", check::barriers(&bad));
            assert_eq!(check::barriers(&bad).is_ok(), right == Ok(true), "{block} {at}: {right:?}");
            found.push(right != Ok(true));
        }
    }
    // Those around what is stored, and those that keep apart from it what is loaded before and then. The others keep halves in turns.
    assert_eq!((found.len(), found.iter().filter(|&&f| f).count()), (8, 4));
    for block in once_more(&good) {
        let mut bad = good.clone();
        bad.blocks[block].insts[0] = Inst::new(Opcode::SNop, [0.into()]);
        assert!(check::barriers(&bad).is_err(), "{block}");
        assert_ne!(runs(&product, &bad), Ok(true), "{block}");
        // The wrong half waits.
        let mut bad = good.clone();
        let asks = &mut bad.blocks.values_mut().nth(block.as_u32() as usize - 1).expect("a block that asks").insts;
        let compare = asks.iter_mut().find(|i| matches!(i.op, Opcode::SCmpEqU32 | Opcode::SCmpLgU32)).expect("it compares");
        compare.op = if compare.op == Opcode::SCmpEqU32 { Opcode::SCmpLgU32 } else { Opcode::SCmpEqU32 };
        assert!(check::barriers(&bad).is_err(), "{block}");
        assert_ne!(runs(&product, &bad), Ok(true), "{block}");
    }
}
