//! Transfers of pages that are under way: look-ups of one tenant that want the same page at the same time
//! wait for one transfer.
//!
//! What comes of it, a failure too, is told to all who wait, and to nobody who comes later. A transfer has a
//! [`Call`] of its own, which is authoritative as soon as one of those who wait for it is. It ends with the
//! last of them. Nobody shares anything with another tenant.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use spechop_ports::{Call, panic_text};
use spechop_types::{Activity, Owned};
use url::Url;

use crate::page::{Page, PageFailure, shown};

type Outcome = Result<Page, PageFailure>;

/// All that are under way. Those who wait hold them, so that none outlives the last of those.
#[derive(Default)]
pub(super) struct Transfers(Arc<UnderWay>);

#[derive(Default)]
struct UnderWay(Mutex<HashMap<Owned<Url>, Weak<Transfer>>>);

struct Transfer {
    key: Owned<Url>,
    under_way: Arc<UnderWay>,
    /// Its own call, which hears of all who wait.
    call: Arc<Call>,
    run: Shared<BoxFuture<'static, Outcome>>,
}

impl Transfers {
    /// Waits for the transfer of this page that the call's tenant has under way, or else `start`s one. It is
    /// given a call of its own. Whether it is one that was started is told with what comes of it.
    pub(super) async fn share(
        &self,
        call: &Call,
        url: &Url,
        start: impl FnOnce(Call) -> BoxFuture<'static, Outcome>,
    ) -> (Outcome, bool) {
        // A look-up waits for several pages at once, and a call has only one seat.
        let part = call.part();
        let (transfer, is_first) = self.board(&part, url, start);
        part.share(&transfer.call);
        // What the transfer does is told of the call that began it.
        let _joining = (!is_first).then(|| part.doing(Activity::Join));
        (transfer.run.clone().await, is_first)
    }

    /// The transfer, and whether it is a new one.
    fn board(
        &self,
        part: &Call,
        url: &Url,
        start: impl FnOnce(Call) -> BoxFuture<'static, Outcome>,
    ) -> (Arc<Transfer>, bool) {
        let key = part.owned(url.clone());
        let mut under_way = self.0.0.lock();
        if let Some(transfer) = under_way.get(&key).and_then(Weak::upgrade) {
            return (transfer, false);
        }
        let transfer = Arc::new(Transfer::new(key.clone(), &self.0, part.apart(), start));
        under_way.insert(key, Arc::downgrade(&transfer));
        (transfer, true)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.0.lock().len()
    }
}

impl Transfer {
    fn new(
        key: Owned<Url>,
        under_way: &Arc<UnderWay>,
        call: Call,
        start: impl FnOnce(Call) -> BoxFuture<'static, Outcome>,
    ) -> Self {
        let coming = start(call.clone());
        let (place, all) = (key.clone(), Arc::clone(under_way));
        let run = async move {
            // A panic is one page's failure. Passed on, it would reach everybody who looks at the run.
            let outcome = AssertUnwindSafe(coming).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|panic| {
                Err(PageFailure::Unreachable {
                    url: shown(&place.item),
                    detail: format!("it panicked: {}", panic_text(&*panic)),
                })
            });
            // Whoever comes now begins a new one. While this one is awaited, the place is its own.
            all.0.lock().remove(&place);
            outcome
        };
        Self {
            key,
            under_way: Arc::clone(under_way),
            call: Arc::new(call),
            run: run.boxed().shared(),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut under_way = self.under_way.0.lock();
        // Its place may have gone to a later one.
        if let Some(transfer) = under_way.get(&self.key)
            && transfer.strong_count() == 0
        {
            under_way.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
