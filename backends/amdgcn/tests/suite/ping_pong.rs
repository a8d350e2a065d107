//! Ping-pong of two wavefronts that share a SIMD: where it is taken, and that a barrier too few is found, by the checker and in the simulator.

use crate::common::loops::{DEPTHS, Product, STEP, arguments, segment};
use tilelift_amdgcn::alloc::{Allocated, allocate};
use tilelift_amdgcn::isa::Opcode;
use tilelift_amdgcn::mir::{Block, BlockData, Inst, Program, verify};
use tilelift_amdgcn::select::select;
use tilelift_amdgcn::{Chip, check, emit, encode::encode, machine, object, order};
use tilelift_amdgcn_sim::{Init, Launch, Memory, Module, SimConfig};
use tilelift_ir::Scalar;
use tilelift_isel::{LowerOptions, Lowered, lower};
use tilelift_kernels::Gemm;

const CHIP: Chip = Chip::Gfx942;

/// A product in such tiles.
fn tiles(tile: [u32; 3], waves: u32, chip: Chip) -> Lowered {
    let gemm = Gemm::new(Scalar::F16).output(Scalar::F16).tile(tile[0], tile[1], tile[2]).schedule(waves, 2).for_shape(1024, 1024, 1024);
    let kernel = gemm.build().expect("a kernel");
    let verified = tilelift_ir::verify::verify(&kernel).expect("a kernel");
    lower(&verified, &machine::target(chip), &LowerOptions::default()).unwrap_or_else(|e| panic!("{tile:?}: {e}"))
}

fn lowered(size: u32, waves: u32) -> Lowered {
    tiles([size, size, STEP], waves, CHIP)
}

fn ordered(lowered: &Lowered, chip: Chip) -> (Program, Allocated) {
    let selected = select(&lowered.program, chip).unwrap_or_else(|e| panic!("{e}"));
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
        let (scheduled, allocated) = ordered(&lowered(size, waves), CHIP);
        assert_eq!(verify(&scheduled), Ok(()));
        assert_eq!(check::barriers(&scheduled), Ok(()));
        check::allocation(&scheduled, &allocated).unwrap_or_else(|f| panic!("{:?}", f[0]));
        once_more(&scheduled).len()
    };
    assert_eq!(taken(256, 8), 2);
    assert_eq!(taken(128, 4), 0, "one wavefront a SIMD");
    assert_eq!(taken(128, 8), 0, "room for another workgroup");
}

/// A loop that lacks what it asks for stays in step.
#[test]
fn what_stands_in_its_way() {
    let selected = select(&lowered(256, 8).program, CHIP).unwrap_or_else(|e| panic!("{e}"));
    let taken = |program: &Program| {
        let (scheduled, _) = order::schedule_and_allocate(program.clone()).unwrap_or_else(|e| panic!("{e}"));
        !once_more(&scheduled).is_empty()
    };
    assert!(taken(&selected));
    let is_product = |i: &Inst| i.op == Opcode::VMfmaF32_32x32x8F16;
    let inside = |b: &BlockData| b.depth > 0 && b.insts.iter().any(is_product);
    let (latch, _) = selected.blocks.iter().find(|(_, b)| inside(b)).expect("a loop of products");
    let with = |change: &dyn Fn(&mut Program)| {
        let mut other = selected.clone();
        change(&mut other);
        taken(&other)
    };
    let in_latch = |change: &dyn Fn(&mut Vec<Inst>)| with(&|p| change(&mut p.blocks[latch].insts));
    assert!(in_latch(&|_| ()));
    let barrier = selected.blocks[latch].insts.iter().position(|i| i.op == Opcode::SBarrier).expect("a barrier");
    assert!(!in_latch(&|insts| insts.swap(barrier, barrier + 1)), "what is stored in front of the barrier");
    assert!(!in_latch(&|insts| insts.insert(0, insts[barrier].clone())), "another barrier");
    assert!(!in_latch(&|insts| insts.insert(barrier, Inst::new(Opcode::SNop, [0.into()]))), "what nothing passes");
    assert!(!in_latch(&|insts| insts.swap(barrier - 1, barrier)), "a product behind the barrier");
    let header = selected.blocks.iter().find(|(_, b)| b.depth > 0).map(|(block, _)| block).expect("a loop");
    assert!(!with(&|p| drop(p.blocks[header].insts.remove(0))), "no barrier at the beginning");
}

/// What a program becomes.
fn loaded(program: &Program) -> Result<Module, String> {
    let finished = order::finish(allocate(program.clone()).map_err(|e| e.to_string())?);
    let code = encode(&finished).map_err(|e| e.to_string())?;
    Module::load(&object::write(&finished, &code)).map_err(|e| e.to_string())
}

/// Cycles that a step takes a workgroup by the estimate of wavefronts that share SIMDs.
fn step(lowered: &Lowered, program: &Program, tile: [u32; 3]) -> u64 {
    let module = loaded(program).unwrap_or_else(|e| panic!("{e}"));
    let cycles = DEPTHS.map(|depth| {
        let extents = [[tile[0], depth], [depth, tile[1]], [tile[0], tile[1]]];
        let mut memory = Memory::new();
        let buffers = extents.map(|[rows, columns]| memory.alloc("matrix", Init::Bytes(vec![0; 2 * (rows * columns) as usize])));
        let kernel = module.kernel(&program.name).expect("the kernel");
        let args = segment(kernel, arguments(&lowered.program.params, &buffers, &extents));
        let block = [64 * program.waves, 1, 1];
        let launch = Launch { kernel: &program.name, grid: [1; 3], block, dynamic_lds: 0, args: &args, config: SimConfig::default() };
        module.launch(&launch, &mut memory).unwrap_or_else(|f| panic!("{f}")).longest_group
    });
    (cycles[1] - cycles[0]) / u64::from((DEPTHS[1] - DEPTHS[0]) / tile[2])
}

/// Where it is taken, a step takes fewer cycles than in step. `-- --nocapture` prints both.
#[test]
fn it_gains_where_it_is_taken() {
    println!("| chip | tile | products | in step | ping-pong |\n|---|---|---|---|---|");
    for chip in [Chip::Gfx90a, Chip::Gfx942, Chip::Gfx950] {
        for tile in [[256, 256, 64], [256, 256, 32], [256, 128, 64], [128, 256, 64]] {
            let lowered = tiles(tile, 8, chip);
            let (scheduled, _) = ordered(&lowered, chip);
            let selected = select(&lowered.program, chip).unwrap_or_else(|e| panic!("{e}"));
            let [apart, in_step] = [&scheduled, &order::schedule(&selected)].map(|program| step(&lowered, program, tile));
            let busy = u64::from(tile.iter().product::<u32>()) / [512, 1024, 2048][chip as usize];
            let how = if once_more(&scheduled).is_empty() { "-".to_owned() } else { apart.to_string() };
            println!("| `{chip}` | {}x{}x{} | {busy} | {in_step} | {how} |", tile[0], tile[1], tile[2]);
            assert!(how == "-" || apart < in_step, "{chip} {tile:?}");
        }
    }
}

/// Runs what a program becomes, in place of a product's own object.
fn runs(product: &Product, program: &Program) -> Result<bool, String> {
    let module = loaded(program)?;
    product.launched(&module, DEPTHS[0]).map(|(_, right)| right).map_err(|f| f.to_string())
}

/// Each barrier of the loop in turn is taken away, and each of those by which halves are apart: where the checker is content, the product is right.
#[test]
fn faults_that_are_planted_are_found() {
    let lowered = lowered(256, 8);
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
    let (good, _) = ordered(&lowered, CHIP);
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
