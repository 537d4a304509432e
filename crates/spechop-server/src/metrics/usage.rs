//! What questions cost, and what of it was done ahead of need.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use spechop_agent::{Calls, Cost, Usage};
use spechop_types::{Activities, Refusals, Stage};

use super::label::{BusyAt, Fate, Refused};

const USED: &str = "used";
const WASTED: &str = "wasted";
const FATES: [&str; 2] = [USED, WASTED];

pub(super) struct UsageMetrics {
    calls: Family<Fate, Counter>,
    tokens: Family<Fate, Counter>,
    call_seconds: Family<Fate, Counter<f64, AtomicU64>>,
    activity_seconds: Family<BusyAt, Counter<f64, AtomicU64>>,
    money: Family<Fate, Counter>,
    salvaged: Counter,
    drafted: Counter,
    foreseen: Counter,
    /// In seconds.
    hidden: Counter<f64, AtomicU64>,
    refused: Family<Refused, Counter>,
}

impl UsageMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let r = registry;
        let new = Self {
            calls: super::counter(r, "calls", "Calls by stage, used or wasted"),
            tokens: super::counter(r, "tokens", "Tokens by stage, used or wasted"),
            call_seconds: super::seconds(r, "call", "Time of calls by stage, used or wasted"),
            activity_seconds: super::seconds(
                r,
                "activity",
                "Time of calls by stage and by what it was spent on, used or wasted",
            ),
            money: super::counter(
                r,
                "money_micros",
                "Money by stage, used or wasted, in millionths of the currency of the prices",
            ),
            salvaged: super::counter(
                r,
                "salvaged",
                "Look-ups of rolled-back branches that were taken over",
            ),
            drafted: super::counter(
                r,
                "drafted",
                "Look-ups that were begun while their sub-question was still being written",
            ),
            foreseen: super::counter(
                r,
                "foreseen",
                "Look-ups of these that the planner then asked for",
            ),
            hidden: super::seconds(r, "hidden", "Time that those had run by then"),
            refused: super::counter(
                r,
                "refused",
                "Work ahead of need that was not done, or not to its end, by stage and reason",
            ),
        };
        new.begin();
        new
    }

    /// What is counted for every question stands at zero until then.
    fn begin(&self) {
        for stage in Stage::ALL.map(Stage::as_str) {
            for fate in FATES {
                let fate = Fate { stage, fate };
                let _ = self.calls.get_or_create(&fate);
                let _ = self.tokens.get_or_create(&fate);
                let _ = self.call_seconds.get_or_create(&fate);
                let _ = self.money.get_or_create(&fate);
            }
        }
    }

    /// A question has cost so much.
    pub(super) fn used(&self, usage: &Usage) {
        for (stage, calls) in Stage::ALL.into_iter().zip(usage.every()) {
            self.spent(stage.as_str(), &calls);
            self.refused(stage.as_str(), &calls.refused);
        }
        self.salvaged.inc_by(u64::from(usage.salvaged));
        self.drafted.inc_by(u64::from(usage.drafted));
        self.foreseen.inc_by(u64::from(usage.foreseen));
        self.hidden.inc_by(usage.hidden.as_secs_f64());
    }

    fn refused(&self, stage: &'static str, refusals: &Refusals) {
        for (why, times) in refusals.iter() {
            let reason = why.as_str();
            let counter = self.refused.get_or_create(&Refused { stage, reason });
            counter.inc_by(times);
        }
    }

    fn spent(&self, stage: &'static str, calls: &Calls) {
        let (all, wasted) = (calls.cost, calls.cost_wasted);
        let used = calls.started - calls.wasted;
        let rows = [
            (WASTED, calls.wasted, wasted),
            (USED, used, {
                let mut used = all;
                used.tokens.prompt -= wasted.tokens.prompt;
                used.tokens.completion -= wasted.tokens.completion;
                used.time -= wasted.time;
                used.activities = used.activities.minus(wasted.activities);
                used.money = used.money.minus(wasted.money);
                used
            }),
        ];
        for (fate, number, cost) in rows {
            // Looking a counter up costs more than counting, and most of them have nothing to count.
            if number == 0 && cost == Cost::default() {
                continue;
            }
            let fate = Fate { stage, fate };
            self.calls.get_or_create(&fate).inc_by(u64::from(number));
            if cost.tokens.total() > 0 {
                self.tokens.get_or_create(&fate).inc_by(cost.tokens.total());
            }
            if !cost.time.is_zero() {
                let seconds = self.call_seconds.get_or_create(&fate);
                seconds.inc_by(cost.time.as_secs_f64());
            }
            if cost.money.0 > 0 {
                self.money.get_or_create(&fate).inc_by(cost.money.0);
            }
            self.busy(&fate, &cost.activities);
        }
    }

    fn busy(&self, of: &Fate, activities: &Activities) {
        for (activity, time) in activities.iter().filter(|(_, time)| !time.is_zero()) {
            let at = BusyAt {
                stage: of.stage,
                activity: activity.as_str(),
                fate: of.fate,
            };
            let seconds = self.activity_seconds.get_or_create(&at);
            seconds.inc_by(time.as_secs_f64());
        }
    }
}
