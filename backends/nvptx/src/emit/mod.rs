//! The printer: one walk over the program, one string.
//!
//! ```text
//! mod       the module around the body, operands, registers, what is loaded once in front of the program
//! expand    rules to lines
//! control   loops, choices, copies of values that could not share a register
//! atomic    indivisible updates
//! memory    loads, stores, copies, cross-lane and matrix instructions
//! units     roles, mbarriers, bulk copies, matrix instructions of warpgroups
//! state     registers of values, and what is loaded once in front of the program
//! text      numbers and registers into the string
//! ```
//!
//! Constants that an instruction does not take as immediates, parameters, special registers and the start of shared memory are
//! loaded once at the top; the assembler moves or rematerialises them as it likes.

mod atomic;
mod control;
mod expand;
mod lines;
mod memory;
mod state;
mod text;
mod turns;
mod units;

use crate::analysis::{Defs, Renewal, Renewals, Webs};
use crate::class::{Class, memory_type};
use crate::error::{EmitError, Invalid, Limit, NoText};
use crate::target::{matrix_version, ptx_version};
use state::{Emitter, Top, hint};
use text::Text;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::Scalar;
use tilelift_isel::Target;
use tilelift_isel::lane::visit::blocks;
use tilelift_isel::lane::{Block, Inst, LTy, Param, ParamSource, Program, Registers, UnOp, Unit, by_slots, verify, whole_rounds};

/// What the caller may ask for beyond the program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EmitOptions {
    /// Newest PTX version that the driver takes, such as `(8, 4)`; no limit if absent. Texts for assemblers before 8.8 (CUDA 12.9) also give every sum a number
    /// in front of its loop: these take sums that begin at nothing for sums that are used between products, and wait for each product.
    pub max_version: Option<(u8, u8)>,
    /// Least program instances per multiprocessor to compile for (`.minnctapersm`).
    pub min_blocks: Option<u32>,
    /// Most registers per lane (`.maxnreg`).
    pub max_registers: Option<u32>,
}

/// A kernel as PTX text, and what its launch needs.
#[derive(Clone, PartialEq, Debug)]
pub struct PtxKernel {
    /// The module.
    pub text: String,
    /// Name of its entry.
    pub entry: String,
    /// Threads per program instance, along the first axis.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Program instances of a cluster, along x: the grid's extent there is a multiple.
    pub cluster: u32,
    /// Launch parameters in order.
    pub params: Vec<Param>,
    /// PTX version of the module.
    pub version: (u8, u8),
}

/// Prints a lane program.
///
/// # Errors
/// [`EmitError::Invalid`] for a program that its verifier refuses, [`EmitError::Unsupported`] for an operation without PTX,
/// [`EmitError::TooLarge`] for more lanes, warps or shared memory than the target has, [`EmitError::Version`] if the target needs
/// a newer PTX version than the caller allows.
pub fn emit(program: &Program, target: &Target, options: &EmitOptions) -> Result<PtxKernel, EmitError> {
    let Asked { version, eviction } = check(program, target, options)?;
    let mut version = version;
    let registers = registers(program, target, options)?;
    // Hints are left out where the caller's driver is too old for them.
    let hints = eviction && options.max_version.is_none_or(|cap| cap >= EVICTION_VERSION);
    if hints {
        version = version.max(EVICTION_VERSION);
    }
    let made = whole_rounds(program, by_slots(program));
    let program = made.as_ref().unwrap_or(program);
    let defs = Defs::new(program);
    let webs = Webs::new(program, &defs);
    let renewals = Renewals::new(program, &defs);
    let mut e = Emitter::new(program, target, &defs, &webs, &renewals);
    e.eviction = hints;
    e.begins_sums = options.max_version.is_some_and(|cap| cap < FOLLOWS_SUMS);
    e.lines = lines::lines(&program.body);
    e.entry = registers.map_or(target.registers, |r| r.entry);
    e.handed_over = program.cluster > 1 && lanes_reach_others(&program.body);
    e.block(&program.body)?;
    e.meet_at_the_end();
    let entry = identifier(&program.name);
    let text = e.module(&entry, version, options);
    taken(Decision::Text, || Told::of(format!("PTX {}.{}, {} lines", version.0, version.1, text.lines().count())));
    Ok(PtxKernel {
        text,
        entry,
        threads: program.threads(),
        shared_bytes: program.shared_bytes,
        cluster: program.cluster,
        params: program.params.clone(),
        version,
    })
}

fn check(program: &Program, target: &Target, options: &EmitOptions) -> Result<Asked, EmitError> {
    let limit = |what, need: u64, have: u64| {
        if need > have { Err(EmitError::TooLarge { what, need, have, target: target.name }) } else { Ok(()) }
    };
    if program.lanes != target.lanes {
        return Err(EmitError::Invalid(Invalid::Lanes { got: program.lanes, want: target.lanes, target: target.name }));
    }
    limit(Limit::Warps, program.warps.into(), target.max_warps.into())?;
    limit(Limit::SharedBytes, program.shared_bytes.into(), target.shared_bytes.into())?;
    verify(program, target).map_err(|e| EmitError::Invalid(Invalid::Program(Box::new(e))))?;
    let need = ptx_version(target.name).ok_or(EmitError::Unsupported(NoText::Target(target.name)))?;
    let mut asked = Asked { version: need, eviction: false };
    asked.look(&program.body, target);
    match options.max_version {
        Some(cap) if cap < asked.version => Err(EmitError::Version { need: asked.version, cap, target: target.name }),
        Some(_) | None => Ok(asked),
    }
}

/// What lanes have at the start under the caller's limits; checks that all warps get what they ask for.
fn registers(program: &Program, target: &Target, options: &EmitOptions) -> Result<Option<Registers>, EmitError> {
    let Some(units) = &target.units else { return Ok(None) };
    let mut all = Registers::of(target, units, program.warps);
    if let Some(n) = options.min_blocks {
        all = all.at_most(units.registers.total / (n.max(1) * program.threads()).max(1));
    }
    if let Some(n) = options.max_registers {
        all = all.at_most(n);
    }
    all.check(program).map_err(EmitError::Registers)?;
    Ok(Some(all))
}

/// True if roles change the number of their registers.
fn moves(program: &Program) -> bool {
    program.roles().is_some_and(|r| r.roles.iter().any(|r| r.registers.is_some()))
}

/// The PTX version whose assembler sees that sums which begin at nothing are nobody's in front of their loop (12.8 warns of them, C7515; 12.9 does not).
const FOLLOWS_SUMS: (u8, u8) = (8, 8);

/// What instructions ask of the version.
struct Asked {
    /// The newest that something asks for.
    version: (u8, u8),
    /// Some access asks for an eviction priority.
    eviction: bool,
}

impl Asked {
    fn look(&mut self, block: &Block, target: &Target) {
        for inst in block {
            let version = match inst {
                Inst::Matrix(m) => matrix_version(target.matrix_instr(m.instr).operand),
                Inst::Unit(u) if matches!(**u, Unit::RemoteStoreAsync { .. }) => Some((8, 1)),
                Inst::Un { op: UnOp::EncodeE4M3 | UnOp::EncodeE5M2 | UnOp::DecodeE4M3 | UnOp::DecodeE5M2 | UnOp::DecodeE4M3x2, .. }
                | Inst::CvtE4M3x2 { .. }
                | Inst::CvtE5M2x2 { .. } => Some((8, 1)),
                Inst::LoadGlobal { cache, .. } | Inst::StoreGlobal { cache, .. } => {
                    self.eviction |= hint(*cache).starts_with(".L1");
                    continue;
                }
                other => {
                    blocks(other).for_each(|b| self.look(b, target));
                    continue;
                }
            };
            self.version = version.map_or(self.version, |v| v.max(self.version));
        }
    }
}

/// True if lanes load or store shared memory of other blocks: then barriers between blocks hand over what lanes wrote. Copies by units count
/// their bytes themselves.
fn lanes_reach_others(block: &Block) -> bool {
    block.iter().any(|inst| match inst {
        Inst::Unit(u) => matches!(**u, Unit::RemoteLoad { .. } | Unit::RemoteStore { .. } | Unit::RemoteStoreAsync { .. }),
        Inst::For(l) => lanes_reach_others(&l.body),
        Inst::While(l) => [&l.test, &l.body].into_iter().any(lanes_reach_others),
        Inst::If(c) => [&c.then, &c.otherwise].into_iter().any(lanes_reach_others),
        Inst::Roles(r) => r.roles.iter().any(|r| lanes_reach_others(&r.body)),
        _ => false,
    })
}

/// Names that the assembler takes for something else where an entry's name stands: a constant of the machine, words of `.loc`, a variable
/// of its own, and the shared memory of our texts. Names of opcodes, types, directives and special registers are free.
const TAKEN: &[&str] = &["WARP_SZ", "function_name", "inlined_at", "A7", "smem"];

/// A PTX identifier made of a kernel's name: the name itself, or `k_` and the name where PTX does not let an entry have it.
fn identifier(name: &str) -> String {
    let mut id: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if !id.starts_with(|c: char| c.is_ascii_alphabetic()) || TAKEN.contains(&id.as_str()) {
        id.insert_str(0, "k_");
    }
    id
}

/// The PTX version that has eviction priorities.
const EVICTION_VERSION: (u8, u8) = (7, 4);

impl Emitter<'_> {
    fn block(&mut self, block: &Block) -> Result<(), EmitError> {
        self.block_with(block, None)
    }

    /// A block of a loop that may renew registers.
    fn block_with(&mut self, block: &Block, renewal: Option<&Renewal>) -> Result<(), EmitError> {
        self.blocks += 1;
        self.open.push(self.blocks);
        let mut prepared = 0;
        for (at, inst) in block.iter().enumerate() {
            if let Some(r) = renewal.filter(|r| r.before == at) {
                self.renew(r);
            }
            if at >= prepared {
                prepared = self.prepare(block, at)?;
            }
            if at >= prepared {
                self.inst(inst)?;
            }
        }
        self.open.pop();
        Ok(())
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), EmitError> {
        if !self.defs.printed(inst) {
            return Ok(());
        }
        match inst {
            Inst::Undefined { dst } => {
                self.undefined.insert(*dst);
                Ok(())
            }
            Inst::Const { .. } | Inst::Param { .. } | Inst::Special { .. } | Inst::SharedAddr { .. } => Ok(()),
            Inst::Unit(u) => self.unit(u),
            Inst::Roles(r) => self.roles(r),
            Inst::Pack { dst, parts } => self.pack(*dst, parts),
            Inst::Unpack { dsts, a } => self.unpack(dsts, *a),
            Inst::Divide { dsts, a, b } => {
                self.divide(dsts, a, b);
                Ok(())
            }
            Inst::LoadGlobal { dsts, addr, offset, guard, other, cache } => {
                self.load_global(dsts, (*addr, *offset), *guard, other, *cache);
                Ok(())
            }
            Inst::Prefetch { addr, offset, guard } => {
                if self.start(*guard, "prefetch.global.L2 ") {
                    self.address(*addr, *offset);
                    self.body.end();
                }
                Ok(())
            }
            Inst::Atomic(a) => {
                self.atomic(a);
                Ok(())
            }
            Inst::LoadShared { dsts, addr, offset } => {
                self.load_vector("ld.shared", dsts, *addr, *offset, None);
                Ok(())
            }
            Inst::StoreGlobal { srcs, addr, offset, guard, cache } => {
                self.store(&format!("st.global{}", self.hint(*cache)), srcs, *addr, *offset, *guard);
                Ok(())
            }
            Inst::StoreShared { srcs, addr, offset, guard } => {
                self.store("st.shared", srcs, *addr, *offset, *guard);
                Ok(())
            }
            Inst::LoadMatrix { dsts, addr, offset, trans } => {
                self.load_matrix(dsts, *addr, *offset, *trans);
                Ok(())
            }
            Inst::CopyAsync { shared, offset, global, global_offset, bytes, valid } => {
                self.copy_async((*shared, *offset), (*global, *global_offset), *bytes, *valid);
                Ok(())
            }
            Inst::CommitCopies => {
                self.body.op("cp.async.commit_group").end();
                Ok(())
            }
            Inst::WaitCopies { pending } => {
                self.body.op("cp.async.wait_group ").n(*pending).end();
                Ok(())
            }
            Inst::Assert { condition } => {
                let p = self.reg(*condition);
                self.body.s("\t@!").r(p).s(" trap").end();
                Ok(())
            }
            Inst::Barrier => {
                self.barrier();
                Ok(())
            }
            Inst::Redux { dst, op, a } => {
                self.redux(*dst, *op, *a);
                Ok(())
            }
            Inst::Shuffle { dst, a, from } => {
                self.shuffle(*dst, *a, *from);
                Ok(())
            }
            Inst::Matrix(m) => {
                self.matrix(&m.dsts, m.instr, &m.a, &m.b, &m.c);
                Ok(())
            }
            Inst::For(l) => self.for_loop(l),
            Inst::While(l) => self.while_loop(l),
            Inst::If(i) => self.choice(i),
            // What makes one value of others has a rule.
            _ => self.compute(inst),
        }
    }

    /// The module around the body.
    fn module(mut self, entry: &str, version: (u8, u8), options: &EmitOptions) -> String {
        let mut t = Text::with_capacity(self.top.len() + 2048);
        t.s(".version ").n(version.0).s(".").n(version.1).s("\n.target ").s(self.target.name).s("\n.address_size 64\n");
        let shared = self.program.shared_bytes > 0 || self.loaded.contains_key(&Top::Shared(0));
        if shared {
            for a in self.program.allocs.values() {
                t.s("// shared ").n(a.offset).s("..").n(u64::from(a.offset + a.bytes) as i64).s(" ").s(a.purpose).s("\n");
            }
            t.s(".extern .shared .align 1024 .b8 smem[];\n");
        }
        t.s(".visible .entry ").s(entry).s("(");
        for (i, p) in self.program.params.iter().enumerate() {
            if matches!(p.source, ParamSource::Tensor(_)) {
                t.s(if i > 0 { ",\n\t.param " } else { "\n\t.param " }).s(".align 64 .b8 p").n(i as i64).s("[128]");
                continue;
            }
            let ty = match p.ty {
                LTy::I1 | LTy::Num(Scalar::I8) => ".u8",
                LTy::Num(_) | LTy::B32 => memory_type(p.ty),
            };
            t.s(if i > 0 { ",\n\t.param " } else { "\n\t.param " }).s(ty).s(" p").n(i as i64);
        }
        t.s(")\n.reqntid ").n(self.program.threads()).s(", 1, 1\n");
        if self.program.cluster > 1 {
            t.s(".reqnctapercluster ").n(self.program.cluster).s(", 1, 1\n.explicitcluster\n");
        }
        // Registers move between roles only if their number at the start is known, which takes this line.
        let moves = moves(self.program);
        if let Some(n) = options.min_blocks.or(moves.then_some(1)) {
            t.s(".minnctapersm ").n(n).s("\n");
        }
        // What a program starts with is what roles count with.
        if let Some(n) = options.max_registers.map(|n| if moves { self.entry } else { n }) {
            t.s(".maxnreg ").n(n).s("\n");
        }
        t.s("{\n");
        for class in Class::ALL {
            let n = self.count[class as usize];
            if n > 0 {
                t.s("\t.reg ").s(class.declared()).s(" ").s(class.prefix()).s("<").n(n + 1).s(">;\n");
            }
        }
        t.text(&self.top);
        // The body is most of it, and stays where it is.
        self.body.s("\tret;\n").text(&self.rare).s("}\n");
        self.body.behind(&t);
        self.body.finish()
    }
}
