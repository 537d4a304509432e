//! Room for open questions: so many at once, and so many of each tenant. Whoever finds none may wait in line.
//!
//! Without a limit of their own, one tenant's questions would take all places, and keep them for as long
//! as they take. For the same reason one tenant cannot fill the line.
//!
//! [`Book`] decides and knows no clock. [`Places`] is the book behind a lock, [`Place`] a place, and
//! [`Waiting`] a position in line. Dropping either gives it back.

mod book;
mod line;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spechop_types::Tenant;
use tokio::sync::{Notify, oneshot};

use self::book::{Book, Given};
use self::line::Ticket;
use crate::status::AskError;

/// The places of all tenants. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    shared: Arc<Shared>,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The places.
    pub(crate) most: usize,
    /// Of which a tenant may have so many.
    pub(crate) of_one: usize,
    /// How many may wait for a place; 0 if there is no line.
    pub(crate) line_max: usize,
}

#[derive(Debug)]
struct Shared {
    book: Mutex<Book<Waiter>>,
    /// Told when the last place becomes free.
    all_free: Notify,
}

/// How a question in line hears of its place. It is dropped if the question is pushed out.
type Waiter = oneshot::Sender<Place>;

/// One of the places. Dropping it makes room for another question: the next one in line has it from then on.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    tenant: Tenant,
}

/// A question that looks for a place.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// It has one.
    Placed(Place),
    /// It is in line for one.
    Waits(Waiting),
    /// It has none and may not wait.
    Refused(NoPlace, InVain),
}

/// A position in line. Whoever drops it leaves the line; a place that was just given to it goes to the next.
#[derive(Debug)]
pub(crate) struct Waiting {
    shared: Arc<Shared>,
    tenant: Tenant,
    ticket: Ticket,
    place: oneshot::Receiver<Place>,
}

/// Why there is no place; with the most that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All of them are taken.
    Full(usize),
    /// Some are free, and the tenant has taken as many as it may.
    TenantFull(usize),
}

/// How far a question came in line that got no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InVain {
    /// There is no line.
    NoLine,
    /// So many waited already, which is the most.
    LineFull(usize),
    /// It made room after this time for a tenant with fewer in line.
    PushedOut(Duration),
    /// It had waited for so long, which is the longest that anybody waits.
    TooLong(Duration),
    /// It had waited for so long, which is all the time that it had.
    OutOfTime(Duration),
}

impl NoPlace {
    /// As whoever asks on behalf of this tenant hears it.
    pub(crate) fn told(self, tenant: &Tenant, wait: InVain) -> AskError {
        match self {
            Self::Full(questions_max) => AskError::Busy {
                questions_max,
                wait,
            },
            Self::TenantFull(most) => AskError::TenantBusy {
                tenant: tenant.clone(),
                most,
                wait,
            },
        }
    }
}

impl InVain {
    /// What an operator can do about it; `places` is the key that says how many places there are.
    pub(crate) fn remedy(&self, places: &str) -> String {
        let line = match self {
            Self::NoLine => return String::new(),
            Self::LineFull(_) | Self::PushedOut(_) => "server.queue_max",
            Self::TooLong(_) => "server.queue_ms",
            Self::OutOfTime(_) => return format!(" (an operator can raise {places})"),
        };
        format!(" (an operator can raise {line} or {places})")
    }
}

/// Goes on from `… are being answered, which is the most`.
impl fmt::Display for InVain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLine => Ok(()),
            Self::LineFull(line_max) => {
                write!(
                    f,
                    ", and {line_max} wait for a place, which is the most, too"
                )
            }
            Self::PushedOut(after) => write!(
                f,
                ", and after {:.3} s in line this one made room for a tenant with fewer in line",
                after.as_secs_f64()
            ),
            Self::TooLong(after) | Self::OutOfTime(after) => write!(
                f,
                ", and this one waited {:.3} s for a place in vain",
                after.as_secs_f64()
            ),
        }
    }
}

impl Room {
    /// The same places; whoever finds none is refused.
    pub(crate) fn without_line(self) -> Self {
        Self {
            line_max: 0,
            ..self
        }
    }
}

impl Places {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            shared: Arc::new(Shared {
                book: Mutex::new(Book::new(room)),
                all_free: Notify::new(),
            }),
        }
    }

    /// From now on there is so much room. Places that are taken stay taken, and whoever waits may wait on.
    pub(crate) fn resize(&self, room: Room) {
        let given = self.shared.book.lock().resize(room);
        self.shared.hand_over(given);
    }

    /// A place for a request of this tenant, now or not at all.
    pub(crate) fn take(&self, tenant: &Tenant) -> Result<Place, NoPlace> {
        self.shared.book.lock().take(tenant)?;
        Ok(self.shared.place(tenant.clone()))
    }

    /// A place for a question of this tenant, or a position in line.
    pub(crate) fn arrive(&self, tenant: &Tenant) -> Arrival {
        let mut book = self.shared.book.lock();
        let Err(why) = book.take(tenant) else {
            drop(book);
            return Arrival::Placed(self.shared.place(tenant.clone()));
        };
        let (waiter, place) = oneshot::channel();
        let Some(lined_up) = book.line_up(tenant, waiter) else {
            let refused = match book.room().line_max {
                0 => InVain::NoLine,
                line_max => InVain::LineFull(line_max),
            };
            return Arrival::Refused(why, refused);
        };
        drop(book);
        // The one that was pushed out hears of it by that.
        drop(lined_up.pushed_out);
        Arrival::Waits(Waiting {
            shared: Arc::clone(&self.shared),
            tenant: tenant.clone(),
            ticket: lined_up.ticket,
            place,
        })
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.shared.book.lock().taken()
    }

    /// How many there are.
    pub(crate) fn most(&self) -> usize {
        self.shared.book.lock().room().most
    }

    /// How many questions are in line.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.book.lock().waiting()
    }

    /// Waits until all are free.
    pub(crate) async fn free(&self) {
        loop {
            let freed = self.shared.all_free.notified();
            tokio::pin!(freed);
            // Before the count is read, so that nothing is missed between the two.
            freed.as_mut().enable();
            if self.taken() == 0 {
                return;
            }
            freed.await;
        }
    }
}

impl Waiting {
    /// Waits for the place. `None` if the question was pushed out of the line. Nothing is lost if the future is
    /// dropped.
    pub(crate) async fn place(&mut self) -> Option<Place> {
        (&mut self.place).await.ok()
    }

    /// Why there is still no place.
    pub(crate) fn why(&self) -> NoPlace {
        let book = self.shared.book.lock();
        // If one has become free in this moment, it was taken when it mattered.
        book.no_place(&self.tenant)
            .unwrap_or(NoPlace::Full(book.room().most))
    }
}

impl Shared {
    /// The place that the book has given to a question of this tenant.
    fn place(self: &Arc<Self>, tenant: Tenant) -> Place {
        Place {
            shared: Arc::clone(self),
            tenant,
        }
    }

    /// Must be called without the lock: a place comes back at once if whoever waited for it has gone away.
    fn hand_over(self: &Arc<Self>, given: Vec<Given<Waiter>>) {
        for (tenant, waiter) in given {
            drop(waiter.send(self.place(tenant)));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Before the receiver goes: as long as the question is in line, somebody is there to take the place.
        self.shared.book.lock().leave(&self.tenant, self.ticket);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut book = self.shared.book.lock();
        let given = book.free(&self.tenant);
        let are_all_free = book.taken() == 0;
        drop(book);
        if are_all_free {
            self.shared.all_free.notify_waiters();
        }
        self.shared.hand_over(given);
    }
}

#[cfg(test)]
mod tests;
