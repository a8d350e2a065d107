//! What a step of a product's loop costs a wavefront, counted in the simulator: a launch over twice the depth executes the loop's steps and nothing else
//! besides, so differences of counts are those of steps.

use tilelift_amdgcn_sim::{ArgumentKind, Descriptor, Fault, Init, Kernel, Launch, Memory, Module, Report, SimConfig};
use tilelift_lane::{Param, ParamSource};

/// The head of the table whose lines [`Row::line`] gives.
pub(crate) const HEAD: [&str; 2] = [
    "| tile, of f16 | matrix instructions | their cycles | others | others per cycle | vector | LDS | conflicts | scratch | LDS bytes | registers | waves per SIMD | estimate | shared |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
];

/// Depth of a step, and depths of two launches.
pub(crate) const STEP: u32 = 64;
pub(crate) const DEPTHS: [u32; 2] = [256, 512];
/// Vector registers of a lane that the wavefronts of a SIMD share, and SIMDs of a unit.
const REGISTERS: u32 = 512;
const SIMDS: u32 = 4;
/// Cycles of a pass of a matrix instruction.
const PASS: u64 = 4;

/// A compiled product of one tile.
pub(crate) struct Product {
    pub(crate) name: String,
    pub(crate) object: Vec<u8>,
    pub(crate) entry: String,
    pub(crate) size: u32,
    pub(crate) waves: u32,
    pub(crate) dynamic_lds: u32,
    /// Bytes of local data share of a unit.
    pub(crate) unit_lds: u32,
    /// Arguments behind the pointers to A, B and C, for a depth, in the order of the metadata.
    pub(crate) args: Box<dyn Fn([u64; 3], u32) -> Vec<u64>>,
}

/// What our kernel of a product takes, for matrices that begin there and are dense, of these extents.
pub(crate) fn arguments(params: &[Param], pointers: &[u64], extents: &[[u32; 2]]) -> Vec<u64> {
    let value = |source: &ParamSource| match *source {
        ParamSource::Pointer(n) => pointers[n as usize],
        ParamSource::Extent(n, d) => u64::from(extents[n as usize][d as usize]),
        ParamSource::Stride(n, 0) => u64::from(extents[n as usize][1]),
        ParamSource::Grid(_) | ParamSource::Stride(..) => 1,
        ref other => panic!("no such argument: {other:?}"),
    };
    params.iter().map(|p| value(&p.source)).collect()
}

/// What a step costs a wavefront, and what the kernel takes.
pub(crate) struct Row {
    pub(crate) matrix: u64,
    /// Those of them of wavefronts whose priority is raised.
    pub(crate) raised: u64,
    pub(crate) cycles_of_matrix: u64,
    pub(crate) others: u64,
    pub(crate) vector: u64,
    pub(crate) lds: u64,
    pub(crate) conflicts: u64,
    pub(crate) estimate: u64,
    /// The estimate of a workgroup whose wavefronts share a compute unit.
    pub(crate) shared: u64,
    pub(crate) scratch: u32,
    pub(crate) lds_bytes: u32,
    pub(crate) registers: u32,
    pub(crate) occupancy: u32,
}

impl Product {
    /// Runs over a depth with all ones, and sees that the product is right.
    fn run(&self, module: &Module, depth: u32) -> Report {
        let (report, right) = self.launched(module, depth).unwrap_or_else(|f| panic!("{}: {f}", self.name));
        assert!(right, "{}: the product is wrong", self.name);
        report
    }

    /// Runs over a depth with all ones: what was counted, and whether the product is right.
    pub(crate) fn launched(&self, module: &Module, depth: u32) -> Result<(Report, bool), Box<Fault>> {
        let mut memory = Memory::new();
        let ones = |n: u32| Init::Bytes((0..n).flat_map(|_| 0x3c00u16.to_le_bytes()).collect());
        let a = memory.alloc("a", ones(self.size * depth));
        let b = memory.alloc("b", ones(self.size * depth));
        let bytes = 2 * (self.size * self.size) as usize;
        let c = memory.alloc("c", Init::Uninit(bytes));
        let kernel = module.kernel(&self.entry).expect("the kernel");
        let args = segment(kernel, (self.args)([a, b, c], depth));
        let block = [64 * self.waves, 1, 1];
        let dynamic_lds = self.dynamic_lds;
        let launch = Launch { kernel: &self.entry, grid: [1, 1, 1], block, dynamic_lds, args: &args, config: SimConfig::default() };
        let report = module.launch(&launch, &mut memory)?;
        let out = memory.read(c, bytes).expect("the output");
        // 256 and 512 as f16.
        let want = if depth == DEPTHS[0] { 0x5c00u16 } else { 0x6000 };
        Ok((report, out.chunks(2).all(|x| x == want.to_le_bytes())))
    }

    pub(crate) fn row(&self) -> Row {
        let module = Module::load(&self.object).expect("a code object");
        let d = &module.kernel(&self.entry).expect("the kernel").descriptor;
        let runs = DEPTHS.map(|depth| self.run(&module, depth));
        let steps = (DEPTHS[1] - DEPTHS[0]) / STEP;
        Row::of(
            [&runs[0], &runs[1]],
            steps,
            &Resources { waves: self.waves, lds_bytes: d.lds_bytes + self.dynamic_lds, unit_lds: self.unit_lds },
            d,
        )
    }
}

/// What a workgroup takes.
pub(crate) struct Resources {
    pub(crate) waves: u32,
    /// Bytes of local data share.
    pub(crate) lds_bytes: u32,
    /// Those of a unit.
    pub(crate) unit_lds: u32,
}

/// The segment of arguments of a kernel, whose arguments have these values, in the order of the metadata.
pub(crate) fn segment(kernel: &Kernel, values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut args = vec![0; kernel.descriptor.kernarg_bytes as usize];
    let declared = kernel.arguments.iter().filter(|a| matches!(a.kind, ArgumentKind::Buffer | ArgumentKind::Value));
    for (argument, value) in declared.zip(values) {
        args.resize(args.len().max((argument.offset + argument.size) as usize), 0);
        args[argument.offset as usize..][..argument.size as usize].copy_from_slice(&value.to_le_bytes()[..argument.size as usize]);
    }
    args
}

impl Row {
    /// What a step costs, of the reports of two launches, the longer one of so many steps more.
    pub(crate) fn of([short, long]: [&Report; 2], steps: u32, taken: &Resources, d: &Descriptor) -> Row {
        let Resources { waves, lds_bytes, unit_lds } = *taken;
        let each = |of: fn(&Report) -> u64| (of(long) - of(short)) / u64::from(steps * waves);
        let by_registers = REGISTERS / d.registers.next_multiple_of(8).max(1);
        let groups = (by_registers * SIMDS / waves).min(unit_lds / lds_bytes.max(1));
        Row {
            matrix: each(|r| r.matrix),
            raised: each(|r| r.matrix_raised),
            cycles_of_matrix: PASS * each(|r| r.matrix_passes),
            others: each(|r| r.instructions - r.matrix),
            vector: each(|r| r.vector),
            lds: each(|r| r.lds),
            conflicts: each(|r| r.lds_conflict_cycles),
            estimate: (long.longest_wave - short.longest_wave) / u64::from(steps),
            shared: (long.longest_group - short.longest_group) / u64::from(steps),
            scratch: d.scratch_bytes,
            lds_bytes,
            registers: d.registers,
            occupancy: groups * waves / SIMDS,
        }
    }
}

impl Row {
    pub(crate) fn line(&self, name: &str) -> String {
        let r = self;
        let share = r.others as f64 / r.cycles_of_matrix as f64;
        format!(
            "| {name} | {} | {} | {} | {share:.3} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            r.matrix,
            r.cycles_of_matrix,
            r.others,
            r.vector,
            r.lds,
            r.conflicts,
            r.scratch,
            r.lds_bytes,
            r.registers,
            r.occupancy,
            r.estimate,
            r.shared
        )
    }
}
