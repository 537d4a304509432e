//! Code generated from proto/.
