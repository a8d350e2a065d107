//! What the parser produces: directives, declarations and instructions with spans, nothing resolved.

use crate::types::{Space, Ty};

/// Byte range in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A whole module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ast {
    /// `.version` as (major, minor).
    pub(crate) version: (u32, u32),
    /// `.target`, first word.
    pub(crate) target: String,
    pub(crate) vars: Vec<Var>,
    pub(crate) entries: Vec<Entry>,
}

/// A variable outside the register space.
#[derive(Clone, Debug)]
pub(crate) struct Var {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) space: Space,
    pub(crate) align: u32,
    /// Total size in bytes; `None` for `name[]`.
    pub(crate) bytes: Option<u64>,
    /// Initial bytes (shorter than `bytes` means zero-filled); empty when there is no initialiser.
    pub(crate) init: Vec<u8>,
}

/// One `.entry`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) params: Vec<Var>,
    pub(crate) reqntid: Option<[u32; 3]>,
    pub(crate) maxntid: Option<[u32; 3]>,
    pub(crate) reqcluster: Option<[u32; 3]>,
    pub(crate) maxnreg: Option<u32>,
    pub(crate) minnctapersm: Option<u32>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) end: Span,
}

/// A statement of a body.
#[derive(Clone, Debug)]
pub(crate) enum Stmt {
    Label(String, Span),
    Instr(Instr),
    Block(Vec<Stmt>),
    Reg(Ty, Vec<RegDecl>),
    Var(Var),
}

/// One name of a `.reg` list; `count` for the `name<count>` form.
#[derive(Clone, Debug)]
pub(crate) struct RegDecl {
    pub(crate) name: String,
    pub(crate) count: Option<u32>,
    pub(crate) span: Span,
}

/// An instruction as written.
#[derive(Clone, Debug)]
pub(crate) struct Instr {
    /// Guard register and whether it is negated.
    pub(crate) guard: Option<(String, bool, Span)>,
    pub(crate) opcode: String,
    /// Modifiers without the leading dot.
    pub(crate) mods: Vec<(String, Span)>,
    pub(crate) operands: Vec<Operand>,
    /// Guard to semicolon.
    pub(crate) span: Span,
}

/// An operand with its place.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) kind: OperandKind,
    pub(crate) span: Span,
}

/// Operand forms.
#[derive(Clone, Debug)]
pub(crate) enum OperandKind {
    /// Register, variable, label or special register, by name.
    Name(String),
    /// Two's complement bits of an integer literal.
    Int(i128),
    F32(u32),
    F64(u64),
    Vec(Vec<Operand>),
    /// `[base+offset]`; no base for an absolute address.
    Addr(Option<String>, i64),
    /// `[map, {coordinates}]`
    Tensor(String, Vec<Operand>),
    /// `!p`
    Not(String),
    /// `p|q`
    Pair(String, String),
    /// `_`
    Sink,
    /// `name+imm` outside brackets.
    Offset(String, i64),
}
