//! What agents do to one another, whoever wrote the program: local memory in regions, mbarriers, named barriers, clusters.
//!
//! All blocks of a cluster are followed side by side where they reach into one another. An agent is a role of a block, or all its warps
//! up to where roles begin. What they do to mbarriers has to come in the same phases whatever the order of steps: who arrives, or sends
//! bytes, has to know that the phase in front has ended, and so has who waits, of the phase before that one; and a phase must not end
//! before those who waited for the one in front are known to have seen it.

mod accesses;
mod mbarriers;
mod regions;
mod rotation;
mod units;
