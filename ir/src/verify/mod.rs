//! The verifier: what a kernel must be before it is interpreted or compiled.
//!
//! The invariants, in groups (each has a [`VerifyCode`], whose `doc` states it):
//!
//! ```text
//! V01 structure   entities exist; an instruction stands in one place, a region belongs to one instruction, a value to one list;
//!                 regions nest at most 64 deep. Instructions that stand nowhere may lie in the arena.
//! V02 rows        operands, presence bits, attributes, regions and results are as the op table asks
//! V03 scope       operands are defined earlier in the same or an enclosing region
//! V04 types       the op's typing rule holds, results have its type; tiles, views and literals are within limits;
//!                 views are kernel parameters and view operands, nothing else
//! V05 control     regions but the body end with their only `yield`; yields, parameters, carried values and results agree;
//!                 conditions are scalar `i1`, loop bounds integers of one type, a literal step positive; layouts that are required fit
//!                 and do not meet
//! V06 header      the name is an identifier, hints are in range
//! V07 explicit    tasks end the body and use no tiles from outside, allocations stand in the body, handles are neither carried nor yielded;
//!                 literal positions are inside, products are waited for, and nothing else is
//! ```
//!
//! [`verify`] never stops at the first error and never panics, whatever the arenas hold: it looks up every entity before it uses
//! it. What depends on a broken part is left unchecked, so that one mistake gives one message.

mod check;
mod control;
mod error;
mod explicit;
#[cfg(test)]
mod explicit_tests;
mod products;
mod require;
mod row;
#[cfg(test)]
mod tests;

pub use error::{Place, VerifyCode, VerifyError, VerifyErrors};

use crate::kernel::Kernel;
use std::ops::Deref;

/// A kernel that obeys every rule; only [`verify`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'k> {
    kernel: &'k Kernel,
}

impl<'k> Verified<'k> {
    /// The kernel, for as long as it is borrowed.
    pub fn kernel(self) -> &'k Kernel {
        self.kernel
    }
}

impl Deref for Verified<'_> {
    type Target = Kernel;
    fn deref(&self) -> &Kernel {
        self.kernel
    }
}

/// A kernel of one's own that obeys every rule.
#[derive(Clone, PartialEq, Debug)]
pub struct VerifiedKernel {
    kernel: Kernel,
}

impl VerifiedKernel {
    /// Checks every rule.
    ///
    /// # Errors
    /// All broken rules.
    pub fn of(kernel: Kernel) -> Result<VerifiedKernel, VerifyErrors> {
        match verify(&kernel) {
            Ok(_) => Ok(VerifiedKernel { kernel }),
            Err(errors) => Err(errors),
        }
    }

    /// The kernel, borrowed, for those who take verified ones.
    pub fn as_verified(&self) -> Verified<'_> {
        Verified { kernel: &self.kernel }
    }

    /// The kernel, which anybody may change again.
    pub fn into_kernel(self) -> Kernel {
        self.kernel
    }
}

impl Deref for VerifiedKernel {
    type Target = Kernel;
    fn deref(&self) -> &Kernel {
        &self.kernel
    }
}

impl From<Verified<'_>> for VerifiedKernel {
    fn from(kernel: Verified<'_>) -> VerifiedKernel {
        VerifiedKernel { kernel: kernel.kernel().clone() }
    }
}

/// Checks every rule and returns the kernel as a verified one.
///
/// # Errors
/// All broken rules.
pub fn verify(kernel: &Kernel) -> Result<Verified<'_>, VerifyErrors> {
    let errors = check::check(kernel);
    if errors.is_empty() { Ok(Verified { kernel }) } else { Err(VerifyErrors { kernel: kernel.name.clone(), errors }) }
}
