//! The ops of explicit control as a pattern, for what treats them alike.

/// Every op of explicit control, as a pattern: `explicit_ops!() => …` keeps a match over [`Op`](crate::Op) exhaustive.
#[macro_export]
macro_rules! explicit_ops {
    () => {
        $crate::Op::Tasks | $crate::explicit_actions!()
    };
}

/// The ops of [`explicit_ops`] without regions.
#[macro_export]
macro_rules! explicit_actions {
    () => {
        $crate::Op::LocalAlloc
            | $crate::Op::LocalIndex
            | $crate::Op::LocalSlice
            | $crate::Op::LocalTranspose
            | $crate::Op::LocalReinterpret
            | $crate::Op::LocalLoad
            | $crate::Op::LocalStore
            | $crate::Op::BarrierAlloc
            | $crate::Op::BarrierIndex
            | $crate::Op::BarrierExpect
            | $crate::Op::BarrierArrive
            | $crate::Op::BarrierWait
            | $crate::Op::TaskBarrier
            | $crate::Op::NamedBarrierSync
            | $crate::Op::NamedBarrierArrive
            | $crate::Op::TurnFirst
            | $crate::Op::TurnWait
            | $crate::Op::TurnPass
            | $crate::Op::TurnLast
            | $crate::Op::FenceAsync
            | $crate::Op::AsyncLoad
            | $crate::Op::CopyAsync
            | $crate::Op::GatherAsync
            | $crate::Op::CopyAsyncCommit
            | $crate::Op::CopyAsyncWait
            | $crate::Op::CopyAsyncArrive
            | $crate::Op::AsyncStore
            | $crate::Op::AsyncReduce
            | $crate::Op::AsyncStoreWait
            | $crate::Op::AsyncDot
            | $crate::Op::AsyncDotWait
            | $crate::Op::SchedBarrier
            | $crate::Op::ClusterRank
            | $crate::Op::ClusterSize
            | $crate::Op::WorkerId
            | $crate::Op::NumWorkers
            | $crate::Op::ClusterBarrier
            | $crate::Op::ClusterArrive
            | $crate::Op::ClusterWait
            | $crate::Op::RemoteLoad
            | $crate::Op::RemoteStore
            | $crate::Op::RemoteStoreAsync
            | $crate::Op::RemoteArrive
            | $crate::Op::ChannelAlloc
            | $crate::Op::ChannelPut
            | $crate::Op::ChannelGet
            | $crate::Op::ChannelConsumed
    };
}
