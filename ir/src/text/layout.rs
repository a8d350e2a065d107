//! Layouts in the text form.

use super::error::{ParseCode, did_you_mean};
use super::lexer::Tok;
use super::parser::{Parsed, Parser};
use crate::layout::{DotPart, LayoutSpec};
use crate::types::Shape;

/// The names of layouts, and what stands in their brackets.
const NAMES: [(&str, &[&str]); 4] =
    [("blocked", &["size", "lanes", "warps", "order"]), ("mma", &[]), ("linear", &["registers", "lanes", "warps"]), ("swizzle", &[])];

impl Parser<'_> {
    /// `blocked(size=[1, 8], …)`, `mma(acc)`, `linear(registers=[[0, 1], …], …)` or `swizzle(128)`.
    pub(super) fn layout(&mut self) -> Parsed<LayoutSpec> {
        let t = self.peek();
        let Tok::Word(name) = t.tok else { return Err(self.expected("a layout: blocked(…), mma(…), linear(…) or swizzle(…)")) };
        let Some((_, fields)) = NAMES.iter().find(|n| n.0 == name) else {
            let near = did_you_mean(name, NAMES.iter().map(|n| n.0));
            return Err(self.error(ParseCode::Word, t, format!("`{name}` is no layout{near}; there are blocked, mma, linear and swizzle")));
        };
        self.bump();
        self.expect('(')?;
        if name == "mma" {
            let t = self.peek();
            let Tok::Word(w) = t.tok else { return Err(self.expected("a part of a dot (a, b, acc)")) };
            self.bump();
            let Some(part) = DotPart::from_word(w) else {
                return Err(self.error(ParseCode::Word, t, format!("`{w}` is no part of a dot; there are a, b and acc")));
            };
            self.expect(')')?;
            return Ok(LayoutSpec::Mma(part));
        }
        if name == "swizzle" {
            let swizzle = self.number("a swizzle width in bytes")?;
            self.expect(')')?;
            return Ok(LayoutSpec::Swizzle(swizzle));
        }
        let nested = name == "linear";
        let mut lists: Vec<Vec<Shape>> = Vec::new();
        for (n, field) in fields.iter().enumerate() {
            if n > 0 {
                self.expect(',')?;
            }
            self.expect_word(field)?;
            self.expect('=')?;
            lists.push(if nested { self.coordinates()? } else { vec![self.perm()?] });
        }
        self.expect(')')?;
        let mut lists = lists.into_iter();
        let mut list = || lists.next().unwrap_or_default();
        if nested {
            return Ok(LayoutSpec::Linear { registers: list(), lanes: list(), warps: list() });
        }
        let mut one = || list().into_iter().next().unwrap_or_default();
        Ok(LayoutSpec::Blocked { size: one(), lanes: one(), warps: one(), order: one() })
    }

    /// `[[0, 1], [2, 0]]`, or `[]`.
    fn coordinates(&mut self) -> Parsed<Vec<Shape>> {
        self.expect('[')?;
        let mut out = Vec::new();
        while !self.eat(']') {
            out.push(self.perm()?);
            if !self.eat(',') && self.peek().tok != Tok::Sign(']') {
                return Err(self.expected("`,` or `]`"));
            }
        }
        Ok(out)
    }
}
