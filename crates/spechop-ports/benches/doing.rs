//! What it costs to say what a call is doing, which a local model does for every token.
//!
//! Processor time of this thread, so that other work on the machine does not count.
//!
//! `cargo bench -p spechop-ports --bench doing`
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark measures and prints"
)]

use std::fs;
use std::hint::black_box;

use spechop_ports::Call;
use spechop_types::Activity;

const TIMES: u64 = 2_000_000;

fn main() {
    let call = Call::authoritative();
    // As in an engine: somebody waits for the whole generation.
    let _waiting = call.doing(Activity::Queue);
    let before = processor_ns();
    for _ in 0..TIMES {
        drop(black_box(call.doing(Activity::Decode)));
    }
    let each = (processor_ns() - before) / TIMES;
    println!("an activity, begun and ended: {each} ns");
    assert!(!call.activities().total().is_zero());
}

/// What this thread has had of the processors.
fn processor_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = stat.split(' ').next().expect("a number");
    first.parse().expect("nanoseconds")
}
