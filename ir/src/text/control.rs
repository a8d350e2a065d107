//! Parsing of `for`, `while`, `if` and the ops with a combining region.

use super::error::ParseCode;
use super::file::MAX_NESTING;
use super::inst::{Head, Raw};
use super::lexer::{Tok, Token};
use super::parser::{Name, Parsed, Parser};
use crate::entities::{Region, Value};
use crate::kernel::Operands;
use crate::ops::{Attr, Op, Task};
use crate::types::{Scalar, Type};
use crate::typing::combine_types;

/// A carried value: its name in the region and where it starts.
type CarriedText<'t> = Vec<(Name<'t>, Token<'t>, Raw<'t>)>;

/// A region's parameter: its name and type, or no type after an error.
type Param<'t> = (Name<'t>, Token<'t>, Option<Type>);

impl<'t> Parser<'t> {
    fn carried(&mut self) -> Parsed<CarriedText<'t>> {
        let mut out = Vec::new();
        if self.eat_word("carry") {
            loop {
                let (name, token) = self.value_name("the name of a carried value, such as v3")?;
                self.expect('=')?;
                out.push((name, token, self.raw()?));
                if !self.eat(',') {
                    break;
                }
            }
        }
        Ok(out)
    }

    fn value_type(&self, v: Option<Value>) -> Option<Type> {
        v.map(|v| self.kernel.ty(v).clone())
    }

    /// `{ … }` as a new region.
    fn region(&mut self, params: &[Param<'t>], wants: &[Option<Scalar>], head: &Head<'t>) -> Parsed<Region> {
        if self.depth() > MAX_NESTING {
            return Err(self.error(ParseCode::Nesting, head.token, format!("regions nest deeper than {MAX_NESTING}; flatten the loops")));
        }
        self.expect('{')?;
        let r = self.kernel.add_region();
        self.open();
        for (name, token, ty) in params {
            let v = ty.clone().map(|ty| self.kernel.add_region_param(r, ty));
            self.bind(*name, v, *token);
        }
        let done = self.block(r, wants);
        self.close();
        done.map(|()| r)
    }

    /// Places a control instruction, unless something inside it is wrong.
    fn control(
        &mut self,
        at: Region,
        head: &Head<'t>,
        args: Vec<Option<Value>>,
        attrs: &[Attr],
        (regions, results): (&[Region], &[Type]),
        sound: bool,
    ) -> Parsed<()> {
        let args: Option<Operands> = args.into_iter().collect();
        match args {
            Some(args) if sound => self.finish(at, head, args, 0, attrs, regions, results),
            Some(_) | None => {
                self.bind_unknown(&head.names);
                Ok(())
            }
        }
    }

    pub(super) fn for_loop(&mut self, at: Region, head: &Head<'t>) -> Parsed<()> {
        let before = self.error_count();
        let (name, token) = self.value_name("the name of the index, such as v3")?;
        self.expect_word("in")?;
        let lo = self.raw()?;
        if self.peek().tok != Tok::DotDot {
            return Err(self.expected("`..` and the upper bound"));
        }
        self.bump();
        let hi = self.raw()?;
        self.expect_word("step")?;
        let step = self.raw()?;
        let carried = self.carried()?;
        let want = self.partner([lo, hi, step]).or(Some(Scalar::I32));
        let mut args: Vec<Option<Value>> = [lo, hi, step].into_iter().map(|raw| self.place(at, raw, want)).collect();
        args.extend(carried.iter().map(|c| self.place(at, c.2, None)).collect::<Vec<_>>());
        let mut params: Vec<Param<'t>> = vec![(name, token, self.value_type(args[0]))];
        params.extend(carried.iter().zip(&args[3..]).map(|(c, &v)| (c.0, c.1, self.value_type(v))));
        let wants: Vec<Option<Scalar>> = params[1..].iter().map(|p| p.2.as_ref().map(Type::elem)).collect();
        let r = self.region(&params, &wants, head)?;
        if carried.is_empty() {
            self.yields_nothing(r, head);
        }
        let results: Vec<Type> = params[1..].iter().filter_map(|p| p.2.clone()).collect();
        let sound = self.error_count() == before;
        self.control(at, head, args, &[], (&[r], &results), sound)
    }

    pub(super) fn while_loop(&mut self, at: Region, head: &Head<'t>) -> Parsed<()> {
        let before = self.error_count();
        let carried = self.carried()?;
        let args: Vec<Option<Value>> = carried.iter().map(|c| self.place(at, c.2, None)).collect();
        let params: Vec<Param<'t>> = carried.iter().zip(&args).map(|(c, &v)| (c.0, c.1, self.value_type(v))).collect();
        let test = self.region(&params, &[Some(Scalar::I1)], head)?;
        self.expect_word("do")?;
        let mut inner: Vec<Param<'t>> = Vec::new();
        if self.eat_word("carry") {
            loop {
                let (name, token) = self.value_name("the name of a carried value, such as v3")?;
                let ty = params.get(inner.len()).and_then(|p| p.2.clone());
                inner.push((name, token, ty));
                if !self.eat(',') {
                    break;
                }
            }
        }
        if inner.len() != params.len() {
            let message =
                format!("the `do` part names {} carried values, the `while` part {}; both name all of them", inner.len(), params.len());
            return Err(self.error(ParseCode::Results, head.token, message));
        }
        let wants: Vec<Option<Scalar>> = params.iter().map(|p| p.2.as_ref().map(Type::elem)).collect();
        let run = self.region(&inner, &wants, head)?;
        if carried.is_empty() {
            self.yields_nothing(run, head);
        }
        let results: Vec<Type> = params.iter().filter_map(|p| p.2.clone()).collect();
        let sound = self.error_count() == before;
        self.control(at, head, args, &[], (&[test, run], &results), sound)
    }

    /// Closes a block that has no `yield`, where nothing is to be yielded.
    fn yields_nothing(&mut self, r: Region, head: &Head<'t>) {
        if self.kernel.terminator(r).is_none() {
            let end = self.kernel.add_inst(Op::Yield, &[], 0, &[], &[], &[]);
            self.append(r, end, head.loc);
        }
    }

    pub(super) fn if_else(&mut self, at: Region, head: &Head<'t>) -> Parsed<()> {
        let before = self.error_count();
        let condition = self.raw()?;
        let condition = self.place(at, condition, Some(Scalar::I1));
        let then = self.region(&[], &[], head)?;
        self.yields_nothing(then, head);
        let results: Vec<Type> = self.kernel.yields(then).iter().map(|&v| self.kernel.ty(v).clone()).collect();
        let wants: Vec<Option<Scalar>> = results.iter().map(|t| Some(t.elem())).collect();
        let otherwise = if self.eat_word("else") {
            self.region(&[], &wants, head)?
        } else if results.is_empty() {
            self.kernel.add_region()
        } else {
            return Err(self.expected("`else` and a block that yields as many values"));
        };
        self.yields_nothing(otherwise, head);
        let sound = self.error_count() == before;
        self.control(at, head, vec![condition], &[], (&[then, otherwise], &results), sound)
    }

    /// `tasks { task name warps n [registers n] [replicas n as v1] { … } … }`, behind the op.
    pub(super) fn tasks(&mut self, at: Region, head: &Head<'t>) -> Parsed<()> {
        let before = self.error_count();
        self.expect('{')?;
        let (mut tasks, mut regions) = (Vec::new(), Vec::new());
        loop {
            self.skip_newlines();
            if self.eat('}') {
                break;
            }
            match self.task(head) {
                Ok((task, r)) => {
                    tasks.push(task);
                    regions.push(r);
                }
                Err(skip) => {
                    self.recover();
                    if !matches!(self.peek().tok, Tok::Newline | Tok::Sign('}')) {
                        return Err(skip);
                    }
                }
            }
        }
        let sound = self.error_count() == before;
        self.control(at, head, Vec::new(), &[Attr::Tasks(tasks)], (&regions, &[]), sound)
    }

    fn task(&mut self, head: &Head<'t>) -> Parsed<(Task, Region)> {
        let loc = self.peek().loc;
        self.expect_word("task")?;
        let Tok::Word(name) = self.peek().tok else { return Err(self.expected("the task's name")) };
        self.bump();
        self.expect_word("warps")?;
        let mut task = Task::new(name, self.number("a number of warps")?);
        if self.eat_word("registers") {
            task.registers = Some(self.number("a number of registers")?);
        }
        let mut params: Vec<Param<'t>> = Vec::new();
        if self.eat_word("replicas") {
            task.replicas = self.number("a number of replicas")?;
            self.expect_word("as")?;
            let (name, token) = self.value_name("the name of the replica's number, such as v3")?;
            params.push((name, token, Some(Type::Scalar(Scalar::I32))));
        }
        let r = self.region(&params, &[], head)?;
        if params.is_empty() {
            self.kernel.add_region_param(r, Type::Scalar(Scalar::I32));
        }
        self.yields_nothing(r, head);
        self.kernel.regions[r].loc = loc;
        Ok((task, r))
    }

    /// Names of values, separated by commas.
    fn names_list(&mut self) -> Parsed<Vec<(Name<'t>, Token<'t>)>> {
        let mut out = vec![self.value_name("the name of an element, such as v3")?];
        while self.eat(',') {
            out.push(self.value_name("the name of an element, such as v3")?);
        }
        Ok(out)
    }

    /// `v1, v2, axis 0 combine v3, v4 with v5, v6 { … }`, behind the op.
    pub(super) fn combine(&mut self, at: Region, head: &Head<'t>) -> Parsed<()> {
        let before = self.error_count();
        let mut args: Vec<Option<Value>> = Vec::new();
        loop {
            let raw = self.raw()?;
            args.push(self.place(at, raw, None));
            self.expect(',')?;
            if self.eat_word("axis") {
                break;
            }
        }
        let attrs = [Attr::Dim(self.number("a dimension number")?)];
        self.expect_word("combine")?;
        let mut names = self.names_list()?;
        self.expect_word("with")?;
        let second = self.names_list()?;
        if names.len() != args.len() || second.len() != args.len() {
            let message = format!(
                "`{}` of {} tiles combines {} elements with {}; name one of each tile on both sides of `with`",
                head.op,
                args.len(),
                names.len(),
                second.len()
            );
            return Err(self.error(ParseCode::Results, head.token, message));
        }
        names.extend(second);
        let known: Option<Vec<Type>> = args.iter().map(|&v| self.value_type(v)).collect();
        let typed = known.as_ref().map(|types| combine_types(head.op, &types.iter().collect::<Vec<_>>(), &attrs)).transpose();
        let results = typed.map_err(|message| self.error(ParseCode::Types, head.token, message))?.unwrap_or_default();
        let elem = |k: usize| known.as_ref().map(|types| types[k % types.len()].elem());
        let params: Vec<Param<'t>> = names.iter().enumerate().map(|(k, n)| (n.0, n.1, elem(k).map(Type::Scalar))).collect();
        let wants: Vec<Option<Scalar>> = (0..args.len()).map(elem).collect();
        let r = self.region(&params, &wants, head)?;
        let sound = self.error_count() == before;
        self.control(at, head, args, &attrs, (&[r], &results), sound)
    }
}
