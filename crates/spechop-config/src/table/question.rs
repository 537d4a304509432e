//! The keys of questions: how they are answered, what they may cost, and what is learnt of them.

use super::DefaultValue::{Example, Is, Usually};
use super::Kind::{File, Flag, List, Number, OneOf, Or, Text, Variable, Whole};
use super::{DRAFTS_MAX, GUESSES_MAX, Key, MS_MAX, PASSAGES_MAX, keys};

/// `[question]`.
pub(super) static QUESTION: &[Key] = keys! {
    /// The most branches alive at once (the paper's k). 1 does not speculate. With "auto" the server
    /// chooses from what it has seen of its tools (see [tuning]).
    k: Or("auto", &Whole(1, 1024)), Is("3"), live;
    /// The largest k that a request may ask for.
    k_max: Whole(1, 1024), Is("64"), live;
    /// The most hops. After them the answer is written from the committed hops.
    hop_budget: Whole(1, 1024), Is("6"), live;
    /// The most hops that a request may ask for.
    hop_budget_max: Whole(1, 1024), Is("32"), live;
    /// The most passages that are read for each hop, best first.
    passages: Whole(1, PASSAGES_MAX.get() as u64), Is("5"), live;
    /// The most passages of a hop that a request may ask for. Times hop_budget_max it is at most 10000.
    passages_max: Whole(1, PASSAGES_MAX.get() as u64), Is("20"), live;
    /// When a guess counts as right: "rule" (the same meaning, by rules that say what may differ), "exact" (the
    /// same text; the answer is then the one that k = 1 gives), or "paper" (the paper's rules to the letter, for
    /// comparison: they accept on shared words).
    verifier: OneOf(&["rule", "exact", "paper"]), Is(r#""rule""#), live;
    /// How many look-ups may find nothing. After one more, the answer is written from the committed hops.
    not_found_max: Whole(0, 1024), Is("1"), live;
    /// Whether look-ups of rolled-back branches are kept for a while, in case they are asked again.
    salvage: Flag, Is("true"), live;
    /// The most look-ups that are kept of one question.
    salvage_max: Whole(1, 1024), Is("8"), live;
    /// How long such a look-up is kept.
    salvage_ms: Whole(1, MS_MAX), Is("10000"), live;
    /// Whether planning continues without a guess that is worth building upon, with the answer left open.
    /// Later sub-questions that do not need the answer are then looked up ahead of time. Needs salvage.
    /// "auto" plays the tenant's last questions with it and without it, and does it if it saves time without
    /// a quarter more look-ups.
    plan_ahead: Or("auto", &Flag), Is(r#""auto""#), live;
    /// The most guesses of one hop that branches are built upon. A language model that guesses from
    /// memory writes as many samples, its likeliest words first, an endpoint at the same time. The tokens of
    /// all of them count, and the price of a call once.
    guesses: Whole(1, GUESSES_MAX as u64), Is("1"), live;
    /// The most guesses of a hop that a request may ask for.
    guesses_max: Whole(1, GUESSES_MAX as u64), Is("4"), live;
    /// The gate of speculation: a branch less likely than this to be needed is not built. If half of the
    /// guesses are right, 0.3 leaves out branches that stand on two guesses or more. A higher gate means
    /// fewer calls and less speed; 0.0 leaves it open. "auto" weighs each guess: how often such guesses were
    /// right, and the time that a right one hides, against the price of a look-up in vain. The price is the
    /// highest one at which the tenant's last questions would have taken as long (tuning.gain_min).
    chance_min: Or("auto", &Number(0.0, 1.0)), Is(r#""auto""#), live;
    /// An answer that is less likely than this to be right is withheld: the answer is then "not found in the
    /// sources", with the hops and what they found. 0.0 withholds none. Language models behind an endpoint do
    /// not tell how sure they are, so nothing of theirs is withheld but an answer that says that it does not
    /// know.
    confidence_min: Number(0.0, 1.0), Is("0.001"), live;
    /// A question that is less likely than this to be of a form that the planner was trained on is declined: a
    /// greeting, a sum, an instruction. [fallback] answers it then, if there is one that is no planner in steps.
    /// Else its answer is withheld, as that of an unlikely one. 0.0 declines none.
    form_min: Number(0.0, 1.0), Is("0.35"), live;
    /// Drafts: while the planner writes a sub-question, so many look-ups begin of what it may become. They are
    /// used if it then writes the same words. If not, they were made in vain. k = 1 makes none. "auto" makes
    /// one if that would have saved enough of the last questions' time (tuning.gain_min).
    drafts: Or("auto", &Whole(0, DRAFTS_MAX as u64)), Is("0"), live;
    /// How much is done for a better answer: "low" reads at most two passages of a hop; "normal" follows one plan;
    /// "high" draws four further plans if the hops of the first were not read surely, and takes the surest one.
    /// It is there to change answers; k is not. With "high" the trace comes at the end. Requests may ask for
    /// another one.
    effort: OneOf(&["low", "normal", "high"]), Is(r#""normal""#), live;
    /// Whether the answers of drafted look-ups are guessed, too, before the sub-question is there.
    draft_guesses: Flag, Is("false"), live;
    /// The longest time that a question may take. Clients may ask for less.
    deadline_ms: Whole(1, MS_MAX), Is("300000"), live;
    /// The longest that writing a sub-question may take.
    segment_ms_max: Whole(1, MS_MAX), Is("120000"), live;
    /// The longest that looking up and reading may take.
    target_ms_max: Whole(1, MS_MAX), Is("120000"), live;
    /// The longest that guessing may take.
    speculation_ms_max: Whole(1, MS_MAX), Is("20000"), live;
    /// The longest that a language model may take for a draft (drafter.kind).
    draft_ms_max: Whole(1, MS_MAX), Is("10000"), live;
    /// A soft limit of every question, wasted work included, as the next three. None by default.
    budget_time_ms: Whole(1, MS_MAX), Example("60000"), live;
    /// The most target calls of a question.
    budget_target_calls: Whole(1, 1_000_000), Example("20"), live;
    /// The most tokens of a question.
    budget_tokens: Whole(1, u64::MAX), Example("100000"), live;
    /// The most money of a question, in millionths of the currency of [prices].
    budget_money_micros: Whole(1, u64::MAX), Example("50000"), live;
};

/// `[tenant]`.
pub(super) static TENANT: &[Key] = keys! {
    /// The most open questions of a tenant. By default all of server.questions_max; as long as the keys are of
    /// several tenants, half of it.
    questions_max: Whole(1, 65_536), Example("16"), live;
    /// The most requests a second of a tenant in the long run. Further requests are refused with RESOURCE_EXHAUSTED,
    /// which says when to try again, but questions can still be finished and cancelled. No limit by default.
    requests_per_second: Number(0.001, 1e6), Example("5"), live;
    /// The most requests at once after a pause; by default as many as in a second.
    requests_burst: Whole(1, 1_000_000), Example("10"), live;
    /// How long the period is in which a tenant may spend what the next four say. A question is charged for
    /// the work that was started, whether or not it comes to an answer. No limit by default. Of each of the four
    /// that is set, a question may spend what its budget says (its own, or that of [question]), or else a quarter
    /// of what the tenant has left. Once it has spent that, its answer is written.
    period_s: Whole(1, 31 * 86_400), Is("3600"), live;
    /// The time of questions, one after the other.
    time_ms: Whole(1, u64::MAX), Example("600000"), live;
    /// The most target calls.
    target_calls: Whole(1, u64::MAX), Example("1000"), live;
    /// The most tokens.
    tokens: Whole(1, u64::MAX), Example("1000000"), live;
    /// The most money, in millionths of the currency of [prices].
    money_micros: Whole(1, u64::MAX), Example("1000000"), live;
    /// Tenants for whom nothing is looked up elsewhere ahead of need, so that no search engine learns what may
    /// be asked. "*" is all of them. Each is named as the log names it: "default" is the tenant without a name,
    /// and one that is called so. A request can wish for the same (`quiet`).
    quiet: List, Example(r#"["clinic"]"#), live;
};

/// `[tenant.redis]`.
pub(super) static TENANT_REDIS: &[Key] = keys! {
    /// Its address; "rediss" for TLS. A user may stand in it, a password may not. Each server needs the same.
    url: Text, Example(r#""redis://10.0.0.7:6379/0""#);
    /// The variable that holds the password.
    password_env: Variable, Example(r#""REDIS_PASSWORD""#);
    /// A file with the certificates of whom it trusts, in PEM. By default those of the system.
    roots: File, Example(r#""/etc/spechop/redis-ca.pem""#);
    /// The prefix of the name of every account. Servers with the same prefix share their accounts.
    prefix: Text, Is(r#""spechop""#);
    /// The longest that one request to it takes; questions of a tenant ask one after the other. After a failure
    /// the server keeps to the allowance alone for two seconds.
    ms_max: Whole(1, 60_000), Is("250");
};

/// `[tuning]`.
pub(super) static TUNING: &[Key] = keys! {
    /// The largest k that is chosen.
    k_max: Whole(1, 64), Is("8");
    /// The accepted chance that the chosen k is too small.
    epsilon: Number(0.0001, 0.9999), Is("0.05");
    /// The least share of the latency that all larger k together must save to be worth it.
    gain_min: Number(0.0, 1.0), Is("0.01");
    /// The least share of the latency that one further target call must save. 0 if calls cost nothing.
    call_worth: Number(0.0, 1.0), Is("0.01");
    /// The most target calls that questions may make on average, for each one that they would make at k = 1. Settings
    /// that would have made more of the last questions are not chosen. Calls that were made are counted, too: from nine
    /// tenths of the additional ones on, fewer are planned for. A k or a least chance that a request or the
    /// configuration fixes is not changed for it.
    calls_max: Number(1.0, 1_000.0), Is("1.25");
    /// The number of hops after which an observation counts half.
    half_life: Number(1.0, 1_000_000.0), Is("150.0");
    /// While speculation is off, one question in so many tries it.
    probe_every: Whole(2, 1_000_000), Is("10");
    /// How many past questions of a tenant are kept: "auto" plays the last 200 of them by every setting, and the
    /// admin call WhatIf simulates all. With fewer it has less to go by.
    history: Whole(1, 100_000), Is("200");
    /// The file that keeps the estimates and these questions over a restart; "none" for no file. By default it
    /// lies in the data folder, or in SPECHOP_STATE_DIR. The server writes it once a minute and when it ends.
    /// It holds names of tenants, times and hit rates, no word of a question.
    /// If the file is damaged or of another version, it is renamed to NAME.damaged and learning starts
    /// anew. The estimates of a speculator also start anew if another generator, reader, index or
    /// speculator is configured. If two servers share a file, the last one to write it wins.
    /// Of all histories together, about the last 60,000 hops are kept.
    state: Or("none", &File), Usually(r#""~/.local/share/spechop/tuning.json""#);
};

/// What every stage costs.
pub(super) static PRICES: &[Key] = keys! {
    /// The price of a call.
    call_micros: Whole(0, 1_000_000_000_000), Is("0"), live;
    /// The price of a million tokens read.
    prompt_million_micros: Whole(0, 1_000_000_000_000), Is("0"), live;
    /// The price of a million tokens written.
    completion_million_micros: Whole(0, 1_000_000_000_000), Is("0"), live;
};
