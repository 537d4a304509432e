//! What only real models show: how much memory there is in all, and what times tell of other tenants.

use std::time::Duration;

use spechop_proto::ask_event::Event;
use spechop_proto::options::Width;
use spechop_proto::{AskEvent, AskRequest};

use crate::victim::{HASTE, Victim, of};
use crate::{Row, Size, requests, transport};

/// Whatever one client sends.
const MEGABYTES_MAX: f64 = 1000.0;

/// Everything that grew the memory once, one after the other, on one server.
pub(crate) async fn memory() -> Row {
    let victim = Victim::real(&[HASTE]);
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let size = Size::Full;
    transport::resets(&victim, size).await;
    transport::rapid_resets(&victim, size).await;
    transport::halves(&victim, size).await;
    transport::garbage(&victim, size).await;
    requests::cancels(&victim, size).await;
    let most = victim.most_megabytes();
    assert!(most < MEGABYTES_MAX, "{most:.0} MB");
    Row {
        finding: "H1, H3",
        attack: "malformed heads, resets, half-sent messages, noise and cancels on one server with real models"
            .to_owned(),
        observed: format!("{before:.0} MB before, {most:.0} MB at most"),
    }
}

/// M2: how long the first segment of a long question takes, asked before by another tenant or by nobody.
pub(crate) async fn tenants_by_time() -> Row {
    const EACH: usize = 12;
    let victim = Victim::real(&["speculator.kind=none"]);
    let [mut never, mut by_another, mut by_itself] = [const { Vec::new() }; 3];
    for number in 0..EACH {
        let (known, new) = (long_question(2 * number), long_question(2 * number + 1));
        first_segment_ms(&victim, "a", &known).await;
        // In this order: whatever another question leaves behind must not help.
        never.push(first_segment_ms(&victim, "b", &new).await);
        first_segment_ms(&victim, "a", &known).await;
        by_another.push(first_segment_ms(&victim, "b", &known).await);
        by_itself.push(first_segment_ms(&victim, "b", &known).await);
    }
    let usual = median(&mut never);
    let told = |times: &[f64]| times.iter().filter(|ms| **ms < usual / 2.0).count();
    // The clock sees what there is to see.
    let control = told(&by_itself);
    assert!(
        control > EACH / 2,
        "{control} of {EACH}: {by_itself:?}, {usual:.0} ms"
    );
    let told = told(&by_another) + told(&never);
    assert_eq!(told, 0, "{by_another:?}, {usual:.0} ms");
    Row {
        finding: "M2",
        attack: format!(
            "{} long questions, half of them asked before by another tenant, timed",
            2 * EACH
        ),
        observed: format!(
            "{told} told apart by time: median {usual:.0} ms if never asked, {:.0} ms if asked by another, \
             {:.0} ms if asked by the same tenant",
            median(&mut by_another),
            median(&mut by_itself),
        ),
    }
}

/// No two begin alike, so that none helps another.
fn long_question(number: usize) -> String {
    let words =
        "the director of the film that was shown at the festival in the town on the river, ";
    format!("{number} is the number of {}what else?", words.repeat(18))
}

/// From the trace. What comes behind the segment is given up.
async fn first_segment_ms(victim: &Victim, tenant: &str, question: &str) -> f64 {
    let asked = AskRequest {
        question: question.to_owned(),
        ..AskRequest::default()
    };
    let mut request = of(tenant, asked.with(|asked| asked.width = Some(Width::K(1))));
    request.set_timeout(Duration::from_secs(120));
    let mut events = victim
        .client()
        .await
        .ask_stream(request)
        .await
        .unwrap()
        .into_inner();
    loop {
        let event: AskEvent = events.message().await.unwrap().unwrap();
        match event.event.unwrap() {
            Event::Planned(planned) => return planned.took_ms,
            Event::Drafted(drafted) => return drafted.took_ms,
            _ => {}
        }
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
