//! The parser's frame: files, kernel headers, blocks, names, and recovery after an error.
//!
//! An error in a line is reported once; the line (with its block, if it opens one) is skipped and its results become unknown, so
//! that later lines are still checked and do not repeat the complaint.

use super::error::{ParseCode, ParseError, ParseErrors, did_you_mean};
use super::file::{File, MAX_ERRORS, MAX_TEXT};
use super::lexer::{Comment, Tok, Token, lex};
use crate::entities::{Region, Value};
use crate::kernel::{Kernel, Loc};
use crate::layout::LayoutSpec;
use crate::types::Scalar;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// An error has been reported; what was being parsed cannot be finished.
pub(super) struct Skip;

/// The result of parsing something.
pub(super) type Parsed<T> = Result<T, Skip>;

/// What a text calls a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Name<'t> {
    /// `v12`.
    Number(u32),
    /// `%acc`.
    Word(&'t str),
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Number(n) => write!(f, "v{n}"),
            Name::Word(w) => write!(f, "%{w}"),
        }
    }
}

/// What a name stands for.
struct Binding {
    /// `None` if its definition has an error.
    value: Option<Value>,
    line: u32,
    /// False when its region has ended.
    open: bool,
}

/// The state of a parse.
pub(super) struct Parser<'t> {
    lines: Vec<&'t str>,
    tokens: Vec<Token<'t>>,
    at: usize,
    errors: Vec<ParseError>,
    more: bool,
    /// True when the missing end of this kernel is reported already.
    truncated: bool,
    /// A block of this kernel that was closed by a `}` further left than the line that opens it, and that `}`: the first one.
    misplaced: Option<(Loc, Loc)>,
    pub(super) kernel: Kernel,
    names: HashMap<Name<'t>, Binding>,
    /// The names of each open block.
    scopes: Vec<Vec<Name<'t>>>,
}

/// The kernels of a text.
///
/// # Errors
/// Up to [`MAX_ERRORS`] mistakes, each with its code, place and remedy.
pub fn parse(text: &str) -> Result<File, ParseErrors> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes, more than {MAX_TEXT}; split it into several", text.len());
        let e = ParseError::new(ParseCode::TooLarge, Loc::text(1, 1), 1, "", message);
        return Err(ParseErrors { errors: vec![e], more: false });
    }
    // Some editors put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut p, lexical, comments) = Parser::over(text);
    let mut file = p.file();
    file.comments = comments;
    p.done(lexical).map(|()| file)
}

/// A layout alone, as it stands in a `require_layout`.
///
/// # Errors
/// What is wrong with it, and what stands behind it.
pub fn parse_layout(text: &str) -> Result<LayoutSpec, ParseErrors> {
    let (mut p, lexical, _) = Parser::over(text);
    let found = p.layout().and_then(|spec| {
        p.skip_newlines();
        if p.peek().tok == Tok::End { Ok(spec) } else { Err(p.expected("the end of the layout")) }
    });
    p.done(lexical)?;
    // A parser that skips something says why.
    found.map_err(|Skip| ParseErrors { errors: Vec::new(), more: true })
}

impl<'t> Parser<'t> {
    /// A parser at the start of a text, what is wrong with its words, and its comments.
    fn over(text: &'t str) -> (Parser<'t>, Vec<ParseError>, Vec<Comment>) {
        let lexed = lex(text, MAX_ERRORS);
        let mut p = Parser {
            lines: text.split('\n').map(|l| l.strip_suffix('\r').unwrap_or(l)).collect(),
            tokens: lexed.tokens,
            at: 0,
            errors: Vec::new(),
            more: false,
            truncated: false,
            misplaced: None,
            kernel: Kernel::new(""),
            names: HashMap::new(),
            scopes: Vec::new(),
        };
        for e in lexed.errors {
            let line = p.line(e.loc);
            p.errors.push(ParseError::new(e.code, e.loc, e.len, line, e.message));
        }
        // The parser's own errors count separately, so that the limit does not depend on how far the lexer got.
        let lexical = std::mem::take(&mut p.errors);
        (p, lexical, lexed.comments)
    }

    /// All that is wrong, in order.
    fn done(self, lexical: Vec<ParseError>) -> Result<(), ParseErrors> {
        let mut errors = lexical;
        errors.extend(self.errors);
        errors.sort_by_key(|e| (e.loc.line, e.loc.col));
        let more = self.more || errors.len() > MAX_ERRORS;
        errors.truncate(MAX_ERRORS);
        if errors.is_empty() { Ok(()) } else { Err(ParseErrors { errors, more }) }
    }
}

/// A token as messages name it.
fn described(tok: Tok<'_>) -> String {
    match tok {
        Tok::Word(w) => format!("`{w}`"),
        Tok::Value(n) => format!("`v{n}`"),
        Tok::Name(w) => format!("`%{w}`"),
        Tok::Number { digits, suffix, .. } => format!("`{digits}{suffix}`"),
        Tok::MinusWord(w) => format!("`-{w}`"),
        Tok::Tile(s) => format!("`tile<{s}>`"),
        Tok::Shared(s) => format!("`shared<{s}>`"),
        Tok::Sign(c) => format!("`{c}`"),
        Tok::DotDot => "`..`".to_owned(),
        Tok::Newline => "the end of the line".to_owned(),
        Tok::Bad => "something unreadable".to_owned(),
        Tok::End => "the end of the text".to_owned(),
    }
}

impl<'t> Parser<'t> {
    pub(super) fn line(&self, loc: Loc) -> &'t str {
        self.lines.get(loc.line.saturating_sub(1) as usize).copied().unwrap_or("")
    }

    pub(super) fn peek(&self) -> Token<'t> {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Tok<'t> {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].tok
    }

    pub(super) fn bump(&mut self) -> Token<'t> {
        let t = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        t
    }

    /// True if the next token is the sign, which is taken.
    pub(super) fn eat(&mut self, sign: char) -> bool {
        let yes = self.peek().tok == Tok::Sign(sign);
        if yes {
            self.bump();
        }
        yes
    }

    /// True if the next token is the word, which is taken.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let yes = self.peek().tok == Tok::Word(word);
        if yes {
            self.bump();
        }
        yes
    }

    pub(super) fn expect(&mut self, sign: char) -> Parsed<()> {
        if self.eat(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    pub(super) fn skip_newlines(&mut self) {
        while self.peek().tok == Tok::Newline {
            self.bump();
        }
    }

    /// Reports a mistake at a token.
    pub(super) fn error(&mut self, code: ParseCode, token: Token<'_>, message: impl Into<String>) -> Skip {
        self.error_at(code, token.loc, token.len as usize, message.into())
    }

    fn error_at(&mut self, code: ParseCode, loc: Loc, len: usize, message: String) -> Skip {
        if self.errors.len() < MAX_ERRORS {
            let line = self.line(loc);
            self.errors.push(ParseError::new(code, loc, len, line, message));
        } else {
            self.more = true;
            self.at = self.tokens.len() - 1;
        }
        Skip
    }

    /// Reports that the next token should be something else.
    pub(super) fn expected(&mut self, what: &str) -> Skip {
        let t = self.peek();
        match t.tok {
            Tok::Bad => Skip,
            Tok::End => self.ended(what),
            tok => self.error(ParseCode::Expected, t, format!("expected {what}, found {}", described(tok))),
        }
    }

    /// Reports, once for a kernel, that it has no end.
    fn ended(&mut self, what: &str) -> Skip {
        if std::mem::replace(&mut self.truncated, true) {
            return Skip;
        }
        let t = self.peek();
        let found = if t.tok == Tok::End { "the text ends here" } else { "another kernel begins here" };
        self.error(ParseCode::Truncated, t, format!("{found}, but {what} is missing"))
    }

    /// Reports, once for a kernel, a block without its `}`, where it opens: what follows from that stands behind. Indentation tells which block it is,
    /// where a `}` further left has closed another than it should.
    fn unclosed(&mut self, open: Loc) -> Skip {
        if std::mem::replace(&mut self.truncated, true) {
            return Skip;
        }
        let t = self.peek();
        let found = if t.tok == Tok::End { "the text ends" } else { "another kernel begins" };
        let (at, why) = match self.misplaced {
            Some((inner, close)) => {
                (inner, format!("the one at {close} stands further left, and then {found} at {} with a block open", t.loc))
            }
            None => (open, format!("{found} at {}", t.loc)),
        };
        self.error_at(ParseCode::Truncated, at, 1, format!("`}}` is missing for this `{{`: {why}; close the block"))
    }

    /// The place of the token in front, and the column at which its line begins.
    fn opening(&self) -> (Loc, u32) {
        let at = self.at.saturating_sub(1);
        let open = self.tokens[at].loc;
        let first = self.tokens[..=at].iter().rev().take_while(|t| t.loc.line == open.line && t.tok != Tok::Newline).last();
        (open, first.map_or(open.col, |t| t.loc.col))
    }

    /// Notes a `}` that begins its line further left than the line of the block that it closes.
    fn closed(&mut self, open: Loc, indent: u32) {
        let (close, column) = self.opening();
        if close.line > open.line && close.col == column && column < indent {
            self.misplaced.get_or_insert((open, close));
        }
    }

    /// How many errors there are: when it changes, what was parsed meanwhile is not complete.
    pub(super) fn error_count(&self) -> (usize, bool) {
        (self.errors.len(), self.more)
    }

    fn at_kernel(&self) -> bool {
        let line_start = self.at == 0 || self.tokens[self.at - 1].tok == Tok::Newline;
        line_start && self.peek().tok == Tok::Word("kernel") && self.peek_at(1) == Tok::Sign('@')
    }

    /// Goes behind the line of an error, and behind the block that it opens.
    pub(super) fn recover(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.peek().tok {
                Tok::End => return,
                Tok::Newline if depth == 0 => return,
                Tok::Sign('}') if depth == 0 => return,
                Tok::Sign('}') => depth -= 1,
                Tok::Sign('{') => depth += 1,
                _ if self.at_kernel() => return,
                _ => {}
            }
            self.bump();
        }
    }

    fn file(&mut self) -> File {
        let (mut file, mut names) = (File::default(), HashSet::new());
        loop {
            self.skip_newlines();
            let start = self.peek();
            if start.tok == Tok::End {
                return file;
            }
            let before = self.error_count();
            (self.truncated, self.misplaced) = (false, None);
            if self.kernel_text().is_err() {
                while self.peek().tok != Tok::End && !self.at_kernel() {
                    self.bump();
                }
            }
            let kernel = std::mem::replace(&mut self.kernel, Kernel::new(""));
            if self.error_count() != before {
                continue;
            }
            if !names.insert(kernel.name.clone()) {
                self.error(ParseCode::KernelName, start, format!("@{} is the name of an earlier kernel; choose another", kernel.name));
                continue;
            }
            file.headers.push(start.loc);
            file.kernels.push(kernel);
        }
    }

    fn kernel_text(&mut self) -> Parsed<()> {
        self.names.clear();
        self.scopes = vec![Vec::new()];
        if !self.eat_word("kernel") {
            return Err(self.expected("`kernel @name(…) {`"));
        }
        self.expect('@')?;
        let t = self.peek();
        if !matches!(t.tok, Tok::Word(_) | Tok::Value(_)) {
            return Err(self.expected("the kernel's name"));
        }
        self.bump();
        let name: String = self.line(t.loc).chars().skip(t.loc.col as usize - 1).take(t.len as usize).collect();
        self.kernel = Kernel::new(&name);
        self.expect('(')?;
        self.skip_newlines();
        while !self.eat(')') {
            let (number, token) = self.value_name("a parameter such as v0: f32, or `)`")?;
            self.expect(':')?;
            let ty = self.type_text()?;
            let v = self.kernel.add_param(ty);
            self.bind(number, Some(v), token);
            self.skip_newlines();
            if !self.eat(',') && self.peek().tok != Tok::Sign(')') {
                return Err(self.expected("`,` or `)`"));
            }
            self.skip_newlines();
        }
        self.hints()?;
        self.expect('{')?;
        let body = self.kernel.body;
        self.block(body, &[])?;
        match self.peek().tok {
            Tok::Newline | Tok::End => Ok(()),
            _ => Err(self.expected("the end of the line")),
        }
    }

    fn hints(&mut self) -> Parsed<()> {
        while let Tok::Word(w) = self.peek().tok {
            let t = self.bump();
            if w == "cluster" {
                self.kernel.cluster = self.number("a number of program instances")?;
                if std::mem::replace(&mut self.kernel.hint_locs[2], t.loc) != Loc::default() {
                    return Err(self.error(ParseCode::Hint, t, "`cluster` is given twice; remove one"));
                }
                continue;
            }
            if w == "positions" {
                self.expect('[')?;
                for axis in 0..3 {
                    if axis > 0 {
                        self.expect(',')?;
                    }
                    self.kernel.positions[axis] = self.number("a number of grid positions")?;
                }
                self.expect(']')?;
                if std::mem::replace(&mut self.kernel.hint_locs[3], t.loc) != Loc::default() {
                    return Err(self.error(ParseCode::Hint, t, "`positions` is given twice; remove one"));
                }
                continue;
            }
            self.expect('=')?;
            let n = self.number("a number of warps or stages")?;
            let (slot, loc) = match w {
                "warps" => (&mut self.kernel.hints.warps, &mut self.kernel.hint_locs[0]),
                "stages" => (&mut self.kernel.hints.stages, &mut self.kernel.hint_locs[1]),
                _ => {
                    let near = did_you_mean(w, ["warps", "stages", "cluster", "positions"].into_iter());
                    return Err(self.error(
                        ParseCode::Hint,
                        t,
                        format!("there is no hint `{w}`, only `warps`, `stages`, `cluster` and `positions`{near}"),
                    ));
                }
            };
            *loc = t.loc;
            if slot.replace(n).is_some() {
                return Err(self.error(ParseCode::Hint, t, format!("`{w}` is given twice; remove one")));
            }
        }
        Ok(())
    }

    /// The instructions of a region up to its `}`; the `{` is taken already. `wants` are the element types that its `yield`
    /// gives to literals.
    pub(super) fn block(&mut self, r: Region, wants: &[Option<Scalar>]) -> Parsed<()> {
        let (open, indent) = self.opening();
        loop {
            self.skip_newlines();
            if self.peek().tok == Tok::End || self.at_kernel() {
                return Err(self.unclosed(open));
            }
            if self.eat('}') {
                self.closed(open, indent);
                return Ok(());
            }
            let done = self.inst(r, wants).and_then(|()| match self.peek().tok {
                Tok::Newline | Tok::End | Tok::Sign('}') => Ok(()),
                _ => Err(self.expected("the end of the line")),
            });
            if done.is_err() {
                self.recover();
            }
        }
    }

    /// Opens a scope for a block's names.
    pub(super) fn open(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Ends the scope.
    pub(super) fn close(&mut self) {
        for n in self.scopes.pop().unwrap_or_default() {
            if let Some(b) = self.names.get_mut(&n) {
                b.open = false;
            }
        }
    }

    /// How many blocks are open.
    pub(super) fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// The name of a value that is defined here.
    pub(super) fn value_name(&mut self, what: &str) -> Parsed<(Name<'t>, Token<'t>)> {
        match self.name_here() {
            Some((name, token)) => {
                self.bump();
                Ok((name, token))
            }
            None => Err(self.expected(what)),
        }
    }

    /// The name that the next token is, which stays.
    pub(super) fn name_here(&self) -> Option<(Name<'t>, Token<'t>)> {
        let t = self.peek();
        match t.tok {
            Tok::Value(n) => Some((Name::Number(n), t)),
            Tok::Name(w) => Some((Name::Word(w), t)),
            _ => None,
        }
    }

    /// Gives a name to a value, or to the result of a mistake. One whose block has ended is free again.
    pub(super) fn bind(&mut self, name: Name<'t>, value: Option<Value>, token: Token<'_>) {
        if let Some(b) = self.names.get(&name).filter(|b| b.open) {
            let line = b.line;
            let other = if let Name::Number(_) = name { "number" } else { "name" };
            self.error(ParseCode::Redefined, token, format!("{name} is defined on line {line} already; use another {other}"));
            return;
        }
        if let (Name::Word(w), Some(v)) = (name, value) {
            self.kernel.names[v] = Some(w.into());
        }
        self.names.insert(name, Binding { value, line: token.loc.line, open: true });
        if let Some(s) = self.scopes.last_mut() {
            s.push(name);
        }
    }

    /// Gives names without a value to what could not be parsed; names that are taken stay.
    pub(super) fn bind_unknown(&mut self, names: &[(Name<'t>, Token<'t>)]) {
        for &(n, token) in names {
            if !self.names.get(&n).is_some_and(|b| b.open) {
                self.bind(n, None, token);
            }
        }
    }

    /// The value of a name; `None`, and an error if it is the first, for what has no value.
    pub(super) fn lookup(&mut self, name: Name<'t>, token: Token<'_>) -> Option<Value> {
        match self.names.get(&name) {
            Some(b) if b.open => b.value,
            Some(b) => {
                let line = b.line;
                let message = format!(
                    "{name} of line {line} belongs to a block that has ended; yield it, and use the result of the block's instruction"
                );
                self.error(ParseCode::Scope, token, message);
                None
            }
            None => {
                let what = if let Name::Number(_) = name { "number" } else { "name" };
                self.error(ParseCode::Undefined, token, format!("{name} is not defined before this place; define it, or check the {what}"));
                None
            }
        }
    }
}
