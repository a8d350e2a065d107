//! The whole file: code, descriptor, metadata.

use super::inst;
use super::operand::label;
use crate::chip::Chip;
use crate::encode::{Code, EncodeError, encode};
use crate::kernel::{Node, Resources, argument_bytes, metadata, target};
use crate::mir::Program;
use std::fmt::Write;

/// An assembly file of a program, if it can be encoded.
pub fn print(program: &Program) -> Result<String, EncodeError> {
    Ok(file(program, &encode(program)?))
}

/// An assembly file of a program whose machine code is there: that can be assembled.
pub fn file(program: &Program, code: &Code) -> String {
    const BYTES_OF_A_LINE: usize = 40;
    let mut out = String::with_capacity(4096 + BYTES_OF_A_LINE * code.starts.len());
    // Writing to a string does not fail.
    let _ = write(program, &mut out);
    out
}

fn write(program: &Program, out: &mut String) -> std::fmt::Result {
    let name = &program.name;
    writeln!(out, "\t.amdgcn_target \"{}\"", target(program))?;
    writeln!(out, "\t.amdhsa_code_object_version 5")?;
    writeln!(out, "\t.text\n\t.globl\t{name}\n\t.protected\t{name}\n\t.p2align\t8\n\t.type\t{name},@function\n{name}:")?;
    for (block, data) in program.blocks.iter() {
        label(block, out)?;
        out.push_str(":\n");
        for inst in &data.insts {
            out.push('\t');
            inst::write(inst, program.chip, out)?;
            out.push('\n');
        }
    }
    writeln!(out, ".Lend:\n\t.size\t{name}, .Lend-{name}\n")?;
    descriptor(program, out)?;
    writeln!(out, "\n\t.amdgpu_metadata\n---")?;
    yaml(&metadata(program), 0, out)?;
    writeln!(out, "...\n\t.end_amdgpu_metadata")
}

fn descriptor(program: &Program, out: &mut String) -> std::fmt::Result {
    let resources = Resources::of(program);
    writeln!(out, "\t.section\t.rodata,\"a\",@progbits\n\t.p2align\t6\n\t.amdhsa_kernel {}", program.name)?;
    let [x, y, z] = program.entry.workgroup.map(u32::from);
    let scratch = match program.chip {
        Chip::Gfx90a => "system_sgpr_private_segment_wavefront_offset",
        _ => "enable_private_segment",
    };
    let setup = u32::from(program.scratch_setup().is_some());
    let fields = [
        ("group_segment_fixed_size", program.lds_bytes),
        ("private_segment_fixed_size", program.scratch_bytes),
        (scratch, u32::from(program.scratch_bytes != 0)),
        ("kernarg_size", argument_bytes(program)),
        ("user_sgpr_count", 2 + 2 * setup),
        ("user_sgpr_kernarg_segment_ptr", 1),
        ("system_sgpr_workgroup_id_x", x),
        ("system_sgpr_workgroup_id_y", y),
        ("system_sgpr_workgroup_id_z", z),
        ("system_vgpr_workitem_id", 0),
        ("next_free_vgpr", resources.lane_registers()),
        ("next_free_sgpr", resources.scalars),
        ("accum_offset", resources.acc_offset()),
        ("reserve_vcc", 1),
        ("reserve_xnack_mask", 1),
        ("float_denorm_mode_32", 3),
        ("float_denorm_mode_16_64", 3),
        ("dx10_clamp", 1),
        ("ieee_mode", 1),
        ("tg_split", 0),
    ];
    // Chips that have the address ready have no such directive.
    let setup = (setup != 0).then_some(("user_sgpr_flat_scratch_init", 1));
    for (field, value) in fields.into_iter().chain(setup) {
        writeln!(out, "\t\t.amdhsa_{field} {value}")?;
    }
    writeln!(out, "\t.end_amdhsa_kernel")
}

/// Strings have the tag that LLVM knows: it reads `n`, `on` and `nan` as truth values and numbers else, quoted or with the tag of YAML, too.
fn yaml(node: &Node, depth: usize, out: &mut String) -> std::fmt::Result {
    let indent = |depth: usize| "  ".repeat(depth);
    match node {
        Node::Map(map) => {
            for (name, value) in map {
                write!(out, "{}{name}:", indent(depth))?;
                inner(value, depth, out)?;
            }
        }
        Node::List(list) => {
            for value in list {
                write!(out, "{}-", indent(depth))?;
                inner(value, depth, out)?;
            }
        }
        Node::Number(_) | Node::Text(_) => inner(node, depth, out)?,
    }
    Ok(())
}

/// What stands behind a name or a dash.
fn inner(node: &Node, depth: usize, out: &mut String) -> std::fmt::Result {
    match node {
        Node::Number(n) => writeln!(out, " {n}"),
        Node::Text(text) => writeln!(out, " !str {text}"),
        Node::List(list) if list.is_empty() => writeln!(out, " []"),
        Node::List(_) | Node::Map(_) => {
            writeln!(out)?;
            yaml(node, depth + 1, out)
        }
    }
}
