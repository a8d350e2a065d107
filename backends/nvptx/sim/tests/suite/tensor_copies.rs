//! Tensor copies of every rank, element size and swizzle, inside and outside the tensor, against an element-wise model.

use crate::common::hopper::map_arg;
use crate::common::{Rng, module};
use tilelift_nvptx_sim::{
    Arg, ErrorKind, Init, Landing, Launch, MapElement, MapFill, MapSwizzle, Memory, Module, Policy, SimConfig, SimError, TensorMap,
};

/// A tile goes in, is stored word by word to `out`, comes in again from `img` and goes out to `map2`.
fn text(rank: usize, out_op: &str) -> Module {
    let coords: Vec<String> = (0..rank).map(|i| format!("%c{i}")).collect();
    let coords = coords.join(",");
    let load_coords: String = (0..rank).map(|i| format!("ld.global.s32 %c{i}, [%rd4+{}]; ", 4 * i)).collect();
    module(&format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];
         .visible .entry k(.param .align 64 .b8 tm[128], .param .align 64 .b8 tm2[128], .param .u64 out, .param .u64 img, .param .u64 at, .param .u32 bytes)
         .maxntid 64, 1, 1\n{{ .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<12>; .reg .b32 %c<5>;
         mov.b64 %rd1, tm; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, tm2; cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd3, [out];
         ld.param.u64 %rd5, [img]; ld.param.u64 %rd4, [at]; ld.param.u32 %r1, [bytes]; {load_coords}
         mov.u32 %r2, %tid.x; mov.u32 %r3, smem; add.u32 %r3, %r3, 1024; mov.u32 %r4, smem; setp.ne.u32 %p1, %r2, 0;
         @%p1 bra I; mbarrier.init.shared::cta.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
         I: bar.sync 0; @%p1 bra W; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], %r1;
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd1, {{{coords}}}], [%r4];
         W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra W;
         mul.lo.u32 %r5, %r2, 4;
         L: setp.ge.u32 %p3, %r5, %r1; @%p3 bra M; add.u32 %r6, %r3, %r5; ld.shared.u32 %r7, [%r6]; cvt.u64.u32 %rd6, %r5;
         add.u64 %rd7, %rd6, %rd3; st.global.u32 [%rd7], %r7; add.u64 %rd8, %rd6, %rd5; ld.global.u32 %r8, [%rd8]; st.shared.u32 [%r6], %r8;
         add.u32 %r5, %r5, 256; bra L;
         M: fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra D;
         {out_op}.{rank}d.global.shared::cta{} [%rd2, {{{coords}}}], [%r3];
         cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; D: ret; }}",
        if out_op.contains("reduce") { ".add.tile.bulk_group" } else { ".tile.bulk_group" }
    ))
}

struct Shape {
    rank: usize,
    element: MapElement,
    dims: Vec<u64>,
    boxes: Vec<u32>,
    steps: Vec<u32>,
    swizzle: MapSwizzle,
    fill: MapFill,
}

/// Byte strides: rows padded by 16.
fn strides(s: &Shape) -> Vec<u64> {
    let mut v = Vec::new();
    let mut b = (s.dims[0] * u64::from(s.element.bytes())).next_multiple_of(16) + 16;
    for d in 1..s.rank {
        v.push(b);
        b *= s.dims[d];
    }
    v
}

fn run(s: &Shape, at: &[i64], seed: u64) -> Result<(), SimError> {
    let es = s.element.bytes() as usize;
    let st = strides(s);
    let total = if s.rank == 1 { (s.dims[0] as usize * es).next_multiple_of(16) } else { (st[s.rank - 2] * s.dims[s.rank - 1]) as usize };
    let mut r = Rng(seed);
    let data: Vec<u8> = (0..total).map(|_| r.next() as u8).collect();
    let before: Vec<u8> = (0..total).map(|_| r.next() as u8).collect();
    let mut mem = Memory::new();
    let p = mem.alloc("tensor", Init::Bytes(data.clone()));
    let p2 = mem.alloc("target", Init::Bytes(before.clone()));
    let map = |base| TensorMap {
        base,
        element: s.element,
        dims: s.dims.clone(),
        strides: st.clone(),
        box_dims: s.boxes.clone(),
        element_strides: s.steps.clone(),
        swizzle: s.swizzle,
        fill: s.fill,
    };
    let tile: Vec<usize> = map(p).tile().iter().map(|&x| x as usize).collect();
    let bytes = map(p).tile_bytes() as usize;
    let img: Vec<u8> = (0..bytes).map(|_| r.next() as u8).collect();
    let pi = mem.alloc("img", Init::Bytes(img.clone()));
    let po = mem.alloc("out", Init::Uninit(bytes));
    let pa = mem.alloc("at", Init::Bytes(at.iter().flat_map(|&x| (x as i32).to_le_bytes()).collect()));
    let args = [map_arg(map(p)), map_arg(map(p2)), Arg::U64(po), Arg::U64(pi), Arg::U64(pa), Arg::U32(bytes as u32)];
    let landing = [Landing::Eager, Landing::Lazy, Landing::Random][seed as usize % 3];
    let config = SimConfig { seed, landing, policy: Policy::Random, ..SimConfig::default() };
    let l = Launch { entry: "k", grid: [1; 3], block: [64, 1, 1], shared_bytes: 1024 + bytes as u32, args: &args, config };
    let ran = text(s.rank, "cp.async.bulk.tensor").launch(&l, &mut mem);
    // Hardware stores whole units of 16 bytes: what lies behind a last column that ends none would be written.
    let columns = s.dims[0] as i64;
    if !(s.dims[0] as usize * es).is_multiple_of(16) && at[0] < columns && at[0] + i64::from(s.boxes[0]) > columns {
        let e = ran.expect_err("a store beyond a last column that ends no unit");
        assert_eq!(e.kind, ErrorKind::Misaligned, "{e}");
        return Ok(());
    }
    ran?;
    // The model, element by element.
    let out = mem.read(po, bytes).expect("written").to_vec();
    let after = mem.read(p2, total).expect("written").to_vec();
    let mut want = before.clone();
    let nan: Vec<u8> = match s.element {
        MapElement::F32 => 0x7fff_ffffu32.to_le_bytes().to_vec(),
        _ => 0x7fffu16.to_le_bytes().to_vec(),
    };
    for i in 0..bytes / es {
        let mut left = i;
        let mut inside = true;
        let mut off = 0i64;
        for d in 0..s.rank {
            let step = if d == 0 { 1 } else { i64::from(s.steps[d]) };
            let c = at[d] + (left % tile[d]) as i64 * step;
            left /= tile[d];
            inside &= c >= 0 && c < s.dims[d] as i64;
            off += c * if d == 0 { es as i64 } else { st[d - 1] as i64 };
        }
        // The tile starts at a multiple of 1024.
        let a = i * es;
        let phys = match s.swizzle {
            MapSwizzle::None => a,
            MapSwizzle::B32 => a ^ (a >> 7 & 1) << 4,
            MapSwizzle::B64 => a ^ (a >> 7 & 3) << 4,
            MapSwizzle::B128 => a ^ (a >> 7 & 7) << 4,
        };
        let got = &out[phys..phys + es];
        if inside {
            let o = off as usize;
            assert_eq!(got, &data[o..o + es], "element {i}");
            want[o..o + es].copy_from_slice(&img[phys..phys + es]);
        } else {
            let fill = if s.fill == MapFill::Nan { nan.clone() } else { vec![0; es] };
            assert_eq!(got, &fill[..], "element {i} outside");
        }
    }
    assert_eq!(after, want, "stored tensor");
    Ok(())
}

#[test]
fn ranks_and_swizzles() {
    let mut r = Rng(11);
    for rank in 1..=5usize {
        for (element, inner) in [(MapElement::U8, 32u32), (MapElement::Bf16, 16), (MapElement::F32, 8), (MapElement::U64, 4)] {
            for (swizzle, times) in [(MapSwizzle::None, 3), (MapSwizzle::B32, 1), (MapSwizzle::B64, 2), (MapSwizzle::B128, 4)] {
                let outer = [1, 5, 3, 2, 2];
                let mut s = Shape {
                    rank,
                    element,
                    dims: (0..rank).map(|d| if d == 0 { 70 } else { 5 + d as u64 }).collect(),
                    boxes: (0..rank).map(|d| if d == 0 { inner * times } else { outer[d] }).collect(),
                    steps: vec![1; rank],
                    swizzle,
                    fill: if element == MapElement::F32 { MapFill::Nan } else { MapFill::Zero },
                };
                for round in 0..6 {
                    s.dims[0] = if round % 2 == 0 { 80 } else { 70 };
                    // Boxes begin at multiples of 16 bytes of a row.
                    let column = ((r.next() % 90) as i64 - 15) / i64::from(16 / element.bytes()) * i64::from(16 / element.bytes());
                    let at: Vec<i64> = (0..rank).map(|d| if d == 0 { column } else { (r.next() % 9) as i64 - 2 }).collect();
                    if round == 3 && rank > 1 {
                        s.steps[rank - 1] = 2;
                    }
                    run(&s, &at, r.next()).unwrap_or_else(|e| panic!("rank {rank} {element:?} {swizzle:?} {at:?}: {e}"));
                }
            }
        }
    }
}

#[test]
fn wholly_outside() {
    let s = Shape {
        rank: 2,
        element: MapElement::Bf16,
        dims: vec![64, 8],
        boxes: vec![64, 8],
        steps: vec![1, 1],
        swizzle: MapSwizzle::B128,
        fill: MapFill::Nan,
    };
    for at in [[64, 0], [-64, 0], [0, 8], [0, -8], [1000, 1000], [-8, -7], [56, 7]] {
        run(&s, &at, 5).unwrap_or_else(|e| panic!("{at:?}: {e}"));
    }
}

/// Loads, stores, reductions and prefetches whose innermost coordinate is no multiple of 16 bytes; other dimensions take any.
#[test]
fn columns_are_aligned() {
    for (element, bad) in [
        (MapElement::U8, vec![4i64, 8, 15, -4]),
        (MapElement::Bf16, vec![1, 2, 4, -1, 63]),
        (MapElement::F32, vec![1, 2, 30]),
        (MapElement::U64, vec![1, 33]),
    ] {
        for swizzle in [MapSwizzle::None, MapSwizzle::B128] {
            let inner = 128 / element.bytes();
            let s = Shape { rank: 2, element, dims: vec![512, 9], boxes: vec![inner, 4], steps: vec![1, 1], swizzle, fill: MapFill::Zero };
            for at in [0, i64::from(16 / element.bytes()), i64::from(inner), -i64::from(inner)] {
                for row in [0, 1, 3, -1] {
                    run(&s, &[at, row], 7).unwrap_or_else(|e| panic!("{element:?} {at}: {e}"));
                }
            }
            for &at in &bad {
                let e = run(&s, &[at, 0], 7).expect_err("an unaligned column");
                assert_eq!(e.kind, ErrorKind::Misaligned, "{e}");
                let bytes = at * i64::from(element.bytes());
                assert!(e.message.contains(&format!("coordinate {at} is {bytes} bytes")), "{e}");
                assert!(e.site.as_ref().is_some_and(|s| s.text.starts_with("cp.async.bulk.tensor.2d.shared")), "{e}");
            }
        }
    }
}

/// The same of each instruction alone.
#[test]
fn every_tensor_instruction_needs_an_aligned_column() {
    let go = |copy: &str, column: u32| {
        let m = module(
            &format!(
                ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];
             .visible .entry k(.param .align 64 .b8 tm[128]) {{ .reg .b32 %r<8>; .reg .b64 %rd<4>;
             mov.b64 %rd1, tm; cvta.param.u64 %rd1, %rd1; mov.u32 %r1, smem; mov.u32 %r2, {column}; mov.u32 %r3, 5; mov.u32 %r4, 7;
             mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r5, 4, %r1;
             st.shared.u32 [%r6], %r4; st.shared.u32 [%r6+128], %r4; st.shared.u32 [%r6+256], %r4; st.shared.u32 [%r6+384], %r4;
             fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %r5, 0; @%p1 bra D; {copy}
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; D: ret; }}"
            )
            .replace(".reg .b32 %r<8>;", ".reg .pred %p<2>; .reg .b32 %r<8>;"),
        );
        let mut mem = Memory::new();
        let base = mem.alloc("tensor", Init::Zeroed(8192));
        let map = TensorMap::new(base, MapElement::U32, &[64, 32], &[256], &[32, 4]);
        let args = [map_arg(map)];
        let l = Launch { entry: "k", grid: [1; 3], block: [32, 1, 1], shared_bytes: 1024, args: &args, config: SimConfig::default() };
        m.launch(&l, &mut mem).map(|_| ())
    };
    for copy in [
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r2, %r3}], [%r1];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {%r2, %r3}], [%r1];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r2, %r3}];",
    ] {
        go(copy, 12).unwrap_or_else(|e| panic!("{copy}: {e}"));
        let e = go(copy, 6).expect_err(copy);
        assert_eq!(e.kind, ErrorKind::Misaligned, "{e}");
        assert!(e.to_string().contains("24 bytes into the row"), "{e}");
    }
}

/// Reductions of the map's element type.
#[test]
fn tensor_reductions() {
    for (element, one, start, sum) in [
        (MapElement::U32, 3u32.to_le_bytes().to_vec(), 4u32.to_le_bytes().to_vec(), 7u32.to_le_bytes().to_vec()),
        (MapElement::F32, 1.5f32.to_le_bytes().to_vec(), 2.0f32.to_le_bytes().to_vec(), 3.5f32.to_le_bytes().to_vec()),
        (MapElement::Bf16, 0x3f80u16.to_le_bytes().to_vec(), 0x4000u16.to_le_bytes().to_vec(), 0x4040u16.to_le_bytes().to_vec()),
        (MapElement::F16, 0x3c00u16.to_le_bytes().to_vec(), 0x4000u16.to_le_bytes().to_vec(), 0x4200u16.to_le_bytes().to_vec()),
    ] {
        let es = element.bytes() as usize;
        let n = 4096 / es;
        let mut mem = Memory::new();
        let src = mem.alloc("in", Init::Bytes(one.repeat(n)));
        let dst = mem.alloc("sum", Init::Bytes(start.repeat(n)));
        let o = mem.alloc("out", Init::Uninit(1024));
        let at = mem.alloc("at", Init::Bytes(vec![0; 8]));
        let map = |base| map_arg(TensorMap::new(base, element, &[(128 / es) as u64, 32], &[128], &[(128 / es) as u32, 8]));
        let args = [map(src), map(dst), Arg::U64(o), Arg::U64(src), Arg::U64(at), Arg::U32(1024)];
        let config = SimConfig::default();
        let l = Launch { entry: "k", grid: [1; 3], block: [64, 1, 1], shared_bytes: 2048, args: &args, config };
        text(2, "cp.reduce.async.bulk.tensor").launch(&l, &mut mem).unwrap_or_else(|e| panic!("{element:?}: {e}"));
        assert_eq!(mem.read(dst, 1024).expect("there"), &sum.repeat(1024 / es)[..]);
        assert_eq!(mem.read(dst + 1024, 1024).expect("there"), &start.repeat(1024 / es)[..]);
    }
}

/// A tensor that does not fit its buffer, a source that was never written, a read-only target.
#[test]
fn faults() {
    let go = |rows: u64, init: Init, read_only: bool| {
        let mut mem = Memory::new();
        let src = mem.alloc("in", init);
        let dst = mem.alloc("target", Init::Zeroed(4096));
        let o = mem.alloc("out", Init::Uninit(1024));
        let img = mem.alloc("img", Init::Zeroed(1024));
        let at = mem.alloc("at", Init::Bytes([0i32, 24].iter().flat_map(|x| x.to_le_bytes()).collect()));
        if read_only {
            mem.set_read_only(dst).expect("allocated");
        }
        let map = |base| map_arg(TensorMap::new(base, MapElement::F32, &[32, rows], &[128], &[32, 8]));
        let args = [map(src), map(dst), Arg::U64(o), Arg::U64(img), Arg::U64(at), Arg::U32(1024)];
        let config = SimConfig::default();
        let l = Launch { entry: "k", grid: [1; 3], block: [64, 1, 1], shared_bytes: 2048, args: &args, config };
        text(2, "cp.async.bulk.tensor").launch(&l, &mut mem).map(|_| ())
    };
    assert_eq!(go(32, Init::Zeroed(4096), false), Ok(()));
    let kind = |r: Result<(), SimError>, needle: &str| {
        let e = r.expect_err("a fault");
        assert!(e.to_string().contains(needle), "{e}");
        e.kind
    };
    assert_eq!(kind(go(32, Init::Zeroed(4000), false), "buffer `in`"), ErrorKind::OutOfBounds);
    assert_eq!(kind(go(32, Init::Uninit(4096), false), "byte 3072 of buffer `in`"), ErrorKind::Uninitialised);
    assert_eq!(kind(go(32, Init::Zeroed(4096), true), "read-only"), ErrorKind::OutOfBounds);
}

/// The map in global memory: from the host, and written by the kernel without and with its fence.
#[test]
fn maps_in_memory() {
    let text = |prepare: &str| {
        module(&format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];
             .visible .entry k(.param .u64 maps, .param .u64 out) {{ .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<12>;
             ld.param.u64 %rd1, [maps]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem; setp.ne.u32 %p1, %r1, 0; mov.u32 %r3, 0;
             mad.wide.u32 %rd3, %r1, 4, %rd1; {prepare}
             @%p1 bra I; mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2+1024], [%rd1, {{%r3, %r3}}], [%r2];
             I: bar.warp.sync -1; W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;
             mad.lo.u32 %r4, %r1, 4, %r2; ld.shared.u32 %r5, [%r4+1024]; mad.wide.u32 %rd4, %r1, 4, %rd2; st.global.u32 [%rd4], %r5; ret; }}"
        ))
    };
    let go = |prepare: &str| {
        let mut mem = Memory::new();
        let src = mem.alloc("in", Init::Bytes((0..1024u32).flat_map(u32::to_le_bytes).collect()));
        let map = TensorMap::new(src, MapElement::F32, &[32, 32], &[128], &[32, 8]).encode().expect("fits");
        let maps = mem.alloc("maps", Init::Bytes([map, map].concat()));
        let o = mem.alloc("out", Init::Uninit(128));
        let args = [Arg::U64(maps), Arg::U64(o)];
        let l = Launch { entry: "k", grid: [1; 3], block: [32, 1, 1], shared_bytes: 2048, args: &args, config: SimConfig::default() };
        text(prepare).launch(&l, &mut mem)?;
        Ok::<_, SimError>(crate::common::u32s(mem.read(o, 128).expect("written")))
    };
    let want: Vec<u32> = (0..32).collect();
    assert_eq!(go(""), Ok(want.clone()));
    let copy = "ld.global.u32 %r6, [%rd3+128]; st.global.u32 [%rd3], %r6; bar.warp.sync -1;";
    assert_eq!(go(copy).expect_err("no fence").kind, ErrorKind::Proxy);
    assert_eq!(go(&format!("{copy} fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;")), Ok(want));
}
