//! Values that are computed several at a time, against one at a time: every byte at every place of a word.

use super::LaneBuilder;
use crate::frame::{Param, ParamSource};
use crate::interp::{LaneOptions, interpret};
use crate::op::BinOp;
use crate::testing::{args, memory, target};
use crate::value::{LTy, LVal, Special, Vals};
use tilelift_interp::Buffer;
use tilelift_ir::{Scalar, num};

const WARPS: u32 = 8;

/// Words in which each place has every byte once.
fn words() -> Vec<u32> {
    (0..=255u8).map(|i| u32::from_le_bytes([i, i.wrapping_add(85), 255 - i, i ^ 0x33])).collect()
}

/// What a computation makes of each word, as bits of 32-bit values.
fn computed(make: impl Fn(&mut LaneBuilder, LVal) -> Vec<LVal>) -> Vec<Vec<u32>> {
    let mut b = LaneBuilder::new("test", WARPS, 32);
    b.packed_halves = true;
    let (lane, warp, size) = (b.special(Special::Lane), b.special(Special::Warp), b.i32(32));
    let warp = b.mul(warp, size);
    let thread = b.add(warp, lane);
    let [from, to] = [0, 1].map(|n| b.param(Param { ty: LTy::I64, source: ParamSource::Pointer(n) }));
    let four = b.i32(4);
    let at = b.mad_wide(thread, four, from);
    let word = b.load_global(&[LTy::I32], at, 0, None, Vals::new())[0];
    let made = make(&mut b, word);
    let bytes = b.i32(4 * made.len() as i64);
    let at = b.mad_wide(thread, bytes, to);
    for (n, &v) in made.iter().enumerate() {
        b.store_global(Vals::from_slice(&[v]), at, 4 * n as i32, None);
    }
    let program = b.finish();
    let input = words();
    let mut m =
        memory([Buffer::from_bytes(input.iter().flat_map(|w| w.to_le_bytes()).collect()), Buffer::uninit(4 * input.len() * made.len())]);
    let views = args(&m);
    interpret(&program, &target(), [1, 1, 1], &views, &mut m, &LaneOptions::default()).unwrap();
    let out: Vec<u32> = m.buffers[1].bytes().chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    out.chunks(made.len()).map(<[u32]>::to_vec).collect()
}

/// The bytes of a word, as the builder hands them out.
fn bytes(b: &mut LaneBuilder, word: LVal) -> Vals {
    let word = b.bitcast(word, LTy::B32);
    b.unpack(word, LTy::Num(Scalar::I8))
}

/// Bits of a number in a type of 16 bits.
fn half(x: f64, elem: Scalar) -> u32 {
    num::to_bits(x, elem) as u32
}

#[test]
fn codes_of_four_bits_become_floats() {
    for elem in [Scalar::F16, Scalar::BF16] {
        let got = computed(|b, word| (0..4).map(|byte| b.floats_of_codes(word, byte, elem)).collect());
        let float = |code: u8| half(num::from_bits(code.into(), Scalar::F4E2M1), elem);
        for (word, got) in words().into_iter().zip(got) {
            let want = word.to_le_bytes().map(|byte| float(byte >> 4) << 16 | float(byte & 15));
            assert_eq!(got, want, "{elem} of {word:08x}");
        }
    }
}

#[test]
fn bytes_and_constants_are_computed_four_at_a_time() {
    type Case = (BinOp, fn(u8, u8) -> u8);
    let cases: [Case; 8] = [
        (BinOp::And, |x, c| x & c),
        (BinOp::Or, |x, c| x | c),
        (BinOp::Xor, |x, c| x ^ c),
        (BinOp::Add, u8::wrapping_add),
        (BinOp::Sub, u8::wrapping_sub),
        (BinOp::Shl, |x, c| x << c),
        (BinOp::ShrU, |x, c| x >> c),
        (BinOp::ShrS, |x, c| ((x as i8) >> c) as u8),
    ];
    for (op, one) in cases {
        for c in [0, 1, 3, 5, 7, 15, 60, 127, 128, 129, 200, 255u8] {
            if matches!(op, BinOp::Shl | BinOp::ShrU | BinOp::ShrS) && c > 7 {
                continue;
            }
            // As they are, and with the upper bits known to be clear.
            for kept in [0xff, 0x3f, 0x03u8] {
                let got = computed(|b, word| {
                    let [kept, c] = [kept, c].map(|x| b.constant(LTy::Num(Scalar::I8), i64::from(x as i8) as u64));
                    let own: Vec<LVal> = bytes(b, word).to_vec();
                    own.into_iter()
                        .map(|v| {
                            let v = b.bin(BinOp::And, v, kept);
                            let v = b.bin(op, v, c);
                            b.cvt(v, LTy::I32)
                        })
                        .collect()
                });
                for (word, got) in words().into_iter().zip(got) {
                    let want = word.to_le_bytes().map(|x| i32::from(one(x & kept, c) as i8) as u32);
                    assert_eq!(got, want, "{op:?} by {c} of {word:08x} & {kept}");
                }
            }
        }
    }
}

#[test]
fn bytes_become_floats_two_at_a_time() {
    for elem in [Scalar::F16, Scalar::BF16] {
        for kept in [0xff, 0x7f, 0x0fu8] {
            let got = computed(|b, word| {
                let kept = b.constant(LTy::Num(Scalar::I8), i64::from(kept as i8) as u64);
                let four = b.constant(LTy::Num(Scalar::I8), 4);
                let own: Vec<LVal> = bytes(b, word).to_vec();
                let pairs = own.into_iter().map(|v| {
                    // Of one word, and of two words.
                    let (low, high) = (b.bin(BinOp::And, v, kept), b.bin(BinOp::ShrU, v, four));
                    [low, high].map(|v| {
                        let float = b.cvt(v, LTy::Num(elem));
                        b.note_float_of_byte(float, v, Scalar::I8);
                        float
                    })
                });
                pairs.collect::<Vec<_>>().into_iter().map(|pair| b.pack_computed(&pair)).collect()
            });
            for (word, got) in words().into_iter().zip(got) {
                let want = word.to_le_bytes().map(|x| half(f64::from(x >> 4), elem) << 16 | half(f64::from((x & kept) as i8), elem));
                assert_eq!(got, want, "{elem} of {word:08x} & {kept}");
            }
        }
    }
}

#[test]
fn bytes_become_singles() {
    for kept in [0xff, 0x7f, 0x01u8] {
        let got = computed(|b, word| {
            let kept = b.constant(LTy::Num(Scalar::I8), i64::from(kept as i8) as u64);
            let own: Vec<LVal> = bytes(b, word).to_vec();
            own.into_iter()
                .map(|v| {
                    let v = b.bin(BinOp::And, v, kept);
                    b.cvt(v, LTy::F32)
                })
                .collect()
        });
        for (word, got) in words().into_iter().zip(got) {
            assert_eq!(got, word.to_le_bytes().map(|x| f32::from((x & kept) as i8).to_bits()), "{word:08x} & {kept}");
        }
    }
}

#[test]
fn small_integers_become_halves_by_way_of_singles() {
    for elem in [Scalar::F16, Scalar::BF16] {
        let got = computed(|b, word| {
            let (mask, less) = (b.i32(0xff), b.i32(-70));
            let few = b.bin(BinOp::And, word, mask);
            let few = b.add(few, less);
            let small = b.cvt(few, LTy::Num(elem));
            vec![b.pack(&[small, small])]
        });
        for (word, got) in words().into_iter().zip(got) {
            let want = half(f64::from(word as u8) - 70.0, elem);
            assert_eq!(got, [want << 16 | want], "{elem} of {word:08x}");
        }
    }
    let mut b = LaneBuilder::new("test", 1, 32);
    let lane = b.special(Special::Lane);
    let (mask, more) = (b.i32(0x00ff_ffff), b.i32(2));
    let few = b.bin(BinOp::And, lane, mask);
    assert!(b.fits_single(few) && !b.fits_single(lane));
    let few = b.add(few, more);
    assert!(!b.fits_single(few), "two more than a fraction holds");
}

#[test]
fn picked_bytes_stand_together() {
    for many in 1..=5 {
        let got = computed(|b, word| {
            // The words themselves, their neighbours in the bits, and so on: lane n wants byte n of four.
            let (lane, three) = (b.special(Special::Lane), b.i32(3));
            let lane = b.bin(BinOp::And, lane, three);
            let from: Vec<(LVal, u32)> = (0..many)
                .map(|n| {
                    let by = b.i32(n);
                    (b.add(word, by), 0)
                })
                .collect();
            b.pick_bytes(lane, &from).into_iter().map(|v| b.cvt(v, LTy::I32)).collect()
        });
        for (thread, (word, got)) in words().into_iter().zip(got).enumerate() {
            let want: Vec<u32> = (0..many as u32).map(|n| (word.wrapping_add(n).to_le_bytes()[thread % 4] as i8) as i32 as u32).collect();
            assert_eq!(got, want, "{many} bytes for thread {thread}");
        }
    }
}

#[test]
fn lower_bits_are_enough_for_an_index_that_a_mask_made() {
    let mut b = LaneBuilder::new("test", 1, 32);
    b.packed_halves = true;
    let word = b.special(Special::Lane);
    let (seven, fifteen) = (b.i32(7), b.i32(15));
    let [few, all] = [seven, fifteen].map(|mask| b.bin(BinOp::And, word, mask));
    assert_eq!(b.modulo(all, 16), Some(word), "what the mask left is what counts");
    assert_eq!(b.modulo(few, 16), Some(few), "a bit that counts is clear");
    assert_eq!(b.modulo(all, 8), None);
    assert_eq!(b.modulo(word, 32), None, "nothing is known of it");
    // A mask that takes nothing away is none.
    assert_eq!(b.bin(BinOp::And, few, fifteen), few);
}
