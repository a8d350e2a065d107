//! The roofline of a machine: what bandwidth and matrix units let kernels do, by operations per byte, and where measured ones are.
//!
//! ```text
//! rate │      ┌──────── peak           floor of a kernel = max(bytes / bandwidth, operations / peak)
//!      │    ╱ · kernel                 % of floor        = floor / measured time
//!      │  ╱
//!      └──────────── operations per byte
//! ```

use super::svg::{Anchor, Canvas, colour, hue, number, width_of, wrapped};
use tilelift_isel::Target;

const CAPTION: f64 = 11.0;
const LABEL: f64 = 10.0;
/// The plane.
const PLANE: [f64; 2] = [760.0, 420.0];
const LEFT: f64 = 64.0;

/// Operations of a multiply-add.
const MULTIPLY_ADD: f64 = 2.0;
/// Rows of a matrix instruction of a warpgroup, and the bytes of depth that a column of it takes, as the tables count them.
const GROUP_ROWS: f64 = 64.0;
const GROUP_DEPTH: f64 = 32.0;
/// Sixteenths of a cycle, in which costs are counted; multiply-adds that the cost of products is for; bytes of a sector.
const SHARES: f64 = 16.0;
const PRODUCT: f64 = 1024.0;
const SECTOR: f64 = 32.0;

/// What a machine can do at most.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Machine {
    /// Its name.
    pub(crate) name: String,
    /// Bytes in a second to and from memory.
    pub(crate) bandwidth: f64,
    /// Operations in a second of matrix units, by the bytes of an operand's element, the usual ones (of two bytes) first.
    pub(crate) peaks: Vec<(u32, f64)>,
}

impl Machine {
    /// The machine of a target's tables.
    pub(crate) fn of(target: &Target) -> Machine {
        let c = &target.costs;
        let cycles = c.processors as f64 * c.megahertz as f64 * 1e6;
        let name = target.name.to_owned();
        match &target.rates {
            Some(r) => {
                let cycles = f64::from(r.multiprocessors) * r.clock * 1e6;
                let peak = |bytes: u32| MULTIPLY_ADD * GROUP_ROWS * GROUP_DEPTH / f64::from(bytes) / r.column * cycles;
                Machine { name, bandwidth: r.memory[0] * 1e6, peaks: [2, 1, 4].map(|b| (b, peak(b))).into() }
            }
            None => {
                let quickest = [c.product, c.group_product].into_iter().filter(|&p| p > 0).min().unwrap_or(1);
                let peak = MULTIPLY_ADD * PRODUCT * SHARES / quickest as f64 * cycles;
                Machine { name, bandwidth: SECTOR * SHARES / c.sector.max(1) as f64 * cycles, peaks: vec![(2, peak)] }
            }
        }
    }

    /// The peak that counts for kernels whose operands are not known: of two bytes.
    fn peak(&self) -> f64 {
        self.peaks.first().map_or(1.0, |p| p.1)
    }

    /// The least seconds that so many bytes and operations take.
    pub(crate) fn floor(&self, p: &Point) -> f64 {
        (p.bytes / self.bandwidth).max(p.operations.unwrap_or(0.0) / self.peak())
    }
}

/// A measured kernel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Point {
    /// Its name.
    pub(crate) name: String,
    /// Seconds.
    pub(crate) seconds: f64,
    /// Bytes to and from memory.
    pub(crate) bytes: f64,
    /// Operations of its dots, if it has some and they were counted.
    pub(crate) operations: Option<f64>,
}

impl Point {
    /// Operations per byte; `None` for kernels that multiply nothing, or of which nothing is known.
    fn intensity(&self) -> Option<f64> {
        self.operations.filter(|&o| o > 0.0 && self.bytes > 0.0).map(|o| o / self.bytes)
    }
}

/// An axis of powers of ten.
struct Axis {
    from: f64,
    to: f64,
    length: f64,
}

impl Axis {
    fn over(least: f64, most: f64, length: f64) -> Axis {
        let from = least.log10().floor();
        Axis { from, to: most.log10().ceil().max(from + 1.0), length }
    }

    fn at(&self, x: f64) -> f64 {
        (x.log10() - self.from) / (self.to - self.from) * self.length
    }

    fn decades(&self) -> impl Iterator<Item = i32> {
        self.from as i32..=self.to as i32
    }
}

/// A power of ten.
fn decade(n: i32) -> String {
    if (-2..5).contains(&n) { number(10f64.powi(n)) } else { format!("1e{n}") }
}

/// Draws the roofs of a machine, and the points. Kernels without operations stand in a list of their own: their rate is bytes.
pub(crate) fn draw(machine: &Machine, points: &[Point]) -> Canvas {
    let mut canvas = Canvas::new();
    let tera = 1e-12;
    let (multiply, copy): (Vec<&Point>, Vec<&Point>) = points.iter().partition(|p| p.intensity().is_some());
    let ridge = machine.peak() / machine.bandwidth;
    let intensities = || multiply.iter().filter_map(|p| p.intensity());
    let rates = || multiply.iter().filter_map(|p| Some(p.operations? / p.seconds * tera));
    let highest = machine.peaks.iter().map(|p| p.1).fold(0.0, f64::max) * tera;
    let x = Axis::over(intensities().fold(ridge / 30.0, f64::min), intensities().fold(ridge * 30.0, f64::max), PLANE[0]);
    let roof = |i: f64, peak: f64| (i * machine.bandwidth).min(peak) * tera;
    let y = Axis::over(rates().fold(roof(10f64.powf(x.from), machine.peak()), f64::min), highest * 1.01, PLANE[1]);

    let caption = format!(
        "roofline of {}: {} GB/s, ridge at {} operations per byte; bytes of tensors and operations of dots as `bench` counts them; \
         % of floor: the time that bandwidth, or the peak of 2-byte operands, would need, over the measured one",
        machine.name,
        number(machine.bandwidth * 1e-9),
        number(ridge)
    );
    let caption = wrapped(&caption, CAPTION, LEFT + PLANE[0]);
    let top = canvas.lines([0.0, 0.0], CAPTION, &caption) + 22.0;
    let place = |i: f64, rate: f64| [LEFT + x.at(i), top + PLANE[1] - y.at(rate)];
    for n in x.decades() {
        let [at, _] = place(10f64.powi(n), 1.0);
        canvas.line([at, top, at, top + PLANE[1]], "#ddd", 1.0);
        canvas.text([at, top + PLANE[1] + LABEL + 5.0], LABEL, Anchor::Middle, &decade(n));
    }
    for n in y.decades() {
        let [_, at] = place(1.0, 10f64.powi(n));
        canvas.line([LEFT, at, LEFT + PLANE[0], at], "#ddd", 1.0);
        canvas.text([LEFT - 6.0, at + 3.5], LABEL, Anchor::End, &decade(n));
    }
    canvas.text([LEFT + PLANE[0] / 2.0, top + PLANE[1] + 34.0], CAPTION, Anchor::Middle, "operations per byte");
    canvas.text([0.0, top - 6.0], CAPTION, Anchor::Start, "TFLOP/s");
    let [x0, x1] = [x.from, x.to].map(|e| 10f64.powf(e));
    // Where labels stand, which are not written over.
    let mut taken: Vec<[f64; 4]> = Vec::new();
    for (n, &(bytes, peak)) in machine.peaks.iter().enumerate() {
        let knee = (peak / machine.bandwidth).clamp(x0, x1);
        let [a, b, c] = [x0, knee, x1].map(|i| place(i, roof(i, peak)));
        let stroke = if n == 0 { "#222" } else { "#999" };
        if n == 0 {
            canvas.line([a[0], a[1], b[0], b[1]], stroke, 2.0);
        }
        canvas.line([b[0], b[1], c[0], c[1]], stroke, if n == 0 { 2.0 } else { 1.0 });
        let says = format!("{bytes}-byte operands: {} TFLOP/s", number(peak * tera));
        canvas.coloured([c[0] - 4.0, c[1] - 4.0], LABEL, Anchor::End, stroke, &says);
        taken.push([c[0] - 4.0 - width_of(&says, LABEL), c[1] - 4.0 - LABEL, c[0], c[1]]);
    }
    for (n, p) in multiply.iter().enumerate() {
        let (Some(intensity), Some(operations)) = (p.intensity(), p.operations) else { continue };
        let [px, py] = place(intensity, operations / p.seconds * tera);
        let label = labelled(machine, p);
        let fill = colour(hue(n as u32), 0.75, 0.36);
        canvas.disc([px, py], 4.5, &fill, &label);
        let [tx, ty] = free(&taken, [px, py], width_of(&label, LABEL), LEFT + PLANE[0]);
        taken.push([tx, ty - LABEL, tx + width_of(&label, LABEL), ty + 3.0]);
        canvas.coloured([tx, ty], LABEL, Anchor::Start, &fill, &label);
    }
    bars(&mut canvas, machine, &copy, top + PLANE[1] + 56.0);
    canvas
}

/// A kernel's name and its share of the floor.
fn labelled(machine: &Machine, p: &Point) -> String {
    format!("{} {}%", p.name, number((machine.floor(p) / p.seconds * 1000.0).round() / 10.0))
}

/// Where a label has room beside its point: right of it, or further down.
fn free(taken: &[[f64; 4]], [x, y]: [f64; 2], width: f64, right: f64) -> [f64; 2] {
    let from = if x + 8.0 + width > right { x - 8.0 - width } else { x + 8.0 };
    let meets = |ty: f64| taken.iter().any(|t| from < t[2] && t[0] < from + width && ty - LABEL < t[3] && t[1] < ty + 3.0);
    let down = (0..60).map(|n| y + 3.5 + f64::from(n) * (LABEL + 4.0)).find(|&ty| !meets(ty));
    [from, down.unwrap_or(y)]
}

/// Kernels that only move bytes, as bars of their rate.
fn bars(canvas: &mut Canvas, machine: &Machine, points: &[&Point], top: f64) {
    if points.is_empty() {
        return;
    }
    const BAR: f64 = 16.0;
    const WIDTH: f64 = 420.0;
    canvas.text([0.0, top], CAPTION, Anchor::Start, "without operations of dots: bytes in a second, of the bandwidth");
    for (n, p) in points.iter().enumerate() {
        let y = top + 10.0 + n as f64 * BAR;
        let share = p.bytes / p.seconds / machine.bandwidth;
        canvas.rect([0.0, y, WIDTH, BAR - 4.0], "#f2f2f2", None, None);
        canvas.rect([0.0, y, (WIDTH * share).clamp(1.0, WIDTH), BAR - 4.0], &colour(hue(n as u32), 0.5, 0.6), None, Some(&p.name));
        let says = format!("{} ({} GB/s)", labelled(machine, p), number(p.bytes / p.seconds * 1e-9));
        canvas.text([WIDTH + 8.0, y + LABEL], LABEL, Anchor::Start, &says);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift::targets;

    #[test]
    fn peaks_are_those_of_the_tables_and_floors_follow() {
        let h200 = Machine::of(&targets::by_name("sm_90a").unwrap());
        // 4096 operations of bf16 a cycle and multiprocessor.
        assert_eq!(h200.peaks[0], (2, 4096.0 * 132.0 * 1781e6));
        assert_eq!(h200.peaks[1].1, 2.0 * h200.peaks[0].1);
        assert_eq!(h200.bandwidth, 4.116e12);
        let p = |bytes, operations| Point { name: "k".into(), seconds: 1e-3, bytes, operations };
        assert_eq!(h200.floor(&p(4.116e9, Some(1.0))), 1e-3);
        assert_eq!(h200.floor(&p(1.0, Some(h200.peaks[0].1))), 1.0);
        for name in targets::NAMES {
            let m = Machine::of(&targets::by_name(name).unwrap());
            assert!((1e11..1e14).contains(&m.bandwidth) && (1e13..1e16).contains(&m.peaks[0].1), "{m:?}");
        }
    }

    #[test]
    fn every_point_is_drawn_with_its_share_and_labels_do_not_meet() {
        let machine = Machine { name: "m".into(), bandwidth: 1e12, peaks: vec![(2, 1e14)] };
        let gemm = |n: u32| Point { name: format!("@gemm<{n}>"), seconds: 2e-3, bytes: 1e9, operations: Some(1e11) };
        let copy = Point { name: "@copy".into(), seconds: 1e-3, bytes: 5e8, operations: None };
        let svg = draw(&machine, &[gemm(0), gemm(1), copy]).document();
        assert_eq!(svg.matches("<circle").count(), 2);
        for part in ["@gemm&lt;0&gt; 50%", "@gemm&lt;1&gt; 50%", "@copy 50% (500 GB/s)", "ridge at 100 operations"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        // The axis begins where the lowest point or roof is: at an intensity of 1, of 1 TFLOP/s.
        assert!(svg.contains(">100</text>") && !svg.contains(">0.01</text>"), "{svg}");
        let taken = [[10.0, 0.0, 60.0, 13.0]];
        let [x, y] = free(&taken, [2.0, 5.0], 50.0, 1000.0);
        assert!(x == 10.0 && y - LABEL >= 13.0, "{x} {y}");
    }
}
