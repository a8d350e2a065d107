//! Values that are alike in all lanes and still live in vector registers, because scalar registers are few.
//!
//! Where more scalar words are alive than there should be, the values that live longest there and that only vector instructions read give theirs
//! up: a vector instruction reads a vector register as well, and an address that is computed once costs one instruction either way.

use super::live::Live;
use super::role::Role;
use super::uniform::{RegisterClass, Uniform};
use cranelift_entity::{EntityRef, SecondaryMap};
use tilelift_lane::{Block, Control, LTy, LVal, Program, visit};

/// Scalar words that may be alive at a time: less than there are, since tuples leave gaps, and masks are saved around guards.
const ENOUGH: i32 = 64;

/// Chooses them.
pub(super) fn demote(program: &Program, live: &Live, uniform: &mut Uniform<'_>) {
    let count = live.count();
    let mut pressure = vec![0i32; count + 2];
    let mut defined = Vec::new();
    makes(&program.body, &mut |v| defined.push(v));
    let words = |v: LVal| if program.vals[v] == LTy::I1 || program.vals[v].bits() == 64 { 2 } else { 1 };
    let mut literal: SecondaryMap<LVal, bool> = SecondaryMap::new();
    let mut scalar: SecondaryMap<LVal, bool> = SecondaryMap::new();
    needed(&program.body, uniform, &mut scalar, &mut literal);
    let span = |v: LVal| {
        let (first, last) = live.life(v);
        (first as usize, (last as usize).min(count))
    };
    let mut candidates = Vec::new();
    for &v in &defined {
        if literal[v] || !live.read(v) || uniform.class(v) == RegisterClass::Vector {
            continue;
        }
        let (first, last) = span(v);
        pressure[first] += words(v);
        pressure[last + 1] -= words(v);
        if uniform.class(v) == RegisterClass::Scalar && !scalar[v] {
            candidates.push(v);
        }
    }
    let mut now = 0;
    pressure.iter_mut().for_each(|p| {
        now += *p;
        *p = now;
    });
    if pressure.iter().all(|&p| p <= ENOUGH) {
        return;
    }
    candidates.sort_by_key(|&v| {
        let (first, last) = span(v);
        (std::cmp::Reverse((last - first) as i32 * words(v)), v.index())
    });
    for v in candidates {
        let (first, last) = span(v);
        if pressure[first..=last].iter().any(|&p| p > ENOUGH) {
            pressure[first..=last].iter_mut().for_each(|p| *p -= words(v));
            uniform.demote(v);
        }
    }
}

fn makes(block: &Block, f: &mut dyn FnMut(LVal)) {
    for inst in block {
        visit::results(inst).into_iter().for_each(&mut *f);
        match inst.control() {
            Some(Control::For(l)) => {
                f(l.iv);
                l.carried.iter().for_each(|c| f(c.param));
            }
            Some(Control::While(l)) => l.carried.iter().for_each(|c| f(c.param)),
            Some(Control::If(_) | Control::Roles(_)) | None => {}
        }
        visit::blocks(inst).for_each(|b| makes(b, f));
    }
}

/// Marks what scalar instructions read, and what is a constant.
fn needed(block: &Block, uniform: &Uniform<'_>, scalar: &mut SecondaryMap<LVal, bool>, literal: &mut SecondaryMap<LVal, bool>) {
    for inst in block {
        match Role::of(inst) {
            Role::Literal(dst) => literal[dst] = true,
            Role::Control(Control::For(l)) => {
                [l.lo, l.hi, l.step, l.iv].into_iter().for_each(|v| scalar[v] = true);
                l.carried.iter().for_each(|c| [c.param, c.init, c.next, c.result].into_iter().for_each(|v| scalar[v] = true));
            }
            Role::Control(Control::While(l)) => {
                l.carried.iter().for_each(|c| [c.param, c.init, c.next, c.result].into_iter().for_each(|v| scalar[v] = true))
            }
            Role::Control(Control::If(c)) => c.results.iter().for_each(|&(r, a, b)| [r, a, b].into_iter().for_each(|v| scalar[v] = true)),
            // What is loaded once stays where it is.
            Role::Param { dst, .. } | Role::Special { dst, .. } => scalar[dst] = true,
            Role::Control(Control::Roles(_)) | Role::Foreign => {}
            Role::Compute(_) | Role::Shuffle(_) | Role::Matrix { .. } | Role::Load(_) | Role::Store(_) | Role::Act => {
                // Comparisons of such values set masks by scalar instructions.
                let reads_scalars = inst.results().iter().any(|&v| uniform.class(v) != RegisterClass::Vector && uniform.alike(v));
                if reads_scalars {
                    inst.operands(|v, _| scalar[v] = true);
                }
            }
        }
        visit::blocks(inst).for_each(|b| needed(b, uniform, scalar, literal));
    }
}
