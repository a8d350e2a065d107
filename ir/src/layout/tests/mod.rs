//! Property tests against enumeration, on random layouts from a small deterministic generator.

mod conversions;
mod costs;
mod maps;
mod matrices;
mod memory;
mod trips;

use super::digits::Space;
use super::map::{Axis, AxisMap, Layout, OddDigit};
use super::{Coord, linear};

/// xorshift64*.
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n.max(1))) as u32
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u32 + 1) as usize);
        }
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize]
    }
}

/// What the random layouts may contain.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub lane_bits: u32,
    pub warp_bits: u32,
    /// Columns that are not unit vectors.
    pub xor: bool,
    /// Zero and dependent columns.
    pub copies: bool,
    /// Odd digits may be owned by warps.
    pub odd_warp: bool,
}

/// A random legal layout.
pub(crate) fn random_layout(rng: &mut Rng, shape: &[u32], style: Style) -> Layout {
    let space = Space::new(shape).expect("legal shape");
    let n = space.nbits();
    let mut units: Vec<u32> = (0..n).map(|i| 1 << i).collect();
    rng.shuffle(&mut units);
    if style.xor {
        for _ in 0..n {
            let (i, j) = (rng.below(n) as usize, rng.below(n) as usize);
            if i != j {
                units[i] ^= units[j];
            }
        }
    }
    let mut axes: [AxisMap; 5] = Default::default();
    for (axis, bits) in [(Axis::Lane, style.lane_bits), (Axis::Warp, style.warp_bits)] {
        for _ in 0..bits {
            let copy = style.copies && rng.below(4) == 0;
            let column = match (copy, units.pop()) {
                (false, Some(u)) => u,
                (true, Some(u)) => {
                    units.insert(0, u);
                    if style.xor && rng.coin() { rng.below(1 << n) } else { 0 }
                }
                (_, None) => 0,
            };
            axes[axis as usize].cols.push(column);
        }
    }
    axes[0].cols.extend(units);
    if style.copies && rng.below(4) == 0 {
        let dependent = if rng.coin() { 0 } else { rng.below(1 << n) };
        axes[0].cols.push(dependent);
    }
    rng.shuffle(&mut axes[0].cols);
    let mut order: Vec<usize> = (0..space.odd.len()).collect();
    rng.shuffle(&mut order);
    for k in order {
        let owner = if style.odd_warp && rng.coin() { Axis::Warp } else { Axis::Reg };
        let digit = OddDigit { radix: space.odd[k].radix, target: Some(k as u8) };
        axes[owner as usize].odd.push(digit);
    }
    Layout::new(space, axes).expect("the generator covers every element")
}

/// A layout near another one: a few register, lane and warp columns moved or mixed.
pub(crate) fn mutate(rng: &mut Rng, layout: &Layout) -> Layout {
    let mut out = layout.clone();
    for _ in 0..rng.below(4) {
        let sizes: Vec<usize> = out.axes.iter().map(|a| a.cols.len()).collect();
        let place = |rng: &mut Rng, axis: usize| rng.below(sizes[axis] as u32) as usize;
        let a = rng.pick(&[0, 0, 0, 1, 1, 2]);
        let b = rng.pick(&[0, 0, 1, 1, 1, 2]);
        if sizes[a] == 0 || sizes[b] == 0 {
            continue;
        }
        let (i, j) = (place(rng, a), place(rng, b));
        let (x, y) = (out.axes[a].cols[i], out.axes[b].cols[j]);
        if rng.coin() {
            out.axes[a].cols[i] = y;
            out.axes[b].cols[j] = x;
        } else if (a, i) != (b, j) {
            out.axes[b].cols[j] = x ^ y;
        }
    }
    if rng.coin() {
        out.axes[0].cols.reverse();
        out.axes[0].odd.reverse();
    }
    out
}

/// The element in every register of one lane.
pub(crate) fn held(l: &Layout, lane: u32, warp: u32) -> Vec<Coord> {
    (0..l.size(Axis::Reg)).map(|reg| l.apply(&[(Axis::Reg, reg), (Axis::Lane, lane), (Axis::Warp, warp)])).collect()
}

/// Shapes that every operation must accept.
pub(crate) const SHAPES: [&[u32]; 12] =
    [&[64, 32], &[176, 16], &[16, 176], &[7], &[1, 1024], &[33, 1], &[48, 20], &[1, 1], &[8, 4, 6], &[256], &[9, 5], &[]];

#[test]
fn generator_makes_every_kind() {
    let mut rng = Rng::new(3);
    let style = Style { lane_bits: 5, warp_bits: 2, xor: true, copies: true, odd_warp: true };
    let (mut injective, mut unit) = (0, 0);
    for _ in 0..200 {
        let l = random_layout(&mut rng, &[64, 64], style);
        injective += u32::from(l.is_injective());
        unit += u32::from(l.all_columns().iter().all(|c| c.count_ones() <= 1));
        assert_eq!(linear::rank(&l.all_columns()), 12);
    }
    assert!(injective > 5 && injective < 195 && unit < 195);
}
