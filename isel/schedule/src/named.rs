//! Values and instructions of a kernel as its author knows them: what reasons hold, so that they are told without the kernel.
//!
//! What is planned may be rewritten, and then its values have numbers of their own; what is left of the text is the names of values and where
//! instructions stood in it. A kernel that has no places is known by its numbers.

use std::fmt;
use tilelift_ir::{Inst, Kernel, Loc, Op, Value, ValueDef};

/// A value, and what its author calls it: `%acc`, `v3`, ``the `load` of v0 at 3:5``, ``what `for` at 4:5 carries``.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The value in the kernel that was planned.
    pub value: Value,
    known: Known,
}

/// How a value is known.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Known {
    /// By its number.
    Number,
    /// By the author's name for it.
    Name(Box<str>),
    /// As what a load brings.
    Loaded(Box<Made>),
    /// As the result of an instruction.
    Result(Box<Made>),
    /// As what a loop carries.
    Carried(Box<Made>),
}

impl Named {
    /// A value as the author of the kernel knows it.
    pub fn of(kernel: &Kernel, value: Value) -> Named {
        let has_places = kernel.insts.keys().any(|i| kernel.locs[i].is_known());
        let known = match (has_places, &kernel.names[value], kernel.values[value].def) {
            (false, ..) => Known::Number,
            (true, Some(name), _) => Known::Name(name.clone()),
            (true, None, ValueDef::KernelParam(_)) => Known::Number,
            (true, None, ValueDef::Result(i, _)) => {
                let made = Box::new(Made::of(kernel, i));
                if made.op == Op::Load { Known::Loaded(made) } else { Known::Result(made) }
            }
            (true, None, ValueDef::RegionParam(r, _)) => match kernel.insts.iter().find(|(_, d)| d.regions.contains(&r)) {
                Some((i, _)) => Known::Carried(Box::new(Made::of(kernel, i))),
                None => Known::Number,
            },
        };
        Named { value, known }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.known {
            Known::Number => self.value.fmt(f),
            Known::Name(name) => write!(f, "%{name}"),
            Known::Loaded(made) => write!(f, "the {made}"),
            Known::Result(made) => write!(f, "the result of {made}"),
            Known::Carried(made) => write!(f, "what {made} carries"),
        }
    }
}

/// An instruction and its place: `` `exp` at 7:9``; of a load also the view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Its op, or what the author wrote where a rewrite has put that.
    pub op: Op,
    /// The view, of a load.
    pub view: Option<Named>,
    /// Where it stands.
    pub loc: Loc,
}

impl Made {
    /// An instruction as the author of the kernel knows it.
    pub fn of(kernel: &Kernel, i: Inst) -> Made {
        let d = &kernel.insts[i];
        let view = d.args.first().filter(|_| d.op == Op::Load).map(|&v| Named::of(kernel, v));
        Made { op: kernel.written_as[i].unwrap_or(d.op), view, loc: kernel.locs[i] }
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.op)?;
        if let Some(view) = &self.view {
            write!(f, " of {view}")?;
        }
        if self.loc.is_known() {
            write!(f, " at {}", self.loc)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Named;
    use tilelift_ir::{Kernel, Op, Value};

    const TEXT: &str = "kernel @k(v0: view<f32, [64]>, v1: i32) {
    v7 = splat 1.0 : tile<64xf32>
    %row = load v0[v1] : tile<64xf32>
    v8 = load v0[v1] : tile<64xf32>
    v9 = for v10 in 0..v1 step 1 carry v11 = v8 {
        v12 = add v11, v7
        yield v12
    }
    v13 = add v9, %row
    store v0[0], v13
}";

    #[test]
    fn values_are_known_by_names_and_places() {
        let mut kernel: Kernel = tilelift_ir::text::parse(TEXT).unwrap().kernels.remove(0);
        let all =
            |op: Op| kernel.insts.keys().filter(|&i| kernel.insts[i].op == op).map(|i| kernel.insts[i].results[0]).collect::<Vec<_>>();
        let carried = kernel.regions[kernel.insts[kernel.def_inst(all(Op::For)[0]).unwrap()].regions[0]].params[1];
        let values = [kernel.params[0], all(Op::Splat)[0], all(Op::Load)[0], all(Op::Load)[1], carried];
        let told = |k: &Kernel| values.map(|v: Value| Named::of(k, v).to_string());
        let places = ["v0", "the result of `splat` at 2:5", "%row", "the `load` of v0 at 4:5", "what `for` at 5:5 carries"];
        assert_eq!(told(&kernel), places.map(String::from));
        kernel.locs.clear();
        assert_eq!(told(&kernel), values.map(|v| v.to_string()), "a kernel without places is known by its numbers");
    }
}
