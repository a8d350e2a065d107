//! What several passes ask of numbers.

use std::ops::Rem;

/// The largest number that divides two that are not negative; of zero and another one, the other one.
pub fn gcd<T: Copy + Default + PartialEq + Rem<Output = T>>(a: T, b: T) -> T {
    if b == T::default() { a } else { gcd(b, a % b) }
}
