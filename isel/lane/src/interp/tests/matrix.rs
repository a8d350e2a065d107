//! Matrix instructions against a plain triple loop.

use super::*;
use crate::inst::MatrixProduct;
use crate::machine::MatrixId;
use tilelift_ir::num;

/// Where element `e` of lane `l` lies, by the fragment's columns.
fn place(map: &FragmentMap, element: usize, lane: usize) -> (usize, usize) {
    let mut c = (0, 0);
    for (columns, index) in [(&map.reg, element), (&map.lane, lane)] {
        for (bit, column) in columns.iter().enumerate() {
            if index >> bit & 1 == 1 {
                c = (c.0 ^ column[0] as usize, c.1 ^ column[1] as usize);
            }
        }
    }
    c
}

/// The bytes of every lane's part of a matrix (a function of row and column), lane after lane, elements in order.
fn deal(map: &FragmentMap, elem: Scalar, lanes: usize, of: impl Fn(usize, usize) -> f64) -> Vec<u8> {
    let size = elem.bytes() as usize;
    let bits = |x: f64| if elem.is_float() { num::to_bits(num::round(x, elem), elem) } else { x as i64 as u64 };
    let part = |lane| (0..1usize << map.reg.len()).map(move |e| place(map, e, lane));
    (0..lanes).flat_map(|lane| part(lane).flat_map(|(r, c)| bits(of(r, c)).to_le_bytes()[..size].to_vec())).collect()
}

/// Runs a matrix instruction of the test target on two warps with given operands; returns the values of D by lane, element.
fn run(instr: &MatrixInstr, id: usize, operands: [&dyn Fn(usize, usize, usize) -> f64; 3]) -> Vec<f64> {
    let mut asm = Asm::new(2);
    let mut m = Memory::new();
    let maps = [(&instr.a, instr.operand), (&instr.b, instr.operand_b), (&instr.d, instr.acc)];
    let mut vals: Vec<Vec<LVal>> = Vec::new();
    for (view, ((map, elem), of)) in maps.into_iter().zip(operands).enumerate() {
        let bytes = (0..2).flat_map(|warp| deal(map, elem, 32, |r, c| of(warp, r, c))).collect();
        m.add(Buffer::from_bytes(bytes));
        let ty = if elem.bytes() < 4 { LTy::B32 } else { LTy::Num(elem) };
        let n = (elem.bytes() as usize * (1 << map.reg.len())) / ty.bytes() as usize;
        let t = asm.thread();
        let addr = asm.element(view as u32, t, ty.bytes() * n as u32);
        vals.push(
            (0..n)
                .map(|i| {
                    let offset = (i * ty.bytes() as usize) as i32;
                    asm.def(ty, |d| Inst::LoadGlobal {
                        dsts: Vals::from_slice(&[d]),
                        addr,
                        offset,
                        guard: None,
                        other: Vals::new(),
                        cache: tilelift_ir::CacheHint::Normal,
                    })
                })
                .collect(),
        );
    }
    let ty = asm.p.vals[vals[2][0]];
    let dsts = asm.vals(ty, vals[2].len());
    asm.push(Inst::Matrix(Box::new(MatrixProduct {
        dsts: dsts.iter().copied().collect(),
        instr: MatrixId::new(id),
        a: vals[0].iter().copied().collect(),
        b: vals[1].iter().copied().collect(),
        c: vals[2].iter().copied().collect(),
        scales: Vals::new(),
    })));
    let size = ty.bytes() * dsts.len() as u32;
    m.add(Buffer::uninit(64 * size as usize));
    let t = asm.thread();
    let addr = asm.element(3, t, size);
    for (i, &d) in dsts.iter().enumerate() {
        let offset = (i as u32 * ty.bytes()) as i32;
        asm.push(Inst::StoreGlobal { srcs: Vals::from_slice(&[d]), addr, offset, guard: None, cache: tilelift_ir::CacheHint::Normal });
    }
    let stats = asm.run(&mut m).unwrap();
    assert_eq!(stats.matrices, 2);
    m.buffers[3].read_f64(instr.acc)
}

#[test]
fn every_matrix_instruction_multiplies() {
    for (id, instr) in target().matrix.iter().enumerate() {
        let [m, n, k] = instr.shape.map(|e| e as usize);
        // Multiples of 1/8 with few bits: exact in every type, so that the order of the sum is immaterial.
        let scale = if instr.operand == Scalar::I8 { 1.0 } else { 0.125 };
        let number = |seed: usize| {
            move |warp: usize, r: usize, c: usize| {
                let x = Random((seed * 7919 + warp * 104_729 + r * 131 + c) as u64).next();
                (x % 15) as f64 * scale - 7.0 * scale
            }
        };
        let (a, b, c) = (number(1), number(2), number(3));
        let got = run(instr, id, [&a, &b, &c]);
        let per_lane = 1 << instr.d.reg.len();
        for (i, &got) in got.iter().enumerate() {
            let (t, e) = (i / per_lane, i % per_lane);
            let (row, col) = place(&instr.d, e, t % 32);
            assert!(row < m && col < n);
            let sum: f64 = (0..k).map(|j| a(t / 32, row, j) * b(t / 32, j, col)).sum();
            assert_eq!(got, sum + c(t / 32, row, col), "{} thread {t} element {e}", instr.name);
        }
    }
}

#[test]
fn results_round_once_and_wrap() {
    let t = target();
    let find = |name| t.matrix.iter().position(|i| i.name == name).unwrap();
    // 2048 + 16 products of 0.75^2 = 9: f16 holds even numbers there, so adding one product at a time would stay at 2048.
    let id = find("narrow");
    let got = run(&t.matrix[id], id, [&|_, _, _| 0.75, &|_, _, _| 0.75, &|_, _, _| 2048.0]);
    assert_eq!(got, vec![2056.0; got.len()]);
    // i32 accumulators wrap.
    let id = find("byte");
    let got = run(&t.matrix[id], id, [&|_, _, _| -128.0, &|_, _, _| -128.0, &|_, _, _| f64::from(i32::MAX)]);
    assert_eq!(got, vec![f64::from(i32::MAX.wrapping_add(128 * 128 * 32)); got.len()]);
    // tf32 operands are rounded to 10 bits: 1 + 2^-12 becomes 1.
    let id = find("tf32");
    let got = run(&t.matrix[id], id, [&|_, _, _| 1.0 + 2f64.powi(-12), &|_, _, _| 1.0, &|_, _, _| 0.0]);
    assert_eq!(got, vec![8.0; got.len()]);
    // NaN and infinity pass.
    let id = find("half");
    let got = run(&t.matrix[id], id, [&|_, r, _| if r == 0 { f64::INFINITY } else { 1.0 }, &|_, _, c| c as f64, &|_, _, _| 0.0]);
    assert!(got[0].is_nan() && got[1] == f64::INFINITY && got[2] == 0.0 && got[3] == 16.0, "{:?}", &got[..4]);
}

#[test]
fn tables_that_no_warp_can_run() {
    let problem = |change: fn(&mut MatrixInstr)| {
        let mut t = target();
        change(&mut t.matrix[5]);
        match crate::interp::matrix::MatrixTable::new(&t.matrix[5], 32) {
            Err(LaneError::Table { name: "copies", problem }) => problem,
            _ => panic!("accepted"),
        }
    };
    assert_eq!(problem(|i| i.a.warp.push([0, 0].into_iter().collect())), "a fragment spans several warps");
    assert_eq!(problem(|i| i.shape[2] = 4), "a fragment does not cover its operand");
    assert_eq!(problem(|i| drop(i.d.lane.pop())), "a fragment is for warps of another width");
    assert_eq!(problem(|i| i.b.reg[0][0] = 0), "a fragment does not cover its operand");
}

/// As many matrix instructions as a product of extent 256 takes, in one chain.
#[test]
fn a_long_chain_of_matrix_instructions() {
    let mut asm = Asm::new(4);
    let zero = asm.constant(LTy::B32, 0x3c00_3c00);
    let start = asm.constant(LTy::F32, 0);
    let mut sums = vec![start; 4];
    for _ in 0..2048 {
        let dsts: Vec<LVal> = asm.vals(LTy::F32, 4).into_vec();
        asm.push(Inst::Matrix(Box::new(MatrixProduct {
            dsts: dsts.iter().copied().collect(),
            instr: MatrixId::new(0),
            a: Vals::from_elem(zero, 4),
            b: Vals::from_elem(zero, 2),
            c: sums.iter().copied().collect(),
            scales: Vals::new(),
        })));
        sums = dsts;
    }
    asm.store(0, &sums);
    let mut m = memory([Buffer::uninit(128 * 16)]);
    asm.run(&mut m).unwrap();
    assert_eq!(m.buffers[0].read_f64(Scalar::F32), vec![2048.0 * 16.0; 512]);
}
