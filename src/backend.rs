//! The backends: which one serves a target, and what each makes of a lane program.

use tilelift_amdgcn::Chip;
use tilelift_isel::Target;
use tilelift_isel::lane::{Param, Program};
use tilelift_nvptx::EmitOptions;

/// A backend, for one of its targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backend {
    /// PTX text, which the driver assembles.
    Nvptx,
    /// AMDGCN assembly, and a code object.
    Amdgcn(Chip),
}

/// What a backend makes: the parts of an [`crate::Artifact`] that are its own.
pub(crate) struct Emitted {
    pub text: String,
    pub object: Vec<u8>,
    pub entry: String,
    pub threads: u32,
    pub shared_bytes: u32,
    pub cluster: u32,
    pub params: Vec<Param>,
}

/// Why a backend makes no code.
pub(crate) enum BackendRefusal {
    Nvptx(tilelift_nvptx::EmitError),
    Amdgcn(tilelift_amdgcn::EmitError),
}

impl Backend {
    /// The backend of a target, if one prints it.
    pub fn of(target: &Target) -> Option<Backend> {
        if tilelift_nvptx::by_name(target.name).is_some() {
            return Some(Backend::Nvptx);
        }
        tilelift_amdgcn::by_name(target.name).and(Chip::by_name(target.name)).map(Backend::Amdgcn)
    }

    /// Makes the target's code of a lane program that was lowered for it.
    pub fn emit(self, program: &Program, target: &Target, options: &EmitOptions) -> Result<Emitted, BackendRefusal> {
        match self {
            Backend::Nvptx => {
                let made = tilelift_nvptx::emit(program, target, options).map_err(BackendRefusal::Nvptx)?;
                Ok(Emitted {
                    text: made.text,
                    object: Vec::new(),
                    entry: made.entry,
                    threads: made.threads,
                    shared_bytes: made.shared_bytes,
                    cluster: made.cluster,
                    params: made.params,
                })
            }
            Backend::Amdgcn(chip) => {
                let made = tilelift_amdgcn::emit(program, chip).map_err(BackendRefusal::Amdgcn)?;
                Ok(Emitted {
                    text: made.text,
                    object: made.object,
                    entry: made.entry,
                    threads: made.threads,
                    shared_bytes: made.shared_bytes,
                    cluster: program.cluster,
                    params: made.params,
                })
            }
        }
    }
}
