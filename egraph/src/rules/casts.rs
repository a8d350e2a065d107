//! Conversions: chains that lose nothing become one.

use super::Types;
use super::rule::{Class, Phase, Roots, Rule};
use crate::graph::Read;
use crate::term::Term;
use tilelift_ir::{Op, Scalar, num};

/// True if casting `a` to `b` and then to `c` is casting `a` to `c`.
fn chains(a: Scalar, b: Scalar, c: Scalar) -> bool {
    let whole = |s: Scalar| s.is_int();
    if num::embeds(a, b) {
        // The middle has the same number; only an integer that passes through a float saturates where it would have wrapped.
        return a.is_float() || !b.is_float() || c.is_float() || c == Scalar::I1 || c.bits() >= a.bits();
    }
    // Low bits of low bits.
    whole(a) && whole(b) && whole(c) && c.bits() <= b.bits()
}

fn wider(t: Scalar, u: Scalar) -> bool {
    t != u && t != Scalar::I1 && num::embeds(t, u)
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "cast-same",
        class: Class::Exact,
        says: "cast and bitcast to the type that the operand has are the operand",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Cast, Op::Bitcast]),
        apply: |g, _, n| (g.ty(n.kids[0]) == g.node_ty(n)).then(|| n.kids[0].into()),
        over: Types::Pairs(|t, u| t == u && t != Scalar::I1),
        fires: "v20 = cast a : A\nv21 = bitcast v20 : A",
        keeps: "v20 = cast a : tile<8x16xi1>",
    },
    Rule {
        name: "cast-cast",
        class: Class::Exact,
        says: "cast (cast x : B) : C = cast x : C, where the first loses nothing, or both only cut bits off",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Cast]),
        apply: |g, _, n| {
            let m = g.get(n.kids[0], Op::Cast)?;
            let (a, b, c) = (g.ty(m.kids[0]).elem(), g.node_ty(m).elem(), g.node_ty(n).elem());
            (a != b && chains(a, b, c)).then(|| Term::with(Op::Cast, &[], Some(g.node_ty(n).clone()), [m.kids[0].into()]))
        },
        over: Types::Pairs(wider),
        fires: "v20 = cast a : B\nv21 = cast v20 : tile<8x16xf32>\nv22 = cast v20 : A\nv23 = cast v22 : tile<8x16xf32>\nv24 = add v21, v23",
        keeps: "v20 = cast a : tile<8x16xi1>\nv21 = cast v20 : A",
    },
    Rule {
        name: "bitcast-bitcast",
        class: Class::Exact,
        says: "bitcast (bitcast x : B) : C = bitcast x : C, where B is an integer, or x is one",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Bitcast]),
        apply: |g, _, n| {
            let m = g.get(n.kids[0], Op::Bitcast)?;
            // A NaN in the middle would come out as the default one.
            (!g.node_ty(m).elem().is_float()).then(|| Term::with(Op::Bitcast, &[], Some(g.node_ty(n).clone()), [m.kids[0].into()]))
        },
        over: Types::Pairs(|t, u| t.bits() == u.bits() && t.is_float() && u.is_int()),
        fires: "v20 = bitcast a : B\nv21 = bitcast v20 : A",
        keeps: "v20 = bitcast a : B\nv21 = cast v20 : A",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_interp as interp;
    use tilelift_ir::{Attr, Literal};

    /// Every value of every narrow type through every middle to every end, as the interpreter casts.
    #[test]
    fn chains_hold_for_every_value() {
        let cast = |x: Literal, from: Scalar, to: Scalar| {
            let none: &[Attr] = &[];
            interp::fold(Op::Cast, none, &[(x, from)], to).expect("a cast folds")
        };
        for &a in Scalar::ALL.iter().filter(|s| s.bits() <= 8) {
            for &b in Scalar::ALL {
                for &c in Scalar::ALL.iter().filter(|&&c| chains(a, b, c)) {
                    for code in 0..1u64 << a.bits() {
                        let x = if a.is_float() {
                            Literal::Float(num::from_bits(code, a).to_bits())
                        } else {
                            Literal::Int(num::wrap(code as i64, a))
                        };
                        assert_eq!(cast(cast(x, a, b), b, c), cast(x, a, c), "{a} {b} {c} {code}");
                    }
                }
            }
        }
    }
}
