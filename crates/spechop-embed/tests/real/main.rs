//! Encoders and readers on the real ONNX Runtime, most of them on real models. `make test` pulls
//! these and then runs this target; plain `cargo test` leaves it out.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod damage;
mod encoder;
mod int8;
mod open;
mod open_reader;
mod reader;
mod tiny;
mod trained_reader;
