//! Effort, with the models that are shipped: a sure plan is followed alone, an unsure one is searched, and what
//! comes of it is the same at every k.

use spechop_proto::{AskRequest, AskResponse, Effort};

use crate::answers::{Running, prepared, trajectory};
use crate::support::at;

async fn ask(server: &mut Running, question: &str, effort: Effort, k: u32) -> AskResponse {
    let request = AskRequest {
        question: question.to_owned(),
        ..at(k)
    };
    let request = request.with(|asked| asked.effort = effort.into());
    server.client.ask(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsure_plan_is_searched_for_a_surer_one() {
    let (_dir, questions, toml, _) = prepared().await;
    let mut server = Running::start(toml).await;
    let mut sure = 0;
    for (question, _) in &questions {
        let normal = ask(&mut server, question, Effort::Normal, 1).await;
        let high = ask(&mut server, question, Effort::High, 1).await;
        assert_eq!(normal.plans, 0);
        if high.plans == 0 {
            assert_eq!(trajectory(&high), trajectory(&normal));
            sure += 1;
        }
        let low = ask(&mut server, question, Effort::Low, 1).await;
        let passages = low.applied.unwrap().options.unwrap().top_passages;
        assert_eq!(passages, Some(2));
    }
    assert!(sure > 0, "all plans were searched");
    // Nothing of the kind is in these few pages.
    let lost = "Who is the mother of the director of film Zanzibar Nights Of Tomorrow?";
    let normal = ask(&mut server, lost, Effort::Normal, 1).await;
    let high = ask(&mut server, lost, Effort::High, 1).await;
    assert_eq!(high.plans, 5);
    let targets = |answer: &AskResponse| answer.usage.as_ref().unwrap().targets.unwrap();
    assert!(targets(&high).started >= targets(&normal).started + 4);
    assert_eq!(
        targets(&high).started - targets(&high).wasted,
        u32::try_from(high.hops.len()).unwrap()
    );
    let wide = ask(&mut server, lost, Effort::High, 4).await;
    assert_eq!(trajectory(&wide), trajectory(&high));
    server.stop().await;
}
