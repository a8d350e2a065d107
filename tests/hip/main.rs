//! The HIP device against a mock library that records its calls: what is called, in which order and with what, what happens where a call
//! fails, and that nothing is left alive. Without a C compiler there is no mock, and each test says so.

mod failures;
mod launches;
mod library;
mod life;
mod loading;
mod mock;
mod subject;
