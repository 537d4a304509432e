//! What becomes of the server when a part is broken for good.

use std::convert::Infallible;

use spechop_ports::Vitals;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::app::report;

/// Says so in the log and by the health service, for as long as it is polled. The server goes on:
/// questions that do without the part are answered, the others are UNAVAILABLE.
pub(crate) async fn tell(vitals: &Vitals, health: &HealthReporter) -> Infallible {
    let mut known = 0;
    loop {
        for failure in vitals.after(known).await {
            known += 1;
            tracing::error!(
                part = failure.part,
                reason = failure.reason,
                "a part is broken: health says NOT_SERVING until the server is started again"
            );
        }
        report(health, ServingStatus::NotServing).await;
    }
}
