//! Outputs in the place of inputs: two parameters become one.

use super::error::Error;
use std::borrow::Cow;
use tilelift_ir::{Kernel, Type};

/// The kernel in which the input stands wherever an output stood. The output stays a parameter, which nothing uses.
pub(super) fn in_place<'k>(kernel: &'k Kernel, pairs: &[(u32, u32)]) -> Result<Cow<'k, Kernel>, Error> {
    let mut made = Cow::Borrowed(kernel);
    for (n, &(output, input)) in pairs.iter().enumerate() {
        let refused =
            |why: &str| Error::Settings { why: format!("argument {output} of @{} can't be in the place of {input}: {why}", kernel.name) };
        let param = |p: u32| kernel.params.get(p as usize).copied().ok_or_else(|| refused("there is no such argument"));
        let (out, inp) = (param(output)?, param(input)?);
        if !matches!(kernel.ty(out), Type::View(_)) || kernel.ty(out) != kernel.ty(inp) {
            return Err(refused("they are no views of one type"));
        }
        // One pair an argument, so that it does not matter which comes first.
        if output == input || pairs[..n].iter().any(|&(a, b)| [a, b].iter().any(|x| [output, input].contains(x))) {
            return Err(refused("one of them is in a pair already"));
        }
        for data in made.to_mut().insts.values_mut() {
            for arg in data.args.iter_mut().filter(|a| **a == out) {
                *arg = inp;
            }
        }
    }
    Ok(made)
}
