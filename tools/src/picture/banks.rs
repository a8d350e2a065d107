//! A bank map as a picture: each element of a tile in shared memory in the colour of its bank, and what an access asks of the banks.

use super::access::{Access, Memory, Phase, WORD};
use super::grid::{Grid, PictureError, Window};
use super::svg::{Anchor, Canvas, colour, width_of, wrapped};
use std::ops::Range;

const ROW: f64 = 15.0;
const LABEL: f64 = 9.0;
const CAPTION: f64 = 11.0;
/// Width of a word.
const CELL: f64 = 19.0;
/// Height of a word in the chart of the banks, and the most that are drawn.
const BAR: f64 = 6.0;
const BARS: usize = 40;
/// Width of a caption, at least.
const CAPTION_WIDTH: f64 = 720.0;

/// Elements side by side that lie in one word, or one element that takes several.
struct Cell {
    row: u32,
    columns: Range<u32>,
    byte: u64,
}

fn cells(grid: &Grid, memory: &Memory<'_>, [rows, columns]: &[Range<u32>; 2]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for row in rows.clone() {
        for column in columns.clone() {
            let Some(byte) = (memory.byte)(&grid.coord(row, column)) else { continue };
            let held = |c: &Cell| c.byte + u64::from((c.columns.end - c.columns.start) * memory.elem_bytes);
            let joins = |c: &Cell| c.row == row && c.columns.end == column && held(c) == byte && c.byte / WORD == byte / WORD;
            match cells.last_mut().filter(|c| joins(c)) {
                Some(c) => c.columns.end += 1,
                None => cells.push(Cell { row, columns: column..column + 1, byte }),
            }
        }
    }
    cells
}

/// The colour of a bank: four banks, 16 bytes, have a hue.
fn fill(bank: u64, banks: u32) -> String {
    let pieces = f64::from((banks / 4).max(1));
    colour((bank / 4) as f64 / pieces, 0.6, 0.86 - 0.05 * (bank % 4) as f64)
}

/// Draws the map of a memory under a caption, with an access if one is given.
///
/// # Errors
/// The memory is too large, the window shows nothing of it, the access is of another shape.
pub(crate) fn draw(memory: &Memory<'_>, access: Option<&Access>, caption: &str, window: &Window) -> Result<Canvas, PictureError> {
    let grid = Grid::of(memory.shape)?;
    let phase = access.map(|a| memory.phase(a)).transpose()?;
    let per_word = (WORD / u64::from(memory.elem_bytes.max(1))).max(1) as u32;
    let part = grid.part(window, |columns| 2 * columns.div_ceil(per_word) as usize)?;
    let cells = cells(&grid, memory, &part);
    let [rows, columns] = &part;
    let column = CELL / f64::from(per_word);
    let banks = memory.banks.banks.max(1);

    let mut canvas = Canvas::new();
    let names: Vec<String> = rows.clone().map(|r| grid.row_name(r)).collect();
    let left = names.iter().map(|n| width_of(n, LABEL)).fold(0.0, f64::max) + 8.0;
    let most = CAPTION_WIDTH.max(left + columns.len() as f64 * column);
    let mut lines = wrapped(caption, CAPTION, most);
    let says = format!("a cell is {WORD} bytes, numbered and coloured by its bank of {banks}; four banks, 16 bytes, have a hue");
    lines.extend(wrapped(&says, CAPTION, most));
    lines.extend(phase.iter().flat_map(Phase::verdict));
    lines.extend(grid.left_out(&part));
    let top = canvas.lines([0.0, 0.0], CAPTION, &lines) + LABEL + 6.0;
    let x = |c: u32| left + f64::from(c - columns.start) * column;
    let y = |r: u32| top + f64::from(r - rows.start) * ROW;
    let every = (0u32..20).map(|n| 1 << n).find(|&n| f64::from(n) * column > 28.0).unwrap_or(1);
    for c in columns.clone().filter(|c| (c - columns.start).is_multiple_of(every)) {
        canvas.text([x(c), top - 3.0], LABEL, Anchor::Start, &c.to_string());
    }
    for (r, name) in rows.clone().zip(&names) {
        canvas.text([left - 4.0, y(r) + ROW - 4.0], LABEL, Anchor::End, name);
    }
    let mut framed = Vec::new();
    for c in &cells {
        let bank = c.byte / WORD % u64::from(banks);
        let coord: Vec<String> = grid.coord(c.row, c.columns.start).iter().map(u32::to_string).collect();
        let to = if c.columns.len() > 1 { format!("..{}", c.columns.end) } else { String::new() };
        let first = grid.index(&grid.coord(c.row, c.columns.start));
        let lane = phase.as_ref().and_then(|p| (first..first + c.columns.len()).find_map(|i| p.elements.get(&i)));
        let asked = lane.map_or_else(String::new, |l| format!(", lane {l}"));
        let title = format!("[{}{to}] bank {bank} byte {}{asked}", coord.join(", "), c.byte);
        let place = [x(c.columns.start), y(c.row), c.columns.len() as f64 * column, ROW];
        canvas.rect(place, &fill(bank, banks), Some("#fff"), Some(&title));
        framed.extend(lane.map(|_| place));
        let label = bank.to_string();
        if width_of(&label, LABEL) + 1.0 <= place[2] {
            canvas.text([place[0] + place[2] / 2.0, place[1] + ROW - 4.5], LABEL, Anchor::Middle, &label);
        }
    }
    let conflicts = phase.as_ref().is_some_and(Phase::conflicts);
    let edge = if conflicts { "#c00" } else { "#064" };
    for [x, y, w, h] in framed {
        for line in [[x, y, x + w, y], [x, y + h, x + w, y + h], [x, y, x, y + h], [x + w, y, x + w, y + h]] {
            canvas.line(line, edge, 1.6);
        }
    }
    if let Some(phase) = &phase {
        chart(&mut canvas, phase, [left, y(rows.end) + 12.0]);
    }
    Ok(canvas)
}

/// How many words each bank is asked for.
fn chart(canvas: &mut Canvas, phase: &Phase, [left, top]: [f64; 2]) {
    let most = phase.wavefronts().clamp(1, BARS);
    canvas.text([left, top + CAPTION], CAPTION, Anchor::Start, "words that each bank is asked for");
    let base = top + CAPTION + 20.0 + most as f64 * BAR;
    for bank in 0..u64::from(phase.banks) {
        let x = left + bank as f64 * CELL;
        let words = phase.words.get(&bank).map_or(0, std::collections::BTreeSet::len);
        for n in 0..words.min(BARS) {
            canvas.rect([x + 1.0, base - (n + 1) as f64 * BAR, CELL - 2.0, BAR - 1.0], &fill(bank, phase.banks), Some("#666"), None);
        }
        if words > 0 {
            let above = base - words.min(BARS) as f64 * BAR - 3.0;
            canvas.text([x + CELL / 2.0, above], LABEL, Anchor::Middle, &words.to_string());
        }
        canvas.text([x + CELL / 2.0, base + LABEL + 3.0], LABEL, Anchor::Middle, &bank.to_string());
    }
    canvas.line([left, base, left + f64::from(phase.banks) * CELL, base], "#222", 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::layout::{BankModel, SharedMap, swizzle_of_width};

    fn picture(map: &SharedMap, bytes: u32, access: Option<&Access>) -> String {
        let banks = BankModel::nvidia();
        let byte = |c: &[u32]| map.offset(c).map(|o| u64::from(o * bytes));
        let memory = Memory { shape: map.shape(), elem_bytes: bytes, byte: &byte, banks: &banks };
        draw(&memory, access, "a & b", &Window::default()).unwrap().document()
    }

    #[test]
    fn every_element_has_a_cell_and_cells_have_the_bank_of_their_byte() {
        for (shape, bytes) in [([8, 64], 2), ([8, 64], 1), ([8, 32], 4), ([4, 16], 8)] {
            let map = swizzle_of_width(&shape, bytes, 1, 128).unwrap();
            let svg = picture(&map, bytes, None);
            let (mut elements, mut seen) = (0, std::collections::BTreeSet::new());
            for title in svg.split("<title>[").skip(1) {
                let (place, rest) = title.split_once("] bank ").unwrap();
                let (row, columns) = place.split_once(", ").unwrap();
                let (from, to) = columns.split_once("..").unwrap_or((columns, ""));
                let [row, from] = [row, from].map(|n| n.parse::<u32>().unwrap());
                elements += to.parse::<u32>().map_or(1, |t| t - from);
                let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).filter(|s| !s.is_empty()).map(|n| n.parse::<u64>().unwrap());
                let (bank, byte) = (numbers.next().unwrap(), numbers.next().unwrap());
                assert_eq!((byte, bank), (u64::from(map.offset(&[row, from]).unwrap() * bytes), byte / 4 % 32));
                assert!(seen.insert(byte));
            }
            assert_eq!(elements, shape[0] * shape[1], "{shape:?} {bytes}");
        }
    }

    #[test]
    fn conflicts_are_counted_and_framed_in_red() {
        let plain = picture(&SharedMap::row_major(&[32, 64], &[1, 0]).unwrap(), 2, Some(&Access::Matrix));
        assert!(plain.contains("8 wavefronts, conflicts: 1 would do") && plain.contains("#c00") && plain.contains("a &amp; b"));
        let swizzled = picture(&swizzle_of_width(&[32, 64], 2, 1, 128).unwrap(), 2, Some(&Access::Matrix));
        assert!(swizzled.contains("1 wavefront, no conflicts") && !swizzled.contains("#c00"));
    }
}
