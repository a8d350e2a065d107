//! Programs written instruction by instruction.

use super::machine::target;
use crate::frame::{Alloc, Param, ParamSource};
use crate::inst::Inst;
use crate::interp::{LaneError, LaneFault, LaneOptions, LaneStats, interpret};
use crate::op::BinOp;
use crate::program::Program;
use crate::value::{LTy, LVal, Special, Vals};
use cranelift_entity::PrimaryMap;
use tilelift_interp::{Arg, Buffer, Memory, ViewArg};
use tilelift_ir::{GridAxis, Scalar};

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
                positions: [1; 3],
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
        let alloc = self.p.allocs.push(Alloc { bytes, align: 16, offset, region_bytes: 0, slot: 0, name: None, purpose: "test" });
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
