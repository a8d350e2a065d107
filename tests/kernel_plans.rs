//! Plans of products, of every kind and target, run on the simulators of their code against sums in `f64`; plans for any number end in an answer.

use tilelift::interp::{Buffer, Memory};
use tilelift::ir::{Scalar, num};
use tilelift::isel::Target;
use tilelift::runtime::sim::SimDevice;
use tilelift::{Options, targets};
use tilelift_kernels::plan::{Candidate, DeviceFacts, Plan, PlanError, Problem, Rows, Sharing, plan, ranked};
use tilelift_kernels::{Activation, Argument, Residual};

fn target(name: &str) -> Target {
    targets::by_name(name).unwrap_or_else(|| panic!("no target {name}"))
}

fn device(name: &str, multiprocessors: u32) -> DeviceFacts {
    DeviceFacts::new(&target(name), multiprocessors)
}

/// Small numbers that every type holds, other ones for every buffer: sums of them are exact in every order.
fn value(buffer: usize, i: usize) -> f64 {
    ((i.wrapping_mul(7919) + i / 7 + buffer * 31) % 5) as f64 - 2.0
}

/// Runs a plan on the simulator of its target's code; what it leaves in C.
fn run(plan: &Plan, device: &DeviceFacts) -> Vec<f64> {
    let mut memory = Memory::new();
    for (n, b) in plan.buffers().iter().enumerate() {
        let elements: usize = b.shape.iter().map(|&e| e as usize).product();
        memory.add(match b.what {
            Argument::C | Argument::Workspace(_) => Buffer::uninit_elements(b.elem, elements),
            _ => Buffer::from_f64(b.elem, (0..elements).map(|i| value(n, i))),
        });
    }
    let simulator = SimDevice::default();
    for step in &plan.launches {
        let options = Options { lower: step.options, ..Options::default() };
        let what = || format!("{:?} by {} on {}", plan.problem, plan.candidate.as_ref().unwrap(), device.target().name);
        let artifact = tilelift::compile(&step.launch.kernel, device.target(), &options).unwrap_or_else(|e| panic!("{}: {e}", what()));
        let loaded = simulator.load(&artifact).unwrap_or_else(|e| panic!("{}: {e}", what()));
        let ran = simulator.execute(&loaded, step.launch.grid, &plan.arguments(step), &mut memory);
        ran.unwrap_or_else(|e| panic!("{}: {e}", what()));
    }
    let at = plan.buffers().iter().position(|b| b.what == Argument::C).unwrap();
    memory.buffers[at].read_f64(plan.problem.out)
}

/// Compares what a plan computes with sums in `f64`: exactly, but for activations that are no maximum.
fn judge(plan: &Plan, device: &DeviceFacts) {
    let p = &plan.problem;
    let [m, n, k] = p.shape.map(|e| e as usize);
    let place = |what: Argument| plan.buffers().iter().position(|b| b.what == what);
    let (residual, bias, gate) = (place(Argument::Residual), place(Argument::Bias), place(Argument::Gate));
    let got = run(plan, device);
    assert_eq!(got.len(), p.batch as usize * m * n);
    for (i, got) in got.into_iter().enumerate() {
        let (z, row, col) = (i / (m * n), i / n % m, i % n);
        let left = |d: usize| value(0, z * m * k + if p.trans.0 { d * m + row } else { row * k + d });
        let right = |at: usize, d: usize| value(at, z * k * n + if p.trans.1 { col * k + d } else { d * n + col });
        let sum = |at: usize| (0..k).map(|d| left(d) * right(at, d)).sum::<f64>();
        let mut t = p.activation.eval(sum(1) + bias.map_or(0.0, |b| value(b, col)));
        t *= gate.map_or(1.0, sum);
        let [alpha, beta] = if matches!(p.behind.residual, Some(Residual::Scaled(_))) { p.scales.map(f64::from) } else { [1.0; 2] };
        t = alpha * t + residual.map_or(0.0, |r| beta * value(r, i));
        let want = num::round(t, p.out);
        let near = if matches!(p.activation, Activation::None | Activation::Relu) { 0.0 } else { 0.01 * want.abs().max(1.0) };
        assert!(
            (got - want).abs() <= near,
            "{p:?} by {} on {}: element {i} is {got}, not {want}",
            plan.candidate.as_ref().unwrap(),
            device.target().name
        );
    }
}

/// The first candidate of each way to share out the work.
fn each_way(problem: &Problem, device: &DeviceFacts) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = Vec::new();
    for c in ranked(problem, device).unwrap() {
        if !list.iter().any(|l| std::mem::discriminant(&l.sharing) == std::mem::discriminant(&c.sharing)) {
            list.push(c);
        }
    }
    list
}

const TARGETS: [&str; 3] = ["sm_80", "sm_90a", "gfx942"];

#[test]
fn every_way_to_share_out_the_work_gives_the_product() {
    let mut seen = [0; 3];
    for name in TARGETS {
        // Few multiprocessors, so that small products have every way.
        let device = device(name, 7);
        let problem = Problem::new(Scalar::BF16, [200, 256, 512]).output(Scalar::F32).transposed(false, true);
        for c in each_way(&problem, &device) {
            seen[match c.sharing {
                Sharing::Whole | Sharing::Clusters(..) => 0,
                Sharing::Parts(_) => 1,
                Sharing::Dealt(_) => 2,
            }] += 1;
            judge(&Plan::of(&problem, c).unwrap(), &device);
        }
    }
    assert_eq!(seen.map(|n| n >= 3), [true; 3], "{seen:?}");
}
