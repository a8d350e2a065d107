//! A launch: what is asked for, the initial state of waves, and the order in which waves run.

use crate::check::flight::Flight;
use crate::check::hazard::Hazards;
use crate::chip::Chip;
use crate::decode::inst::{EXEC, FLAT_SCRATCH, Inst};
use crate::fault::{Fault, FaultKind, LaunchError, Site};
use crate::object::{ArgumentKind, Descriptor, Kernel, Module};
use crate::record::{Recording, What};
use crate::report::{Clock, Report, Shared};
use crate::state::device::{ARGS_BASE, Device, PACKET_BASE, SCRATCH_PAGE};
use crate::state::lds::Lds;
use crate::state::memory::{Init, Memory, Region};
use crate::state::races::Races;
use crate::state::wave::{Status, Wave};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// In which order waves run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// By the seed, as is how long each runs before another does.
    #[default]
    Random,
    /// In turns, an instruction each.
    Turns,
}

/// How a launch is simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct SimConfig {
    /// Chooses the order of waves and how long each runs before another does.
    pub seed: u64,
    /// Instructions of all waves together before the launch counts as hanging.
    pub max_steps: u64,
    /// Workgroups that run at the same time.
    pub resident: usize,
    /// Look for races on global memory; those on LDS are always looked for.
    pub global_races: bool,
    /// Run these workgroups only, by their numbers.
    pub workgroups: Option<Vec<u64>>,
    /// In which order waves run.
    pub order: Order,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig { seed: 0, max_steps: 2_000_000_000, resident: 4, global_races: true, workgroups: None, order: Order::Random }
    }
}

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// Workgroups along each axis.
    pub grid: [u32; 3],
    /// Work items of a workgroup along each axis.
    pub block: [u32; 3],
    /// LDS beside what the descriptor asks for.
    pub dynamic_lds: u32,
    /// The segment of arguments. Hidden arguments are filled in.
    pub args: &'a [u8],
    /// How it is simulated.
    pub config: SimConfig,
}

/// A workgroup that runs.
pub(super) struct Group {
    pub number: u64,
    pub id: [u32; 3],
    pub lds: Lds,
    pub waves: Vec<Wave>,
    /// Its estimate.
    pub shared: Shared,
}

/// Decoded instructions by address.
pub(super) type Cache = FxHashMap<u64, Rc<Inst>>;

/// A generator of the orders (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

fn refuse(e: LaunchError) -> Box<Fault> {
    Box::new(Fault { kind: FaultKind::BadLaunch(e), site: None })
}

/// The segment of arguments with the hidden ones filled in.
fn arguments(kernel: &Kernel, launch: &Launch<'_>) -> Result<Vec<u8>, Box<Fault>> {
    let explicit = kernel.arguments.iter().filter(|a| matches!(a.kind, ArgumentKind::Buffer | ArgumentKind::Value));
    let needed = explicit.map(|a| a.offset as usize + a.size as usize).max().unwrap_or(0);
    if launch.args.len() < needed {
        return Err(refuse(LaunchError::Arguments { given: launch.args.len(), needed }));
    }
    // What is behind the segment may be loaded with it.
    let mut bytes = launch.args.to_vec();
    bytes.resize(bytes.len().max(kernel.descriptor.kernarg_bytes as usize).next_multiple_of(64) + 64, 0);
    for a in &kernel.arguments {
        let axis = |v: [u32; 3], x: u8| u64::from(v[usize::from(x)]);
        let value = match a.kind {
            ArgumentKind::Buffer | ArgumentKind::Value => continue,
            ArgumentKind::BlockCount(x) => axis(launch.grid, x),
            ArgumentKind::GroupSize(x) => axis(launch.block, x),
            ArgumentKind::GridDims => 3,
            ArgumentKind::Remainder(_) | ArgumentKind::GlobalOffset(_) | ArgumentKind::Zero => 0,
        };
        let (at, n) = (a.offset as usize, (a.size as usize).min(8));
        if let Some(to) = bytes.get_mut(at..at + n) {
            to.copy_from_slice(&value.to_le_bytes()[..n]);
        }
    }
    Ok(bytes)
}

/// The packet that dispatched the kernel.
fn packet(launch: &Launch<'_>) -> Vec<u8> {
    let mut p = vec![0u8; 64];
    for i in 0..3 {
        p[4 + 2 * i..6 + 2 * i].copy_from_slice(&(launch.block[i] as u16).to_le_bytes());
        p[12 + 4 * i..16 + 4 * i].copy_from_slice(&launch.grid[i].wrapping_mul(launch.block[i]).to_le_bytes());
    }
    p[40..48].copy_from_slice(&ARGS_BASE.to_le_bytes());
    p
}

/// Waves with scratch memory of their own: those that run at the same time.
const SCRATCH_PLACES: u64 = 64;

/// Bytes of scratch memory of a wave.
fn scratch_bytes(d: &Descriptor) -> u64 {
    const LANES: u64 = 64;
    const GRANULE: u64 = 1024;
    if d.scratch { (LANES * u64::from(d.scratch_bytes)).next_multiple_of(GRANULE) } else { 0 }
}

/// Where the scratch memory of all waves begins: not at a wave's, and such that the sum with some waves' bytes has a carry from its lower half.
fn scratch_base(d: &Descriptor) -> u64 {
    SCRATCH_PAGE - 2 * scratch_bytes(d)
}

/// The registers that are set before the start, from the first user SGPR on; nothing for those that are not known.
fn user_registers(kernel: &Kernel, args: &[u8], id: [u32; 3]) -> Result<Vec<Option<u32>>, Box<Fault>> {
    let d = &kernel.descriptor;
    let has = |bit: u32| d.properties >> bit & 1 != 0;
    let mut s = Vec::new();
    let pair = |s: &mut Vec<Option<u32>>, v: u64| s.extend([v as u32, (v >> 32) as u32].map(Some));
    if has(0) {
        // A buffer of scratch, which is not simulated: what uses it uses what is undefined.
        s.extend([None; 4]);
    }
    if has(1) {
        pair(&mut s, PACKET_BASE);
    }
    if has(2) {
        pair(&mut s, 0);
    }
    if has(3) {
        pair(&mut s, ARGS_BASE);
    }
    if has(4) {
        pair(&mut s, 0);
    }
    if has(5) {
        pair(&mut s, scratch_base(d));
    }
    if has(6) {
        s.push(Some(d.scratch_bytes));
    }
    for i in 0..d.preload.0 {
        let at = 4 * (d.preload.1 + i) as usize;
        let bytes = args.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]);
        s.push(Some(u32::from_le_bytes(bytes)));
    }
    // What the device adds begins behind as many as the descriptor counts.
    if (d.user_sgprs as usize) < s.len() {
        return Err(refuse(LaunchError::UserRegisters { counted: d.user_sgprs, asked: s.len() as u32 }));
    }
    s.resize(d.user_sgprs as usize, Some(0));
    for (on, v) in d.workgroup_ids.into_iter().zip(id) {
        if on {
            s.push(Some(v));
        }
    }
    if d.workgroup_info {
        s.push(Some(0));
    }
    if s.len() >= 100 {
        return Err(refuse(LaunchError::Register("more than there are")));
    }
    Ok(s)
}

/// A wave of a workgroup. `number` is its number among all waves of the launch.
fn wave(device: &Device<'_>, kernel: &Kernel, launch: &Launch<'_>, user: &[Option<u32>], (index, number): (u32, u64)) -> Wave {
    let d = &kernel.descriptor;
    let registers = d.registers.max(d.accum_offset) as usize;
    let scratch = if d.scratch { d.scratch_bytes as usize * 64 } else { 0 };
    // On MI200 kernels get the wave's offset, and add it to the address of all waves' memory themselves.
    let offset = (device.chip == Chip::Gfx90a && d.scratch).then(|| (number % SCRATCH_PLACES + 1) * scratch_bytes(d));
    let mut w = Wave {
        index,
        pc: kernel.entry,
        status: Status::Ready,
        s: [0; 128],
        s_defined: [0; 128],
        v: vec![[0xcdcd_cdcd; 64]; registers],
        v_defined: vec![0; registers],
        accum: d.accum_offset as usize,
        scc: false,
        scc_defined: false,
        mode: u32::from(d.float_mode),
        scratch_address: offset.map(|offset| scratch_base(d) + offset),
        scratch: vec![0xcd; scratch],
        scratch_defined: vec![false; scratch],
        flight: Flight::new(registers),
        hazards: Hazards::new(device.chip, registers),
        priority: 0,
        cycles: Clock::default(),
        steps: 0,
    };
    for (i, &v) in user.iter().chain(&offset.map(|offset| Some(offset as u32))).enumerate() {
        w.set_s(i as u8, v.unwrap_or(0xcdcd_cdcd), if v.is_some() { u32::MAX } else { 0 });
    }
    if device.chip != Chip::Gfx90a {
        w.set_s64(FLAT_SCRATCH, 0, u64::MAX);
    }
    let items = launch.block.iter().product::<u32>();
    let mut exec = 0u64;
    for lane in 0..64u32 {
        let item = index * 64 + lane;
        if item >= items {
            continue;
        }
        exec |= 1 << lane;
        let [bx, by, _] = launch.block;
        let (x, y, z) = (item % bx, item / bx % by, item / bx / by);
        w.set_v(0, lane as usize, x | y << 10 | z << 20, true);
    }
    w.set_s64(EXEC, exec, u64::MAX);
    w
}

impl Module {
    /// Runs a launch to its end, changing `memory`.
    ///
    /// # Errors
    /// The first fault; `memory` is then as it was at that moment.
    pub fn launch(&self, launch: &Launch<'_>, memory: &mut Memory) -> Result<Report, Box<Fault>> {
        self.run(launch, memory, None)
    }

    /// As [`Module::launch`], and takes down what happens, up to a fault if there is one.
    ///
    /// # Errors
    /// As [`Module::launch`].
    pub fn launch_recorded(&self, launch: &Launch<'_>, memory: &mut Memory, recording: &mut Recording) -> Result<Report, Box<Fault>> {
        self.run(launch, memory, Some(recording))
    }

    fn run(&self, launch: &Launch<'_>, memory: &mut Memory, recording: Option<&mut Recording>) -> Result<Report, Box<Fault>> {
        let kernel = self.kernel(launch.kernel).ok_or_else(|| Fault { kind: FaultKind::NoKernel(launch.kernel.to_owned()), site: None })?;
        let items: u64 = launch.block.iter().map(|&b| u64::from(b)).product();
        let most = kernel.max_workgroup.min(1024);
        if items == 0 || items > u64::from(most) || launch.grid.contains(&0) {
            return Err(refuse(LaunchError::Shape { items, most }));
        }
        let lds_bytes = u64::from(kernel.descriptor.lds_bytes) + u64::from(launch.dynamic_lds);
        if lds_bytes > u64::from(self.chip().lds_bytes()) {
            return Err(refuse(LaunchError::Lds { bytes: lds_bytes }));
        }
        let args = arguments(kernel, launch)?;
        let constants =
            [Region::new("arguments", ARGS_BASE, Init::Bytes(args)), Region::new("packet", PACKET_BASE, Init::Bytes(packet(launch)))];
        let mut device = Device {
            chip: self.chip(),
            memory,
            module: self,
            constants,
            races: launch.config.global_races.then(Races::default),
            report: Report::default(),
            record: recording.is_some().then(Recording::new),
        };
        let run = Run { kernel, launch, lds_bytes: lds_bytes as usize, waves: items.div_ceil(64) as u32 };
        let done = run.all(&mut device);
        if let (Some(place), Some(made)) = (recording, device.record.take()) {
            *place = made;
        }
        done.map(|()| device.report)
    }
}

struct Run<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    lds_bytes: usize,
    waves: u32,
}

impl Run<'_> {
    fn group(&self, device: &Device<'_>, number: u64) -> Result<Group, Box<Fault>> {
        let [gx, gy, _] = self.launch.grid.map(u64::from);
        let id = [(number % gx) as u32, (number / gx % gy) as u32, (number / gx / gy) as u32];
        let user = user_registers(self.kernel, &device.constants[0].bytes, id)?;
        let first = number * u64::from(self.waves);
        let waves = (0..self.waves).map(|i| wave(device, self.kernel, self.launch, &user, (i, first + u64::from(i)))).collect();
        Ok(Group { number, id, lds: Lds::new(self.lds_bytes), waves, shared: Shared::new(self.waves as usize) })
    }

    fn all(&self, device: &mut Device<'_>) -> Result<(), Box<Fault>> {
        let total: u64 = self.launch.grid.iter().map(|&g| u64::from(g)).product();
        let numbers: Vec<u64> = match &self.launch.config.workgroups {
            Some(list) => list.iter().copied().filter(|&n| n < total).collect(),
            None => (0..total).collect(),
        };
        let mut waiting = numbers.into_iter();
        let mut random = Random(self.launch.config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut cache = Cache::default();
        let mut active: Vec<Group> = Vec::new();
        let mut left = self.launch.config.max_steps;
        let order = self.launch.config.order;
        let mut turn = 0usize;
        loop {
            while active.len() < self.launch.config.resident.max(1) {
                let Some(n) = waiting.next() else { break };
                active.push(self.group(device, n)?);
                if let Some(r) = &mut device.record {
                    r.push(n, 0, What::Begin { waves: self.waves });
                }
            }
            if active.is_empty() {
                return Ok(());
            }
            turn = turn.wrapping_add(1);
            let g = if order == Order::Turns { turn % active.len() } else { random.below(active.len()) };
            let group = &mut active[g];
            let ready: Vec<usize> = (0..group.waves.len()).filter(|&i| group.waves[i].status == Status::Ready).collect();
            if ready.is_empty() {
                if group.passed(device)? {
                    let mut group = active.swap_remove(g);
                    device.report.group_done(group.waves.iter().map(|w| w.cycles), &mut group.shared);
                }
                continue;
            }
            let (w, stretch) = match order {
                // The one that is furthest behind.
                Order::Turns => (ready.iter().copied().min_by_key(|&w| group.waves[w].steps).unwrap_or(0), 1),
                // Sometimes one instruction, mostly a stretch, sometimes to the next barrier.
                Order::Random => (ready[random.below(ready.len())], [1, 7, 40, 300, u64::MAX][random.below(5)]),
            };
            left =
                group.run(device, self.kernel, &mut cache, w, stretch, left).map_err(|kind| group.fault(&cache, w, kind, self.launch))?;
        }
    }
}

impl Group {
    /// All waves wait or have ended: passes the barrier, or tells that the workgroup is done.
    fn passed(&mut self, device: &mut Device<'_>) -> Result<bool, Box<Fault>> {
        let at = |s: Status| self.waves.iter().filter(move |w| w.status == s).map(|w| w.index).collect::<Vec<_>>();
        let (waiting, ended) = (at(Status::AtBarrier), at(Status::Ended));
        if waiting.is_empty() {
            return Ok(true);
        }
        if !ended.is_empty() {
            return Err(Box::new(Fault { kind: FaultKind::Deadlock { waiting, ended }, site: None }));
        }
        self.lds.epoch += 1;
        Clock::join(self.waves.iter_mut().map(|w| &mut w.cycles));
        self.shared.barrier();
        self.waves.iter_mut().for_each(|w| w.status = Status::Ready);
        device.report.barriers += 1;
        if let Some(r) = &mut device.record {
            r.push(self.number, 0, What::Passed);
        }
        Ok(false)
    }

    fn run(
        &mut self,
        device: &mut Device<'_>,
        kernel: &Kernel,
        cache: &mut Cache,
        wave: usize,
        stretch: u64,
        left: u64,
    ) -> Result<u64, FaultKind> {
        let mut left = left;
        for _ in 0..stretch {
            if self.waves[wave].status != Status::Ready {
                break;
            }
            if left == 0 {
                return Err(FaultKind::StepLimit { steps: self.waves[wave].steps });
            }
            left -= 1;
            self.step(device, kernel, cache, wave)?;
        }
        Ok(left)
    }

    fn fault(&self, cache: &Cache, wave: usize, kind: FaultKind, launch: &Launch<'_>) -> Box<Fault> {
        let kind = match kind {
            FaultKind::StepLimit { .. } => FaultKind::StepLimit { steps: launch.config.max_steps },
            // The number of the workgroup is known here only.
            FaultKind::Race { memory, address, lane, write, other_write, other_pending, other: Some((u32::MAX, w)) } => {
                FaultKind::Race { memory, address, lane, write, other_write, other_pending, other: Some((self.number as u32, w)) }
            }
            kind => kind,
        };
        let pc = self.waves[wave].pc;
        let text = cache.get(&pc).map_or_else(|| "?".to_owned(), |i| i.to_string());
        Box::new(Fault { kind, site: Some(Site { pc, text, workgroup: self.id, wave: wave as u32 }) })
    }
}
