//! Conversions inside a warp: a schedule of selects and lane shuffles, as data.
//!
//! Let `P` send the source position `(r, l)` of a value to its destination `(r', l')`, both made
//! bijective, with blocks `r' = A r ^ B l`, `l' = C r ^ D l`. Then
//!
//! ```text
//!   P = [A1 B1; 0 I] * [I 0; C D1] * [I B2; 0 I]
//!        stage 3        stage 2       stage 1
//!   stage 1:  x  = r ^ B2 l          rank(B2) selects per register
//!   stage 2:  l' = C x ^ D1 l        one shuffle per register x, XOR by the constant C x if D1 = I
//!   stage 3:  r' = A1 x ^ B1 l'      renaming and rank(B1) selects per register
//! ```
//!
//! `B2` with `C B2 = D ^ I` makes `D1 = I`; otherwise `B2` sends the kernel of `D` to registers
//! whose C-columns complement the image of `D`, which exists because `[C D]` has full rank. The
//! number of shuffles, `2^R - 2^(R - rank C)` for `D1 = I`, is the number of registers that a lane
//! must import.

use super::convert::{ConversionClass, Pair};
use super::linear::{self, Span};
use super::map::Axis;

/// Registers and lanes of a warp that a schedule may span together, in bits.
const MAX_BITS: usize = 20;

/// One select per working register: where the parity of the masked lane and warp bits is odd, the
/// new value of register `r` is the old value of `r ^ reg_xor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectStep {
    /// Lane bits of the predicate.
    pub lane_mask: u32,
    /// Warp bits of the predicate (bits of the warp number inside the layout).
    pub warp_mask: u32,
    /// Register bits that the select flips.
    pub reg_xor: u32,
}

impl SelectStep {
    /// The predicate at a position.
    pub fn taken(&self, lane: u32, warp: u32) -> bool {
        ((lane & self.lane_mask).count_ones() + (warp & self.warp_mask).count_ones()) % 2 == 1
    }

    fn run<T: Clone>(&self, regs: &[T], lane: u32, warp: u32) -> Vec<T> {
        let flip = if self.taken(lane, warp) { self.reg_xor } else { 0 };
        (0..regs.len()).map(|r| regs[r ^ flip as usize].clone()).collect()
    }
}

/// What happens to one working register between the select stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shuffle {
    /// Stays in its lane.
    Keep,
    /// Comes from lane `lane ^ mask`.
    Xor(u32),
    /// Comes from lane `lane_map * lane ^ warp_map * warp ^ xor` (maps of the plan).
    Indexed {
        /// Constant part of the source lane.
        xor: u32,
    },
}

/// Lane-dependent selection among the registers of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectPlan {
    /// Selects over all source registers, in order.
    pub steps: Vec<SelectStep>,
    /// Afterwards: destination register to working register.
    pub rename: Vec<u32>,
}

impl SelectPlan {
    /// Runs the plan on one lane: source registers to destination registers.
    pub fn execute<T: Clone>(&self, regs: &[T], lane: u32, warp: u32) -> Vec<T> {
        let work = self.steps.iter().fold(regs.to_vec(), |r, s| s.run(&r, lane, warp));
        self.rename.iter().map(|&r| work[r as usize].clone()).collect()
    }

    /// Selects per lane.
    pub fn selects(&self) -> u32 {
        (self.steps.len() * self.rename.len()) as u32
    }
}

/// A conversion inside a warp; all stages are uniform over lanes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShufflePlan {
    /// Working register to source register (a source may be loaded twice).
    pub load: Vec<u32>,
    /// Stage 1 selects over the working registers.
    pub before: Vec<SelectStep>,
    /// Stage 2, one entry per working register.
    pub shuffles: Vec<Shuffle>,
    /// Source lane contributed by each bit of the receiving lane, for [`Shuffle::Indexed`].
    pub lane_map: Vec<u32>,
    /// Source lane contributed by each warp bit, for [`Shuffle::Indexed`].
    pub warp_map: Vec<u32>,
    /// Stage 3 selects.
    pub after: Vec<SelectStep>,
    /// Destination register to working register.
    pub store: Vec<u32>,
    /// Rank of C: log2 of the number of lanes each lane receives from.
    pub rank: u32,
}

impl ShufflePlan {
    /// The source lane of working register `x` at a receiving lane.
    pub fn source_lane(&self, x: usize, lane: u32, warp: u32) -> u32 {
        match self.shuffles[x] {
            Shuffle::Keep => lane,
            Shuffle::Xor(mask) => lane ^ mask,
            Shuffle::Indexed { xor } => linear::mul(&self.lane_map, u64::from(lane)) ^ linear::mul(&self.warp_map, u64::from(warp)) ^ xor,
        }
    }

    /// Runs the schedule on one warp: `regs[lane]` lists the source registers of a lane; the result
    /// lists its destination registers.
    pub fn execute_on_labels<T: Clone>(&self, regs: &[Vec<T>], warp: u32) -> Vec<Vec<T>> {
        let lanes = || (0u32..).take(regs.len());
        let first: Vec<Vec<T>> = lanes()
            .map(|lane| {
                let load = &self.load;
                let work: Vec<T> = load.iter().map(|&r| regs[lane as usize][r as usize].clone()).collect();
                self.before.iter().fold(work, |w, s| s.run(&w, lane, warp))
            })
            .collect();
        lanes()
            .map(|lane| {
                let work: Vec<T> = (0..self.load.len()).map(|x| first[self.source_lane(x, lane, warp) as usize][x].clone()).collect();
                let work = self.after.iter().fold(work, |w, s| s.run(&w, lane, warp));
                self.store.iter().map(|&y| work[y as usize].clone()).collect()
            })
            .collect()
    }

    /// Shuffle instructions for elements of at most 32 bits.
    pub fn shuffle_count(&self) -> u32 {
        self.shuffles.iter().filter(|s| **s != Shuffle::Keep).count() as u32
    }

    /// Working registers that move alike, in groups of at most `per_word`: elements of 8 or 16
    /// bits that can share one 32-bit shuffle. Registers that stay are left out.
    pub fn packed_shuffles(&self, per_word: usize) -> Vec<Vec<u32>> {
        let mut alike: Vec<(Shuffle, Vec<u32>)> = Vec::new();
        for (x, &s) in (0..).zip(&self.shuffles) {
            if s == Shuffle::Keep {
                continue;
            }
            match alike.iter_mut().find(|(t, _)| *t == s) {
                Some((_, list)) => list.push(x),
                None => alike.push((s, vec![x])),
            }
        }
        let chunks = |(_, list): (Shuffle, Vec<u32>)| list.chunks(per_word.max(1)).map(<[u32]>::to_vec).collect::<Vec<_>>();
        alike.into_iter().flat_map(chunks).collect()
    }

    /// Select instructions for elements of at most 32 bits.
    pub fn selects(&self) -> u32 {
        ((self.before.len() + self.after.len()) * self.load.len()) as u32
    }
}

/// Fewest select steps that realise "flip `mask` where the bit is set", for (lane or warp bit,
/// mask) pairs.
fn select_steps(wanted: &[(Axis, u32, u32)]) -> Vec<SelectStep> {
    let mut span = Span::new();
    let mut steps: Vec<SelectStep> = Vec::new();
    for &(axis, bit, mask) in wanted {
        if span.insert_as(mask, 1 << steps.len()) {
            steps.push(SelectStep { lane_mask: 0, warp_mask: 0, reg_xor: mask });
        }
        let (_, used) = span.reduce(mask);
        for (i, step) in steps.iter_mut().enumerate() {
            if used >> i & 1 == 1 {
                match axis {
                    Axis::Lane => step.lane_mask ^= 1 << bit,
                    Axis::Warp | Axis::Reg | Axis::Block | Axis::Off => step.warp_mask ^= 1 << bit,
                }
            }
        }
    }
    steps
}

/// The plan of an in-lane conversion; `None` when the pair is of another class.
pub(crate) fn plan_selects(pair: &Pair) -> Option<SelectPlan> {
    let blocks_move = pair.from.cols(Axis::Block) != pair.to.cols(Axis::Block);
    if pair.class() > ConversionClass::InLane || blocks_move {
        return None;
    }
    let reg = pair.from.cols(Axis::Reg);
    let mut wanted = Vec::new();
    for axis in [Axis::Lane, Axis::Warp] {
        let columns = pair.from.cols(axis).iter().zip(pair.to.cols(axis));
        for (bit, (a, b)) in (0..).zip(columns) {
            wanted.push((axis, bit, linear::solve(reg, a ^ b)? as u32));
        }
    }
    Some(SelectPlan { steps: select_steps(&wanted), rename: pair.rename()? })
}

/// Both sides of a warp conversion made bijective over `regs` register bits and the lane bits.
struct Bijection {
    regs: usize,
    lanes: usize,
    /// Source register number of each working register bit (0 for padding).
    load: Vec<u32>,
    /// Working register bits of each destination register bit.
    store: Vec<u32>,
    /// Elements of the source positions.
    source: Vec<u32>,
    /// Source position of each destination position.
    back: Vec<u32>,
}

/// Independent columns of a list: (index, column) of each, and per column its combination.
fn independent(columns: &[u32]) -> (Vec<(usize, u32)>, Vec<u64>) {
    let mut span = Span::new();
    let mut kept = Vec::new();
    for (i, &c) in columns.iter().enumerate() {
        if span.insert_as(c, 1 << kept.len()) {
            kept.push((i, c));
        }
    }
    let combos = columns.iter().map(|&c| span.reduce(c).1).collect();
    (kept, combos)
}

fn bijection(pair: &Pair) -> Option<Bijection> {
    let (lane_a, lane_b) = (pair.from.cols(Axis::Lane), pair.to.cols(Axis::Lane));
    let lanes = lane_a.len();
    let (reg_a, _) = independent(pair.from.cols(Axis::Reg));
    let (reg_b, combos_b) = independent(pair.to.cols(Axis::Reg));
    let column = |list: &[(usize, u32)]| list.iter().map(|r| r.1).collect::<Vec<u32>>();
    let reach_a = [column(&reg_a), lane_a.to_vec()].concat();
    let reach_b = [column(&reg_b), lane_b.to_vec()].concat();
    // Elements the warp has but does not keep: destination registers nobody reads.
    let extra = linear::complement(&reach_b, reach_a.iter().copied());
    let regs = reg_a.len().max(reg_b.len() + extra.len());
    let n = regs + lanes;
    if n > MAX_BITS {
        return None;
    }
    let mut source = column(&reg_a);
    source.resize(regs, 0);
    // Destination columns take the position of an equal source column where there is one.
    let wanted = [column(&reg_b), extra].concat();
    let mut slot: Vec<Option<u32>> = vec![None; regs];
    let mut place: Vec<Option<usize>> = vec![None; wanted.len()];
    for (j, &c) in wanted.iter().enumerate() {
        if let Some(i) = (0..regs).find(|&i| slot[i].is_none() && source[i] == c) {
            slot[i] = Some(c);
            place[j] = Some(i);
        }
    }
    for (j, &c) in wanted.iter().enumerate() {
        if place[j].is_none() {
            let i = (0..regs).find(|&i| slot[i].is_none())?;
            slot[i] = Some(c);
            place[j] = Some(i);
        }
    }
    let mut dest: Vec<u32> = slot.iter().map(|c| c.unwrap_or(0)).collect();
    dest.extend(lane_b);
    source.extend(lane_a);
    let store = combos_b
        .iter()
        .map(|&combo| (0..reg_b.len()).filter(|j| combo >> j & 1 == 1).fold(0, |m, j| m | place[j].map_or(0, |i| 1 << i)))
        .collect();
    let mut load: Vec<u32> = reg_a.iter().map(|r| 1 << r.0).collect();
    load.resize(regs, 0);
    let back = lift(&source, &dest, regs)?;
    Some(Bijection { regs, lanes, load, store, source, back })
}

/// An invertible map from destination to source positions that keeps elements: fixed points first,
/// then lanes from lanes and registers from registers, then anything. Images of equal span always
/// allow every partial choice to be completed.
fn lift(source: &[u32], dest: &[u32], regs: usize) -> Option<Vec<u32>> {
    let n = source.len();
    let mut back = vec![0u32; n];
    let mut used = Span::new();
    let mut open = Vec::new();
    for i in 0..n {
        if source[i] == dest[i] {
            back[i] = 1 << i;
            used.insert(back[i]);
        } else {
            open.push(i);
        }
    }
    let kernel = linear::kernel(source);
    open.sort_by_key(|&i| i < regs);
    for i in open {
        let mut units: Vec<usize> = (0..n).filter(|&k| source[k] == dest[i]).collect();
        units.sort_by_key(|&k| (k < regs) != (i < regs));
        let any = linear::solve(source, dest[i])? as u32;
        let choices = units.into_iter().map(|k| 1 << k).chain([any]).chain(kernel.iter().map(|&k| any ^ k as u32));
        let found = choices.into_iter().find(|&c| !used.contains(c))?;
        used.insert(found);
        back[i] = found;
    }
    Some(back)
}

/// `B2` and `D1` of the factorisation, from the lane rows `C` (per register bit) and `D` (per lane).
fn factor(c: &[u32], d: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
    let easy: Option<Vec<u32>> = d.iter().enumerate().map(|(j, &v)| linear::solve(c, v ^ 1 << j).map(|x| x as u32)).collect();
    let b2 = match easy {
        Some(b2) => b2,
        None => {
            let kernel: Vec<u32> = linear::kernel(d).iter().map(|&k| k as u32).collect();
            let mut image = Span::of(d);
            let spare: Vec<u32> = (0..c.len()).filter(|&i| image.insert(c[i])).map(|i| 1 << i).collect();
            // Basis of lane space: the kernel, then unit vectors; only the kernel moves.
            let units = (0..d.len()).map(|j| 1u32 << j);
            let rest = linear::complement(&kernel, units);
            let basis = [kernel.clone(), rest].concat();
            let inverse = linear::inverse(&basis)?;
            inverse.iter().map(|&combo| linear::mul(&spare, u64::from(combo))).collect()
        }
    };
    let d1 = d.iter().zip(&b2).map(|(&v, &x)| v ^ linear::mul(c, u64::from(x))).collect();
    Some((b2, d1))
}

/// The schedule of a conversion inside a warp; `None` when the pair is of a wider class, or spans
/// more positions than a warp can reasonably hold.
pub(crate) fn plan_shuffles(pair: &Pair) -> Option<ShufflePlan> {
    let blocks_move = pair.from.cols(Axis::Block) != pair.to.cols(Axis::Block);
    if pair.class() > ConversionClass::InWarp || blocks_move {
        return None;
    }
    let b = bijection(pair)?;
    let (regs, lanes) = (b.regs, b.lanes);
    let low = (1u32 << regs) - 1;
    let forward = linear::inverse(&b.back)?;
    let c: Vec<u32> = forward[..regs].iter().map(|v| v >> regs).collect();
    let d: Vec<u32> = forward[regs..].iter().map(|v| v >> regs).collect();
    let (b2, d1) = factor(&c, &d)?;
    // [A1 B1] = [A B] * inverse([I B2; C D]).
    let mut middle: Vec<u32> = (0..regs).map(|i| 1 << i | c[i] << regs).collect();
    middle.extend((0..lanes).map(|j| b2[j] | d[j] << regs));
    let ab: Vec<u32> = forward.iter().map(|v| v & low).collect();
    let a1b1 = linear::compose(&ab, &linear::inverse(&middle)?);
    let a1_inverse = linear::inverse(&a1b1[..regs])?;
    let lane_map = linear::inverse(&d1)?;
    // Warps may hold translated copies of the same pattern: a shift of the source position.
    let (mut stage1, mut warp_map) = (Vec::new(), Vec::new());
    for (j, &x) in (0..).zip(&b2) {
        stage1.push((Axis::Lane, j, x));
    }
    let warp_columns = pair.from.cols(Axis::Warp).iter().zip(pair.to.cols(Axis::Warp));
    for (j, (x, y)) in (0..).zip(warp_columns) {
        let shift = linear::solve(&b.source, x ^ y)? as u32;
        let lane = shift >> regs;
        stage1.push((Axis::Warp, j, (shift & low) ^ linear::mul(&b2, u64::from(lane))));
        warp_map.push(lane);
    }
    let stage3: Vec<(Axis, u32, u32)> =
        (0..).zip(&a1b1[regs..]).map(|(j, &v)| (Axis::Lane, j, linear::mul(&a1_inverse, u64::from(v)))).collect();
    let straight = lane_map.iter().enumerate().all(|(j, &v)| v == 1 << j) && warp_map.iter().all(|&v| v == 0);
    let odd = pair.odd_rename();
    let source_bits = pair.from.bits(Axis::Reg);
    let mut load = Vec::new();
    let mut shuffles = Vec::new();
    for o in 0..pair.from.odd_size(Axis::Reg) {
        for x in 0..1u32 << regs {
            load.push(linear::mul(&b.load, u64::from(x)) | o << source_bits);
            let xor = linear::mul(&lane_map, u64::from(linear::mul(&c, u64::from(x))));
            shuffles.push(match (straight, xor) {
                (true, 0) => Shuffle::Keep,
                (true, mask) => Shuffle::Xor(mask),
                (false, xor) => Shuffle::Indexed { xor },
            });
        }
    }
    let dest_bits = pair.to.bits(Axis::Reg);
    let store: Vec<u32> = (0..pair.to.size(Axis::Reg))
        .map(|r| {
            let position = linear::mul(&b.store, u64::from(r & ((1 << dest_bits) - 1)));
            let y = linear::mul(&a1_inverse, u64::from(position));
            y | odd[(r >> dest_bits) as usize] << regs
        })
        .collect();
    let after = select_steps(&stage3);
    // Registers that no destination reads need not move.
    let mut live = vec![false; load.len()];
    store.iter().for_each(|&y| live[y as usize] = true);
    for step in after.iter().rev() {
        live = (0..live.len()).map(|r| live[r] || live[r ^ step.reg_xor as usize]).collect();
    }
    for (shuffle, _) in shuffles.iter_mut().zip(&live).filter(|(_, live)| !**live) {
        *shuffle = Shuffle::Keep;
    }
    Some(ShufflePlan { load, before: select_steps(&stage1), shuffles, lane_map, warp_map, after, store, rank: linear::rank(&c) })
}
