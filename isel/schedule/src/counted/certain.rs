//! What is certain about the numbers of a loop that counts, by their bounds and low bits: what is not is asserted in front of it.

use crate::axis_info::AxisInfo;
use tilelift_ir::{CmpOp, Inst, Kernel, Op, Value};

/// How far a counter goes in a round.
pub(super) struct CounterStep {
    /// The number that stays the same.
    pub value: Value,
    /// What makes it in the body, in order.
    pub made: Vec<Inst>,
    /// It is below zero: how far the counter goes is the number without its sign.
    pub below: bool,
    /// The counter goes down.
    pub down: bool,
}

/// What is certain about the numbers of a loop that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Certain {
    /// It ends where the closed form says so: it does not wrap on its way, and does not step over what it must not be.
    pub ends: bool,
    /// The way that it goes is a number of its type, and none below zero unless it does not go round.
    pub way: bool,
}

/// The numbers that a scalar may be, read signed.
pub(super) fn range(kernel: &Kernel, v: Value) -> [i128; 2] {
    AxisInfo::of(kernel, v).range().map(i128::from)
}

impl Certain {
    /// What is certain of a counter that begins as `first`, is shifted before it is compared with `end`, and goes by `step` in a round.
    pub fn of(kernel: &Kernel, (first, shift): (Value, &[(Op, Value)]), op: CmpOp, end: Value, step: &CounterStep) -> Certain {
        let [min, max] = all(kernel, first);
        let by = if step.below { range(kernel, step.value).map(|x| -x) } else { range(kernel, step.value) };
        let longest = by[0].max(by[1]);
        let (from, to) = (shifted(kernel, first, shift), range(kernel, end));
        // All numbers are as far from the end as multiples of the step: it comes to the end, and no further.
        let meets = longest == 1 || shift.is_empty() && by[0] == by[1] && same_rest(kernel, [first, end], longest);
        let ends = match op {
            CmpOp::Lt => meets || to[1] + longest - 1 <= max,
            CmpOp::Le => to[1] + longest <= max,
            CmpOp::Gt => meets || to[0] - longest + 1 >= min,
            CmpOp::Ge => to[0] - longest >= min,
            _ => meets,
        };
        let (low, high) = if step.down { (to, from) } else { (from, to) };
        let last = i128::from(matches!(op, CmpOp::Le | CmpOp::Ge));
        let fits = high[1] - low[0] + last <= max && high[0] - low[1] + last >= min;
        let ordered = high[0] >= low[1];
        let index = !step.down && shift.is_empty();
        let way = match (op, index) {
            (CmpOp::Ne, true) => ordered,
            (CmpOp::Ne, false) => ordered && fits,
            (_, index) => index || fits,
        };
        Certain { ends, way }
    }
}

/// The numbers of a scalar's type.
pub(super) fn all(kernel: &Kernel, v: Value) -> [i128; 2] {
    let half = 1i128 << (kernel.ty(v).elem().bits() - 1);
    [-half, half - 1]
}

/// The numbers that a scalar may be once sums are done with it.
fn shifted(kernel: &Kernel, v: Value, shift: &[(Op, Value)]) -> [i128; 2] {
    let all = all(kernel, v);
    shift.iter().fold(range(kernel, v), |[low, high], &(op, by)| {
        let by = range(kernel, by);
        let now = if op == Op::Sub { [low - by[1], high - by[0]] } else { [low + by[0], high + by[1]] };
        if now[0] >= all[0] && now[1] <= all[1] { now } else { all }
    })
}

/// True if two numbers are known to have one rest by a power of two.
fn same_rest(kernel: &Kernel, of: [Value; 2], by: i128) -> bool {
    let Ok(by) = u64::try_from(by) else { return false };
    let [a, b] = of.map(|v| AxisInfo::of(kernel, v).low_bits());
    let bits = by.trailing_zeros() as u8;
    by.is_power_of_two() && a.0 >= bits && b.0 >= bits && (a.1 ^ b.1) & (by - 1) == 0
}
