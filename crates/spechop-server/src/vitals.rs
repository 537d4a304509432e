//! What becomes of the server when a part is broken for good.

use std::convert::Infallible;
use std::time::Duration;

use spechop_ports::Vitals;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::app::{report, report_service};
use crate::readiness::Readiness;

/// Says so in the log for as long as it is polled, and by the health service if questions need the
/// part. The server goes on: questions that do without the part are answered, the others are
/// UNAVAILABLE.
pub(crate) async fn tell(
    vitals: &Vitals,
    readiness: &Readiness,
    health: &HealthReporter,
) -> Infallible {
    let mut known = 0;
    loop {
        let news = vitals.after(known).await;
        known += news.len();
        let is_whole = readiness.is_whole();
        let follows = match is_whole {
            true => {
                "questions do without it until another takes its place, or the server starts again"
            }
            false => "health says NOT_SERVING until the server is started again",
        };
        for failure in news {
            tracing::error!(
                part = failure.part,
                reason = failure.reason,
                "a part is broken: {follows}"
            );
        }
        if !is_whole {
            report(health, ServingStatus::NotServing).await;
        }
    }
}

/// How often to look whether somebody can be let in.
const LOOK: Duration = Duration::from_millis(200);

/// Has health say that no question can be asked for as long as nobody can be let in, since the keys
/// of the token issuer are not known. The process is alive, so of the server as a whole it says
/// nothing. Never ends.
pub(crate) async fn follow_issuer(
    readiness: &Readiness,
    health: &HealthReporter,
    closing: &CancellationToken,
) -> Infallible {
    let mut told = true;
    loop {
        let lets_in = readiness.lets_in();
        if lets_in != told && readiness.is_whole() && !closing.is_cancelled() {
            let status = match lets_in {
                true => ServingStatus::Serving,
                false => ServingStatus::NotServing,
            };
            report_service(health, status).await;
            told = lets_in;
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::pin::pin;

    use spechop_config::Config;
    use spechop_testkit::Script;
    use tonic::Request;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus as Told;
    use tonic_health::pb::health_server::Health;
    use tonic_health::server::HealthService;

    use super::*;
    use crate::readiness::role;
    use crate::server_state::scripted::state;
    use crate::transport::Follower;

    #[tokio::test]
    async fn only_a_part_that_questions_need_takes_the_health_with_it() {
        let (state, _) = state(Script::instant(1), "");
        let mut config = Config::clone(&state.config());
        config.speculator.hot_dir = Some(PathBuf::from("hot"));
        let vitals = Vitals::default();
        let readiness = Readiness::new(&config, vitals.clone(), Follower::default(), None);
        let health = HealthReporter::new();
        let service = HealthService::from_health_reporter(health.clone());
        report(&health, ServingStatus::Serving).await;
        let mut telling = pin!(tell(&vitals, &readiness, &health));
        for (role, expected) in [
            (role::HOT, Told::Serving),
            (role::ENCODER, Told::NotServing),
        ] {
            vitals.of(role).fail("part", "its files were cut");
            assert!(futures::poll!(telling.as_mut()).is_pending());
            let asked = Request::new(HealthCheckRequest::default());
            let told = service.check(asked).await.unwrap();
            assert_eq!(told.into_inner().status(), expected, "{role}");
        }
    }
}
