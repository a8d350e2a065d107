//! A parsed text, and how much a text may hold.

use crate::kernel::{Kernel, Loc};
use crate::text::Comment;

/// The deepest nesting of regions, the body not counted, that the parser and the verifier accept.
pub const MAX_NESTING: usize = 64;

/// The longest text that is parsed, in bytes.
pub const MAX_TEXT: usize = 16 << 20;

/// The most errors that one parse reports.
pub const MAX_ERRORS: usize = 20;

/// A parsed text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct File {
    /// The kernels, in order.
    pub kernels: Vec<Kernel>,
    /// Where each kernel begins.
    pub headers: Vec<Loc>,
    /// The comments, in order.
    pub comments: Vec<Comment>,
}

impl File {
    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}
