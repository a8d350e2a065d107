//! Why a kernel's main loop is not specialised, or an asynchronous unit does not take what it is given: reasons as data, and their sentences.
//!
//! ```text
//! NotSpecialised ─┬─ NoBulkCopy       an access is none for bulk copies
//!                 ├─ NoProduct        a dot is none for group matrix instructions
//!                 ├─ NotOverlapped    products have to wait for one another
//!                 └─ NotStaged        a result does not leave in bulk
//! ```
//!
//! A load that waits where it is used has a [`NotAhead`]. What does not lower at all is [`Unsupported`]. Values and instructions are in them as the author of the kernel knows them (a name or a place of the builder), so that a reason outlives the kernel.
//! Nothing but the `Display` of these types makes a sentence.

mod buffer;
mod copy;
mod not_ahead;
mod not_specialised;
mod outline;
mod product;
mod refusal;
mod remedy;
mod requirement;
mod resource;
mod uncounted_loop;
mod unsupported;

pub use buffer::{NoBufferLayout, NoOperand, NotAddressed};
pub use copy::{CopyLimit, Index, Misplaced, NoBulkCopy, NotStaged};
pub use not_ahead::NotAhead;
pub use not_specialised::{NotOperand, NotSpecialised};
pub use outline::{LoopOutline, Outline, RoleOutline};
pub use product::{NoProduct, NotOverlapped};
pub use refusal::Refusal;
pub use remedy::{Holder, Offer, Remedy, Taker};
pub use requirement::{AtOdds, Unmet};
pub use resource::Resource;
pub use uncounted_loop::UncountedLoop;
pub use unsupported::{Lacking, Location, Missing, NoAxis, NoMeeting, NoRegister, OfScalar, ProductOperand, Promise, Stage, Unsupported};
