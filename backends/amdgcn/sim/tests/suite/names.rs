//! The decoder's tables against LLVM's disassembler: every number of every encoding is the same instruction to both, or to neither.

use std::process::Command;
use tilelift_amdgcn_sim::{Chip, disassemble};

/// An encoding: numbers, and the dwords for each with fields that are valid for one or another of its instructions.
struct Encoding {
    name: &'static str,
    numbers: u32,
    shift: u32,
    base: u32,
    /// What is added to the first dword, and the second.
    fields: &'static [(u32, Option<u32>)],
}

const fn v3(a: u32, b: u32, c: u32) -> Option<u32> {
    Some((256 + a) | (256 + b) << 9 | (256 + c) << 18)
}

const ENCODINGS: &[Encoding] = &[
    Encoding { name: "SOP2", numbers: 61, shift: 23, base: 2 << 30, fields: &[(4 << 16 | 8 << 8 | 6, None)] },
    Encoding { name: "SOPK", numbers: 20, shift: 23, base: 0xb << 28, fields: &[(4 << 16 | 0x1001, None)] },
    Encoding { name: "SOP1", numbers: 256, shift: 8, base: 0x17d << 23, fields: &[(4 << 16 | 6, None)] },
    Encoding { name: "SOPC", numbers: 128, shift: 16, base: 0x17e << 23, fields: &[(8 << 8 | 6, None)] },
    Encoding { name: "SOPP", numbers: 128, shift: 16, base: 0x17f << 23, fields: &[(0, None)] },
    Encoding { name: "VOP1", numbers: 256, shift: 9, base: 0x3f << 25, fields: &[(4 << 17 | 262, None)] },
    Encoding { name: "VOP2", numbers: 62, shift: 25, base: 0, fields: &[(4 << 17 | 8 << 9 | 262, None)] },
    Encoding { name: "VOPC", numbers: 256, shift: 17, base: 0x3e << 25, fields: &[(8 << 9 | 262, None)] },
    Encoding {
        name: "VOP3",
        numbers: 896,
        shift: 16,
        base: 0x34 << 26,
        fields: &[
            (4, v3(6, 8, 10)),
            (4 | 10 << 8, v3(6, 8, 10)),
            (4, Some(262 | 264 << 9)),
            (4, Some(262)),
            (4, Some(262 | 20 << 9)),
            (4, Some(0)),
        ],
    },
    Encoding {
        name: "VOP3P",
        numbers: 128,
        shift: 16,
        base: 0x1a7 << 23,
        fields: &[(4, v3(6, 8, 4)), (4 | 0x4000, Some(262 | 264 << 9 | 3 << 27 | (268 << 18)))],
    },
    Encoding {
        name: "DS",
        numbers: 256,
        shift: 17,
        base: 0x36 << 26,
        fields: &[
            (16, Some(6 | 12 << 24)),
            (16, Some(6 | 8 << 8)),
            (16, Some(6 | 8 << 8 | 10 << 16)),
            (16, Some(6 | 8 << 8 | 12 << 24)),
            (16, Some(6 | 8 << 8 | 10 << 16 | 12 << 24)),
            (16, Some(12 << 24)),
            (16, Some(8 << 8)),
            (0, Some(0)),
        ],
    },
    Encoding { name: "FLAT", numbers: 128, shift: 18, base: 0x37 << 26, fields: FLAT },
    Encoding { name: "SCRATCH", numbers: 128, shift: 18, base: 0x37 << 26 | 1 << 14, fields: FLAT },
    Encoding { name: "GLOBAL", numbers: 128, shift: 18, base: 0x37 << 26 | 2 << 14, fields: FLAT },
    Encoding {
        name: "MUBUF",
        numbers: 128,
        shift: 18,
        base: 0x38 << 26,
        fields: &[(1 << 12, Some(6 | 8 << 8 | 2 << 16 | 128 << 24)), (0, Some(0))],
    },
    Encoding {
        name: "SMEM",
        numbers: 64,
        shift: 18,
        base: 0x30 << 26,
        fields: &[(1 << 17 | 8 << 6 | 2, Some(16)), (8 << 6, Some(0)), (0, Some(0))],
    },
];

const FLAT: &[(u32, Option<u32>)] = &[
    (0, Some(6 | 0x7f << 16 | 12 << 24)),
    (0, Some(6 | 8 << 8 | 0x7f << 16)),
    (0, Some(6 | 8 << 8 | 0x7f << 16 | 12 << 24)),
    (0, Some(6 | 0x7f << 16)),
    (0, Some(6 | 12 << 24)),
    (0, Some(6 | 8 << 8)),
];

/// Instructions of LLVM's that are not in the tables: of graphics, and stores and atomics of the scalar cache.
fn left_out(name: &str) -> bool {
    const PREFIXES: [&str; 6] = ["v_smfmac", "v_interp", "s_scratch_store", "s_buffer_store", "s_atc_probe", "s_dcache_discard"];
    PREFIXES.iter().any(|p| name.starts_with(p))
}

/// The mnemonics that LLVM gives for dwords, apart from each other by numbered `s_nop`s.
fn llvm(chip: Chip, codes: &[Vec<u32>]) -> Option<Vec<Option<String>>> {
    let line = |w: u32| w.to_le_bytes().map(|b| format!("{b:#04x}")).join(",") + "\n";
    let mut input = String::new();
    for (i, c) in codes.iter().enumerate() {
        input += &line(0xbf80_0000 | (i as u32 & 0xfff));
        input += &c.iter().map(|&w| line(w)).collect::<String>();
    }
    input += &line(0xbf80_ffff);
    let path = std::env::temp_dir().join(format!("tilelift-names-{}-{chip}", std::process::id()));
    std::fs::write(&path, input).ok()?;
    let tool = std::env::var("TILELIFT_LLVM_MC").unwrap_or_else(|_| "llvm-mc-19".into());
    let out = Command::new(tool)
        .args(["-triple=amdgcn-amd-amdhsa", &format!("-mcpu={chip}"), "-disassemble", "-show-encoding"])
        .arg(&path)
        .output();
    let _ = std::fs::remove_file(&path);
    let Ok(out) = out else {
        assert!(!crate::common::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no llvm-mc-19");
        return None;
    };
    let mut names = vec![None; codes.len()];
    let mut at = None::<usize>;
    for l in String::from_utf8_lossy(&out.stdout).lines() {
        let l = l.trim();
        let Some((text, encoding)) = l.split_once("; encoding:") else { continue };
        let (mnemonic, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        if mnemonic == "s_nop" {
            // Markers count up; a wrapped one is the next of its kind.
            let n = rest.trim().trim_start_matches("0x");
            let n = usize::from_str_radix(n, if rest.contains("0x") { 16 } else { 10 }).unwrap_or(0xffff);
            at = (at.map_or(0, |a| a + 1)..codes.len()).find(|i| i & 0xfff == n);
            continue;
        }
        let Some(i) = at else { continue };
        if encoding.matches("0x").count() == 4 * codes[i].len() {
            let plain = ["_e32", "_e64", "_sdwa", "_dpp"].iter().fold(mnemonic, |m, s| m.strip_suffix(s).unwrap_or(m));
            names[i] = Some(plain.to_owned());
        }
    }
    Some(names)
}

fn compare(chip: Chip) {
    for e in ENCODINGS {
        let mut codes = Vec::new();
        let mut keys = Vec::new();
        for n in 0..e.numbers {
            for &(add, second) in e.fields {
                let first = e.base | n << e.shift | add;
                // The two with a literal in the short encoding.
                let literal = e.name == "VOP2" && matches!(n, 23 | 24 | 36 | 37);
                let mut c = vec![first];
                c.extend(second.or(literal.then_some(0x3f80_0001)));
                if first != 0xbf80_0000 && !(e.name == "SOPP" && n == 0) && !(e.name == "SOPK" && n == 20) {
                    codes.push(c);
                    keys.push(n);
                }
            }
        }
        let Some(theirs) = llvm(chip, &codes) else { return };
        for n in 0..e.numbers {
            let of =
                |names: &dyn Fn(usize) -> Option<String>| keys.iter().enumerate().filter(|(_, k)| **k == n).find_map(|(i, _)| names(i));
            let their = of(&|i| theirs[i].clone());
            let our = of(&|i| disassemble(chip, &codes[i]).map(|(t, _)| t.split(' ').next().unwrap_or_default().to_owned()));
            match (&their, &our) {
                (Some(t), Some(o)) => assert_eq!(t, o, "{chip} {} {n}", e.name),
                (Some(t), None) => assert!(left_out(t), "{chip} {} {n}: `{t}` is not decoded", e.name),
                _ => {}
            }
        }
    }
}

#[test]
fn gfx90a() {
    compare(Chip::Gfx90a);
}

#[test]
fn gfx942() {
    compare(Chip::Gfx942);
}
