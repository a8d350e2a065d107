//! Launches of code that another compiler wrote, in the simulators, from a description in JSON: PTX text, and code objects of AMD chips.
//!
//! ```text
//! description ─┬─► ptx      the text, on the simulator of PTX
//!              └─► amdgcn   the code object, on the simulator of its chip
//! ```

mod amdgcn;
mod code;
mod description;
mod error;
mod ptx;

pub use amdgcn::{describe, simulate_object};
pub use code::{Code, MAX_CODE, NoCode};
pub use description::{DescriptionError, ForeignArg, ForeignLaunch, MAX_BUFFER};
pub use error::{ForeignError, ForeignRun};
pub use ptx::{simulate, simulate_recorded};
