//! Which tile, ring and order a product of matrices should run with, by a model of the machine: no product is ever looked up.
//!
//! ```text
//! Product ── candidates(target): what the planner would specialise ─► predict(…): time by what bounds it ─► rank(…): best first
//! ```
//!
//! The kernel library's plans ask [`rank`] for a product's shape; an engine asks them, or times the first few and keeps the best.

mod clusters;
mod model;
mod product;
mod rank;
mod rows;
mod stream_k;

pub use clusters::{Clusters, Pair};
pub use model::{Bound, Prediction, predict};
pub use product::{Choice, Product};
pub use rank::{Ranked, candidates, rank};
pub use stream_k::StreamK;
