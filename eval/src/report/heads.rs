//! What the heads of columns mean: told once, behind a mark at each head.

/// Every head that does not speak for itself.
pub(super) const ALL: &[(&str, &str)] = &[
    (
        "RelLat",
        "Latency as a share of the latency of k = 1 on the same questions. Below 1 is faster. In brackets: \
         95 % bootstrap interval over questions.",
    ),
    (
        "RelLat, k=∞",
        "RelLat of the unbounded window, the paper's main setting.",
    ),
    (
        "RelLat*",
        "What an unbounded window reaches over endless questions: 1 − p (1 − α) / (1 + β), the paper's \
         Corollary 1, with the effective p. It knows neither of salvage nor of planning ahead.",
    ),
    (
        "RelLat* at this length",
        "Ours, not the paper's: RelLat* of questions as short as these. A guess of a last hop saves no more \
         than the final segment, which the latency holds too.",
    ),
    (
        "RelLat of theory",
        "Our formula of the continuous window (`spechop theory`), of endless questions and steady stages, with \
         p, α and β of the first run here that has them.",
    ),
    ("RelLat of variant", "RelLat of the fastest variant."),
    (
        "RelLat, best k",
        "RelLat of the window that is quickest on these very questions, so it flatters a little.",
    ),
    (
        "RelLat where k=1 is right",
        "RelLat over the questions alone that k = 1 answers exactly right (RelLat | EM, the paper's Table 5).",
    ),
    (
        "Right at k=1",
        "Questions that k = 1 answers exactly right.",
    ),
    (
        "RelLat by the paper's algorithm",
        "RelLat of this k by the paper's algorithm to the letter: a guess is asked for only while the window has \
         room for a branch upon it, branches are built on guesses only, and nothing is salvaged.",
    ),
    (
        "RelLat, blind",
        "RelLat with guesses drawn by chance from what other questions found, at the same hops, as fast and as \
         sure as ours. What is below 1 is owed to work at the same time, and not to prediction.",
    ),
    (
        "RelLat, silent",
        "RelLat if nobody ever guesses: what planning ahead gains alone.",
    ),
    (
        "Owed to prediction",
        "The share of the gain that is gone if the guesses are blind: (RelLat, blind − RelLat) / (1 − RelLat).",
    ),
    (
        "Stall",
        "Mean seconds of a question in which it waited for an observation, with its next sub-question written \
         and the hop before committed.",
    ),
    (
        "Overlap",
        "Mean seconds of a question's look-ups that passed beside other work: their time less the stall.",
    ),
    (
        "Hidden",
        "The share of the look-ups' time that passed beside other work.",
    ),
    (
        "Top 1",
        "The share of all hops whose first guess says what was observed, built upon or not. A guess that came after \
         the observation counts as none.",
    ),
    (
        "Any",
        "The share of all hops of which any guess says what was observed.",
    ),
    (
        "RelLat, against",
        "RelLat of the variant that it is compared with.",
    ),
    (
        "Latency ratio",
        "Latency over the latency of the variant that it is compared with. Below 1 the change is faster.",
    ),
    (
        "RelLat ÷ simulated",
        "RelLat over the simulated RelLat of the same variant, on the questions that both runs have.",
    ),
    (
        "Fastest k",
        "The fastest k that is else as usual (k=N and nothing more). It was picked on the very questions that \
         it is shown on, which flatters it.",
    ),
    (
        "Fastest variant",
        "The fastest of all variants with the usual verifier (with the exact one if a run has no other). It was picked on the very questions that it is \
         shown on, which flatters it: the more so, the more there were to pick from.",
    ),
    (
        "Best k",
        "The k that was fastest on these very questions, which flatters it a little.",
    ),
    (
        "p of latency",
        "How likely so large a difference is by chance: a sign-flip permutation test on the latencies. It is not \
         corrected for the number of rows: of twenty changes of no effect one has p < 0.05, on average.",
    ),
    (
        "p, α, β from",
        "The variant that these and RelLat are of: the widest window, which keeps no hop from being guessed, \
         or the paper to the letter.",
    ),
    ("p", "The share of compared guesses that were accepted."),
    (
        "Compared",
        "The share, or number, of hops whose guess was there to be compared.",
    ),
    (
        "Effective p",
        "The share of all hops whose guess was accepted: a hop without a comparison counts as not accepted.",
    ),
    (
        "α",
        "Mean time of a speculator's call over the mean time of a look-up, over calls that ended before their \
         look-up, also those that brought no guess. Slower ones have no time, so a call may take longer than it says.",
    ),
    (
        "β",
        "Mean time of a segment over the mean time of a look-up.",
    ),
    (
        "ν",
        "The largest coefficient of variation of the three stages.",
    ),
    ("EM", "Exact match with one of the answers, normalised."),
    (
        "EM − k=1",
        "The difference of EM to k = 1, and p of McNemar's exact test.",
    ),
    (
        "EM − against",
        "The difference of EM to the variant that it is compared with, and p of McNemar's exact test.",
    ),
    ("F1", "Overlap of words with the nearest of the answers."),
    (
        "F1 − k=1",
        "The difference of F1 to k = 1, and p of a sign-flip permutation test.",
    ),
    (
        "Recall of pages",
        "The share of the question's gold pages that were read.",
    ),
    (
        "Chance said",
        "How likely the answers say that they are to be right, in the mean.",
    ),
    (
        "Calibration error",
        "The gap between what is said and what is so, over ten bins of equal width, each weighed by its answers. \
         That of answers that are right as often as they say is not 0 either.",
    ),
    (
        "Wrong that stay",
        "The share of the wrong answers that stay if a bound lets 80 % of the right ones stay.",
    ),
    (
        "Supported",
        "The share of answers that were found in what was read, or are among what the question offers.",
    ),
    (
        "Withheld",
        "The share of answers that the server withheld. They are scored as any other.",
    ),
    (
        "Same answer",
        "The share of questions whose answer is word for word that of k = 1.",
    ),
    (
        "Same sub-questions",
        "The share of questions whose sub-questions are word for word those of k = 1.",
    ),
    (
        "Same sub-answers",
        "The share of questions whose hops' answers are word for word those of k = 1.",
    ),
    (
        "Agreement",
        "The share of questions with the same answer as k = 1.",
    ),
    (
        "p50",
        "The middle question: half of them took longer. In seconds.",
    ),
    ("p95", "One question in twenty took longer. In seconds."),
    ("p99", "One question in a hundred took longer. In seconds."),
    (
        "Faster",
        "The share of questions that were faster than at k = 1.",
    ),
    (
        "Median speed-up",
        "The latency at k = 1 over this one, of the middle question.",
    ),
    (
        "Speed-up of the best tenth",
        "One question in ten was sped up by at least this factor.",
    ),
    (
        "RelLat of the worst tenth",
        "One question in ten had at least this RelLat. Above 1 it was slower than at k = 1.",
    ),
    ("T started", "Look-ups of a question."),
    (
        "M started",
        "Segments of a question, the final one included.",
    ),
    (
        "M but the last",
        "Segments but the one that wrote the answer: the paper counts calls of M so, as many as look-ups at k = 1.",
    ),
    ("S started", "Guesses of a question."),
    (
        "T wasted",
        "Look-ups that the committed hops have no use for.",
    ),
    (
        "M wasted",
        "Segments that the committed hops have no use for.",
    ),
    (
        "S wasted",
        "Guesses that the committed hops have no use for.",
    ),
    (
        "Salvaged",
        "Look-ups that were taken over from branches that were rolled back.",
    ),
    (
        "Accepted, checkable",
        "Accepted guesses whose observation holds the answer of one of the question's gold hops.",
    ),
    (
        "Precision",
        "The share of checkable accepted guesses that hold that answer, too.",
    ),
    (
        "Rejected, checkable",
        "Rejected guesses whose observation holds the answer of one of the question's gold hops.",
    ),
    (
        "False rejects",
        "The share of checkable rejected guesses that held that answer all the same.",
    ),
];

/// What a head means. One that names a run or a variant behind it means what it means without.
pub(super) fn about(head: &str) -> Option<&'static str> {
    let exactly = |head: &str| {
        let mut known = ALL.iter();
        known
            .find(|(name, _)| *name == head)
            .map(|(_, about)| *about)
    };
    let short = || {
        let mut ends = [", ", " of variant", " ÷ k=1"].iter();
        ends.find_map(|end| exactly(head.rsplit_once(end)?.0))
    };
    exactly(head).or_else(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_name_a_run_mean_the_same() {
        assert_eq!(about("RelLat, live 2"), about("RelLat"));
        assert_ne!(about("RelLat, k=∞"), about("RelLat"));
        assert_eq!(about("p95 of variant"), about("p95"));
        assert_eq!(about("Source"), None);
        let mut names: Vec<_> = ALL.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
