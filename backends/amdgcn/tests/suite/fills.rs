//! Products whose operands are loaded straight to local data share.
//!
//! `cargo test -p tilelift-amdgcn fills:: -- --nocapture` prints the table of docs/amdgcn.md.

use crate::common::loops::{DEPTHS, HEAD, Product, Row, arguments};
use tilelift_amdgcn::isa::{Opcode, Variant};
use tilelift_amdgcn::mir::{BlockData, Inst, Operand, Program, Span};
use tilelift_amdgcn::{Chip, check, emit, encode::encode, gfx950, object, order, select::select};
use tilelift_amdgcn_sim::Module;
use tilelift_ir::text;
use tilelift_isel::{LowerOptions, Target, lower};

/// Bytes of local data share of a unit.
const UNIT_LDS: u32 = 160 << 10;

fn product(size: u32, warps: u32) -> String {
    format!(
        "kernel @k(v0: view<f16, [?, ?%8]>, v1: view<f16, [?, ?%8]>, v2: view<f16, [?, ?]>) warps={warps} stages=2 {{
    v3 = program_id x
    v4 = mul v3, {size}
    v5 = program_id y
    v6 = mul v5, {size}
    v7 = dim v0, 1
    v8 = splat 0.0 : tile<{size}x{size}xf32>
    v9 = for v10 in 0..v7 step 64 carry v11 = v8 {{
        v12 = load v0[v4, v10] : tile<{size}x64xf16>
        v13 = load v1[v6, v10] : tile<{size}x64xf16>
        v14 = transpose v13, [1, 0]
        v15 = dot v12, v14, v11
        yield v15
    }}
    v16 = cast v9 : tile<{size}x{size}xf16>
    store v2[v4, v6], v16
}}"
    )
}

fn lowered(source: &str, target: &Target) -> tilelift_lane::Program {
    let file = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    let verified = tilelift_ir::verify::verify(&file.kernels[0]).expect("a kernel");
    lower(&verified, target, &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}")).program
}

/// The chip as if it had no such loads.
fn without() -> Target {
    Target { copy_async: &[], copies_in_rows: false, ..gfx950() }
}

fn compiled(size: u32, waves: u32, target: &Target, name: String) -> Product {
    let made = emit(&lowered(&product(size, waves), target), Chip::Gfx950).unwrap_or_else(|e| panic!("{e}"));
    let params = made.params.clone();
    let args = move |pointers: [u64; 3], depth: u32| {
        let extents = [[size, depth], [size, depth], [size, size]];
        arguments(&params, &pointers, &extents)
    };
    Product { name, object: made.object, entry: made.entry, size, waves, dynamic_lds: 0, unit_lds: UNIT_LDS, args: Box::new(args) }
}

#[test]
fn main_loops_beside_those_through_registers() {
    HEAD.iter().for_each(|line| println!("{line}"));
    for (size, waves) in [(128, 4), (256, 8)] {
        let both = [(gfx950(), ""), (without(), ", through registers")];
        let rows: Vec<Row> = both
            .into_iter()
            .map(|(target, how)| {
                let p = compiled(size, waves, &target, format!("{size}x{size}x64{how}"));
                let row = p.row();
                println!("{}", row.line(&p.name));
                row
            })
            .collect();
        let [fills, held] = &rows[..] else { panic!("two") };
        assert_eq!(fills.conflicts, 0);
        assert!(fills.lds < held.lds && fills.registers <= held.registers && fills.estimate < held.estimate);
    }
}

fn finished(source: &str) -> Program {
    let selected = select(&lowered(source, &gfx950()), Chip::Gfx950).unwrap_or_else(|e| panic!("{e}"));
    let (scheduled, allocated) = order::schedule_and_allocate(selected).unwrap_or_else(|e| panic!("{e}"));
    check::allocation(&scheduled, &allocated).unwrap_or_else(|f| panic!("{:?}", f[0]));
    order::finish(allocated)
}

fn is_fill(block: &BlockData) -> bool {
    block.insts.iter().any(|i| i.op.desc().form.variant == Variant::ToLds)
}

/// Operands that lie along the depth are copied past registers; others, and what is masked, are not.
#[test]
fn what_is_copied_past_registers() {
    let filled = |source: &str| finished(source).blocks.values().any(is_fill);
    assert!(filled(&product(128, 4)));
    let across = product(128, 4).replace("load v1[v6, v10] : tile<128x64xf16>", "load v1[v10, v6] : tile<64x128xf16>");
    assert!(!filled(&across.replace("        v14 = transpose v13, [1, 0]\n", "").replace("dot v12, v14", "dot v12, v13")));
    assert!(!filled(&product(128, 4).replace("%8", "")), "vectors of less than 16 bytes");
}

/// Runs what a program becomes, in place of a product's own object.
fn runs(product: &Product, program: &Program) -> Result<bool, String> {
    let code = encode(program).map_err(|e| e.to_string())?;
    let module = Module::load(&object::write(program, &code)).map_err(|e| e.to_string())?;
    product.launched(&module, DEPTHS[0]).map(|(_, right)| right).map_err(|f| f.to_string())
}

/// Each wait without which a barrier shows what is not there yet, and each wait state behind `m0`, is missed when it is taken away: by the checkers, and in the
/// simulator.
#[test]
fn faults_that_are_planted_are_found() {
    let good = finished(&product(128, 4));
    check::waits(&good).unwrap_or_else(|f| panic!("{:?}", f[0]));
    check::hazards(&good).unwrap_or_else(|f| panic!("{:?}", f[0]));
    let launch = compiled(128, 4, &gfx950(), "planted".to_owned());
    assert_eq!(runs(&launch, &good), Ok(true));
    let (mut waits, mut states) = (0, 0);
    for (block, data) in good.blocks.iter() {
        let is_wait = |at: usize| data.insts.get(at).is_some_and(|i| i.op == Opcode::SWaitcnt);
        let fills = |at: usize| data.insts[at].op.desc().form.variant == Variant::ToLds;
        for at in (0..data.insts.len()).filter(|&at| data.insts[at].op == Opcode::SBarrier && data.depth > 0) {
            let first = (0..at).rev().take_while(|&n| is_wait(n)).last().expect("a wait in front of a barrier");
            let mut bad = good.clone();
            bad.blocks[block].insts.drain(first..at);
            assert!(check::waits(&bad).is_err(), "{block} {at}");
            // The step that no pair has is not there in this launch.
            waits += u32::from(runs(&launch, &bad) != Ok(true));
        }
        for at in (0..data.insts.len()).filter(|&at| fills(at)) {
            let sets = |i: &Inst| i.operands.first() == Some(&Operand::Reg(Span::M0));
            let set = data.insts[..at].iter().rposition(sets).expect("m0 is set");
            let mut bad = good.clone();
            bad.blocks[block].insts.drain(set + 1..at);
            assert!(check::hazards(&bad).is_err(), "{block} {at}");
            // Without `m0`, what others fill is overwritten.
            let mut bad = good.clone();
            bad.blocks[block].insts[set] = Inst::new(Opcode::SNop, [0.into()]);
            states += u32::from(runs(&launch, &bad) != Ok(true));
        }
    }
    assert!(waits >= 2 && states >= 8, "{waits} {states}");
}
