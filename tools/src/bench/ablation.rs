//! What each step of specialisation is worth: variants of a product from a pipelined loop to the model's choice, one step after the other.

use super::problem::Variant;
use tilelift_ir::Scalar;
use tilelift_isel::ScheduleKind;

/// Bytes of depth that a step of the main loop multiplies: a row of a swizzle atom.
const DEPTH: u32 = 128;

/// The steps, each with all those before it: a loop with asynchronous copies; a warp that copies and a warpgroup that multiplies;
/// a second group for half of the rows; the model's tile; instances that run many tiles; a ring as deep as fits; the rest of the model's
/// choice. `best` is that choice.
pub(crate) fn ladder(elem: Scalar, best: Variant) -> Vec<Variant> {
    let square = [128, 128, DEPTH / elem.bytes().max(1)];
    let shallow = Some(2);
    let pipelined = Variant { tile: Some(square), schedule: Some(ScheduleKind::Pipelined), ..Variant::default() };
    let specialised = Variant {
        tile: Some(square),
        schedule: Some(ScheduleKind::Specialised),
        stages: shallow,
        consumers: Some(1),
        persistent: Some(false),
        units: true,
        ..Variant::default()
    };
    let cooperative = Variant { consumers: Some(2), ..specialised };
    let large = Variant { tile: best.tile.or(Some(square)), group: best.group, consumers: best.consumers, ..cooperative };
    let persistent = Variant { persistent: None, ..large };
    let deep = Variant { stages: None, ..persistent };
    let mut list = vec![pipelined, specialised, cooperative, large, persistent, deep, best];
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_changes_something_and_the_last_one_is_the_choice() {
        let best = Variant { tile: Some([128, 256, 64]), consumers: Some(2), consumer_sets: Some(1), units: true, ..Variant::default() };
        let list = ladder(Scalar::BF16, best);
        assert_eq!((list.len(), list.last()), (7, Some(&best)));
        assert!(list.windows(2).all(|w| w[0] != w[1]));
        // A choice that is the square tile itself has no larger one.
        assert_eq!(ladder(Scalar::I8, Variant { tile: Some([128, 128, 128]), ..best }).len(), 6);
    }
}
