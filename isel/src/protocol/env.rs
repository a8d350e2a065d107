//! The values that are known at a point: what this turn of a loop has made, over what was known in front of the loop.

use super::hash::Quick;
use super::value::Abs;
use crate::lane::LVal;
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// What was known in front of a loop; it does not change any more, and is hashed once.
#[derive(Debug)]
struct Below {
    env: Env,
    hash: u64,
}

impl PartialEq for Below {
    fn eq(&self, other: &Below) -> bool {
        self.hash == other.hash && self.env == other.env
    }
}

impl Eq for Below {}

/// Values that are the same everywhere, by number.
#[derive(Clone, Debug, Default)]
struct Fixed(Rc<[Option<Abs>]>);

/// Values by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Env {
    fixed: Fixed,
    below: Option<Rc<Below>>,
    own: Rc<BTreeMap<LVal, Abs>>,
}

impl PartialEq for Env {
    fn eq(&self, other: &Env) -> bool {
        self.own == other.own && self.below == other.below
    }
}

impl Eq for Env {}

impl Hash for Env {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.below.as_ref().map(|b| b.hash).hash(state);
        self.own.hash(state);
    }
}

impl Env {
    /// One that knows values which are the same everywhere.
    pub fn knowing(fixed: Rc<[Option<Abs>]>) -> Env {
        Env { fixed: Fixed(fixed), ..Env::default() }
    }

    /// Everything that is known so far, to be built upon.
    pub fn under(self) -> Env {
        if self.own.is_empty() && self.below.is_some() {
            return self;
        }
        let mut hasher = Quick::default();
        self.hash(&mut hasher);
        Env { fixed: self.fixed.clone(), below: Some(Rc::new(Below { hash: hasher.finish(), env: self })), own: Rc::default() }
    }

    pub fn get(&self, v: &LVal) -> Option<&Abs> {
        if let Some(Some(a)) = self.fixed.0.get(v.index()) {
            return Some(a);
        }
        let mut env = self;
        loop {
            match (env.own.get(v), &env.below) {
                (Some(Abs::Any), _) | (None, None) => return None,
                (Some(a), _) => return Some(a),
                (None, Some(below)) => env = &below.env,
            }
        }
    }

    /// Sets a value; [`Abs::Any`] forgets it.
    pub fn insert(&mut self, v: LVal, a: Abs) {
        if a == Abs::Any && self.below.as_ref().is_none_or(|b| b.env.get(&v).is_none()) {
            if self.own.contains_key(&v) {
                Rc::make_mut(&mut self.own).remove(&v);
            }
        } else {
            Rc::make_mut(&mut self.own).insert(v, a);
        }
    }

    pub fn set(&mut self, v: LVal, a: Option<Abs>) {
        self.insert(v, a.unwrap_or(Abs::Any));
    }

    /// Everything, changed by a function, with nothing below.
    pub fn map(&self, f: &dyn Fn(&Abs) -> Abs) -> Env {
        let mut own = self.below.as_ref().map_or_else(BTreeMap::new, |b| Rc::unwrap_or_clone(b.env.map(f).own));
        for (&v, a) in &*self.own {
            if *a == Abs::Any {
                own.remove(&v);
            } else {
                own.insert(v, f(a));
            }
        }
        Env { fixed: self.fixed.clone(), below: None, own: Rc::new(own) }
    }
}
