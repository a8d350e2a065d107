//! Metadata that the loader reads, as a tree: YAML in text, MessagePack in objects.

use super::arguments::{argument_bytes, threads};
use super::resources::Resources;
use crate::mir::{ArgKind, KernArg, Program};

/// A part of the metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A number.
    Number(u64),
    /// A string.
    Text(String),
    /// Some in a row.
    List(Vec<Node>),
    /// Some with names, in the names' order.
    Map(Vec<(&'static str, Node)>),
}

/// The metadata of a program's object. Names of a map are sorted, as LLVM writes them.
pub fn metadata(program: &Program) -> Node {
    let resources = Resources::of(program);
    let number = |n: u32| Node::Number(n.into());
    let kernel = Node::Map(vec![
        (".agpr_count", number(resources.accs)),
        (".args", Node::List(program.args.iter().map(argument).collect())),
        (".group_segment_fixed_size", number(program.lds_bytes)),
        (".kernarg_segment_align", number(8)),
        (".kernarg_segment_size", number(argument_bytes(program))),
        (".max_flat_workgroup_size", number(threads(program))),
        (".name", Node::Text(program.name.clone())),
        (".private_segment_fixed_size", number(program.scratch_bytes)),
        (".sgpr_count", number(resources.all_scalars())),
        (".sgpr_spill_count", number(program.spilled.scalars)),
        (".symbol", Node::Text(format!("{}.kd", program.name))),
        (".uniform_work_group_size", number(1)),
        (".vgpr_count", number(resources.lane_registers())),
        (".vgpr_spill_count", number(program.spilled.vectors)),
        (".wavefront_size", number(64)),
    ]);
    Node::Map(vec![
        ("amdhsa.kernels", Node::List(vec![kernel])),
        ("amdhsa.target", Node::Text(target(program))),
        ("amdhsa.version", Node::List(vec![Node::Number(1), Node::Number(2)])),
    ])
}

/// The target as code objects name it: any setting of what chips can switch.
pub fn target(program: &Program) -> String {
    format!("amdgcn-amd-amdhsa--{}", program.chip)
}

fn argument(arg: &KernArg) -> Node {
    let mut map = Vec::new();
    if arg.kind == ArgKind::Pointer {
        map.push((".address_space", Node::Text("global".to_owned())));
    }
    map.push((".offset", Node::Number(arg.offset.into())));
    map.push((".size", Node::Number(arg.size.into())));
    map.push((".value_kind", Node::Text(value_kind(arg.kind).to_owned())));
    Node::Map(map)
}

fn value_kind(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Value => "by_value",
        ArgKind::Pointer => "global_buffer",
        ArgKind::Workgroups(0) => "hidden_block_count_x",
        ArgKind::Workgroups(1) => "hidden_block_count_y",
        ArgKind::Workgroups(_) => "hidden_block_count_z",
    }
}
