//! Pictures: what the compiler decided and what kernels did, to look at. Data come in, a document goes out; nothing here runs or compiles.
//!
//! ```text
//! svg, grid ─┬─ registers   which lane holds which element of a tile
//!            ├─ banks       in which bank each element of a buffer lies; access: what lanes ask of them
//!            ├─ shared      who takes shared memory
//!            └─ roofline    measured kernels under the roofs of a machine
//! timeline                  a recorded launch, for Perfetto
//! page                      sections of text and pictures, as one page
//! ```

pub(crate) mod access;
pub(crate) mod banks;
pub(crate) mod grid;
pub(crate) mod page;
pub(crate) mod registers;
pub(crate) mod roofline;
pub(crate) mod shared;
pub(crate) mod svg;
pub(crate) mod timeline;
