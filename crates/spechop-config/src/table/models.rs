//! The keys of models: what they are, and who plays which part.

use super::DefaultValue::{Example, Is, Usually};
use super::Kind::{File, Flag, List, Number, OneOf, Or, Text, Variable, Verbatim, Whole};
use super::{Key, Kind, MS_MAX, keys};

/// `[encoder]`.
pub(super) static ENCODER: &[Key] = keys! {
    /// Where it runs: "onnx" (in this process), or behind HTTP: "openai" (the form of OpenAI's /v1/embeddings,
    /// which many servers speak) or "tei" (/embed of text-embeddings-inference). An index must have been built
    /// with the same model, width and prefixes: `spechop index build --config FILE` reads these keys, too.
    kind: OneOf(&["onnx", "openai", "tei"]), Is(r#""onnx""#);
    /// The whole address of "openai" and "tei". The next eight keys are theirs, too.
    url: Text, Example(r#""http://127.0.0.1:8080/v1/embeddings""#);
    /// The name of the model at the endpoint.
    model: Text, Example(r#""e5-small-v2""#);
    /// The width of its vectors.
    width: Whole(1, 65_536), Is("384");
    /// The text that it wants before a query.
    query_prefix: Verbatim, Is(r#""query: ""#);
    /// The text that it wants before a passage.
    passage_prefix: Verbatim, Is(r#""passage: ""#);
    /// The variable that holds the key of the endpoint.
    api_key_env: Variable, Example(r#""ENCODER_KEY""#);
    /// The most texts of one request.
    batch: Whole(1, 4096), Is("32");
    /// The most requests at once.
    requests_max: Whole(1, 1024), Is("4");
    /// The longest that one request takes.
    ms_max: Whole(1, MS_MAX), Is("10000");
    /// The model folder of "onnx", as `spechop models pull encoder` or `spechop models quantize` makes it.
    dir: File, Usually(r#""~/.local/share/spechop/models/e5-small-v2-int8""#);
    /// Threads. One for each core by default.
    threads: Whole(1, 1024), Example("2");
    /// How many queries' vectors are remembered (1.5 KB each). 0 for none.
    queries_kept: Whole(0, 1_000_000), Is("256");
};

/// `[runtime]`.
pub(super) static RUNTIME: &[Key] = keys! {
    /// The ONNX Runtime library, as `spechop models pull onnxruntime` fetches it.
    onnxruntime: File, Usually(r#""~/.local/share/spechop/models/onnxruntime/libonnxruntime.so""#);
};

/// `[index]`.
pub(super) static INDEX: &[Key] = keys! {
    /// The passage index, as `spechop index build` makes it. If the default does not exist, the index of
    /// `make demo` is used, indexes/demo.
    dir: File, Usually(r#""~/.local/share/spechop/indexes/default""#);
    /// How much the words of a sub-question count beside its vector: the weight times the passage's share of
    /// the highest BM25 score. 0 for not at all. "auto" is 0.2 up to 50,000 passages and 0 above: for 100,000
    /// passages it takes 6 s of one core at the start, 23 MB of memory and 1 ms a search. With target.kind =
    /// "web" it is 0.5 instead of 0.2: the index guesses then, and search engines go by words. docs/TRIED.md
    /// says what that brings, and `spechop eval fit-words` finds a weight for other questions.
    lexical_weight: Or("auto", &Number(0.0, 10.0)), Is(r#""auto""#);
};

/// Each kind of section says its own default.
const CONTEXT_TOKENS: Kind = Whole(512, 1 << 20);

/// `[generator]`.
pub(super) static GENERATOR: &[Key] = keys! {
    /// "local": a GGUF file in this process. "openai": an OpenAI-compatible endpoint.
    kind: OneOf(&["local", "openai"]), Is(r#""local""#);
    /// "steps" for our own small planner, which was trained to plan and can do nothing else. "tagged" for
    /// models that follow instructions. "corag" for models that were trained in the CoRAG format.
    /// If a file or an endpoint is named, "tagged" is the default.
    style: OneOf(&["tagged", "corag", "steps"]), Usually(r#""steps""#);
    /// The most tokens of a prompt with its continuation (4096 for styles other than "steps").
    context_tokens: CONTEXT_TOKENS, Usually("1024");
};

/// What only a model has that plans.
pub(super) static PLANNER: &[Key] = keys! {
    /// Whether a drafted sub-question goes with the request of kind = "openai" as OpenAI's predicted output, so
    /// that the endpoint may write it sooner. OpenAI charges for predicted tokens that it rejects. An endpoint
    /// that refuses the parameter is noticed, and is sent none any more.
    predicted_output: Flag, Is("false");
};

/// How a model is spoken to that does not plan.
pub(super) static CHAT: &[Key] = keys! {
    /// "tagged" or "corag", as in [generator].
    style: OneOf(&["tagged", "corag"]), Is(r#""tagged""#);
    /// The most tokens of a prompt with its continuation.
    context_tokens: CONTEXT_TOKENS, Is("4096");
};

/// What every section of a model has.
pub(super) static MODEL: &[Key] = keys! {
    /// The model file of kind = "local". By default it is that of qwen2.5-coder-1.5b-instruct. For style "steps"
    /// it is our planner, or, with an adapter, the model that our planner's adapter was trained for.
    file: File, Example(r#""~/.local/share/spechop/models/qwen2.5-coder-1.5b-instruct/model.gguf""#);
    /// A LoRA adapter for the model file. By default there is none: our planner's is merged into its model.
    adapter: File, Example(r#""~/.local/share/spechop/models/spechop-planner/adapter.gguf""#);
    /// How many generations compute at once, each on threads of its own. With "auto" there is one worker for as
    /// many cores as "threads" says. If that is left out, a model of style "steps" has one for each core, and a
    /// larger one has one for every four cores and at least two if there are two. "auto" makes 32 at most. The
    /// cores are those that the process may use: an affinity and the quota of a cgroup count. The memory of each
    /// worker is logged at the start. More than 8 workers for each core are refused.
    workers: Or("auto", &Whole(1, u64::MAX)), Is(r#""auto""#);
    /// The threads of each worker. By default one for style "steps", whose steps are too short to share, else
    /// the physical cores divided among the workers, and up to four of them for a text at the first worker while
    /// no other one is needed.
    threads: Whole(1, 1024), Example("2");
    /// How many generations may have begun at once: 4 by default, or one for each worker if that is more. Those
    /// that have no worker stand still. More than 16 for each core are refused: each takes memory for a whole
    /// prompt.
    sequences: Whole(1, 1024), Example("4");
    /// Whether tokens are guessed without the model, from a draft of the sub-question or from the prompt, and
    /// read by the model several at once. It is done as long as it pays on this machine. By default only with a
    /// model whose texts it cannot change, which is tried when it is opened: the planner that is shipped is one.
    /// With another one a text may differ from one time to the next if two tokens are nearly as likely.
    draft_tokens: Flag, Example("false");
    /// The endpoint of kind = "openai".
    base_url: Text, Example(r#""http://127.0.0.1:8080/v1""#);
    /// The name of the model at the endpoint.
    model: Text, Example(r#""my-model""#);
    /// The NAME of the variable that holds the key of the endpoint.
    api_key_env: Variable, Example(r#""SPECHOP_API_KEY""#);
    /// The most requests at once.
    requests_max: Whole(1, 1024), Is("4");
    /// How long the endpoint may be silent before its first byte, while it reads the prompt or loads the model,
    /// and between two others. A model that thinks may be silent for the whole call before its first word.
    silence_ms_max: Whole(1, MS_MAX), Is("30000");
    /// The longest that a call of the endpoint takes, waiting for its turn and retries included. The limit of its
    /// stage ends it as well: question.segment_ms_max, target_ms_max, speculation_ms_max or draft_ms_max.
    total_ms_max: Whole(1, MS_MAX), Is("120000");
    /// How much the model is to think, in the endpoint's own word. By default nothing is said about it.
    reasoning_effort: Text, Example(r#""minimal""#);
    /// Whether the model's template opens its thoughts and the endpoint leaves them in the text, which then
    /// begins with them and has </think> behind them. DeepSeek-R1 and QwQ do so behind vLLM or SGLang without a
    /// reasoning parser. It is noticed if the thoughts are short.
    opens_thoughts: Flag, Is("false");
};

/// `[fallback]`.
pub(super) static FALLBACK: &[Key] = keys! {
    /// Where the model runs.
    kind: OneOf(&["local", "openai", "none"]), Is(r#""none""#);
    /// As in [generator]. If it is our planner, "steps" must be said.
    style: OneOf(&["tagged", "corag", "steps"]), Is(r#""tagged""#);
    /// The most tokens of a prompt with its continuation (1024 for style "steps").
    context_tokens: CONTEXT_TOKENS, Usually("4096");
};

/// `[reader]`.
pub(super) static READER: &[Key] = keys! {
    /// Who reads.
    kind: OneOf(&["spans", "generator", "local", "openai"]), Example(r#""spans""#);
};

/// What every section has that our small reader may stand in.
pub(super) static SPANS: &[Key] = keys! {
    /// The model folder of kind = "spans". The threads are one for each core by default, and for a guess
    /// beside a language model that reads in this process, one for each core that this leaves.
    dir: File, Usually(r#""~/.local/share/spechop/models/spechop-reader""#);
};

/// `[speculator]`.
pub(super) static SPECULATOR: &[Key] = keys! {
    /// Who guesses:
    ///   "hot"    a small index of the passages that are linked most, read
    ///   "index"  the whole index, read. It has a guess for every hop: if nothing is read in it, that nothing
    ///            will be found. It pays if the target is slower: if a language model reads for it and our
    ///            small reader for the guess, or if it looks up elsewhere ([target]).
    ///   "llm"    a model from memory; a generator of style "steps" cannot do that
    ///   "memory" what was looked up and verified before. It is always verified anew: it can be out of date,
    ///            never wrong. An entry that was wrong more often than right falls silent.
    ///   "cascade" several of these, asked together: the first confident guess goes ahead, and a better one
    ///            that comes later goes beside it if question.guesses is 2 or more
    ///   "none"
    /// [speculator.model] says who reads for a guess. The default is "index" if look-ups go elsewhere and
    /// there is an index, or if a language model reads for the target and our small reader for the guess, else
    /// "hot" if the index has a hot subset, else "llm" if a model can do it, else "none".
    kind: OneOf(&["none", "llm", "hot", "index", "memory", "cascade"]), Example(r#""hot""#);
    /// The folder of the hot subset. <index.dir>/hot by default.
    hot_dir: File, Example(r#""~/.local/share/spechop/indexes/default/hot""#);
    /// How many passages of the hot subset are read for a guess.
    passages: Whole(1, 100), Is("2");
    /// A hot subset can follow the traffic. Then it is counted which passages verified answers came from, and
    /// the subset holds the passages with most answers; those that are linked most fill up. All tenants share
    /// the subset, so what is fast in it tells everybody something about the questions that were counted.
    /// Therefore only the answers of these tenants are counted: "*" is all of them, "default" the tenant
    /// without a name. By default nobody's are.
    hot_tenants: List, Example(r#"["default", "team-7"]"#);
    /// The file that keeps the counts over a restart, or "none"; by default traffic.json in the data folder, or
    /// in SPECHOP_STATE_DIR. It holds names of tenants and ids of passages; its owner alone may read it.
    /// `spechop index hot DIR --traffic FILE` chooses a subset by it. It is written only if tenants are named.
    /// A damaged file is put aside, and counting begins anew.
    traffic_file: Or("none", &File), Example(r#""~/.local/share/spechop/traffic.json""#);
    /// How often the server chooses the subset of index.dir anew and swaps it in, without a pause. Each time
    /// it reads the whole index. Never by default. The subset need not be there at the start.
    hot_every_s: Whole(10, 2_592_000), Example("3600");
    /// The share of the passages that is in a subset chosen by the server.
    hot_fraction: Number(0.0001, 1.0), Is("0.1");
    /// A file that says how often each title is mentioned, one {"title","mention_indegree"} a line. It must name
    /// titles of the index. By default the numbers of links that came with the passages fill up.
    hot_in_degree: File, Example(r#""in_degree.jsonl""#);
    /// Who is asked by "cascade". If no guess is confident, the others are waited for, two seconds at most.
    cascade: List, Is(r#"["memory", "index"]"#);
    /// A guess that takes itself to be right with at least this chance goes ahead at once.
    cascade_confidence: Number(0.0, 1.0), Is("0.5");
    /// The most look-ups that are remembered, those of all tenants together; each takes up to 2 KB.
    memory_max: Whole(1, 20_000), Is("4096");
    /// The memory finds a sub-question by the same words, or else by the nearest vector: at least this cosine,
    /// and the same names in it.
    memory_similarity: Number(0.5, 1.0), Is("0.95");
    /// The file in which the memory survives a restart, or "none". Unlike tuning.state it holds words of
    /// questions and answers; its owner alone may read it. If nobody uses the memory by default, nothing is
    /// written unless the file is named here. Else it is memory.json in the data folder, or in
    /// SPECHOP_STATE_DIR. A damaged file is put aside, and the memory begins anew.
    memory_file: Or("none", &File), Example(r#""~/.local/share/spechop/memory.json""#);
    /// A collection of Qdrant in which the memory lies instead of the file, shared by all servers that name it.
    /// The servers and the key are those of [qdrant]; the collection is made if there is none. Give all of them
    /// the same memory_max. While Qdrant does not answer, questions go without the memory's guesses.
    memory_collection: Text, Example(r#""spechop-memory""#);
};

/// `[speculator.model]`.
pub(super) static SPECULATOR_MODEL: &[Key] = keys! {
    /// Where the model runs.
    kind: OneOf(&["generator", "spans", "local", "openai"]), Usually(r#""generator""#);
};

/// `[drafter]`.
pub(super) static DRAFTER: &[Key] = keys! {
    /// Who drafts.
    kind: OneOf(&["patterns", "llm", "both", "none"]), Is(r#""patterns""#);
    /// How many drafts of a sub-question the language model writes side by side. The first has its likeliest
    /// words, the others are drawn. Each is a call that costs money (prices.draft). The source measures up to
    /// nine, which cost a quarter more and save hardly more.
    samples: Whole(1, 16), Is("1");
    /// Patterns that `spechop patterns mine` has made, in the place of those of the program.
    patterns: File, Example(r#""patterns.json""#);
    /// Whether it learns from the hops of answered questions. Each tenant has what it has taught, and no other.
    learn: Flag, Is("true");
    /// The file in which that survives a restart; without one it does not. It holds words of questions; its
    /// owner alone may read it. A damaged file is put aside.
    file: File, Example(r#""~/.local/share/spechop/drafts.json""#);
};

/// `[drafter.model]`.
pub(super) static DRAFTER_MODEL: &[Key] = keys! {
    /// Where the model runs.
    kind: OneOf(&["generator", "local", "openai"]), Is(r#""generator""#);
};
