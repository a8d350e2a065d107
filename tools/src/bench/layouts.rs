//! What the choice of layouts changes: counts of the simulator for kernels of the library as written, and with layouts searched.

use tilelift::runtime::sim::{SimConfig, SimDevice};
use tilelift::{OptLevel, Options, compile, lower};
use tilelift_isel::Target;
use tilelift_kernels::{Case, cases};

/// The cases of the table: a kernel each, at a size that fills a program.
const CASES: &[&str] = &[
    "vector_add_bf16_98432",
    "silu_mul_bf16_98432",
    "quantise_both_bf16_f8e4m3_257x640",
    "softmax_f32_20x781",
    "softmax_bf16_20x781",
    "rms_norm_bf16_10x1000",
    "layer_norm_bf16_10x1000_residual",
    "sum_f32_5x257",
    "argmax_f32_5x257",
    "cumsum_f32_5x257",
    "sort_ascending_f32_5x257",
    "top6_descending_f32_20x128",
    "gather_rows_f16_131x67_100",
    "scatter_add_f32_131_131x67",
    "rotary_neox_bf16_3x50x128",
    "rotary_interleaved_bf16_3x50x128",
    "transpose_f32_4096x4096",
    "transpose_f16_4096x4096",
    "transpose_i8_4096x4096",
    "gemv_f16_1024x1024",
    "gemv_f16_u4_1024x1024",
    "gemv_f16_i4_1024x1024",
    "gemm_nn_bf16_bf16_512x512x512",
    "gemm_nt_bf16_bf16_512x512x512",
    "gemm_tn_bf16_bf16_512x512x512",
    "gemm_tt_bf16_bf16_512x512x512",
    "gemm_nn_tf32_f32_512x512x512",
    "gemm_nt_tf32_f32_512x512x512",
    "gemm_tn_tf32_f32_512x512x512",
    "gemm_tt_tf32_f32_512x512x512",
    "gemm_nn_i8_i32_512x1024x768",
    "gemm_nt_i8_i32_512x1024x768",
    "gemm_tn_i8_i32_512x1024x768",
    "gemm_tt_i8_i32_512x1024x768",
    "gemm_nn_i4_i32_512x1024x768",
    "gemm_nt_i4_i32_512x1024x768",
    "gemm_tn_i4_i32_512x1024x768",
    "gemm_tt_i4_i32_512x1024x768",
    "gemm_nt_i8_i4_i32_512x1024x768",
    "gemm_tn_i8_i4_i32_512x1024x768",
    "gemm_nn_bf16_bf16_255x129x130",
    "gemm_nt_f16_f16_255x129x130_bias_f16_relu",
    "attention_bf16_1024x1024x128",
    "attention_bf16_1024x1024x128_causal",
    "attention_f16_7x129x64",
];

/// Programs that are run.
const PROGRAMS: usize = 2;

/// Counts of a case at one level, means per program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Conversions of layouts in the text that move data.
    pub(crate) conversions: u64,
    /// Bytes through shared memory, in bank wavefronts that would do without conflicts.
    pub(crate) shared_bytes: u64,
    /// Further wavefronts, because of conflicts.
    pub(crate) conflicts: u64,
    /// 32-byte sectors of global memory.
    pub(crate) sectors: u64,
    /// Warp instructions.
    pub(crate) instructions: u64,
}

/// Bytes of a pass over the banks.
const PASS: u64 = 128;

/// The cases of the table whose name contains a text.
pub(crate) fn selected(filter: &str) -> Vec<Case> {
    let at = |c: &Case| CASES.iter().position(|n| *n == c.name);
    let mut list: Vec<Case> = cases().into_iter().filter(|c| at(c).is_some() && c.name.contains(filter)).collect();
    list.sort_by_key(at);
    list
}

/// Counts of a case at a level.
///
/// # Errors
/// A sentence: it does not build, compile or run, or its output is wrong.
pub(crate) fn measure(case: &Case, target: &Target, opt: OptLevel) -> Result<Counts, String> {
    let (tensors, sample) = (case.make_tensors(), case.sample(PROGRAMS));
    let mut memory = case.memory(&tensors);
    let mut sum = Counts::default();
    let options = Options { opt, ..Options::default() };
    let mut programs = 0;
    for l in case.launches(Some(&sample)).map_err(|e| e.to_string())? {
        let lowered = lower(&l.kernel, target, &options).map_err(|e| e.to_string())?;
        let artifact = compile(&l.kernel, target, &options).map_err(|e| e.to_string())?;
        let ctas = l.programs.as_ref().map(|p| p.iter().map(|p| p[0] + l.grid[0] * (p[1] + l.grid[1] * p[2])).collect());
        let device = SimDevice::new(SimConfig { ctas, ..SimDevice::schedule(0) });
        let loaded = device.load(&artifact).map_err(|e| e.to_string())?;
        let r = device.execute(&loaded, l.grid, &l.args, &mut memory).map_err(|e| e.to_string())?;
        programs += r.ctas;
        sum.conversions += lowered.conversions.iter().map(|&n| u64::from(n)).sum::<u64>();
        sum.shared_bytes += r.ideal_wavefronts * PASS;
        sum.conflicts += r.conflict_excess();
        sum.sectors += r.sectors;
        sum.instructions += r.instructions;
    }
    let verdict = case.judge(&tensors, &memory, Some(&sample)).map_err(|e| e.to_string())?;
    if !verdict.pass() {
        return Err(format!("wrong output: {verdict}"));
    }
    let mean = |n: u64| n / programs.max(1);
    Ok(Counts {
        shared_bytes: mean(sum.shared_bytes),
        conflicts: mean(sum.conflicts),
        sectors: mean(sum.sectors),
        instructions: mean(sum.instructions),
        ..sum
    })
}

/// All names of the table.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(|n| (*n).to_owned()).collect()
}

/// The table's head, as Markdown; with a column for times, if they are taken.
pub(crate) fn head(timed: bool) -> String {
    let more = if timed { [" us |", "---|"] } else { [""; 2] };
    format!(
        "| kernel | conversions | shared bytes | conflicts | sectors | warp instructions |{}\n|---|---|---|---|---|---|{}\n",
        more[0], more[1]
    )
}

/// A row of the table: `level 0 → level 2`, one number where they are equal.
pub(crate) fn row(name: &str, [plain, searched]: [Counts; 2], times: Option<[Option<f64>; 2]>) -> String {
    let cell = |f: fn(&Counts) -> u64| {
        let (a, b) = (f(&plain), f(&searched));
        if a == b { a.to_string() } else { format!("{a} → {b}") }
    };
    let cells = [cell(|c| c.conversions), cell(|c| c.shared_bytes), cell(|c| c.conflicts), cell(|c| c.sectors), cell(|c| c.instructions)];
    let time = times.map_or_else(String::new, |t| format!(" {} |", super::estimate::cell(t)));
    format!("| `{name}` | {} |{time}\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift::targets;

    fn sm_80() -> Target {
        targets::by_name("sm_80").unwrap()
    }

    fn counts(name: &str, opt: OptLevel) -> Counts {
        let case = cases().into_iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no case {name}"));
        measure(&case, &sm_80(), opt).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    #[test]
    fn every_name_of_the_table_is_a_case() {
        assert_eq!(selected("").len(), CASES.len());
    }

    #[test]
    fn products_meet_no_bank_conflict_in_any_order() {
        // Something is gained where rows and columns of words compete for the same banks.
        assert!(counts("gemm_nn_tf32_f32_512x512x512", OptLevel::None).conflicts > 0);
        for kind in ["bf16_bf16_512x512x512", "tf32_f32_512x512x512", "i8_i32_512x1024x768"] {
            for order in ["nn", "nt", "tn", "tt"] {
                let name = format!("gemm_{order}_{kind}");
                assert_eq!(counts(&name, OptLevel::Physical).conflicts, 0, "{name}");
            }
        }
    }

    #[test]
    fn transposes_meet_no_bank_conflict() {
        for elem in ["f32", "f16", "i8"] {
            assert_eq!(counts(&format!("transpose_{elem}_4096x4096"), OptLevel::Physical).conflicts, 0, "{elem}");
        }
    }

    fn conversions(name: &str, opt: OptLevel) -> [u32; 3] {
        let case = cases().into_iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no case {name}"));
        lower(&case.build().unwrap(), &sm_80(), &Options { opt, ..Options::default() }).unwrap().conversions
    }

    #[test]
    fn what_attention_multiplies_twice_stays_where_it_is() {
        for name in ["attention_bf16_1024x1024x128", "attention_f16_1024x1024x128_causal"] {
            assert_eq!(conversions(name, OptLevel::Logical), [0, 0, 2], "{name}: the weights, and the result for its store");
            assert_eq!(conversions(name, OptLevel::Physical), [0, 0, 1], "{name}: the result alone");
        }
    }

    /// Of each site what one run of it by all warps costs, summed: what the layouts foresaw.
    #[test]
    fn estimated_conflicts_and_sectors_are_those_of_the_simulator() {
        let names = [
            "vector_add_bf16_98432",
            "transpose_f32_4096x4096",
            "transpose_f16_4096x4096",
            "transpose_i8_4096x4096",
            "gemm_nn_bf16_bf16_512x512x512",
            "gemm_tn_tf32_f32_512x512x512",
            "gemm_tt_i8_i32_512x1024x768",
        ];
        let both = names.into_iter().flat_map(|n| [(n, OptLevel::None), (n, OptLevel::Physical)]);
        // As written, rows of attention are reduced over warps, through places that no layout describes.
        for (name, opt) in both.chain([("attention_bf16_1024x1024x128", OptLevel::Physical)]) {
            let case = cases().into_iter().find(|c| c.name == name).unwrap();
            let (kernel, options) = (case.build().unwrap(), Options { opt, ..Options::default() });
            let lowered = lower(&kernel, &sm_80(), &options).unwrap();
            let artifact = compile(&kernel, &sm_80(), &options).unwrap();
            let (grid, mut memory) = (case.grid(), case.memory(&case.make_tensors()));
            let device = SimDevice::new(SimConfig { ctas: Some(vec![0]), ..SimDevice::schedule(0) });
            let loaded = device.load(&artifact).unwrap();
            let r = device.execute(&loaded, grid, &case.arguments(), &mut memory).unwrap();
            let warps = u64::from(lowered.program.warps);
            let once = |count: fn(&tilelift::runtime::sim::SiteReport) -> u64| -> u64 {
                r.sites.iter().filter(|s| s.executed > 0).map(|s| count(s) * warps / s.executed).sum()
            };
            let t = lowered.traffic;
            assert_eq!((t.wavefronts, t.conflicts), (once(|s| s.wavefronts), once(|s| s.conflict_excess())), "{name} at {opt:?}");
            // Copies for rounds behind the end of a loop read nothing.
            if !r.by_opcode.keys().any(|k| k.starts_with("cp.async")) {
                assert_eq!(t.sectors, once(|s| s.sectors), "{name} at {opt:?}");
            }
        }
    }

    /// The text of a loop's body, of a text with one loop.
    fn body(ptx: &str) -> &str {
        let labels: Vec<usize> = ptx.match_indices("bra").map(|x| x.0).collect();
        let back = labels.iter().rev().find_map(|&at| {
            let name = ptx[at..].split([' ', ';', '\n']).find(|w| w.starts_with('$') || w.starts_with('L') || w.starts_with('%'))?;
            let head = ptx.find(&format!("{name}:"))?;
            (head < at).then_some((head, at))
        });
        back.map_or("", |(from, to)| &ptx[from..to])
    }

    fn texts(file: &str, kernel: &str) -> [String; 2] {
        let source = std::fs::read_to_string(format!("{}/../tests/tile/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let code = &source[source.find(&format!("kernel @{kernel}(")).unwrap()..];
        let kernel = tilelift_ir::text::parse(&code[..code.find("\n}").unwrap() + 2]).unwrap().kernels.remove(0);
        [OptLevel::Logical, OptLevel::Physical].map(|opt| compile(&kernel, &sm_80(), &Options { opt, ..Options::default() }).unwrap().text)
    }

    #[test]
    fn codes_of_four_bits_go_from_their_load_to_the_product_in_registers() {
        let [plain, searched] = texts("dot/i4_fragments.tile", "codes");
        assert!(body(&plain).contains("st.shared"), "the plain assignment has something to gain");
        let inside = body(&searched);
        assert!(inside.contains("mma.sync") && inside.contains("ld.global"), "the loop is found");
        assert!(!inside.contains("st.shared") && !inside.contains("shfl"), "{inside}");
    }

    /// Fragments that several warps hold would be unpacked by each of them, and words put together from bytes in each.
    #[test]
    fn products_of_four_bits_issue_no_more_than_as_written() {
        for kind in ["nn_i4", "nt_i4", "tn_i4", "tt_i4", "nt_i8_i4", "tn_i8_i4", "tt_i8_i4"] {
            let name = format!("gemm_{kind}_i32_512x1024x768");
            let [plain, searched] = [OptLevel::None, OptLevel::Physical].map(|opt| counts(&name, opt));
            assert!(searched.instructions * 100 <= plain.instructions * 101, "{name}: {plain:?} {searched:?}");
            assert!(searched.conflicts <= plain.conflicts, "{name}: {plain:?} {searched:?}");
        }
    }

    #[test]
    fn what_does_not_change_in_a_loop_is_converted_in_front_of_it() {
        let [plain, searched] = texts("lower/searched_layouts.tile", "outside");
        assert!(body(&plain).contains("st.shared"), "the plain assignment converts inside");
        let inside = body(&searched);
        assert!(inside.contains("mma.sync"), "the loop is found");
        assert!(!inside.contains("st.shared"), "{inside}");
    }
}
