//! Decoding of the vector instructions: short encodings with DPP and SDWA, long ones, packed and matrix instructions.

use super::inst::{Dpp, File, Matrix, Op, Sdwa, Src, VCC, Vector};
use super::reader::{DecodeError, Reader, bits};
use crate::isa::matrix::{Elem, Layout, MatRow};
use crate::isa::vector::{Enc, Kind, Row, Ty};

const SDWA: u32 = 249;
const DPP: u32 = 250;

fn plain(row: &'static Row) -> Vector {
    Vector {
        row,
        dst: 0,
        mask_dst: VCC,
        src: [Src::No; 3],
        neg: 0,
        abs: 0,
        omod: 0,
        clamp: false,
        op_sel: 0,
        op_sel_hi: 0,
        neg_hi: 0,
        dpp: None,
        sdwa: None,
        long: false,
    }
}

/// VOP1, VOP2 and VOPC.
pub(super) fn short(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let (enc, op) = match bits(w, 30, 25) {
        0x3f => (Enc::V1, bits(w, 16, 9)),
        0x3e => (Enc::VC, bits(w, 24, 17)),
        op => (Enc::V2, op),
    };
    let row = r.table.vector(enc, op).ok_or(DecodeError::Unknown)?;
    let mut v = plain(row);
    v.dst = bits(w, 24, 17) as u8;
    let second = (enc != Enc::V1).then(|| bits(w, 16, 9) as u8);
    match bits(w, 8, 0) {
        SDWA => sdwa(r, &mut v, second)?,
        code => {
            if code == DPP {
                dpp(r, &mut v)?;
            } else if row.src[0] != Ty::No {
                v.src[0] = r.source(code)?;
            }
            v.src[1] = second.map_or(Src::No, Src::V);
        }
    }
    match row.kind {
        Kind::MadMK => {
            v.src[2] = v.src[1];
            v.src[1] = Src::Literal(r.literal()?);
        }
        Kind::MadAK => v.src[2] = Src::Literal(r.literal()?),
        Kind::Mac => v.src[2] = Src::V(v.dst),
        Kind::AccMov => {
            let Src::V(n) = v.src[0] else { return Err(DecodeError::Unknown) };
            v.src[0] = Src::A(n);
        }
        _ if row.src[2] == Ty::Mask => v.src[2] = Src::S(VCC),
        _ => {}
    }
    if enc == Enc::VC {
        v.dst = v.mask_dst;
    }
    checked(v)
}

fn sdwa(r: &mut Reader<'_>, v: &mut Vector, second: Option<u8>) -> Result<(), DecodeError> {
    let x = r.word()?;
    let scalar = [bits(x, 23, 23) != 0, bits(x, 31, 31) != 0];
    v.src[0] = if scalar[0] { r.source(bits(x, 7, 0))? } else { Src::V(bits(x, 7, 0) as u8) };
    v.src[1] = second.map_or(Src::No, |n| if scalar[1] { Src::S(n) } else { Src::V(n) });
    v.neg = (bits(x, 20, 20) | bits(x, 28, 28) << 1) as u8;
    v.abs = (bits(x, 21, 21) | bits(x, 29, 29) << 1) as u8;
    let mut s =
        Sdwa { dst: 6, unused: 0, src: [bits(x, 18, 16) as u8, bits(x, 26, 24) as u8], sext: [bits(x, 19, 19) != 0, bits(x, 27, 27) != 0] };
    if v.row.enc == Enc::VC {
        if bits(x, 15, 15) != 0 {
            v.mask_dst = bits(x, 14, 8) as u8;
        }
    } else {
        s.dst = bits(x, 10, 8) as u8;
        s.unused = bits(x, 12, 11) as u8;
        v.clamp = bits(x, 13, 13) != 0;
        v.omod = bits(x, 15, 14) as u8;
    }
    if s.dst > 6 || s.unused > 2 || s.src.iter().any(|&s| s > 6) {
        return Err(DecodeError::Unknown);
    }
    v.sdwa = Some(s);
    Ok(())
}

fn dpp(r: &mut Reader<'_>, v: &mut Vector) -> Result<(), DecodeError> {
    let x = r.word()?;
    v.src[0] = Src::V(bits(x, 7, 0) as u8);
    v.neg = (bits(x, 20, 20) | bits(x, 22, 22) << 1) as u8;
    v.abs = (bits(x, 21, 21) | bits(x, 23, 23) << 1) as u8;
    v.dpp = Some(Dpp {
        control: bits(x, 16, 8) as u16,
        row_mask: bits(x, 31, 28) as u8,
        bank_mask: bits(x, 27, 24) as u8,
        bound_zero: bits(x, 19, 19) != 0,
    });
    Ok(())
}

/// VOP3 and VOP3P.
pub(super) fn long(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    if bits(w, 31, 23) == 0b1_1010_0111 {
        return packed(r, w);
    }
    let row = r.table.long(bits(w, 25, 16)).ok_or(DecodeError::Unknown)?;
    let x = r.word()?;
    let mut v = plain(row);
    v.long = true;
    v.dst = bits(w, 7, 0) as u8;
    v.clamp = bits(w, 15, 15) != 0;
    v.omod = bits(x, 28, 27) as u8;
    v.neg = bits(x, 31, 29) as u8;
    match row.kind {
        Kind::Carry | Kind::Mad64 { .. } | Kind::DivScale => v.mask_dst = bits(w, 14, 8) as u8,
        Kind::Cmp { .. } => v.mask_dst = v.dst,
        _ => {}
    }
    if !matches!(row.kind, Kind::Carry | Kind::Mad64 { .. } | Kind::DivScale) {
        v.abs = bits(w, 10, 8) as u8;
        v.op_sel = bits(w, 14, 11) as u8;
    }
    for (i, code) in [bits(x, 8, 0), bits(x, 17, 9), bits(x, 26, 18)].into_iter().enumerate() {
        // No literals in this encoding.
        if row.src[i] != Ty::No {
            v.src[i] = if code == 255 { return Err(DecodeError::Unknown) } else { r.source(code)? };
        }
    }
    match row.kind {
        Kind::Mac => v.src[2] = Src::V(v.dst),
        Kind::MadMK | Kind::MadAK | Kind::ReadFirst | Kind::Swap | Kind::AccMov => return Err(DecodeError::Unknown),
        _ => {}
    }
    checked(v)
}

/// The number of the prefix that carries scales.
const SCALE: u32 = 44;

fn packed(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let op = bits(w, 22, 16);
    if op == SCALE && r.chip == crate::chip::Chip::Gfx950 {
        return scaled(r, w);
    }
    if let Some(of) = r.table.mat(op) {
        let x = r.word()?;
        return matrix(r, of, w, x).map(Op::Matrix);
    }
    let row = r.table.vector(Enc::P, op).ok_or(DecodeError::Unknown)?;
    let x = r.word()?;
    let mut v = plain(row);
    v.long = true;
    v.dst = bits(w, 7, 0) as u8;
    v.neg_hi = bits(w, 10, 8) as u8;
    v.op_sel = bits(w, 13, 11) as u8;
    v.op_sel_hi = (bits(x, 28, 27) | bits(w, 14, 14) << 2) as u8;
    v.clamp = bits(w, 15, 15) != 0;
    v.neg = bits(x, 31, 29) as u8;
    for (i, code) in [bits(x, 8, 0), bits(x, 17, 9), bits(x, 26, 18)].into_iter().enumerate() {
        if row.src[i] != Ty::No {
            v.src[i] = if code == 255 { return Err(DecodeError::Unknown) } else { r.source(code)? };
        }
    }
    if row.kind == Kind::AccRead {
        let Src::V(n) = v.src[0] else { return Err(DecodeError::Unknown) };
        v.src[0] = Src::A(n);
    }
    checked(v)
}

fn scaled(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let x = r.word()?;
    let (sel, sel_hi) = (bits(w, 12, 11), bits(x, 28, 27));
    let byte = |i: u32| (sel >> i & 1 | (sel_hi >> i & 1) << 1) as u8;
    let scales = [(r.source(bits(x, 8, 0))?, byte(0)), (r.source(bits(x, 17, 9))?, byte(1))];
    let (w, x) = (r.word()?, r.word()?);
    let of = r.table.mat(bits(w, 22, 16)).filter(|m| m.0.a == Elem::Any8 && bits(w, 31, 23) == 0b1_1010_0111);
    let mut m = matrix(r, of.ok_or(DecodeError::Unknown)?, w, x)?;
    m.scales = Some(scales);
    Ok(Op::Matrix(m))
}

fn matrix(r: &mut Reader<'_>, (row, layout): (&'static MatRow, &'static Layout), w: u32, x: u32) -> Result<Matrix, DecodeError> {
    let file = |acc: u32| if acc != 0 { File::A } else { File::V };
    let operand = |code: u32, acc: u32| if code >= 256 { Ok((file(acc), (code - 256) as u8)) } else { Err(DecodeError::Unknown) };
    let acc = bits(w, 15, 15);
    let c = match bits(x, 26, 18) {
        code @ 256.. if acc != 0 => Src::A((code - 256) as u8),
        255 => return Err(DecodeError::Unknown),
        code => r.source(code)?,
    };
    if matches!(c, Src::S(_) | Src::Computed(_)) {
        return Err(DecodeError::Unknown);
    }
    Ok(Matrix {
        row,
        layout,
        dst: (file(acc), bits(w, 7, 0) as u8),
        a: operand(bits(x, 8, 0), bits(x, 27, 27))?,
        b: operand(bits(x, 17, 9), bits(x, 28, 28))?,
        c,
        cbsz: bits(w, 10, 8) as u8,
        abid: bits(w, 14, 11) as u8,
        blgp: bits(x, 31, 29) as u8,
        scales: None,
    })
}

/// Refuses destinations that are no registers.
fn checked(v: Vector) -> Result<Op, DecodeError> {
    let scalar = |n: u8| n <= 108 || matches!(n, 124 | 126 | 127);
    let masks = matches!(v.row.kind, Kind::Cmp { .. } | Kind::Carry | Kind::Mad64 { .. } | Kind::DivScale);
    let lanes = matches!(v.row.kind, Kind::ReadLane | Kind::ReadFirst);
    if masks && !scalar(v.mask_dst) || lanes && !scalar(v.dst) {
        return Err(DecodeError::Unknown);
    }
    Ok(Op::Vector(v))
}
