//! The lexer: a text as tokens with places, and its comments.
//!
//! A newline is a token, because an instruction ends with its line. A shape such as `128x64xbf16` would lex as a number with a
//! suffix, so `tile<…>` and `shared<…>` are one token whose inside the type parser splits.

use super::error::ParseCode;
use crate::kernel::Loc;

/// A comment of a text, without the `;`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    /// Its line, from 1.
    pub line: u32,
    /// True if nothing but the comment stands on the line.
    pub own_line: bool,
    /// The text behind the `;`, without white space around it.
    pub text: String,
}

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tok<'t> {
    /// A word, not `v<number>`.
    Word(&'t str),
    /// `v<number>`.
    Value(u32),
    /// `%name`, the name of a value.
    Name(&'t str),
    /// A number as written, split before its suffix; `float` if it has a fraction or an exponent.
    Number { digits: &'t str, suffix: &'t str, float: bool },
    /// `-` in front of a word, as in `-inf`.
    MinusWord(&'t str),
    /// `tile<…>`, the inside.
    Tile(&'t str),
    /// `shared<…>`, the inside.
    Shared(&'t str),
    /// One of `( ) { } [ ] < > , : = @ % ?`.
    Sign(char),
    /// `..`.
    DotDot,
    /// The end of a line.
    Newline,
    /// Something that was reported already.
    Bad,
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub tok: Tok<'t>,
    pub loc: Loc,
    /// Characters (tokens are ASCII).
    pub len: u32,
}

/// A mistake of the lexer.
pub(super) struct LexError {
    pub code: ParseCode,
    pub loc: Loc,
    pub len: usize,
    pub message: String,
}

/// The tokens of a text.
pub(super) struct Lexed<'t> {
    pub tokens: Vec<Token<'t>>,
    pub comments: Vec<Comment>,
    pub errors: Vec<LexError>,
    /// Mistakes that are shown: one more is enough to say that there are more.
    most: usize,
}

impl Lexed<'_> {
    /// Takes note of a mistake, as long as somebody reads it: a text may have one for every byte.
    fn error(&mut self, e: LexError) {
        if self.errors.len() <= self.most {
            self.errors.push(e);
        }
    }
}

/// The bytes from `from` on that satisfy a test.
fn run(bytes: &[u8], from: usize, test: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().take_while(|&&b| test(b)).count()
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// The tokens of a text, and so many of its mistakes and one more.
pub(super) fn lex(text: &str, most: usize) -> Lexed<'_> {
    let mut out = Lexed { tokens: Vec::new(), comments: Vec::new(), errors: Vec::new(), most };
    let mut line_no = 0;
    for line in text.split('\n') {
        line_no += 1;
        lex_line(line.strip_suffix('\r').unwrap_or(line), line_no, &mut out);
    }
    out.tokens.pop(); // The last line ends with the text, not with a newline.
    // The end stands behind the last character, on the last line that has one, so that a message can show it.
    let last =
        out.tokens.iter().rev().find(|t| t.tok != Tok::Newline).map_or(Loc::text(1, 1), |t| Loc::text(t.loc.line, t.loc.col + t.len));
    out.tokens.push(Token { tok: Tok::End, loc: last, len: 1 });
    out
}

fn lex_line<'t>(line: &'t str, number: u32, out: &mut Lexed<'t>) {
    let bytes = line.as_bytes();
    let mut at = 0;
    // Columns count characters; tokens are ASCII, so bytes and characters differ only behind a bad character.
    let mut extra = 0;
    let first = out.tokens.len();
    while at < bytes.len() {
        let b = bytes[at];
        let loc = Loc::text(number, (at - extra) as u32 + 1);
        if b.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if b == b';' {
            out.comments.push(Comment { line: number, own_line: out.tokens.len() == first, text: line[at + 1..].trim().to_owned() });
            break;
        }
        let (tok, len) = match b {
            b'%' if bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') => {
                let n = 1 + run(bytes, at + 1, is_word);
                (Tok::Name(&line[at + 1..at + n]), n)
            }
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b':' | b'=' | b'@' | b'%' | b'?' => {
                (Tok::Sign(char::from(b)), 1)
            }
            b'.' if bytes.get(at + 1) == Some(&b'.') => (Tok::DotDot, 2),
            b'0'..=b'9' => number_token(line, at, loc, out),
            b'-' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => number_token(line, at, loc, out),
            b'-' if bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic) => {
                let n = 1 + run(bytes, at + 1, is_word);
                (Tok::MinusWord(&line[at + 1..at + n]), n)
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => word_token(line, at, loc, out),
            _ => {
                let c = line[at..].chars().next().unwrap_or(' ');
                out.error(LexError { code: ParseCode::Character, loc, len: 1, message: format!("no token begins with {c:?}; remove it") });
                extra += c.len_utf8() - 1;
                (Tok::Bad, c.len_utf8())
            }
        };
        // What was reported stands for all of its kind behind it.
        let again = tok == Tok::Bad && out.tokens[first..].last().is_some_and(|t| t.tok == Tok::Bad);
        if !again {
            out.tokens.push(Token { tok, loc, len: len as u32 });
        }
        at += len;
    }
    let end = line.chars().count() as u32 + 1;
    out.tokens.push(Token { tok: Tok::Newline, loc: Loc::text(number, end), len: 1 });
}

fn number_token<'t>(line: &'t str, at: usize, loc: Loc, out: &mut Lexed<'t>) -> (Tok<'t>, usize) {
    let bytes = line.as_bytes();
    let digit = |b: u8| b.is_ascii_digit();
    let mut n = usize::from(bytes[at] == b'-');
    n += run(bytes, at + n, digit);
    let mut float = false;
    // `0..v7` is a range, not a fraction.
    if bytes.get(at + n) == Some(&b'.') && bytes.get(at + n + 1) != Some(&b'.') {
        float = true;
        let fraction = run(bytes, at + n + 1, digit);
        n += 1 + fraction;
        if fraction == 0 {
            let message = format!("a fraction needs a digit: write {}0", &line[at..at + n]);
            out.error(LexError { code: ParseCode::Number, loc, len: n, message });
            return (Tok::Bad, n + run(bytes, at + n, is_word));
        }
    }
    if matches!(bytes.get(at + n), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + n + 1), Some(b'-' | b'+')));
        let exponent = bytes.get(at + n + 1 + sign..).map_or(0, |_| run(bytes, at + n + 1 + sign, digit));
        if exponent > 0 {
            float = true;
            n += 1 + sign + exponent;
        }
    }
    let suffix = run(bytes, at + n, is_word);
    (Tok::Number { digits: &line[at..at + n], suffix: &line[at + n..at + n + suffix], float }, n + suffix)
}

fn word_token<'t>(line: &'t str, at: usize, loc: Loc, out: &mut Lexed<'t>) -> (Tok<'t>, usize) {
    let bytes = line.as_bytes();
    let n = run(bytes, at, is_word);
    let word = &line[at..at + n];
    if matches!(word, "tile" | "shared") && bytes.get(at + n) == Some(&b'<') {
        let inside = run(bytes, at + n + 1, |b| is_word(b) || b == b' ');
        if bytes.get(at + n + 1 + inside) == Some(&b'>') {
            let shape = line[at + n + 1..at + n + 1 + inside].trim();
            return (if word == "tile" { Tok::Tile(shape) } else { Tok::Shared(shape) }, n + inside + 2);
        }
        out.error(LexError {
            code: ParseCode::Expected,
            loc,
            len: n + 1 + inside,
            message: format!("a {word} type ends with `>`: {word}<128x64xf32>"),
        });
        return (Tok::Bad, n + 1 + inside);
    }
    if let Some(digits) = word.strip_prefix('v')
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
    {
        if let Ok(number) = digits.parse() {
            return (Tok::Value(number), n);
        }
        out.error(LexError {
            code: ParseCode::Range,
            loc,
            len: n,
            message: format!("value numbers go up to v{}; use a smaller one", u32::MAX),
        });
        return (Tok::Bad, n);
    }
    (Tok::Word(word), n)
}
