//! Codes of 8-bit floats by the chip's instructions: every code, and around every place where rounding changes.

use crate::common::device::{Data, both, elementwise};
use tilelift_amdgcn::{Chip, machine};
use tilelift_ir::{Scalar, num};
use tilelift_lane::testing::Asm;
use tilelift_lane::{Inst, LTy, LVal, Program, UnOp};

/// Chips, formats, and the operations that encode and decode.
const CASES: [(Chip, Scalar, UnOp, UnOp); 3] = [
    (Chip::Gfx942, Scalar::F8E4M3Fnuz, UnOp::EncodeE4M3Fnuz, UnOp::DecodeE4M3Fnuz),
    (Chip::Gfx942, Scalar::F8E5M2Fnuz, UnOp::EncodeE5M2Fnuz, UnOp::DecodeE5M2Fnuz),
    (Chip::Gfx950, Scalar::F8E4M3, UnOp::EncodeE4M3, UnOp::DecodeE4M3),
];

fn un(a: &mut Asm, op: UnOp, x: LVal) -> LVal {
    a.def(LTy::I32, |dst| Inst::Un { dst, op, a: x })
}

/// What a program makes of words, by the interpreter and by the simulator.
fn results(chip: Chip, program: &Program, words: &[u64]) -> [Vec<u64>; 2] {
    let grid = (words.len() / 64) as u32;
    let data = [Data::View(Scalar::I32, words.to_vec()), Data::View(Scalar::I32, vec![0; words.len()])];
    both(chip, program, grid, &data).unwrap_or_else(|e| panic!("{e}")).map(|views| views[1].clone())
}

/// Numbers of both signs at all codes' values, in the middle between neighbours, a bit beside either, and what no format holds.
fn numbers(format: Scalar) -> Vec<u64> {
    let mut values: Vec<f32> = (0..256).map(|c| num::from_bits(c, format) as f32).filter(|v| v.is_finite() && *v >= 0.0).collect();
    values.sort_by(f32::total_cmp);
    values.dedup();
    let most = values[values.len() - 1];
    let between: Vec<f32> = values.windows(2).map(|w| (w[0] + w[1]) / 2.0).collect();
    // Half a unit above the largest number, and far above.
    let step = most - values[values.len() - 2];
    values.extend(between);
    values.extend([most + step / 2.0, most + step, 2.0 * most, f32::MAX, f32::INFINITY, f32::MIN_POSITIVE, f32::from_bits(1)]);
    let mut bits: Vec<u32> = values.iter().flat_map(|v| [v.to_bits().saturating_sub(1), v.to_bits(), v.to_bits() + 1]).collect();
    bits.extend([0x7fc0_0000, 0x7f80_0001, 0x7fff_ffff]);
    let mut words: Vec<u64> = bits.iter().flat_map(|&b| [b, b | 1 << 31]).map(|b| b as i32 as u64 & 0xffff_ffff).collect();
    words.resize(words.len().next_multiple_of(64), 0);
    words
}

#[test]
fn every_code_is_decoded() {
    for (chip, format, _, decode) in CASES {
        assert!(machine::target(chip).code_casts.contains(&format));
        let program = elementwise("decode", &[LTy::I32], LTy::I32, |a, v| un(a, decode, v[0]));
        let codes: Vec<u64> = (0..256).collect();
        let [want, got] = results(chip, &program, &codes);
        for (code, (want, got)) in want.iter().zip(&got).enumerate() {
            let [w, g] = [want, got].map(|&x| f32::from_bits(x as u32));
            assert!(want == got || w.is_nan() && g.is_nan(), "{chip}, {format} {code:#x}: {want:#x}, {got:#x}");
        }
    }
}

#[test]
fn numbers_are_encoded_where_rounding_changes() {
    for (chip, format, encode, _) in CASES {
        let program = elementwise("encode", &[LTy::I32], LTy::I32, |a, v| un(a, encode, v[0]));
        let words = numbers(format);
        let [want, got] = results(chip, &program, &words);
        for ((word, want), got) in words.iter().zip(&want).zip(&got) {
            assert_eq!(want & 0xff, got & 0xff, "{chip}, {format}: {:e}, {word:#x}", f32::from_bits(*word as u32));
        }
    }
}

/// Four codes of a number and of others made of it, as a word: two instructions encode them.
#[test]
fn words_of_four_codes() {
    for (chip, format, encode, _) in CASES {
        let program = elementwise("word", &[LTy::I32], LTy::I32, |a, v| {
            let x = a.def(LTy::F32, |dst| Inst::Bitcast { dst, a: v[0] });
            let parts = [0x3f80_0000, 0xbf00_0000, 0x4040_0000u64, 0x3e80_0000].map(|by| {
                let by = a.constant(LTy::F32, by);
                let y = a.bin(tilelift_lane::BinOp::Mul, x, by);
                let bits = a.def(LTy::I32, |dst| Inst::Bitcast { dst, a: y });
                let code = un(a, encode, bits);
                a.def(LTy::Num(Scalar::I8), |dst| Inst::Cvt { dst, a: code })
            });
            let word = a.def(LTy::B32, |dst| Inst::Pack { dst, parts: parts.into_iter().collect() });
            a.def(LTy::I32, |dst| Inst::Bitcast { dst, a: word })
        });
        let words = numbers(format);
        let [want, got] = results(chip, &program, &words);
        for ((word, want), got) in words.iter().zip(&want).zip(&got) {
            assert_eq!(want, got, "{chip}, {format}: {:e}", f32::from_bits(*word as u32));
        }
        let text = tilelift_amdgcn::emit(&program, chip).unwrap_or_else(|e| panic!("{e}")).text;
        assert_eq!(text.matches("v_cvt_pk_").count(), 2, "{chip}, {format}: {text}");
    }
}
