//! PTX text to [`Ast`]. Names are not resolved here; unknown directives are errors.

use crate::error::ParseError;
use crate::text::ast::{Ast, Entry, Instr, Operand, OperandKind, RegDecl, Span, Stmt, Var};
use crate::text::lexer::{Tok, Token, error_at, lex};
use crate::types::{Space, Ty};

/// Nesting limit of `{ }`, so that hostile text cannot exhaust the stack.
const MAX_DEPTH: u32 = 64;
/// Largest declared array, in bytes.
const MAX_ARRAY: u64 = 1 << 28;
/// Largest `name<count>` declaration.
const MAX_REGS: u64 = 1 << 20;

type Res<T> = Result<T, ParseError>;

pub(crate) fn parse(src: &str) -> Res<Ast> {
    let toks = lex(src)?;
    let mut p = Parser { src, toks, pos: 0 };
    p.module()
}

struct Parser<'a> {
    src: &'a str,
    toks: Vec<Token>,
    pos: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token {
        self.toks[self.pos.min(self.toks.len() - 1)]
    }

    fn peek2(&self) -> Token {
        self.toks[(self.pos + 1).min(self.toks.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let t = self.peek();
        self.pos += 1;
        t
    }

    fn text(&self, t: Token) -> &'a str {
        &self.src[t.start as usize..t.end as usize]
    }

    fn err<T>(&self, t: Token, m: impl Into<String>) -> Res<T> {
        Err(error_at(self.src, t.start as usize, m))
    }

    fn is(&self, c: u8) -> bool {
        self.peek().tok == Tok::Punct(c)
    }

    fn eat(&mut self, c: u8) -> bool {
        let y = self.is(c);
        if y {
            self.pos += 1;
        }
        y
    }

    fn expect(&mut self, c: u8) -> Res<Token> {
        let t = self.next();
        if t.tok == Tok::Punct(c) {
            return Ok(t);
        }
        self.err(t, format!("`{}` is expected here, not `{}`", c as char, self.text(t)))
    }

    fn ident(&mut self) -> Res<(String, Span)> {
        let t = self.next();
        if t.tok != Tok::Ident {
            return self.err(t, format!("a name is expected here, not `{}`", self.text(t)));
        }
        Ok((self.text(t).to_string(), span(t)))
    }

    fn int(&mut self) -> Res<u64> {
        let t = self.next();
        match t.tok {
            Tok::Int(v) => Ok(v),
            _ => self.err(t, format!("an integer is expected here, not `{}`", self.text(t))),
        }
    }

    fn small(&mut self, max: u64, what: &str) -> Res<u32> {
        let t = self.peek();
        let v = self.int()?;
        if v > max {
            return self.err(t, format!("{what} {v} is larger than {max}"));
        }
        Ok(v as u32)
    }

    fn dot(&mut self) -> Option<(&'a str, Token)> {
        let t = self.peek();
        if t.tok != Tok::Dot {
            return None;
        }
        self.pos += 1;
        Some((&self.text(t)[1..], t))
    }

    fn module(&mut self) -> Res<Ast> {
        let mut ast = Ast::default();
        loop {
            let t = self.peek();
            if t.tok == Tok::Eof {
                break;
            }
            let Some((d, t)) = self.dot() else {
                return self.err(t, format!("a directive is expected at module level, not `{}`", self.text(t)));
            };
            match d {
                "version" => {
                    let n = self.next();
                    let text = self.text(n);
                    let parts = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                    match parts {
                        Some(v) => ast.version = v,
                        None => return self.err(n, "a version such as `7.0` is expected"),
                    }
                }
                "target" => {
                    ast.target = self.ident()?.0;
                    while self.eat(b',') {
                        self.ident()?;
                    }
                }
                "address_size" => {
                    let n = self.peek();
                    if self.int()? != 64 {
                        return self.err(n, "only .address_size 64 is modelled");
                    }
                }
                "file" | "section" => self.skip_ignored(d)?,
                "pragma" => self.skip_ignored(d)?,
                "visible" | "weak" | "extern" | "entry" | "shared" | "global" | "const" => {
                    let mut d = (d, t);
                    let mut external = false;
                    while matches!(d.0, "visible" | "weak" | "extern") {
                        external |= d.0 == "extern";
                        let at = self.peek();
                        match self.dot() {
                            Some(x) => d = x,
                            None => return self.err(at, "a declaration is expected after the linkage directive"),
                        }
                    }
                    match d.0 {
                        "entry" => {
                            let e = self.entry()?;
                            if ast.entries.iter().any(|x| x.name == e.name) {
                                return self.err(d.1, format!("entry `{}` is defined twice", e.name));
                            }
                            ast.entries.push(e);
                        }
                        "shared" | "global" | "const" => {
                            let space = space_of(d.0);
                            let vs = self.vars(space, d.1)?;
                            for v in vs {
                                if v.bytes.is_none() && !(external && space == Space::Shared) {
                                    return self.err(d.1, "an array without a size needs `.extern .shared`");
                                }
                                ast.vars.push(v);
                            }
                        }
                        other => return self.err(d.1, format!("directive `.{other}` is not modelled here")),
                    }
                }
                other => return self.err(t, format!("directive `.{other}` is not modelled")),
            }
        }
        if ast.version == (0, 0) {
            return Err(error_at(self.src, 0, "the module has no .version"));
        }
        if ast.target.is_empty() {
            return Err(error_at(self.src, 0, "the module has no .target"));
        }
        Ok(ast)
    }

    /// Skips `.file`, `.loc`, `.pragma`, `.section`: none of them changes what a kernel computes.
    fn skip_ignored(&mut self, d: &str) -> Res<()> {
        match d {
            "pragma" => {
                let t = self.next();
                if t.tok != Tok::Str {
                    return self.err(t, "a string is expected after .pragma");
                }
                while self.eat(b',') {
                    self.next();
                }
                self.expect(b';')?;
            }
            "section" => {
                while !self.is(b'{') {
                    if self.peek().tok == Tok::Eof {
                        return self.err(self.peek(), "`{` is expected after .section");
                    }
                    self.pos += 1;
                }
                while !self.is(b'}') {
                    if self.peek().tok == Tok::Eof {
                        return self.err(self.peek(), "section is not closed");
                    }
                    self.pos += 1;
                }
                self.pos += 1;
            }
            // .loc and .file: to the end of the line.
            _ => {
                let at = self.toks[self.pos - 1].start as usize;
                let end = self.src[at..].find('\n').map_or(self.src.len(), |i| at + i) as u32;
                while self.peek().tok != Tok::Eof && self.peek().start < end {
                    self.pos += 1;
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self) -> Res<Entry> {
        let (name, _) = self.ident()?;
        let mut params = Vec::new();
        if self.eat(b'(') {
            while !self.eat(b')') {
                let at = self.peek();
                match self.dot() {
                    Some(("param", t)) => params.push(self.var(Space::Param, t)?),
                    _ => return self.err(at, "`.param` is expected"),
                }
                if !self.eat(b',') && !self.is(b')') {
                    return self.err(self.peek(), "`,` or `)` is expected");
                }
            }
        }
        let mut e = Entry {
            name,
            params,
            reqntid: None,
            maxntid: None,
            reqcluster: None,
            maxnreg: None,
            minnctapersm: None,
            body: Vec::new(),
            end: Span { start: 0, end: 0 },
        };
        while let Some((d, t)) = self.dot() {
            match d {
                "maxntid" => e.maxntid = Some(self.triple()?),
                "reqntid" => e.reqntid = Some(self.triple()?),
                "minnctapersm" => e.minnctapersm = Some(self.small(32, "CTA count")?),
                "maxnreg" => e.maxnreg = Some(self.small(255, "register count")?),
                "maxnctapersm" | "maxclusterrank" => {
                    self.int()?;
                }
                "pragma" => self.skip_ignored(d)?,
                "reqnctapercluster" => e.reqcluster = Some(self.triple()?),
                "explicitcluster" => {}
                other => return self.err(t, format!("directive `.{other}` is not modelled here")),
            }
        }
        self.expect(b'{')?;
        e.body = self.block(0)?;
        e.end = span(self.toks[self.pos - 1]);
        Ok(e)
    }

    fn triple(&mut self) -> Res<[u32; 3]> {
        let mut v = [1; 3];
        v[0] = self.small(u32::MAX.into(), "dimension")?;
        for x in v.iter_mut().skip(1) {
            if !self.eat(b',') {
                break;
            }
            *x = self.small(u32::MAX.into(), "dimension")?;
        }
        Ok(v)
    }

    /// Statements up to and including the closing brace.
    fn block(&mut self, depth: u32) -> Res<Vec<Stmt>> {
        if depth > MAX_DEPTH {
            return self.err(self.peek(), format!("blocks are nested deeper than {MAX_DEPTH}"));
        }
        let mut out = Vec::new();
        loop {
            let t = self.peek();
            match t.tok {
                Tok::Punct(b'}') => {
                    self.pos += 1;
                    return Ok(out);
                }
                Tok::Punct(b'{') => {
                    self.pos += 1;
                    out.push(Stmt::Block(self.block(depth + 1)?));
                }
                Tok::Punct(b';') => self.pos += 1,
                Tok::Dot => self.body_directive(&mut out)?,
                Tok::Ident if self.peek2().tok == Tok::Punct(b':') => {
                    let (n, s) = self.ident()?;
                    self.pos += 1;
                    out.push(Stmt::Label(n, s));
                }
                Tok::Ident | Tok::Punct(b'@') => out.push(Stmt::Instr(self.instr()?)),
                Tok::Eof => return self.err(t, "the body is not closed"),
                _ => return self.err(t, format!("a statement is expected, not `{}`", self.text(t))),
            }
        }
    }

    fn body_directive(&mut self, out: &mut Vec<Stmt>) -> Res<()> {
        let Some((d, t)) = self.dot() else {
            return self.err(self.peek(), "a directive is expected");
        };
        match d {
            "reg" => {
                let ty = self.ty()?;
                let mut names = Vec::new();
                loop {
                    let (name, span) = self.ident()?;
                    let mut count = None;
                    if self.eat(b'<') {
                        count = Some(self.small(MAX_REGS, "register count")?);
                        self.expect(b'>')?;
                    }
                    names.push(RegDecl { name, count, span });
                    if !self.eat(b',') {
                        break;
                    }
                }
                self.expect(b';')?;
                out.push(Stmt::Reg(ty, names));
            }
            "shared" => {
                for v in self.vars(Space::Shared, t)? {
                    if v.bytes.is_none() {
                        return self.err(t, "an array without a size needs `.extern .shared` at module level");
                    }
                    out.push(Stmt::Var(v));
                }
            }
            "loc" | "pragma" | "file" | "section" => self.skip_ignored(d)?,
            other => return self.err(t, format!("directive `.{other}` is not modelled here")),
        }
        Ok(())
    }

    fn ty(&mut self) -> Res<Ty> {
        let at = self.peek();
        let Some((d, t)) = self.dot() else {
            return self.err(at, "a type is expected");
        };
        match Ty::parse(d) {
            Some(ty) => Ok(ty),
            None => self.err(t, format!("type `.{d}` is not modelled")),
        }
    }

    fn vars(&mut self, space: Space, at: Token) -> Res<Vec<Var>> {
        let v = vec![self.var(space, at)?];
        self.expect(b';')?;
        Ok(v)
    }

    fn var(&mut self, space: Space, at: Token) -> Res<Var> {
        let mut align = None;
        let ty = loop {
            let t = self.peek();
            match self.dot() {
                Some(("align", _)) => {
                    let a = self.small(1 << 20, "alignment")?;
                    if !a.is_power_of_two() {
                        return self.err(t, format!("alignment {a} is not a power of two"));
                    }
                    align = Some(a);
                }
                // Hints about pointer parameters.
                Some(("ptr" | "global", _)) if space == Space::Param => {}
                Some((d, t)) => match Ty::parse(d) {
                    // `.u64 .ptr .global .align 16 name` puts hints after the type as well.
                    Some(ty) => break ty,
                    None => return self.err(t, format!("`.{d}` is not modelled in a declaration")),
                },
                None => return self.err(t, "a type is expected"),
            }
        };
        let mut ptr_hint = false;
        while space == Space::Param && self.peek().tok == Tok::Dot {
            let Some((d, t)) = self.dot() else { break };
            match d {
                "ptr" => ptr_hint = true,
                "global" | "shared" | "const" if ptr_hint => {}
                "align" if ptr_hint => {
                    // Alignment of the pointed-to memory, not of the parameter.
                    self.int()?;
                }
                _ => return self.err(t, format!("`.{d}` is not modelled in a parameter")),
            }
        }
        let (name, sp) = self.ident()?;
        let elem = u64::from(ty.bytes());
        let mut bytes = Some(elem);
        if self.eat(b'[') {
            if self.eat(b']') {
                bytes = None;
            } else {
                let t = self.peek();
                let n = self.int()?;
                bytes = n.checked_mul(elem).filter(|&b| b <= MAX_ARRAY);
                if bytes.is_none() {
                    return self.err(t, "array is too large");
                }
                self.expect(b']')?;
            }
        }
        let mut init = Vec::new();
        if self.eat(b'=') {
            if space == Space::Shared || space == Space::Param {
                return self.err(at, "this state space takes no initialiser");
            }
            if self.eat(b'{') {
                while !self.eat(b'}') {
                    self.init_value(ty, &mut init)?;
                    if !self.eat(b',') && !self.is(b'}') {
                        return self.err(self.peek(), "`,` or `}` is expected");
                    }
                }
            } else {
                self.init_value(ty, &mut init)?;
            }
            let len = init.len() as u64;
            match bytes {
                None => bytes = Some(len),
                Some(b) if len > b => return self.err(at, "the initialiser is longer than the array"),
                Some(_) => {}
            }
        }
        let align = align.unwrap_or(ty.bytes().max(1));
        Ok(Var { name, span: sp, space, align, bytes, init })
    }

    fn init_value(&mut self, ty: Ty, out: &mut Vec<u8>) -> Res<()> {
        let t = self.peek();
        let v = match self.operand()?.kind {
            OperandKind::Int(v) => match ty {
                Ty::F32 => u64::from((v as f32).to_bits()),
                Ty::F64 => (v as f64).to_bits(),
                _ => v as u64,
            },
            OperandKind::F32(b) if ty == Ty::F32 => b.into(),
            OperandKind::F64(b) if ty == Ty::F64 => b,
            OperandKind::F64(b) if ty == Ty::F32 => (f64::from_bits(b) as f32).to_bits().into(),
            _ => return self.err(t, "a constant of the declared type is expected"),
        };
        out.extend_from_slice(&v.to_le_bytes()[..(ty.bytes() as usize).min(8)]);
        Ok(())
    }

    fn instr(&mut self) -> Res<Instr> {
        let start = self.peek().start;
        let mut guard = None;
        if self.eat(b'@') {
            let neg = self.eat(b'!');
            let (n, s) = self.ident()?;
            guard = Some((n, neg, s));
        }
        let (opcode, _) = self.ident()?;
        let mut mods = Vec::new();
        while let Some((d, t)) = self.dot() {
            mods.push((d.to_string(), span(t)));
        }
        let mut operands = Vec::new();
        if !self.is(b';') {
            loop {
                operands.push(self.operand()?);
                if !self.eat(b',') {
                    break;
                }
            }
        }
        let end = self.expect(b';')?.end;
        Ok(Instr { guard, opcode, mods, operands, span: Span { start, end } })
    }

    /// A name, with the `.x` of `%tid.x` joined on.
    fn name(&mut self) -> Res<String> {
        let (mut n, _) = self.ident()?;
        if let Tok::Dot = self.peek().tok
            && n.starts_with('%')
        {
            let t = self.next();
            n.push_str(self.text(t));
        }
        Ok(n)
    }

    fn operand(&mut self) -> Res<Operand> {
        let t = self.peek();
        let kind = match t.tok {
            Tok::Punct(b'{') => {
                self.pos += 1;
                let mut v = Vec::new();
                loop {
                    if self.is(b'{') {
                        return self.err(self.peek(), "vector operands do not nest");
                    }
                    v.push(self.operand()?);
                    if !self.eat(b',') {
                        break;
                    }
                }
                self.expect(b'}')?;
                OperandKind::Vec(v)
            }
            Tok::Punct(b'[') => {
                self.pos += 1;
                let base = if self.peek().tok == Tok::Ident { Some(self.name()?) } else { None };
                let off = if base.is_some() && (self.is(b']') || self.is(b',')) { 0 } else { self.offset(base.is_none())? };
                if self.eat(b',') {
                    let at = self.peek();
                    let coords = self.operand()?;
                    let (Some(base), 0, OperandKind::Vec(v)) = (base, off, coords.kind) else {
                        return self.err(at, "`[map, {coordinates}]` is expected");
                    };
                    self.expect(b']')?;
                    OperandKind::Tensor(base, v)
                } else {
                    self.expect(b']')?;
                    OperandKind::Addr(base, off)
                }
            }
            Tok::Punct(b'!') => {
                self.pos += 1;
                OperandKind::Not(self.ident()?.0)
            }
            Tok::Ident => {
                let n = self.name()?;
                if n == "_" && !self.is(b'|') {
                    OperandKind::Sink
                } else if self.eat(b'|') {
                    OperandKind::Pair(n, self.ident()?.0)
                } else if self.is(b'+') {
                    OperandKind::Offset(n, self.offset(false)?)
                } else {
                    OperandKind::Name(n)
                }
            }
            Tok::Int(_) | Tok::F32(_) | Tok::F64(_) | Tok::Punct(b'-' | b'~' | b'(') => self.constant()?,
            Tok::Dot | Tok::Str | Tok::Punct(_) | Tok::Eof => {
                return self.err(t, format!("an operand is expected, not `{}`", self.text(t)));
            }
        };
        let end = self.toks[self.pos - 1].end;
        Ok(Operand { kind, span: Span { start: t.start, end } })
    }

    /// `+4`, `+-8`, `+4+16`; `first` allows a leading number without `+`. A bare `-8` is not PTX.
    fn offset(&mut self, first: bool) -> Res<i64> {
        let mut sum: i64 = 0;
        let mut need_plus = !first;
        loop {
            if need_plus {
                self.expect(b'+')?;
            }
            let neg = self.eat(b'-');
            let v = self.int()? as i64;
            sum = sum.wrapping_add(if neg { v.wrapping_neg() } else { v });
            need_plus = true;
            if !self.is(b'+') {
                return Ok(sum);
            }
        }
    }

    fn constant(&mut self) -> Res<OperandKind> {
        let t = self.next();
        Ok(match t.tok {
            Tok::Int(v) => OperandKind::Int(v.into()),
            Tok::F32(v) => OperandKind::F32(v),
            Tok::F64(v) => OperandKind::F64(v),
            Tok::Punct(c @ (b'-' | b'~')) => {
                let n = self.next();
                match (c, n.tok) {
                    (b'-', Tok::Int(v)) => OperandKind::Int(-i128::from(v)),
                    (b'~', Tok::Int(v)) => OperandKind::Int(!i128::from(v)),
                    (b'-', Tok::F32(v)) => OperandKind::F32(v ^ (1 << 31)),
                    (b'-', Tok::F64(v)) => OperandKind::F64(v ^ (1 << 63)),
                    _ => return self.err(n, "a constant is expected after the sign"),
                }
            }
            Tok::Punct(b'(') => {
                if self.is(b'(') {
                    return self.err(self.peek(), "nested constant expressions are not modelled");
                }
                let v = self.constant()?;
                self.expect(b')')?;
                v
            }
            _ => return self.err(t, "a constant is expected"),
        })
    }
}

fn span(t: Token) -> Span {
    Span { start: t.start, end: t.end }
}

fn space_of(s: &str) -> Space {
    match s {
        "shared" => Space::Shared,
        "const" => Space::Const,
        _ => Space::Global,
    }
}
