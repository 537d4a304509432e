//! Attacks on the real server process, over loopback: what one client can do to memory, files, threads,
//! CPU and to the other clients.
//!
//! Plain `cargo test` runs each in a short form, which compares counts and memory and no times.
//! `make attack` runs all of them at full length, one after the other, and prints a table; it also
//! compares times, so it wants a machine to itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod accounts;
mod real;
mod requests;
mod transport;
mod victim;

use victim::{FILES, HASTE, Victim};

/// How much of an attack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Short,
    Full,
}

impl Size {
    /// Of these two.
    fn of<T>(self, short: T, full: T) -> T {
        match self {
            Self::Short => short,
            Self::Full => full,
        }
    }

    /// Only a machine to itself tells times.
    fn tells_times(self) -> bool {
        self == Self::Full
    }
}

/// A row of the table: the finding in ATTACK's list, what was done how often, what came of it.
struct Row {
    finding: &'static str,
    attack: String,
    observed: String,
}

/// Every attack at full length.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes, and a machine to itself: make attack"]
async fn attack_everything() {
    raise_own_limit();
    let size = Size::Full;
    let rows = [
        transport::resets(&Victim::plain(), size).await,
        transport::rapid_resets(&Victim::plain(), size).await,
        transport::silence(&Victim::plain(), size).await,
        transport::halves(&Victim::plain(), size).await,
        transport::garbage(&Victim::plain(), size).await,
        transport::unread(size).await,
        transport::end(size).await,
        accounts::charges().await,
        accounts::names(size).await,
        requests::cancels(&Victim::start(FILES, &[HASTE]), size).await,
        requests::refusals(size).await,
        requests::what_ifs(size).await,
        requests::small_calls(size).await,
        requests::web_pages().await,
        requests::crowd(size).await,
        requests::hasty(size).await,
        requests::protobuf(size).await,
    ];
    print(&rows);
}

/// What only a server with real models can show.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes, a machine to itself, and the default models: make attack"]
async fn attack_real_models() {
    raise_own_limit();
    print(&[real::memory().await, real::tenants_by_time().await]);
}

fn print(rows: &[Row]) {
    // The harness has begun a line.
    println!();
    for Row {
        finding,
        attack,
        observed,
    } in rows
    {
        println!("| {finding} | {attack} | {observed} |");
    }
}

/// Ten thousand connections take ten thousand files on this side, too, and those of the short form more
/// than the usual limit. Every test raises it: each may be the only one that runs.
fn raise_own_limit() {
    let _ = spechop_server::raise_open_files(u64::MAX);
}

macro_rules! in_short {
    ($($name:ident: $attack:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            raise_own_limit();
            $attack.await;
        }
    )*};
}

in_short! {
    resets_do_not_fill_the_memory: transport::resets(&Victim::plain(), Size::Short);
    rapid_resets_end_the_connection: transport::rapid_resets(&Victim::plain(), Size::Short);
    silent_connections_keep_nobody_out: transport::silence(&Victim::plain(), Size::Short);
    halves_of_messages_hold_little: transport::halves(&Victim::plain(), Size::Short);
    garbage_leaves_it_alive: transport::garbage(&Victim::plain(), Size::Short);
    unread_answers_give_their_places_back: transport::unread(Size::Short);
    silent_connections_do_not_hold_up_the_end: transport::end(Size::Short);
    a_tenant_pays_for_what_was_started: accounts::charges();
    names_of_tenants_cost_nothing: accounts::names(Size::Short);
    cancelled_questions_leave_nothing: requests::cancels(&Victim::start(FILES, &[HASTE]), Size::Short);
    refusals_do_not_fill_the_log: requests::refusals(Size::Short);
    what_ifs_do_not_pile_up: requests::what_ifs(Size::Short);
    small_calls_are_answered_at_once: requests::small_calls(Size::Short);
    web_pages_are_refused: requests::web_pages();
    a_crowd_is_served: requests::crowd(Size::Short);
    hasty_questions_keep_nobody_out: requests::hasty(Size::Short);
    messages_of_no_sense_leave_it_alive: requests::protobuf(Size::Short);
}
