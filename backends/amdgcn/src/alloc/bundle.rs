//! Bundles: virtual registers that get their physical registers together, because copies between them vanish then.
//!
//! A bundle has a number of words, each with the rows it occupies. A virtual register lies in it from some word on: so a single register can
//! lie inside the tuple that it is copied into.

use super::effects::touches;
use super::fuel::Fuel;
use super::live::{Ranges, Seg};
use super::words::Words;
use crate::isa::{Access, Opcode};
use crate::mir::{File, Inst, Mods, Operand, Program, Reg, Span, VReg};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;

/// Rows of a word.
pub(super) type Rows = SmallVec<[Seg; 2]>;

/// Virtual registers that are placed together.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    /// The file.
    pub file: File,
    /// The first register's number is a multiple of it.
    pub align: u8,
    /// Rows of each word.
    pub words: Vec<Rows>,
    /// What it costs to keep it in memory, per row; infinite where that may not be.
    pub weight: f32,
    /// Registers, and their first word.
    pub members: SmallVec<[(VReg, u8); 1]>,
    /// Rows of all words together.
    pub area: u64,
}

impl Bundle {
    /// Its first row.
    pub(super) fn start(&self) -> u32 {
        self.words.iter().filter_map(|rows| rows.first()).map(|s| s.start).min().unwrap_or(0)
    }
}

/// A wish: word 0 of a bundle lies `by` registers behind word 0 of a virtual register, or behind register 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint {
    /// The register; `None` for physical ones.
    pub other: Option<VReg>,
    /// Registers.
    pub by: i32,
}

/// Bundles of a program.
#[derive(Debug)]
pub(super) struct Bundles {
    /// All of them; those that went into others have no members.
    pub all: Vec<Bundle>,
    /// Wishes of each.
    pub hints: Vec<SmallVec<[Hint; 2]>>,
    /// Each register's bundle and word.
    pub of: Vec<(usize, u8)>,
    coalesce: bool,
}

/// Result and source of an instruction that copies registers of one file and does nothing else.
pub(super) fn copy(inst: &Inst) -> Option<(Span, Span)> {
    let copies = matches!(inst.op, Opcode::SMovB32 | Opcode::SMovB64 | Opcode::VMovB32 | Opcode::VMovB64 | Opcode::VAccvgprMovB32);
    match (copies && inst.mods == Mods::default(), inst.operands.as_slice()) {
        (true, &[Operand::Reg(to), Operand::Reg(from)]) if to.words == from.words => Some((to, from)),
        _ => None,
    }
}

/// The first of sorted rows that end behind a row.
fn seek(rows: &[Seg], row: u32) -> usize {
    rows.partition_point(|seg| seg.end <= row)
}

fn overlap(a: &[Seg], b: &[Seg]) -> bool {
    let (Some(first), Some(last)) = (a.first(), a.last()) else { return false };
    // Only rows between the ends of the others can meet them.
    let b = &b[seek(b, first.start)..];
    let b = &b[..b.partition_point(|seg| seg.start < last.end)];
    let a = &a[b.first().map_or(a.len(), |seg| seek(a, seg.start))..];
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.start < y.end && y.start < x.end {
            return true;
        }
        if x.end <= y.end {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}

fn merge(a: &[Seg], b: &[Seg]) -> Rows {
    let mut all: Rows = a.iter().chain(b).copied().collect();
    // Stable sorting takes two sorted runs as they are.
    all.sort();
    let mut merged = Rows::new();
    for seg in all {
        match merged.last_mut() {
            Some(last) if seg.start <= last.end => last.end = last.end.max(seg.end),
            _ => merged.push(seg),
        }
    }
    merged
}

/// What it costs to keep each register in memory, per row.
pub(super) fn weights(program: &Program, words: &Words, ranges: &Ranges) -> Vec<f32> {
    let mut uses = vec![0f32; program.vregs.len()];
    for data in program.blocks.values() {
        let weight = 10f32.powi(data.depth.min(8) as i32);
        for touch in data.insts.iter().flat_map(touches) {
            if let Reg::Virtual(reg) = touch.span.reg {
                uses[reg.index()] += weight * if touch.access == Access::Update { 2.0 } else { 1.0 };
            }
        }
    }
    program.vregs.keys().map(|reg| uses[reg.index()] / (ranges.area(words.of(reg)).max(1) as f32)).collect()
}

/// Bundles of one register each.
fn single(program: &Program, words: &Words, ranges: &Ranges, files: &[File], weights: &[f32], unspillable: &[bool]) -> Vec<Bundle> {
    let bundle = |reg: VReg| {
        let data = &program.vregs[reg];
        let area = ranges.area(words.of(reg));
        let words: Vec<Rows> = words.of(reg).map(|word| SmallVec::from_slice(ranges.of(word))).collect();
        let weight = if unspillable[reg.index()] { f32::INFINITY } else { weights[reg.index()] };
        Bundle { file: files[reg.index()], align: data.align.max(1), words, weight, members: SmallVec::from_slice(&[(reg, 0)]), area }
    };
    program.vregs.keys().map(bundle).collect()
}

impl Bundles {
    /// Bundles registers that are copied into each other, those of inner loops first.
    pub(super) fn new(
        program: &Program,
        (words, ranges): (&Words, &Ranges),
        files: &[File],
        (weights, unspillable): (&[f32], &[bool]),
        coalesce: bool,
        fuel: &Fuel,
    ) -> Bundles {
        let all = single(program, words, ranges, files, weights, unspillable);
        let of = (0..all.len()).map(|i| (i, 0)).collect();
        let mut bundles = Bundles { hints: vec![SmallVec::new(); all.len()], all, of, coalesce };
        let mut copies: Vec<(u32, Span, Span)> =
            program.blocks.values().flat_map(|b| b.insts.iter().filter_map(copy).map(|(to, from)| (b.depth, to, from))).collect();
        copies.sort_by_key(|c| std::cmp::Reverse(c.0));
        for (_, to, from) in copies {
            if fuel.left() == 0 {
                break;
            }
            match (to.reg, from.reg) {
                (Reg::Virtual(a), Reg::Virtual(b)) => bundles.unite((a, to.first), (b, from.first), fuel),
                (Reg::Virtual(a), Reg::Physical(file, number)) => {
                    bundles.wish(a, to.first, file, i32::from(number) + i32::from(from.first))
                }
                (Reg::Physical(file, number), Reg::Virtual(b)) => {
                    bundles.wish(b, from.first, file, i32::from(number) + i32::from(to.first))
                }
                _ => {}
            }
        }
        bundles
    }

    fn wish(&mut self, reg: VReg, word: u8, file: File, number: i32) {
        let (bundle, offset) = self.of[reg.index()];
        if self.all[bundle].file == file {
            self.hints[bundle].push(Hint { other: None, by: number - i32::from(offset) - i32::from(word) });
        }
    }

    /// Word `wa` of one register and word `wb` of the other become one if nothing speaks against it; else it stays a wish.
    fn unite(&mut self, (reg_a, wa): (VReg, u8), (reg_b, wb): (VReg, u8), fuel: &Fuel) {
        let ((a, oa), (b, ob)) = (self.of[reg_a.index()], self.of[reg_b.index()]);
        if a == b || self.all[a].file != self.all[b].file {
            return;
        }
        // Word 0 of `b` lies here in `a`.
        let by = i32::from(oa) + i32::from(wa) - i32::from(ob) - i32::from(wb);
        let (outer, inner, at) = if self.all[a].words.len() >= self.all[b].words.len() { (a, b, by) } else { (b, a, -by) };
        if self.coalesce && self.fits(outer, inner, at) {
            self.absorb(outer, inner, at as usize, fuel);
        } else {
            let (wa, wb) = (i32::from(wa), i32::from(wb));
            self.hints[a].push(Hint { other: Some(reg_b), by: wb - wa - i32::from(oa) });
            self.hints[b].push(Hint { other: Some(reg_a), by: wa - wb - i32::from(ob) });
        }
    }

    fn fits(&self, outer: usize, inner: usize, at: i32) -> bool {
        let (outer, inner) = (&self.all[outer], &self.all[inner]);
        let inside = at >= 0 && at as usize + inner.words.len() <= outer.words.len() && at % i32::from(inner.align) == 0;
        inside && inner.words.iter().zip(&outer.words[at as usize..]).all(|(i, o)| !overlap(i, o))
    }

    fn absorb(&mut self, outer: usize, inner: usize, at: usize, fuel: &Fuel) {
        let members = std::mem::take(&mut self.all[inner].members);
        let inner_words = std::mem::take(&mut self.all[inner].words);
        let (weight, align, area) = (self.all[inner].weight, self.all[inner].align, self.all[inner].area);
        let hints = std::mem::take(&mut self.hints[inner]);
        let bundle = &mut self.all[outer];
        let outer_area = bundle.area as f32;
        bundle.area += area;
        bundle.weight = if bundle.weight.max(weight) == f32::INFINITY {
            f32::INFINITY
        } else {
            (bundle.weight * outer_area + weight * area as f32) / (outer_area + area as f32).max(1.0)
        };
        bundle.align = bundle.align.max(align);
        for (i, rows) in inner_words.iter().enumerate() {
            fuel.burn(rows.len() + bundle.words[at + i].len());
            bundle.words[at + i] = merge(&bundle.words[at + i], rows);
        }
        for (reg, offset) in members {
            bundle.members.push((reg, offset + at as u8));
            self.of[reg.index()] = (outer, offset + at as u8);
        }
        self.hints[outer].extend(hints.into_iter().map(|h| Hint { by: h.by - at as i32, ..h }));
    }
}
