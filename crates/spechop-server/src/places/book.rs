//! Who has a place, who waits for one, and whose turn it is.
//!
//! ```text
//! take ─┬▶ has a place ─▶ free ─▶ the place is given to whoever is next in line
//!       └▶ none ─▶ line up ─▶ in line ─▶ leave
//! ```
//!
//! The rule: a free place goes to the tenant with the fewest places. Among equals it goes to the tenant whose
//! turn comes first, and the turn then passes to the others. Within a tenant the oldest question goes first.
//! A tenant that has as many places as it may have waits until one of its own is free, and holds nobody up.
//!
//! So a tenant in line sees each of the others overtake it once at most, except those that have fewer places
//! than it has.
//!
//! Pure: no clock, no lock, and nobody is woken here. [`super::Places`] does that.

use std::collections::HashMap;

use spechop_types::Tenant;

use super::line::{Joined, Line, Ticket};
use super::{NoPlace, Room};

/// Places and line. `W` is how a question in line hears of its turn.
#[derive(Debug)]
pub(super) struct Book<W> {
    room: Room,
    taken: usize,
    /// How many places each tenant has; a tenant without any is not in it.
    of: HashMap<Tenant, usize>,
    line: Line<W>,
}

/// Whoever is given a place.
pub(super) type Given<W> = (Tenant, W);

/// A question is in line.
#[derive(Debug)]
pub(super) struct LinedUp<W> {
    pub(super) ticket: Ticket,
    /// Had to make room, and is no longer in line.
    pub(super) pushed_out: Option<W>,
}

impl<W> Book<W> {
    pub(super) fn new(room: Room) -> Self {
        Self {
            room,
            taken: 0,
            of: HashMap::new(),
            line: Line::new(),
        }
    }

    pub(super) fn room(&self) -> Room {
        self.room
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// How many questions wait.
    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Takes a place if one is free. Nobody who may have it waits then, so nobody is overtaken.
    pub(super) fn take(&mut self, tenant: &Tenant) -> Result<(), NoPlace> {
        match self.no_place(tenant) {
            Some(why) => Err(why),
            None => {
                self.seat(tenant);
                self.check();
                Ok(())
            }
        }
    }

    /// Why this tenant cannot have a place now; `None` if it can.
    pub(super) fn no_place(&self, tenant: &Tenant) -> Option<NoPlace> {
        let Room { most, of_one, .. } = self.room;
        // Even if the tenant has all that it may have: one place more of its own would not help.
        if self.taken >= most {
            return Some(NoPlace::Full(most));
        }
        (self.has(tenant) >= of_one).then_some(NoPlace::TenantFull(of_one))
    }

    /// For a question that has found no place. `None` if no more may wait.
    pub(super) fn line_up(&mut self, tenant: &Tenant, waiter: W) -> Option<LinedUp<W>> {
        let joined = self.line.join(tenant, waiter, self.room.line_max);
        self.check();
        let (ticket, pushed_out) = match joined {
            Joined::In(ticket) => (ticket, None),
            Joined::InsteadOf(ticket, out) => (ticket, Some(out)),
            Joined::Full => return None,
        };
        Some(LinedUp { ticket, pushed_out })
    }

    /// A question in line gives up. False if it is no longer there: it has got a place, or was pushed out.
    pub(super) fn leave(&mut self, tenant: &Tenant, ticket: Ticket) -> bool {
        let was_there = self.line.leave(tenant, ticket);
        self.check();
        was_there
    }

    /// A place of this tenant is free. Whoever is returned has one from now on.
    #[must_use]
    pub(super) fn free(&mut self, tenant: &Tenant) -> Vec<Given<W>> {
        self.taken -= 1;
        if let Some(has) = self.of.get_mut(tenant) {
            *has -= 1;
            if *has == 0 {
                self.of.remove(tenant);
            }
        }
        self.give()
    }

    /// From now on there is so much room. Nobody loses a place or a position in line. Whoever is returned has
    /// a place from now on.
    #[must_use]
    pub(super) fn resize(&mut self, room: Room) -> Vec<Given<W>> {
        self.room = room;
        self.give()
    }

    /// Gives free places away for as long as there are any that somebody may have.
    fn give(&mut self) -> Vec<Given<W>> {
        let mut given = Vec::new();
        while self.taken < self.room.most {
            let (of, of_one) = (&self.of, self.room.of_one);
            let has = |tenant: &Tenant| {
                let has = of.get(tenant).copied().unwrap_or(0);
                (has < of_one).then_some(has)
            };
            let Some((tenant, waiter)) = self.line.next(has) else {
                break;
            };
            self.seat(&tenant);
            given.push((tenant, waiter));
        }
        self.check();
        given
    }

    fn seat(&mut self, tenant: &Tenant) {
        self.taken += 1;
        *self.of.entry(tenant.clone()).or_insert(0) += 1;
    }

    fn has(&self, tenant: &Tenant) -> usize {
        self.of.get(tenant).copied().unwrap_or(0)
    }

    /// The laws, after every step of a debug build.
    fn check(&self) {
        debug_assert!(self.places_add_up());
        debug_assert!(self.nobody_waits_without_need());
    }

    /// The places of the tenants are those that are taken, and a tenant without any is not kept.
    fn places_add_up(&self) -> bool {
        self.of.values().sum::<usize>() == self.taken && self.of.values().all(|has| *has > 0)
    }

    /// If a place is free, everybody in line is of a tenant that may have no more.
    fn nobody_waits_without_need(&self) -> bool {
        let mut tenants = self.line.tenants();
        tenants.all(|tenant| self.no_place(tenant).is_some())
    }
}

#[cfg(test)]
mod tests;
