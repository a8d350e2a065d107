//! What a warm-up asks for.

use super::settings::Settings;
use tilelift_ir::Kernel;

/// A kernel to compile, with settings of its own or with the compiler's.
///
/// ```
/// use tilelift::ir::text;
/// use tilelift::{Compiler, Request};
///
/// let source = "kernel @one(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<32xf32>\n    store v0[0], v1\n}\n";
/// let kernel = text::parse(source)?.kernels.remove(0);
/// let compiler = Compiler::new("sm_80")?;
/// let wide = compiler.settings().clone().warps(8);
/// let made = compiler.compile_many([Request::of(&kernel), Request::of(&kernel).settings(wide)], 2);
/// assert_eq!(compiler.stats().compiles, 2);
/// # made.into_iter().collect::<Result<Vec<_>, _>>()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Request<'k> {
    kernel: &'k Kernel,
    settings: Option<Settings>,
}

impl<'k> Request<'k> {
    /// A kernel with the compiler's settings.
    pub fn of(kernel: &'k Kernel) -> Request<'k> {
        Request { kernel, settings: None }
    }

    /// Settings of the kernel's own, in the place of the compiler's: those that a plan says, for instance.
    pub fn settings(mut self, settings: Settings) -> Request<'k> {
        self.settings = Some(settings);
        self
    }

    pub(super) fn kernel(&self) -> &'k Kernel {
        self.kernel
    }

    /// Its settings, else the compiler's.
    pub(super) fn settings_or<'s>(&'s self, usual: &'s Settings) -> &'s Settings {
        self.settings.as_ref().unwrap_or(usual)
    }
}

impl<'k> From<&'k Kernel> for Request<'k> {
    fn from(kernel: &'k Kernel) -> Request<'k> {
        Request::of(kernel)
    }
}
