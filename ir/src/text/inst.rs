//! Parsing of instructions, as their rows in the op table say.

use super::error::{ParseCode, did_you_mean};
use super::lexer::{Tok, Token};
use super::literal::LiteralToken;
use super::parser::{Name, Parsed, Parser};
use crate::entities::{Inst, Region, Value};
use crate::kernel::{Loc, Operands};
use crate::ops::{
    AtomicOp, Attr, AttrKind, CacheHint, CmpOp, GridAxis, MemoryOrder, Op, OpInfo, OperandKind, Precision, ReduceOp, Rule, Scope, SortOrder,
};
use crate::types::{Scalar, Shape, Type};
use crate::typing::result_types;
use smallvec::SmallVec;

/// An operand before the types of literals are known.
#[derive(Clone, Copy)]
pub(super) enum Raw<'t> {
    /// A value, or `None` if its definition has an error.
    Value(Option<Value>),
    /// A literal.
    Literal(LiteralToken<'t>, Token<'t>),
}

/// An instruction that is being parsed.
pub(super) struct Head<'t> {
    pub op: Op,
    /// The token of the op.
    pub token: Token<'t>,
    /// Where the line begins.
    pub loc: Loc,
    /// The names of the results.
    pub names: Vec<(Name<'t>, Token<'t>)>,
}

/// Operands and what else a row has.
struct Parts<'t> {
    /// Number of the operand in the row, and the operand.
    operands: Vec<(usize, Raw<'t>)>,
    present: u8,
    attrs: SmallVec<[Attr; 1]>,
    explicit: Option<Type>,
}

/// True for a word in front of the `=` of an attribute.
fn is_option(kind: Option<AttrKind>, w: &str) -> bool {
    match kind {
        Some(AttrKind::Cache) => w == "cache",
        Some(AttrKind::Sync) => w == "order" || w == "scope",
        Some(AttrKind::Swizzle) => w == "swizzle",
        Some(_) | None => false,
    }
}

impl<'t> Parser<'t> {
    /// One instruction, with its constants, at the end of a region.
    pub(super) fn inst(&mut self, r: Region, wants: &[Option<Scalar>]) -> Parsed<()> {
        let loc = self.peek().loc;
        let mut names = Vec::new();
        let done = self.inst_with(r, wants, loc, &mut names);
        if done.is_err() {
            self.bind_unknown(&names);
        }
        done
    }

    fn inst_with(&mut self, r: Region, wants: &[Option<Scalar>], loc: Loc, names: &mut Vec<(Name<'t>, Token<'t>)>) -> Parsed<()> {
        if self.name_here().is_some() {
            loop {
                names.push(self.value_name("the name of a result, such as v3")?);
                if self.eat('=') {
                    break;
                }
                if !self.eat(',') {
                    return Err(self.expected("`=` and an op, or `,` and another result"));
                }
            }
        }
        let token = self.peek();
        let Tok::Word(word) = token.tok else { return Err(self.expected("an op")) };
        let Some(op) = Op::from_name(word) else {
            let near = did_you_mean(word, Op::ALL.iter().map(|o| o.info().name));
            let near = if near.is_empty() { "; docs/language.md lists the ops" } else { &near };
            return Err(self.error(ParseCode::Op, token, format!("there is no op `{word}`{near}")));
        };
        self.bump();
        let head = Head { op, token, loc, names: names.clone() };
        // Ops with regions have a form of their own; every other op follows its row.
        if op == Op::For {
            self.for_loop(r, &head)
        } else if op == Op::While {
            self.while_loop(r, &head)
        } else if op == Op::If {
            self.if_else(r, &head)
        } else if matches!(op, Op::ReduceBy | Op::ScanBy | Op::ScanReverseBy) {
            self.combine(r, &head)
        } else if op == Op::Tasks {
            self.tasks(r, &head)
        } else if op == Op::Const {
            Err(self.error(ParseCode::Const, token, "`const` is not written; write the literal in the operand's place"))
        } else {
            self.row(r, &head, wants)
        }
    }

    /// Any instruction without regions.
    fn row(&mut self, r: Region, head: &Head<'t>, wants: &[Option<Scalar>]) -> Parsed<()> {
        let info = head.op.info();
        let mut parts = self.parts(info)?;
        let scalar = self.one_element(info, &mut parts);
        let wanted = self.wanted(info, &parts, wants);
        let mut args: SmallVec<[Value; 4]> = SmallVec::new();
        let mut known = true;
        for (&(_, raw), want) in parts.operands.iter().zip(wanted) {
            match self.place(r, raw, want) {
                Some(v) => args.push(v),
                None => known = false,
            }
        }
        if !known {
            self.bind_unknown(&head.names);
            return Ok(());
        }
        self.check_indices(info, &parts, &args, head.token)?;
        self.spread_scalars(r, info, &parts, &mut args, head.loc);
        let typed = {
            let types: SmallVec<[&Type; 6]> = args.iter().map(|&a| self.kernel.ty(a)).collect();
            result_types(head.op, &types, parts.present, &parts.attrs, parts.explicit.as_ref())
        };
        let results = typed.map_err(|message| self.error(ParseCode::Types, head.token, message))?;
        match scalar {
            Some(elem) if head.names.len() == 1 => {
                let tile = self.kernel.add_inst(head.op, &args, parts.present, &parts.attrs, &[], &results);
                self.append(r, tile, head.loc);
                let tile = self.kernel.insts[tile].results[0];
                let head = Head { op: Op::Reshape, token: head.token, loc: head.loc, names: head.names.clone() };
                self.finish(r, &head, Operands::from_slice(&[tile]), 0, &[], &[], &[Type::Scalar(elem)])
            }
            _ => self.finish(r, head, args, parts.present, &parts.attrs, &[], &results),
        }
    }

    /// The element of a load that names no tile, and so is of one element, which is then a scalar.
    fn one_element(&self, info: &OpInfo, parts: &mut Parts<'t>) -> Option<Scalar> {
        let Some(&(_, Raw::Value(Some(view)))) = parts.operands.first() else { return None };
        let view = self.kernel.ty(view).as_view().filter(|_| info.rule == Rule::Load)?;
        if parts.explicit.as_ref().is_some_and(|t| *t != Type::Scalar(view.elem)) {
            return None;
        }
        parts.explicit = Some(Type::tile(&SmallVec::<[u32; 6]>::from_elem(1, view.rank()), view.elem));
        Some(view.elem)
    }

    /// Splats the scalars that stand beside tiles: where operands have one type, as a branch of `select`, and as the mask of a load.
    fn spread_scalars(&mut self, r: Region, info: &OpInfo, parts: &Parts<'t>, args: &mut [Value], loc: Loc) {
        let takes = |j: usize| match info.rule {
            Rule::SameNumber | Rule::SameFloat | Rule::SameInt | Rule::SameBits | Rule::Compare | Rule::Join => true,
            Rule::Select => j > 0,
            Rule::Load => info.operands[j].name == "mask",
            _ => false,
        };
        let beside = |v: Value| self.kernel.ty(v).as_tile().map(|t| t.shape.clone());
        let shape = match info.rule {
            Rule::Load => parts.explicit.as_ref().and_then(|t| t.as_tile()).map(|t| t.shape.clone()),
            // A condition that is a tile has the shape of the branches.
            _ if (0..info.operands.len()).any(takes) => args.iter().find_map(|&v| beside(v)),
            _ => None,
        };
        let Some(shape) = shape else { return };
        for (at, &(j, _)) in parts.operands.iter().enumerate() {
            if takes(j)
                && let Type::Scalar(elem) = *self.kernel.ty(args[at])
            {
                let splat = self.kernel.add_inst(Op::Splat, &[args[at]], 0, &[], &[], &[Type::tile(&shape, elem)]);
                self.append(r, splat, loc);
                args[at] = self.kernel.insts[splat].results[0];
            }
        }
    }

    /// Places the instruction and names its results.
    #[allow(clippy::too_many_arguments)] // the parts of an instruction
    pub(super) fn finish(
        &mut self,
        r: Region,
        head: &Head<'t>,
        args: Operands,
        present: u8,
        attrs: &[Attr],
        regions: &[Region],
        results: &[Type],
    ) -> Parsed<()> {
        let (given, made) = (head.names.len(), results.len());
        if given != made {
            let remedy = match (given, made) {
                (_, 0) => "remove the names before it".to_owned(),
                (0, 1) => format!("write `v1 = {}` with a name of your own", head.op),
                (_, _) => format!("write {made} names before `=`"),
            };
            return Err(self.error(
                ParseCode::Results,
                head.token,
                format!("`{}` makes {made} values here, not {given}; {remedy}", head.op),
            ));
        }
        let inst = self.kernel.add_inst(head.op, &args, present, attrs, regions, results);
        self.append(r, inst, head.loc);
        for (i, &(name, token)) in head.names.iter().enumerate() {
            let v = self.kernel.insts[inst].results.get(i).copied();
            self.bind(name, v, token);
        }
        Ok(())
    }

    pub(super) fn append(&mut self, r: Region, inst: Inst, loc: Loc) {
        self.kernel.regions[r].insts.push(inst);
        self.kernel.locs[inst] = loc;
    }

    /// A value or literal.
    pub(super) fn raw(&mut self) -> Parsed<Raw<'t>> {
        let t = self.peek();
        if let Some((name, token)) = self.name_here() {
            self.bump();
            return Ok(Raw::Value(self.lookup(name, token)));
        }
        match LiteralToken::of(t.tok) {
            Some(Ok(l)) => {
                self.bump();
                Ok(Raw::Literal(l, t))
            }
            Some(Err((code, message))) => Err(self.error(code, t, message)),
            None => Err(self.expected("a value such as v3, or a literal")),
        }
    }

    /// The value of an operand; a literal becomes a `const` in front of its user. `None` after an error.
    pub(super) fn place(&mut self, r: Region, raw: Raw<'t>, want: Option<Scalar>) -> Option<Value> {
        match raw {
            Raw::Value(v) => v,
            Raw::Literal(literal, token) => match literal.typed(want) {
                Ok((l, ty)) => {
                    let inst = self.kernel.add_inst(Op::Const, &[], 0, &[Attr::Literal(l)], &[], &[Type::Scalar(ty)]);
                    self.append(r, inst, token.loc);
                    self.kernel.insts[inst].results.first().copied()
                }
                Err((code, message)) => {
                    self.error(code, token, message);
                    None
                }
            },
        }
    }

    /// The element type that operands of one type give to the literals among them.
    pub(super) fn partner(&self, raws: impl IntoIterator<Item = Raw<'t>>) -> Option<Scalar> {
        raws.into_iter().find_map(|raw| match raw {
            Raw::Value(v) => v.map(|v| self.kernel.ty(v).elem()),
            Raw::Literal(l, _) => l.suffix,
        })
    }

    /// The type that each operand's place gives to a literal.
    fn wanted(&self, info: &OpInfo, parts: &Parts<'t>, wants: &[Option<Scalar>]) -> Vec<Option<Scalar>> {
        let raws = || parts.operands.iter().map(|o| o.1);
        let explicit = parts.explicit.as_ref().map(Type::elem);
        let each = |want: Option<Scalar>| vec![want; parts.operands.len()];
        match info.rule {
            Rule::SameNumber | Rule::SameFloat | Rule::SameInt | Rule::SameBits | Rule::Compare | Rule::Join | Rule::Concat => {
                each(self.partner(raws()))
            }
            Rule::Select => {
                let mut wanted = each(self.partner(raws().skip(1)));
                wanted[0] = Some(Scalar::I1);
                wanted
            }
            Rule::Splat | Rule::Broadcast | Rule::Reshape => each(explicit),
            Rule::Load | Rule::Store | Rule::Prefetch | Rule::Gather | Rule::Scatter | Rule::Atomic => {
                let view = self.partner(raws().take(1));
                let of = |j: usize| match (info.operands[j].kind, info.operands[j].name) {
                    (OperandKind::Indices, _) => Some(Scalar::I32),
                    (_, "mask") => Some(Scalar::I1),
                    _ => view,
                };
                parts.operands.iter().map(|&(j, _)| of(j)).collect()
            }
            Rule::Philox => each(Some(Scalar::I32)),
            Rule::Handle | Rule::Local | Rule::Act | Rule::Receive => {
                // What is no tile is a number, or a handle, which no literal stands for.
                let view = self.partner(raws().take(1));
                let of = |j: usize| match info.operands[j].name {
                    "value" | "mask" => None,
                    "other" => view,
                    _ => Some(Scalar::I32),
                };
                parts.operands.iter().map(|&(j, _)| of(j)).collect()
            }
            Rule::ReduceBy | Rule::ScanBy => each(None),
            Rule::Control => (0..parts.operands.len()).map(|i| wants.get(i).copied().flatten()).collect(),
            Rule::Assert => each(Some(Scalar::I1)),
            Rule::Split | Rule::Slice | Rule::Flip | Rule::Scan | Rule::ArgReduce | Rule::Assume | Rule::Print | Rule::Held => each(None),
            Rule::Explicit | Rule::Index | Rule::Iota | Rule::Cast | Rule::Bitcast | Rule::Transpose | Rule::Reduce | Rule::Dot => {
                each(None)
            }
            Rule::DotScaled => each(None),
            Rule::GatherTile | Rule::Histogram | Rule::Sort | Rule::ArgSort | Rule::TopK | Rule::ArgTopK => each(None),
        }
    }

    fn check_indices(&mut self, info: &OpInfo, parts: &Parts<'t>, args: &[Value], token: Token<'t>) -> Parsed<()> {
        let Some(j) = info.operands.iter().position(|o| o.kind == OperandKind::Indices) else { return Ok(()) };
        let given = parts.operands.iter().filter(|o| o.0 == j).count();
        match args.first().and_then(|&v| self.kernel.ty(v).as_view()) {
            Some(view) if view.rank() != given => {
                let message = format!("{view} has {} dimensions, but {given} indices are given; write one per dimension", view.rank());
                Err(self.error(ParseCode::Indices, token, message))
            }
            // What is no view is the typing rule's business.
            Some(_) | None => Ok(()),
        }
    }

    fn parts(&mut self, info: &'static OpInfo) -> Parsed<Parts<'t>> {
        let mut p = Parts { operands: Vec::new(), present: 0, attrs: SmallVec::new(), explicit: None };
        if let Some(kind) = info.lead {
            p.attrs.push(self.attr(kind)?);
        }
        for (j, o) in info.operands.iter().enumerate() {
            match o.kind {
                OperandKind::Plain => {
                    if j > 0 {
                        self.expect(',')?;
                    }
                    p.operands.push((j, self.raw()?));
                }
                OperandKind::Indices => {
                    self.expect('[')?;
                    while !self.eat(']') {
                        p.operands.push((j, self.raw()?));
                        if !self.eat(',') && self.peek().tok != Tok::Sign(']') {
                            return Err(self.expected("`,` or `]`"));
                        }
                    }
                }
                OperandKind::Variadic => {
                    if j > 0 {
                        self.expect(',')?;
                    }
                    if j > 0 || !matches!(self.peek().tok, Tok::Newline | Tok::End | Tok::Sign('}')) {
                        p.operands.push((j, self.raw()?));
                        while self.eat(',') {
                            p.operands.push((j, self.raw()?));
                        }
                    }
                }
                // All keyword operands stand at the end and come in any order.
                OperandKind::Keyword => {}
            }
        }
        if info.operands.iter().any(|o| o.kind == OperandKind::Keyword) {
            let bare = |p: &Parts<'t>| p.operands.is_empty() && info.lead.is_none();
            if bare(&p) && matches!(self.peek().tok, Tok::Word(w) if !is_option(info.trail, w)) {
                let operand = self.keyword(info, &mut p.present)?;
                p.operands.push(operand);
            }
            while self.peek().tok == Tok::Sign(',') && !self.at_option(info.trail) {
                self.bump();
                let operand = self.keyword(info, &mut p.present)?;
                p.operands.push(operand);
            }
            p.operands.sort_by_key(|o| o.0);
        }
        if let Some(kind) = info.trail {
            let alone = info.lead.is_none() && info.operands.is_empty();
            if !alone && !matches!(kind, AttrKind::Precision | AttrKind::Cache | AttrKind::Sync | AttrKind::Swizzle) {
                self.expect(',')?;
            }
            p.attrs.push(self.attr(kind)?);
        }
        if self.eat(':') {
            p.explicit = Some(self.type_text()?);
        }
        Ok(p)
    }

    fn keyword(&mut self, info: &'static OpInfo, present: &mut u8) -> Parsed<(usize, Raw<'t>)> {
        let t = self.peek();
        let Tok::Word(w) = t.tok else { return Err(self.expected("a keyword operand, such as mask=v3")) };
        self.bump();
        let named = |o: &crate::ops::OperandInfo| o.kind == OperandKind::Keyword && o.name == w;
        let Some(j) = info.operands.iter().position(named) else {
            let all = || info.operands.iter().filter(|o| o.kind == OperandKind::Keyword).map(|o| o.name);
            let list = all().collect::<Vec<_>>().join(", ");
            let near = did_you_mean(w, all());
            return Err(self.error(ParseCode::Keyword, t, format!("`{}` has no operand `{w}`{near}; it has {list}", info.name)));
        };
        if *present >> j & 1 == 1 {
            return Err(self.error(ParseCode::Keyword, t, format!("`{w}` is given twice; remove one")));
        }
        *present |= 1 << j;
        self.expect('=')?;
        Ok((j, self.raw()?))
    }

    /// True in front of `, name=` where the name is that of an attribute.
    fn at_option(&self, kind: Option<AttrKind>) -> bool {
        matches!(self.peek_at(1), Tok::Word(w) if is_option(kind, w))
    }

    /// `swizzle=64`, alone or behind a comma.
    fn swizzle(&mut self) -> Parsed<Attr> {
        if self.peek().tok == Tok::Sign(',') && self.at_option(Some(AttrKind::Swizzle)) {
            self.bump();
        }
        if !matches!(self.peek().tok, Tok::Word(w) if is_option(Some(AttrKind::Swizzle), w)) {
            return Ok(Attr::Count(0));
        }
        self.bump();
        self.expect('=')?;
        self.number("bytes of a swizzled row").map(Attr::Count)
    }

    /// `, name=word` if it is next.
    fn option<T>(
        &mut self,
        name: &str,
        what: &str,
        from: impl Fn(&str) -> Option<T>,
        words: impl Iterator<Item = &'static str> + Clone,
    ) -> Parsed<Option<T>> {
        if self.peek().tok != Tok::Sign(',') || self.peek_at(1) != Tok::Word(name) {
            return Ok(None);
        }
        self.bump();
        self.bump();
        self.expect('=')?;
        self.word(what, from, words).map(Some)
    }

    fn sync(&mut self) -> Parsed<Attr> {
        let (mut order, mut scope) = (None, None);
        while self.peek().tok == Tok::Sign(',') && self.at_option(Some(AttrKind::Sync)) {
            let token = self.peek();
            let o = self.option("order", "a memory order", MemoryOrder::from_word, MemoryOrder::ALL.iter().map(|w| w.word()))?;
            let s = self.option("scope", "a scope", Scope::from_word, Scope::ALL.iter().map(|w| w.word()))?;
            if (o.is_some() && order.is_some()) || (s.is_some() && scope.is_some()) {
                return Err(self.error(ParseCode::Keyword, token, "`order` or `scope` is given twice; remove one"));
            }
            (order, scope) = (order.or(o), scope.or(s));
        }
        Ok(Attr::Sync(order.unwrap_or(MemoryOrder::Relaxed), scope.unwrap_or(Scope::Gpu)))
    }

    fn attr(&mut self, kind: AttrKind) -> Parsed<Attr> {
        match kind {
            AttrKind::Atomic => {
                self.word("an atomic update", AtomicOp::from_word, AtomicOp::ALL.iter().map(|w| w.word())).map(Attr::Atomic)
            }
            AttrKind::Sync => self.sync(),
            AttrKind::Cache => {
                let hint = self.option("cache", "a cache hint", CacheHint::from_word, CacheHint::ALL.iter().map(|w| w.word()))?;
                Ok(Attr::Cache(hint.unwrap_or(CacheHint::Normal)))
            }
            AttrKind::Sort => self.word("a direction", SortOrder::from_word, SortOrder::ALL.iter().map(|w| w.word())).map(Attr::Sort),
            AttrKind::Grid => self.word("a grid axis", GridAxis::from_word, GridAxis::ALL.iter().map(|w| w.word())).map(Attr::Grid),
            AttrKind::Cmp => self.word("a comparison", CmpOp::from_word, CmpOp::ALL.iter().map(|w| w.word())).map(Attr::Cmp),
            AttrKind::Reduce => self.word("a combining op", ReduceOp::from_word, ReduceOp::ALL.iter().map(|w| w.word())).map(Attr::Reduce),
            AttrKind::Precision if !matches!(self.peek().tok, Tok::Word(_)) => Ok(Attr::Precision(Precision::Exact)),
            AttrKind::Precision => {
                self.word("a precision", Precision::from_word, Precision::ALL.iter().map(|w| w.word())).map(Attr::Precision)
            }
            AttrKind::Dim => self.number("a dimension number").map(Attr::Dim),
            AttrKind::AxisDim => {
                self.expect_word("axis")?;
                self.number("a dimension number").map(Attr::Dim)
            }
            AttrKind::Perm => self.perm().map(Attr::Perm),
            AttrKind::Offsets => self.perm().map(Attr::Offsets),
            AttrKind::Divisor => {
                self.expect_word("multiple")?;
                self.number("a divisor").map(Attr::Divisor)
            }
            AttrKind::Count => self.number("a number").map(Attr::Count),
            AttrKind::Few if !matches!(self.peek().tok, Tok::Number { .. }) => Ok(Attr::Count(1)),
            AttrKind::Few => self.number("a number").map(Attr::Count),
            AttrKind::Swizzle => self.swizzle(),
            AttrKind::Layout => Ok(Attr::Layout(Box::new(self.layout()?))),
            AttrKind::Literal | AttrKind::Tasks => Err(self.expected("an op with operands")),
        }
    }

    fn word<T>(&mut self, what: &str, from: impl Fn(&str) -> Option<T>, words: impl Iterator<Item = &'static str> + Clone) -> Parsed<T> {
        let t = self.peek();
        let list = words.clone().collect::<Vec<_>>().join(", ");
        let Tok::Word(w) = t.tok else { return Err(self.expected(&format!("{what} ({list})"))) };
        self.bump();
        from(w).ok_or_else(|| {
            let near = did_you_mean(w, words);
            self.error(ParseCode::Word, t, format!("`{w}` is not {what}{near}; there are {list}"))
        })
    }

    pub(super) fn perm(&mut self) -> Parsed<Shape> {
        self.expect('[')?;
        let mut perm = Shape::new();
        loop {
            perm.push(self.number("a dimension number or offset")?);
            if self.eat(']') {
                return Ok(perm);
            }
            if !self.eat(',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }
}
