//! What the paper printed: Tables 1 to 5 of arXiv 2605.21965.

/// A row of Table 1 or Table 3, and what Table 5 adds to it, as printed: with two digits. The window is
/// unbounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The number of its table.
    pub table: u8,
    /// The generator, M.
    pub generator: &'static str,
    /// The target tool, T.
    pub target: &'static str,
    /// The speculator, S.
    pub speculator: &'static str,
    /// The data set.
    pub dataset: &'static str,
    /// The share of guesses that are accepted.
    pub p: f64,
    /// Mean time of a guess divided by the mean time of a look-up.
    pub alpha: f64,
    /// Mean time of a segment divided by the mean time of a look-up.
    pub beta: f64,
    /// RelLat*.
    pub rel_lat_oracle: f64,
    /// RelLat, simulated over recorded stage times. Table 5 prints it again, .01 higher in three rows:
    /// MuSiQue with E5 and Llama, DeepResearch-9K over the web with GPT-4o mini and with GPT-4o.
    pub rel_lat: f64,
    /// RelLat over the questions that the base model, k = 1, answers exactly right: Table 5.
    pub rel_lat_right: f64,
}

const fn row(table: u8, names: [&'static str; 4], figures: [f64; 6]) -> Published {
    let [generator, target, speculator, dataset] = names;
    let [p, alpha, beta, rel_lat_oracle, rel_lat, rel_lat_right] = figures;
    Published {
        table,
        generator,
        target,
        speculator,
        dataset,
        p,
        alpha,
        beta,
        rel_lat_oracle,
        rel_lat,
        rel_lat_right,
    }
}

/// All rows of Tables 1 and 3, in the order of the paper.
#[rustfmt::skip]
pub const PUBLISHED: [Published; 21] = [
    row(1, ["CoRAG 8B", "E5", "Llama 3.1 8B", "2WikiMultihopQA"], [0.27, 0.30, 0.74, 0.89, 0.91, 0.91]),
    row(1, ["CoRAG 8B", "E5", "Llama 3.1 8B", "MuSiQue"], [0.42, 0.30, 0.64, 0.82, 0.86, 0.86]),
    row(1, ["CoRAG 8B", "E5", "Llama 3.1 8B", "DeepResearch-9K"], [0.39, 0.29, 0.82, 0.85, 0.88, 0.84]),
    row(1, ["CoRAG 8B", "E5", "Qwen 3 8B", "2WikiMultihopQA"], [0.15, 0.35, 0.74, 0.95, 0.95, 0.96]),
    row(1, ["CoRAG 8B", "E5", "Qwen 3 8B", "MuSiQue"], [0.34, 0.29, 0.64, 0.85, 0.89, 0.91]),
    row(1, ["CoRAG 8B", "E5", "Qwen 3 8B", "DeepResearch-9K"], [0.25, 0.30, 0.81, 0.90, 0.92, 0.87]),
    row(1, ["CoRAG 8B", "web", "Llama 3.1 8B", "2WikiMultihopQA"], [0.28, 0.03, 0.10, 0.75, 0.78, 0.77]),
    row(1, ["CoRAG 8B", "web", "Llama 3.1 8B", "MuSiQue"], [0.41, 0.05, 0.11, 0.65, 0.72, 0.71]),
    row(1, ["CoRAG 8B", "web", "Llama 3.1 8B", "DeepResearch-9K"], [0.35, 0.05, 0.13, 0.70, 0.76, 0.65]),
    row(1, ["CoRAG 8B", "web", "Qwen 3 8B", "2WikiMultihopQA"], [0.18, 0.05, 0.10, 0.85, 0.88, 0.87]),
    row(1, ["CoRAG 8B", "web", "Qwen 3 8B", "MuSiQue"], [0.33, 0.05, 0.11, 0.72, 0.78, 0.75]),
    row(1, ["CoRAG 8B", "web", "Qwen 3 8B", "DeepResearch-9K"], [0.31, 0.05, 0.13, 0.74, 0.78, 0.65]),
    row(1, ["CoRAG 8B", "web", "GPT-4o mini", "2WikiMultihopQA"], [0.41, 0.16, 0.10, 0.68, 0.76, 0.76]),
    row(1, ["CoRAG 8B", "web", "GPT-4o mini", "MuSiQue"], [0.49, 0.20, 0.11, 0.65, 0.72, 0.76]),
    row(1, ["CoRAG 8B", "web", "GPT-4o mini", "DeepResearch-9K"], [0.44, 0.22, 0.13, 0.69, 0.74, 0.63]),
    row(1, ["CoRAG 8B", "web", "GPT-4o", "2WikiMultihopQA"], [0.68, 0.19, 0.10, 0.50, 0.60, 0.59]),
    row(1, ["CoRAG 8B", "web", "GPT-4o", "MuSiQue"], [0.50, 0.19, 0.11, 0.63, 0.69, 0.64]),
    row(1, ["CoRAG 8B", "web", "GPT-4o", "DeepResearch-9K"], [0.45, 0.18, 0.13, 0.68, 0.71, 0.60]),
    row(3, ["GPT-5", "web", "GPT-4o mini", "2WikiMultihopQA"], [0.44, 0.15, 0.34, 0.72, 0.78, 0.76]),
    row(3, ["GPT-5", "web", "GPT-4o mini", "MuSiQue"], [0.56, 0.14, 0.23, 0.61, 0.70, 0.66]),
    row(3, ["GPT-5", "web", "GPT-4o mini", "DeepResearch-9K"], [0.67, 0.15, 0.26, 0.55, 0.60, 0.56]),
];

/// The one row whose hops the paper prints: Figure 2 has 5.48 calls to T in a question without speculation,
/// one for each hop. The calls to M are as many, so the last segment is not among them.
const HOPS_GIVEN: ([&str; 4], f64) = (["CoRAG 8B", "web", "GPT-4o", "DeepResearch-9K"], 5.48);

/// The paper's web search, in milliseconds: the mean (Figure 5) and the standard deviation of a look-up.
pub const PUBLISHED_WEB_MS: [f64; 2] = [4150.0, 1680.0];

/// Mean milliseconds of a look-up, by target tool: Figure 5.
const LOOK_UP_MS: [(&str, f64); 2] = [("E5", 440.0), ("web", PUBLISHED_WEB_MS[0])];

/// How many hops a question has on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HopCount {
    /// The paper prints it.
    Given(f64),
    /// It follows from times that the paper prints.
    Inferred(f64),
}

impl HopCount {
    /// The mean, whichever way it is known.
    pub fn mean(self) -> f64 {
        match self {
            Self::Given(mean) | Self::Inferred(mean) => mean,
        }
    }
}

impl Published {
    /// The number of hops, if the paper says enough of it. If it is not printed, it is the time of a question
    /// without speculation (Table 2) divided by the time of such a hop, a segment and a look-up. Table 2
    /// timed CoRAG only, in the runs with Llama; without speculation no speculator is asked.
    pub fn hops(&self) -> Option<HopCount> {
        let (names, given) = HOPS_GIVEN;
        if names == [self.generator, self.target, self.speculator, self.dataset] {
            return Some(HopCount::Given(given));
        }
        if self.generator != "CoRAG 8B" {
            return None;
        }
        let is_standard = |row: &&PublishedOutcome| {
            let is_alike = row.target == Some(self.target) && row.dataset == self.dataset;
            is_alike && !row.speculates
        };
        let question = PUBLISHED_OUTCOMES.iter().find(is_standard)?.seconds;
        let is_target = |(target, _): &&(&str, f64)| *target == self.target;
        let look_up = LOOK_UP_MS.iter().find(is_target)?.1 / 1e3;
        Some(HopCount::Inferred(question / (look_up * (1.0 + self.beta))))
    }
}

/// A row of Table 2, as printed: what comes of questions. CoRAG 8B plans, Llama 3.1 8B guesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedOutcome {
    /// The target tool, T. `None` with full speculation, which never calls it.
    pub target: Option<&'static str>,
    /// Whether anything is guessed.
    pub speculates: bool,
    /// The data set.
    pub dataset: &'static str,
    /// Exact match, as a share.
    pub exact_match: f64,
    /// F1, as a share.
    pub f1: f64,
    /// Mean time of a question.
    pub seconds: f64,
}

const fn outcome(
    target: Option<&'static str>,
    speculates: bool,
    dataset: &'static str,
    [exact_match, f1, seconds]: [f64; 3],
) -> PublishedOutcome {
    PublishedOutcome {
        target,
        speculates,
        dataset,
        exact_match,
        f1,
        seconds,
    }
}

/// All rows of Table 2.
#[rustfmt::skip]
pub const PUBLISHED_OUTCOMES: [PublishedOutcome; 15] = [
    outcome(Some("web"), false, "2WikiMultihopQA", [0.687, 0.738, 21.13]),
    outcome(Some("web"), false, "MuSiQue", [0.100, 0.251, 15.59]),
    outcome(Some("web"), false, "DeepResearch-9K", [0.320, 0.356, 20.17]),
    outcome(Some("web"), true, "2WikiMultihopQA", [0.693, 0.738, 16.10]),
    outcome(Some("web"), true, "MuSiQue", [0.107, 0.253, 11.17]),
    outcome(Some("web"), true, "DeepResearch-9K", [0.320, 0.356, 15.07]),
    outcome(Some("E5"), false, "2WikiMultihopQA", [0.723, 0.769, 3.81]),
    outcome(Some("E5"), false, "MuSiQue", [0.237, 0.365, 3.89]),
    outcome(Some("E5"), false, "DeepResearch-9K", [0.220, 0.301, 5.49]),
    outcome(Some("E5"), true, "2WikiMultihopQA", [0.723, 0.769, 3.47]),
    outcome(Some("E5"), true, "MuSiQue", [0.237, 0.366, 3.37]),
    outcome(Some("E5"), true, "DeepResearch-9K", [0.223, 0.303, 4.83]),
    outcome(None, true, "2WikiMultihopQA", [0.387, 0.421, 2.46]),
    outcome(None, true, "MuSiQue", [0.057, 0.154, 2.35]),
    outcome(None, true, "DeepResearch-9K", [0.123, 0.169, 3.66]),
];

/// A row of Table 4, as printed: how good the answers are without and with speculation, k → ∞.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedAnswers {
    /// The generator, M.
    pub generator: &'static str,
    /// The target tool, T.
    pub target: &'static str,
    /// The speculator, S.
    pub speculator: &'static str,
    /// The data set.
    pub dataset: &'static str,
    /// Exact match and F1 of the standard agent, as shares.
    pub standard: [f64; 2],
    /// Exact match and F1 with speculation, as shares.
    pub speculative: [f64; 2],
}

const fn answers(
    [generator, target, speculator, dataset]: [&'static str; 4],
    standard: [f64; 2],
    speculative: [f64; 2],
) -> PublishedAnswers {
    PublishedAnswers {
        generator,
        target,
        speculator,
        dataset,
        standard,
        speculative,
    }
}

/// All rows of Table 4.
#[rustfmt::skip]
pub const PUBLISHED_ANSWERS: [PublishedAnswers; 24] = [
    answers(["CoRAG 8B", "E5", "Llama 3.1 8B", "2WikiMultihopQA"], [0.723, 0.769], [0.723, 0.769]),
    answers(["CoRAG 8B", "E5", "Llama 3.1 8B", "MuSiQue"], [0.237, 0.365], [0.237, 0.366]),
    answers(["CoRAG 8B", "E5", "Llama 3.1 8B", "DeepResearch-9K"], [0.220, 0.301], [0.223, 0.303]),
    answers(["CoRAG 8B", "E5", "Qwen 3 8B", "2WikiMultihopQA"], [0.723, 0.767], [0.723, 0.767]),
    answers(["CoRAG 8B", "E5", "Qwen 3 8B", "MuSiQue"], [0.233, 0.366], [0.237, 0.370]),
    answers(["CoRAG 8B", "E5", "Qwen 3 8B", "DeepResearch-9K"], [0.260, 0.341], [0.263, 0.342]),
    answers(["CoRAG 8B", "E5", "GPT-4o mini", "2WikiMultihopQA"], [0.733, 0.807], [0.733, 0.807]),
    answers(["CoRAG 8B", "E5", "GPT-4o mini", "MuSiQue"], [0.233, 0.366], [0.233, 0.368]),
    answers(["CoRAG 8B", "E5", "GPT-4o mini", "DeepResearch-9K"], [0.270, 0.346], [0.267, 0.346]),
    answers(["CoRAG 8B", "web", "Llama 3.1 8B", "2WikiMultihopQA"], [0.687, 0.738], [0.693, 0.738]),
    answers(["CoRAG 8B", "web", "Llama 3.1 8B", "MuSiQue"], [0.100, 0.251], [0.107, 0.253]),
    answers(["CoRAG 8B", "web", "Llama 3.1 8B", "DeepResearch-9K"], [0.320, 0.356], [0.320, 0.356]),
    answers(["CoRAG 8B", "web", "Qwen 3 8B", "2WikiMultihopQA"], [0.673, 0.711], [0.673, 0.711]),
    answers(["CoRAG 8B", "web", "Qwen 3 8B", "MuSiQue"], [0.100, 0.233], [0.100, 0.232]),
    answers(["CoRAG 8B", "web", "Qwen 3 8B", "DeepResearch-9K"], [0.267, 0.324], [0.267, 0.324]),
    answers(["CoRAG 8B", "web", "GPT-4o mini", "2WikiMultihopQA"], [0.653, 0.707], [0.660, 0.707]),
    answers(["CoRAG 8B", "web", "GPT-4o mini", "MuSiQue"], [0.140, 0.269], [0.153, 0.273]),
    answers(["CoRAG 8B", "web", "GPT-4o mini", "DeepResearch-9K"], [0.287, 0.323], [0.280, 0.320]),
    answers(["CoRAG 8B", "web", "GPT-4o", "2WikiMultihopQA"], [0.693, 0.742], [0.700, 0.745]),
    answers(["CoRAG 8B", "web", "GPT-4o", "MuSiQue"], [0.107, 0.244], [0.107, 0.244]),
    answers(["CoRAG 8B", "web", "GPT-4o", "DeepResearch-9K"], [0.260, 0.313], [0.260, 0.313]),
    answers(["GPT-5", "web", "GPT-4o mini", "2WikiMultihopQA"], [0.660, 0.771], [0.647, 0.762]),
    answers(["GPT-5", "web", "GPT-4o mini", "MuSiQue"], [0.200, 0.376], [0.207, 0.378]),
    answers(["GPT-5", "web", "GPT-4o mini", "DeepResearch-9K"], [0.300, 0.402], [0.307, 0.406]),
];
