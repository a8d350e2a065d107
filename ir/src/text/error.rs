//! What the parser says: codes, places, the guilty line, the remedy.

use crate::kernel::Loc;
use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident $text:literal,)*) => {
        /// What is wrong with a text; the text of the code (`P0301`) is stable.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum ParseCode { $($(#[doc = $doc])+ $variant,)* }

        impl ParseCode {
            /// Every code, in order.
            pub const ALL: &'static [ParseCode] = &[$(ParseCode::$variant,)*];
            /// The stable text, such as `P0301`.
            pub const fn text(self) -> &'static str { match self { $(ParseCode::$variant => $text,)* } }
            /// What it means.
            pub const fn doc(self) -> &'static str { match self { $(ParseCode::$variant => concat!($($doc, "\n"),+),)* } }
        }
    };
}

codes! {
    /// A character that no token begins with.
    Character "P0101",
    /// A number that is not well formed, or has an unknown suffix.
    Number "P0102",
    /// A number outside the range of its place.
    Range "P0103",
    /// A text of more than 16 MiB.
    TooLarge "P0104",

    /// Something else is expected here.
    Expected "P0201",
    /// The text ends inside a kernel.
    Truncated "P0202",
    /// Regions nest deeper than 64.
    Nesting "P0203",
    /// Two kernels have one name.
    KernelName "P0204",
    /// A hint that does not exist, or is given twice.
    Hint "P0205",

    /// No op has that name.
    Op "P0301",
    /// The attribute of the op has no such word.
    Word "P0302",
    /// No type has that name.
    TypeName "P0303",
    /// A keyword operand that the op does not have, or that is given twice.
    Keyword "P0304",
    /// The number of names before `=` is not the number of results.
    Results "P0305",
    /// `const` written as an instruction.
    Const "P0306",
    /// The number of indices is not the rank of the view.
    Indices "P0307",

    /// A value that nothing defines before this place.
    Undefined "P0401",
    /// A name that is defined already.
    Redefined "P0402",
    /// A value of a region that has ended.
    Scope "P0403",
    /// A literal that is no value of the type that its place asks for.
    Literal "P0404",

    /// The types do not fit the op.
    Types "P0501",
    /// A tile or view type outside the limits.
    TypeLimits "P0502",
}

impl fmt::Display for ParseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A mistake in a text. `Display` shows the line with the guilty part underlined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// What kind of mistake.
    pub code: ParseCode,
    /// Where it begins.
    pub loc: Loc,
    /// How many characters are guilty; at least 1.
    pub len: u32,
    /// The line of the text (a window of it, if it is very long).
    pub line: String,
    /// Characters cut off in front of `line`.
    pub cut: u32,
    /// What is wrong and how to mend it.
    pub message: String,
}

/// A line longer than this is cut around the guilty part.
const WINDOW: usize = 160;

impl ParseError {
    /// Makes the error of a place in a text; `line` is the whole line.
    pub(super) fn new(code: ParseCode, loc: Loc, len: usize, line: &str, message: String) -> ParseError {
        let col = loc.col.saturating_sub(1) as usize;
        let long = line.chars().nth(WINDOW).is_some();
        let cut = if long { col.saturating_sub(WINDOW / 2) } else { 0 };
        // Control characters and tabs would shift the underline.
        let line: String = line.chars().skip(cut).take(WINDOW).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let room = line.chars().count().saturating_sub(col - cut).max(1);
        ParseError { code, loc, len: len.clamp(1, room) as u32, line, cut: cut as u32, message }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.loc.line.to_string();
        let pad = " ".repeat(number.len());
        let indent = " ".repeat((self.loc.col - 1 - self.cut) as usize);
        writeln!(f, "error[{}]: {}", self.code, self.message)?;
        writeln!(f, "{pad}--> {}:{}", self.loc.line, self.loc.col)?;
        writeln!(f, "{pad} |")?;
        writeln!(f, "{number} | {}", self.line)?;
        write!(f, "{pad} | {indent}^{}", "~".repeat(self.len as usize - 1))
    }
}
impl std::error::Error for ParseError {}

/// The mistakes of a text, in order; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseErrors {
    /// The first [`super::file::MAX_ERRORS`] mistakes.
    pub errors: Vec<ParseError>,
    /// True if the parser stopped because there were more.
    pub more: bool,
}

impl ParseErrors {
    /// True if one of the errors has the code.
    pub fn has(&self, code: ParseCode) -> bool {
        self.errors.iter().any(|e| e.code == code)
    }
}

impl fmt::Display for ParseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            e.fmt(f)?;
        }
        if self.more {
            write!(f, "\n\nthere are more errors; mend these {} first", self.errors.len())?;
        }
        Ok(())
    }
}
impl std::error::Error for ParseErrors {}

/// The word nearest to a misspelt one, as `; did you mean …?`, or nothing if none is near.
pub(super) fn did_you_mean<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> String {
    nearest(wrong, words).map_or_else(String::new, |w| format!("; did you mean `{w}`?"))
}

/// The word nearest to a misspelt one, if one is near.
pub fn nearest<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.len() > 32 {
        return None;
    }
    let limit = if wrong.chars().count() <= 3 { 1 } else { 2 };
    words.map(|w| (distance(wrong, w), w)).min().filter(|&(d, _)| d <= limit).map(|(_, w)| w)
}

/// Edit distance with transpositions of neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut d = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(rows[i - 2][j - 2] + 1);
            }
            row.push(d);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
