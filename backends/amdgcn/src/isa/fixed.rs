//! Registers that have names.

/// Registers with names. `scc`, the scalar condition bit, is no operand; rows of the instruction table say who reads and writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Fixed {
    /// `vcc`, 64 bits: what comparisons of lanes write, and what conditional moves read, if nothing else is named.
    Vcc,
    /// `exec`, 64 bits: the lanes that take part.
    Exec,
    /// `m0`, 32 bits.
    M0,
    /// `scc`, a bit; never an operand.
    Scc,
    /// `flat_scratch`, 64 bits: where the wavefront's scratch memory begins. An operand on gfx90a alone, whose kernels make it themselves.
    FlatScratch,
}
