//! Text to vectors on ONNX Runtime.
