//! Kernels whose lanes have more numbers alive than registers: what they keep in scratch memory comes back, on every chip.

use crate::common::device::{Data, Tolerance, agree, asm, segment};
use tilelift_amdgcn::isa::Opcode;
use tilelift_amdgcn::mir::{Block, Inst, Program};
use tilelift_amdgcn::{Chip, check, emit, encode::encode, machine, object, order, select::select};
use tilelift_amdgcn_sim::{self as sim, FaultKind, Use};
use tilelift_interp::{Buffer, Memory, ViewArg};
use tilelift_ir::{GridAxis, Scalar};
use tilelift_isel::abi::marshal;
use tilelift_isel::{LowerOptions, lower};
use tilelift_lane::{self as lane, BinOp, LTy, LVal, Special};

/// Many multiples of a number, each of which is asked for when the sum of all of them is known.
fn many(count: u64, warps: u32) -> lane::Program {
    let mut a = asm("many");
    a.p.warps = warps;
    let ty = LTy::Num(Scalar::I32);
    let given = a.load(0, ty);
    // Numbers of the workgroup along every axis are asked for: these are zero.
    let ids = [GridAxis::Y, GridAxis::Z].map(|axis| a.special(Special::ProgramId(axis)));
    let given = ids.into_iter().fold(given, |x, id| a.bin(BinOp::Add, x, id));
    let multiples: Vec<LVal> = (0..count)
        .map(|i| {
            let by = a.constant(ty, 2 * i + 1);
            a.bin(BinOp::Mul, given, by)
        })
        .collect();
    let sum = multiples.iter().copied().reduce(|x, y| a.bin(BinOp::Add, x, y)).unwrap();
    let by = a.constant(ty, 31);
    let mut hash = sum;
    for x in multiples {
        let mixed = a.bin(BinOp::Xor, x, sum);
        let times = a.bin(BinOp::Mul, hash, by);
        hash = a.bin(BinOp::Add, times, mixed);
    }
    a.store(1, &[hash]);
    a.p
}

/// A wavefront has 512 registers of both files, one of eight 256: more multiples than that.
const SIZES: [(u64, u32); 2] = [(700, 1), (400, 8)];
const GROUPS: u32 = 3;

fn data(warps: u32) -> Vec<u64> {
    (0..u64::from(GROUPS * 64 * warps)).map(|i| (i * 0x9e37_79b9) & 0xffff_ffff).collect()
}

#[test]
fn what_is_kept_in_scratch_memory_comes_back() {
    for (count, warps) in SIZES {
        let program = many(count, warps);
        for chip in Chip::ALL {
            let made = emit(&program, chip).unwrap_or_else(|e| panic!("{chip}: {e}"));
            assert!(made.facts.spills.to_scratch > 50, "{chip}: {:?}", made.facts);
            assert_eq!(made.text.contains("flat_scratch_hi"), chip == Chip::Gfx90a, "{chip}");
        }
        let views = [Data::View(Scalar::I32, data(warps)), Data::View(Scalar::I32, vec![0; data(warps).len()])];
        agree(&program, GROUPS, &views, Tolerance::Exact).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The lane program of the first kernel of a text.
fn lowered(text: &str, chip: Chip, options: &LowerOptions) -> lane::Program {
    let file = tilelift_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let verified = tilelift_ir::verify::verify(&file.kernels[0]).unwrap();
    lower(&verified, &machine::target(chip), options).unwrap_or_else(|e| panic!("{chip}: {e}")).program
}

/// Values of 96 keys, loaded in halves as products take them, would take more registers than lanes compute in: they wait in local data share.
#[test]
fn operands_in_halves_take_a_register_each() {
    let source = include_str!("../../../../tests/tile/loops/in_fewer_registers.tile");
    for chip in Chip::ALL {
        let lanes = lowered(source, chip, &LowerOptions::default());
        let made = emit(&lanes, chip).unwrap_or_else(|e| panic!("{chip}: {e}"));
        let spills = made.facts.spills;
        assert_eq!(spills.to_scratch, 0, "{chip}: {spills:?}");
    }
}

/// A warp's rows of sums, each number of which is scaled by one of a pair of registers: packed instructions read a word of a pair that is spilled.
const PAIRS: &str = "kernel @pk(%x: view<f16, [?, ?]>, %y: view<f16, [?, ?]>, %f: view<f32, [?, ?]>, %c: view<f32, [?, ?]>, %z: view<f32, [?, ?]>, %o: view<f32, [?, ?]>) warps=1 {
    %p = program_id x
    %r = mul %p, 16
    %a = load %x[%r, 0] : tile<16x16xf16>
    %b = load %y[0, 0] : tile<16x768xf16>
    %u = load %f[0, 0] : tile<1x768xf32>
    %ub = broadcast %u : tile<16x768xf32>
    %v = load %c[0, 0] : tile<1x768xf32>
    %vb = broadcast %v : tile<16x768xf32>
    %w = load %z[%r, 0] : tile<16x768xf32>
    %d = dot %a, %b, %w
    %e = fma %d, %ub, %vb
    %mx = reduce maximum %e, axis 1
    %m1 = reshape %mx : tile<16x1xf32>
    %mb = broadcast %m1 : tile<16x768xf32>
    %g = sub %e, %mb
    %h = dot %a, %b, %g
    %h2 = fma %h, %ub, %vb
    %s = reduce add %h2, axis 1
    %s1 = reshape %s : tile<16x1xf32>
    %sb = broadcast %s1 : tile<16x768xf32>
    %i = add %h2, %sb
    %j = fma %i, %ub, %vb
    %l = add %j, %d
    store %o[%r, 0], %l
}
";

#[test]
fn pairs_of_which_a_word_is_read_are_spilled_as_pairs() {
    for chip in Chip::ALL {
        let lanes = lowered(PAIRS, chip, &LowerOptions::default());
        let before = select(&lanes, chip).unwrap_or_else(|e| panic!("{chip}: {e}"));
        let (scheduled, allocated) = order::schedule_and_allocate(before).unwrap_or_else(|e| panic!("{chip}: {e}"));
        assert!(allocated.facts.spills.to_scratch > 0, "{chip}");
        assert_eq!(check::allocation(&scheduled, &allocated), Ok(()), "{chip}");
        encode(&order::finish(allocated)).unwrap_or_else(|e| panic!("{chip}: {e}"));
    }
}

/// Where only tuples have no place, one in each round, room is made for more of them.
#[test]
fn spilling_of_tuples_comes_to_an_end() {
    let texts = [
        include_str!("../../../../tests/tile/loops/slot_asked_ahead.tile"),
        include_str!("../../../../tests/tile/loops/operands_apart.tile"),
    ];
    for (text, chip) in texts.into_iter().flat_map(|text| [(text, Chip::Gfx90a), (text, Chip::Gfx942)]) {
        let lanes = lowered(text, chip, &LowerOptions { warps: Some(1), ..LowerOptions::default() });
        let made = emit(&lanes, chip).unwrap_or_else(|e| panic!("{chip}: {e}"));
        assert!(made.facts.spills.to_scratch > 0, "{chip}: {:?}", made.facts);
    }
}

/// Runs a finished program in the place of what the lane program becomes.
fn run(lanes: &lane::Program, program: &Program, input: &[u64]) -> Result<Vec<u8>, FaultKind> {
    let bytes: Vec<u8> = input.iter().flat_map(|x| (*x as u32).to_le_bytes()).collect();
    let mut memory = Memory::new();
    let views = [bytes.clone(), vec![0; bytes.len()]].map(|b| {
        let buffer = memory.add(Buffer::from_bytes(b));
        ViewArg::dense(buffer, Scalar::I32, &[input.len() as i64]).into()
    });
    let mut device = sim::Memory::new();
    let bases: Vec<u64> =
        memory.buffers.iter().enumerate().map(|(i, b)| device.alloc(&format!("b{i}"), sim::Init::Bytes(b.bytes().to_vec()))).collect();
    let kernel = emit(lanes, program.chip).unwrap();
    let values = marshal(&kernel.params, [GROUPS, 1, 1], &views, |buffer, offset| bases[buffer] + offset).unwrap();
    let module = sim::Module::load(&object::write(program, &encode(program).unwrap())).unwrap();
    let launch = sim::Launch {
        kernel: &kernel.entry,
        grid: [GROUPS, 1, 1],
        block: [kernel.threads, 1, 1],
        dynamic_lds: 0,
        args: &segment(&kernel, &values),
        config: sim::SimConfig::default(),
    };
    module.launch(&launch, &mut device).map_err(|f| f.kind)?;
    Ok(device.read(bases[1], bytes.len()).unwrap().to_vec())
}

/// What a planted fault does to the first block.
type Plant = fn(&mut Vec<Inst>);

/// What is left out of the set-up, or done in another order, is found by the checker and by the simulator.
#[test]
fn planted_faults_of_the_set_up_are_found() {
    let (count, warps) = SIZES[0];
    let lanes = many(count, warps);
    let (_, allocated) = order::schedule_and_allocate(select(&lanes, Chip::Gfx90a).unwrap()).unwrap();
    let good = order::finish(allocated);
    let input = data(warps);
    let right = run(&lanes, &good, &input).unwrap_or_else(|f| panic!("{f}"));
    let begin = Block::from_u32(0);
    let ops: Vec<Opcode> = good.blocks[begin].insts[..5].iter().map(|i| i.op).collect();
    assert_eq!(ops, [Opcode::SAddU32, Opcode::SAddcU32, Opcode::SMovB32, Opcode::SMovB32, Opcode::SMovB32]);
    let plants: [(&str, Plant); 7] = [
        ("no lower half", |i| drop(i.remove(0))),
        ("no upper half", |i| drop(i.remove(1))),
        ("none", |i| drop(i.drain(..2))),
        ("upper half first", |i| i.swap(0, 1)),
        ("bytes of another register", |i| i[0].operands[2] = i[4].operands[1]),
        ("numbers in the way", |i| i[..4].rotate_left(2)),
        ("a number left where it is", |i| drop(i.remove(2))),
    ];
    for (name, plant) in plants {
        let mut wrong = good.clone();
        plant(&mut wrong.blocks[begin].insts);
        assert!(check::scratch(&wrong).is_err(), "{name}: the checker");
        match run(&lanes, &wrong, &input) {
            Err(FaultKind::Undefined { used_as: Use::FlatScratch, .. } | FaultKind::ScratchAddress { .. }) => {}
            // The carry of no sum.
            Err(FaultKind::Undefined { used_as: Use::Condition, .. }) if ["no lower half", "upper half first"].contains(&name) => {}
            // The workgroup's number is an address: where it is taken for the number, nothing is there.
            Err(FaultKind::OutOfBounds { .. }) if name.starts_with("a number") => {}
            Ok(numbers) => panic!("{name}: {} numbers", if numbers == right { "right" } else { "wrong" }),
            Err(other) => panic!("{name}: {other}"),
        }
    }
}
