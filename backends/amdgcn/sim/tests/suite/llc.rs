//! What LLVM makes of whole operations: divisions, conversions, wide integers, vectors of halves, loops. Each is a kernel of its own; results
//! are those of plain Rust, and no kernel has a finding. Without `llc-19` (`TILELIFT_LLC`) nothing is tested.

use crate::common::{Buf, Random, assemble, launch_kernel, required};
use std::process::Command;
use tilelift_amdgcn_sim::{Chip, SimConfig};

/// An operation: name, type of the operands, type of the result, body that leaves `%r` from `%x` and `%y`, and the reference on bits.
struct Operation(&'static str, &'static str, &'static str, &'static str, fn(u64, u64) -> u64);

fn f(v: u64) -> f32 {
    f32::from_bits(v as u32)
}

fn d(v: u64) -> f64 {
    f64::from_bits(v)
}

fn r(v: f32) -> u64 {
    u64::from(v.to_bits())
}

fn w(v: i32) -> u64 {
    u64::from(v as u32)
}

// The clamp of a NaN is a NaN, which the minimum is not.
#[allow(clippy::manual_clamp)]
const OPERATIONS: &[Operation] = &[
    Operation("udiv32", "i32", "i32", "%z = or i32 %y, 1\n%r = udiv i32 %x, %z", |x, y| u64::from(x as u32 / (y as u32 | 1))),
    Operation("srem32", "i32", "i32", "%z = or i32 %y, 1\n%r = srem i32 %x, %z", |x, y| w((x as i32).wrapping_rem(y as i32 | 1))),
    Operation("udiv64", "i64", "i64", "%z = or i64 %y, 1\n%r = udiv i64 %x, %z", |x, y| x / (y | 1)),
    Operation("sdiv64", "i64", "i64", "%z = or i64 %y, 1\n%r = sdiv i64 %x, %z", |x, y| (x as i64).wrapping_div(y as i64 | 1) as u64),
    Operation("mul64", "i64", "i64", "%r = mul i64 %x, %y", u64::wrapping_mul),
    Operation("shl64", "i64", "i64", "%z = and i64 %y, 63\n%r = shl i64 %x, %z", |x, y| x << (y & 63)),
    Operation("cmp64", "i64", "i64", "%c = icmp slt i64 %x, %y\n%r = select i1 %c, i64 %x, i64 %y", |x, y| (x as i64).min(y as i64) as u64),
    Operation("fshl", "i32", "i32", "%r = call i32 @llvm.fshl.i32(i32 %x, i32 %y, i32 7)", |x, y| {
        u64::from((x as u32) << 7 | y as u32 >> 25)
    }),
    Operation("bswap", "i64", "i64", "%r = call i64 @llvm.bswap.i64(i64 %x)", |x, _| x.swap_bytes()),
    Operation("ctlz64", "i64", "i64", "%r = call i64 @llvm.ctlz.i64(i64 %x, i1 false)", |x, _| u64::from(x.leading_zeros())),
    Operation("cttz32", "i32", "i32", "%r = call i32 @llvm.cttz.i32(i32 %x, i1 false)", |x, _| u64::from((x as u32).trailing_zeros())),
    Operation("popcount", "i64", "i64", "%r = call i64 @llvm.ctpop.i64(i64 %x)", |x, _| u64::from(x.count_ones())),
    Operation("usubsat", "i32", "i32", "%r = call i32 @llvm.usub.sat.i32(i32 %x, i32 %y)", |x, y| {
        u64::from((x as u32).saturating_sub(y as u32))
    }),
    Operation(
        "saddsat16",
        "i32",
        "i32",
        "%a = bitcast i32 %x to <2 x i16>\n%b = bitcast i32 %y to <2 x i16>\n%s = call <2 x i16> @llvm.sadd.sat.v2i16(<2 x i16> %a, <2 x i16> %b)\n%r = bitcast <2 x i16> %s to i32",
        |x, y| {
            let one = |at: u32| u64::from((((x >> at) as i16).saturating_add((y >> at) as i16)) as u16) << at;
            one(0) | one(16)
        },
    ),
    Operation("fdiv32", "float", "float", "%r = fdiv float %x, %y", |x, y| r(f(x) / f(y))),
    Operation("fdiv64", "double", "double", "%r = fdiv double %x, %y", |x, y| (d(x) / d(y)).to_bits()),
    Operation("sqrt32", "float", "float", "%r = call float @llvm.sqrt.f32(float %x)", |x, _| r(f(x).sqrt())),
    Operation("sqrt64", "double", "double", "%r = call double @llvm.sqrt.f64(double %x)", |x, _| d(x).sqrt().to_bits()),
    Operation("fma64", "double", "double", "%r = call double @llvm.fma.f64(double %x, double %y, double %y)", |x, y| {
        d(x).mul_add(d(y), d(y)).to_bits()
    }),
    Operation("floor64", "double", "double", "%r = call double @llvm.floor.f64(double %x)", |x, _| d(x).floor().to_bits()),
    Operation("maxnum", "float", "float", "%r = call float @llvm.maxnum.f32(float %x, float %y)", |x, y| {
        let (x, y) = (f(x), f(y));
        r(if x == y && y.is_sign_positive() { y } else { x.max(y) })
    }),
    Operation(
        "fptosi64",
        "float",
        "i64",
        "%s = call float @llvm.minnum.f32(float %x, float 576460752303423488.0)\n%t = call float @llvm.maxnum.f32(float %s, float -576460752303423488.0)\n%r = fptosi float %t to i64",
        |x, _| f(x).min(576460752303423488.0).max(-576460752303423488.0) as i64 as u64,
    ),
    Operation("satfptoui", "float", "i32", "%r = call i32 @llvm.fptoui.sat.i32.f32(float %x)", |x, _| u64::from(f(x) as u32)),
    Operation("satfptosi16", "double", "i32", "%s = call i16 @llvm.fptosi.sat.i16.f64(double %x)\n%r = sext i16 %s to i32", |x, _| {
        w(i32::from(d(x) as i16))
    }),
    Operation("sitofp64", "i64", "float", "%r = sitofp i64 %x to float", |x, _| r(x as i64 as f32)),
    Operation("uitofp64", "i64", "double", "%r = uitofp i64 %x to double", |x, _| (x as f64).to_bits()),
    Operation("fptrunc", "double", "float", "%r = fptrunc double %x to float", |x, _| r(d(x) as f32)),
    Operation("bf16", "float", "float", "%h = fptrunc float %x to bfloat\n%r = fpext bfloat %h to float", |x, _| {
        let b = x as u32;
        if f(x).is_nan() { x } else { u64::from((b + 0x7fff + (b >> 16 & 1)) & 0xffff_0000) }
    }),
    Operation(
        "oeq",
        "double",
        "i32",
        "%c = fcmp oeq double %x, %y\n%u = fcmp ult double %x, %y\n%s = zext i1 %c to i32\n%t = zext i1 %u to i32\n%v = shl i32 %t, 1\n%r = or i32 %s, %v",
        |x, y| u64::from(d(x) == d(y)) | u64::from(d(x).partial_cmp(&d(y)).is_none_or(std::cmp::Ordering::is_lt)) << 1,
    ),
    Operation(
        "ldexp",
        "float",
        "float",
        "%iy = bitcast float %y to i32\n%e = and i32 %iy, 63\n%r = call float @llvm.ldexp.f32.i32(float %x, i32 %e)",
        |x, y| r((f64::from(f(x)) * 2f64.powi((y & 63) as i32)) as f32),
    ),
    Operation(
        "collatz",
        "i32",
        "i32",
        "%s = and i32 %x, 1023\n%s1 = or i32 %s, 1\nbr label %loop\nloop:\n%n = phi i32 [ %s1, %start ], [ %m, %loop ]\n%k = phi i32 [ 0, %start ], [ %k1, %loop ]\n%k1 = add i32 %k, 1\n%odd = and i32 %n, 1\n%o = icmp eq i32 %odd, 1\n%h = lshr i32 %n, 1\n%t = mul i32 %n, 3\n%t1 = add i32 %t, 1\n%m = select i1 %o, i32 %t1, i32 %h\n%done = icmp ule i32 %m, 1\nbr i1 %done, label %end, label %loop\nend:\n%r = add i32 %k1, 0",
        |x, _| {
            let (mut n, mut k) = ((x as u32 & 1023) | 1, 0u64);
            loop {
                n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
                k += 1;
                if n <= 1 {
                    return k;
                }
            }
        },
    ),
];

fn bytes_of(ty: &str) -> usize {
    if matches!(ty, "i64" | "double") { 8 } else { 4 }
}

fn module() -> String {
    let mut t = String::from("declare i32 @llvm.amdgcn.workitem.id.x()\n");
    for Operation(name, ty, result, body, _) in OPERATIONS {
        t += &format!(
            "define amdgpu_kernel void @{name}(ptr addrspace(1) %ba, ptr addrspace(1) %bb, ptr addrspace(1) %bo) #0 {{\nstart:\n\
             %id = call i32 @llvm.amdgcn.workitem.id.x()\n%i = zext i32 %id to i64\n\
             %pa = getelementptr {ty}, ptr addrspace(1) %ba, i64 %i\n%pb = getelementptr {ty}, ptr addrspace(1) %bb, i64 %i\n\
             %x = load {ty}, ptr addrspace(1) %pa\n%y = load {ty}, ptr addrspace(1) %pb\n{body}\n\
             %po = getelementptr {result}, ptr addrspace(1) %bo, i64 %i\nstore {result} %r, ptr addrspace(1) %po\nret void\n}}\n"
        );
    }
    t + "attributes #0 = { \"amdgpu-flat-work-group-size\"=\"256,256\" \"uniform-work-group-size\"=\"true\" }\n"
}

fn compile(chip: Chip) -> Option<Vec<u8>> {
    let path = std::env::temp_dir().join(format!("tilelift-llc-{}-{chip}.ll", std::process::id()));
    std::fs::write(&path, module()).expect("a temporary file");
    let tool = std::env::var("TILELIFT_LLC").unwrap_or_else(|_| "llc-19".into());
    let out = Command::new(tool).args(["-mtriple=amdgcn-amd-amdhsa", &format!("-mcpu={chip}"), "-o", "-"]).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let Ok(out) = out else {
        assert!(!required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no llc-19 (set TILELIFT_LLC)");
        eprintln!("llc-19 not found: nothing is tested");
        return None;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assemble(&String::from_utf8_lossy(&out.stdout), chip)
}

const SPECIAL: [u64; 16] = [
    0,
    1,
    u64::MAX,
    1 << 63,
    0x3ff0_0000_3f80_0000,
    0x7ff0_0000_7f80_0000,
    0xfff0_0000_ff80_0000,
    0x7ff8_0000_7fc0_0000,
    0x000f_ffff_007f_ffff,
    0x0010_0000_0080_0000,
    0x7fef_ffff_7f7f_ffff,
    0x4330_0000_4f00_0000,
    0xc1e0_0000_cf00_0000,
    0x8000_0000_8000_0000,
    0x43e0_0000_4f80_0000,
    0x3fe0_0000_3f00_0001,
];

fn data(seed: u64, n: usize) -> Vec<u64> {
    let mut random = Random(seed);
    let mut one = |k: usize| match k % 4 {
        0 => SPECIAL[random.next() as usize % 16],
        1 => random.next(),
        2 => f64::from(random.unit() * 1000.0).to_bits() & !0xffff_ffff | u64::from((random.unit() * 100.0).to_bits()),
        _ => random.next() % 1000,
    };
    (0..n).map(&mut one).collect()
}

fn all(chip: Chip) {
    let Some(object) = compile(chip) else { return };
    let n = 1024usize;
    let (a, b) = (data(21, n), data(22, n));
    let mut wrong = Vec::new();
    for Operation(name, ty, result, _, reference) in OPERATIONS {
        let (size, out) = (bytes_of(ty), bytes_of(result));
        // A workgroup has 256 items: four launches' worth of numbers, one launch each.
        for part in 0..n / 256 {
            let raw = |v: &[u64]| Buf::In(v[part * 256..(part + 1) * 256].iter().flat_map(|x| x.to_le_bytes()[..size].to_vec()).collect());
            let run =
                launch_kernel(&object, name, ([1, 1, 1], 256, 0), vec![raw(&a), raw(&b), Buf::Out(256 * out)], &[], SimConfig::default());
            let (buffers, _) = run.unwrap_or_else(|f| panic!("{chip} {name}: {f}"));
            for (k, got) in buffers[2].chunks_exact(out).enumerate() {
                let got = got.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
                let mask = if size == 4 { 0xffff_ffff } else { u64::MAX };
                let (x, y) = (a[part * 256 + k] & mask, b[part * 256 + k] & mask);
                let want = reference(x, y);
                let both_nan = match *result {
                    "float" => f(got).is_nan() && f(want).is_nan(),
                    "double" => d(got).is_nan() && d(want).is_nan(),
                    _ => false,
                };
                if got != want && !both_nan {
                    wrong.push(format!("{chip} {name} of {x:#x}, {y:#x}: {got:#x}, not {want:#x}"));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn gfx942() {
    all(Chip::Gfx942);
}

#[test]
fn gfx90a() {
    all(Chip::Gfx90a);
}
