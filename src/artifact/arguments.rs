//! What the arguments of a kernel promise.

use tilelift_ir::{Attr, Extent, Kernel, Op, Scalar, Type, Value, ViewType};

/// An argument of a kernel, and what it promises: the text takes it for granted.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Argument {
    /// A tensor in device memory.
    View {
        /// Element type, extents, strides and alignment.
        ty: ViewType,
        /// The kernel writes it: no other argument may share its bytes, nor may two of its elements.
        written: bool,
    },
    /// A number.
    Scalar {
        /// Its type.
        elem: Scalar,
        /// What an integer is a multiple of: what the kernel's own block assumes of it.
        multiple_of: u32,
    },
}

impl Argument {
    /// The arguments of a verified kernel.
    pub(crate) fn of(kernel: &Kernel) -> Vec<Argument> {
        let written = tilelift_interp::written_params(kernel);
        let one = |(number, &value): (usize, &_)| match kernel.ty(value) {
            Type::View(ty) => Argument::View { ty: (**ty).clone(), written: written.contains(&number) },
            // The verifier lets nothing else be a parameter.
            ty @ (Type::Scalar(_) | Type::Tile(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_)) => {
                Argument::Scalar { elem: ty.elem(), multiple_of: assumed(kernel, value) }
            }
        };
        kernel.params.iter().enumerate().map(one).collect()
    }

    /// The element type.
    pub fn elem(&self) -> Scalar {
        match self {
            Argument::View { ty, .. } => ty.elem,
            Argument::Scalar { elem, .. } => *elem,
        }
    }

    /// Dimensions of a tensor; 0 of a number.
    pub fn rank(&self) -> usize {
        match self {
            Argument::View { ty, .. } => ty.rank(),
            Argument::Scalar { .. } => 0,
        }
    }

    /// What its address is a multiple of, in bytes; 1 of a number.
    pub fn align(&self) -> u32 {
        match self {
            Argument::View { ty, .. } => ty.align.max(ty.elem.bytes()),
            Argument::Scalar { .. } => 1,
        }
    }

    /// What is known of an extent; nothing of a dimension that it doesn't have.
    pub fn extent(&self, dim: usize) -> Extent {
        match self {
            Argument::View { ty, .. } => ty.dims.get(dim).copied().unwrap_or(Extent::Dynamic(1)),
            Argument::Scalar { .. } => Extent::Dynamic(1),
        }
    }

    /// True if the kernel writes it.
    pub fn is_written(&self) -> bool {
        matches!(self, Argument::View { written: true, .. })
    }

    /// As a type of the language.
    pub(crate) fn ty(&self) -> Type {
        match self {
            Argument::View { ty, .. } => ty.clone().into(),
            Argument::Scalar { elem, .. } => Type::Scalar(*elem),
        }
    }
}

/// What the kernel's own block, which every instance runs, assumes that a parameter is a multiple of: the largest, of several.
fn assumed(kernel: &Kernel, param: Value) -> u32 {
    let own = kernel.regions[kernel.body].insts.iter().map(|&inst| &kernel.insts[inst]);
    let of_it = own.filter(|d| d.op == Op::Assume && d.args.first() == Some(&param));
    of_it.filter_map(|d| if let Some(Attr::Divisor(n)) = d.attrs.first() { Some(*n) } else { None }).max().unwrap_or(1)
}
