//! A sample of what `generated` runs in thousands: kernels that are specialised or explicit, on the interpreter as they are written, on lanes
//! and in the simulator.

use std::collections::BTreeMap;
use tilelift_fuzzgen::trial::{Answer, Axis, Judge};
use tilelift_fuzzgen::{Source, generate_trial};
use tilelift_oracle::in_parallel;
use tilelift_tools::execute::DeviceKind;

/// Seeds that are tried.
const SEEDS: std::ops::Range<u64> = 100..600;

/// So many are judged in a row by one thread.
const PART: u64 = 50;

/// Every so manieth is run on lanes, too.
const LANES: u64 = 5;

/// What the sample must have, and of how many kernels at least.
const COVERED: &[(Axis, &str, u32)] = &[
    (Axis::Schedule, "specialised", 150),
    (Axis::Schedule, "explicit", 80),
    (Axis::Family, "product", 40),
    (Axis::Family, "product of real numbers", 4),
    (Axis::Family, "two products", 10),
    (Axis::Family, "gated product", 10),
    (Axis::Family, "attention", 3),
    (Axis::Family, "causal attention", 3),
    (Axis::Family, "layers", 10),
    (Axis::Family, "gradients", 2),
    (Axis::Family, "scaled operand", 5),
    (Axis::Family, "sum that is looked at", 5),
    (Axis::Family, "columns anywhere", 8),
    (Axis::Family, "ring of products", 20),
    (Axis::Family, "channel of products", 15),
    (Axis::Family, "tiles through tasks", 15),
    (Axis::Operands, "bf16", 40),
    (Axis::Operands, "f16", 30),
    (Axis::Operands, "tf32", 20),
    (Axis::Operands, "i8", 20),
    (Axis::Operands, "f8e4m3", 20),
    (Axis::Operands, "f8e5m2", 15),
    (Axis::OperandA, "shared memory", 80),
    (Axis::OperandA, "ring through registers", 20),
    (Axis::OperandA, "computed", 20),
    (Axis::OperandA, "dequantised", 8),
    (Axis::Storage, "nn", 10),
    (Axis::Storage, "nt", 50),
    (Axis::Storage, "tn", 4),
    (Axis::Storage, "tt", 6),
    (Axis::Batch, "outermost", 10),
    (Axis::Batch, "between rows and columns", 10),
    (Axis::Sums, "in the unit", 80),
    (Axis::Sums, "promoted", 30),
    (Axis::Iterations, "1", 20),
    (Axis::Iterations, "2", 20),
    (Axis::Iterations, "3", 8),
    (Axis::Iterations, "4", 8),
    (Axis::Iterations, "5", 4),
    (Axis::Iterations, "6", 4),
    (Axis::Iterations, "7", 4),
    (Axis::Iterations, "8", 3),
    (Axis::Iterations, "9", 3),
    (Axis::Ragged, "M", 40),
    (Axis::Ragged, "N", 40),
    (Axis::Ragged, "K", 40),
    (Axis::Ragged, "keys", 10),
    (Axis::Products, "2", 20),
    (Axis::Products, "3", 2),
    (Axis::Consumers, "cooperative, 1", 30),
    (Axis::Consumers, "cooperative, 2", 30),
    (Axis::Consumers, "ping-pong, 1 each", 8),
    (Axis::Positions, "persistent", 40),
    (Axis::Positions, "one each", 40),
    (Axis::Slots, "2", 40),
    (Axis::Slots, "3", 20),
    (Axis::Swizzle, "128", 20),
    (Axis::Swizzle, "64", 20),
    (Axis::Swizzle, "32", 20),
    (Axis::Epilogue, "bias", 15),
    (Axis::Epilogue, "exact activation", 15),
    (Axis::Epilogue, "exp2", 4),
    (Axis::Epilogue, "residual", 6),
    (Axis::Epilogue, "gate", 4),
    (Axis::Stores, "bulk", 20),
    (Axis::Stores, "in the arms of a choice", 4),
    (Axis::Stores, "sums besides", 4),
    (Axis::Stores, "transposed besides", 4),
    (Axis::Stores, "sums of rows besides", 3),
    (Axis::Results, "bf16", 20),
    (Axis::Results, "f16", 20),
    (Axis::Results, "f32", 20),
    (Axis::Results, "i32", 8),
    (Axis::Overlap, "in flight", 3),
    (Axis::Overlap, "waited for", 10),
    (Axis::Level, "None", 20),
    (Axis::Level, "Logical", 20),
    (Axis::Level, "Physical", 20),
    (Axis::Program, "written", 150),
];

/// Judges the kernels of some seeds; how many there were of each class.
fn judged(seeds: &std::ops::Range<u64>) -> BTreeMap<(Axis, String), u32> {
    let devices = [DeviceKind::Sim, DeviceKind::Interp, DeviceKind::Lane].map(|d| (d, Judge::open(d).unwrap_or_else(|e| panic!("{e}"))));
    let mut seen: BTreeMap<(Axis, String), u32> = BTreeMap::new();
    for seed in seeds.clone() {
        let trial = generate_trial(&mut Source::from_seed(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for (device, judge) in &devices {
            if *device == DeviceKind::Lane && seed % LANES != 0 {
                continue;
            }
            let mut t = trial.clone();
            match judge.judge(&mut t, seed) {
                Answer::PassedOver(_) => break,
                Answer::Failed(f) => panic!("seed {seed}, {device}: {f}\n; {}\n{}", t.asked(), t.case.to_tile_text()),
                Answer::Equal if *device == DeviceKind::Sim => {
                    t.classes.iter().for_each(|(a, n)| *seen.entry((a, n.to_owned())).or_default() += 1);
                }
                Answer::Equal => {}
            }
        }
    }
    seen
}

#[test]
fn specialised_and_explicit_kernels_compute_the_same_everywhere() {
    let parts: Vec<std::ops::Range<u64>> = SEEDS.step_by(PART as usize).map(|n| n..(n + PART).min(SEEDS.end)).collect();
    let mut seen: BTreeMap<(Axis, String), u32> = BTreeMap::new();
    in_parallel(&parts, judged).into_iter().flatten().for_each(|(class, n)| *seen.entry(class).or_default() += n);
    let short: Vec<String> = COVERED
        .iter()
        .filter_map(|&(axis, name, least)| {
            let n = seen.get(&(axis, name.to_owned())).copied().unwrap_or(0);
            (n < least).then(|| format!("{axis}, {name}: {n} of {least}"))
        })
        .collect();
    assert!(short.is_empty(), "the sample has too few of\n{}", short.join("\n"));
}
