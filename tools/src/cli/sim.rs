//! `sim`: runs PTX that another compiler wrote in the simulator, from a launch description in JSON.

use super::outcome::{CliError, Outcome, Streams};
use super::{input, options};
use crate::foreign::{ForeignArg, ForeignError, ForeignLaunch, ForeignRun, simulate};
use lexopt::Arg::{Long, Short, Value};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use tilelift::runtime::sim::SimDevice;

pub(super) const HELP: &str = "\
usage: tilelift sim LAUNCH.json [OPTION…]

Runs a kernel of PTX text, whoever wrote it, in the simulator and reports races, reads of undefined values, accesses outside buffers,
divergent barriers and deadlocks (exit code 1), or else bank conflicts and memory transactions (exit code 0). LAUNCH.json:

  {\"code\": \"k.ptx\", \"entry\": \"k\", \"grid\": [4, 1, 1], \"block\": [128, 1, 1], \"shared_bytes\": 0,
   \"args\": [{\"buffer\": {\"bytes\": 4096, \"in\": \"x.bin\", \"out\": \"y.bin\"}}, {\"i32\": 1024}]}

Arguments are in parameter order; a buffer without `in` counts as never written. Paths are relative to LAUNCH.json.
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
    let source = input::read(&path)?;
    let launch = ForeignLaunch::parse(&source.text).map_err(|e| CliError::Failed(format!("{}:{e}", source.name)))?;
    let folder = Path::new(&path).parent().map(Path::to_path_buf).unwrap_or_default();
    let unusable = |p: &PathBuf, e: std::io::Error| CliError::Unusable(format!("{}: {e}", p.display()));
    let code = folder.join(&launch.code);
    let text = input::read(&code.to_string_lossy())?.text;
    let contents = launch.args.iter().map(|a| match a {
        ForeignArg::Buffer { input: Some(p), bytes, .. } => {
            let p = folder.join(p);
            crate::read::whole(&p, *bytes as u64).map(Some).map_err(|e| unusable(&p, e))
        }
        ForeignArg::Buffer { input: None, .. } | ForeignArg::Scalar(_) => Ok(None),
    });
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    match simulate(&text, &launch, &contents, SimDevice::schedule(seed)) {
        Ok(run) => {
            for (arg, bytes) in launch.args.iter().zip(&run.buffers) {
                if let ForeignArg::Buffer { output: Some(p), .. } = arg {
                    let p = folder.join(p);
                    fs::write(&p, bytes).map_err(|e| unusable(&p, e))?;
                }
            }
            clean(&run, seed, as_json, streams)
        }
        Err(e) => {
            if as_json {
                writeln!(streams.out, "{:#}", finding(&e, seed))?;
                return Err(CliError::Failed(String::new()));
            }
            Err(CliError::Failed(format!("{}: {e}", code.display())))
        }
    }
}

fn clean(run: &ForeignRun, seed: u64, as_json: bool, streams: &mut Streams<'_>) -> Outcome {
    let r = &run.report;
    if !as_json {
        return Ok(write!(streams.out, "no findings under seed {seed}\n{r}")?);
    }
    let site = |s: &tilelift::runtime::sim::SiteReport| {
        json!({
            "line": s.line, "text": s.text, "executed": s.executed, "wavefronts": s.wavefronts,
            "bank_conflicts": s.conflict_excess(), "sectors": s.sectors, "transactions": s.transactions,
            "requested_bytes": s.requested_bytes,
        })
    };
    let by_opcode: serde_json::Map<String, serde_json::Value> = r.by_opcode.iter().map(|(k, &v)| (k.clone(), v.into())).collect();
    let report = json!({
        "status": "clean", "seed": seed, "ctas": r.ctas, "instructions": r.instructions, "wavefronts": r.wavefronts,
        "bank_conflicts": r.conflict_excess(), "sectors": r.sectors, "transactions": r.transactions,
        "requested_bytes": r.requested_bytes, "shared_bytes": r.shared_bytes, "by_opcode": by_opcode,
        "sites": r.sites.iter().map(site).collect::<Vec<_>>(),
    });
    Ok(writeln!(streams.out, "{report:#}")?)
}

fn finding(e: &ForeignError, seed: u64) -> serde_json::Value {
    let place = |s: &tilelift_nvptx_sim::Site| json!({"line": s.line, "text": s.text, "cta": s.cta, "warp": s.warp, "lane": s.lane});
    match e {
        ForeignError::Fault(fault) => json!({
            "status": "fault", "seed": seed, "kind": fault.kind.to_string(), "message": fault.message,
            "at": fault.site.as_deref().map(place), "with": fault.other.as_deref().map(place), "notes": fault.notes,
        }),
        ForeignError::Parse(p) => json!({"status": "refused", "line": p.line, "column": p.col, "message": p.message}),
        ForeignError::Entry { .. } | ForeignError::Contents { .. } | ForeignError::Memory(_) => {
            json!({"status": "refused", "message": e.to_string()})
        }
    }
}
