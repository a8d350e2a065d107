//! The model of products: its candidates are what the planner specialises, and it prefers what measurements prefer.

use tilelift_ir::{Scalar, verify};
use tilelift_isel::gemm::{Bound, Choice, Product, predict, rank};
use tilelift_isel::{LowerOptions, Schedule, plan};
use tilelift_kernels::{Gemm, SplitGemm, StreamGemm};
use tilelift_nvptx::{sm_80, sm_90a};

fn product(shape: [u32; 3], elem: Scalar, trans: (bool, bool)) -> Product {
    Product { batch: 1, shape, elem, out: Gemm::new(elem).out, trans }
}

fn nt(shape: [u32; 3]) -> Product {
    product(shape, Scalar::BF16, (false, true))
}

fn config(p: &Product, c: &Choice) -> Gemm {
    let ([m, n, k], [bm, bn, bk]) = (p.shape, c.tile);
    let plain = Gemm::new(p.elem).output(p.out).transposed(p.trans.0, p.trans.1).tile(bm, bn, bk).swap(c.swapped);
    Gemm { group: c.group, ..plain.for_shape(m, n, k) }
}

#[test]
fn every_candidate_is_specialised_as_the_model_thinks() {
    let mut seen = 0;
    for elem in [Scalar::BF16, Scalar::F32, Scalar::F8E4M3, Scalar::I8] {
        let shapes = [([4096, 4096, 4096], (false, true)), ([16, 8192, 8192], (false, true)), ([1024, 512, 8192], (true, false))];
        // Rows of 200 and 600 bytes: lanes copy them.
        let by_lanes = [([100, 100, 100_000], (false, false)), ([512, 300, 4096], (false, false))];
        for (shape, trans) in shapes.into_iter().chain(by_lanes) {
            let p = product(shape, elem, trans);
            for r in rank(&sm_90a(), &p) {
                let c = r.choice;
                let gemm = config(&p, &c);
                let kernel = match c.stream_k {
                    Some(s) => StreamGemm { keep_whole: s.rest, ..StreamGemm::new(gemm).in_flight(s.in_flight) }.build(),
                    None if c.splits > 1 => SplitGemm::new(gemm, c.splits).build(),
                    None => gemm.build(),
                }
                .unwrap();
                let options =
                    LowerOptions { consumers: Some(c.consumers), consumer_sets: Some(c.consumer_sets), ..LowerOptions::default() };
                let made = plan(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap();
                let Schedule::Specialised(s) = &made.schedule else { panic!("{c}: {made}") };
                assert_eq!(s.depth, c.stages, "{p:?} {c}: {made}");
                assert_eq!((s.consumers, s.consumer_sets), (c.consumers, c.consumer_sets), "{c}");
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}

#[test]
fn the_first_choice_suits_the_shape() {
    let first = |shape| rank(&sm_90a(), &nt(shape)).remove(0);
    // Many tiles: large ones, and an order in groups.
    let large = first([8192, 8192, 8192]);
    assert!(large.choice.tile[0] * large.choice.tile[1] >= 128 * 192 && large.choice.group > 1, "{}", large.choice);
    assert_eq!(large.prediction.bound, Bound::Matrix);
    // Short depths: two consumer sets, so that epilogues cost nothing.
    assert_eq!(first([8192, 8192, 256]).choice.consumer_sets, 2);
    // One round of tiles on all multiprocessors.
    let small = first([1024, 1024, 1024]);
    assert!(small.prediction.waves == 1 && small.prediction.filled > 0.9, "{}", small.choice);
    // Few rows: memory decides, and the instruction's rows are columns of C.
    let decode = first([16, 8192, 8192]);
    assert!(decode.choice.swapped && decode.prediction.bound == Bound::Memory, "{}", decode.choice);
    // A long depth and few tiles: in parts, or dealt out; evenly where equal parts would leave some idle, and rows that share columns in flight.
    assert!(first([384, 384, 294_912]).choice.sums_apart());
    let dealt = first([384, 3072, 294_912]).choice;
    let stream_k = dealt.stream_k.unwrap_or_else(|| panic!("{dealt}"));
    let all_rows = dealt.group * dealt.tile[0] >= 384 && stream_k.in_flight.is_multiple_of(dealt.group);
    assert!(!stream_k.rest && all_rows && stream_k.in_flight > dealt.group, "{dealt}");
    // The last round is nearly full: nothing to gain.
    assert!(!first([4096, 4096, 4096]).choice.sums_apart());
}

#[test]
fn rows_off_the_grid_have_choices_of_their_own() {
    let first = |shape, trans| rank(&sm_90a(), &product(shape, Scalar::BF16, trans)).first().map(|r| r.choice);
    // Rows that begin inside of lines cost the cache two requests each: large tiles, and none of those that would do for whole lines.
    let aligned = first([768, 8192, 4096], (false, false)).unwrap();
    let off = first([777, 8200, 4104], (false, false)).unwrap();
    assert!(off.tile[0] * off.tile[1] >= 128 * 256 && aligned.tile[0] * aligned.tile[1] < 128 * 256, "{aligned}, {off}");
    let tn = first([3000, 5000, 777], (true, false)).unwrap();
    assert!(tn.tile[0] * tn.tile[1] >= 128 * 256, "{tn}");
    // Rows of 200 bytes by lanes, and a long depth dealt out to all.
    let long = first([100, 100, 100_000], (false, false)).unwrap();
    assert!(long.stream_k.is_some_and(|s| s.workers > 128) && long.tile[2] == 64, "{long}");
    // Where lanes have more to copy than the product is worth, and rows of which nothing copies pieces.
    assert_eq!(first([1002, 1002, 1002], (false, false)), None);
    assert_eq!(first([4095, 4095, 4095], (false, false)), None);
}

#[test]
fn any_number_of_multiprocessors_is_shared_out_to() {
    for n in [1, 20, 78, 114, 144] {
        let target = sm_90a().with_multiprocessors(n);
        for shape in [[384, 3072, 294_912], [1024, 1024, 1024], [4096, 4096, 4096]] {
            let list = rank(&target, &nt(shape));
            let fits = |c: &Choice| c.stream_k.is_none_or(|s| s.workers == n) && c.clusters.is_none_or(|c| c.workers <= n);
            assert!(!list.is_empty() && list.iter().all(|r| fits(&r.choice)), "{n} {shape:?}");
        }
    }
    let one = rank(&sm_90a().with_multiprocessors(1), &nt([384, 384, 294_912]))[0].choice;
    assert!(!one.sums_apart(), "{one}");
}

#[test]
fn predictions_grow_with_the_work() {
    let choice = rank(&sm_90a(), &nt([4096, 4096, 4096]))[0].choice;
    let time = |shape| predict(&sm_90a(), &nt(shape), &choice).unwrap().total();
    let mut last = 0.0;
    for k in [256, 1024, 4096, 16384] {
        let now = time([4096, 4096, k]);
        assert!(now > last, "{k}: {now} {last}");
        last = now;
    }
    assert!(time([8192, 4096, 4096]) > time([4096, 4096, 4096]));
}

#[test]
fn targets_and_types_without_units_have_no_candidates() {
    assert!(rank(&sm_80(), &nt([128, 128, 128])).is_empty());
    assert!(rank(&sm_90a(), &product([128, 128, 128], Scalar::F8E4M3, (false, false))).is_empty());
    assert!(rank(&sm_90a(), &product([128, 128, 128], Scalar::F64, (false, true))).is_empty());
}
