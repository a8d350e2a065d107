//! How far an output is from what it must be.

use crate::reference::Expected;
use crate::tensor::TensorSpec;
use std::fmt;
use tilelift_ir::{Scalar, num};

/// Why an output could not be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckError {
    /// The number of tensors is not the case's.
    TensorCount {
        /// The case's.
        want: usize,
        /// The given.
        got: usize,
    },
    /// An input is not of the case's element type, shape or size.
    Tensor {
        /// Which.
        name: &'static str,
    },
    /// An input was written.
    InputWritten {
        /// Which.
        name: &'static str,
    },
    /// The number of outputs is not the case's.
    OutputCount {
        /// The case's.
        want: usize,
        /// The given.
        got: usize,
    },
    /// An output has another size.
    OutputLength {
        /// Which.
        name: &'static str,
        /// Bytes of the case's output.
        want: usize,
        /// Bytes given.
        got: usize,
    },
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::TensorCount { want, got } => write!(f, "the case has {want} tensors, not {got}; pass those of `make_tensors`"),
            CheckError::Tensor { name } => write!(f, "tensor `{name}` is not the case's; pass those of `make_tensors`"),
            CheckError::InputWritten { name } => write!(f, "the kernel wrote its input `{name}`"),
            CheckError::OutputCount { want, got } => {
                write!(f, "the case has {want} outputs, not {got}; pass the bytes of every tensor that it writes")
            }
            CheckError::OutputLength { name, want, got } => {
                write!(f, "output `{name}` has {want} bytes, not {got}; pass the whole tensor's bytes")
            }
        }
    }
}
impl std::error::Error for CheckError {}

/// An element and how far it is off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
    /// The output.
    pub tensor: &'static str,
    /// Row-major index in the output.
    pub index: usize,
    /// What was found.
    pub got: f64,
    /// What was asked for.
    pub want: Expected,
    /// `|got - want| / tolerance`; infinite where one of them is NaN or infinite and the other is not, or an exact value is missed.
    pub e: f64,
}

/// The judgement of an output.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Elements judged.
    pub elements: usize,
    /// Elements outside their tolerance.
    pub mismatches: usize,
    /// The element with the largest `e`, if there is any element.
    pub worst: Option<Worst>,
    /// `||got - want|| / ||want||` over the finite expected values; 0 if they are all 0 and met.
    pub rel_l2: f64,
    /// Its bar, if the case has one.
    pub rel_l2_bar: Option<f64>,
    /// Bytes of other programs' elements that lost their poison.
    pub stray_bytes: usize,
    /// The first of them, as an element's index.
    pub first_stray: Option<usize>,
}

impl Verdict {
    /// True if every judged element is within its tolerance, the norm within its bar, and nothing else was written.
    pub fn pass(&self) -> bool {
        self.elements > 0 && self.mismatches == 0 && self.stray_bytes == 0 && self.rel_l2_bar.is_none_or(|bar| self.rel_l2 <= bar)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.pass() { "pass" } else { "FAIL" };
        write!(f, "{word}: {} of {} elements outside tolerance, relL2 {:.3e}", self.mismatches, self.elements, self.rel_l2)?;
        if let Some(bar) = self.rel_l2_bar {
            write!(f, " (bar {bar:.3e})")?;
        }
        if let Some(Worst { tensor, index, got, want, e }) = self.worst {
            write!(f, ", worst E {e:.3} at `{tensor}` element {index}: got {got:e}, want {:e} +- {:.2e}", want.value, want.tolerance)?;
        }
        if let Some(i) = self.first_stray {
            write!(f, ", {} bytes written outside the programs' elements, first at element {i}", self.stray_bytes)?;
        }
        Ok(())
    }
}

/// Gathers a verdict.
pub(super) struct Tally {
    tensor: &'static str,
    elem: Scalar,
    verdict: Verdict,
    error2: f64,
    norm2: f64,
}

impl Tally {
    pub(super) fn new(out: &TensorSpec) -> Tally {
        let verdict = Verdict { elements: 0, mismatches: 0, worst: None, rel_l2: 0.0, rel_l2_bar: None, stray_bytes: 0, first_stray: None };
        Tally { tensor: out.name, elem: out.elem, verdict, error2: 0.0, norm2: 0.0 }
    }

    pub(super) fn element(&mut self, index: usize, want: Expected, got: f64) {
        let e = distance(want, got, self.elem);
        let v = &mut self.verdict;
        v.elements += 1;
        v.mismatches += usize::from(e > 1.0);
        if v.worst.is_none_or(|w| e > w.e) {
            v.worst = Some(Worst { tensor: self.tensor, index, got, want, e });
        }
        // Infinities that agree add nothing; those that do not are mismatches already.
        if want.value.is_finite() && got.is_finite() {
            self.error2 += (got - want.value).powi(2);
            self.norm2 += want.value.powi(2);
        }
    }

    /// Counts bytes of elements from `first` on that are no longer poison.
    pub(super) fn untouched(&mut self, first: usize, bytes: &[u8]) {
        let v = &mut self.verdict;
        for (i, _) in bytes.iter().enumerate().filter(|&(_, &b)| b != 0xff) {
            v.stray_bytes += 1;
            v.first_stray.get_or_insert(first + i / self.elem.bytes() as usize);
        }
    }

    /// Takes in the tally of elements behind.
    pub(super) fn join(&mut self, other: Tally) {
        let (v, o) = (&mut self.verdict, other.verdict);
        v.elements += o.elements;
        v.mismatches += o.mismatches;
        v.stray_bytes += o.stray_bytes;
        v.first_stray = v.first_stray.or(o.first_stray);
        if let Some(w) = o.worst
            && v.worst.is_none_or(|mine| w.e > mine.e)
        {
            v.worst = Some(w);
        }
        self.error2 += other.error2;
        self.norm2 += other.norm2;
    }

    pub(super) fn verdict(mut self, bar: Option<f64>) -> Verdict {
        self.verdict.rel_l2 = if self.error2 == 0.0 { 0.0 } else { (self.error2 / self.norm2).sqrt() };
        self.verdict.rel_l2_bar = bar;
        self.verdict
    }
}

/// How far a value is from the expected one, in tolerances.
pub(super) fn distance(want: Expected, got: f64, elem: Scalar) -> f64 {
    if want.value.is_nan() || got.is_nan() {
        return if want.value.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if want.tolerance == 0.0 {
        let same = want.value == got && want.value.is_sign_negative() == got.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    // A value beyond the type's range is infinite in the type.
    let rounded = if elem.is_float() { num::round(want.value, elem) } else { want.value };
    if got == rounded {
        0.0
    } else if got.is_finite() && want.value.is_finite() {
        (got - want.value).abs() / want.tolerance
    } else {
        f64::INFINITY
    }
}
