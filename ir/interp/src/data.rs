//! Run-time values: scalars and tiles as row-major elements in `f64` or `i64`.
//!
//! Every float type is a subset of `f64` and every integer of `i64` (sign-extended; `i1` is 0 or 1). Elements are shared by
//! reference count, so that copies are free, and an op whose operand has no other owner writes its result in place.

use super::error::Fault;
use smallvec::SmallVec;
use std::rc::Rc;

/// The elements of a scalar (one) or tile (row-major).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    /// Elements of a float type.
    Float(Rc<Vec<f64>>),
    /// Elements of an integer type or `i1`.
    Int(Rc<Vec<i64>>),
}

impl Data {
    pub(crate) fn floats(v: Vec<f64>) -> Data {
        Data::Float(Rc::new(v))
    }
    pub(crate) fn ints(v: Vec<i64>) -> Data {
        Data::Int(Rc::new(v))
    }
    /// True if both share their elements.
    pub(crate) fn is(&self, other: &Data) -> bool {
        match (self, other) {
            (Data::Float(a), Data::Float(b)) => Rc::ptr_eq(a, b),
            (Data::Int(a), Data::Int(b)) => Rc::ptr_eq(a, b),
            (Data::Float(_), Data::Int(_)) | (Data::Int(_), Data::Float(_)) => false,
        }
    }
    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        match self {
            Data::Float(v) => v.len(),
            Data::Int(v) => v.len(),
        }
    }
    /// An integer or truth value as a scalar.
    pub(crate) fn int(x: i64) -> Data {
        Data::ints(vec![x])
    }
    /// The elements as text: a scalar bare, a tile's first elements between brackets.
    pub(crate) fn text(&self) -> String {
        const SHOWN: usize = 64;
        fn list<T: std::fmt::Debug>(v: &[T]) -> String {
            match v {
                [x] => format!("{x:?}"),
                _ if v.len() <= SHOWN => format!("{v:?}"),
                _ => format!("{:?}, … {} more", &v[..SHOWN], v.len() - SHOWN),
            }
        }
        match self {
            Data::Float(v) => list(v),
            Data::Int(v) => list(v),
        }
    }
    /// The only element of an integer scalar.
    pub(crate) fn as_int(&self) -> Result<i64, Fault> {
        match self {
            Data::Int(v) => v.first().copied().ok_or(Fault::Malformed("an integer scalar without an element")),
            Data::Float(_) => Err(Fault::Malformed("a float where an integer belongs")),
        }
    }
    /// The elements of an integer tile or scalar, keeping ownership.
    pub(crate) fn into_ints(self) -> Result<Rc<Vec<i64>>, Fault> {
        match self {
            Data::Int(v) => Ok(v),
            Data::Float(_) => Err(Fault::Malformed("a float where an integer belongs")),
        }
    }
    /// The elements of a tile or scalar of floats.
    pub(crate) fn as_floats(&self) -> Result<&Rc<Vec<f64>>, Fault> {
        match self {
            Data::Float(v) => Ok(v),
            Data::Int(_) => Err(Fault::Malformed("an integer where a float belongs")),
        }
    }
    /// The elements of an integer tile or scalar.
    pub(crate) fn as_ints(&self) -> Result<&Rc<Vec<i64>>, Fault> {
        match self {
            Data::Int(v) => Ok(v),
            Data::Float(_) => Err(Fault::Malformed("a float where an integer belongs")),
        }
    }
}

/// Values that travel together: operands, carried values, yields.
pub(crate) type Bundle = SmallVec<[Data; 4]>;

/// Applies a function to every element, in place if nobody else holds them.
pub(crate) fn map<T: Copy>(mut a: Rc<Vec<T>>, f: impl Fn(T) -> T) -> Rc<Vec<T>> {
    Rc::make_mut(&mut a).iter_mut().for_each(|x| *x = f(*x));
    a
}

/// Combines two tiles element by element, in place in the first if nobody else holds it.
pub(crate) fn zip<T: Copy>(mut a: Rc<Vec<T>>, b: &[T], f: impl Fn(T, T) -> T) -> Rc<Vec<T>> {
    Rc::make_mut(&mut a).iter_mut().zip(b).for_each(|(x, &y)| *x = f(*x, y));
    a
}
