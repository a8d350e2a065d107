//! The words of the tables: operands and implicit registers.
//!
//! ```text
//! D U -    written, updated, read
//! S V A    scalar, vector, either vector file; then 32-bit words
//! B32 ...  a source of vector instructions, by what its bits mean;  SB32, SB64: of scalar instructions
//! CF16     C of matrix instructions: words of f32 (CF), i32 (CI), f64 (CD)
//! ```

use crate::isa::desc::{Access, Implicit, Kind, Slot, Value};
use crate::isa::fixed::Fixed;

const fn slot(access: Access, kind: Kind, words: u8, value: Value) -> Slot {
    Slot { access, kind, words, value }
}

macro_rules! slots {
    ($($name:ident $access:ident $kind:ident $words:literal $value:ident;)*) => {
        $(pub const $name: Slot = slot(Access::$access, Kind::$kind, $words, Value::$value);)*
    };
}

slots! {
    DS1 Def Scalar 1 Bits;
    DS2 Def Scalar 2 Bits;
    DS4 Def Scalar 4 Bits;
    DS8 Def Scalar 8 Bits;
    DS16 Def Scalar 16 Bits;
    US1 Update Scalar 1 Bits;
    US2 Update Scalar 2 Bits;
    S1 Use Scalar 1 Bits;
    S2 Use Scalar 2 Bits;
    S4 Use Scalar 4 Bits;
    SB32 Use ScalarSource 1 Bits;
    SB64 Use ScalarSource 2 Bits;
    BASE1 Use ScalarOrOff 1 Bits;
    BASE2 Use ScalarOrOff 2 Bits;
    OFFSET Use ScalarOffset 1 Bits;

    DV1 Def Vector 1 Bits;
    DV2 Def Vector 2 Bits;
    UV1 Update Vector 1 Bits;
    UV2 Update Vector 2 Bits;
    V1 Use Vector 1 Bits;
    V2 Use Vector 2 Bits;
    H1 Use Vector 1 F16;
    VOFF Use VectorOrOff 1 Bits;
    ADDR Use Address 2 Bits;

    DA1 Def VectorOrAcc 1 Bits;
    DA2 Def VectorOrAcc 2 Bits;
    DA3 Def VectorOrAcc 3 Bits;
    DA4 Def VectorOrAcc 4 Bits;
    DA8 Def VectorOrAcc 8 Bits;
    DA16 Def VectorOrAcc 16 Bits;
    DA32 Def VectorOrAcc 32 Bits;
    UA1 Update VectorOrAcc 1 Bits;
    UA2 Update VectorOrAcc 2 Bits;
    UA4 Update VectorOrAcc 4 Bits;
    A1 Use VectorOrAcc 1 Bits;
    A2 Use VectorOrAcc 2 Bits;
    A3 Use VectorOrAcc 3 Bits;
    A4 Use VectorOrAcc 4 Bits;
    NARROW Use VectorOrAcc 8 Bits;
    DACC1 Def Acc 1 Bits;
    ACC1 Use Acc 1 Bits;
    CF4 Use AccSource 4 F32;
    CF16 Use AccSource 16 F32;
    CF32 Use AccSource 32 F32;
    CI4 Use AccSource 4 Bits;
    CI16 Use AccSource 16 Bits;
    CI32 Use AccSource 32 Bits;
    CD2 Use AccSource 2 F64;
    CD8 Use AccSource 8 F64;

    B32 Use Source 1 Bits;
    B64 Use Source 2 Bits;
    I16 Use Source 1 I16;
    F16 Use Source 1 F16;
    F32 Use Source 1 F32;
    F64 Use Source 2 F64;
    PI16 Use Source 1 PackedI16;
    PF16 Use Source 1 PackedF16;
    PF32 Use Source 2 PackedF32;
    PB32 Use Source 2 PackedBits;
    MIX Use Source 1 Mix;

    FIELD Use Field 1 Bits;
    LITERAL Use Literal 1 F32;
    TARGET Use Target 0 Bits;
}

const fn implicit(access: Access, reg: Fixed) -> Implicit {
    Implicit { access, reg }
}

/// No register that is no operand.
pub const NOTHING: &[Implicit] = &[];
/// The condition is written.
pub const SCC: &[Implicit] = &[implicit(Access::Def, Fixed::Scc)];
/// The condition is read.
pub const IF_SCC: &[Implicit] = &[implicit(Access::Use, Fixed::Scc)];
/// The condition is read and written.
pub const CARRY: &[Implicit] = &[implicit(Access::Update, Fixed::Scc)];
/// `vcc` is read.
pub const IF_VCC: &[Implicit] = &[implicit(Access::Use, Fixed::Vcc)];
/// `exec` is read, by a scalar instruction.
pub const IF_EXEC: &[Implicit] = &[implicit(Access::Use, Fixed::Exec)];
/// `exec` is saved and changed.
pub const SAVEEXEC: &[Implicit] = &[implicit(Access::Update, Fixed::Exec), implicit(Access::Def, Fixed::Scc)];
/// Lanes take part by `exec`.
pub const LANES: &[Implicit] = &[implicit(Access::Use, Fixed::Exec)];
/// Comparisons that write `exec`.
pub const CMPX: &[Implicit] = &[implicit(Access::Update, Fixed::Exec)];
/// `v_div_fmas`.
pub const DIV_FMAS: &[Implicit] = &[implicit(Access::Use, Fixed::Exec), implicit(Access::Use, Fixed::Vcc)];
/// Loads to local data share.
pub const LDS_DMA: &[Implicit] = &[implicit(Access::Use, Fixed::Exec), implicit(Access::Use, Fixed::M0)];
