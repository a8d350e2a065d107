//! A kernel in which instructions are put in front of others, and values stand for others.

use std::collections::BTreeMap;
use tilelift_ir::{Attr, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

/// A kernel that is rewritten. Who reads a value that is replaced reads what stands for it once all is done: that takes one pass, however many there are.
pub(crate) struct Rewrite {
    pub kernel: Kernel,
    by: BTreeMap<Value, Value>,
}

impl Rewrite {
    /// A copy of a kernel.
    pub fn of(kernel: &Kernel) -> Rewrite {
        Rewrite { kernel: kernel.clone(), by: BTreeMap::new() }
    }

    /// Puts an instruction in front of another one, at its place in the source.
    pub fn place(&mut self, (region, before): (Region, Inst), made: Inst) {
        self.kernel.locs[made] = self.kernel.locs[before];
        let insts = &mut self.kernel.regions[region].insts;
        let at = insts.iter().position(|&j| j == before).unwrap_or(0);
        insts.insert(at, made);
    }

    /// Makes an instruction of one result there.
    pub fn put(&mut self, at: (Region, Inst), (op, args, attrs): (Op, &[Value], &[Attr]), ty: Type) -> Value {
        let made = self.kernel.add_inst(op, args, 0, attrs, &[], &[ty]);
        self.place(at, made);
        self.kernel.insts[made].results[0]
    }

    /// An `i32` literal.
    pub fn number(&mut self, at: (Region, Inst), n: i64) -> Value {
        self.put(at, (Op::Const, &[], &[Attr::Literal(Literal::Int(n))]), Type::Scalar(Scalar::I32))
    }

    /// Has all instructions read a value instead of another one.
    pub fn replace(&mut self, v: Value, by: Value) {
        self.by.insert(v, by);
    }

    /// Has everybody read what stands for values that are replaced.
    pub fn settle(&mut self) {
        let by = std::mem::take(&mut self.by);
        self.kernel.insts.values_mut().flat_map(|d| d.args.iter_mut()).for_each(|a| {
            while let Some(&next) = by.get(a) {
                *a = next;
            }
        });
    }

    /// Does instructions once more in front of another one, with other values for some that they read, and notes what stands for their results. They keep
    /// their places in the source.
    pub fn again(&mut self, list: &[Inst], at: (Region, Inst), own: &mut BTreeMap<Value, Value>) {
        for &i in list {
            let d = self.kernel.insts[i].clone();
            let args: Vec<Value> = d.args.iter().map(|v| own.get(v).copied().unwrap_or(*v)).collect();
            let types: Vec<Type> = d.results.iter().map(|&v| self.kernel.ty(v).clone()).collect();
            let made = self.kernel.add_inst(d.op, &args, d.present, &d.attrs, &[], &types);
            self.place(at, made);
            self.kernel.locs[made] = self.kernel.locs[i];
            let results = self.kernel.insts[made].results.clone();
            own.extend(d.results.iter().copied().zip(results));
        }
    }

    /// Zeros of a type; what a value begins as where nobody reads what it begins as, too.
    pub fn nothing(&mut self, at: (Region, Inst), ty: &Type) -> Option<Value> {
        let elem = match ty {
            Type::Scalar(s) => *s,
            Type::Tile(t) => t.elem,
            _ => return None,
        };
        let zero = if elem.is_float() { Literal::Float(0) } else { Literal::Int(0) };
        let scalar = self.put(at, (Op::Const, &[], &[Attr::Literal(zero)]), Type::Scalar(elem));
        Some(match ty {
            Type::Tile(_) => self.put(at, (Op::Splat, &[scalar], &[]), ty.clone()),
            _ => scalar,
        })
    }

    /// Instructions, the last one a yield, as a loop of at most one round in front of another one. What it carries begins as `init`, and stands for values
    /// that are the same in its only round.
    pub fn looped(&mut self, at: (Region, Inst), insts: Vec<Inst>, rounds: Value, init: &[Value], same: &[Value]) -> Vec<Value> {
        let (zero, one) = (self.number(at, 0), self.number(at, 1));
        let body = self.kernel.add_region();
        self.kernel.add_region_param(body, Type::Scalar(Scalar::I32));
        self.kernel.regions[body].insts = insts;
        let mut own: BTreeMap<Value, Value> = BTreeMap::new();
        for &v in same {
            let param = self.kernel.add_region_param(body, self.kernel.ty(v).clone());
            own.entry(v).or_insert(param);
        }
        let mut users = Vec::new();
        self.kernel.walk(body, &mut |i| users.push(i));
        self.read_instead(&users, &own);
        let args: Vec<Value> = [zero, rounds, one].into_iter().chain(init.iter().copied()).collect();
        let types: Vec<Type> = init.iter().map(|&v| self.kernel.ty(v).clone()).collect();
        let made = self.kernel.add_inst(Op::For, &args, 0, &[], &[body], &types);
        self.place(at, made);
        self.kernel.written_as[made] = Some(Op::If).filter(|_| self.kernel.insts[at.1].op == Op::If);
        self.kernel.insts[made].results.to_vec()
    }

    /// Has some instructions read other values.
    pub fn read_instead(&mut self, users: &[Inst], by: &BTreeMap<Value, Value>) {
        for &i in users {
            self.kernel.insts[i].args.iter_mut().for_each(|a| *a = by.get(a).copied().unwrap_or(*a));
        }
    }

    /// The kernel.
    pub fn finish(mut self) -> Kernel {
        self.settle();
        self.kernel
    }
}
