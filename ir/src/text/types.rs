//! Parsing of types and plain numbers.

use super::error::{ParseCode, did_you_mean};
use super::lexer::{Tok, Token};
use super::parser::{Parsed, Parser};
use crate::types::{ChannelType, DEFAULT_ALIGN, Extent, MAX_RANK, Scalar, Shape, SharedType, TileType, Type, ViewType};
use crate::typing::check_handle;
use crate::typing::check_tile;
use smallvec::SmallVec;

impl<'t> Parser<'t> {
    /// A number without sign, fraction and suffix.
    pub(super) fn number(&mut self, what: &str) -> Parsed<u32> {
        let t = self.peek();
        let Tok::Number { digits, suffix: "", float: false } = t.tok else { return Err(self.expected(what)) };
        self.bump();
        self.digits(digits, t, "write a smaller number")
    }

    fn digits(&mut self, digits: &str, t: Token<'_>, remedy: &str) -> Parsed<u32> {
        digits.parse().map_err(|_| self.error(ParseCode::Range, t, format!("`{digits}` is no number from 0 to {}; {remedy}", u32::MAX)))
    }

    /// A type.
    pub(super) fn type_text(&mut self) -> Parsed<Type> {
        let t = self.peek();
        match t.tok {
            Tok::Tile(inside) => {
                self.bump();
                self.tile(inside, t).map(Type::Tile)
            }
            Tok::Shared(inside) => {
                self.bump();
                let TileType { shape, elem } = self.tile(inside, t)?;
                self.handle(Type::Shared(SharedType { shape, elem }), t)
            }
            Tok::Word("barrier") => {
                self.bump();
                self.expect('<')?;
                let n = self.number("a number of barriers")?;
                self.expect('>')?;
                self.handle(Type::Barrier(n), t)
            }
            Tok::Word("channel") => {
                self.bump();
                self.expect('<')?;
                let depth = self.number("a number of slots")?;
                let mut tiles = Vec::new();
                while self.eat(',') {
                    let at = self.peek();
                    let Tok::Tile(inside) = at.tok else { return Err(self.expected("a tile type such as tile<128x64xf32>")) };
                    self.bump();
                    tiles.push(self.tile(inside, at)?);
                }
                self.expect('>')?;
                self.handle(Type::Channel(ChannelType { depth, tiles }), t)
            }
            Tok::Word("view") => {
                self.bump();
                self.view(t).map(Type::from)
            }
            Tok::Word(_) => self.scalar().map(Type::Scalar),
            _ => Err(self.expected("a type such as f32, tile<128x64xf32> or view<f32, [?]>")),
        }
    }

    /// The type, if it is within its limits.
    fn handle(&mut self, ty: Type, t: Token<'t>) -> Parsed<Type> {
        check_handle(&ty).map_err(|message| self.error(ParseCode::TypeLimits, t, message))?;
        Ok(ty)
    }

    fn scalar(&mut self) -> Parsed<Scalar> {
        let t = self.peek();
        let Tok::Word(w) = t.tok else { return Err(self.expected("an element type such as f32")) };
        self.bump();
        self.scalar_named(w, t)
    }

    fn scalar_named(&mut self, w: &str, t: Token<'_>) -> Parsed<Scalar> {
        Scalar::from_name(w).ok_or_else(|| {
            let all = Scalar::ALL.iter().map(|s| s.name());
            let list = all.clone().collect::<Vec<_>>().join(", ");
            let near = did_you_mean(w, all.chain(["tile", "view", "shared", "barrier", "channel"]));
            self.error(ParseCode::TypeName, t, format!("`{w}` is no element type{near}; there are {list}"))
        })
    }

    fn tile(&mut self, inside: &str, t: Token<'_>) -> Parsed<TileType> {
        let (shape, elem) = inside.rsplit_once('x').unwrap_or(("", inside));
        let elem = self.scalar_named(elem.trim(), t)?;
        let mut extents = Shape::new();
        for part in shape.split('x').map(str::trim).filter(|_| !shape.is_empty()).take(MAX_RANK + 1) {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(self.error(ParseCode::Number, t, format!("`{part}` is no extent; a tile type is like tile<128x64xf32>")));
            }
            let n = self.digits(part, t, "use a smaller tile and a loop")?;
            extents.push(n);
        }
        let tile = TileType { shape: extents, elem };
        check_tile(&tile).map_err(|message| self.error(ParseCode::TypeLimits, t, message))?;
        Ok(tile)
    }

    fn view(&mut self, start: Token<'_>) -> Parsed<ViewType> {
        self.expect('<')?;
        let elem = self.scalar()?;
        self.expect(',')?;
        let dims = self.extents(start)?;
        let mut view = ViewType { elem, dims, strides: None, align: DEFAULT_ALIGN };
        while self.eat(',') {
            if self.eat_word("align") {
                view.align = self.number("an alignment in bytes")?;
                break;
            }
            if view.strides.is_some() || self.peek().tok != Tok::Sign('[') {
                return Err(self.expected("`[` and strides, or `align`"));
            }
            view.strides = Some(self.extents(start)?);
        }
        self.expect('>')?;
        Ok(view)
    }

    fn extents(&mut self, start: Token<'_>) -> Parsed<SmallVec<[Extent; 4]>> {
        self.expect('[')?;
        let mut out = SmallVec::new();
        if self.eat(']') {
            return Ok(out);
        }
        loop {
            let e = if self.eat('?') {
                Extent::Dynamic(if self.eat('%') { self.number("a divisor, as in ?%64")? } else { 1 })
            } else {
                Extent::Fixed(self.number("an extent: `?`, `?%64` or a number")?)
            };
            out.push(e);
            if out.len() > MAX_RANK {
                return Err(self.error(
                    ParseCode::TypeLimits,
                    start,
                    format!("a view has at most {MAX_RANK} dimensions; merge some of them"),
                ));
            }
            if self.eat(']') {
                return Ok(out);
            }
            if !self.eat(',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }
}
