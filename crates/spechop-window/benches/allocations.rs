//! What `apply` allocates, per event, and how much of it the returned effects take.
//! `cargo bench -p spechop-window --bench allocations`

#![expect(clippy::print_stdout, reason = "a benchmark's result")]

mod question;

use std::alloc::System;

use question::{question, texts};
use spechop_window::Policy;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let (asked, right, wrong) = texts();
    println!("allocations an event at k = 8 (growing included): all, and those of the effects");
    for (name, policy) in [("paper", Policy::PAPER), ("salvage", Policy::default())] {
        for hops in [5, 16, 200] {
            let (mut all, mut of_effects) = (0, 0);
            let events = question(policy, hops, &asked, &right, &wrong, |window, event| {
                let region = Region::new(GLOBAL);
                let effects = window.apply(event);
                let change = region.change();
                all += change.allocations + change.reallocations;
                // They grow by doubling from four, which need none.
                of_effects += effects.capacity().ilog2().saturating_sub(2) as usize;
                effects
            });
            let per = |count: usize| count as f64 / events as f64;
            println!(
                "{name:>8} {hops:>4} hops  {:.2}  {:.2}",
                per(all),
                per(of_effects)
            );
        }
    }
}
