//! A program on its way to selection: what does not depend on how far loads go is done once.

use super::error::SelectError;
use super::packs::Packs;
use super::pairs::Reach;
use super::uniform::{Uniform, Varies};
use super::{conditions, extremes, fused, halves, pairs, reorder};
use crate::chip::Chip;
use crate::machine;
use std::borrow::Cow;
use std::cell::OnceCell;
use tilelift_lane::{Block, Program, Target, verify};

/// A program that may be selected from, and what is known of it.
pub struct Source<'p> {
    pub(super) chip: Chip,
    pub(super) target: Target,
    program: Cow<'p, Program>,
    /// What differs per lane.
    varies: Varies,
    /// Its body within each reach, where it is another, and computations that go together.
    bodies: [OnceCell<(Option<Block>, Packs)>; 2],
}

impl<'p> Source<'p> {
    /// Looks at a program.
    ///
    /// # Errors
    /// A program that the lane verifier refuses.
    pub fn new(program: &'p Program, chip: Chip) -> Result<Source<'p>, SelectError> {
        let target = machine::target(chip);
        verify(program, &target).map_err(|e| SelectError::Invalid(Box::new(e)))?;
        let picked = match fused::fused(program, chip) {
            Cow::Owned(fused) => Cow::Owned(halves::picked(&fused).into_owned()),
            Cow::Borrowed(program) => halves::picked(program),
        };
        let uniform = Uniform::new(&picked);
        let reordered = match reorder::reordered(&picked, &uniform) {
            Cow::Owned(reordered) => Some(reordered),
            Cow::Borrowed(_) => None,
        };
        let varies = uniform.varies();
        let program = reordered.map_or(picked, Cow::Owned);
        let (program, varies) = match extremes::gathered(&program, chip) {
            Cow::Borrowed(_) => (program, varies),
            Cow::Owned(gathered) => {
                let varies = Uniform::new(&gathered).varies();
                (Cow::Owned(gathered), varies)
            }
        };
        Ok(Source { chip, target, program, varies, bodies: Default::default() })
    }

    fn body(&self, reach: Reach) -> &(Option<Block>, Packs) {
        self.bodies[reach as usize].get_or_init(|| {
            let near = pairs::adjacent(&self.program, reach);
            let (packs, body) = Packs::of(&self.program, near.as_ref().unwrap_or(&self.program.body));
            let body = body.or(near);
            let uniform = self.uniform(&self.program);
            let asked = conditions::beside(&self.program, body.as_ref().unwrap_or(&self.program.body), &uniform);
            (asked.or(body), packs)
        })
    }

    /// Computations of the program within a reach that go together.
    pub(super) fn packs(&self, reach: Reach) -> &Packs {
        &self.body(reach).1
    }

    /// The program with loads within a reach.
    pub(super) fn within(&self, reach: Reach) -> Cow<'_, Program> {
        match &self.body(reach).0 {
            Some(body) => Cow::Owned(reorder::with_body(&self.program, body.clone())),
            None => Cow::Borrowed(&self.program),
        }
    }

    /// What is known of the values of the program within a reach.
    pub(super) fn uniform<'a>(&self, within: &'a Program) -> Uniform<'a> {
        Uniform::of(within, self.varies.clone())
    }

    /// True if some loads go past matrix instructions.
    pub fn reaches_far(&self) -> bool {
        self.body(Reach::Far).0 != self.body(Reach::Near).0
    }
}
