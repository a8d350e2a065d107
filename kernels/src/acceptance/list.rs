//! The list of acceptance cases, in the order of the kernel list.

use super::case::{Case, Size};
use crate::activation::Activation;
use crate::attention::Attention;
use crate::fused_gemm::{FusedGemm, Residual};
use crate::gemm::Gemm;
use crate::gemv::{Gemv, Weights};
use crate::indexed::{Bincount, GatherRows, ScatterAdd};
use crate::layer_norm::LayerNorm;
use crate::long_sort::LongSort;
use crate::quantise::{Output, Quantise};
use crate::rms_norm::RmsNorm;
use crate::rotary::Rotary;
use crate::row_fold::{CumSum, Fold, RowFold};
use crate::select::Select;
use crate::silu_mul::SiluMul;
use crate::softmax::Softmax;
use crate::split_gemm::SplitGemm;
use crate::stream_gemm::StreamGemm;
use crate::tensor::Init;
use crate::top_k::TopK;
use crate::transpose::Transpose;
use crate::vector_add::VectorAdd;
use crate::workload::{
    AttentionCase, CumSumCase, FusedGemmCase, GemmCase, GemvCase, LongSortCase, QuantiseCase, RmsNormCase, RowFoldCase, ScatterAddCase,
    SiluMulCase, SoftmaxCase, SplitGemmCase, StreamGemmCase, TransposeCase, VectorAddCase,
};
use crate::workload::{BincountCase, GatherRowsCase, LayerNormCase, RotaryCase, SelectCase, TopKCase};
use tilelift_ir::{Scalar, SortOrder};

use Scalar::{BF16, F16, F32, I4, I8, I32};
use Size::{Large, Small};

/// Every case, in the order of the kernel list.
pub fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    pointwise(&mut list);
    quantisations(&mut list);
    rows(&mut list);
    mean_norms(&mut list);
    special_norms(&mut list);
    folds(&mut list);
    sorts(&mut list);
    long_sorts(&mut list);
    long_firsts(&mut list);
    indices(&mut list);
    embeddings(&mut list);
    transposes(&mut list);
    vectors(&mut list);
    products(&mut list);
    integers(&mut list);
    epilogues(&mut list);
    fused(&mut list);
    splits(&mut list);
    streams(&mut list);
    attentions(&mut list);
    eight_bits(&mut list);
    list
}

fn pointwise(list: &mut Vec<Case>) {
    for (n, size) in [(1, Small), (7, Small), (98_432, Small), (1_000_003, Large)] {
        for elem in [F32, F16, BF16, I32] {
            let config = VectorAdd::new(elem).for_shape(n);
            list.push(Case::new(1, size, VectorAddCase { config, n, init: Init::Normal }));
        }
        for elem in [F32, F16, BF16] {
            let config = SiluMul::new(elem).for_shape(n);
            list.push(Case::new(1, size, SiluMulCase { config, n, init: Init::Normal }));
        }
    }
    for elem in [F32, F16, BF16] {
        let n = 4099;
        let config = VectorAdd { block: 512, ..VectorAdd::new(elem) }.for_shape(n);
        list.push(Case::new(1, Small, VectorAddCase { config, n, init: Init::Special }));
        let config = SiluMul { block: 512, ..SiluMul::new(elem) }.for_shape(n);
        list.push(Case::new(1, Small, SiluMulCase { config, n, init: Init::Special }));
    }
}

fn quantisations(list: &mut Vec<Case>) {
    use Scalar::{F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
    let plain: fn(u64) -> Init = Init::Normal;
    for (rows, cols, size) in [(35, 256, Small), (257, 640, Large), (2048, 512, Large), (8192, 8192, Large)] {
        // Each output alone, too, where that is cheap.
        let outputs: &[Output] = if size == Small { &[Output::Codes, Output::Scales, Output::Both] } else { &[Output::Both] };
        for &output in outputs {
            let config = Quantise::new(BF16, F8E4M3, output).for_shape(rows, cols);
            list.push(Case::new(2, size, QuantiseCase { config, rows, cols, init: plain }));
        }
        for from in [BF16, F32] {
            let config = Quantise::new(from, F8E4M3, Output::Cast).for_shape(rows, cols);
            list.push(Case::new(2, size, QuantiseCase { config, rows, cols, init: plain }));
        }
    }
    let (rows, cols) = (33, 130);
    for (from, to) in [(BF16, F8E4M3), (F16, F8E5M2), (F32, F8E4M3Fnuz), (F32, F8E5M2Fnuz), (F8E4M3, F16), (F8E5M2, F32)] {
        let config = Quantise::new(from, to, Output::Cast).for_shape(rows, cols);
        list.push(Case::new(2, Small, QuantiseCase { config, rows, cols, init: Init::Special }));
    }
}

fn rows(list: &mut Vec<Case>) {
    let plain: fn(u64) -> Init = Init::Normal;
    let shapes = [
        (33, 1, Small, plain),
        (20, 781, Small, plain),
        (19, 300, Small, Init::Masked),
        (50, 5, Small, Init::Special),
        (1823, 781, Large, plain),
        (8192, 8192, Large, plain),
    ];
    for (rows, cols, size, init) in shapes {
        for elem in [F32, F16, BF16] {
            // Short rows share a program; the last program hangs over.
            let tile_rows = if cols <= 8 { 4 } else { 1 };
            let config = Softmax { tile_rows, ..Softmax::new(elem, cols) }.for_shape(rows, cols);
            list.push(Case::new(3, size, SoftmaxCase { config, rows, cols, init }));
        }
    }
    for (rows, cols, size) in [(10, 1000, Small), (7, 129, Small), (1024, 1024, Large), (4096, 8192, Large), (1151, 8192, Large)] {
        for elem in [F16, BF16, F32] {
            let tile_rows = if cols <= 256 { 4 } else { 1 };
            let config = RmsNorm { tile_rows, ..RmsNorm::new(elem, cols) }.for_shape(rows, cols);
            list.push(Case::new(4, size, RmsNormCase { config, rows, cols, init: plain }));
        }
    }
}

/// Norms of rows with infinities, NaN and zeros of both signs. The squares of `f16` stay inside `f32`, as the reference assumes.
fn special_norms(list: &mut Vec<Case>) {
    let (rows, cols, tile_rows) = (61, 5, 4);
    let config = RmsNorm { tile_rows, ..RmsNorm::new(F16, cols) }.for_shape(rows, cols);
    list.push(Case::new(4, Small, RmsNormCase { config, rows, cols, init: Init::Special }));
    let config = LayerNorm { tile_rows, ..LayerNorm::new(F16, cols, false) }.for_shape(rows, cols);
    list.push(Case::new(4, Small, LayerNormCase { config, rows, cols, init: Init::Special }));
}

fn mean_norms(list: &mut Vec<Case>) {
    for (rows, cols, size) in [(10, 1000, Small), (7, 129, Small), (1024, 1024, Large), (4096, 8192, Large), (1151, 8192, Large)] {
        for elem in [F16, BF16, F32] {
            for residual in [false, true] {
                let tile_rows = if cols <= 256 { 4 } else { 1 };
                let config = LayerNorm { tile_rows, ..LayerNorm::new(elem, cols, residual) }.for_shape(rows, cols);
                list.push(Case::new(4, size, LayerNormCase { config, rows, cols, init: Init::Normal }));
            }
        }
    }
}

fn folds(list: &mut Vec<Case>) {
    for (rows, cols, size) in [(5, 257, Small), (64, 32_768, Large)] {
        for elem in [F32, F16, I32] {
            // Steps that end inside a row, in small cases.
            let tile_cols = if size == Small { 128 } else { 2048 };
            for &fold in Fold::ALL {
                let config = RowFold { tile_cols, ..RowFold::new(elem, fold) }.for_shape(rows, cols);
                list.push(Case::new(5, size, RowFoldCase { config: config.clone(), rows, cols, init: Init::Normal }));
                if elem.is_float() && size == Small && fold != Fold::Sum {
                    list.push(Case::new(5, size, RowFoldCase { config, rows, cols, init: Init::Special }));
                }
            }
            let config = CumSum { tile_cols, ..CumSum::new(elem) }.for_shape(rows, cols);
            list.push(Case::new(5, size, CumSumCase { config, rows, cols }));
        }
    }
    // Rows of a few elements: ties of zeros, the first NaN, and rows without one.
    for fold in [Fold::Max, Fold::Min, Fold::ArgMax, Fold::ArgMin] {
        let (rows, cols) = (130, 3);
        let config = RowFold { tile_rows: 4, tile_cols: 2, ..RowFold::new(F16, fold) }.for_shape(rows, cols);
        list.push(Case::new(5, Small, RowFoldCase { config, rows, cols, init: Init::Special }));
    }
}

fn long_sorts(list: &mut Vec<Case>) {
    use SortOrder::{Ascending, Descending};
    for (rows, cols, tile, size) in [(5, 257, 32, Small), (64, 32_768, 2048, Large)] {
        for elem in [F32, F16, I32] {
            for (order, positions) in [(Ascending, false), (Descending, false), (Ascending, true), (Descending, true)] {
                if size == Large && order == Descending && elem != F32 {
                    continue;
                }
                let warps = (tile / 256).max(1);
                let config = LongSort { tile, warps, ..LongSort::new(elem, order, positions) }.for_shape(rows, cols);
                list.push(Case::new(5, size, LongSortCase { config: config.clone(), rows, cols, init: Init::Normal }));
                if elem.is_float() && size == Small {
                    list.push(Case::new(5, size, LongSortCase { config, rows, cols, init: Init::Special }));
                }
            }
        }
    }
}

fn long_firsts(list: &mut Vec<Case>) {
    use SortOrder::{Ascending, Descending};
    // Rows of one tile, of one level of heads, of several; few and many elements kept.
    for (rows, cols, k, order, size) in [
        (3, 257, 6, Descending, Small),
        (2, 5003, 33, Ascending, Small),
        (1, 20_000, 1, Descending, Small),
        (2, 40_000, 20, Ascending, Small),
        (1, 9001, 300, Descending, Small),
        (64, 128_256, 50, Descending, Large),
        (3, 262_144, 1000, Descending, Large),
        (16, 262_139, 64, Ascending, Large),
    ] {
        for elem in [F32, BF16, I32] {
            // The network of so many keys that share a word with positions spills 4 to 24 bytes, which no text of these cases may.
            if elem == BF16 && k >= 300 {
                continue;
            }
            let config = TopK::new(elem, order, cols, k).for_shape(rows, cols);
            list.push(Case::new(5, size, TopKCase { config: config.clone(), rows, cols, init: Init::Normal }));
            if elem.is_float() && size == Small {
                list.push(Case::new(5, size, TopKCase { config, rows, cols, init: Init::Special }));
            }
        }
    }
}

fn sorts(list: &mut Vec<Case>) {
    use SortOrder::{Ascending, Descending};
    let shapes = [
        (5, 257, 257, Ascending, Small),
        (5, 257, 257, Descending, Small),
        (20, 128, 6, Descending, Small),
        (320, 128, 6, Descending, Large),
        (300, 200, 8, Descending, Large),
        (64, 2048, 2048, Ascending, Large),
    ];
    for (rows, cols, k, order, size) in shapes {
        for elem in [F32, F16, I32] {
            for positions in [false, true] {
                let config = Select::new(elem, order, positions, cols, k).for_shape(rows, cols);
                list.push(Case::new(5, size, SelectCase { config: config.clone(), rows, cols, init: Init::Normal }));
                if elem != I32 && size == Small {
                    list.push(Case::new(5, size, SelectCase { config, rows, cols, init: Init::Special }));
                }
            }
        }
    }
}

fn indices(list: &mut Vec<Case>) {
    for (rows, cols, n, size) in [(131, 67, 100, Small), (4096, 4096, 4096, Large)] {
        for elem in [F32, F16, I8] {
            let config = GatherRows::new(elem).for_shape(cols);
            list.push(Case::new(6, size, GatherRowsCase { config, rows, n, cols }));
        }
    }
    for (n, rows, cols, size) in [(100, 13, 67, Small), (131, 131, 67, Small), (4096, 4096, 4096, Large)] {
        for elem in [I32, F32, F16] {
            let config = ScatterAdd::new(elem).for_shape(cols);
            list.push(Case::new(6, size, ScatterAddCase { config, n, rows, cols }));
        }
    }
    for (n, bins, size) in [(10_000, 1000, Small), (100, 7, Small), (1_000_003, 4096, Large)] {
        list.push(Case::new(6, size, BincountCase { config: Bincount::default(), n, bins }));
    }
}

fn embeddings(list: &mut Vec<Case>) {
    for (heads, length, size) in [(3, 50, Small), (32, 1024, Large)] {
        for dim in [64, 128] {
            for interleaved in [false, true] {
                for elem in [BF16, F32] {
                    let config = Rotary::new(elem, dim, interleaved).for_shape(length);
                    list.push(Case::new(7, size, RotaryCase { config, heads, length }));
                }
            }
        }
    }
}

fn transposes(list: &mut Vec<Case>) {
    for (rows, cols, size) in [(131, 67, Small), (4096, 4096, Large)] {
        for elem in [F32, F16, I8] {
            let config = Transpose::new(elem).for_shape(rows, cols);
            list.push(Case::new(6, size, TransposeCase { config, rows, cols, init: Init::Normal }));
        }
    }
    for elem in [F32, F16] {
        let (rows, cols) = (96, 160);
        let config = Transpose { tile_rows: 32, ..Transpose::new(elem) }.for_shape(rows, cols);
        list.push(Case::new(6, Small, TransposeCase { config, rows, cols, init: Init::Special }));
    }
}

/// The storage orders of the operands.
const ORDERS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// A GEMM whose tile suits the shape: the default for large shapes, smaller ones where that would be mostly padding.
fn gemm(elem: Scalar, m: u32, n: u32, k: u32) -> Gemm {
    let config = match m.min(n) {
        0..=16 => Gemm::new(elem).tile(16, 16, 16).schedule(1, 2),
        17..=256 => Gemm { group: 3, ..Gemm::new(elem) }.tile(64, 64, 32).schedule(4, 3),
        _ => Gemm::new(elem),
    };
    config.for_shape(m, n, k)
}

fn products(list: &mut Vec<Case>) {
    let shapes = [(5, 11, 7, Small), (255, 129, 130, Small), (1000, 1000, 200, Large), (512, 512, 512, Large), (1024, 1024, 1024, Large)];
    for (m, n, k, size) in shapes {
        for elem in [F16, BF16, F32] {
            for (trans_a, trans_b) in ORDERS {
                let config = gemm(elem, m, n, k).transposed(trans_a, trans_b);
                list.push(Case::new(9, size, GemmCase { config, m, n, k }));
            }
        }
    }
    for elem in [F16, BF16] {
        let (m, n, k) = (255, 129, 130);
        let config = gemm(elem, m, n, k).output(F32);
        list.push(Case::new(9, Small, GemmCase { config, m, n, k }));
    }
}

fn epilogues(list: &mut Vec<Case>) {
    let shapes = [(5, 11, 7, Small), (255, 129, 130, Small), (1024, 896, 1840, Large)];
    for (m, n, k, size) in shapes {
        for elem in [F16, BF16, F32] {
            for (i, &activation) in Activation::ALL.iter().enumerate() {
                let (trans_a, trans_b) = ORDERS[i];
                let config = gemm(elem, m, n, k).transposed(trans_a, trans_b).epilogue(Some(elem), activation);
                list.push(Case::new(11, size, GemmCase { config, m, n, k }));
            }
        }
        let config = gemm(BF16, m, n, k).transposed(false, true).output(F32).epilogue(Some(F32), Activation::Gelu);
        list.push(Case::new(11, size, GemmCase { config, m, n, k }));
        let config = gemm(F16, m, n, k).output(BF16).epilogue(None, Activation::Silu);
        list.push(Case::new(11, size, GemmCase { config, m, n, k }));
    }
}

fn vectors(list: &mut Vec<Case>) {
    for (n, k, size) in [(37, 256, Small), (1024, 1024, Large), (28672, 8192, Large)] {
        let kinds =
            [(F16, Weights::Plain), (BF16, Weights::Plain), (F16, Weights::Unsigned4), (F16, Weights::Signed4), (BF16, Weights::Signed4)];
        for (elem, weights) in kinds {
            let config = Gemv::new(elem, weights).for_shape(n, k);
            list.push(Case::new(8, size, GemvCase { config, n, k }));
        }
    }
    let (n, k) = (13, 99);
    // Rows of an odd length are read element by element: a smaller tile.
    let config = Gemv { depth: 128, ..Gemv::new(F16, Weights::Plain) }.for_shape(n, k);
    list.push(Case::new(8, Small, GemvCase { config, n, k }));
}

fn integers(list: &mut Vec<Case>) {
    for (m, n, k, size) in [(45, 70, 33, Small), (300, 400, 416, Large), (512, 1024, 768, Large)] {
        for (trans_a, trans_b) in ORDERS {
            let config = gemm(I8, m, n, k).transposed(trans_a, trans_b);
            list.push(Case::new(10, size, GemmCase { config, m, n, k }));
        }
    }
    // Two elements share a byte: the inner extents are even.
    for (m, n, k, size) in [(46, 70, 34, Small), (300, 400, 416, Large), (512, 1024, 768, Large)] {
        for (trans_a, trans_b) in ORDERS {
            for (a, b) in [(I4, I4), (I8, I4)] {
                let config = gemm(a, m, n, k).weights(b).transposed(trans_a, trans_b);
                list.push(Case::new(10, size, GemmCase { config, m, n, k }));
            }
        }
    }
}

/// Products of 8-bit floats; targets without instructions for a format convert it.
fn eight_bits(list: &mut Vec<Case>) {
    use Scalar::{F8E4M3, F8E4M3Fnuz, F8E5M2};
    for (m, n, k, size) in [(45, 70, 33, Small), (512, 1024, 768, Large)] {
        for (elem, trans_b) in [(F8E4M3, true), (F8E5M2, true), (F8E4M3Fnuz, true), (F8E4M3, false)] {
            let config = gemm(elem, m, n, k).transposed(false, trans_b);
            list.push(Case::new(14, size, GemmCase { config, m, n, k }));
        }
    }
}

fn fused(list: &mut Vec<Case>) {
    let mut push = |size, config: FusedGemm, batch, m, n, k| list.push(Case::new(11, size, FusedGemmCase { config, batch, m, n, k }));
    for (m, n, k, size) in [(20, 33, 24, Small), (1024, 896, 104, Large), (1024, 896, 24, Large)] {
        for elem in [F16, BF16, F32] {
            let plain = gemm(elem, m, n, k).transposed(false, true);
            push(size, FusedGemm::new(plain.clone().epilogue(Some(elem), Activation::Gelu)).plus(Residual::Plain(elem)), 1, m, n, k);
            push(size, FusedGemm::new(plain.clone()).plus(Residual::Scaled(elem)), 1, m, n, k);
            // Two accumulators: half the columns.
            let (bm, bn, bk) = if m < 64 { (32, 32, 32) } else { (plain.bm, plain.bn / 2, plain.bk) };
            push(size, FusedGemm::new(plain.tile(bm, bn, bk).epilogue(None, Activation::Silu)).gated(), 1, m, n, k);
        }
    }
    for (batch, m, n, k, size) in [(3, 20, 33, 24, Small), (8, 395, 256, 320, Large)] {
        for (elem, trans_b) in [(F16, false), (BF16, true), (F32, false)] {
            push(size, FusedGemm::new(gemm(elem, m, n, k).transposed(false, trans_b)).batched(batch), batch, m, n, k);
        }
    }
    let (m, n, k) = (32_768, 256, 256);
    push(Large, FusedGemm::new(gemm(BF16, m, n, k).epilogue(Some(BF16), Activation::Gelu)).plus(Residual::Plain(BF16)), 1, m, n, k);
}

/// Products with their depth in parts: as many as divide the steps or not, a part without a step, rows that are no multiple of 16 bytes.
fn splits(list: &mut Vec<Case>) {
    let shapes = [
        (64, 128, 512, 4, Small),
        (20, 33, 203, 3, Small),
        (70, 130, 96, 5, Small),
        (256, 1024, 512, 2, Large),
        (1024, 1024, 1024, 4, Large),
        (96, 192, 36_868, 16, Large),
    ];
    for (m, n, k, splits, size) in shapes {
        for elem in [F16, BF16, F32] {
            let config = gemm(elem, m, n, k).transposed(false, true);
            let config = if size == Small {
                config
            } else {
                Gemm::new(elem).transposed(false, true).tile(64, 128, 128 / elem.bytes()).for_shape(m, n, k)
            };
            let push = |list: &mut Vec<Case>, config| list.push(Case::new(12, size, SplitGemmCase { config, m, n, k }));
            push(list, SplitGemm::new(config.clone(), splits));
            push(list, SplitGemm::new(config.clone().epilogue(Some(elem), Activation::Relu), splits));
            push(list, SplitGemm::new(config.output(F32), splits).by_atomics());
        }
    }
    let (m, n, k) = (45, 70, 133);
    let config = gemm(I8, m, n, k);
    list.push(Case::new(12, Small, SplitGemmCase { config: SplitGemm::new(config.clone(), 2), m, n, k }));
    list.push(Case::new(12, Small, SplitGemmCase { config: SplitGemm::new(config, 2).by_atomics(), m, n, k }));
}

/// Products dealt out by steps: tiles fewer or more than workers, one tile, one worker, more workers than steps, a depth that is no multiple
/// of a step, rows that are no multiple of 16 bytes; tiles in flight that do not divide the tiles, or the workers; a rest, and none.
fn streams(list: &mut Vec<Case>) {
    let tile = |elem: Scalar| Gemm { group: 2, ..Gemm::new(elem) }.tile(64, 64, 128 / elem.bytes());
    let mut push = |size, gemm: Gemm, [m, n, k]: [u32; 3], workers, how: fn(StreamGemm) -> StreamGemm| {
        let config = how(StreamGemm::new(gemm.for_shape(m, n, k)));
        list.push(Case::new(12, size, StreamGemmCase { config, workers, m, n, k }));
    };
    for (i, elem) in [F16, BF16, F32].into_iter().enumerate() {
        for (j, (ta, tb)) in [(false, false), (false, true), (true, false), (true, true)].into_iter().enumerate() {
            let plain = tile(elem).transposed(ta, tb);
            // Of steps twice as deep ptxas keeps 96 registers for sm_80, and spills a word or two.
            let plain = if ta && tb { plain.tile(64, 64, 32) } else { plain };
            push(Small, plain.clone(), [136, 136, 328], 5, |s| s);
            // A biased one, and one of each number in flight, for every type.
            let biased = plain.clone().epilogue(Some(elem), Activation::Relu);
            match (i + j) % 4 {
                0 => push(Small, biased, [200, 136, 136], 5, StreamGemm::keep_whole),
                1 => push(Small, biased, [136, 136, 200], 7, |s| s.in_flight(2)),
                2 => push(Small, plain.output(F32), [136, 72, 200], 4, StreamGemm::by_atomics),
                _ => push(Small, plain, [200, 200, 136], 5, |s| s.keep_whole().in_flight(2)),
            }
        }
        let plain = tile(elem).transposed(false, true);
        push(Small, plain.clone(), [64, 128, 512], 7, |s| s.in_flight(2));
        push(Small, plain.clone(), [40, 64, 64], 9, |s| s);
        push(Small, plain.clone(), [50, 56, 584], 4, |s| s);
        push(Small, plain.clone(), [72, 136, 72], 1, |s| s);
        push(Small, plain.clone(), [72, 136, 72], 3, StreamGemm::keep_whole);
        push(Small, plain.clone(), [192, 64, 72], 3, StreamGemm::keep_whole);
        push(Small, plain, [20, 33, 203], 3, |s| s);
    }
    let bytes = tile(I8).transposed(false, true);
    push(Small, bytes.clone(), [136, 136, 656], 5, |s| s);
    push(Small, bytes.clone(), [200, 136, 272], 5, |s| s.keep_whole().in_flight(2));
    push(Small, bytes.clone(), [45, 70, 400], 3, StreamGemm::by_atomics);
    push(Small, tile(I8).tile(64, 64, 32), [45, 70, 133], 4, |s| s);
    // The operands the other way round.
    push(Small, tile(BF16).transposed(false, true).tile(16, 64, 64).swap(true), [20, 192, 448], 5, |s| s);
    for elem in [F16, BF16, F32] {
        let large = Gemm::new(elem).transposed(false, true).tile(128, 128, 128 / elem.bytes());
        push(Large, large.clone(), [256, 384, 1028], 132, |s| s.in_flight(2));
        push(Large, large.epilogue(Some(elem), Activation::Relu), [300, 520, 264], 5, StreamGemm::keep_whole);
    }
}

fn attentions(list: &mut Vec<Case>) {
    for (queries, keys, dim, size) in [(33, 50, 32, Small), (7, 129, 64, Small), (1000, 1000, 64, Large), (1024, 1024, 128, Large)] {
        for elem in [F16, BF16] {
            for causal in [false, true] {
                let plain = Attention::new(elem, dim, causal);
                let config = if size == Small { plain.tile(16, 32, 1) } else { plain };
                let config = config.for_shape(queries, keys);
                list.push(Case::new(17, size, AttentionCase { config, queries, keys, heads: 1 }));
            }
        }
    }
    // Heads, and tiles that two warpgroups share where there are units for that.
    for (heads, queries, keys, dim, size) in [(2, 70, 200, 64, Small), (3, 130, 130, 128, Small), (6, 1000, 1000, 128, Large)] {
        for (elem, causal) in [(F16, true), (BF16, false)] {
            let config = Attention { stages: 2, ..Attention::new(elem, dim, causal).tile(128, 4096 / dim, 8) };
            let config = config.heads(heads).for_shape(queries, keys);
            list.push(Case::new(17, size, AttentionCase { config, queries, keys, heads }));
        }
    }
}
