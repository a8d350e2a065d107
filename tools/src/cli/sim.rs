//! `sim`: runs code that another compiler wrote in the simulators, from a launch description in JSON.

use super::outcome::{CliError, Outcome, Streams};
use super::{input, options, sim_report};
use crate::foreign::{Code, ForeignArg, ForeignError, ForeignLaunch, ForeignRun, MAX_CODE, describe, simulate, simulate_object};
use lexopt::Arg::{Long, Short, Value};
use std::fs;
use std::path::{Path, PathBuf};
use tilelift::runtime::sim::SimDevice;
use tilelift_amdgcn_sim::SimConfig;

pub(super) const HELP: &str = "\
usage: tilelift sim LAUNCH.json [OPTION…]

Runs a kernel, whoever compiled it, in the simulator and reports races, reads of undefined values, accesses outside buffers,
missing waits, divergent barriers and deadlocks (exit code 1), or else bank conflicts and memory transactions (exit code 0).
The code is PTX text, or a linked code object for gfx90a, gfx942 or gfx950. LAUNCH.json:

  {\"code\": \"k.ptx\", \"entry\": \"k\", \"grid\": [4, 1, 1], \"block\": [128, 1, 1], \"shared_bytes\": 0,
   \"args\": [{\"buffer\": {\"bytes\": 4096, \"in\": \"x.bin\", \"out\": \"y.bin\"}}, {\"i32\": 1024}]}

Arguments are in parameter order, those of a code object as its metadata declare them, without the hidden ones. The grid counts blocks
(workgroups), the block threads (work items); `shared_bytes` come to what the code itself asks for. A buffer without `in` counts as
never written. Paths are relative to LAUNCH.json. Given a code object itself, `sim` prints a description to complete.
  --seed N        order of warps and landing of asynchronous copies (0); findings may depend on it
  --json          the report in JSON";

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut path, mut seed, mut as_json) = (None, 0, false);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("seed") => seed = options::number(parser, "seed", 0..=u64::MAX)?,
            Long("json") => as_json = true,
            Value(v) if path.is_none() => path = Some(v.to_string_lossy().into_owned()),
            Long(_) | Short(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    let path = path.ok_or_else(|| CliError::Usage("name a launch description; see `tilelift help sim`".into()))?;
    let Described { launch, code, shown, folder, contents } = described(&path)?;
    match &code {
        Code::Ptx(text) => match simulate(text, &launch, &contents, SimDevice::schedule(seed)) {
            Ok(run) => {
                written(&launch, &run, &folder)?;
                sim_report::ptx(&run.report, seed, as_json, streams)
            }
            Err(e) => failed(&code, &shown, &e, (seed, as_json), streams),
        },
        Code::Object(module) => match simulate_object(module, &launch, &contents, SimConfig { seed, ..SimConfig::default() }) {
            Ok(run) => {
                written(&launch, &run, &folder)?;
                sim_report::object(module, &run.report, seed, as_json, streams)
            }
            Err(e) => failed(&code, &shown, &e, (seed, as_json), streams),
        },
    }
}

/// A launch description, with everything that it names.
pub(super) struct Described {
    pub(super) launch: ForeignLaunch,
    pub(super) code: Code,
    /// Where the code is, for messages.
    pub(super) shown: String,
    /// What paths are relative to.
    pub(super) folder: PathBuf,
    /// Initial contents, an entry per argument.
    pub(super) contents: Vec<Option<Vec<u8>>>,
}

/// Reads a description and the files that it names.
pub(super) fn described(path: &str) -> Result<Described, CliError> {
    let launch = description(path)?;
    let folder = Path::new(path).parent().map(Path::to_path_buf).unwrap_or_default();
    let code_path = folder.join(&launch.code);
    let shown = code_path.display().to_string();
    let code = Code::of(input::bytes(&code_path.to_string_lossy(), MAX_CODE)?).map_err(|e| CliError::Failed(format!("{shown} {e}")))?;
    let contents = launch.args.iter().map(|a| match a {
        ForeignArg::Buffer { input: Some(p), bytes, .. } => {
            let p = folder.join(p);
            crate::read::whole(&p, *bytes as u64).map(Some).map_err(|e| unusable(&p, &e))
        }
        ForeignArg::Buffer { input: None, .. } | ForeignArg::Scalar(_) => Ok(None),
    });
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    Ok(Described { launch, code, shown, folder, contents })
}

fn unusable(p: &Path, e: &std::io::Error) -> CliError {
    CliError::Unusable(format!("{}: {e}", p.display()))
}

/// Reads the description; code in its place is told what it needs.
fn description(path: &str) -> Result<ForeignLaunch, CliError> {
    let bytes = input::bytes(path, MAX_CODE)?;
    let begins = bytes.iter().find(|b| !b.is_ascii_whitespace());
    if begins != Some(&b'{') {
        let why = match Code::of(bytes) {
            Ok(Code::Object(module)) => {
                let name = Path::new(path).file_name().map_or_else(|| path.into(), |n| n.to_string_lossy());
                let each: Vec<String> = module.kernels().iter().map(|k| describe(&name, k).to_string()).collect();
                let chip = module.chip();
                format!(
                    "{path} is a code object for {chip}, and not the description of a launch; complete this one, and name its file:\n{}",
                    each.join("\n")
                )
            }
            Ok(Code::Ptx(_)) => {
                format!("{path} is PTX text, and not the description of a launch; see `tilelift help sim` for one that names it")
            }
            Err(why) => format!("{path} is not the description of a launch in JSON (`tilelift help sim`), and it {why}"),
        };
        return Err(CliError::Failed(why));
    }
    let source = input::utf8(path, bytes)?;
    ForeignLaunch::parse(&source.text).map_err(|e| CliError::Failed(format!("{}:{e}", source.name)))
}

/// Writes the buffers whose descriptions name a file.
fn written<R>(launch: &ForeignLaunch, run: &ForeignRun<R>, folder: &Path) -> Outcome {
    for (arg, bytes) in launch.args.iter().zip(&run.buffers) {
        if let ForeignArg::Buffer { output: Some(p), .. } = arg {
            let p: PathBuf = folder.join(p);
            fs::write(&p, bytes).map_err(|e| unusable(&p, &e))?;
        }
    }
    Ok(())
}

fn failed(code: &Code, path: &str, e: &ForeignError, (seed, as_json): (u64, bool), streams: &mut Streams<'_>) -> Outcome {
    if as_json {
        writeln!(streams.out, "{:#}", sim_report::finding(code, e, seed))?;
        return Err(CliError::Failed(String::new()));
    }
    Err(CliError::Failed(format!("{path}: {e}{}", sim_report::remedy(e))))
}
