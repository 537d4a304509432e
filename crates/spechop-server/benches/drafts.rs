//! What a draft takes as the server asks for it: on a thread of its own, which is left behind if it hangs. The
//! draft itself is in `spechop-draft`'s benchmark.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use spechop_draft::{PatternDrafter, Patterns};
use spechop_ports::{DraftRequest, Drafter};
use spechop_server::Guarded;
use spechop_types::{Question, Tenant};

fn drafts(criterion: &mut Criterion) {
    let question = "Who is the mother of the director of film Polish-Russian War?";
    let question = Question::new(question).unwrap();
    let shipped = || PatternDrafter::new(Patterns::shipped().unwrap());
    let guarded = Guarded::new(shipped(), true).unwrap();
    let bare = shipped();
    let drafters: [(&str, &dyn Drafter); 2] =
        [("draft/bare", &bare), ("draft/on its thread", &guarded)];
    for (name, drafter) in drafters {
        let request = DraftRequest {
            tenant: &Tenant::default(),
            question: &question,
            hops: &[],
            limit: 2,
        };
        criterion.bench_function(name, |bench| {
            bench.iter(|| drafter.draft(black_box(&request)));
        });
    }
}

criterion_group!(benches, drafts);
criterion_main!(benches);
