//! Which problems are benched, and in which variants: what a command line selects.

use super::ablation::ladder;
use super::problem::{Problem, Suite, Variant};
use super::records::{self, Record};
use super::ring;
use tilelift_ir::Scalar;
use tilelift_isel::gemm::{Clusters, StreamK};
use tilelift_isel::{ScheduleKind, Target};
use tilelift_kernels::Gemm;
use tilelift_kernels::explicit::StreamNorm;
use tilelift_kernels::plan::{self, DeviceFacts};

/// Which problems of the suites, and which variants of each.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) suites: Vec<Suite>,
    /// Lengths, columns, sides: every suite reads them in its way.
    pub(crate) sizes: Vec<u32>,
    /// Whole shapes; each belongs to the suites of its rank.
    pub(crate) shapes: Vec<Vec<u32>>,
    pub(crate) elems: Vec<Scalar>,
    /// Element type of C; the configuration's own if absent.
    pub(crate) out: Option<Scalar>,
    pub(crate) trans: Vec<(bool, bool)>,
    pub(crate) tiles: Vec<[u32; 3]>,
    pub(crate) warps: Vec<u32>,
    pub(crate) stages: Vec<u32>,
    pub(crate) groups: Vec<u32>,
    pub(crate) consumers: Vec<u32>,
    pub(crate) schedules: Vec<ScheduleKind>,
    /// Whether attention is causal.
    pub(crate) causal: Vec<bool>,
    pub(crate) overlaps: Vec<bool>,
    pub(crate) persistent: Vec<bool>,
    /// Whether launches overlap.
    pub(crate) early: Vec<bool>,
    /// Forms of specialised loops: see [`Variant`].
    pub(crate) swizzles: Vec<u32>,
    pub(crate) register_a: Vec<bool>,
    pub(crate) bulks: Vec<bool>,
    pub(crate) splits: Vec<u32>,
    pub(crate) stream_k: Vec<StreamK>,
    pub(crate) clusters: Vec<Clusters>,
    pub(crate) consumer_sets: Vec<u32>,
    /// Whether operands of products are multiplied the other way round.
    pub(crate) swapped: bool,
    /// Kernels with explicit control, too, where there is one for a product.
    pub(crate) explicit: bool,
    /// Products run in steps from a pipelined loop to the choice of the model.
    pub(crate) ablation: bool,
    /// Measured choices, which go before the model's.
    pub(crate) records: Vec<Record>,
}

/// Columns from which on rows are spread over clusters, and fewest that are left to a program.
const WIDE: u32 = 16384;
const LEAST: u32 = 4096;
/// Longest row that the bench sorts.
const SORT_COLS: u32 = 4096;

/// Queries of attention, over all heads, and their elements, where only a length is given.
const HEAD_ROWS: u32 = 1 << 18;
const HEAD_DIM: u32 = 128;

/// Rows of the norms where only columns are given.
const NORM_ROWS: u32 = 16384;
/// Rows and elements of a selection where only columns are given.
const FIRST_OF: [u32; 2] = [64, 50];

/// Norms by clusters of programs, which take rows that are long for one.
pub(crate) fn wide_norms(elem: Scalar, rows: u32, cols: u32) -> Vec<Problem> {
    let held = |b: &u32| cols >= WIDE && (LEAST..=WIDE).contains(&cols.div_ceil(*b));
    let clusters = [2, 4, 8].into_iter().filter(held).map(|blocks| Problem::ClusterNorm { elem, rows, cols, blocks });
    let stream = StreamNorm::for_cols(elem, cols).filter(|n| cols >= WIDE && cols.is_multiple_of(n.chunk()));
    clusters.chain(stream.map(|n| Problem::StreamNorm { elem, rows, cols, blocks: n.blocks })).collect()
}

impl Selection {
    /// Every problem, in the order of the suites.
    pub(crate) fn problems(&self, usual: &dyn Fn(Suite) -> Vec<Vec<u32>>) -> Vec<Problem> {
        let mut list = Vec::new();
        for &suite in &self.suites {
            for shape in self.shapes_of(suite, usual) {
                for &elem in &self.elems {
                    self.of_shape(suite, elem, &shape, &mut list);
                }
            }
        }
        list
    }

    fn shapes_of(&self, suite: Suite, usual: &dyn Fn(Suite) -> Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        let sized = self.sizes.iter().map(|&s| match suite {
            Suite::Elementwise => vec![s],
            Suite::Norms | Suite::Rows => vec![NORM_ROWS, s],
            Suite::TopK => vec![FIRST_OF[0], s, FIRST_OF[1].min(s)],
            Suite::Transpose => vec![s, s],
            Suite::Gemm => vec![s, s, s],
            Suite::Attention => vec![1, (HEAD_ROWS / s).max(1), s, HEAD_DIM],
        });
        // Three extents are a product's where both are asked for.
        let others = suite == Suite::TopK && self.suites.contains(&Suite::Gemm);
        let whole = self.shapes.iter().filter(|s| suite.takes(s.len()) && !others).cloned();
        let asked: Vec<Vec<u32>> = sized.chain(whole).collect();
        if asked.is_empty() { usual(suite) } else { asked }
    }

    fn of_shape(&self, suite: Suite, elem: Scalar, shape: &[u32], list: &mut Vec<Problem>) {
        // Types of 8 bits have products only.
        if suite != Suite::Gemm && elem.bytes() == 1 {
            return;
        }
        match (suite, shape) {
            (Suite::Elementwise, &[n]) => list.extend([Problem::VectorAdd { elem, n }, Problem::SiluMul { elem, n }]),
            (Suite::Norms, &[rows, cols]) => {
                list.extend([
                    Problem::Softmax { elem, rows, cols },
                    Problem::RmsNorm { elem, rows, cols },
                    Problem::LayerNorm { elem, rows, cols },
                ]);
                list.extend(wide_norms(elem, rows, cols));
            }
            // A sort holds its row in one tile.
            (Suite::Rows, &[rows, cols]) if cols > SORT_COLS => list.push(Problem::CumSum { elem, rows, cols }),
            (Suite::Rows, &[rows, cols]) => list.extend([Problem::CumSum { elem, rows, cols }, Problem::Sort { elem, rows, cols }]),
            (Suite::TopK, &[rows, cols, k]) if (1..=cols).contains(&k) => list.push(Problem::TopK { elem, rows, cols, k }),
            (Suite::Transpose, &[rows, cols]) => list.push(Problem::Transpose { elem, rows, cols }),
            (Suite::Gemm, &[.., m, n, k]) => {
                let batch = if shape.len() == 4 { shape[0] } else { 1 };
                let out = self.out.unwrap_or_else(|| Gemm::new(elem).out);
                list.extend(self.trans.iter().map(|&trans| Problem::Gemm { elem, out, trans, batch, m, n, k }));
            }
            (Suite::Attention, &[batch, heads, length, dim]) => {
                let heads = batch.saturating_mul(heads);
                list.extend(self.causal.iter().map(|&causal| Problem::Attention { elem, causal, heads, length, dim }));
            }
            (Suite::Elementwise | Suite::Norms | Suite::Rows | Suite::TopK | Suite::Transpose | Suite::Gemm | Suite::Attention, _) => {}
        }
    }

    /// Every variant: all combinations of tiles, warps, stages, groups, consumers, parts and schedules. Products
    /// run as their plan says where no tile is given.
    pub(crate) fn variants(&self, problem: &Problem, target: Option<&Target>) -> Vec<Variant> {
        fn each<T: Copy>(list: Vec<Variant>, values: &[T], used: bool, set: impl Fn(&mut Variant, T)) -> Vec<Variant> {
            if values.is_empty() || !used {
                return list;
            }
            let with = |v: &Variant, &x: &T| {
                let mut v = *v;
                set(&mut v, x);
                v
            };
            list.iter().flat_map(|v| values.iter().map(move |x| with(v, x))).collect()
        }
        let gemm = problem.suite() == Suite::Gemm;
        let attention = problem.suite() == Suite::Attention;
        let loops = gemm || attention;
        let rings = loops || matches!(problem, Problem::StreamNorm { .. });
        let pipelined = self.schedules.contains(&ScheduleKind::Pipelined);
        let units = target.filter(|t| loops && t.units.is_some());
        let modelled = target.filter(|_| gemm && self.tiles.is_empty() && !pipelined);
        let best = modelled.and_then(|t| best(problem, t, &self.records));
        let plain = Variant { units: units.is_some(), swapped: gemm && self.swapped, ..Variant::default() };
        if self.ablation
            && let (Some(best), Some(product)) = (best.filter(|b| b.schedule.is_some()), problem.product())
        {
            return ladder(product.elem, best);
        }
        let list = vec![best.unwrap_or(plain)];
        let list = each(list, &self.tiles, true, |v, x| v.tile = Some(x));
        let list = each(list, &self.warps, true, |v, x| v.warps = Some(x));
        let list = each(list, &self.stages, rings, |v, x| v.stages = Some(x));
        let list = each(list, &self.groups, loops || problem.suite() == Suite::Transpose, |v, x| v.group = Some(x));
        // Who asks for parts asks for no stream-K, and the other way round.
        let parts = self.splits.iter().map(|&k| (k, None)).chain(self.stream_k.iter().map(|&d| (1, Some(d))));
        let list = each(list, &parts.collect::<Vec<_>>(), gemm, |v, (k, d)| (v.splits, v.stream_k) = (Some(k), d));
        let list = each(list, &self.clusters, gemm, |v, x| v.clusters = Some(x));
        let list = each(list, &self.consumer_sets, gemm, |v, x| v.consumer_sets = Some(x));
        let list = each(list, &self.consumers, rings, |v, x| v.consumers = Some(x));
        let list = each(list, &self.overlaps, attention, |v, x| v.overlap = Some(x));
        let list = each(list, &self.persistent, loops, |v, x| v.persistent = Some(x));
        let list = each(list, &self.early, true, |v, x| v.early = Some(x));
        let list = each(list, &self.swizzles, rings, |v, x| v.swizzle = Some(x));
        let list = each(list, &self.register_a, rings, |v, x| v.left = Some(x));
        let list = each(list, &self.bulks, rings, |v, x| v.bulk = Some(x));
        let mut list = each(list, &self.schedules, loops, |v, x| v.schedule = Some(x));
        if let (true, Some(target)) = (self.explicit, units) {
            list.extend(ring::rings(problem, &list, target));
        }
        list
    }
}

/// What a product runs with on a target: the quickest measured choice, else the first candidate of its plan.
fn best(problem: &Problem, target: &Target, records: &[Record]) -> Option<Variant> {
    let product = problem.product()?;
    if let Some(measured) = records::best(records, &product) {
        return Some(measured.choice.into());
    }
    let list = plan::ranked(&(&product).into(), &DeviceFacts::usual(target)).ok()?;
    let best = Variant::from(list.first()?);
    Some(Variant { units: target.units.is_some(), ..best })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection() -> Selection {
        Selection {
            suites: Suite::ALL.to_vec(),
            elems: vec![Scalar::BF16],
            trans: vec![(false, false), (false, true)],
            causal: vec![false, true],
            ..Selection::default()
        }
    }

    #[test]
    fn sizes_and_shapes_go_to_the_suites_they_suit() {
        let usual = |s: Suite| vec![vec![64; s.rank()]];
        assert_eq!(selection().problems(&usual).len(), 2 + 3 + 2 + 1 + 1 + 2 + 2);
        let one = Selection { shapes: vec![vec![10, 20], vec![1, 2, 3]], suites: vec![Suite::Transpose], ..selection() };
        assert_eq!(one.problems(&usual), [Problem::Transpose { elem: Scalar::BF16, rows: 10, cols: 20 }]);
        let sized = Selection { sizes: vec![512], suites: vec![Suite::Gemm], trans: vec![(true, false)], ..selection() };
        let want = Problem::Gemm { elem: Scalar::BF16, out: Scalar::BF16, trans: (true, false), batch: 1, m: 512, n: 512, k: 512 };
        assert_eq!(sized.problems(&usual), [want]);
        let shapes = vec![vec![4, 9000, 7]];
        let firsts = Selection { shapes: shapes.clone(), suites: vec![Suite::TopK], ..selection() };
        assert_eq!(firsts.problems(&usual), [Problem::TopK { elem: Scalar::BF16, rows: 4, cols: 9000, k: 7 }]);
        let too_many = Selection { shapes: vec![vec![4, 7, 8]], ..firsts };
        assert!(too_many.problems(&usual).is_empty());
        let both = Selection { shapes, suites: vec![Suite::TopK, Suite::Gemm], trans: vec![(true, false)], ..selection() };
        assert!(
            both.problems(&usual)
                .iter()
                .all(|p| p.suite() == Suite::Gemm || *p == Problem::TopK { elem: Scalar::BF16, rows: 64, cols: 64, k: 64 })
        );
    }

    #[test]
    fn variants_are_all_combinations_and_name_their_schedule() {
        let s = Selection { tiles: vec![[128, 256, 64], [64, 64, 32]], warps: vec![4, 8], stages: vec![2, 3, 4], ..selection() };
        let p = Problem::Gemm { elem: Scalar::BF16, out: Scalar::F32, trans: (false, true), batch: 1, m: 64, n: 64, k: 64 };
        let all = s.variants(&p, None);
        assert_eq!(all.len(), 12);
        assert_eq!(p.workload(&all[0]).0, "128x256x64 w4 s2 g8");
        assert_eq!(p.name(), "gemm_nt_bf16_f32_64x64x64");
        let other = Problem::Transpose { elem: Scalar::BF16, rows: 64, cols: 64 };
        assert_eq!(s.variants(&other, None).len(), 4, "stages mean nothing to a transposition");
        assert_eq!(selection().variants(&other, None), [Variant::default()]);
        let target = tilelift::targets::by_name("sm_90a");
        let modelled = selection().variants(&p, target.as_ref());
        assert!(modelled.len() == 1 && modelled[0].units && modelled[0].tile.is_some());
        let older = selection().variants(&p, tilelift::targets::by_name("sm_80").as_ref());
        assert!(older.len() == 1 && !older[0].units && older[0].tile.is_some() && older[0].warps.is_some());
        let s = Selection { overlaps: vec![true, false], tiles: vec![[128, 64, 0]], ..selection() };
        let attention = Problem::Attention { elem: Scalar::BF16, causal: false, heads: 6, length: 100, dim: 64 };
        let both = s.variants(&attention, None);
        assert_eq!((both.len(), s.variants(&p, None).len()), (2, 1));
        assert_eq!(
            (attention.workload(&both[1]).0.as_str(), attention.name().as_str()),
            ("128x64 no overlap", "attention_bf16_6x100x100x64")
        );
    }
}
