//! Configuration, wiring, gRPC.
