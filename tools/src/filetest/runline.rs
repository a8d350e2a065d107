//! The `; run:` line: which kernel to launch, with which tensors, and what must come out.
//!
//! ```text
//! run: @name(grid=[4, 1], v0=rand:7[1000], v1=2.5, out v2=[1000]) tol rel=1e-6 abs=1e-7 == v2 {1, 2, 3}
//!      kernel  grid        parameter 0      1       2 (written)   interpreter ⇄ device   explicit expectation
//!
//! tensor  = [init] "[" extents "]" [ "@" "[" strides "]" ] [ "+" bytes ]
//! init    = rand:SEED [ ":" LO ".." HI ] | bits:SEED | edge | edge2 | iota | zeros | ones | fill:NUMBER | {n, n, …} | file:PATH
//! ```
//!
//! A tensor without `init` is poison until the kernel writes it. Parameters are numbered as the printer numbers them, or named as the kernel's text
//! names them (`%x=…`).

use std::fmt;

/// A number of a run line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// Written without point, exponent or name.
    Int(i64),
    /// Any other.
    Float(f64),
}

impl Number {
    /// The value as `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(x) => x,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(i) => write!(f, "{i}"),
            Number::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// What a tensor holds in front of the launch.
#[derive(Clone, PartialEq, Debug)]
pub enum Init {
    /// Nothing: reading it is an error.
    Poison,
    /// Seeded normal deviates; integers are uniform over the type.
    Rand(u64),
    /// Seeded numbers, uniform from the first to the second; of integers both may be there.
    Uniform(u64, [Number; 2]),
    /// Seeded uniform bits: every NaN, infinity and denormal may appear.
    Bits(u64),
    /// The edge values of the element type, in a cycle; with `edge2` each is repeated as often as there are edge values, so that
    /// `edge` beside `edge2` makes every pair.
    Edge {
        /// True for `edge2`.
        slow: bool,
    },
    /// 0, 1, 2, …
    Iota,
    /// One number everywhere.
    Fill(Number),
    /// The numbers, in row-major order.
    Values(Vec<Number>),
    /// The bytes of a file: elements in row-major order as memory holds them, little-endian.
    File(String),
}

/// A tensor argument.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Contents.
    pub init: Init,
    /// Extents.
    pub shape: Vec<i64>,
    /// Strides in elements, if not those of a dense tensor.
    pub strides: Option<Vec<i64>>,
    /// Where the tensor starts in its buffer, in bytes.
    pub offset: u64,
}

/// What a parameter is given.
#[derive(Clone, PartialEq, Debug)]
pub enum ArgSpec {
    /// A number.
    Scalar(Number),
    /// A tensor in a buffer of its own.
    Tensor(Tensor),
}

/// How far a device may be from the interpreter.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tolerance {
    /// Relative to the interpreter's number.
    pub rel: f64,
    /// Absolute.
    pub abs: f64,
}

impl Tolerance {
    /// As [`Tolerance::accepts`], but integers are compared as such, and only a tolerance makes floats of them.
    pub fn accepts_number(&self, want: Number, got: Number) -> bool {
        match (want, got) {
            (Number::Int(a), Number::Int(b)) if a == b || *self == Tolerance::default() => a == b,
            (Number::Int(_) | Number::Float(_), Number::Int(_) | Number::Float(_)) => self.accepts(want.as_f64(), got.as_f64()),
        }
    }

    /// True if `got` is as good as `want`: both NaN, the same number with the same sign, or within the tolerance.
    pub fn accepts(&self, want: f64, got: f64) -> bool {
        (want.is_nan() && got.is_nan())
            || want.to_bits() == got.to_bits()
            || (*self != Tolerance::default() && want.is_finite() && (want - got).abs() <= self.abs + self.rel * want.abs())
    }
}

/// An explicit expectation about a tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// Parameter number.
    pub param: usize,
    /// What the line calls it.
    pub name: String,
    /// True for `~=`: within the line's tolerance; else equal.
    pub near: bool,
    /// All elements in row-major order.
    pub want: Want,
}

/// What a tensor must hold.
#[derive(Clone, PartialEq, Debug)]
pub enum Want {
    /// These numbers.
    Values(Vec<Number>),
    /// What a file holds, as [`Init::File`].
    File(String),
}

/// A parsed run line.
#[derive(Clone, PartialEq, Debug)]
pub struct RunLine {
    /// Line number in the file, from 1.
    pub line: u32,
    /// Kernel name.
    pub kernel: String,
    /// Grid.
    pub grid: [u32; 3],
    /// Arguments by parameter number.
    pub args: Vec<ArgSpec>,
    /// What the line calls the parameters: `v0`, or `%x`.
    pub names: Vec<String>,
    /// Tolerance between interpreter and devices.
    pub tolerance: Tolerance,
    /// Explicit expectations.
    pub expect: Vec<Expect>,
    /// The launch must be refused with a message that contains this.
    pub fails: Option<String>,
}

/// Steps of a run line's launch on the reference interpreter, and programs of its grid, unless another bound is asked for.
pub const MOST_STEPS: u64 = 1 << 22;

impl RunLine {
    /// What the line calls a parameter.
    pub fn name(&self, param: usize) -> String {
        self.names.get(param).cloned().unwrap_or_else(|| format!("v{param}"))
    }

    /// Says where a name of the line is not the parameter's name in the text of its kernel, whose header lists them in order.
    ///
    /// # Errors
    /// A sentence with both names.
    pub fn fits_header(&self, text: &str) -> Result<(), String> {
        if !self.names.iter().any(|n| n.starts_with('%')) {
            return Ok(());
        }
        let Some(params) = header_names(text, &self.kernel) else { return Ok(()) };
        for (n, name) in self.names.iter().enumerate().filter(|(_, name)| name.starts_with('%')) {
            match params.get(n) {
                Some(own) if own == name => {}
                Some(own) => return Err(format!("argument {n} of @{} is {own}, and the line gives {name} there", self.kernel)),
                None => return Err(format!("@{} has {} parameters, and none for {name}", self.kernel, params.len())),
            }
        }
        Ok(())
    }

    /// Refuses a grid of more programs than the bound on steps, of which each takes at least one. What must be refused in any case may ask
    /// for any grid.
    ///
    /// # Errors
    /// A sentence with both numbers.
    pub fn bounded(&self, steps: Option<u64>) -> Result<(), String> {
        let programs = self.grid.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
        let most = steps.unwrap_or(MOST_STEPS);
        if programs > most && self.fails.is_none() {
            return Err(format!(
                "the grid has {programs} programs, more than the {most} that are allowed; use a smaller grid, or allow more (`--steps`)"
            ));
        }
        Ok(())
    }
}

/// The names of a kernel's parameters, in front of their types, as its text has them.
fn header_names(text: &str, kernel: &str) -> Option<Vec<String>> {
    let code: Vec<&str> = text.lines().map(|l| l.split(';').next().unwrap_or(l)).collect();
    let code = code.join("\n");
    let head = format!("@{kernel}");
    let mut found = code.match_indices(&head).map(|(at, _)| (&code[..at], code[at + head.len()..].trim_start()));
    let (_, behind) = found.find(|(front, behind)| front.trim_end().ends_with("kernel") && behind.starts_with('('))?;
    // Facts of views have brackets of their own.
    let (mut depth, mut end) = (0i32, None);
    for (i, c) in behind.char_indices() {
        depth += i32::from("([<".contains(c)) - i32::from(")]>".contains(c));
        if depth == 0 {
            end = Some(i);
            break;
        }
    }
    let list = behind.get(1..end?)?;
    let (mut names, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (i, c) in list.char_indices().chain([(list.len(), ',')]) {
        depth += i32::from("([<".contains(c)) - i32::from(")]>".contains(c));
        if c == ',' && depth == 0 {
            let part = list[start..i].trim();
            if !part.is_empty() {
                names.push(part.split(':').next().unwrap_or(part).trim().to_owned());
            }
            start = i + 1;
        }
    }
    Some(names)
}

/// A run line that does not parse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLineError {
    /// Character position in the directive's text, from 1.
    pub col: usize,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl RunLineError {
    /// The same, counted from the beginning of a line that has so many characters in front of the directive's text.
    pub(crate) fn behind(self, before: usize) -> RunLineError {
        RunLineError { col: self.col + before, ..self }
    }
}

impl fmt::Display for RunLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run line, character {}: {}", self.col, self.message)
    }
}
impl std::error::Error for RunLineError {}

/// The most elements that a run line may ask for in one tensor.
pub const MAX_ELEMENTS: i64 = 1 << 26;

struct Scan<'t> {
    text: &'t str,
    at: usize,
    /// The most elements of a tensor.
    most: i64,
}

type Parsed<T> = Result<T, RunLineError>;

impl<'t> Scan<'t> {
    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(RunLineError { col: self.text[..self.at].chars().count() + 1, message: message.into() })
    }
    fn space(&mut self) {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start().len();
    }
    fn peek(&mut self) -> Option<char> {
        self.space();
        self.text[self.at..].chars().next()
    }
    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let hit = self.text[self.at..].starts_with(token);
        if hit {
            self.at += token.len();
        }
        hit
    }
    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { self.error(format!("`{token}` is expected here")) }
    }
    /// Letters, digits, `_`, `.`, `-`, `+` (signs only in front or behind an exponent's `e`).
    fn word(&mut self) -> &'t str {
        self.space();
        let rest = &self.text[self.at..];
        let mut before = ' ';
        let end = rest
            .char_indices()
            .find(|&(i, c)| {
                // A sign stands in front of a number, an exponent, or the upper end of a range.
                let sign = (c == '-' || c == '+') && (i == 0 || matches!(before, 'e' | 'E' | '.'));
                let part = c.is_alphanumeric() || c == '_' || c == '.' || sign;
                before = c;
                !part
            })
            .map_or(rest.len(), |(i, _)| i);
        self.at += end;
        &rest[..end]
    }
    fn number(&mut self) -> Parsed<Number> {
        self.space();
        let start = self.at;
        let word = self.word();
        let number = match word {
            "true" => Some(Number::Int(1)),
            "false" => Some(Number::Int(0)),
            w => w.parse().ok().map(Number::Int).or_else(|| w.parse().ok().map(Number::Float)),
        };
        match number {
            Some(n) => Ok(n),
            None if matches!(word, "out" | "inout") => {
                self.at = start;
                self.error(format!("`{word}` stands in front of the name: `{word} %x=…`"))
            }
            None => {
                self.at = start;
                self.error(format!("`{word}` is no number; write 7, -1.5, inf, nan or true"))
            }
        }
    }
    fn int(&mut self, what: &str, max: i64) -> Parsed<i64> {
        let start = self.at;
        match self.number()? {
            Number::Int(i) if (0..=max).contains(&i) => Ok(i),
            n => {
                self.at = start;
                self.error(format!("{what} {} is not in 0..={max}", n.as_f64()))
            }
        }
    }
    fn ints(&mut self, what: &str, max: i64) -> Parsed<Vec<i64>> {
        self.expect("[")?;
        let mut list = vec![self.extent(what, max)?];
        let between = if self.peek() == Some('x') { "x" } else { "," };
        while self.eat(between) {
            list.push(self.extent(what, max)?);
        }
        if matches!(self.peek(), Some(',' | 'x')) {
            return self
                .error("numbers of one list stand between commas, or between `x`; strides have a list of their own: `[4x8]@[16, 1]`");
        }
        self.expect("]")?;
        Ok(list)
    }
    /// Digits only, because an `x` may follow them.
    fn extent(&mut self, what: &str, max: i64) -> Parsed<i64> {
        self.space();
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        match digits.parse() {
            Ok(n) if n <= max => {
                self.at += digits.len();
                Ok(n)
            }
            _ => self.error(format!("a number from 0 to {max} is expected here ({what})")),
        }
    }
    fn numbers(&mut self) -> Parsed<Vec<Number>> {
        self.expect("{")?;
        let mut list = Vec::new();
        while !self.eat("}") {
            if !list.is_empty() {
                self.expect(",")?;
            }
            list.push(self.number()?);
        }
        Ok(list)
    }
    /// A path: up to a bracket, a comma or a space, or between quotation marks.
    fn path(&mut self) -> Parsed<String> {
        self.expect(":")?;
        let rest = self.text[self.at..].trim_start();
        let path = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map(|(path, _)| (path, path.len() + 2)),
            None => {
                let end = rest.find(|c: char| c.is_whitespace() || "[](){},".contains(c)).unwrap_or(rest.len());
                Some((&rest[..end], end))
            }
        };
        match path {
            Some((path, len)) if !path.is_empty() => {
                self.space();
                self.at += len;
                Ok(path.to_owned())
            }
            Some(_) | None => self.error("a path is expected here: file:data/x.bin, or file:\"…\" around spaces and brackets"),
        }
    }
    /// The number of a parameter. One that is called by its name, as in the kernel's text, is `named` already, or else the next one.
    fn param(&mut self, named: &[String]) -> Parsed<(usize, String)> {
        self.space();
        let start = self.at;
        if self.eat("%") {
            let name = format!("%{}", self.word());
            let n = named.iter().position(|n| *n == name).unwrap_or(named.len());
            return Ok((n, name));
        }
        let word = self.word();
        match word.strip_prefix('v').and_then(|n| n.parse().ok()) {
            Some(n) => Ok((n, word.to_owned())),
            None => {
                self.at = start;
                self.error(format!(
                    "`{word}` is no parameter; write v0, v1, … as the printer numbers them, or %x, %y, … as the kernel names them"
                ))
            }
        }
    }
    fn tensor(&mut self, init: Init) -> Parsed<ArgSpec> {
        let shape = self.ints("extent", i64::from(i32::MAX))?;
        let strides = if self.eat("@") { Some(self.ints("stride", i64::from(i32::MAX))?) } else { None };
        let offset = if self.eat("+") { self.int("offset", self.most)? as u64 } else { 0 };
        let count = |steps: &mut dyn Iterator<Item = i64>| steps.fold(1i64, |n, e| n.saturating_mul(e.max(1)));
        let reach = match &strides {
            Some(s) => shape.iter().zip(s).fold(1i64, |n, (&e, &s)| n.saturating_add((e - 1).max(0).saturating_mul(s))),
            None => count(&mut shape.iter().copied()),
        };
        if reach > self.most {
            return self.error(format!("the tensor takes {reach} elements; a run line may ask for {}", self.most));
        }
        if strides.as_ref().is_some_and(|s| s.len() != shape.len()) {
            return self.error("there must be one stride per extent");
        }
        if let Init::Values(v) = &init
            && v.len() as i64 != shape.iter().product::<i64>()
        {
            return self.error(format!("{} numbers are given for {} elements", v.len(), shape.iter().product::<i64>()));
        }
        Ok(ArgSpec::Tensor(Tensor { init, shape, strides, offset }))
    }
    fn value(&mut self) -> Parsed<ArgSpec> {
        match self.peek() {
            Some('[') => return self.tensor(Init::Poison),
            Some('{') => {
                let values = self.numbers()?;
                if self.peek() == Some('[') {
                    return self.tensor(Init::Values(values));
                }
                let shape = vec![values.len() as i64];
                return Ok(ArgSpec::Tensor(Tensor { init: Init::Values(values), shape, strides: None, offset: 0 }));
            }
            Some(_) | None => {}
        }
        let start = self.at;
        let init = match self.word() {
            "rand" => {
                let seed = self.seed()?;
                if self.eat(":") { Init::Uniform(seed, self.range()?) } else { Init::Rand(seed) }
            }
            "bits" => Init::Bits(self.seed()?),
            "edge" => Init::Edge { slow: false },
            "edge2" => Init::Edge { slow: true },
            "iota" => Init::Iota,
            "zeros" => Init::Fill(Number::Int(0)),
            "ones" => Init::Fill(Number::Int(1)),
            "file" => Init::File(self.path()?),
            "fill" => {
                self.expect(":")?;
                Init::Fill(self.number()?)
            }
            _ => {
                self.at = start;
                return self.number().map(ArgSpec::Scalar);
            }
        };
        self.tensor(init)
    }
    /// `LO..HI`.
    fn range(&mut self) -> Parsed<[Number; 2]> {
        self.space();
        let start = self.at;
        let ends = self.word().split_once("..").map(|(lo, hi)| [lo, hi].map(|w| Scan { text: w, at: 0, most: self.most }.number()));
        match ends {
            Some([Ok(lo), Ok(hi)]) if lo.as_f64() <= hi.as_f64() && (hi.as_f64() - lo.as_f64()).is_finite() => Ok([lo, hi]),
            _ => {
                self.at = start;
                self.error("two numbers are expected here, the lower one first: `rand:1:-0.5..0.5`")
            }
        }
    }
    fn seed(&mut self) -> Parsed<u64> {
        self.expect(":")?;
        self.int("seed", i64::MAX).map(|s| s as u64)
    }
}

/// Parses the text behind `run:`.
///
/// # Errors
/// The first mistake.
pub fn parse(line: u32, text: &str) -> Result<RunLine, RunLineError> {
    parse_within(line, text, MAX_ELEMENTS)
}

/// The same with tensors of up to so many elements.
///
/// # Errors
/// The first mistake.
pub fn parse_within(line: u32, text: &str, most: i64) -> Result<RunLine, RunLineError> {
    let mut s = Scan { text, at: 0, most };
    s.expect("@")?;
    let kernel = s.word().to_owned();
    s.expect("(")?;
    s.expect("grid")?;
    s.expect("=")?;
    let extents =
        if s.peek() == Some('[') { s.ints("grid extent", i64::from(i32::MAX))? } else { vec![s.int("grid extent", i64::from(i32::MAX))?] };
    if extents.len() > 3 {
        return s.error("a grid has at most three extents");
    }
    let mut grid = [1u32; 3];
    grid.iter_mut().zip(&extents).for_each(|(g, &e)| *g = e as u32);
    let (mut args, mut names) = (Vec::new(), Vec::new());
    while s.eat(",") {
        let out = s.eat("inout ") || s.eat("out ");
        let (param, name) = s.param(&names)?;
        if param != args.len() {
            return s.error(format!("parameter {name} is given where v{} belongs", args.len()));
        }
        s.expect("=")?;
        let value = s.value()?;
        let poison = matches!(&value, ArgSpec::Tensor(t) if t.init == Init::Poison);
        if poison && !out {
            return s.error(format!("{name} holds nothing; write `out {name}=` or say what it holds"));
        }
        args.push(value);
        names.push(name);
    }
    s.expect(")")?;
    let mut run = RunLine { line, kernel, grid, args, names, tolerance: Tolerance::default(), expect: Vec::new(), fails: None };
    while s.peek().is_some() {
        if s.eat("tol ") {
            let mut any = false;
            loop {
                let field = if s.eat("rel") {
                    &mut run.tolerance.rel
                } else if s.eat("abs") {
                    &mut run.tolerance.abs
                } else {
                    break;
                };
                s.expect("=")?;
                let bound = s.number()?.as_f64();
                if !(bound.is_finite() && bound >= 0.0) {
                    return s.error("a tolerance is a number from 0 on, such as `rel=1e-3`");
                }
                *field = bound;
                any = true;
            }
            if !any {
                return s.error("`tol` is followed by rel=… or abs=…");
            }
        } else if s.eat("fails:") {
            s.space();
            run.fails = Some(s.text[s.at..].trim_end().to_owned());
            s.at = s.text.len();
        } else {
            let near = s.eat("~=");
            if !near && !s.eat("==") {
                return s.error("`tol`, `==`, `~=` or `fails:` is expected here");
            }
            let (param, name) = s.param(&run.names)?;
            if !matches!(run.args.get(param), Some(ArgSpec::Tensor(_))) {
                return s.error(format!("{name} is no tensor of this line"));
            }
            let want = if s.eat("file") { Want::File(s.path()?) } else { Want::Values(s.numbers()?) };
            run.expect.push(Expect { param, name, near, want });
        }
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_line_parses() {
        let r = parse(3, "@k(grid=[4, 2], v0=rand:7[33x65], v1=-2.5, v2={1, nan, -inf}, inout v3=iota[4, 5]@[8, 1]+16, out v4=[3]) tol rel=1e-6 abs=2e-7 == v4 {1, 2, 3} ~= v2 {}").unwrap();
        assert_eq!((r.line, r.kernel.as_str(), r.grid), (3, "k", [4, 2, 1]));
        assert_eq!(r.args[1], ArgSpec::Scalar(Number::Float(-2.5)));
        let ArgSpec::Tensor(t) = &r.args[3] else { panic!("a tensor") };
        assert_eq!((&t.init, &t.shape[..], t.strides.as_deref(), t.offset), (&Init::Iota, &[4, 5][..], Some(&[8, 1][..]), 16));
        assert_eq!(r.tolerance, Tolerance { rel: 1e-6, abs: 2e-7 });
        assert_eq!(r.expect.len(), 2);
        assert!(r.expect[1].near);
        let r = parse(1, "@k(grid=1, v0=rand:3:-0.5..2[4])").unwrap();
        let ArgSpec::Tensor(t) = &r.args[0] else { panic!("a tensor") };
        assert_eq!(t.init, Init::Uniform(3, [Number::Float(-0.5), Number::Int(2)]));
        let r = parse(1, "@k(grid=1, v0=rand:3:-1..-0.25[4], v1=rand:4:-3e2..-1.5e-1[4])").unwrap();
        let ArgSpec::Tensor(t) = &r.args[0] else { panic!("a tensor") };
        assert_eq!(t.init, Init::Uniform(3, [Number::Int(-1), Number::Float(-0.25)]));
        let ArgSpec::Tensor(t) = &r.args[1] else { panic!("a tensor") };
        assert_eq!(t.init, Init::Uniform(4, [Number::Float(-300.0), Number::Float(-0.15)]));
        assert_eq!(parse(1, "@k(grid=1) fails: some words").unwrap().fails.as_deref(), Some("some words"));
    }

    #[test]
    fn parameters_are_called_by_number_or_by_name() {
        let r = parse(1, "@k(grid=1, %x=iota[4], v1=3, out %y=[4]) == %y {1, 2, 3, 4}").unwrap();
        assert_eq!(r.names, ["%x", "v1", "%y"]);
        assert_eq!(r.expect[0].param, 2);
        for (line, part) in [
            ("@k(grid=1, %x=iota[4], %x=3)", "parameter %x is given where v1 belongs"),
            ("@k(grid=1, %x=iota[4]) == %z {1}", "%z is no tensor of this line"),
            ("@k(grid=1, %x=[4])", "write `out %x=`"),
            ("@k(grid=1, x=[4])", "`x` is no parameter"),
        ] {
            let e = parse(1, line).unwrap_err().to_string();
            assert!(e.contains(part), "{line}: {e}");
        }
        let text =
            "; kernel @k(%not: f32)\nkernel @kk(%a: f32) {\n}\nkernel @k(%x: view<f32, [?, ?%4]>,\n    %n: i32, %y: view<f32, [?]>) {\n}\n";
        assert_eq!(r.fits_header(text), Ok(()));
        let e = parse(1, "@k(grid=1, %x=iota[4], %m=3, out %y=[4])").unwrap().fits_header(text).unwrap_err();
        assert_eq!(e, "argument 1 of @k is %n, and the line gives %m there");
        let e = parse(1, "@kk(grid=1, %a=1.0, %b=3)").unwrap().fits_header(text).unwrap_err();
        assert_eq!(e, "@kk has 1 parameters, and none for %b");
    }

    #[test]
    fn files_are_named_bare_or_in_quotation_marks() {
        let r = parse(1, "@k(grid=1, v0=file:data/x-1.bin[4, 5], out v1=file:\"a b[1].bin\"[3]) == v1 file:want.bin ~= v0 {1}").unwrap();
        let file = |n: usize| match &r.args[n] {
            ArgSpec::Tensor(Tensor { init: Init::File(path), .. }) => path.as_str(),
            other => panic!("{other:?}"),
        };
        assert_eq!((file(0), file(1)), ("data/x-1.bin", "a b[1].bin"));
        assert_eq!(r.expect[0].want, Want::File("want.bin".into()));
        let large = "@k(grid=1, v0=iota[8192x64x8x128])";
        assert!(parse(1, large).is_err());
        assert!(parse_within(1, large, 1 << 29).is_ok());
    }

    #[test]
    fn grids_are_bounded_by_steps() {
        let bounded = |text: &str, steps| parse(1, text).unwrap().bounded(steps);
        assert_eq!(bounded("@k(grid=[16, 4])", Some(64)), Ok(()));
        assert!(bounded("@k(grid=[16, 4])", Some(63)).unwrap_err().contains("64 programs"));
        assert!(bounded("@k(grid=[65535, 65535, 65535])", None).unwrap_err().contains("--steps"));
        assert_eq!(bounded("@k(grid=[65535, 65535]) fails: too large", None), Ok(()), "what must be refused is refused elsewhere");
    }

    #[test]
    fn mistakes_name_their_place() {
        for (text, part) in [
            ("k(grid=1)", "`@`"),
            ("@k(v0=1)", "`grid`"),
            ("@k(grid=1, v1=1)", "where v0 belongs"),
            ("@k(grid=1, v0=[3])", "holds nothing"),
            ("@k(grid=1, v0={1, 2}[3])", "2 numbers are given for 3"),
            ("@k(grid=1, v0=iota[100000, 100000])", "may ask for"),
            ("@k(grid=1, v0=iota[4]@[1, 2])", "one stride per extent"),
            ("@k(grid=1, v0=wibble)", "no number"),
            ("@k(grid=1, %x=inout rand:1[4])", "`inout` stands in front of the name"),
            ("@k(grid=1, v0=rand:1[4x8, 16x1])", "strides have a list of their own"),
            ("@k(grid=1, v0=rand:1:3..2[4])", "the lower one first"),
            ("@k(grid=1, v0=rand:1:3[4])", "two numbers"),
            ("@k(grid=1) tol 3", "rel=… or abs=…"),
            ("@k(grid=1) tol rel=-1", "from 0 on"),
            ("@k(grid=1) tol abs=inf", "from 0 on"),
            ("@k(grid=1, v0=file:[4])", "a path"),
            ("@k(grid=1, v0=file:\"x[4])", "a path"),
            ("@k(grid=1) == v0 {1}", "no tensor"),
            ("@k(grid=1) what", "is expected here"),
            ("@k(grid=-1)", "not in"),
        ] {
            let e = parse(1, text).unwrap_err();
            assert!(e.message.contains(part), "{text}: {e}");
        }
    }

    #[test]
    fn tolerance_is_bitwise_by_default() {
        let exact = Tolerance::default();
        assert!(exact.accepts(f64::NAN, -f64::NAN));
        assert!(!exact.accepts(0.0, -0.0));
        assert!(!exact.accepts(1.0, 1.0 + f64::EPSILON));
        let near = Tolerance { rel: 1e-3, abs: 0.0 };
        assert!(near.accepts(0.0, -0.0));
        assert!(near.accepts(1.0, 1.0005));
        assert!(!near.accepts(1.0, 1.002));
        assert!(!near.accepts(f64::INFINITY, 1.0));
        assert!(!near.accepts(1.0, f64::NAN));
        assert!(near.accepts(f64::INFINITY, f64::INFINITY));
        assert!(!near.accepts(f64::INFINITY, f64::NEG_INFINITY));
    }
}
