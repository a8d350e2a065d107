//! A register layout as a picture: the tile as a grid, each run of elements that a lane holds side by side a cell in the colour of its warp.

use super::grid::{Grid, PictureError, Window};
use super::svg::{Anchor, Canvas, colour, hue, width_of, wrapped};
use std::ops::Range;
use tilelift_ir::layout::{Axis, Layout};

/// Height of a row, and the size of labels.
const ROW: f64 = 15.0;
const LABEL: f64 = 9.0;
const CAPTION: f64 = 11.0;
/// Least and greatest width of a column.
const COLUMN: [f64; 2] = [4.0, 64.0];
/// Width that a grid should not exceed.
const WIDE: f64 = 2200.0;
/// Width of a caption, at least.
const CAPTION_WIDTH: f64 = 720.0;

/// Who holds an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    block: u32,
    warp: u32,
    lane: u32,
    register: u32,
}

/// A run of elements that one lane holds.
struct Cell {
    row: u32,
    columns: Range<u32>,
    owner: Owner,
    registers: Vec<u32>,
}

impl Cell {
    /// Its registers: `4-7`, or `4,6`.
    fn registers(&self) -> String {
        let (first, last) = (self.registers[0], self.registers[self.registers.len() - 1]);
        if self.registers.windows(2).all(|w| w[1] == w[0] + 1) {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        } else {
            self.registers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
        }
    }

    fn label(&self) -> String {
        format!("T{}:{}", self.owner.lane, self.registers())
    }
}

/// The owner of each element, in row-major order, among positions that are no copies.
fn owners(grid: &Grid, layout: &Layout) -> Vec<Option<Owner>> {
    let mut found = vec![None; (grid.rows * grid.columns) as usize];
    // Positions without copies: bits that depend on others are 0, and so are digits that only make copies.
    let real = |axis: Axis| -> Vec<u32> {
        let (mask, bits) = (layout.free_mask(axis), layout.bits(axis));
        let odd: Vec<(u32, bool)> = layout.odd(axis).into_iter().zip(layout.free_odd(axis)).collect();
        let is_real = |n: &u32| {
            let mut rest = n >> bits;
            let digits = odd.iter().all(|&(radix, free)| {
                let digit = rest % radix;
                rest /= radix;
                !free || digit == 0
            });
            n & mask & ((1 << bits) - 1) == 0 && digits
        };
        (0..layout.size(axis)).filter(is_real).collect()
    };
    let [blocks, warps, lanes, registers] = [Axis::Block, Axis::Warp, Axis::Lane, Axis::Reg].map(real);
    for &block in &blocks {
        for &warp in &warps {
            for &lane in &lanes {
                for &register in &registers {
                    let at = layout.apply(&[(Axis::Reg, register), (Axis::Lane, lane), (Axis::Warp, warp), (Axis::Block, block)]);
                    found[grid.index(&at)] = Some(Owner { block, warp, lane, register });
                }
            }
        }
    }
    found
}

/// The cells of a part of the grid.
fn cells(grid: &Grid, owners: &[Option<Owner>], [rows, columns]: &[Range<u32>; 2]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for row in rows.clone() {
        for column in columns.clone() {
            let Some(owner) = owners[(row * grid.columns + column) as usize] else { continue };
            let same = |c: &Cell| {
                let o = c.owner;
                c.row == row && c.columns.end == column && [o.block, o.warp, o.lane] == [owner.block, owner.warp, owner.lane]
            };
            match cells.last_mut().filter(|c| same(c)) {
                Some(c) => {
                    c.columns.end += 1;
                    c.registers.push(owner.register);
                }
                None => cells.push(Cell { row, columns: column..column + 1, owner, registers: vec![owner.register] }),
            }
        }
    }
    cells
}

/// How many positions hold each element, by axis.
fn copies(layout: &Layout) -> Option<String> {
    let of = |axis: Axis| {
        let odd: u32 = layout.odd(axis).into_iter().zip(layout.free_odd(axis)).filter(|d| d.1).map(|d| d.0).product();
        odd << layout.free_mask(axis).count_ones()
    };
    let named = [(Axis::Lane, "lanes"), (Axis::Warp, "warps"), (Axis::Reg, "registers"), (Axis::Block, "blocks")];
    let parts: Vec<String> = named.iter().filter(|(a, _)| of(*a) > 1).map(|(a, n)| format!("{} {n}", of(*a))).collect();
    (!parts.is_empty()).then(|| format!("each element is held by {}; one of them is shown", parts.join(" x ")))
}

/// The fill of a cell: the hue of its warp, the lightness of its lane.
fn fill(owner: Owner, lanes: u32) -> String {
    let shade = f64::from(owner.lane) / f64::from(lanes.max(2) - 1);
    colour(hue(owner.warp + owner.block * 64), 0.62, 0.9 - 0.28 * shade)
}

/// Draws a layout under a caption.
///
/// # Errors
/// The tile is too large, or the window shows nothing of it.
pub(crate) fn draw(layout: &Layout, caption: &str, window: &Window) -> Result<Canvas, PictureError> {
    let grid = Grid::of(layout.shape())?;
    let owners = owners(&grid, layout);
    let one = cells(&grid, &owners, &[0..1, 0..grid.columns]).len();
    let part = grid.part(window, |columns| (one * columns as usize).div_ceil(grid.columns as usize))?;
    let cells = cells(&grid, &owners, &part);
    let [rows, columns] = &part;
    let shown = columns.len() as f64;

    // As wide as the labels want, if that is not too wide; else lanes alone are named.
    let wants = |label: &dyn Fn(&Cell) -> String| {
        let widest = cells.iter().map(|c| (width_of(&label(c), LABEL) + 4.0) / c.columns.len() as f64).fold(0.0, f64::max);
        widest.clamp(COLUMN[0], COLUMN[1])
    };
    let (whole, lanes) = (wants(&Cell::label), wants(&|c: &Cell| format!("T{}", c.owner.lane)));
    let column = if whole * shown <= WIDE { whole } else { lanes.min((WIDE / shown).max(COLUMN[0])) };

    let mut canvas = Canvas::new();
    let names: Vec<String> = rows.clone().map(|r| grid.row_name(r)).collect();
    let left = names.iter().map(|n| width_of(n, LABEL)).fold(0.0, f64::max) + 8.0;
    let most = CAPTION_WIDTH.max(left + shown * column);
    let mut lines = wrapped(caption, CAPTION, most);
    lines.extend(wrapped(&layout.to_string(), CAPTION, most));
    let count = |a: Axis, n: &str| format!("{} {n}", layout.size(a));
    lines.push(format!(
        "T lane : registers; colours are warps; {}, {}, {}",
        count(Axis::Warp, "warps"),
        count(Axis::Lane, "lanes"),
        count(Axis::Reg, "registers a lane")
    ));
    lines.extend(copies(layout));
    lines.extend(grid.left_out(&part));
    let mut top = canvas.lines([0.0, 0.0], CAPTION, &lines) + 4.0;
    top = legend(&mut canvas, [left, top], &cells, layout) + LABEL + 4.0;

    let x = |c: u32| left + f64::from(c - columns.start) * column;
    let y = |r: u32| top + f64::from(r - rows.start) * ROW;
    let every = (0u32..).map(|n| 1 << n.min(20)).find(|&n| f64::from(n) * column > 28.0).unwrap_or(1);
    for c in columns.clone().filter(|c| (c - columns.start).is_multiple_of(every)) {
        canvas.text([x(c), top - 3.0], LABEL, Anchor::Start, &c.to_string());
    }
    for (r, name) in rows.clone().zip(&names) {
        canvas.text([left - 4.0, y(r) + ROW - 4.0], LABEL, Anchor::End, name);
    }
    for c in &cells {
        let (at, end) = (grid.coord(c.row, c.columns.start), c.columns.end);
        let place: Vec<String> = at.iter().map(u32::to_string).collect();
        let to = if c.columns.len() > 1 { format!("..{end}") } else { String::new() };
        let block = if layout.size(Axis::Block) > 1 { format!("block {} ", c.owner.block) } else { String::new() };
        let title = format!("[{}{to}] {block}warp {} lane {} registers {}", place.join(", "), c.owner.warp, c.owner.lane, c.registers());
        let width = c.columns.len() as f64 * column;
        canvas.rect([x(c.columns.start), y(c.row), width, ROW], &fill(c.owner, layout.size(Axis::Lane)), Some("#fff"), Some(&title));
        let labels = [c.label(), format!("T{}", c.owner.lane), c.owner.lane.to_string()];
        if let Some(label) = labels.iter().find(|l| width_of(l, LABEL) + 2.0 <= width) {
            canvas.text([x(c.columns.start) + width / 2.0, y(c.row) + ROW - 4.5], LABEL, Anchor::Middle, label);
        }
    }
    Ok(canvas)
}

/// The warps in their colours; where the next thing would stand.
fn legend(canvas: &mut Canvas, [left, top]: [f64; 2], cells: &[Cell], layout: &Layout) -> f64 {
    let lanes = layout.size(Axis::Lane);
    let mut seen: Vec<(u32, u32)> = cells.iter().map(|c| (c.owner.block, c.owner.warp)).collect();
    seen.sort_unstable();
    seen.dedup();
    let (mut x, mut y) = (left, top);
    for (block, warp) in seen {
        let name = if layout.size(Axis::Block) > 1 { format!("block {block} warp {warp}") } else { format!("warp {warp}") };
        let width = width_of(&name, LABEL) + 26.0;
        if x + width > left + 760.0 {
            (x, y) = (left, y + ROW);
        }
        let swatch = Owner { block, warp, lane: lanes / 2, register: 0 };
        canvas.rect([x, y, 10.0, 10.0], &fill(swatch, lanes), None, None);
        canvas.text([x + 14.0, y + 8.5], LABEL, Anchor::Start, &name);
        x += width;
    }
    y + ROW
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element that titles name, with its owner.
    fn named(svg: &str) -> Vec<(Vec<u32>, String)> {
        let mut out = Vec::new();
        for title in svg.split("<title>").skip(1) {
            let (title, _) = title.split_once("</title>").unwrap();
            let (place, owner) = title.strip_prefix('[').unwrap().split_once("] ").unwrap();
            let parts: Vec<&str> = place.split(", ").collect();
            let (lead, last) = parts.split_at(parts.len() - 1);
            let lead: Vec<u32> = lead.iter().map(|n| n.parse().unwrap()).collect();
            let (from, to) = match last[0].split_once("..") {
                Some((a, b)) => (a.parse().unwrap(), b.parse().unwrap()),
                None => (last[0].parse::<u32>().unwrap(), last[0].parse::<u32>().unwrap() + 1),
            };
            out.extend((from..to).map(|c| ([lead.clone(), vec![c]].concat(), owner.to_owned())));
        }
        out
    }

    #[test]
    fn every_element_stands_in_one_cell_with_a_lane_that_holds_it() {
        for layout in [
            Layout::blocked(&[16, 64], &[1, 8], &[8, 4], &[2, 1], &[1, 0]).unwrap(),
            // More lanes and warps than elements: copies.
            Layout::blocked(&[2, 8], &[1, 2], &[8, 4], &[2, 2], &[1, 0]).unwrap(),
            // An odd factor, three dimensions.
            Layout::blocked(&[3, 4, 24], &[1, 1, 4], &[1, 4, 8], &[1, 1, 1], &[2, 1, 0]).unwrap(),
            Layout::blocked(&[256], &[2], &[32], &[1], &[0]).unwrap(),
        ] {
            let svg = draw(&layout, "a <caption>", &Window::default()).unwrap().document();
            let mut found = named(&svg);
            let count = layout.shape().iter().product::<u32>() as usize;
            assert_eq!(found.len(), count, "{layout}");
            found.sort();
            found.dedup_by(|a, b| a.0 == b.0);
            assert_eq!(found.len(), count, "{layout}");
            for (coord, owner) in &found {
                let word = |after: &str| owner.split(after).nth(1).unwrap().split(' ').next().unwrap().to_owned();
                let [warp, lane] = [word("warp "), word("lane ")].map(|w| w.parse::<u32>().unwrap());
                let held = |r: u32| layout.apply(&[(Axis::Reg, r), (Axis::Lane, lane), (Axis::Warp, warp)]).as_slice() == coord.as_slice();
                assert!((0..layout.size(Axis::Reg)).any(held), "{layout}: {coord:?} {owner}");
            }
            assert!(svg.contains("a &lt;caption&gt;"));
        }
    }

    #[test]
    fn windows_show_their_part_alone() {
        let layout = Layout::blocked(&[64, 64], &[1, 1], &[4, 8], &[2, 2], &[1, 0]).unwrap();
        let svg = draw(&layout, "", &Window { rows: Some(4..8), columns: Some(8..10) }).unwrap().document();
        assert_eq!(named(&svg).len(), 8);
        assert!(svg.contains("shown: rows 4..8 of 64, columns 8..10 of 64"));
    }
}
