//! The command line of `bench`.

// The hardware half idles in a build without it.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))]

use super::options;
use super::outcome::{CliError, Outcome};
use crate::bench::problem::{ELEMS, ORDERS, OUTS, Suite};
use crate::bench::records;
use crate::bench::selection::Selection;
use crate::execute::DeviceKind;
use lexopt::Arg::{Long, Short, Value};
use tilelift::OptLevel;
use tilelift_ir::Scalar;
use tilelift_isel::Target;

/// A command line.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) selection: Selection,
    pub(super) compile: bool,
    pub(super) repeat: Option<u32>,
    /// Warm-up, batch and rest in milliseconds.
    pub(super) times: [f64; 3],
    pub(super) sets: Option<u32>,
    pub(super) seed: u64,
    pub(super) library: bool,
    pub(super) kind: DeviceKind,
    pub(super) target: Option<Target>,
    pub(super) json: Option<String>,
    pub(super) roofline: Option<String>,
    pub(super) opt: OptLevel,
    pub(super) emit: bool,
    /// What the names of problems have to contain.
    pub(super) filter: String,
}

/// Batches of a kernel, and compiles of one, if the line does not say.
pub(super) const REPEAT: u32 = 9;
pub(super) const COMPILE_REPEAT: u32 = 200;
const BURST: [f64; 3] = [6.0, 20.0, 100.0];
const STEADY: [f64; 3] = [200.0, 350.0, 0.0];
/// Largest extent on the command line.
const MAX: u32 = 1 << 30;
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// Reads it.
pub(super) fn job(parser: &mut lexopt::Parser) -> Result<Job, CliError> {
    let mut s = Selection::default();
    let (mut compile, mut repeat, mut times, mut sets, mut seed) = (false, None, BURST, None, 1);
    let mut filter = String::new();
    let (mut library, mut kind, mut target, mut json, mut opt) = (true, DeviceKind::Cuda, None, None, OptLevel::default());
    let (mut emit, mut device, mut roofline) = (false, false, None);
    while let Some(arg) = parser.next()? {
        match arg {
            Value(v) if v == "compile" => compile = true,
            Long("suite") => {
                for word in options::text(parser)?.split(',') {
                    suite_of(word, &mut s.suites)?;
                }
            }
            Value(v) => suite_of(&v.to_string_lossy(), &mut s.suites)?,
            Long("sizes") => s.sizes = numbers(parser, "sizes", MAX)?,
            Long("shape") => {
                let list = options::text(parser)?;
                for word in list.split(',') {
                    s.shapes.push(extents(word, "shape", 4, MAX)?);
                }
            }
            Long("dtype") => s.elems = words(parser, "dtype", &ELEMS)?,
            Long("out") => s.out = Some(options::word(parser, "out", &OUTS)?),
            Long("trans") => s.trans = words(parser, "trans", &ORDERS)?,
            Long("tile") => {
                let list = options::text(parser)?;
                for word in list.split(',') {
                    let mut tile = [0; 3];
                    let given = extents(word, "tile", 3, 1 << 20)?;
                    tile[..given.len()].copy_from_slice(&given);
                    s.tiles.push(tile);
                }
            }
            Long("warps") => s.warps = numbers(parser, "warps", 32)?,
            Long("stages") => s.stages = numbers(parser, "stages", 16)?,
            Long("consumers") => s.consumers = numbers(parser, "consumers", 8)?,
            Long("stream-k") => {
                let list = options::text(parser)?;
                let one = |w: &str| w.parse().map_err(|e| CliError::Usage(format!("--stream-k: {e}")));
                s.stream_k = list.split(',').map(one).collect::<Result<_, _>>()?;
            }
            Long("clusters") => {
                let list = options::text(parser)?;
                let one = |w: &str| w.parse().map_err(|e| CliError::Usage(format!("--clusters: {e}")));
                s.clusters = list.split(',').map(one).collect::<Result<_, _>>()?;
            }
            Long("splits") => s.splits = numbers(parser, "splits", 64)?,
            Long("swapped") => s.swapped = true,
            Long("explicit") => s.explicit = true,
            Long("ablation") => s.ablation = true,
            Long("consumer-sets") => s.consumer_sets = numbers(parser, "consumer-sets", 2)?,
            Long("group") => s.groups = numbers(parser, "group", 1 << 16)?,
            Long("schedule") => s.schedules = words(parser, "schedule", &options::SCHEDULES)?,
            Long("causal") => s.causal = words(parser, "causal", &SWITCH)?,
            Long("overlap") => s.overlaps = words(parser, "overlap", &SWITCH)?,
            Long("early") => s.early = words(parser, "early", &SWITCH)?,
            Long("persistent") => s.persistent = words(parser, "persistent", &SWITCH)?,
            Long("swizzle") => s.swizzles = numbers(parser, "swizzle", 128)?,
            Long("operand-a") => s.register_a = words(parser, "operand-a", &options::OPERAND_A)?,
            Long("results") => s.bulks = words(parser, "results", &options::RESULTS)?,
            Long("no-library") => library = false,
            Long("filter") => filter = parser.value()?.to_string_lossy().into_owned(),
            Long("repeat") => repeat = Some(options::number(parser, "repeat", 1..=100_000)?),
            Long("warm-ms") => times[0] = options::number(parser, "warm-ms", 0.0..=1e5)?,
            Long("batch-ms") => times[1] = options::number(parser, "batch-ms", 0.0..=1e5)?,
            Long("rest-ms") => times[2] = options::number(parser, "rest-ms", 0.0..=1e5)?,
            Long("steady") => times = STEADY,
            Long("sets") => sets = Some(options::number(parser, "sets", 1..=64)?),
            Long("seed") => seed = options::number(parser, "seed", 0..=u64::MAX)?,
            Long("device") => {
                device = true;
                kind = options::word(parser, "device", &[("cuda", DeviceKind::Cuda), ("sim", DeviceKind::Sim)])?;
            }
            Long("target") => target = Some(options::target(parser)?),
            Long("opt") => opt = options::opt(parser)?,
            Long("emit") => emit = true,
            Long("records") => s.records = records::read(&options::text(parser)?).map_err(CliError::Unusable)?,
            Long("json") => json = Some(options::text(parser)?),
            Long("roofline") => roofline = Some(options::text(parser)?),
            Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    if compile && !s.suites.is_empty() {
        return Err(CliError::Usage("`compile` goes with no other suite: it needs no GPU and measures another thing".into()));
    }
    if compile && (!s.shapes.is_empty() || !s.tiles.is_empty() || device) {
        return Err(CliError::Usage(
            "`bench compile` times the library's kernels and runs nothing; leave out `--shape`, `--tile` and `--device`".into(),
        ));
    }
    if roofline.is_some() && (compile || emit || kind == DeviceKind::Sim) {
        return Err(CliError::Usage("`--roofline` draws times of kernels: leave out `compile`, `--emit` and `--device sim`".into()));
    }
    if s.swapped && s.tiles.is_empty() {
        return Err(CliError::Usage("`--swapped` goes with `--tile`; without one the model decides that, too".into()));
    }
    if !s.records.is_empty() && !s.tiles.is_empty() {
        return Err(CliError::Usage("`--records` chooses tiles; leave out `--tile`".into()));
    }
    if s.explicit && !s.suites.is_empty() && !s.suites.contains(&Suite::Gemm) {
        return Err(CliError::Usage(
            "`--explicit` goes with `bench gemm` and `bench compile`; the other suites have such kernels in their lists, or none".into(),
        ));
    }
    if s.ablation && (s.suites != [Suite::Gemm] || !s.tiles.is_empty() || !s.splits.is_empty() || !s.stream_k.is_empty() || s.swapped) {
        return Err(CliError::Usage(
            "`--ablation` chooses the variants of `bench gemm` itself; leave out other suites, tiles, splits, streams and `--swapped`"
                .into(),
        ));
    }
    if !(s.splits.is_empty() && s.stream_k.is_empty())
        && s.suites.contains(&Suite::Gemm)
        && let Some(shape) = s.shapes.iter().find(|s| s.len() == 4 && s[0] > 1)
    {
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        return Err(CliError::Usage(format!(
            "`--splits` and `--stream-k` share the depth of one product, and {} is a batch; leave out one or the other",
            shape.join("x")
        )));
    }
    if s.suites.is_empty() {
        s.suites = Suite::ALL.to_vec();
    }
    if s.elems.is_empty() {
        s.elems = vec![Scalar::BF16];
    }
    if s.causal.is_empty() {
        s.causal = vec![false, true];
    }
    if s.trans.is_empty() {
        s.trans = ORDERS[..2].iter().map(|o| o.1).collect();
    }
    for shape in &s.shapes {
        if !s.suites.iter().any(|u| u.takes(shape.len())) {
            let wanted: Vec<String> = s.suites.iter().map(|u| format!("{} (for {})", u.extents(), u.word())).collect();
            return Err(CliError::Usage(format!(
                "a shape of {} extents suits none of the suites; they take {}",
                shape.len(),
                wanted.join(", ")
            )));
        }
    }
    Ok(Job { selection: s, compile, repeat, times, sets, seed, library, kind, target, json, roofline, opt, emit, filter })
}

/// Adds the suite of a word, or every suite for `all`.
fn suite_of(word: &str, list: &mut Vec<Suite>) -> Outcome {
    if word == "all" {
        list.extend(Suite::ALL);
        return Ok(());
    }
    match Suite::ALL.iter().copied().find(|s| s.word() == word) {
        Some(suite) => {
            list.push(suite);
            Ok(())
        }
        None => Err(CliError::Usage(format!(
            "there is no suite `{word}`; known are all, {}, compile; a file ends in `.tile` or has a `/`",
            suites()
        ))),
    }
}

fn suites() -> String {
    Suite::ALL.iter().map(|s| s.word()).collect::<Vec<_>>().join(", ")
}

/// A list of numbers from 1 to `max`.
fn numbers(parser: &mut lexopt::Parser, name: &str, max: u32) -> Result<Vec<u32>, CliError> {
    let list = options::text(parser)?;
    let one = |w: &str| w.parse().ok().filter(|n| (1..=max).contains(n));
    let wrong = |w: &str| CliError::Usage(format!("--{name} takes numbers from 1 to {max} separated by commas, not `{w}`"));
    list.split(',').map(|w| one(w).ok_or_else(|| wrong(w))).collect()
}

/// A list of words.
fn words<T: Copy>(parser: &mut lexopt::Parser, name: &str, known: &[(&str, T)]) -> Result<Vec<T>, CliError> {
    let list = options::text(parser)?;
    let all: Vec<&str> = known.iter().map(|(w, _)| *w).collect();
    let wrong = |w: &str| CliError::Usage(format!("--{name} takes {} separated by commas, not `{w}`", all.join(", ")));
    list.split(',').map(|w| known.iter().find(|(k, _)| *k == w).map(|&(_, t)| t).ok_or_else(|| wrong(w))).collect()
}

/// One to `most` extents with `x` between them.
fn extents(word: &str, name: &str, most: usize, max: u32) -> Result<Vec<u32>, CliError> {
    let parts: Option<Vec<u32>> = word.split('x').map(|p| p.parse().ok().filter(|e| (1..=max).contains(e))).collect();
    parts
        .filter(|p| (1..=most).contains(&p.len()))
        .ok_or_else(|| CliError::Usage(format!("--{name} takes up to {most} extents from 1 to {max} such as 128x128x64, not `{word}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Job, CliError> {
        job(&mut lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn lists_shapes_and_overrides_are_read() {
        let j =
            parse("gemm --shape 4096x2048x512,64x64x64 --dtype bf16,tf32 --trans nt --tile 128x256x64 --warps 4,8 --stages 3 --repeat 5")
                .unwrap();
        let s = &j.selection;
        assert_eq!((s.suites.as_slice(), s.shapes.len(), s.elems.len()), (&[Suite::Gemm][..], 2, 2));
        assert_eq!((s.trans.as_slice(), s.tiles.as_slice()), (&[(false, true)][..], &[[128, 256, 64]][..]));
        let p = s.problems(&|_| Vec::new())[0];
        assert_eq!((s.variants(&p, None).len(), j.repeat, j.times), (2, Some(5), BURST));
        let j = parse("transpose --tile 32x64 --steady --rest-ms 5 --device sim").unwrap();
        assert_eq!((j.selection.tiles[0], j.times, j.kind), ([32, 64, 0], [200.0, 350.0, 5.0], DeviceKind::Sim));
        let j = parse("").unwrap();
        assert_eq!((j.selection.suites.len(), j.selection.trans.len(), j.compile), (7, 2, false));
        assert!(parse("compile --target sm_90a").unwrap().compile);
    }

    #[test]
    fn wrong_lines_are_refused_with_the_words_that_help() {
        let cases = [
            ("gem", "elementwise"),
            ("gemm --sizes 0", "from 1 to"),
            ("gemm --sizes 8,", "separated by commas"),
            ("gemm --shape 1x2x3x4x5", "up to 4 extents"),
            ("gemm --shape 64x64", "MxNxK"),
            ("--dtype int8", "bf16"),
            ("--trans nx", "nn, nt"),
            ("--device lane", "cuda, sim"),
            ("--warm-ms -1", "number from"),
            ("--warm-ms NaN", "number from"),
            ("compile gemm", "no other suite"),
            ("compile --device sim", "runs nothing"),
            ("gemm --swapped", "goes with `--tile`"),
            ("--frobnicate", "frobnicate"),
        ];
        for (line, want) in cases {
            let e = parse(line).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(e.contains(want), "{line}: {e}");
        }
    }
}
