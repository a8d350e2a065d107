//! Values of a kernel as its author knows them. What is planned may be rewritten, and then its values have numbers of their own; what is left of
//! the text is where instructions stood in it.

use super::is_view;
use super::loads::keeps_extents;
use tilelift_ir::{Inst, Kernel, Op, Value, ValueDef};

/// A sentence about values, with their makers and places instead of their numbers; parameters keep theirs, and so do the values of a
/// kernel that has no text.
pub(super) fn in_words(kernel: &Kernel, why: &str) -> String {
    let has_places = kernel.insts.keys().any(|i| kernel.locs[i].is_known());
    if !has_places {
        return why.to_owned();
    }
    let mut out = String::with_capacity(why.len());
    let mut rest = why;
    while let Some(at) = rest.find('v') {
        let (front, name) = rest.split_at(at);
        let digits = name[1..].bytes().take_while(u8::is_ascii_digit).count();
        let inside = out.chars().chain(front.chars()).next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let number = (digits > 0 && !inside).then(|| name[1..=digits].parse::<u32>().ok()).flatten();
        out.push_str(front);
        match number.and_then(|n| described(kernel, n)) {
            Some(words) => out.push_str(&words),
            None => out.push_str(&name[..=digits]),
        }
        rest = &name[1 + digits..];
    }
    out + rest
}

/// Why a load in a loop is not one that fills a ring.
pub(super) fn beside_products(kernel: &Kernel, load: Inst) -> String {
    let v = kernel.insts[load].results[0];
    if kernel.insts[load].present != 0 {
        return format!("{v} has a mask, or says what stands outside of the view");
    }
    if kernel.ty(v).elem().is_packed() {
        return format!("elements of {v} share bytes");
    }
    let mut seen = vec![v];
    let mut users = Vec::new();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let Some(n) = d.args.iter().position(|a| seen.contains(a)) else { return };
        let same = matches!(d.op, Op::Transpose) || d.op == Op::Reshape && keeps_extents(kernel, i) || is_view(kernel, i);
        match d.op {
            _ if same => seen.extend_from_slice(&d.results),
            Op::Dot if n < 2 && kernel.ty(d.args[n]).shape().is_some_and(|s| s.len() == 2) => {}
            _ => users.push(i),
        }
    });
    match users.first() {
        Some(&i) => {
            let remedy = match kernel.insts[i].op {
                Op::ReleaseLayout => "; what waits in panels is not held, and needs no release",
                _ => "",
            };
            format!("{v} is not for products alone: {} takes what it brings{remedy}", made(kernel, i))
        }
        None => format!("nobody multiplies what {v} brings"),
    }
}

/// An instruction and its place.
fn made(kernel: &Kernel, i: Inst) -> String {
    let d = &kernel.insts[i];
    let of = match d.op {
        Op::Load => d.args.first().map_or_else(String::new, |v| format!(" of {v}")),
        _ => String::new(),
    };
    let loc = kernel.locs[i];
    let at = if loc.is_known() { format!(" at {loc}") } else { String::new() };
    format!("`{}`{of}{at}", d.op)
}

fn described(kernel: &Kernel, number: u32) -> Option<String> {
    let v = Value::from_u32(number);
    let def = kernel.values.get(v)?.def;
    if kernel.names[v].is_some() {
        return Some(kernel.value_text(v));
    }
    match def {
        ValueDef::KernelParam(_) => None,
        ValueDef::Result(i, _) if kernel.insts[i].op == Op::Load => Some(format!("the {}", made(kernel, i))),
        ValueDef::Result(i, _) => Some(format!("the result of {}", made(kernel, i))),
        ValueDef::RegionParam(r, _) => Some(format!("what {} carries", made(kernel, kernel.holder(r)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;
    use tilelift_ir::Op;

    #[test]
    fn numbers_become_places() {
        let text = "kernel @k(v0: view<f32, [64]>, v1: i32) {
    v7 = splat 1.0 : tile<64xf32>
    v8 = load v0[v1] : tile<64xf32>
    v9 = for v10 in 0..v1 step 1 carry v11 = v8 {
        v12 = add v11, v7
        yield v12
    }
    store v0[0], v9
}";
        let file = tilelift_ir::text::parse(text).unwrap();
        let mut kernel = file.kernels.into_iter().next().unwrap();
        let of = |op: Op| kernel.insts.keys().find(|&i| kernel.insts[i].op == op).unwrap();
        let made = |op| kernel.insts[of(op)].results[0];
        let carried = kernel.regions[kernel.insts[of(Op::For)].regions[0]].params[1];
        let why = format!("{} of v0, {}, {carried} and a value v999, vast3 xv3 v", made(Op::Splat), made(Op::Load));
        let want = "the result of `splat` at 2:5 of v0, the `load` of v0 at 3:5, what `for` at 4:5 carries and a value v999, vast3 xv3 v";
        assert_eq!(in_words(&kernel, &why), want);
        kernel.locs.clear();
        assert_eq!(in_words(&kernel, &why), why);
    }
}
