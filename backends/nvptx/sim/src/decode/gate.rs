//! Which `.version` and `.target` an instruction needs.
//!
//! The rows were read off an assembler by assembling each form for every version and target; a form without a row
//! is accepted by version 7.0 and sm_80, the oldest that are modelled.

use super::names::{Decoder, Res};
use crate::text::ast::{Ast, Instr};

/// A requirement: version and architecture number.
type Need = ((u32, u32), u32);

const V74: Need = ((7, 4), 80);
const V75: Need = ((7, 5), 80);
const V78: Need = ((7, 8), 80);
const SM90: Need = ((7, 8), 90);
const TMA: Need = ((8, 0), 90);

/// Opcodes that need more than the base.
const OPCODES: &[(&str, Need)] = &[
    ("stmatrix", SM90),
    ("griddepcontrol", SM90),
    ("elect", TMA),
    ("wgmma", TMA),
    ("setmaxnreg", TMA),
    ("mapa", SM90),
    ("getctarank", SM90),
    ("movmatrix", V78),
    ("createpolicy", V74),
    ("applypriority", V74),
    ("discard", V74),
];

/// Opcodes whose bf16 forms came with sm_90 (`fma`, `min`, `max`, `neg`, `abs` exist on sm_80).
const BF16_LATE: &[&str] = &["add", "sub", "mul", "ex2", "tanh", "setp", "set", "atom", "red"];

/// Architecture number of a `.target` word.
pub(super) fn arch(target: &str) -> Option<u32> {
    target.strip_prefix("sm_")?.trim_end_matches(['a', 'f']).parse().ok()
}

/// Version that a `.target` word needs.
pub(super) fn target_version(target: &str) -> (u32, u32) {
    match (arch(target).unwrap_or(0), target.ends_with('a')) {
        (100.., _) => (8, 6),
        (90, true) => (8, 0),
        (90, false) | (89, _) => (7, 8),
        (87, _) => (7, 4),
        (86, _) => (7, 1),
        _ => (7, 0),
    }
}

fn needs(i: &Instr) -> impl Iterator<Item = (Need, String)> + '_ {
    let name = i.opcode.as_str();
    let has = |m: &str| i.mods.iter().any(|x| x.0 == m);
    let bf16 = has("bf16") || has("bf16x2");
    let mut out: Vec<(Need, String)> = Vec::new();
    let form = |m: &str| format!("`{name}` with `.{m}`");
    if let Some(o) = OPCODES.iter().find(|o| o.0 == name) {
        out.push((o.1, format!("`{name}`")));
    }
    // (opcode, modifier) pairs.
    let pairs = [
        ("mbarrier", "try_wait", SM90),
        ("mbarrier", "expect_tx", TMA),
        ("mbarrier", "complete_tx", TMA),
        ("cp", "bulk", TMA),
        ("fence", "mbarrier_init", TMA),
        ("fence", "async", TMA),
        ("fence", "tensormap::generic", ((8, 3), 90)),
        ("prefetch", "tensormap", TMA),
        ("st", "async", ((8, 1), 90)),
        ("red", "async", ((8, 1), 90)),
        ("barrier", "cluster", SM90),
    ];
    if name == "cp"
        && has("bulk")
        && i.mods
            .iter()
            .find(|m| matches!(m.0.as_str(), "shared::cta" | "shared::cluster" | "global"))
            .is_some_and(|m| m.0 == "shared::cta")
    {
        out.push((((8, 6), 90), "a bulk copy into `.shared::cta`".to_string()));
    }
    if name == "mbarrier" && has("relaxed") && (has("try_wait") || has("test_wait")) {
        out.push((((8, 6), 90), form("relaxed")));
    }
    for (o, m, need) in pairs {
        if o == name && has(m) {
            out.push((need, form(m)));
        }
    }
    if bf16 && BF16_LATE.contains(&name) {
        out.push((SM90, form("bf16")));
    }
    if name == "cvt" && (has("e4m3x2") || has("e5m2x2")) {
        out.push((((8, 1), 89), form("e4m3x2 or .e5m2x2")));
    } else if name == "cvt" {
        let types: Vec<&str> = i.mods.iter().map(|m| m.0.as_str()).filter(|m| crate::types::Ty::parse(m).is_some()).collect();
        match types[..] {
            ["f32", "bf16"] => out.push((((7, 1), 80), form("f32.bf16"))),
            ["bf16" | "bf16x2", "f32"] => {}
            [a, b] if a == "bf16" || b == "bf16" => out.push((SM90, form(&format!("{a}.{b}")))),
            ["tf32", _] if !has("rna") => out.push((SM90, "`cvt.rn` and `cvt.rz` to `.tf32`".to_string())),
            _ => {}
        }
    }
    for (m, _) in &i.mods {
        let need = match m.as_str() {
            "param::entry" => ((8, 4), 80),
            "shared::cta" if name != "cp" => V78,
            "shared::cluster" => SM90,
            "cta" if matches!(name, "bar" | "barrier") => V78,
            m if m.starts_with("L1::") || m.starts_with("L2::") => V74,
            _ => continue,
        };
        out.push((need, form(m)));
    }
    out.into_iter()
}

impl Decoder<'_> {
    /// Refuses an instruction that the module's version or target does not have.
    pub(super) fn gate(&self, ast: &Ast, i: &Instr) -> Res<()> {
        let have = arch(&ast.target).unwrap_or(0);
        if matches!(i.opcode.as_str(), "wgmma" | "setmaxnreg") && ast.target != "sm_90a" {
            return self.err(i.span, format!("`{}` needs .target sm_90a", i.opcode));
        }
        for (((major, minor), sm), what) in needs(i) {
            if ast.version < (major, minor) {
                return self.err(i.span, format!("{what} needs .version {major}.{minor} or later"));
            }
            if have < sm {
                return self.err(i.span, format!("{what} needs .target sm_{sm} or later"));
            }
        }
        Ok(())
    }

    /// The predicate form of cp.async's last operand.
    pub(super) fn gate_ignore_src(&self, i: &Instr) -> Res<()> {
        let ((major, minor), _) = V75;
        if self.ast.version < (major, minor) {
            return self.err(i.span, format!("a predicate as last operand needs .version {major}.{minor} or later"));
        }
        Ok(())
    }
}
