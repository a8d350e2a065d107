//! Faults of registers, planted into programs whose roles change theirs, automatically specialised ones and explicit ones: the proof and the
//! verifier refuse every one, and the simulator, which sees nothing but the text, stops at the same fault of that.

use crate::common::launch::{run, schedule, simulate_text};
use tilelift_ir::Scalar;
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{Inst, Program, Registers, Role, verify as verify_lane};
use tilelift_isel::{LowerOptions, ScheduleKind, lower, prove};
use tilelift_kernels::workload::{AttentionCase, GemmCase, Workload};
use tilelift_kernels::{Attention, Case, Gemm, Size, explicit};
use tilelift_nvptx::{EmitOptions, PtxKernel, emit, sm_90a};
use tilelift_nvptx_sim as sim;

/// A kernel to plant faults into.
struct Subject {
    case: Case,
    program: Program,
    text: PtxKernel,
}

impl Subject {
    fn new(case: Case, options: &LowerOptions) -> Subject {
        let kernel = case.build().unwrap();
        let program = lower(&verify(&kernel).unwrap(), &sm_90a(), options).unwrap_or_else(|e| panic!("{}: {e}", case.name)).program;
        let text = emit(&program, &sm_90a(), &EmitOptions::default()).unwrap();
        Subject { case, program, text }
    }

    fn specialised(workload: Box<dyn Workload>, consumer_sets: Option<u32>) -> Subject {
        let options = LowerOptions {
            consumer_sets,
            schedule: Some(ScheduleKind::Specialised),
            persistent: consumer_sets.map(|_| true),
            ..LowerOptions::default()
        };
        let case = Case { name: workload.name(), row: 9, size: Size::Small, workload };
        Subject::new(case, &options)
    }

    fn gemm(elem: Scalar, [m, n, k]: [u32; 3], tile: [u32; 3], consumer_sets: u32) -> Subject {
        let config = Gemm::new(elem).transposed(false, true).tile(tile[0], tile[1], tile[2]).for_shape(m, n, k);
        Subject::specialised(Box::new(GemmCase { config, m, n, k }), Some(consumer_sets))
    }

    fn attention(dim: u32, [queries, keys]: [u32; 2]) -> Subject {
        let config = Attention::new(Scalar::F16, dim, false).tile(128, 64, 4).for_shape(queries, keys);
        Subject::specialised(Box::new(AttentionCase { config, queries, keys, heads: 1 }), None)
    }

    fn simulate(&self, text: &PtxKernel, seed: u64) -> Result<(), String> {
        run(&self.case, text, self.case.grid(), sim::SimConfig { max_instructions: 4_000_000, ..schedule(seed) })
    }
}

fn subjects() -> Vec<Subject> {
    use Scalar::{BF16, F8E4M3, F16};
    let mut out = vec![
        Subject::gemm(BF16, [136, 136, 200], [128, 128, 64], 1),
        Subject::gemm(F16, [136, 264, 200], [128, 256, 64], 1),
        Subject::gemm(F8E4M3, [136, 136, 400], [128, 128, 128], 1),
        Subject::gemm(BF16, [264, 136, 136], [128, 128, 64], 2),
        Subject::attention(64, [136, 200]),
        Subject::attention(128, [136, 136]),
    ];
    out.extend(explicit::cases().into_iter().filter(|c| c.size == Size::Small).map(|c| Subject::new(c, &LowerOptions::default())));
    out.retain(|s| s.program.roles().is_some_and(|r| r.roles.iter().any(|r| r.registers.is_some())));
    out
}

fn roles(p: &mut Program) -> &mut [Role] {
    let Some(Inst::Roles(r)) = p.body.last_mut() else { panic!("no roles") };
    &mut r.roles
}

/// The registers of the role that gives some up, and of those that ask for more.
fn budgets(p: &Program) -> [u32; 2] {
    let of = |single: bool| p.roles().unwrap().roles.iter().filter(|r| r.single == single).filter_map(|r| r.registers).max().unwrap();
    [of(true), of(false)]
}

/// A fault: what it is, how it is planted into a program, and into its text by the registers of those who give up and those who ask.
type Fault = (&'static str, fn(&mut Program), fn(&mut PtxKernel, [u32; 2]));

fn edit(k: &mut PtxKernel, from: &str, to: &str) {
    assert!(k.text.contains(from), "`{from}` is not in the text");
    k.text = k.text.replace(from, to);
}

const DEC: &str = "\tsetmaxnreg.dec.sync.aligned.u32 ";
const INC: &str = "\tsetmaxnreg.inc.sync.aligned.u32 ";

const FAULTS: &[Fault] = &[
    (
        "those who compute ask for more than there is",
        |p| roles(p).iter_mut().filter(|r| !r.single).for_each(|r| *r.registers.as_mut().unwrap() += 24),
        |k, [_, inc]| edit(k, &format!("{INC}{inc};"), &format!("{INC}{};", inc + 24)),
    ),
    (
        "one role of those who compute asks for more than there is",
        |p| *roles(p).iter_mut().rfind(|r| !r.single).unwrap().registers.as_mut().unwrap() = 256,
        |k, [_, inc]| {
            let at = k.text.rfind(&format!("{INC}{inc};")).unwrap();
            k.text.replace_range(at..at + format!("{INC}{inc};").len(), &format!("{INC}256;"));
        },
    ),
    (
        "the producer keeps its registers",
        |p| roles(p).iter_mut().filter(|r| r.single).for_each(|r| r.registers = None),
        |k, [dec, _]| edit(k, &format!("{DEC}{dec};\n"), ""),
    ),
    (
        "the producer gives up less",
        |p| roles(p).iter_mut().filter(|r| r.single).for_each(|r| r.registers = Some(120)),
        |k, [dec, _]| edit(k, &format!("{DEC}{dec};"), &format!("{DEC}120;")),
    ),
    (
        "a warpgroup without a role keeps its registers",
        |p| p.warps += 4,
        |k, _| {
            edit(k, &format!(".reqntid {},", k.threads), &format!(".reqntid {},", k.threads + 128));
            k.threads += 128;
        },
    ),
    (
        "one warp of the producer's group gives registers up",
        |p| roles(p).iter_mut().filter(|r| r.single).for_each(|r| (r.warps, r.idle) = (1, 0)),
        |k, [dec, _]| {
            // The other warps leave in front of it.
            let line = format!("{DEC}{dec};\n");
            let (before, behind) = k.text.split_once(&line).unwrap();
            let mut parts = behind.splitn(3, '\n');
            let leave: Vec<&str> = parts.by_ref().take(2).collect();
            assert!(leave[0].contains("setp.ne") && leave[1].contains("bra"), "{leave:?}");
            k.text = format!("{before}{}\n{}\n{line}{}", leave[0], leave[1], parts.next().unwrap());
        },
    ),
];

#[test]
fn every_fault_of_registers_is_refused_and_caught() {
    let target = sm_90a();
    let subjects = subjects();
    assert!(subjects.len() >= 7, "{} kernels change registers", subjects.len());
    for s in &subjects {
        let name = &s.case.name;
        prove(&s.program, &target).unwrap_or_else(|e| panic!("{name}: {e}"));
        s.simulate(&s.text, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (n, (fault, program, text)) in FAULTS.iter().enumerate() {
            let (mut p, mut k) = (s.program.clone(), s.text.clone());
            program(&mut p);
            text(&mut k, budgets(&s.program));
            let refused = prove(&p, &target).expect_err(&format!("{name}: {fault}: proved")).to_string();
            assert!(refused.contains("registers") && refused.lines().count() == 1, "{name}: {fault}: {refused}");
            assert!(verify_lane(&p, &target).is_err(), "{name}: {fault}: verified");
            let caught = s.simulate(&k, n as u64).expect_err(&format!("{name}: {fault}: the simulator sees nothing"));
            assert!(caught.contains("setmaxnreg"), "{name}: {fault}: {caught}");
        }
    }
}

#[test]
fn budgets_that_fit_raise_no_alarm() {
    let target = sm_90a();
    let mut beside = 0;
    for s in &subjects() {
        for less in [8, 16] {
            let mut p = s.program.clone();
            roles(&mut p).iter_mut().filter(|r| !r.single).for_each(|r| *r.registers.as_mut().unwrap() -= less);
            prove(&p, &target).unwrap_or_else(|e| panic!("{}: {e}", s.case.name));
            simulate_text(&s.case, &p, s.case.grid(), schedule(1), str::to_owned).unwrap_or_else(|e| panic!("{}: {e}", s.case.name));
        }
        // A group without a role that gives up what the others do not need is none that waits for ever.
        let mut p = s.program.clone();
        roles(&mut p).iter_mut().filter(|r| !r.single).for_each(|r| *r.registers.as_mut().unwrap() -= 16);
        let first = p.warps;
        p.warps += 4;
        let all = Registers::of(&target, target.units.as_ref().unwrap(), p.warps);
        let asked: u32 = roles(&mut p).iter().map(|r| (r.end() - r.first) * r.registers.unwrap()).sum();
        let Some(left) = (all.entry * p.warps).checked_sub(asked).filter(|left| left / 4 >= 24) else { continue };
        let registers = Some((left / 4 / 8 * 8).min(all.entry));
        let idle = Role { name: "idle".into(), first, warps: 4, idle: 0, replicas: 1, single: false, registers, body: Vec::new() };
        let Some(Inst::Roles(r)) = p.body.last_mut() else { continue };
        r.roles.push(idle);
        prove(&p, &target).unwrap_or_else(|e| panic!("{}: {e}", s.case.name));
        if verify_lane(&p, &target).is_err_and(|e| e.to_string().contains("matrix instruction")) {
            // So many warps start with too few registers for its products.
            continue;
        }
        simulate_text(&s.case, &p, s.case.grid(), schedule(2), str::to_owned).unwrap_or_else(|e| panic!("{}: {e}", s.case.name));
        beside += 1;
    }
    assert!(beside > 0, "no kernel has room for a group beside its roles");
}
