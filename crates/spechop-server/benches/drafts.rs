//! What a draft takes as the server asks for it: in place, and on a thread of its own, which is left behind if it
//! hangs. The draft itself is in `spechop-draft`'s benchmark.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use spechop_draft::{PatternDrafter, Patterns};
use spechop_ports::{DraftRequest, Drafter};
use spechop_server::Guarded;
use spechop_types::{Draft, Question, Tenant};

/// Nobody knows whether it ends.
struct Unknown(PatternDrafter);

impl Drafter for Unknown {
    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft> {
        self.0.draft(request)
    }
}

fn drafts(criterion: &mut Criterion) {
    let question = "Who is the mother of the director of film Polish-Russian War?";
    let question = Question::new(question).unwrap();
    let shipped = || PatternDrafter::new(Patterns::shipped().unwrap());
    let bare = shipped();
    let in_place = Guarded::new(shipped(), true).unwrap();
    let on_its_thread = Guarded::new(Unknown(shipped()), true).unwrap();
    let drafters: [(&str, &dyn Drafter); 3] = [
        ("draft/bare", &bare),
        ("draft/in place", &in_place),
        ("draft/on its thread", &on_its_thread),
    ];
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
