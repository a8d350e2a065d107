//! What accesses touch, once it has been found out.

use crate::state::keys::Part;
use crate::value::Abs;
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use tilelift_lane::LVal;
use tilelift_lane::hash::{Map, Memo};

/// What lanes touch in a block: from where regions reach, whether they are coarse, and what of them is touched.
pub(crate) struct Spans {
    /// Where each lane's begins, with what stands above addresses.
    pub(crate) keys: Vec<i64>,
    /// What they all touch lies between.
    pub(crate) reach: (i64, i64),
    /// In order, each once.
    pub(crate) regions: Vec<(i64, bool, (i64, i64))>,
}

/// The same of the blocks that are meant: the keys of places, and the regions.
pub(crate) struct Touched {
    pub(crate) spans: Rc<Spans>,
    pub(crate) blocks: SmallVec<[usize; 2]>,
    pub(crate) regions: Vec<Part>,
    /// What asynchronous stores write: the parts of regions, and whether no two overlap.
    pub(crate) parts: OnceCell<(Vec<Part>, bool)>,
}

/// What lanes do: their addresses, where a guard holds, from an offset on, so many bytes each.
pub(crate) type LaneAccess = (Abs, Abs, i32, u32);

/// What has been found out.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) spans: Memo<LaneAccess, Option<Rc<Spans>>>,
    /// Of a block; of remote ones [`u32::MAX`].
    pub(crate) touched: Memo<(LaneAccess, u32), Option<Rc<Touched>>>,
    /// The parts of regions that a range touches.
    pub(crate) parts: Memo<(i64, i64), Rc<[Part]>>,
    /// Of accesses side by side, by their number.
    pub(crate) accesses: RefCell<Vec<Reaches>>,
}

/// Addresses and guards.
pub(crate) type At = SmallVec<[Abs; 16]>;

/// What accesses side by side touch, by a hash of addresses and guards.
pub(crate) type Reaches = Map<u64, SmallVec<[Reach; 1]>>;

/// The same where these are known.
pub(crate) struct Reach {
    pub(crate) at: At,
    /// In each block that has come so far.
    pub(crate) blocks: SmallVec<[(usize, Rc<[Touch]>); 1]>,
}

/// A region that is touched.
#[derive(Clone)]
pub(crate) struct Touch {
    /// An address that leads to it.
    pub(crate) addr: LVal,
    /// All that is touched of it.
    pub(crate) part: Part,
    /// The first and the last access that does.
    pub(crate) ends: (usize, usize),
}
