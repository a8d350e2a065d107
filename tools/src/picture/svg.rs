//! Scalable vector graphics: a canvas that takes shapes and becomes one document, which stands alone or inside a page.

use std::fmt::Write;

/// Width of a character of the font, in parts of its size; all pictures use a font of equal widths, and some renderers round it up.
const CHARACTER: f64 = 0.645;

/// Where a text begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn word(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// Text as it stands in XML, between tags and in attributes. What XML has no place for becomes a mark.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' | '\r' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The width of a text of a size.
pub(crate) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// A text in lines that are as wide at most, broken between words.
pub(crate) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let most = (width / (size * CHARACTER)) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= most => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A colour from hue (turns), saturation and lightness (0 to 1), as readers of any age know it.
pub(crate) fn colour(hue: f64, saturation: f64, lightness: f64) -> String {
    let chroma = (1.0 - (2.0 * lightness - 1.0).abs()) * saturation;
    let sector = hue.rem_euclid(1.0) * 6.0;
    let second = chroma * (1.0 - (sector % 2.0 - 1.0).abs());
    let rgb = match sector as u32 {
        0 => [chroma, second, 0.0],
        1 => [second, chroma, 0.0],
        2 => [0.0, chroma, second],
        3 => [0.0, second, chroma],
        4 => [second, 0.0, chroma],
        _ => [chroma, 0.0, second],
    };
    let base = lightness - chroma / 2.0;
    let [r, g, b] = rgb.map(|x| ((x + base) * 255.0).round().clamp(0.0, 255.0) as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Hues far from one another, however many there are: the golden ratio of a turn from one to the next.
pub(crate) fn hue(n: u32) -> f64 {
    0.58 + f64::from(n) * 0.618_033_988_75
}

/// A number as short as it can be written with two decimals.
pub(crate) fn number(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A picture that is being drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Canvas {
    body: String,
    width: f64,
    height: f64,
}

impl Canvas {
    /// An empty one.
    pub(crate) fn new() -> Canvas {
        Canvas::default()
    }

    /// Its extents so far.
    pub(crate) fn size(&self) -> [f64; 2] {
        [self.width, self.height]
    }

    /// Makes room up to a point.
    pub(crate) fn reach(&mut self, x: f64, y: f64) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    /// A rectangle: place and extents, its fill, the colour of its edge. With a title, which readers see under the pointer.
    pub(crate) fn rect(&mut self, [x, y, w, h]: [f64; 4], fill: &str, edge: Option<&str>, title: Option<&str>) {
        self.reach(x + w, y + h);
        let [x, y, w, h] = [x, y, w, h].map(number);
        let edge = edge.map_or_else(String::new, |e| format!(" stroke=\"{}\"", escape(e)));
        let _ = write!(self.body, "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{}\"{edge}", escape(fill));
        match title {
            Some(t) => {
                let _ = writeln!(self.body, "><title>{}</title></rect>", escape(t));
            }
            None => self.body.push_str("/>\n"),
        }
    }

    /// A line between two points.
    pub(crate) fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], stroke: &str, width: f64) {
        self.reach(x1.max(x2), y1.max(y2));
        let [x1, y1, x2, y2, width] = [x1, y1, x2, y2, width].map(number);
        let stroke = escape(stroke);
        let _ = writeln!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>");
    }

    /// A disc.
    pub(crate) fn disc(&mut self, [x, y]: [f64; 2], radius: f64, fill: &str, title: &str) {
        self.reach(x + radius, y + radius);
        let [x, y, radius] = [x, y, radius].map(number);
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{}\" stroke=\"#333\"><title>{}</title></circle>",
            escape(fill),
            escape(title)
        );
    }

    /// A text whose line of writing begins, ends or is centred at a point.
    pub(crate) fn text(&mut self, [x, y]: [f64; 2], size: f64, anchor: Anchor, text: &str) {
        self.coloured([x, y], size, anchor, "#222", text);
    }

    /// As [`Canvas::text`], in a colour.
    pub(crate) fn coloured(&mut self, [x, y]: [f64; 2], size: f64, anchor: Anchor, fill: &str, text: &str) {
        let width = width_of(text, size);
        let right = match anchor {
            Anchor::Start => x + width,
            Anchor::Middle => x + width / 2.0,
            Anchor::End => x,
        };
        self.reach(right, y + size * 0.3);
        let [x, y, size] = [x, y, size].map(number);
        let fill = escape(fill);
        let _ = writeln!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"{}\" fill=\"{fill}\">{}</text>",
            anchor.word(),
            escape(text)
        );
    }

    /// Lines of text below one another from a point; where the next one would stand.
    pub(crate) fn lines(&mut self, [x, y]: [f64; 2], size: f64, lines: &[String]) -> f64 {
        let mut y = y;
        for line in lines {
            self.text([x, y + size], size, Anchor::Start, line);
            y += size * 1.4;
        }
        y
    }

    /// Another picture below this one.
    pub(crate) fn below(&mut self, other: &Canvas, gap: f64) {
        let y = if self.height > 0.0 { self.height + gap } else { 0.0 };
        let _ = writeln!(self.body, "<g transform=\"translate(0 {})\">\n{}</g>", number(y), other.body);
        self.reach(other.width, y + other.height);
    }

    /// The document.
    pub(crate) fn document(&self) -> String {
        const EDGE: f64 = 10.0;
        let [w, h] = [self.width, self.height].map(|x| number((x + 2.0 * EDGE).ceil()));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"-{EDGE} -{EDGE} {w} {h}\" \
             font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\">\n\
             <rect x=\"-{EDGE}\" y=\"-{EDGE}\" width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_numbers_are_short() {
        assert_eq!(escape("a<b & \"c\" 'd'\u{1}"), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;\u{fffd}");
        assert_eq!([number(1.0), number(-0.5), number(2.25), number(10.0)], ["1", "-0.5", "2.25", "10"]);
        assert_eq!(wrapped("one two three", 10.0, width_of("one two", 10.0) + 1.0), ["one two", "three"]);
        assert_eq!([colour(0.0, 1.0, 0.5), colour(1.0 / 3.0, 1.0, 0.5), colour(0.3, 0.0, 1.0)], ["#ff0000", "#00ff00", "#ffffff"]);
    }

    #[test]
    fn pictures_grow_with_what_is_drawn() {
        let mut a = Canvas::new();
        a.rect([0.0, 0.0, 10.0, 20.0], "#fff", None, Some("<x>"));
        let mut b = Canvas::new();
        b.below(&a, 5.0);
        b.below(&a, 5.0);
        assert_eq!(b.size(), [10.0, 45.0]);
        assert!(b.document().contains("width=\"30\" height=\"65\"") && b.document().contains("&lt;x&gt;"), "{}", b.document());
    }
}
