//! What of a graph is wrong.

use std::fmt;
use tilelift_ir::VerifyErrors;

/// Why a graph refuses a node, or can't be launched.
#[derive(Clone, PartialEq, Debug)]
pub enum GraphError {
    /// The kernel breaks rules of the IR.
    Verify {
        /// The node.
        node: String,
        /// The rules.
        errors: VerifyErrors,
    },
    /// Number of arguments.
    Count {
        /// The node.
        node: String,
        /// Parameters of its kernel.
        want: usize,
        /// Arguments given.
        got: usize,
    },
    /// A tensor of another graph.
    UnknownTensor {
        /// The node.
        node: String,
        /// The parameter.
        param: usize,
    },
    /// A scalar of another graph.
    UnknownScalar {
        /// The node.
        node: String,
        /// The parameter.
        param: usize,
    },
    /// An extent of another graph.
    UnknownSize {
        /// Where it stands.
        place: String,
    },
    /// A tensor where a number belongs, a number where a tensor belongs, or a number of another type.
    Kind {
        /// The node.
        node: String,
        /// The parameter.
        param: usize,
        /// Its type.
        want: String,
        /// What was given.
        got: String,
    },
    /// A tensor that does not keep what a parameter's type promises.
    Promise {
        /// The node.
        node: String,
        /// The parameter.
        param: usize,
        /// The tensor.
        tensor: String,
        /// What it does not keep.
        what: String,
    },
    /// A tensor that a node writes stands behind two of its parameters.
    TwoViews {
        /// The node.
        node: String,
        /// The tensor.
        tensor: String,
    },
    /// A node writes what belongs to the caller.
    WritesInput {
        /// The node.
        node: String,
        /// The tensor.
        tensor: String,
    },
    /// A node reads what neither the caller nor a node before it wrote.
    ReadBeforeWrite {
        /// The node.
        node: String,
        /// The tensor.
        tensor: String,
    },
    /// The values given for symbols or scalars are too few, of another type, or do not have the stated divisor.
    Value {
        /// The name of the symbol or scalar.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A tensor or grid is too large.
    TooLarge {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphError::Verify { node, errors } => write!(f, "the kernel of `{node}` is not well formed: {errors}"),
            GraphError::Count { node, want, got } => write!(f, "`{node}` has {got} arguments, its kernel {want} parameters"),
            GraphError::UnknownTensor { node, param } => {
                write!(f, "argument {param} of `{node}` is a tensor that this graph does not have")
            }
            GraphError::UnknownScalar { node, param } => {
                write!(f, "argument {param} of `{node}` is a scalar that this graph does not have")
            }
            GraphError::UnknownSize { place } => write!(f, "{place} has an extent that this graph does not have"),
            GraphError::Kind { node, param, want, got } => write!(f, "argument {param} of `{node}` is {got}, the parameter is {want}"),
            GraphError::Promise { node, param, tensor, what } => write!(f, "argument {param} of `{node}`, tensor `{tensor}`: {what}"),
            GraphError::TwoViews { node, tensor } => {
                write!(f, "`{node}` writes `{tensor}`, which stands behind two of its parameters; pass it as one")
            }
            GraphError::WritesInput { node, tensor } => write!(f, "`{node}` writes `{tensor}`, an input; make it an in-out tensor"),
            GraphError::ReadBeforeWrite { node, tensor } => write!(f, "`{node}` reads `{tensor}`, which nothing has written yet"),
            GraphError::Value { name, what } => write!(f, "`{name}`: {what}"),
            GraphError::TooLarge { name } => write!(f, "`{name}` has more elements than a launch takes"),
        }
    }
}

impl std::error::Error for GraphError {}
