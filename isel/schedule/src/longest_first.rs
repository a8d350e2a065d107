//! The order of grid positions, where positions take different times: the longest ones first, so that none is left when the others are done.
//!
//! ```text
//! launch order     x fastest, then y, then z
//! trip count       end - begin of the loops that take the time, followed through sums, products with constants, minima and maxima
//! rises along x    position x is what the author calls last - x: the hardware begins with the longest
//! side by side     of as many as 16 positions along y the longest ones come first, then the next ones; then the next 16 positions
//! ```
//!
//! A program can't see in which order its instances run. Without `side by side` the longest ones of the last position along y would begin when most is
//! done. Those 16 are few enough that what each of them reads again stays in the cache.

use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, GridAxis, Inst, Kernel, Literal, Op, Type, Value};

/// All axes of a launch grid.
const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// Definitions that are looked at for one bound.
const FEW: u32 = 64;

/// Positions along y that are taken side by side: of 1, 3, 11, 33 heads of an attention 11 were the fastest.
pub(crate) const BESIDE: u32 = 16;

/// The order in which positions of the grid are taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LaunchOrder {
    /// Axes along which positions are taken from the last one on.
    pub backwards: Vec<GridAxis>,
    /// [`BESIDE`] positions along y are taken side by side.
    pub beside: bool,
}

impl LaunchOrder {
    /// The longest ones first.
    pub fn of(kernel: &Kernel, loops: &[Inst]) -> LaunchOrder {
        let backwards = rising_axes(kernel, loops);
        let mut asks = [false; 3];
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            for (axis, asks) in AXES.iter().zip(&mut asks) {
                *asks |= d.op == Op::ProgramId && d.attrs.first() == Some(&Attr::Grid(*axis));
            }
        });
        let beside = backwards == [GridAxis::X] && asks[1];
        taken(Decision::ProgramOrder, || {
            let side = if beside { format!(", {BESIDE} along y side by side") } else { String::new() };
            Told::of(if backwards.is_empty() { "as launched".to_owned() } else { format!("the longest first along {backwards:?}{side}") })
        });
        LaunchOrder { beside, backwards }
    }
}

/// What a scalar does along an axis of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trend {
    Flat,
    Rises,
    Falls,
}

impl Trend {
    fn flipped(self) -> Trend {
        match self {
            Trend::Flat => Trend::Flat,
            Trend::Rises => Trend::Falls,
            Trend::Falls => Trend::Rises,
        }
    }

    /// Of a sum, a minimum, a maximum; `None` if one rises and the other falls.
    fn with(self, other: Trend) -> Option<Trend> {
        match (self, other) {
            (Trend::Flat, t) | (t, Trend::Flat) => Some(t),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// The axes along which the loops of a kernel run longer and longer: some do, and none shorter and shorter.
fn rising_axes(kernel: &Kernel, loops: &[Inst]) -> Vec<GridAxis> {
    if kernel.cluster != 1 {
        return Vec::new();
    }
    AXES.into_iter().filter(|&axis| rises(kernel, loops, axis)).collect()
}

fn rises(kernel: &Kernel, loops: &[Inst], axis: GridAxis) -> bool {
    let trips = |i: &Inst| {
        let d = &kernel.insts[*i];
        let mut left = FEW;
        let [begin, end, step] = [0, 1, 2].map(|n| d.args.get(n).and_then(|&v| trend(kernel, v, axis, &mut left)));
        if step? == Trend::Flat { end?.with(begin?.flipped()) } else { None }
    };
    let all: Option<Vec<Trend>> = loops.iter().filter(|&&i| kernel.insts[i].op == Op::For).map(trips).collect();
    all.is_some_and(|all| all.contains(&Trend::Rises) && !all.contains(&Trend::Falls))
}

/// What a scalar does as the position along an axis grows; `None` if that is not known.
fn trend(kernel: &Kernel, v: Value, axis: GridAxis, left: &mut u32) -> Option<Trend> {
    *left = left.checked_sub(1)?;
    if !matches!(kernel.ty(v), Type::Scalar(s) if !s.is_float()) {
        return None;
    }
    let Some(i) = kernel.def_inst(v) else {
        return kernel.params.contains(&v).then_some(Trend::Flat);
    };
    let d = &kernel.insts[i];
    let constant = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(n), _)) => Some(n),
        _ => None,
    };
    let mut of = |n: usize| d.args.get(n).and_then(|&v| trend(kernel, v, axis, left));
    match d.op {
        Op::Const | Op::Dim | Op::NumPrograms => Some(Trend::Flat),
        Op::ProgramId => Some(if d.attrs.first() == Some(&Attr::Grid(axis)) { Trend::Rises } else { Trend::Flat }),
        Op::Add | Op::Minimum | Op::Maximum => of(0)?.with(of(1)?),
        Op::Sub => of(0)?.with(of(1)?.flipped()),
        Op::Neg => Some(of(0)?.flipped()),
        Op::Mul | Op::Div => {
            let (factor, other) = match (constant(d.args[0]), constant(d.args[1])) {
                (Some(n), _) if d.op == Op::Mul => (n, 1),
                (_, Some(n)) => (n, 0),
                _ => return [of(0)?, of(1)?].iter().all(|t| *t == Trend::Flat).then_some(Trend::Flat),
            };
            let t = of(other)?;
            Some(if factor < 0 { t.flipped() } else { t })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{LaunchOrder, rising_axes};
    use tilelift_ir::{GridAxis, Op, text};

    fn of(bounds: &str) -> Vec<GridAxis> {
        let text = format!(
            "kernel @k(v0: view<i32, [?]>, v1: i32) {{
                v2 = program_id x
                v3 = program_id y
                v4 = mul v2, 128
                v5 = dim v0, 0
                v6 = add v4, 128
                v7 = minimum v6, v5
                v8 = load v0[v2] : i32
                v9 = mul v2, v1
                v10 = sub v5, v4
                for v20 in {bounds} {{
                    v21 = splat 1 : tile<1xi32>
                    store v0[v20], v21
                }}
            }}"
        );
        let file = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let k = &file.kernels[0];
        let loops: Vec<_> = k.regions[k.body].insts.iter().copied().filter(|&i| k.insts[i].op == Op::For).collect();
        rising_axes(k, &loops)
    }

    #[test]
    fn bounds_are_followed() {
        let x = vec![GridAxis::X];
        assert_eq!(of("0..v7 step 64"), x);
        assert_eq!(of("v10..v5 step 64"), x);
        assert_eq!(of("0..v3 step 1"), vec![GridAxis::Y]);
    }

    #[test]
    fn positions_along_y_are_taken_side_by_side_where_x_alone_rises() {
        let order = |position: &str, end: &str| {
            let text = format!(
                "kernel @k(v0: view<i32, [?]>) {{
                    v1 = program_id x
                    v2 = {position}
                    for v3 in 0..{end} step 1 {{
                        v4 = splat 1 : tile<1xi32>
                        store v0[v2], v4
                    }}
                }}"
            );
            let file = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            let k = &file.kernels[0];
            let loops: Vec<_> = k.regions[k.body].insts.iter().copied().filter(|&i| k.insts[i].op == Op::For).collect();
            LaunchOrder::of(k, &loops)
        };
        let x = vec![GridAxis::X];
        assert_eq!(order("program_id y", "v1"), LaunchOrder { backwards: x.clone(), beside: true });
        assert_eq!(order("program_id z", "v1"), LaunchOrder { backwards: x, beside: false });
        assert_eq!(order("program_id y", "v2"), LaunchOrder { backwards: vec![GridAxis::Y], beside: false });
        assert_eq!(order("program_id y", "8"), LaunchOrder::default());
    }

    #[test]
    fn what_falls_or_is_not_known_stays() {
        for bounds in
            ["v4..v5 step 64", "0..v5 step 64", "0..v8 step 1", "0..v9 step 1", "v4..v6 step 64", "0..v10 step 1", "0..v7 step v2"]
        {
            assert_eq!(of(bounds), vec![], "{bounds}");
        }
    }
}
