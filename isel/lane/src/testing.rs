//! For tests of those who consume lane programs: a program written instruction by instruction, and a machine to run it on.

use crate::{
    Alloc, BinOp, Costs, Inst, LTy, LVal, LaneError, LaneFault, LaneOptions, LaneStats, MatrixInstr, Param, ParamSource, Program, Special,
    Target, UnOp, Vals, interpret,
};
use cranelift_entity::PrimaryMap;
use tilelift_interp::{Arg, Buffer, Memory, ViewArg};
use tilelift_ir::layout::{BankModel, FragmentMap};
use tilelift_ir::{GridAxis, Precision, Scalar};

mod everything;

pub use everything::{EVERYTHING, everything};

/// A program under construction.
pub struct Asm {
    /// The program so far.
    pub p: Program,
}

impl Asm {
    /// An empty program of so many warps of 32 lanes.
    pub fn new(warps: u32) -> Asm {
        Asm {
            p: Program {
                name: "test".into(),
                params: Vec::new(),
                warps,
                lanes: 32,
                cluster: 1,
                allocs: PrimaryMap::new(),
                shared_bytes: 0,
                vals: PrimaryMap::new(),
                body: Vec::new(),
            },
        }
    }
    /// A new value of a type, not yet defined.
    pub fn val(&mut self, ty: LTy) -> LVal {
        self.p.vals.push(ty)
    }
    /// New values of a type.
    pub fn vals(&mut self, ty: LTy, n: usize) -> Vals {
        (0..n).map(|_| self.val(ty)).collect()
    }
    /// Appends an instruction.
    pub fn push(&mut self, inst: Inst) {
        self.p.body.push(inst);
    }
    /// Defines a value of a type by an instruction.
    pub fn def(&mut self, ty: LTy, make: impl FnOnce(LVal) -> Inst) -> LVal {
        let v = self.val(ty);
        self.push(make(v));
        v
    }
    /// A literal of a type: its bits.
    pub fn constant(&mut self, ty: LTy, bits: u64) -> LVal {
        self.def(ty, |dst| Inst::Const { dst, bits })
    }
    /// An `i32` literal.
    pub fn i32(&mut self, x: i64) -> LVal {
        self.constant(LTy::I32, x as u64)
    }
    /// A two-operand operation.
    pub fn bin(&mut self, op: BinOp, a: LVal, b: LVal) -> LVal {
        let ty = self.p.vals[a];
        self.def(ty, |dst| Inst::Bin { dst, op, a, b })
    }
    /// Where the lane stands.
    pub fn special(&mut self, what: Special) -> LVal {
        self.def(LTy::I32, |dst| Inst::Special { dst, what })
    }
    /// The thread's number in the grid's x direction.
    pub fn thread(&mut self) -> LVal {
        let (lane, warp, program) =
            (self.special(Special::Lane), self.special(Special::Warp), self.special(Special::ProgramId(GridAxis::X)));
        let (lanes, warps) = (self.i32(i64::from(self.p.lanes)), self.i32(i64::from(self.p.warps)));
        let warp = self.def(LTy::I32, |dst| Inst::Fma { dst, a: program, b: warps, c: warp });
        self.def(LTy::I32, |dst| Inst::Fma { dst, a: warp, b: lanes, c: lane })
    }
    /// The base address of a view argument.
    pub fn pointer(&mut self, view: u32) -> LVal {
        let index = self.p.params.len() as u32;
        self.p.params.push(Param { ty: LTy::I64, source: ParamSource::Pointer(view) });
        self.def(LTy::I64, |dst| Inst::Param { dst, index })
    }
    /// The address of element `index` of a view.
    pub fn element(&mut self, view: u32, index: LVal, bytes: u32) -> LVal {
        let base = self.pointer(view);
        let size = self.i32(i64::from(bytes));
        self.def(LTy::I64, |dst| Inst::MadWide { dst, a: index, b: size, c: base })
    }
    /// Each thread's element of a view.
    pub fn load(&mut self, view: u32, ty: LTy) -> LVal {
        let t = self.thread();
        let addr = self.element(view, t, ty.bytes());
        self.def(ty, |d| Inst::LoadGlobal {
            dsts: Vals::from_slice(&[d]),
            addr,
            offset: 0,
            guard: None,
            other: Vals::new(),
            cache: tilelift_ir::CacheHint::Normal,
        })
    }
    /// Stores consecutive values of each thread.
    pub fn store(&mut self, view: u32, srcs: &[LVal]) {
        let t = self.thread();
        let bytes = self.p.vals[srcs[0]].bytes() * srcs.len() as u32;
        let addr = self.element(view, t, bytes);
        self.push(Inst::StoreGlobal { srcs: Vals::from_slice(srcs), addr, offset: 0, guard: None, cache: tilelift_ir::CacheHint::Normal });
    }
    /// An allocation of shared memory, and its address.
    pub fn alloc(&mut self, bytes: u32) -> LVal {
        let offset = self.p.shared_bytes.next_multiple_of(16);
        self.p.shared_bytes = offset + bytes;
        let alloc = self.p.allocs.push(Alloc { bytes, align: 16, offset, grain: 0, slot: 0, name: String::new(), purpose: "test" });
        self.def(LTy::I32, |dst| Inst::SharedAddr { dst, alloc })
    }
    /// Stores consecutive values to shared memory.
    pub fn store_shared(&mut self, addr: LVal, offset: i32, srcs: &[LVal]) {
        self.push(Inst::StoreShared { srcs: Vals::from_slice(srcs), addr, offset, guard: None });
    }
    /// Loads a value from shared memory.
    pub fn load_shared(&mut self, addr: LVal, offset: i32, ty: LTy) -> LVal {
        self.def(ty, |d| Inst::LoadShared { dsts: Vals::from_slice(&[d]), addr, offset })
    }
    /// Runs on one program, with views over the buffers from their start.
    pub fn run(&self, buffers: &mut Memory) -> Result<LaneStats, LaneError> {
        interpret(&self.p, &target(), [1, 1, 1], &args(buffers), buffers, &LaneOptions::default())
    }
    /// The fault of a run that must not succeed, and its thread.
    pub fn fault(&self, buffers: &mut Memory) -> (LaneFault, usize) {
        match self.run(buffers) {
            Err(LaneError::Fault { fault, thread, .. }) => (fault, thread),
            other => panic!("no fault but {other:?} of\n{}", self.p),
        }
    }
}

/// A byte view of every buffer.
pub fn args(memory: &Memory) -> Vec<Arg> {
    (0..memory.buffers.len()).map(|i| ViewArg::dense(i, Scalar::I8, &[memory.buffers[i].len() as i64]).into()).collect()
}

/// A memory of these buffers.
pub fn memory(buffers: impl IntoIterator<Item = Buffer>) -> Memory {
    let mut m = Memory::new();
    for b in buffers {
        m.add(b);
    }
    m
}

fn fragment(shape: [u32; 2], reg: &[[u32; 2]], lane: &[[u32; 2]]) -> FragmentMap {
    fn columns(list: &[[u32; 2]]) -> Vec<&[u32]> {
        list.iter().map(|c| &c[..]).collect()
    }
    FragmentMap::new(&shape, &columns(reg), &columns(lane), &[]).unwrap()
}

const FUNCTIONS: &[(UnOp, Scalar)] = {
    use Scalar::{BF16, F16, F32, F64};
    use UnOp::{Exp2, Log2, Rcp, RcpNormal, Rsqrt, Sqrt};
    &[
        (Exp2, F16),
        (Exp2, BF16),
        (Exp2, F32),
        (Exp2, F64),
        (Log2, F16),
        (Log2, BF16),
        (Log2, F32),
        (Log2, F64),
        (Sqrt, F16),
        (Sqrt, BF16),
        (Sqrt, F32),
        (Sqrt, F64),
        (Rsqrt, F16),
        (Rsqrt, BF16),
        (Rsqrt, F32),
        (Rsqrt, F64),
        (Rcp, F16),
        (Rcp, BF16),
        (Rcp, F32),
        (Rcp, F64),
        (RcpNormal, F32),
    ]
};

/// Warps of 32 lanes with everything on offer; the fragments of 16-bit, 8-bit and tf32 types are those of the PTX manual.
pub fn target() -> Target {
    const D_LANE: [[u32; 2]; 5] = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]];
    let d = fragment([16, 8], &[[0, 1], [8, 0]], &D_LANE);
    let half = |name, operand, acc| MatrixInstr {
        operand_b: operand,
        name,
        shape: [16, 8, 16],
        operand,
        acc,
        precision: Precision::Exact,
        a: fragment([16, 16], &[[0, 1], [8, 0], [0, 8]], &D_LANE),
        b: fragment([16, 8], &[[1, 0], [8, 0]], &[[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]),
        d: d.clone(),
    };
    let matrix = vec![
        half("half", Scalar::F16, Scalar::F32),
        half("bhalf", Scalar::BF16, Scalar::F32),
        half("narrow", Scalar::F16, Scalar::F16),
        MatrixInstr {
            name: "byte",
            shape: [16, 8, 32],
            operand: Scalar::I8,
            operand_b: Scalar::I8,
            acc: Scalar::I32,
            precision: Precision::Exact,
            a: fragment([16, 32], &[[0, 1], [0, 2], [8, 0], [0, 16]], &[[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]]),
            b: fragment([32, 8], &[[1, 0], [2, 0], [16, 0]], &[[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]]),
            d: d.clone(),
        },
        MatrixInstr {
            name: "tf32",
            shape: [16, 8, 8],
            operand: Scalar::F32,
            operand_b: Scalar::F32,
            acc: Scalar::F32,
            precision: Precision::Tf32,
            a: fragment([16, 8], &[[8, 0], [0, 4]], &[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]),
            b: fragment([8, 8], &[[4, 0]], &[[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]]),
            d,
        },
        // Not a real instruction: upper lanes hold copies of all operands, so that zero columns are met.
        MatrixInstr {
            name: "copies",
            shape: [4, 4, 2],
            operand: Scalar::F64,
            operand_b: Scalar::F64,
            acc: Scalar::F64,
            precision: Precision::Exact,
            a: fragment([4, 2], &[], &[[1, 0], [2, 0], [0, 1], [0, 0], [0, 0]]),
            b: fragment([2, 4], &[[1, 0]], &[[0, 1], [0, 0], [0, 2], [0, 0], [0, 0]]),
            d: fragment([4, 4], &[], &[[0, 1], [0, 2], [1, 0], [2, 0], [0, 0]]),
        },
    ];
    Target {
        early_launch: false,
        name: "test",
        lanes: 32,
        max_warps: 32,
        shared_bytes: 1 << 16,
        registers: 255,
        vector_bytes: 16,
        banks: BankModel::nvidia(),
        matrix,
        copy_async: &[4, 8, 16],
        code_casts: &[],
        functions: FUNCTIONS,
        quotients: &[Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64],
        load_matrix: true,
        machine: None,
        costs: Costs {
            alu: 8,
            special: 32,
            product: 12,
            shuffle: 16,
            step_latency: [1; 2],
            wavefront: 16,
            shared_latency: 480,
            barrier: [198, 32],
            sector: 30,
            line: 16,
            spill: 64,
            group_product: 11,
            group_operands: [256, 4],
            group_left: 208,
            group_wait: 1200,
            box_start: 1024,
            box_row: 34,
            box_sector: 13,
            chain: 1,
            global_latency: 1,
            processors: 132,
            megahertz: 1980,
            launch: 2100,
        },
        units: None,
    }
}

/// A deterministic stream of numbers.
pub struct Random(pub u64);

impl Random {
    /// The next 31-bit number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
