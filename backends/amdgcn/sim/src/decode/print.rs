//! Prints instructions for messages: mnemonic and operands in the assembler's order, modifiers by name.

use super::inst::{File, Inst, Matrix, Mem, Op, Program, Src};
use crate::isa::memory::{MemKind, Space};
use crate::isa::vector::Kind;
use std::fmt;

fn register(file: File, first: u16, count: u8) -> String {
    let letter = match file {
        File::S => 's',
        File::V => 'v',
        File::A => 'a',
    };
    if let (File::S, 102..) = (file, first) {
        let name = match first & !1 {
            102 => "flat_scratch",
            104 => "xnack_mask",
            106 => "vcc",
            126 => "exec",
            _ => "m0",
        };
        let half = match (first, count) {
            (124, _) | (_, 2..) => "",
            (n, _) if n % 2 == 0 => "_lo",
            _ => "_hi",
        };
        return format!("{name}{half}");
    }
    if count == 1 { format!("{letter}{first}") } else { format!("{letter}[{first}:{}]", first + u16::from(count) - 1) }
}

fn source(src: Src, count: u8) -> String {
    match src {
        Src::No => "off".to_owned(),
        Src::S(n) => register(File::S, u16::from(n), count),
        Src::V(n) => register(File::V, u16::from(n), count),
        Src::A(n) => register(File::A, u16::from(n), count),
        Src::Literal(v) => format!("{v:#x}"),
        Src::Inline(c @ 128..=192) => (i32::from(c) - 128).to_string(),
        Src::Inline(c @ 193..=208) => (192 - i32::from(c)).to_string(),
        Src::Inline(c) => {
            ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"][usize::from(c.clamp(240, 248)) - 240].to_owned()
        }
        Src::Computed(c) => match c {
            235 => "src_shared_base",
            236 => "src_shared_limit",
            237 => "src_private_base",
            238 => "src_private_limit",
            251 => "src_vccz",
            252 => "src_execz",
            _ => "src_scc",
        }
        .to_owned(),
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        let mut operands: Vec<String> = Vec::new();
        match &self.op {
            Op::Program(_, p) => match p {
                Program::Nop(n) => operands.push(n.to_string()),
                Program::Branch(to, _) => operands.push(to.to_string()),
                Program::Wait(w) => operands.push(wait(*w)),
                Program::Priority(to) => operands.push(to.to_string()),
                Program::End | Program::Barrier | Program::Hint | Program::Trap | Program::Refused => {}
            },
            Op::Scalar(s) => {
                if s.row.dst > 0 {
                    operands.push(register(File::S, u16::from(s.dst), s.row.dst));
                }
                for (src, n) in [(s.a, s.row.a), (s.b, s.row.b)] {
                    if src != Src::No {
                        operands.push(source(src, n));
                    }
                }
                if s.row.enc == crate::isa::scalar::Enc::SK {
                    operands.push(s.imm.to_string());
                }
            }
            Op::Matrix(m) => matrix(m, &mut operands),
            Op::Mem(m) => mem(m, &mut operands),
            Op::Vector(v) => {
                // Results first, then the sources with their types' widths.
                let mut seen = false;
                for a in self.access.iter().filter(|a| a.write) {
                    if !(seen && a.first == 126) {
                        operands.push(register(a.file, a.first, a.count));
                    }
                    seen = true;
                }
                let swaps = matches!(v.row.kind, Kind::Swap | Kind::SwapRows(_));
                for (i, &src) in v.src.iter().enumerate() {
                    if swaps || src == Src::No || i == 2 && v.row.kind == Kind::Mac {
                        continue;
                    }
                    let text = source(src, v.row.src[i].dwords());
                    let text = if v.abs >> i & 1 != 0 { format!("|{text}|") } else { text };
                    operands.push(if v.neg >> i & 1 != 0 { format!("-{text}") } else { text });
                }
            }
            Op::Ds(_) | Op::Smem(_) => {
                for write in [true, false] {
                    operands.extend(self.access.iter().filter(|a| a.write == write).map(|a| register(a.file, a.first, a.count)));
                }
            }
        }
        if !operands.is_empty() {
            write!(f, " {}", operands.join(", "))?;
        }
        modifiers(f, &self.op)
    }
}

fn wait(w: u16) -> String {
    let (vm, exp, lgkm) = wait_counts(w);
    let mut parts = Vec::new();
    if vm < 63 {
        parts.push(format!("vmcnt({vm})"));
    }
    if exp < 7 {
        parts.push(format!("expcnt({exp})"));
    }
    if lgkm < 15 {
        parts.push(format!("lgkmcnt({lgkm})"));
    }
    parts.join(" ")
}

/// The counts of a wait: memory, export, LDS and scalar.
pub(crate) fn wait_counts(w: u16) -> (u16, u16, u16) {
    (w & 15 | (w >> 14) << 4, w >> 4 & 7, w >> 8 & 15)
}

fn matrix(m: &Matrix, operands: &mut Vec<String>) {
    let n = |file: (File, u8), count: u32| register(file.0, u16::from(file.1), count as u8);
    operands.push(n(m.dst, m.row.results()));
    operands.push(n(m.a, m.row.sources(m.row.a.bits())));
    operands.push(n(m.b, m.row.sources(m.row.b.bits())));
    operands.push(source(m.c, m.row.results() as u8));
}

fn mem(m: &Mem, operands: &mut Vec<String>) {
    let file = if m.acc { File::A } else { File::V };
    let result = matches!(m.kind, MemKind::Load(_)) || matches!(m.kind, MemKind::Atomic { .. }) && m.glc && m.space != Space::Buffer;
    if result {
        operands.push(register(file, u16::from(m.dst), m.dwords()));
    }
    let data = matches!(m.kind, MemKind::Store { .. } | MemKind::Atomic { .. }).then(|| register(file, u16::from(m.data), m.dwords()));
    if m.space == Space::Buffer {
        operands.extend(data.clone());
    }
    let wide = m.space == Space::Flat || m.space == Space::Global && m.saddr.is_none();
    operands.push(m.vaddr.map_or("off".to_owned(), |v| register(File::V, u16::from(v), if wide { 2 } else { 1 })));
    if m.space != Space::Buffer {
        operands.extend(data);
    }
    let count = match m.space {
        Space::Buffer => 4,
        Space::Scratch => 1,
        Space::Flat | Space::Global => 2,
    };
    if m.space != Space::Flat {
        operands.push(m.saddr.map_or("off".to_owned(), |s| register(File::S, u16::from(s), count)));
    }
    if m.space == Space::Buffer {
        operands.push(source(m.soffset, 1));
    }
}

fn modifiers(f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
    match op {
        Op::Vector(v) => {
            if v.op_sel != 0 {
                write!(f, " op_sel:{:#b}", v.op_sel)?;
            }
            if v.clamp {
                f.write_str(" clamp")?;
            }
            if let Some(d) = v.dpp {
                write!(f, " dpp:{:#x} row_mask:{:#x} bank_mask:{:#x}", d.control, d.row_mask, d.bank_mask)?;
            }
            if let Some(s) = v.sdwa {
                write!(f, " dst_sel:{} src0_sel:{} src1_sel:{}", s.dst, s.src[0], s.src[1])?;
            }
        }
        Op::Ds(d) => {
            if d.offset16() != 0 {
                write!(f, " offset:{}", d.offset16())?;
            }
        }
        Op::Mem(m) => {
            for (on, name) in [(m.idxen, " idxen"), (m.offen, " offen")] {
                f.write_str(if on { name } else { "" })?;
            }
            if m.offset != 0 {
                write!(f, " offset:{}", m.offset)?;
            }
            if m.lds && m.space == Space::Buffer {
                f.write_str(" lds")?;
            }
        }
        Op::Smem(s) => {
            if let Some(i) = s.imm {
                write!(f, " offset:{i:#x}")?;
            }
        }
        Op::Matrix(_) | Op::Scalar(_) | Op::Program(..) => {}
    }
    Ok(())
}
