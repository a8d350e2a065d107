//! What kind of instruction each is, for those who ask for some kinds alone: a new one is what the table of
//! instructions says that it does, or of machinery that these chips lack.

use tilelift_lane::{BinOp, Control, Effect, Inst, LVal, ShuffleFrom, Special, Vals};

/// A kind of instruction, and what there is to know of it.
pub(super) enum Role<'a> {
    /// A constant: it is made where it is read.
    Literal(LVal),
    /// A parameter of the launch.
    Param { dst: LVal, index: u32 },
    /// Where the lane stands.
    Special { dst: LVal, what: Special },
    /// It makes values of its operands.
    Compute(Compute<'a>),
    /// It hands values from lane to lane.
    Shuffle(ShuffleFrom),
    /// The wavefront multiplies matrices.
    Matrix { dsts: &'a Vals, a: &'a Vals, b: &'a Vals, c: &'a Vals },
    /// It loads consecutive values.
    Load(&'a Vals),
    /// It stores consecutive values.
    Store(&'a Vals),
    /// It acts on memory or on other lanes, one value at a time or none.
    Act,
    /// It has blocks.
    Control(Control<'a>),
    /// It is of machinery that these chips lack.
    Foreign,
}

/// A computation.
pub(super) enum Compute<'a> {
    /// The same bits under another type.
    Bitcast { dst: LVal, a: LVal },
    /// The parts of a word.
    Unpack { dsts: &'a Vals, a: LVal },
    /// A number under another type.
    Convert { dst: LVal, a: LVal },
    /// An operation of two operands.
    Bin { dst: LVal, op: BinOp },
    /// A product and a sum.
    Fma { dst: LVal },
    /// One of two values.
    Select { dst: LVal },
    /// Any other.
    Other,
}

impl Role<'_> {
    /// The kind of an instruction.
    pub(super) fn of(inst: &Inst) -> Role<'_> {
        match inst {
            Inst::Const { dst, .. } | Inst::Undefined { dst } | Inst::SharedAddr { dst, .. } => Role::Literal(*dst),
            &Inst::Param { dst, index } => Role::Param { dst, index },
            &Inst::Special { dst, what } => Role::Special { dst, what },
            &Inst::Bitcast { dst, a } => Role::Compute(Compute::Bitcast { dst, a }),
            Inst::Unpack { dsts, a } => Role::Compute(Compute::Unpack { dsts, a: *a }),
            &Inst::Cvt { dst, a } => Role::Compute(Compute::Convert { dst, a }),
            &Inst::Bin { dst, op, .. } => Role::Compute(Compute::Bin { dst, op }),
            Inst::Fma { dst, .. } => Role::Compute(Compute::Fma { dst: *dst }),
            Inst::Select { dst, .. } => Role::Compute(Compute::Select { dst: *dst }),
            Inst::Shuffle { from, .. } => Role::Shuffle(*from),
            Inst::Matrix(m) => Role::Matrix { dsts: &m.dsts, a: &m.a, b: &m.b, c: &m.c },
            Inst::LoadGlobal { dsts, .. } | Inst::LoadShared { dsts, .. } => Role::Load(dsts),
            Inst::StoreGlobal { srcs, .. } | Inst::StoreShared { srcs, .. } => Role::Store(srcs),
            Inst::For(l) => Role::Control(Control::For(l)),
            Inst::While(l) => Role::Control(Control::While(l)),
            Inst::If(c) => Role::Control(Control::If(c)),
            Inst::Roles(r) => Role::Control(Control::Roles(r)),
            Inst::Unit(_) => Role::Foreign,
            other => Role::by_effect(other.effect()),
        }
    }

    /// The kind of an instruction of which no more is asked than what it does.
    fn by_effect(effect: Effect) -> Role<'static> {
        match effect {
            Effect::Compute => Role::Compute(Compute::Other),
            Effect::Update(_) | Effect::Copy | Effect::Order | Effect::Meet | Effect::Check | Effect::Hint => Role::Act,
            Effect::Stay | Effect::Read(_) | Effect::Write(_) | Effect::Exchange => Role::Foreign,
            Effect::Matrix | Effect::Start | Effect::Remote | Effect::Control => Role::Foreign,
        }
    }
}
