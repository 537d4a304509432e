//! What a question has cost, in words of the wire.

use spechop_agent::{Calls, Usage};
use spechop_proto as wire;
use spechop_types::{Activity, Refusal, Refusals, Stage, ms};

use super::stage;

pub(super) fn usage(usage: &Usage) -> wire::Usage {
    wire::Usage {
        segments: Some(calls(&usage.segments)),
        targets: Some(calls(&usage.targets)),
        speculations: Some(calls(&usage.speculations)),
        drafts: Some(calls(&usage.drafts)),
        salvaged: usage.salvaged,
        drafted: usage.drafted,
        foreseen: usage.foreseen,
        hidden_ms: ms(usage.hidden),
    }
}

/// Those that took any time.
pub(super) fn activities(usage: &Usage) -> Vec<wire::ActivityTime> {
    let of = |(at, calls): (Stage, Calls)| {
        let (all, wasted) = (calls.cost.activities, calls.cost_wasted.activities);
        let taken = Activity::ALL
            .into_iter()
            .filter(move |of| !all.of(*of).is_zero());
        taken.map(move |of| wire::ActivityTime {
            stage: stage(at).into(),
            activity: activity(of).into(),
            time_ms: ms(all.of(of)),
            wasted_time_ms: ms(wasted.of(of)),
        })
    };
    let stages = Stage::ALL.into_iter().zip(usage.every());
    stages.flat_map(of).collect()
}

fn activity(of: Activity) -> wire::Activity {
    match of {
        Activity::Prefill => wire::Activity::Prefill,
        Activity::Decode => wire::Activity::Decode,
        Activity::Read => wire::Activity::Read,
        Activity::Encode => wire::Activity::Encode,
        Activity::Scan => wire::Activity::Scan,
        Activity::Extract => wire::Activity::Extract,
        Activity::Fetch => wire::Activity::Fetch,
        Activity::Search => wire::Activity::Search,
        Activity::Generate => wire::Activity::Generate,
        Activity::Injected => wire::Activity::Injected,
        Activity::Join => wire::Activity::Join,
        Activity::Queue => wire::Activity::Queue,
        Activity::Turn => wire::Activity::Turn,
    }
}

fn calls(calls: &Calls) -> wire::Calls {
    wire::Calls {
        started: calls.started,
        wasted: calls.wasted,
        prompt_tokens: calls.cost.tokens.prompt,
        completion_tokens: calls.cost.tokens.completion,
        wasted_prompt_tokens: calls.cost_wasted.tokens.prompt,
        wasted_completion_tokens: calls.cost_wasted.tokens.completion,
        time_ms: ms(calls.cost.time),
        wasted_time_ms: ms(calls.cost_wasted.time),
        money_micros: calls.cost.money.0,
        wasted_money_micros: calls.cost_wasted.money.0,
    }
}

/// The stages and reasons that occurred.
pub(super) fn refused(usage: &Usage) -> Vec<wire::Refused> {
    let of = |(at, calls): (Stage, Calls)| refusals(&calls.refused, stage(at));
    let stages = Stage::ALL.into_iter().zip(usage.every());
    stages.flat_map(of).collect()
}

/// The reasons that occurred, for work of that stage.
pub(crate) fn refusals(refusals: &Refusals, stage: wire::Stage) -> Vec<wire::Refused> {
    let occurred = refusals.iter().filter(|(_, times)| *times > 0);
    let refused = occurred.map(|(why, times)| wire::Refused {
        reason: refusal(why).into(),
        times,
        stage: stage.into(),
    });
    refused.collect()
}

pub(super) fn refusal(why: Refusal) -> wire::Refusal {
    match why {
        Refusal::Denied => wire::Refusal::Denied,
        Refusal::NoPlace => wire::Refusal::NoPlace,
        Refusal::Preempted => wire::Refusal::Preempted,
        Refusal::PushedBack => wire::Refusal::PushedBack,
        Refusal::Budget => wire::Refusal::Budget,
        Refusal::Unlikely => wire::Refusal::Unlikely,
        Refusal::NoCore => wire::Refusal::NoCore,
    }
}
