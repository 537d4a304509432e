//! Benchmarks without a framework.

/// The words behind `cargo bench … --`, without flags. None where `cargo test --benches` runs it: a benchmark is no
/// test.
pub fn bench_arguments() -> Option<Vec<String>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_asked_for = arguments.iter().any(|argument| argument == "--bench");
    let words = arguments
        .into_iter()
        .filter(|argument| !argument.starts_with('-'));
    is_asked_for.then(|| words.collect())
}
