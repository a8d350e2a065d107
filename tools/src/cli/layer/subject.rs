//! What the command looks at: operators, and the graph that is made of them.

use tilelift::graph::{Graph, GraphError, NodeArg, Role, TensorId};
use tilelift_interp::ScalarArg;
use tilelift_ir::Scalar;
use tilelift_kernels::plain::{Operators, Passed};
use tilelift_kernels::tensor;

/// Operators with a name and sizes for people.
pub(super) struct Subject {
    pub title: String,
    pub operators: Operators,
    /// The same at a size at which an interpreter looks at results, if it is another one.
    pub small: Option<Operators>,
}

impl Subject {
    /// Two as one.
    pub fn and(self, other: Subject) -> Subject {
        let small = self.small.zip(other.small).map(|(a, b)| a.and(b));
        Subject { title: format!("{} + {}", self.title, other.title), operators: self.operators.and(other.operators), small }
    }
}

/// The graph of operators; tensors have their numbers.
pub(super) fn graph(operators: &Operators) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let mut ids: Vec<TensorId> = Vec::new();
    for t in &operators.tensors {
        let role = match t.role {
            tensor::Role::In => Role::Input,
            tensor::Role::Out => Role::Output,
            tensor::Role::InOut => Role::InOut,
            tensor::Role::Scratch => Role::Intermediate,
        };
        ids.push(g.tensor(t.name, t.elem, &t.shape.iter().map(|&e| e.into()).collect::<Vec<_>>(), role));
    }
    for s in &operators.steps {
        let arg = |a: &Passed| -> NodeArg {
            match *a {
                Passed::Tensor(id) => ids[id.0].into(),
                Passed::Number(x) => ScalarArg::float(Scalar::F32, f64::from(x)).into(),
                Passed::Count(n) => ScalarArg::int(Scalar::I32, i64::from(n)).into(),
            }
        };
        g.add(s.name, s.kernel.clone(), s.grid, &s.args.iter().map(arg).collect::<Vec<_>>())?;
    }
    Ok(g)
}
