//! Lane programs of clusters, and of roles that meet at barriers: lane interpreter and simulator agree, the assembler has nothing to say.

use crate::common::arguments::arguments;
use crate::common::assembler::nothing_to_say;
use tilelift_interp::{Arg, Buffer, Memory, ViewArg};
use tilelift_ir::{CmpOp, GridAxis, Scalar};
use tilelift_isel::abi::marshal;
use tilelift_isel::lane::{
    AllocId, BinOp, LTy, LVal, LaneBuilder, LaneError, LaneFault, LaneOptions, Param, ParamSource, Place, Program, Reduction, RoleSpec,
    Special, TensorBox, Unit, Vals, interpret,
};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};
use tilelift_nvptx_sim as sim;

/// Elements of each view: rows of 32 `i32`.
const ROW: i64 = 32;

struct Kernel {
    b: LaneBuilder,
    lane: LVal,
    rank: LVal,
    other: LVal,
    /// Mbarriers, in use to the end.
    words: Vec<AllocId>,
}

impl Kernel {
    fn new(name: &str, warps: u32, cluster: u32) -> Kernel {
        let mut b = LaneBuilder::new(name, warps, 32);
        b.set_cluster(cluster);
        let (lane, rank) = (b.special(Special::Lane), b.special(Special::ClusterRank));
        let one = b.i32(1);
        let other = b.bin(BinOp::Xor, rank, one);
        Kernel { b, lane, rank, other, words: Vec::new() }
    }

    /// Where the lane's element of a view's row lies.
    fn element(&mut self, view: u32, row: LVal) -> LVal {
        let base = self.b.param(Param { ty: LTy::I64, source: ParamSource::Pointer(view) });
        let (columns, four) = (self.b.i32(ROW), self.b.i32(4));
        let first = self.b.mul(row, columns);
        let at = self.b.add(first, self.lane);
        self.b.mad_wide(at, four, base)
    }

    /// The number of the program instance.
    fn instance(&mut self) -> LVal {
        self.b.program_id(GridAxis::X)
    }

    /// A shared place per lane of a row, and its allocation.
    fn row(&mut self) -> (AllocId, LVal) {
        let alloc = self.b.alloc_aligned(4 * ROW as u32, 1024, "row");
        let (base, four) = (self.b.shared_addr(alloc), self.b.i32(4));
        let at = self.b.mul(self.lane, four);
        (alloc, self.b.add(base, at))
    }

    fn first(&mut self) -> LVal {
        let zero = self.b.i32(0);
        self.b.cmp(CmpOp::Eq, self.lane, zero)
    }

    /// Makes an mbarrier that all blocks see.
    fn word(&mut self, count: u32) -> LVal {
        let alloc = self.b.alloc_aligned(8, 8, "word");
        self.b.touch(alloc);
        self.words.push(alloc);
        let (addr, guard) = (self.b.shared_addr(alloc), self.first());
        self.b.unit(Unit::InitBarrier { barrier: Place { addr, offset: 0 }, count, guard: Some(guard) });
        self.b.unit(Unit::PublishBarriers);
        self.meet(true);
        addr
    }

    fn finish(mut self) -> Program {
        self.words.iter().for_each(|&w| self.b.touch(w));
        self.b.finish()
    }

    fn meet(&mut self, relaxed: bool) {
        self.b.unit(Unit::ClusterArrive { relaxed });
        self.b.unit(Unit::ClusterWait);
    }

    fn boxes(&mut self, view: u32) -> u32 {
        let spec = TensorBox {
            view,
            elem: Scalar::I32,
            rank: 2,
            order: [1, 0, 0, 0, 0],
            extents: [ROW as u32, 1, 0, 0, 0],
            swizzle: 128,
            tf32: false,
        };
        self.b.tensor_param(Param { ty: LTy::I64, source: ParamSource::Tensor(spec) })
    }
}

/// The views: `rows` rows of input, as many of output.
fn data(rows: usize) -> [Vec<u8>; 2] {
    let bytes = |f: &dyn Fn(i32) -> i32| (0..rows as i32 * ROW as i32).flat_map(|i| f(i).to_le_bytes()).collect();
    [bytes(&|i| 3 * i + 1), bytes(&|_| 7)]
}

fn args(rows: usize) -> Vec<Arg> {
    (0..2).map(|b| Arg::View(ViewArg::dense(b, Scalar::I32, &[rows as i64, ROW]))).collect()
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn defined(program: &Program, rows: usize) -> Result<Vec<i32>, LaneError> {
    let mut memory = Memory::new();
    data(rows).into_iter().for_each(|d| {
        memory.add(Buffer::from_bytes(d));
    });
    interpret(program, &sm_90a(), [rows as u32, 1, 1], &args(rows), &mut memory, &LaneOptions::default())?;
    Ok(numbers(memory.buffers[1].bytes()))
}

/// Runs text and lane program on as many instances as there are rows, and compares with what is expected of each element.
fn check(program: &Program, rows: usize, want: impl Fn(usize, i32) -> i32) {
    let kernel = emit(program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{e}\n{program}"));
    let expected: Vec<i32> = (0..rows * ROW as usize).map(|i| want(i / ROW as usize, (i % ROW as usize) as i32)).collect();
    assert_eq!(defined(program, rows).unwrap_or_else(|e| panic!("{e}\n{program}")), expected, "lanes\n{program}");
    let module = sim::Module::parse(&kernel.text).unwrap_or_else(|e| panic!("{e}\n{}", kernel.text));
    for (policy, landing) in [(sim::Policy::Lockstep, sim::Landing::Eager), (sim::Policy::Reverse, sim::Landing::Lazy)] {
        let mut device = sim::Memory::new();
        let bases: Vec<u64> =
            data(rows).into_iter().enumerate().map(|(i, d)| device.alloc(&format!("view {i}"), sim::Init::Bytes(d))).collect();
        let values = marshal(&kernel.params, [rows as u32, 1, 1], &args(rows), |b, offset| bases[b] + offset).unwrap();
        let args = arguments(&values);
        let config = sim::SimConfig { policy, landing, ..sim::SimConfig::default() };
        let (block, grid) = ([kernel.threads, 1, 1], [rows as u32, 1, 1]);
        let launch = sim::Launch { entry: &kernel.entry, grid, block, shared_bytes: kernel.shared_bytes, args: &args, config };
        module.launch(&launch, &mut device).unwrap_or_else(|e| panic!("{e}\n{}", kernel.text));
        let out = device.read(bases[1], rows * 4 * ROW as usize).unwrap().to_vec();
        assert_eq!(numbers(&out), expected, "text\n{}", kernel.text);
    }
    nothing_to_say("the text", &kernel.text, "sm_90a");
}

const fn input(row: usize, column: i32) -> i32 {
    3 * (row as i32 * ROW as i32 + column) + 1
}

/// Each block leaves its row, and takes the one of its neighbour; or puts it there at once.
fn exchange(cluster: u32, pushed: bool) -> Program {
    let mut k = Kernel::new("exchange", 1, cluster);
    let own = k.instance();
    let (from, to) = (k.element(0, own), k.element(1, own));
    let (alloc, at) = k.row();
    let v = k.b.load_global(&[LTy::I32], from, 0, None, Vals::new());
    let there = k.b.remote(Place { addr: at, offset: 0 }, k.other);
    let got = if pushed {
        k.b.touch(alloc);
        k.b.unit(Unit::RemoteStore { srcs: v, to: Place { addr: there, offset: 0 }, guard: None });
        k.meet(false);
        k.b.load_shared(&[LTy::I32], alloc, at, 0)
    } else {
        k.b.store_shared(v, alloc, at, 0, None);
        k.meet(false);
        k.b.remote_load(&[LTy::I32], Place { addr: there, offset: 0 })
    };
    k.b.store_global(got, to, 0, None);
    k.finish()
}

#[test]
fn neighbours_exchange_rows() {
    for (cluster, rows) in [(2, 4), (4, 8), (8, 8)] {
        for pushed in [false, true] {
            check(&exchange(cluster, pushed), rows, |row, c| input(row ^ 1, c));
        }
    }
}

#[test]
fn asynchronous_stores_count_at_the_other_barrier() {
    let mut k = Kernel::new("push", 1, 2);
    let word = k.word(1);
    let own = k.instance();
    let (from, to) = (k.element(0, own), k.element(1, own));
    let (alloc, at) = k.row();
    k.b.touch(alloc);
    let first = k.first();
    k.b.unit(Unit::ArriveExpect { barrier: Place { addr: word, offset: 0 }, bytes: 128, guard: Some(first) });
    let v = k.b.load_global(&[LTy::I32], from, 0, None, Vals::new());
    let there = k.b.remote(Place { addr: at, offset: 0 }, k.other);
    let barrier = k.b.remote(Place { addr: word, offset: 0 }, k.other);
    let (to_there, barrier) = (Place { addr: there, offset: 0 }, Place { addr: barrier, offset: 0 });
    k.b.unit(Unit::RemoteStoreAsync { srcs: v, to: to_there, barrier, guard: None });
    let parity = k.b.i32(0);
    k.b.unit(Unit::Wait { barrier: Place { addr: word, offset: 0 }, parity });
    let got = k.b.load_shared(&[LTy::I32], alloc, at, 0);
    k.b.store_global(got, to, 0, None);
    check(&k.finish(), 4, |row, c| input(row ^ 1, c));
}

/// A store of one block, an arrival at the other's word, a read there.
fn signal(arrives: bool) -> Program {
    let mut k = Kernel::new("signal", 1, 2);
    let word = k.word(1);
    let own = k.instance();
    let (from, to) = (k.element(0, own), k.element(1, own));
    let (alloc, at) = k.row();
    k.b.touch(alloc);
    let v = k.b.load_global(&[LTy::I32], from, 0, None, Vals::new());
    let there = k.b.remote(Place { addr: at, offset: 0 }, k.other);
    k.b.unit(Unit::RemoteStore { srcs: v, to: Place { addr: there, offset: 0 }, guard: None });
    let guard = k.first();
    let barrier = k.b.remote(Place { addr: word, offset: 0 }, k.other);
    // All lanes' stores come before the one arrival.
    k.b.barrier();
    if arrives {
        k.b.unit(Unit::RemoteArrive { barrier: Place { addr: barrier, offset: 0 }, guard: Some(guard) });
    }
    let parity = k.b.i32(0);
    k.b.unit(Unit::Wait { barrier: Place { addr: word, offset: 0 }, parity });
    let got = k.b.load_shared(&[LTy::I32], alloc, at, 0);
    k.b.store_global(got, to, 0, None);
    k.finish()
}

#[test]
fn remote_arrivals_order_remote_stores() {
    check(&signal(true), 2, |row, c| input(row ^ 1, c));
    let stuck = defined(&signal(false), 2).expect_err("nobody arrives");
    assert!(matches!(&stuck, LaneError::Fault { fault: LaneFault::Deadlock { .. }, .. }), "{stuck}");
}

#[test]
fn a_multicast_reaches_every_block_and_reductions_add() {
    let mut k = Kernel::new("spread", 1, 2);
    let (loads, stores) = (k.boxes(0), k.boxes(1));
    let word = k.word(1);
    let (alloc, _) = k.row();
    k.b.touch(alloc);
    let tile = k.b.shared_addr(alloc);
    let barrier = Place { addr: word, offset: 0 };
    let first = k.first();
    k.b.unit(Unit::ArriveExpect { barrier, bytes: 128, guard: Some(first) });
    // All blocks expect their bytes before one of them copies for both.
    k.meet(false);
    let (zero, both) = (k.b.i32(0), k.b.i32(3));
    let leader = k.b.cmp(CmpOp::Eq, k.rank, zero);
    let guard = k.b.and_guard(Some(first), Some(leader));
    let own = k.instance();
    let at = Vals::from_slice(&[zero, own]);
    let to = Place { addr: tile, offset: 0 };
    k.b.unit(Unit::BulkLoad { map: loads, to, at: at.clone(), barrier, ranks: Some(both), guard });
    k.b.unit(Unit::Wait { barrier, parity: zero });
    k.b.unit(Unit::BulkStore { map: stores, from: to, at, reduce: Some(Reduction::Add), guard: Some(first) });
    k.b.unit(Unit::CommitStores { guard: Some(first) });
    k.b.unit(Unit::WaitStoresRead { pending: 0, guard: Some(first) });
    check(&k.finish(), 4, |row, c| 7 + input(row & !1, c));
}

/// Two roles of one warp each: the second reads what the first one wrote behind a barrier of both.
fn handed_over(arrivals: bool) -> Program {
    let mut k = Kernel::new("hand_over", 2, 1);
    let (alloc, at) = k.row();
    k.b.touch(alloc);
    let spec = |name, first| RoleSpec { name, warps: (first, 1), idle: 0, replicas: 1, single: false, registers: None };
    let own = k.instance();
    let (from, to) = (k.element(0, own), k.element(1, own));
    let barrier = |wait| Unit::NamedBarrier { id: 0, warps: 2, wait };
    let giver = k.b.role(&mut (), spec("giver", 0), |_, b| {
        let v = b.load_global(&[LTy::I32], from, 0, None, Vals::new());
        b.store_shared(v, alloc, at, 0, None);
        if arrivals {
            b.unit(barrier(false));
        }
        Ok::<_, ()>(())
    });
    let taker = k.b.role(&mut (), spec("taker", 1), |_, b| {
        b.unit(barrier(true));
        let v = b.load_shared(&[LTy::I32], alloc, at, 0);
        b.store_global(v, to, 0, None);
        Ok::<_, ()>(())
    });
    k.b.roles(vec![giver.unwrap(), taker.unwrap()]);
    k.finish()
}

#[test]
fn roles_meet_at_named_barriers() {
    check(&handed_over(true), 2, input);
    let stuck = defined(&handed_over(false), 2).expect_err("nobody else comes");
    assert!(matches!(&stuck, LaneError::Fault { fault: LaneFault::Alone(_), .. }), "{stuck}");
}

#[test]
fn grids_are_multiples_and_clusters_powers_of_two() {
    assert!(matches!(defined(&exchange(2, false), 3), Err(LaneError::Cluster { cluster: 2, .. })));
    let mut odd = exchange(2, false);
    odd.cluster = 3;
    assert!(matches!(defined(&odd, 3), Err(LaneError::Verify(_))));
    odd.cluster = 1;
    assert!(matches!(defined(&odd, 3), Err(LaneError::Verify(_))), "remote memory without a cluster");
}
