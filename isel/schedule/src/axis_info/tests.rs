//! What is found of small programs, and what must not be.

use super::AxisInfo;
use tilelift_ir::{Kernel, Value, ValueDef, text};

/// A kernel that ends with a tile in `v99`, whose facts are asked for.
fn kernel(body: &str) -> (Kernel, Value) {
    let text = format!("kernel @k(v0: view<i32, [?, ?%32]>, v1: i32, v2: i64) {{\n{body}\n}}");
    let file = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = file.kernels.into_iter().next().expect("a kernel");
    // Results are numbered in the order of the text.
    let mut asked = None;
    kernel.walk(kernel.body, &mut |i| {
        if let Some(&v) = kernel.insts[i].results.first()
            && kernel.names[v].as_deref() == Some("asked")
        {
            asked = Some(v);
        }
    });
    (kernel, asked.expect("a value called %asked"))
}

/// Blocks of equal numbers along each dimension, then aligned runs.
fn blocks(body: &str) -> (Vec<u32>, Vec<u32>) {
    let (k, v) = kernel(body);
    let info = AxisInfo::of(&k, v);
    let rank = k.ty(v).shape().map_or(0, <[u32]>::len);
    assert!(!matches!(k.values[v].def, ValueDef::KernelParam(_)));
    ((0..rank).map(|d| info.equal(d)).collect(), (0..rank).map(|d| info.run(d)).collect())
}

/// The whole dimension.
const ALL: u32 = 1 << 31;

/// A row of 64 numbers: 0, 1, 2, …; a scalar of the program's index times 16; the parameter; the parameter times 8.
const ROW: &str = "%at = iota 0 : tile<64xi32>\n%x = program_id x\n%x16 = mul %x, 16\n%first = splat %x16 : tile<64xi32>\n\
                   %n = splat v1 : tile<64xi32>\n%v8 = mul v1, 8\n%n8 = splat %v8 : tile<64xi32>\n";

/// Equal blocks and aligned runs of a row.
fn row(op: &str) -> [u32; 2] {
    let (equal, run) = blocks(&format!("{ROW}{op}"));
    [equal[0], run[0]]
}

#[test]
fn runs_and_what_stays() {
    for (op, want) in [
        ("%asked = add %at, 0", [1, ALL]),
        ("%asked = add %n, %n", [ALL, 1]),
        ("%asked = add %at, %first", [1, 16]),
        ("%asked = add %first, %at", [1, 16]),
        ("%asked = sub %at, %n8", [1, 8]),
        ("%asked = or %at, %first", [1, 16]),
        ("%asked = add %at, %n", [1, 1]),
        ("%asked = sub %n8, %at", [1, 1]),
        ("%asked = sub %at, %at", [ALL, 1]),
        ("%asked = mul %at, 8", [1, 1]),
        ("%asked = or %at, %n", [1, 1]),
        // Two odd numbers make an aligned run again.
        ("%a = add %at, 3\n%asked = add %a, 5", [1, 8]),
        ("%asked = add %at, 3", [1, 1]),
        ("%a = cast %at : tile<64xf32>\n%asked = add %a, 1.0", [1, 1]),
        ("%a = cast %n : tile<64xf32>\n%asked = exp %a", [ALL, 1]),
        ("%asked = minimum %at, 100", [1, ALL]),
        ("%asked = minimum %at, 30", [1, 1]),
        ("%asked = maximum %at, %n", [1, 1]),
        ("%m = cmp lt %at, %n8\n%asked = select %m, %at, %first", [1, 1]),
        ("%m = cmp lt %at, %n8\n%b = add %at, 64\n%asked = select %m, %at, %b", [1, 8]),
        ("%m = cmp lt %at, %n8\n%asked = select %m, %n, %first", [8, 1]),
    ] {
        assert_eq!(row(op), want, "{op}");
    }
}

#[test]
fn quotients_and_remainders() {
    for (op, want) in [
        ("%asked = div %at, 8", [8, 1]),
        ("%asked = div %at, 24", [8, 1]),
        ("%asked = rem %at, 24", [1, 8]),
        ("%asked = div %at, %n8", [8, 1]),
        ("%asked = rem %at, %n8", [1, 8]),
        ("%asked = div %at, %n", [1, 1]),
        // Below 0 a quotient is no floor, and remainders run backward.
        ("%a = add %at, %n8\n%asked = div %a, 8", [1, 1]),
        ("%a = add %at, %n8\n%asked = rem %a, 8", [1, 1]),
        ("%a = sub %at, 32\n%asked = div %a, 8", [1, 1]),
        ("%a = sub %at, 32\n%asked = rem %a, 8", [1, 1]),
        // Shifts are floors, and so are quotients of what is read unsigned.
        ("%a = add %at, %n8\n%asked = shr_s %a, 3", [8, 1]),
        ("%a = sub %at, 32\n%asked = shr_s %a, 4", [16, 1]),
        ("%a = add %at, %n8\n%asked = div_u %a, 8", [8, 1]),
        ("%a = add %at, %n8\n%asked = rem_u %a, 8", [1, 8]),
        ("%a = add %at, %n8\n%asked = and %a, 7", [1, 8]),
        ("%a = add %at, %n8\n%asked = and %a, -4", [4, 1]),
        ("%a = add %at, %n8\n%asked = and %a, 6", [2, 1]),
        // The part of the product that is one number in a row is a multiple; what is added to it stays below.
        ("%a = div %at, 16\n%b = mul %a, 128\n%c = rem %at, 16\n%asked = add %b, %c", [1, 16]),
    ] {
        assert_eq!(row(op), want, "{op}");
    }
}

#[test]
fn masks_of_rows() {
    let equal = |op: &str| row(op)[0];
    for (op, want) in [
        ("%asked = cmp lt %at, %n8", 8),
        ("%asked = cmp ge %at, %n8", 8),
        ("%asked = cmp gt %n8, %at", 8),
        ("%asked = cmp ult %at, %n8", 8),
        ("%a = sub %n8, 1\n%asked = cmp le %at, %a", 8),
        ("%a = sub %n8, 1\n%asked = cmp lt %a, %at", 8),
        ("%asked = cmp lt %at, 40", 8),
        ("%asked = cmp le %at, 39", 8),
        ("%asked = cmp lt %at, 64", ALL),
        ("%asked = cmp lt %at, %first", 16),
        ("%a = add %at, %first\n%asked = cmp lt %a, %n8", 8),
        ("%a = add %at, %first\n%b = add %at, %n8\n%asked = cmp lt %a, %b", 8),
        ("%a = add %at, %first\n%asked = cmp eq %a, %at", 16),
        ("%a = cmp lt %at, %n8\n%b = cmp ge %at, %first\n%asked = and %a, %b", 8),
        ("%a = cmp lt %n, %n8\n%asked = not %a", ALL),
        // What varies along the row.
        ("%asked = cmp lt %at, %n", 1),
        ("%asked = cmp le %at, %n8", 1),
        ("%asked = cmp lt %at, 39", 1),
        ("%asked = cmp eq %at, %n8", 1),
        ("%asked = cmp ne %at, %n8", 1),
        ("%a = sub %n8, 2\n%asked = cmp le %at, %a", 1),
        ("%a = and %at, 1\n%asked = cmp eq %a, 0", 1),
        ("%a = cmp lt %at, %n8\n%b = cmp ge %at, %n\n%asked = and %a, %b", 1),
        // Nothing is known of where an unaligned run wraps, nor of one that begins anywhere.
        ("%a = add %at, 1\n%asked = cmp lt %a, %n8", 1),
        ("%a = add %at, %n\n%asked = cmp lt %a, %n8", 1),
        ("%a = add %at, %n\n%b = add %at, %first\n%asked = cmp lt %a, %b", 1),
        // Comparisons of floats: of equal ones only.
        ("%a = cast %at : tile<64xf32>\n%b = cast %n8 : tile<64xf32>\n%asked = cmp lt %a, %b", 1),
        ("%a = cast %n : tile<64xf32>\n%b = cast %n8 : tile<64xf32>\n%asked = cmp lt %a, %b", ALL),
    ] {
        assert_eq!(equal(op), want, "{op}");
    }
}

/// A block may be as long as the type has numbers, but the sign is not the same in all of it.
#[test]
fn narrow_integers_wrap() {
    let of = |op: &str| {
        let (equal, run) = blocks(&format!("%at = iota 0 : tile<256xi32>\n%b = cast %at : tile<256xi8>\n{op}"));
        [equal[0], run[0]]
    };
    assert_eq!(of("%asked = add %b, 0i8"), [1, 128]);
    assert_eq!(of("%asked = cmp lt %b, 0i8"), [128, 1]);
    assert_eq!(of("%asked = shr_s %b, 7i8"), [128, 1]);
    assert_eq!(of("%asked = div %b, 4i8"), [1, 1]);
    assert_eq!(of("%asked = div_u %b, 4i8"), [4, 1]);
    // The wide numbers go down once in the middle.
    assert_eq!(of("%asked = cast %b : tile<256xi64>"), [1, 128]);
    assert_eq!(of("%c = add %b, 4i8\n%asked = cast %c : tile<256xi64>"), [1, 4]);
    assert_eq!(of("%c = add %b, 1i8\n%asked = cast %c : tile<256xi64>"), [1, 1]);
    assert_eq!(of("%c = add %b, 64i8\n%asked = cmp ult %c, 64i8"), [64, 1]);
}

#[test]
fn dimensions_are_moved() {
    let tiles = "%r = iota 0 : tile<8x64xi32>\n%c = iota 1 : tile<8x64xi32>\n%n8 = mul v1, 8\n%end = splat %n8 : tile<8x64xi32>\n\
                 %m = cmp lt %c, %end\n%col = iota 0 : tile<8x1xi32>\n%line = iota 0 : tile<512xi32>\n";
    for (op, equal, run) in [
        ("%asked = add %r, 0", vec![1, ALL], vec![ALL, 1]),
        ("%asked = broadcast %col : tile<8x64xi32>", vec![1, ALL], vec![ALL, 1]),
        ("%asked = transpose %c, [1, 0]", vec![1, ALL], vec![ALL, 1]),
        ("%asked = reshape %m : tile<8x1x64xi1>", vec![ALL, ALL, 8], vec![1, 1, 1]),
        ("%asked = reshape %line : tile<8x64xi32>", vec![1, 1], vec![1, 64]),
        ("%asked = reshape %line : tile<64x8xi32>", vec![1, 1], vec![1, 8]),
        ("%asked = reshape %line : tile<512x1xi32>", vec![1, ALL], vec![ALL, 1]),
        ("%asked = reshape %m : tile<4x128xi1>", vec![1, 8], vec![1, 1]),
        ("%asked = reshape %m : tile<512xi1>", vec![8], vec![1]),
        ("%asked = reshape %r : tile<512xi32>", vec![64], vec![1]),
        ("%asked = slice %m, [0, 8] : tile<8x32xi1>", vec![ALL, 8], vec![1, 1]),
        ("%asked = slice %m, [0, 4] : tile<8x32xi1>", vec![ALL, 4], vec![1, 1]),
        ("%asked = slice %m, [0, 3] : tile<8x32xi1>", vec![ALL, 1], vec![1, 1]),
        ("%asked = slice %c, [0, 4] : tile<8x32xi32>", vec![ALL, 1], vec![1, 4]),
        ("%asked = concat %c, %c, axis 1", vec![ALL, 1], vec![1, 64]),
        ("%a = slice %m, [0, 0] : tile<8x4xi1>\n%asked = concat %a, %m, axis 1", vec![ALL, 4], vec![1, 1]),
        ("%asked = flip %m, axis 1", vec![ALL, 8], vec![1, 1]),
        ("%asked = flip %c, axis 1", vec![ALL, 1], vec![1, 1]),
        ("%asked = reduce add %r, axis 0", vec![ALL], vec![1]),
        ("%asked = reduce add %c, axis 0", vec![1], vec![1]),
        ("%asked = scan add %r, axis 0", vec![1, ALL], vec![1, 1]),
        ("%asked = scan add %r, axis 1", vec![1, 1], vec![1, 1]),
        ("%asked = join %m, %m", vec![ALL, 8, 1], vec![1, 1, 1]),
        ("%asked = load v0[0, 0] : tile<8x1xi32>", vec![1, ALL], vec![1, 1]),
    ] {
        let (have_equal, have_run) = blocks(&format!("{tiles}{op}"));
        assert_eq!(have_equal, equal, "{op}");
        for (d, (&have, &want)) in have_run.iter().zip(&run).enumerate() {
            assert!(have == want || have_equal[d] == ALL && have > want, "{op}: runs {have_run:?}, not {run:?}");
        }
    }
}

#[test]
fn loops_keep_what_every_iteration_keeps() {
    let carried = |next: &str| {
        let text = format!(
            "%at = iota 0 : tile<64xi32>
             %four = splat 4 : tile<64xi32>
             %n = splat v1 : tile<64xi32>
             %last = for %k in 16..v1 step 8 carry %c = %at {{
                 %asked = add %c, 0
                 {next}
                 yield %next
             }}"
        );
        let (equal, run) = blocks(&text);
        [equal[0], run[0]]
    };
    assert_eq!(carried("%next = add %c, %four"), [1, 4]);
    assert_eq!(carried("%by = splat %k : tile<64xi32>\n%next = add %c, %by"), [1, 8]);
    assert_eq!(carried("%next = add %c, %n"), [1, 1]);
    assert_eq!(carried("%next = add %n, %n"), [1, 1]);
    // It becomes negative some day.
    assert_eq!(carried("%next = add %c, 64\n%q = div %c, 8\n%more = add %q, 0"), [1, 64]);
    let (equal, _) = blocks(
        "%at = iota 0 : tile<64xi32>
         %last = for %k in 16..v1 step 8 carry %c = %at {
             %asked = div %c, 8
             %next = add %c, 64
             yield %next
         }",
    );
    assert_eq!(equal, [1]);
    // An index that begins at 3 and goes on by 8 is a multiple of 8, plus 3.
    let (equal, _) = blocks(
        "%at = iota 0 : tile<64xi32>
         for %k in 3..v1 step 8 {
             %end = add %k, 5
             %t = splat %end : tile<64xi32>
             %asked = cmp lt %at, %t
         }",
    );
    assert_eq!(equal, [8]);
    let (equal, _) = blocks(
        "%at = iota 0 : tile<64xi32>
         for %k in 3..v1 step 8 {
             %t = splat %k : tile<64xi32>
             %asked = cmp lt %at, %t
         }",
    );
    assert_eq!(equal, [1]);
}

#[test]
fn choices_keep_what_both_arms_keep() {
    let chosen = |one: &str, other: &str| {
        let text = format!(
            "%at = iota 0 : tile<64xi32>
             %n8 = mul v1, 8
             %b = splat %n8 : tile<64xi32>
             %c = cmp lt v1, 7
             %asked = if %c {{
                 %one = {one}
                 yield %one
             }} else {{
                 %other = {other}
                 yield %other
             }}"
        );
        let (equal, run) = blocks(&text);
        [equal[0], run[0]]
    };
    assert_eq!(chosen("add %at, %b", "add %at, 4"), [1, 4]);
    assert_eq!(chosen("add %at, %b", "add %b, 4"), [1, 1]);
    assert_eq!(chosen("add %b, 1", "add %b, 4"), [ALL, 1]);
}

#[test]
fn long_chains_end() {
    let chain: String = (0..2000).map(|n| format!("%a{} = add %a{n}, 64\n", n + 1)).collect();
    let (equal, run) = blocks(&format!("%a0 = iota 0 : tile<64xi32>\n{chain}%asked = add %a2000, 0"));
    assert_eq!((equal, run), (vec![1], vec![1]), "there is an end to it, behind which nothing is known");
}
