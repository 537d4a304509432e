//! Waiting for what comes by itself.

use std::time::Duration;

/// Waits until something holds that must hold soon. A test that waits in vain fails, but not one on a busy machine.
#[expect(clippy::expect_used, reason = "for tests, which have no better answer")]
pub async fn eventually(mut holds: impl FnMut() -> bool) {
    let patience = tokio::time::timeout(Duration::from_secs(120), async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    patience.await.expect("it came true");
}
