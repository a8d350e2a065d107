//! Launch parameters for the simulator.

use tilelift_isel::abi::ParamValue;
use tilelift_nvptx_sim as sim;

/// Launch parameters as the simulator takes them.
pub fn arguments(values: &[ParamValue]) -> Vec<sim::Arg> {
    values
        .iter()
        .map(|v| match v {
            ParamValue::Number { bits, size: 4 } => sim::Arg::U32(*bits as u32),
            ParamValue::Number { bits, .. } => sim::Arg::U64(*bits),
            ParamValue::Tensor(t) => {
                let element = sim::MapElement::of(t.elem.name(), t.elem.bytes(), t.tf32);
                let map = sim::TensorMap::swizzled_box(t.base, element, &t.extents, &t.strides, &t.box_extents, t.swizzle).unwrap();
                sim::Arg::TensorMap(Box::new(map))
            }
        })
        .collect()
}
