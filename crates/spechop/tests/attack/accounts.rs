//! Attacks on tenants' accounts.

use std::time::Duration;

use spechop_proto::{AskRequest, Budget, GetTuningRequest};
use tonic::Code;

use crate::victim::{FILES, Victim, of, question};
use crate::{Row, Size};

/// A question that sets aside all that its tenant may spend.
fn greedy() -> AskRequest {
    let budget = Budget {
        target_calls: Some(1000),
        ..Budget::default()
    };
    AskRequest {
        budget: Some(budget),
        ..question()
    }
}

/// H4: questions that come to no answer, each of which wanted the whole account.
pub(crate) async fn charges() -> Row {
    let victim = Victim::start(FILES, &["tenant.target_calls=100", "tenant.period_s=3600"]);
    let mut client = victim.client().await;

    // J1: a name that is taken. The first question has gone when the second one is refused, or not.
    let named = AskRequest {
        question_id: "same".to_owned(),
        ..greedy()
    };
    let (first, second) = (of("j1", named.clone()), of("j1", named));
    let mut other = client.clone();
    let _ = tokio::join!(client.ask(first), other.ask(second));

    // J2: cancelled at once.
    let cancelled = client.ask(of("j2", greedy()));
    let _ = tokio::time::timeout(Duration::from_millis(2), cancelled).await;

    // J3: no time at all.
    let hasty = AskRequest {
        deadline_ms: Some(1),
        ..greedy()
    };
    let _ = client.ask(of("j3", hasty)).await;

    // J4: a question that the planner refuses.
    let unknown = AskRequest {
        question: "Nobody has recorded this question.".to_owned(),
        ..greedy()
    };
    client.ask(of("j4", unknown)).await.unwrap_err();

    // J5: many that have no budget of their own.
    for _ in 0..20 {
        let hasty = AskRequest {
            deadline_ms: Some(1),
            ..question()
        };
        let _ = client.ask(of("j5", hasty)).await;
    }
    for tenant in ["j1", "j2", "j3", "j4", "j5"] {
        let answer = client.ask(of(tenant, question())).await;
        assert!(answer.is_ok(), "{tenant} is locked out: {answer:?}");
    }
    // Whoever has spent all is refused, all the same.
    let mut refused = false;
    for _ in 0..200 {
        // Near the end the budget cuts questions short, and that was not recorded.
        let answer = client.ask(of("spends", question())).await;
        refused |= answer.is_err_and(|status| status.code() == Code::ResourceExhausted);
    }
    assert!(refused);
    Row {
        finding: "H4",
        attack: "J1 to J5: refused, cancelled, expired questions with the whole account set aside"
            .to_owned(),
        observed: "5 of 5 tenants are answered afterwards".to_owned(),
    }
}

/// M6: names of tenants without end.
pub(crate) async fn names(size: Size) -> Row {
    let victim = Victim::start(FILES, &["tenant.target_calls=100", "tenant.period_s=3600"]);
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let count = size.of(500, 40_000);
    let mut client = victim.client().await;
    let mut parts = Vec::new();
    for part in 0..8 {
        let cpu = victim.cpu_seconds();
        for number in 0..count / 8 {
            let hasty = AskRequest {
                deadline_ms: Some(1),
                ..question()
            };
            let tenant = format!("t{part}-{number}");
            let _ = client.ask(of(&tenant, hasty)).await;
        }
        parts.push(victim.cpu_seconds() - cpu);
    }
    // What they ask of the operator's calls is theirs, too.
    let mut admin = victim.admin().await;
    admin
        .get_tuning(of("t0-0", GetTuningRequest {}))
        .await
        .unwrap();
    let grown = victim.megabytes() - before;
    assert!(grown < 30.0, "{grown:.0} MB more than before");
    let (first, last) = (parts[0], parts[7]);
    let mut observed = format!("{grown:+.0} MB");
    if size.tells_times() {
        assert!(last < 1.5 * first, "{last:.2} s of CPU after {first:.2} s");
        observed +=
            &format!(", CPU {first:.2} s for the first eighth and {last:.2} s for the last");
    }
    Row {
        finding: "M6",
        attack: format!("{count} names of tenants"),
        observed,
    }
}
