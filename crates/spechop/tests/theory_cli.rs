//! `spechop theory` as scripts see it: stdout, stderr, exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::shell;
use crate::shell::{object, printed, words};
use serde_json::json;

/// The paper's figures (table 1, and k for 5 % starvation at ν = 0.4), as `--json` tells them.
#[test]
fn theory_knows_the_paper() {
    for (p, alpha, beta, printed) in [
        ("0.68", "0.19", "0.10", "0.50"),
        ("0.28", "0.03", "0.10", "0.75"),
        ("0.41", "0.05", "0.11", "0.65"),
        ("0.27", "0.30", "0.74", "0.89"),
    ] {
        let answer = object(&["theory", "--p", p, "--alpha", alpha, "--beta", beta]);
        let oracle = answer["rel_lat_oracle"].as_f64().unwrap();
        assert_eq!(format!("{oracle:.2}"), printed, "p {p}");
    }
    // ⌈1.15 / 0.35⌉ and ⌈1.75 / 1.05⌉.
    for (alpha, beta, deterministic, epsilon) in [("0.2", "0.15", 4, 6), ("0.3", "0.75", 2, 3)] {
        let setting = ["theory", "--p", "0.5", "--alpha", alpha, "--beta", beta];
        let more = ["--nu", "0.4", "--epsilon", "0.05", "--k", "2,3,5,6"];
        let answer = object(&[&setting[..], &more].concat());
        assert_eq!(answer["k_deterministic"], deterministic);
        assert_eq!(answer["k_epsilon"], epsilon);
        let waits = |k: i32| answer["p_starve"][k.to_string()].as_f64().unwrap();
        assert!(
            waits(epsilon) <= 0.05 && waits(epsilon - 1) > 0.05,
            "{answer}"
        );
    }
}

#[test]
fn theory_has_two_forms() {
    // All guesses right: k hops at a time, until the oracle, 1 − 0.8 / 1.15, is reached at k = 4. Times
    // that do not vary never wait from there on, and always before.
    let setting = ["theory", "--p", "1", "--alpha", "0.2", "--beta", "0.15"];
    let args = [&setting[..], &["--nu", "0", "--k", "1,2,3,4"]].concat();
    let answer = object(&args);
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    let expected = [
        "k_deterministic",
        "k_epsilon",
        "k_epsilon_closed",
        "p_starve",
        "rel_lat_continuous_k",
        "rel_lat_k",
        "rel_lat_oracle",
    ];
    assert_eq!(keys, expected);
    let oracle = answer["rel_lat_oracle"].as_f64().unwrap();
    assert!((oracle - 0.35 / 1.15).abs() < 1e-12, "{oracle}");
    assert_eq!([&answer["k_deterministic"], &answer["k_epsilon"]], [4, 4]);
    let continuous = json!({"1": 1.0, "2": 0.5, "3": 1.0 / 3.0, "4": oracle});
    assert_eq!(answer["rel_lat_continuous_k"], continuous);
    // In rounds: two hops in 2 · 0.15 + 0.2 + 1 of 2 · 1.15.
    let rounds = answer["rel_lat_k"]["2"].as_f64().unwrap();
    assert!((rounds - 1.5 / 2.3).abs() < 1e-12, "{rounds}");
    assert_eq!(answer["k_epsilon_closed"], 4);
    let p_starve = json!({"1": 1.0, "2": 1.0, "3": 1.0, "4": 0.0});
    assert_eq!(answer["p_starve"], p_starve);
    assert_eq!(
        printed(&args),
        "RelLat*  0.304
k det    4
k eps    4  (epsilon 0.05; closed form 4)

   k   rounds  continuous  P(waits)
   1    1.000       1.000    1.0000
   2    0.652       0.500    1.0000
   3    0.536       0.333    1.0000
   4    0.478       0.304    0.0000
"
    );
}

#[test]
fn theory_prints_the_papers_rows() {
    let table = printed(&["theory", "--table"]);
    let rows: Vec<_> = table.lines().filter(|line| line.contains(" | ")).collect();
    // The head, Table 1 and Table 3.
    assert_eq!(rows.len(), 22, "{table}");
    let row = "CoRAG 8B, web, GPT-4o                  2WikiMultihopQA   0.68  0.19  0.10    0.50   0.60 |   \
               0.499    0.607   0.530   7   7";
    assert!(rows.contains(&row), "{table}");
}

/// 1 − (n − 1) / n · p (1 − α) / (1 + β), worked out elsewhere: the last of n hops gains nothing.
#[test]
fn theory_simulates_the_papers_rows() {
    let table = printed(&["theory", "--table"]);
    let rows = |mark: &str| -> Vec<String> {
        let rows = table.lines().filter(|line| line.contains(mark));
        rows.map(|row| words(row).join(" ")).collect()
    };
    let within = [
        "CoRAG 8B, E5, Llama 3.1 8B 2WikiMultihopQA 4.98 inferred 0.91 0.913 +0.003 within",
        "CoRAG 8B, E5, Llama 3.1 8B MuSiQue 5.39 inferred 0.86 0.854 -0.006 within",
        "CoRAG 8B, E5, Llama 3.1 8B DeepResearch-9K 6.86 inferred 0.88 0.870 -0.010 within",
        "CoRAG 8B, E5, Qwen 3 8B 2WikiMultihopQA 4.98 inferred 0.95 0.955 +0.005 within",
        "CoRAG 8B, E5, Qwen 3 8B MuSiQue 5.39 inferred 0.89 0.880 -0.010 within",
        "CoRAG 8B, E5, Qwen 3 8B DeepResearch-9K 6.89 inferred 0.92 0.917 -0.003 within",
        "CoRAG 8B, web, Llama 3.1 8B DeepResearch-9K 4.30 inferred 0.76 0.774 +0.014 within",
        "CoRAG 8B, web, Qwen 3 8B 2WikiMultihopQA 4.63 inferred 0.88 0.878 -0.002 within",
        "CoRAG 8B, web, Qwen 3 8B DeepResearch-9K 4.30 inferred 0.78 0.800 +0.020 within",
        "CoRAG 8B, web, GPT-4o mini 2WikiMultihopQA 4.63 inferred 0.76 0.755 -0.005 within",
        "CoRAG 8B, web, GPT-4o 2WikiMultihopQA 4.63 inferred 0.60 0.607 +0.007 within",
    ];
    assert_eq!(rows("  within"), within, "{table}");
    let outside = [
        "CoRAG 8B, web, Llama 3.1 8B 2WikiMultihopQA 4.63 inferred 0.78 0.806 +0.026 outside",
        "CoRAG 8B, web, Llama 3.1 8B MuSiQue 3.38 inferred 0.72 0.753 +0.033 outside",
        "CoRAG 8B, web, Qwen 3 8B MuSiQue 3.38 inferred 0.78 0.801 +0.021 outside",
        "CoRAG 8B, web, GPT-4o mini MuSiQue 3.38 inferred 0.72 0.751 +0.031 outside",
        "CoRAG 8B, web, GPT-4o mini DeepResearch-9K 4.30 inferred 0.74 0.767 +0.027 outside",
        "CoRAG 8B, web, GPT-4o MuSiQue 3.38 inferred 0.69 0.743 +0.053 outside",
        "CoRAG 8B, web, GPT-4o DeepResearch-9K 5.48 given 0.71 0.733 +0.023 outside",
    ];
    assert_eq!(rows("  outside"), outside, "{table}");
    let unknown = [
        "GPT-5, web, GPT-4o mini 2WikiMultihopQA - unknown 0.78",
        "GPT-5, web, GPT-4o mini MuSiQue - unknown 0.70",
        "GPT-5, web, GPT-4o mini DeepResearch-9K - unknown 0.60",
    ];
    assert_eq!(rows("- unknown"), unknown, "{table}");
    let told = "Within 0.02 of the paper's RelLat: 0 of 1 with the hops given, 11 of 17 with the hops inferred.\n\
                Not simulated: 3.\n";
    assert!(table.ends_with(told), "{table}");
}

/// arXiv 2512.15834, worked out by hand: 0.8 · 2.5 + 0.2 · 4 = 2.8 s.
#[test]
fn theory_of_guessed_calls() {
    let args = words("theory calls --generation 2 --guess 0.5 --tool 2 --acceptance 0.8");
    assert_eq!(
        printed(&args),
        "standard     4.000 s\nspeculative  2.800 s\nspeed-up     1.4286  (maximum 1.6000, bound 1.7778)\n"
    );
    assert_eq!(object(&args)["standard_s"], 4.0);
    let engine = "theory engine --turns 2 --overhead 0.1 --prefill 0.001 --decode 0.01 --prompt 1000 \
                  --reasoning 200 --call 50 --output 500 --tool 1 --acceptance";
    let engine = words(engine);
    let half = [&engine[..], &["0.5"]].concat();
    assert_eq!(
        printed(&half),
        "vanilla      9.950 s\ncached       9.500 s\nspeculative  7.810 s\n"
    );
    let all = object(&[&engine[..], &["1"]].concat());
    assert!(
        (all["speculative_s"].as_f64().unwrap() - 6.12).abs() < 1e-9,
        "{all}"
    );
    shell::refused(
        &[&engine[..], &["1.5"]].concat(),
        "acceptance = 1.5 is no share",
    );
    shell::refused(
        &words("theory calls --generation 2 --guess 0 --tool 2 --acceptance 1"),
        "guess = 0 must be finite and greater",
    );
    // Without either of them the window's arguments are required, as before.
    shell::miswritten(&["theory", "--p", "0.5"], "required");
}

/// Without variation the bound of theorem 4 and the k that it is a bound of say the same, also where
/// (1 + beta) / (alpha + beta) is whole: 1.35 / 0.45.
#[test]
fn theory_says_one_k_where_the_quotient_is_whole() {
    let answer = object(&words(
        "theory --p 0.5 --alpha 0.1 --beta 0.35 --nu 0 --k 2,3",
    ));
    assert_eq!(answer["p_starve"], json!({"2": 1.0, "3": 0.0}));
    for k in ["k_deterministic", "k_epsilon", "k_epsilon_closed"] {
        assert_eq!(answer[k], 3, "{k}");
    }
}

#[test]
fn theory_says_what_is_too_large() {
    let setting = "theory --p 0.5 --alpha 0.1 --beta 0.1 --nu 1000";
    let tiny = "theory --p 0.5 --alpha 0 --beta 0";
    let calls = "theory calls --generation 1e308 --guess 1 --tool 1e308 --acceptance 0.5";
    let engine = "theory engine --turns 2 --overhead 0.1 --prefill 0.001 --decode 0.01 --prompt 1000 \
                  --reasoning 200 --call 50 --output 500 --tool 1e308 --acceptance 0.5";
    for (line, says) in [
        (setting, "nu = 1000 is so large"),
        (tiny, "alpha + beta is so small"),
        (calls, "too large to add up"),
        (engine, "too large to add up"),
    ] {
        let args = words(line);
        shell::refused(&args, says);
        shell::refused(&[&args[..], &["--json"]].concat(), says);
    }
    // What is merely long is worked out. Beside such a segment a look-up takes no time at all.
    let long = "theory --p 0.5 --alpha 0.1 --beta 1e308";
    assert_eq!(object(&words(long))["k_epsilon"], 1);
}
