//! Who takes shared memory, as a picture: a bar per allocation, from its first byte to its last.

use super::svg::{Anchor, Canvas, colour, hue, width_of};

const ROW: f64 = 16.0;
const LABEL: f64 = 10.0;
/// Width of all of the memory.
const WIDTH: f64 = 640.0;

/// An allocation.
pub(crate) struct Allocation {
    /// What it is called, or for.
    pub(crate) name: String,
    /// Its first byte.
    pub(crate) offset: u32,
    /// Its bytes.
    pub(crate) bytes: u32,
}

/// Draws the allocations of a program of so many bytes, on a machine that has so many.
pub(crate) fn draw(allocations: &[Allocation], used: u32, have: u32) -> Canvas {
    let mut canvas = Canvas::new();
    let all = f64::from(have.max(used).max(1));
    let share = |bytes: u32| f64::from(bytes) / all * WIDTH;
    let left = allocations.iter().map(|a| width_of(&a.name, LABEL)).fold(width_of("in all", LABEL), f64::max) + 10.0;
    let mut bar = |n: usize, name: &str, [from, bytes]: [u32; 2], fill: &str, says: String| {
        let y = n as f64 * ROW;
        canvas.text([left - 8.0, y + LABEL + 1.0], LABEL, Anchor::End, name);
        canvas.rect([left, y, WIDTH, ROW - 4.0], "#f2f2f2", None, None);
        canvas.rect([left + share(from), y, share(bytes).max(1.0), ROW - 4.0], fill, None, Some(&says));
        canvas.text([left + WIDTH + 8.0, y + LABEL + 1.0], LABEL, Anchor::Start, &says);
    };
    for (n, a) in allocations.iter().enumerate() {
        let says = format!("{} bytes at {}", a.bytes, a.offset);
        bar(n, &a.name, [a.offset, a.bytes], &colour(hue(n as u32), 0.5, 0.6), says);
    }
    bar(allocations.len(), "in all", [0, used], "#666", format!("{used} of {have} bytes"));
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_where_the_bytes_do() {
        let list = [Allocation { name: "a<b".into(), offset: 0, bytes: 512 }, Allocation { name: "c".into(), offset: 512, bytes: 256 }];
        let svg = draw(&list, 768, 1024).document();
        assert!(
            svg.contains("width=\"320\"")
                && svg.contains("256 bytes at 512")
                && svg.contains("768 of 1024 bytes")
                && svg.contains("a&lt;b")
        );
    }
}
