//! The printed form, on a program that has one of every instruction.

use super::*;
use crate::inst::Opcode;
use crate::testing::EVERYTHING;

/// Units and roles are for certain machines; their texts are tested where those are.
#[test]
fn every_instruction_of_the_table_is_in_that_program() {
    fn codes(block: &crate::inst::Block, out: &mut Vec<Opcode>) {
        for inst in block {
            out.push(inst.code());
            assert_eq!(inst.control().is_some(), inst.effect() == crate::table::Effect::Control, "{}", inst.code().name());
            crate::visit::blocks(inst).for_each(|b| codes(b, out));
        }
    }
    let mut seen = Vec::new();
    codes(&everything().p.body, &mut seen);
    let missing: Vec<_> = Opcode::ALL.iter().filter(|c| !seen.contains(c) && ![Opcode::Unit, Opcode::Roles].contains(c)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_program_with_everything_prints_line_by_line() {
    let program = everything().p;
    verify(&program, &target()).unwrap();
    let text = program.to_string();
    for (got, want) in text.lines().zip(EVERYTHING.lines()) {
        assert_eq!(got, want);
    }
    assert_eq!(text.lines().count(), EVERYTHING.lines().count());
}
