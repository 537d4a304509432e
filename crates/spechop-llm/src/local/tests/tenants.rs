//! What a tenant can tell of another from what the model does. It is counted in tokens and not in time: what
//! is told apart by time is told apart because fewer tokens are computed.

use spechop_ports::{Lane, contract};
use spechop_types::{Chance, Tenant};

use super::super::tiny;
use super::*;
use crate::{Chat, Message, Prompt, Role};

/// How questions are put to the model.
type Ask = fn(&str) -> Prompt;

/// Instructions, the same for all, and the question behind them.
fn chat(question: &str) -> Prompt {
    let message = |role, text: &str| Message {
        role,
        text: text.into(),
    };
    let instructions = "You answer questions, and say no more than what was asked. ".repeat(3);
    Prompt::Chat(Chat {
        messages: vec![
            message(Role::System, &instructions),
            message(Role::User, question),
        ],
        fixed: 1,
    })
}

/// The question alone, in a line.
fn text(question: &str) -> Prompt {
    Prompt::Text(format!("Question: {question}\n").into())
}

/// Of about 100 tokens, and the same number each. The first 26 differ from the first letter on.
fn question(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    format!(
        "{letter}{number:03}: who directed the film in which the mother of the composer of the opera sings?"
    )
}

/// A model that has already been asked something by somebody, as in any server.
async fn model(folder: &Path, workers: u32, ask: Ask) -> LocalModel {
    let model = LocalModel::open(LocalModelOptions {
        workers: NonZeroU32::new(workers).expect("not zero"),
        threads: Some(NonZeroU32::MIN),
        context_tokens_per_sequence: 1024,
        ..LocalModelOptions::new(tiny::model(folder))
    });
    let model = model.expect("the tiny model");
    computed(&model, &tenant("first"), ask(&question(999))).await;
    model
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).expect("a name")
}

/// Tokens of a prompt that are computed for a tenant.
async fn computed(model: &LocalModel, tenant: &Tenant, prompt: Prompt) -> u64 {
    let before = model.stats().prefilled_tokens;
    let call = Call::of(tenant.clone(), Lane::Authoritative, Chance::CERTAIN);
    let generation = Generation {
        prompt,
        tokens_max: 1,
        stop: &[],
        drafts: Vec::new(),
        sample: 0,
    };
    model.generate(&call, generation).await.expect("a token");
    model.stats().prefilled_tokens - before
}

#[tokio::test]
async fn a_tenant_finds_nothing_of_another() {
    let folder = tempfile::tempdir().unwrap();
    for (ask, workers) in [(chat as Ask, 1), (text, 1), (chat, 2), (text, 2)] {
        let model = model(folder.path(), workers, ask).await;
        contract::cache(async |tenant| computed(&model, &tenant, ask(&question(1))).await).await;
    }
}

/// The attack: ask what others may have asked, and compare with what nobody has asked.
#[tokio::test]
async fn of_24_questions_none_is_told_apart() {
    told_apart().await;
}

/// The same, for the attack's table.
#[tokio::test]
#[ignore = "`make attack` runs it"]
async fn attack_by_comparing_costs() {
    told_apart().await;
    // The harness has begun the line.
    eprintln!(
        "\n| M2 | 24 questions, half of them asked before by another tenant | 0 of 24 told apart, by tokens computed |"
    );
}

async fn told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(tenant);
    for (ask, workers) in [(chat as Ask, 1), (text, 1), (chat, 2), (text, 2)] {
        let model = model(folder.path(), workers, ask).await;
        // What b's own prompts begin with is found by all others of b.
        computed(&model, &b, ask(&question(25))).await;
        let mut costs = [Vec::new(), Vec::new()];
        for number in 0..24 {
            let asked_before = number % 2 == 0;
            if asked_before {
                let first = computed(&model, &a, ask(&question(number))).await;
                let again = computed(&model, &a, ask(&question(number))).await;
                assert!(again < first, "what a has asked itself it finds");
            }
            let cost = computed(&model, &b, ask(&question(number))).await;
            costs[usize::from(asked_before)].push(cost);
        }
        let [new, asked] = costs;
        let told_apart = asked.iter().filter(|cost| **cost != new[0]).count();
        assert_eq!(
            (told_apart, asked.len(), new.len()),
            (0, 12, 12),
            "{asked:?} {new:?}"
        );
        assert!(new.iter().all(|cost| *cost == new[0]), "{new:?}");
        // What is the same for all has been computed once.
        let instructions = model.stats().reused_tokens > 0;
        assert!(instructions);
    }
}
