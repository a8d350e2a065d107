//! A graph: tensors, and nodes that launch kernels over them.

use super::error::GraphError;
use super::size::{Count, Grid, Size, Symbol};
use std::collections::BTreeSet;
use tilelift_interp::ScalarArg;
use tilelift_ir::{Effects, Extent, Kernel, Scalar, Type, ViewType};

/// A tensor of a graph; its number is that of its buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct TensorId(pub(crate) u32);

impl TensorId {
    /// Its number, which is that of its buffer in a [`tilelift_interp::Memory`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A scalar that the caller gives at launch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ScalarId(pub(crate) u32);

/// Who fills a tensor and who looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Role {
    /// The caller fills it; no node writes it.
    Input,
    /// Nodes fill it, the caller looks at it.
    Output,
    /// The caller fills it, nodes change it, the caller looks at it.
    InOut,
    /// Nodes fill it and read it; it is worth nothing afterwards, so it may disappear.
    Intermediate,
}

impl Role {
    /// True if the caller looks at the tensor afterwards.
    pub const fn is_seen(self) -> bool {
        matches!(self, Role::Output | Role::InOut)
    }
    /// True if the tensor has elements before the first node runs.
    pub const fn is_filled(self) -> bool {
        matches!(self, Role::Input | Role::InOut)
    }
}

/// A tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Its name, for people.
    pub name: String,
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub dims: Vec<Size>,
    /// Strides in elements; without them the tensor is dense and row-major.
    pub strides: Option<Vec<Size>>,
    /// Who fills it and who looks at it.
    pub role: Role,
}

/// An argument of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeArg {
    /// A tensor as it is.
    Tensor(TensorId),
    /// A dense tensor seen as one long vector.
    Flat(TensorId),
    /// A number.
    Scalar(ScalarArg),
    /// A number that the caller gives at launch.
    Input(ScalarId),
}

impl NodeArg {
    /// The tensor, and whether it is seen flat.
    pub fn tensor(&self) -> Option<(TensorId, bool)> {
        match self {
            NodeArg::Tensor(t) => Some((*t, false)),
            NodeArg::Flat(t) => Some((*t, true)),
            NodeArg::Scalar(_) | NodeArg::Input(_) => None,
        }
    }
}

impl From<TensorId> for NodeArg {
    fn from(t: TensorId) -> NodeArg {
        NodeArg::Tensor(t)
    }
}
impl From<ScalarArg> for NodeArg {
    fn from(s: ScalarArg) -> NodeArg {
        NodeArg::Scalar(s)
    }
}
impl From<ScalarId> for NodeArg {
    fn from(s: ScalarId) -> NodeArg {
        NodeArg::Input(s)
    }
}

/// A kernel of a graph, with its grid and arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its name, for people.
    pub name: String,
    /// The kernel.
    pub kernel: Kernel,
    /// Its grid.
    pub grid: Grid,
    /// An argument per parameter.
    pub args: Vec<NodeArg>,
}

/// A graph of kernels over tensors.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Graph {
    pub(crate) symbols: Vec<(String, u32)>,
    pub(crate) scalars: Vec<(String, Scalar)>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) nodes: Vec<Node>,
}

/// What a node does to a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Use {
    pub reads: bool,
    pub writes: bool,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// An extent that is known at launch, and a number that divides it (1 if nothing is known).
    pub fn size(&mut self, name: &str, divisor: u32) -> Size {
        self.symbols.push((name.to_owned(), divisor.max(1)));
        Size::symbol(Symbol((self.symbols.len() - 1) as u32))
    }

    /// A number that is known at launch.
    pub fn scalar(&mut self, name: &str, elem: Scalar) -> ScalarId {
        self.scalars.push((name.to_owned(), elem));
        ScalarId((self.scalars.len() - 1) as u32)
    }

    /// A dense row-major tensor.
    pub fn tensor(&mut self, name: &str, elem: Scalar, dims: &[Size], role: Role) -> TensorId {
        self.tensors.push(Tensor { name: name.to_owned(), elem, dims: dims.to_vec(), strides: None, role });
        TensorId((self.tensors.len() - 1) as u32)
    }

    /// A tensor with strides in elements.
    pub fn strided(&mut self, name: &str, elem: Scalar, dims: &[Size], strides: &[Size], role: Role) -> TensorId {
        let id = self.tensor(name, elem, dims, role);
        self.tensors[id.index()].strides = Some(strides.to_vec());
        id
    }

    /// The tensors, in the order of their numbers.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The numbers of the tensors.
    pub fn ids(&self) -> impl Iterator<Item = TensorId> + use<> {
        (0..self.tensors.len() as u32).map(TensorId)
    }

    /// The nodes, in the order in which they run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Appends a node.
    ///
    /// # Errors
    /// The kernel breaks rules of the IR, an argument does not keep what its parameter promises, or the node reads what nothing wrote.
    pub fn add(&mut self, name: &str, kernel: Kernel, grid: impl Into<Grid>, args: &[NodeArg]) -> Result<(), GraphError> {
        let node = Node { name: name.to_owned(), kernel, grid: grid.into(), args: args.to_vec() };
        tilelift_ir::verify(&node.kernel).map_err(|errors| GraphError::Verify { node: node.name.clone(), errors })?;
        self.check(&node)?;
        self.nodes.push(node);
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), GraphError> {
        let name = || node.name.clone();
        let unknown = |s: &Symbol| s.0 as usize >= self.symbols.len();
        if node.grid.0.iter().flat_map(Count::symbols).any(|s| unknown(&s)) {
            return Err(GraphError::UnknownSize { place: format!("the grid of `{}`", node.name) });
        }
        if node.kernel.params.len() != node.args.len() {
            return Err(GraphError::Count { node: name(), want: node.kernel.params.len(), got: node.args.len() });
        }
        for (param, (&v, arg)) in node.kernel.params.iter().zip(&node.args).enumerate() {
            let want = node.kernel.ty(v);
            let Some((tensor, flat)) = arg.tensor() else {
                let got = match arg {
                    NodeArg::Scalar(s) => s.elem(),
                    NodeArg::Input(s) => match self.scalars.get(s.0 as usize) {
                        Some((_, elem)) => *elem,
                        None => return Err(GraphError::UnknownScalar { node: name(), param }),
                    },
                    NodeArg::Tensor(_) | NodeArg::Flat(_) => continue,
                };
                if *want != Type::Scalar(got) {
                    return Err(GraphError::Kind { node: name(), param, want: want.to_string(), got: got.to_string() });
                }
                continue;
            };
            let Some(t) = self.tensors.get(tensor.index()) else { return Err(GraphError::UnknownTensor { node: name(), param }) };
            if t.dims.iter().chain(t.strides.iter().flatten()).flat_map(Size::symbols).any(|s| unknown(&s)) {
                return Err(GraphError::UnknownSize { place: format!("tensor `{}`", t.name) });
            }
            let Some(want) = want.as_view() else {
                return Err(GraphError::Kind { node: name(), param, want: want.to_string(), got: format!("tensor `{}`", t.name) });
            };
            self.promises(t, flat, want).map_err(|what| GraphError::Promise { node: name(), param, tensor: t.name.clone(), what })?;
        }
        self.uses_are_sound(node)
    }

    /// Whether a tensor keeps what a parameter's type promises; else the sentence that says what it does not.
    fn promises(&self, t: &Tensor, flat: bool, want: &ViewType) -> Result<(), String> {
        if t.elem != want.elem {
            return Err(format!("its elements are {}, the parameter's {}", t.elem, want.elem));
        }
        if t.strides.as_ref().is_some_and(|s| s.len() != t.dims.len()) {
            return Err("it has not one stride per dimension".into());
        }
        if flat && t.strides.is_some() {
            return Err("only a dense tensor is seen as a vector".into());
        }
        let dims = self.extents(t, flat);
        if dims.len() != want.rank() {
            return Err(format!("it has {} dimensions, the parameter {}", dims.len(), want.rank()));
        }
        let keeps = |fact: Extent, size: &Size| match fact {
            Extent::Fixed(n) => size.fixed() == Some(n),
            Extent::Dynamic(d) => self.divisor(size).is_multiple_of(d.max(1)),
        };
        for (d, (fact, size)) in want.dims.iter().zip(&dims).enumerate() {
            if !keeps(*fact, size) {
                return Err(format!("extent {d} is {}, the parameter promises `{fact}`", self.say(size)));
            }
        }
        match (&want.strides, &t.strides) {
            (None, None) => {}
            (None, Some(_)) => return Err("it has strides, the parameter is dense".into()),
            (Some(facts), _) => {
                for (d, (fact, size)) in facts.iter().zip(&self.strides(t, flat)).enumerate() {
                    if !keeps(*fact, size) {
                        return Err(format!("stride {d} is {}, the parameter promises `{fact}`", self.say(size)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether what a node reads was written, and what it writes may be.
    fn uses_are_sound(&self, node: &Node) -> Result<(), GraphError> {
        let mut seen: BTreeSet<TensorId> = BTreeSet::new();
        for (param, arg) in node.args.iter().enumerate() {
            let Some((id, _)) = arg.tensor() else { continue };
            let t = &self.tensors[id.index()];
            let (node_name, tensor) = (node.name.clone(), t.name.clone());
            let all = uses(node, id);
            if !seen.insert(id) && all.writes {
                return Err(GraphError::TwoViews { node: node_name, tensor });
            }
            if all.writes && t.role == Role::Input {
                return Err(GraphError::WritesInput { node: node_name, tensor });
            }
            let before = t.role.is_filled() || self.nodes.iter().any(|n| uses(n, id).writes);
            if uses_of_param(node, param).reads && !before {
                return Err(GraphError::ReadBeforeWrite { node: node_name, tensor });
            }
        }
        Ok(())
    }

    /// The extents of a tensor as an argument has them.
    pub(crate) fn extents(&self, t: &Tensor, flat: bool) -> Vec<Size> {
        if flat { vec![t.dims.iter().fold(Size::from(1), |n, d| n.times(d))] } else { t.dims.clone() }
    }

    /// The strides of a tensor as an argument has them.
    pub(crate) fn strides(&self, t: &Tensor, flat: bool) -> Vec<Size> {
        match &t.strides {
            Some(s) => s.clone(),
            None if flat => vec![Size::from(1)],
            None => (0..t.dims.len()).map(|d| t.dims[d + 1..].iter().fold(Size::from(1), |n, e| n.times(e))).collect(),
        }
    }

    /// The largest number known to divide an extent.
    pub(crate) fn divisor(&self, size: &Size) -> u32 {
        let known = |s: Symbol| self.symbols.get(s.0 as usize).map_or(1, |(_, d)| *d);
        size.symbols().fold(size.factor(), |n, s| n.saturating_mul(known(s)))
    }

    /// An extent for people.
    pub(crate) fn say(&self, size: &Size) -> String {
        let name = |s: Symbol| self.symbols.get(s.0 as usize).map_or("?", |(n, _)| n).to_owned();
        let factor = Some(size.factor().to_string()).filter(|_| size.factor() != 1 || size.fixed().is_some());
        factor.into_iter().chain(size.symbols().map(name)).collect::<Vec<_>>().join("*")
    }

    /// The type of a parameter for a tensor. Extents are facts of divisibility only, as a kernel for any shape has them: numbers would
    /// specialise it, and loops of known rounds are another program to the machine's assembler.
    pub(crate) fn view_type(&self, id: TensorId, flat: bool) -> ViewType {
        let t = &self.tensors[id.index()];
        let divides = |s: &Size| 1 << self.divisor(s).trailing_zeros().min(LARGEST_POWER);
        let fact = |s: &Size| s.fixed().map_or_else(|| Extent::Dynamic(self.divisor(s).max(1)), Extent::Fixed);
        let dims: Vec<Extent> = self.extents(t, flat).iter().map(|s| Extent::Dynamic(divides(s))).collect();
        let view = ViewType::dense(t.elem, &dims);
        match &t.strides {
            Some(s) => view.with_strides(&s.iter().map(fact).collect::<Vec<_>>()),
            None => view,
        }
    }
}

/// Exponent of the largest power of two that a parameter's type states.
const LARGEST_POWER: u32 = 12;

/// What a node does to the tensor behind a parameter.
pub(crate) fn uses_of_param(node: &Node, param: usize) -> Use {
    let kernel = &node.kernel;
    let mut all = Use::default();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if d.args.first() != kernel.params.get(param) {
            return;
        }
        let (reads, writes) = match d.op.info().effects.global() {
            Effects::Reads => (true, false),
            Effects::Writes => (false, true),
            Effects::Updates => (true, true),
            _ => (false, false),
        };
        all = Use { reads: all.reads | reads, writes: all.writes | writes };
    });
    all
}

/// What a node does to each of its tensors.
pub(crate) fn all_uses(node: &Node) -> Vec<(TensorId, Use)> {
    let mut all: Vec<TensorId> = node.args.iter().filter_map(|a| a.tensor()).map(|(t, _)| t).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|t| (t, uses(node, t))).collect()
}

/// What a node does to a tensor.
pub(crate) fn uses(node: &Node, id: TensorId) -> Use {
    let params = node.args.iter().enumerate().filter(|(_, a)| a.tensor().is_some_and(|(t, _)| t == id));
    params.map(|(p, _)| uses_of_param(node, p)).fold(Use::default(), |a, b| Use { reads: a.reads | b.reads, writes: a.writes | b.writes })
}
