//! Tests of the lane interpreter.
