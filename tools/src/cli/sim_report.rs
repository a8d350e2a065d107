//! What `sim` says of a launch: counts of one that ran, the finding of one that did not; as text and in JSON.

use super::outcome::{Outcome, Streams};
use crate::foreign::{Code, ForeignError};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tilelift::runtime::sim::{Report, SiteReport};
use tilelift_amdgcn_sim as amd;

/// What the simulator of PTX counted.
pub(super) fn ptx(r: &Report, seed: u64, as_json: bool, streams: &mut Streams<'_>) -> Outcome {
    if !as_json {
        return Ok(write!(streams.out, "no findings under seed {seed}\n{r}")?);
    }
    let site = |s: &SiteReport| {
        json!({
            "line": s.line, "text": s.text, "executed": s.executed, "wavefronts": s.wavefronts,
            "bank_conflicts": s.conflict_excess(), "sectors": s.sectors, "transactions": s.transactions,
            "requested_bytes": s.requested_bytes,
        })
    };
    let by_opcode: Map<String, Value> = r.by_opcode.iter().map(|(k, &v)| (k.clone(), v.into())).collect();
    let report = json!({
        "status": "clean", "seed": seed, "ctas": r.ctas, "instructions": r.instructions, "wavefronts": r.wavefronts,
        "bank_conflicts": r.conflict_excess(), "sectors": r.sectors, "transactions": r.transactions,
        "requested_bytes": r.requested_bytes, "shared_bytes": r.shared_bytes, "by_opcode": by_opcode,
        "sites": r.sites.iter().map(site).collect::<Vec<_>>(),
    });
    Ok(writeln!(streams.out, "{report:#}")?)
}

/// An instruction on memory, and what it did in a launch.
struct Site {
    pc: u64,
    text: String,
    executed: u64,
    conflicts: u64,
    traffic: amd::Traffic,
}

/// The instructions that met conflicts, or moved something from or to global memory, in the order of the code.
fn sites(module: &amd::Module, r: &amd::Report) -> Vec<Site> {
    let places: BTreeSet<u64> = r.conflicts_by_pc.keys().chain(r.traffic_by_pc.keys()).copied().collect();
    let site = |pc: u64| Site {
        pc,
        text: module.text_at(pc).unwrap_or_else(|| "?".into()),
        executed: r.executed.get(&pc).copied().unwrap_or_default(),
        conflicts: r.conflicts_by_pc.get(&pc).copied().unwrap_or_default(),
        traffic: r.traffic_by_pc.get(&pc).copied().unwrap_or_default(),
    };
    places.into_iter().map(site).collect()
}

/// What the simulator of AMD chips counted.
pub(super) fn object(module: &amd::Module, r: &amd::Report, seed: u64, as_json: bool, streams: &mut Streams<'_>) -> Outcome {
    let classes = r.classes().into_iter().filter(|c| c.1 > 0);
    if as_json {
        let by_class: Map<String, Value> = classes.map(|(name, n)| (name.to_owned(), n.into())).collect();
        let site = |s: Site| {
            json!({
                "pc": s.pc, "text": s.text, "executed": s.executed, "conflict_cycles": s.conflicts,
                "transactions": s.traffic.transactions, "requested_bytes": s.traffic.bytes,
            })
        };
        let report = json!({
            "status": "clean", "seed": seed, "target": module.chip().name(), "waves": r.waves, "instructions": r.instructions,
            "by_class": by_class, "matrix_passes": r.matrix_passes, "loads_to_lds": r.loads_to_lds, "lds_cycles": r.lds_cycles,
            "conflict_cycles": r.lds_conflict_cycles, "transactions": r.global_transactions, "requested_bytes": r.global_bytes,
            "wave_cycles": r.wave_cycles, "longest_wave_cycles": r.longest_wave, "longest_group_cycles": r.longest_group,
            "sites": sites(module, r).into_iter().map(site).collect::<Vec<_>>(),
        });
        return Ok(writeln!(streams.out, "{report:#}")?);
    }
    writeln!(streams.out, "no findings under seed {seed}\n{}, {} waves, {} wave instructions", module.chip(), r.waves, r.instructions)?;
    writeln!(streams.out, "LDS: {} cycles, {} of them from bank conflicts", r.lds_cycles, r.lds_conflict_cycles)?;
    writeln!(streams.out, "global: {} transactions of 64 bytes, {} bytes requested", r.global_transactions, r.global_bytes)?;
    writeln!(streams.out, "matrix: {} passes", r.matrix_passes)?;
    for (name, n) in classes {
        writeln!(streams.out, "{n:>12}  {name}")?;
    }
    for s in sites(module, r) {
        write!(streams.out, "at {:#7x}: `{}` x{}", s.pc, s.text, s.executed)?;
        if s.conflicts > 0 {
            write!(streams.out, ", {} cycles of bank conflicts", s.conflicts)?;
        }
        if s.traffic.transactions > 0 {
            let whole = (64 * s.traffic.transactions) as f64;
            write!(streams.out, ", {} transactions, efficiency {:.2}", s.traffic.transactions, s.traffic.bytes as f64 / whole)?;
        }
        writeln!(streams.out)?;
    }
    Ok(())
}

/// What helps against a finding, behind the sentence that tells it.
pub(super) fn remedy(e: &ForeignError) -> String {
    match e {
        ForeignError::ObjectFault(f) => format!("; {}", f.kind.remedy()),
        ForeignError::Parse(_)
        | ForeignError::Entry { .. }
        | ForeignError::Contents { .. }
        | ForeignError::Count { .. }
        | ForeignError::Size { .. }
        | ForeignError::Bytes { .. }
        | ForeignError::Fault(_)
        | ForeignError::Memory(_)
        | ForeignError::ObjectMemory(_) => String::new(),
    }
}

/// A launch that did not end, in JSON.
pub(super) fn finding(code: &Code, e: &ForeignError, seed: u64) -> Value {
    let place = |s: &tilelift_nvptx_sim::Site| json!({"line": s.line, "text": s.text, "cta": s.cta, "warp": s.warp, "lane": s.lane});
    match e {
        ForeignError::Fault(fault) => json!({
            "status": "fault", "seed": seed, "kind": fault.kind.to_string(), "message": fault.message,
            "at": fault.site.as_deref().map(place), "with": fault.other.as_deref().map(place), "notes": fault.notes,
        }),
        ForeignError::ObjectFault(fault) => json!({
            "status": "fault", "seed": seed, "kind": fault.kind.word(), "message": fault.kind.to_string(),
            "at": fault.site.as_ref().map(|s| json!({"pc": s.pc, "text": s.text, "workgroup": s.workgroup, "wave": s.wave})),
            "with": fault.kind.other().map(|pc| json!({"pc": pc, "text": text(code, pc)})), "remedy": fault.kind.remedy(),
        }),
        ForeignError::Parse(p) => json!({"status": "refused", "line": p.line, "column": p.col, "message": p.message}),
        ForeignError::Entry { .. }
        | ForeignError::Contents { .. }
        | ForeignError::Count { .. }
        | ForeignError::Size { .. }
        | ForeignError::Bytes { .. }
        | ForeignError::Memory(_)
        | ForeignError::ObjectMemory(_) => json!({"status": "refused", "message": e.to_string()}),
    }
}

fn text(code: &Code, pc: u64) -> Option<String> {
    match code {
        Code::Object(module) => module.text_at(pc),
        Code::Ptx(_) => None,
    }
}
