//! Questions in line for a place: in order of arrival within a tenant, in turns between tenants.
//!
//! ```text
//! join ─┬▶ in line ─┬▶ next    its turn has come
//!       │           ├▶ leave   it gives up
//!       │           └▶ pushed out by a newcomer whose tenant has fewer in line
//!       └▶ full     it is not let in
//! ```
//!
//! Pure: no clock, no lock, and nobody is woken here. Which tenants may have a place now, and how many they
//! have, [`super::book`] says.

use std::collections::{HashMap, VecDeque};

use spechop_types::Tenant;

/// A position in line. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Everybody in line. `W` is how a question hears of its turn.
#[derive(Debug)]
pub(super) struct Line<W> {
    of: HashMap<Tenant, Queue<W>>,
    len: usize,
    /// How many tickets and turns have been given.
    given: u64,
}

/// The questions of one tenant.
#[derive(Debug)]
struct Queue<W> {
    /// The oldest first. Never empty: a tenant without questions in line is not known.
    waiting: VecDeque<(Ticket, W)>,
    /// Among tenants with as many places, the least turn goes first. A tenant gets a new one when it joins
    /// the line and after each place that it is given.
    turn: u64,
}

/// What became of a newcomer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined<W> {
    /// It is in line.
    In(Ticket),
    /// It is in line, and this question no longer is.
    InsteadOf(Ticket, W),
    /// As many as may wait already.
    Full,
}

impl<W> Line<W> {
    pub(super) fn new() -> Self {
        Self {
            of: HashMap::new(),
            len: 0,
            given: 0,
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The tenants in line.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.of.keys()
    }

    /// A newcomer joins the end of its tenant's questions. If `most` wait already, the newest question of
    /// the tenant with the most in line makes room, but only for a tenant that has at least two fewer: with
    /// one fewer, both would push each other out for ever.
    pub(super) fn join(&mut self, tenant: &Tenant, waiter: W, most: usize) -> Joined<W> {
        if self.len < most {
            return Joined::In(self.push(tenant, waiter));
        }
        // Without a line nobody joins, even if those wait still who came before it was taken away.
        let out = (most > 0).then(|| self.make_room(tenant)).flatten();
        match out {
            Some(out) => Joined::InsteadOf(self.push(tenant, waiter), out),
            None => Joined::Full,
        }
    }

    /// Whoever held this ticket gives up. False if it is no longer in line.
    pub(super) fn leave(&mut self, tenant: &Tenant, ticket: Ticket) -> bool {
        let Some(queue) = self.of.get_mut(tenant) else {
            return false;
        };
        let found = queue.waiting.binary_search_by_key(&ticket, |(at, _)| *at);
        let Ok(at) = found else { return false };
        queue.waiting.remove(at);
        self.len -= 1;
        self.forget_if_empty(tenant);
        true
    }

    /// Takes the question out whose turn it is. `has` says how many places a tenant has, and nothing of a
    /// tenant that may have no more. The tenant with the fewest places goes first, among equals the one
    /// whose turn comes first, and of a tenant its oldest question.
    pub(super) fn next(&mut self, has: impl Fn(&Tenant) -> Option<usize>) -> Option<(Tenant, W)> {
        let ranked = self
            .of
            .iter()
            .filter_map(|(tenant, queue)| Some(((has(tenant)?, queue.turn), tenant)));
        let (_, tenant) = ranked.min_by_key(|(rank, _)| *rank)?;
        let tenant = tenant.clone();
        let turn = self.number();
        let queue = self.of.get_mut(&tenant)?;
        let (_, waiter) = queue.waiting.pop_front()?;
        queue.turn = turn;
        self.len -= 1;
        self.forget_if_empty(&tenant);
        Some((tenant, waiter))
    }

    fn push(&mut self, tenant: &Tenant, waiter: W) -> Ticket {
        let number = self.number();
        let queue = self.of.entry(tenant.clone()).or_insert_with(|| Queue {
            waiting: VecDeque::new(),
            turn: number,
        });
        let ticket = Ticket(number);
        queue.waiting.push_back((ticket, waiter));
        self.len += 1;
        ticket
    }

    /// Pushes a question out for one of this tenant, if that is fair.
    fn make_room(&mut self, tenant: &Tenant) -> Option<W> {
        let own = self.of.get(tenant).map_or(0, |queue| queue.waiting.len());
        let newest = |queue: &Queue<W>| queue.waiting.back().map(|(ticket, _)| *ticket);
        let longest = self
            .of
            .iter()
            .max_by_key(|(_, queue)| (queue.waiting.len(), newest(queue)));
        let (longest, queue) = longest?;
        if queue.waiting.len() < own + 2 {
            return None;
        }
        let longest = longest.clone();
        let (_, out) = self.of.get_mut(&longest)?.waiting.pop_back()?;
        self.len -= 1;
        Some(out)
    }

    fn number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    fn forget_if_empty(&mut self, tenant: &Tenant) {
        if self
            .of
            .get(tenant)
            .is_some_and(|queue| queue.waiting.is_empty())
        {
            self.of.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    /// A line into which these have come, each a tenant's letter and a number.
    fn line(
        waiters: &[&'static str],
        most: usize,
    ) -> (Line<&'static str>, Vec<Joined<&'static str>>) {
        let mut line = Line::new();
        let join = |waiter: &&'static str| line.join(&tenant(&waiter[..1]), *waiter, most);
        let joined = waiters.iter().map(join).collect();
        (line, joined)
    }

    /// The order in which they leave, if nobody has a place, or as many as `has` says.
    fn order(mut line: Line<&'static str>, has: impl Fn(&Tenant) -> Option<usize>) -> String {
        let mut order = Vec::new();
        while let Some((_, waiter)) = line.next(&has) {
            order.push(waiter);
        }
        let rest = line.of.values().map(|queue| queue.waiting.len());
        assert_eq!(rest.sum::<usize>(), line.len());
        order.join(" ")
    }

    #[test]
    fn tenants_take_turns_and_their_questions_keep_their_order() {
        let (line, _) = line(&["a1", "a2", "a3", "b1", "c1", "c2"], 9);
        assert_eq!(order(line, |_| Some(0)), "a1 b1 c1 a2 c2 a3");
    }

    #[test]
    fn fewer_places_go_first_and_whoever_may_have_no_more_waits() {
        let waiters = ["a1", "b1", "c1", "a2", "b2"];
        let has = |tenant: &Tenant| match tenant.as_str() {
            "a" => Some(2),
            "b" => Some(1),
            _ => None,
        };
        let (line, _) = line(&waiters, 9);
        assert_eq!(order(line, has), "b1 b2 a1 a2");
    }

    #[test]
    fn a_full_line_makes_room_for_whoever_has_two_fewer() {
        let (line, joined) = line(&["a1", "a2", "a3", "a4", "b1", "b2", "c1", "b3", "a5"], 3);
        let out = |joined: &Joined<&'static str>| match joined {
            Joined::In(_) => "in",
            Joined::InsteadOf(_, out) => out,
            Joined::Full => "full",
        };
        let told: Vec<_> = joined.iter().map(out).collect();
        // b1 and c1 each find that a has two more than their tenant.
        let expected = ["in", "in", "in", "full", "a3", "full", "a2", "full", "full"];
        assert_eq!(told, expected);
        assert_eq!(line.len(), 3);
        assert_eq!(order(line, |_| Some(0)), "a1 b1 c1");
    }

    #[test]
    fn without_a_line_nobody_joins() {
        let (mut line, _) = line(&["a1", "a2", "a3"], 3);
        assert_eq!(line.join(&tenant("b"), "b1", 0), Joined::Full);
        assert!(matches!(
            line.join(&tenant("b"), "b1", 1),
            Joined::InsteadOf(_, "a3")
        ));
    }

    #[test]
    fn whoever_gives_up_leaves_nothing_behind() {
        let (mut line, joined) = line(&["a1", "a2", "b1"], 9);
        let ticket = |at: usize| match &joined[at] {
            Joined::In(ticket) => *ticket,
            other => panic!("{other:?}"),
        };
        assert!(line.leave(&tenant("a"), ticket(0)));
        assert!(!line.leave(&tenant("a"), ticket(0)), "it has left");
        assert!(!line.leave(&tenant("b"), ticket(1)), "it is another's");
        assert!(line.leave(&tenant("b"), ticket(2)));
        assert_eq!(line.tenants().count(), 1);
        assert_eq!(order(line, |_| Some(0)), "a2");
    }
}
