//! Tiles of numbers that a loop carries and adds one number to in each round, as what they begin with and a number that the loop carries.
//!
//! ```text
//! for … carry t = first {                        for … carry n = 0 {
//!     … t …                                          t = first + splat n
//!     u = t + splat s                     ─►          … t …
//!     yield u                                        yield n + s
//! }                                              }
//! ```
//!
//! So authors who think in pointers advance those of a tile. Where such a tile says what is loaded, whoever copies ahead has to compute it by itself: with a number
//! that is carried it does. Sums of integers wrap, so both are the same. The rewrite is from tile IR to tile IR.

use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Inst, Kernel, Literal, Op, Region, Type, Value};

/// A tile that a loop carries so.
struct Offset {
    /// The number of the carried value.
    at: usize,
    /// Adds or takes away.
    op: Op,
    /// What is added in a round.
    by: Value,
}

/// The kernel whose loops carry numbers instead of such tiles; `None` if none does.
pub fn offsets(kernel: &Kernel) -> Option<Kernel> {
    if kernel.is_explicit() {
        return None;
    }
    let mut made: Option<Kernel> = None;
    let mut tiles = 0;
    for (region, data) in kernel.regions.iter() {
        for &main in data.insts.iter().filter(|&&i| kernel.insts[i].op == Op::For) {
            for offset in carried(kernel, main) {
                tiles += 1;
                as_number(made.get_or_insert_with(|| kernel.clone()), (region, main), &offset);
            }
        }
    }
    if made.is_some() {
        taken(Decision::Offsets, || Told::of(format!("{tiles} carried tiles are numbers")));
    }
    made
}

/// Those of a loop.
fn carried(kernel: &Kernel, main: Inst) -> Vec<Offset> {
    let Some(&body) = kernel.insts[main].regions.first() else { return Vec::new() };
    let next = kernel.yields(body);
    let params = kernel.regions[body].params.iter().skip(1).enumerate();
    let of = |(at, &p): (usize, &Value)| {
        let whole = kernel.ty(p).as_tile().is_some_and(|t| t.elem.is_int());
        let d = &kernel.insts[kernel.def_inst(*next.get(at)?).filter(|_| whole)?];
        let by = match (d.op, &d.args[..]) {
            (Op::Add | Op::Sub, &[a, b]) if a == p => b,
            (Op::Add, &[a, b]) if b == p => a,
            _ => return None,
        };
        let splat = &kernel.insts[kernel.def_inst(by)?];
        (splat.op == Op::Splat).then(|| Offset { at, op: d.op, by: splat.args[0] })
    };
    params.filter_map(of).collect()
}

/// Has a loop carry a number instead of a tile.
fn as_number(kernel: &mut Kernel, (region, main): (Region, Inst), offset: &Offset) {
    let Some(&body) = kernel.insts[main].regions.first() else { return };
    let (first, result) = (kernel.insts[main].args[3 + offset.at], kernel.insts[main].results[offset.at]);
    let param = kernel.regions[body].params[1 + offset.at];
    let Some(end) = kernel.terminator(body) else { return };
    let ty = kernel.ty(param).clone();
    let scalar = Type::Scalar(ty.elem());
    // What is carried.
    let zero = kernel.add_inst(Op::Const, &[], 0, &[Attr::Literal(Literal::Int(0))], &[], std::slice::from_ref(&scalar));
    put(kernel, region, main, zero, false);
    kernel.insts[main].args[3 + offset.at] = kernel.insts[zero].results[0];
    let next = kernel.add_inst(offset.op, &[param, offset.by], 0, &[], &[], std::slice::from_ref(&scalar));
    put(kernel, body, end, next, false);
    kernel.insts[end].args[offset.at] = kernel.insts[next].results[0];
    // What it stands for, in the loop and behind it.
    for (number, place) in [(param, None), (result, Some(main))] {
        let splat = kernel.add_inst(Op::Splat, &[], 0, &[], &[], std::slice::from_ref(&ty));
        let tile = kernel.add_inst(Op::Add, &[first, kernel.insts[splat].results[0]], 0, &[], &[], std::slice::from_ref(&ty));
        let stands = kernel.insts[tile].results[0];
        kernel
            .insts
            .iter_mut()
            .filter(|(i, _)| *i != next)
            .flat_map(|(_, d)| d.args.iter_mut())
            .filter(|a| **a == number)
            .for_each(|a| *a = stands);
        kernel.insts[splat].args.push(number);
        kernel.values[number].ty = scalar.clone();
        let (at, front) = match place {
            Some(main) => (region, main),
            None => (body, kernel.regions[body].insts[0]),
        };
        for made in if place.is_some() { [tile, splat] } else { [splat, tile] } {
            put(kernel, at, front, made, place.is_some());
        }
    }
}

/// Puts an instruction in front of another one, or behind it, at its place in the source.
fn put(kernel: &mut Kernel, region: Region, beside: Inst, made: Inst, behind: bool) {
    kernel.locs[made] = kernel.locs[beside];
    let insts = &mut kernel.regions[region].insts;
    let at = insts.iter().position(|&j| j == beside).map_or(0, |at| at + usize::from(behind));
    insts.insert(at, made);
}

#[cfg(test)]
mod tests {
    use super::offsets;
    use tilelift_ir::verify::verify;
    use tilelift_ir::{Op, text};

    /// The types that the loop of a kernel carries once its offsets are numbers.
    fn carried(next: &str) -> Option<Vec<String>> {
        let body = format!(
            "%first = iota 0 : tile<8xi32>
             %z = splat 1 : tile<8xi32>
             %end = for %i in 0..%n step 1 carry %t = %first {{
                 %x = gather %v[%t]
                 %more = add %i, %n
                 %s = splat %more : tile<8xi32>
                 {next}
                 yield %u
             }}
             %w = gather %v[%end]
             store %v[0], %w"
        );
        let file = text::parse(&format!("kernel @k(%v: view<f32, [?]>, %n: i32) {{\n{body}\n}}")).unwrap_or_else(|e| panic!("{e}\n{body}"));
        let made = offsets(&file.kernels[0])?;
        assert!(verify(&made).is_ok(), "{}", text::print(&made));
        let main = made.insts.keys().find(|&i| made.insts[i].op == Op::For).expect("a loop");
        Some(made.insts[main].results.iter().map(|&v| made.ty(v).to_string()).collect())
    }

    #[test]
    fn sums_with_one_number_are_carried_as_numbers() {
        for next in ["%u = add %t, %s", "%u = add %s, %t", "%u = sub %t, %s", "%u = add %t, 8"] {
            assert_eq!(carried(next), Some(vec!["i32".to_owned()]), "{next}");
        }
        for next in ["%u = sub %s, %t", "%u = mul %t, %s", "%u = add %t, %z\n%a = add %z, 1", "%u = add %t, %t", "%u = add %t, %first"] {
            let splat = next.contains("%z");
            assert_eq!(carried(next).is_some(), splat, "{next}");
        }
    }
}
