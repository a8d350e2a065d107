//! Running a graph: symbols and scalars get their values, every node becomes a launch, and a device runs them in order.

use super::error::GraphError;
use super::nodes::{Graph, Node, NodeArg};
use super::size::Size;
use smallvec::SmallVec;
use std::fmt;
use tilelift_interp::{self as interp, Arg, Buffer, InterpError, Memory, ScalarArg, ViewArg};
use tilelift_ir::Kernel;

/// Values for the symbols and scalars of a graph, in the order in which they were made.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bound {
    /// Values of the symbols.
    pub sizes: Vec<u32>,
    /// Values of the scalars.
    pub scalars: Vec<ScalarArg>,
}

/// A node with everything that a device needs. Buffer numbers of the arguments are tensor numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch<'g> {
    /// The node's name.
    pub name: &'g str,
    /// Its kernel.
    pub kernel: &'g Kernel,
    /// Its grid.
    pub grid: [u32; 3],
    /// Its arguments.
    pub args: Vec<Arg>,
}

/// Why a graph did not run to its end.
#[derive(Clone, PartialEq, Debug)]
pub enum RunError<E> {
    /// The graph can't be launched with these values.
    Graph(GraphError),
    /// A node failed.
    Node {
        /// Its name.
        node: String,
        /// Why.
        why: Box<E>,
    },
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Graph(e) => e.fmt(f),
            RunError::Node { node, why } => write!(f, "`{node}`: {why}"),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for RunError<E> {}

impl<E> From<GraphError> for RunError<E> {
    fn from(e: GraphError) -> RunError<E> {
        RunError::Graph(e)
    }
}

impl Graph {
    fn number(&self, size: &Size, bound: &Bound, name: &str) -> Result<u32, GraphError> {
        size.value(&bound.sizes).filter(|&n| n <= i32::MAX as u32).ok_or_else(|| GraphError::TooLarge { name: name.to_owned() })
    }

    /// Checks the values of symbols and scalars.
    fn check_bound(&self, bound: &Bound) -> Result<(), GraphError> {
        let wrong = |name: &str, what: String| Err(GraphError::Value { name: name.to_owned(), what });
        for (i, (name, divisor)) in self.symbols.iter().enumerate() {
            match bound.sizes.get(i) {
                None => return wrong(name, "no value is given".into()),
                Some(v) if !v.is_multiple_of(*divisor) => return wrong(name, format!("{v} is no multiple of {divisor}")),
                Some(_) => {}
            }
        }
        for (i, (name, elem)) in self.scalars.iter().enumerate() {
            match bound.scalars.get(i) {
                None => return wrong(name, "no value is given".into()),
                Some(v) if v.elem() != *elem => return wrong(name, format!("the value is {}, the scalar {elem}", v.elem())),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A buffer per tensor, in the order of their numbers; none of them is initialised.
    ///
    /// # Errors
    /// Values that are missing or wrong, or a tensor that is too large.
    pub fn memory(&self, bound: &Bound) -> Result<Memory, GraphError> {
        self.check_bound(bound)?;
        let mut memory = Memory::new();
        for t in &self.tensors {
            let mut last = 0u64;
            let mut empty = false;
            for (d, s) in t.dims.iter().zip(self.strides(t, false)) {
                let (d, s) = (self.number(d, bound, &t.name)?, self.number(&s, bound, &t.name)?);
                empty |= d == 0;
                last = last.saturating_add(u64::from(d).saturating_sub(1).saturating_mul(u64::from(s)));
            }
            let count = if empty { 0 } else { last.saturating_add(1) };
            let count = usize::try_from(count).ok().filter(|_| count <= 1 << 40);
            let count = count.ok_or_else(|| GraphError::TooLarge { name: t.name.clone() })?;
            memory.add(Buffer::uninit_elements(t.elem, count));
        }
        Ok(memory)
    }

    /// The launches of the nodes, in order.
    ///
    /// # Errors
    /// Values that are missing or wrong, or an extent that is too large.
    pub fn launches(&self, bound: &Bound) -> Result<Vec<Launch<'_>>, GraphError> {
        self.check_bound(bound)?;
        let launch = |node: &'_ Node| -> Result<([u32; 3], Vec<Arg>), GraphError> {
            let grid = node.grid.value(&bound.sizes).ok_or_else(|| GraphError::TooLarge { name: node.name.clone() })?;
            let arg = |a: &NodeArg| -> Result<Arg, GraphError> {
                let (id, flat) = match a {
                    NodeArg::Tensor(t) => (*t, false),
                    NodeArg::Flat(t) => (*t, true),
                    NodeArg::Scalar(s) => return Ok(Arg::Scalar(*s)),
                    NodeArg::Input(s) => return Ok(Arg::Scalar(bound.scalars[s.0 as usize])),
                };
                let t = &self.tensors[id.index()];
                let numbers = |sizes: Vec<Size>| -> Result<SmallVec<[i64; 4]>, GraphError> {
                    sizes.iter().map(|s| self.number(s, bound, &t.name).map(i64::from)).collect()
                };
                let (shape, strides) = (numbers(self.extents(t, flat))?, numbers(self.strides(t, flat))?);
                Ok(Arg::View(ViewArg { buffer: id.index(), offset_bytes: 0, elem: t.elem, shape, strides }))
            };
            Ok((grid, node.args.iter().map(arg).collect::<Result<_, _>>()?))
        };
        let made = |node| launch(node).map(|(grid, args)| Launch { name: &node.name, kernel: &node.kernel, grid, args });
        self.nodes.iter().map(made).collect()
    }

    /// Runs the nodes in order with a function that launches one.
    ///
    /// # Errors
    /// Values that are missing or wrong, or the first node that fails.
    pub fn run<E>(
        &self,
        bound: &Bound,
        memory: &mut Memory,
        mut device: impl FnMut(&Launch<'_>, &mut Memory) -> Result<(), E>,
    ) -> Result<(), RunError<E>> {
        for launch in self.launches(bound)? {
            device(&launch, memory).map_err(|why| RunError::Node { node: launch.name.to_owned(), why: Box::new(why) })?;
        }
        Ok(())
    }

    /// Runs the nodes in order on the interpreter, the definition of what they compute.
    ///
    /// # Errors
    /// Values that are missing or wrong, or the first node that fails.
    pub fn interpret(&self, bound: &Bound, memory: &mut Memory) -> Result<(), RunError<InterpError>> {
        self.run(bound, memory, |launch, memory| {
            // A graph holds verified kernels only.
            let kernel = tilelift_ir::verify(launch.kernel).unwrap_or_else(|e| panic!("a node of a graph is not verified: {e}"));
            interp::interpret(&kernel, launch.grid, &launch.args, memory, &interp::Options::default()).map(|_| ())
        })
    }
}
