//! What tasks, blocks and async units may not do to one another.

use std::fmt;
use tilelift_ir::Op;

/// A mistake in a protocol; `by` and the like name the other instruction and who ran it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Local memory is read that nothing wrote.
    Undefined,
    /// Local memory is touched that an async copy is bringing.
    Arriving {
        /// The copy.
        by: String,
    },
    /// Local memory is touched that a task's lanes are bringing.
    Copying {
        /// The copy.
        by: String,
    },
    /// A copy by a task's lanes begins where others of them may still be.
    Unmet {
        /// What they do there.
        by: String,
    },
    /// Two accesses to local memory, one of them a write, have no order.
    Race {
        /// The other access.
        by: String,
    },
    /// Local memory is written that an async unit still reads.
    InUse {
        /// The store or product.
        by: String,
    },
    /// An async unit would not see what a task wrote.
    Unfenced {
        /// The task.
        by: String,
    },
    /// The result of a product is read that is in flight.
    InFlight,
    /// The result of a product in flight would have to be in another place than its accumulator was, or in two.
    Moved,
    /// A round of a loop ends with a product in flight that it began and does not carry on.
    Lost,
    /// A round of a loop ends with a product in flight whose operand A is a tile.
    LeftTile,
    /// A task ends with this product in flight.
    Abandoned,
    /// Two async units write the same bytes of global memory.
    Overwritten {
        /// The other store.
        by: String,
    },
    /// A handle names a position outside of what it was indexed from.
    Outside {
        /// The position.
        index: i64,
        /// How many there are.
        count: u32,
    },
    /// A phase gets more arrivals than it has.
    Arrivals,
    /// A wait tells phases apart by their parity alone, and the one that the task means may be over since long.
    Late {
        /// The phase that it means, as far as the task knows how many have ended; `None` for the one before the first.
        meant: Option<u32>,
        /// The phase that is running.
        running: u32,
    },
    /// A numbered barrier gets warps that its other users do not count on.
    Warps {
        /// The barrier's number.
        number: u32,
        /// Warps that came together.
        got: u32,
        /// Warps that it should be.
        want: u32,
    },
    /// A task comes to a numbered barrier again before the others came.
    Twice {
        /// The barrier's number.
        number: u32,
    },
    /// A cluster has no block of that rank.
    Rank {
        /// The rank.
        rank: i64,
        /// Blocks of the cluster.
        size: u32,
    },
    /// The programs have ended while an async unit still brings something to their local memory.
    Unawaited,
    /// The halves of a cluster barrier do not alternate.
    Halves,
    /// An end of a turn out of order.
    Turns {
        /// The op.
        op: Op,
        /// A turn had begun.
        begun: bool,
    },
    /// A channel's steps are out of order.
    Channel(String),
    /// Everybody waits: a line for each.
    Deadlock(Vec<String>),
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::Undefined => f.write_str("local memory is read that nothing has written; store or load into it first"),
            Protocol::Arriving { by } => {
                write!(f, "local memory is touched that {by} is still bringing; wait for its barrier first")
            }
            Protocol::Copying { by } => {
                write!(
                    f,
                    "local memory is touched that {by} is still bringing; put `copy_async_commit`, a `copy_async_wait` that waits for its group, \
                     and `task_barrier` between them"
                )
            }
            Protocol::Unmet { by } => {
                write!(f, "a copy begins into local memory that lanes of the task may still access by {by}; put `task_barrier` between them")
            }
            Protocol::Race { by } => {
                write!(f, "the same local memory is accessed by {by}, and nothing orders the two; put a barrier between them")
            }
            Protocol::InUse { by } => write!(f, "local memory is written that {by} still reads; wait for it first"),
            Protocol::Unfenced { by } => {
                write!(f, "an async unit does not see what {by} wrote; let it do `fence_async` behind the write")
            }
            Protocol::InFlight => {
                f.write_str("the result of an `async_dot` is read while it is in flight; wait for fewer pending products")
            }
            Protocol::Moved => f.write_str(
                "a product in flight stays where its accumulator is: it is the accumulator of one more product and nothing else, carried where its \
                 accumulator was carried, and no result of an `if`; wait for it first",
            ),
            Protocol::Lost => {
                f.write_str("the round of a loop that began this product ends while it is in flight; wait for it in the round, or carry its result on")
            }
            Protocol::LeftTile => f.write_str(
                "the round of a loop that began this product ends while it is in flight, and the next one needs the registers of its operand A; \
                 wait for it in the round, let a counted loop carry that operand, for one round, or multiply from local memory",
            ),
            Protocol::Abandoned => {
                f.write_str("its task ends while this product is in flight; put an `async_dot_wait` with 0 in flight behind it")
            }
            Protocol::Overwritten { by } => write!(
                f,
                "{by} writes some of these elements, too, and nothing orders what async units write to global memory; write each element once, or \
                 let both be `async_reduce`"
            ),
            Protocol::Outside { index, count } => write!(f, "the handle is that of position {index} of {count}"),
            Protocol::Arrivals => {
                f.write_str("the running phase of the barrier has all its arrivals already; allocate it with more, or arrive less")
            }
            Protocol::Late { meant, running } => {
                let meant = meant.map_or("the one before phase 0".into(), |p| format!("phase {p}"));
                write!(
                    f,
                    "the task waits for the end of {meant}, by all it knows, but phase {running} is running already: phases of one parity look \
                     alike; let it wait for each phase, or learn from others that they are over"
                )
            }
            Protocol::Warps { number, got, want } => {
                write!(f, "barrier {number} got {got} warps where {want} should meet; give all its users the same number")
            }
            Protocol::Twice { number } => {
                write!(f, "the task comes to barrier {number} again before all warps came; let it wait at one for the others first")
            }
            Protocol::Rank { rank, size } => write!(f, "rank {rank} is outside the cluster of {size}"),
            Protocol::Unawaited => f.write_str(
                "all tasks have ended while this is still on its way to local memory, which others may have by then; wait for its barrier, \
                 or its group, first",
            ),
            Protocol::Turns { op, begun: true } => write!(f, "`{op}` in a turn; end it by `turn_pass` or `turn_last` first"),
            Protocol::Turns { op, begun: false } => {
                write!(f, "`{op}` where no turn is; `turn_first` begins the first one, `turn_wait` one behind `turn_pass`")
            }
            Protocol::Halves => f.write_str("`cluster_arrive` and `cluster_wait` do not alternate"),
            Protocol::Channel(what) => f.write_str(what),
            Protocol::Deadlock(all) => {
                write!(f, "deadlock: everybody waits")?;
                all.iter().try_for_each(|w| write!(f, "; {w}"))
            }
        }
    }
}
