//! The page and the Markdown.

use super::*;

#[test]
fn hostile_names_stay_text() {
    let hostile = "<script>alert('1')</script> | \"&\" `x` [a](b)\n# no";
    let mut runs = both();
    for run in &mut runs {
        run.info.system = hostile.into();
        run.info.command = hostile.into();
        run.info.parts.insert(hostile.into(), hostile.into());
        run.questions
            .iter_mut()
            .for_each(|question| question.kind = hostile.into());
        run.rows.pop();
        run.rows.pop();
    }
    let report = report(&runs).unwrap();
    assert!(!report.html.contains("<script"));
    well_formed(&report.html);
    assert!(!report.markdown.contains("<script"));
    assert!(!report.markdown.contains("[a](b)") && !report.markdown.contains("\n# no"));
    // A table's lines have as many bars as its head.
    let bars = |line: &str| line.replace(r"\|", "").matches('|').count();
    let mut head = 0;
    for line in report.markdown.lines() {
        match line.starts_with('|') {
            true if head == 0 => head = bars(line),
            true => assert_eq!(bars(line), head, "{line}"),
            false => head = 0,
        }
    }
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let report = report(&both()).unwrap();
    well_formed(&report.html);
    for outside in [
        "<script", "http:", "https:", "url(", "@import", "<link", "<img",
    ] {
        assert!(!report.html.contains(outside), "{outside}");
    }
    assert_eq!(report.html.matches("<figure>").count(), 8);
    assert_eq!(report.html.matches("<figure class=\"first\">").count(), 1);
    // What a column means is told behind a mark at its head.
    assert!(report.html.contains("popovertarget=\"overview-m"));
    assert!(report.html.contains("INJECTED") && report.markdown.contains("INJECTED"));
}

#[test]
fn each_speculator_has_a_row_of_its_own_in_the_first_figure() {
    let variants = [
        ("k=1", 1.0),
        ("k=3,speculator=one", 0.9),
        ("k=3,speculator=two", 0.7),
    ];
    for (count, names) in [(3, [true, true]), (2, [false, false])] {
        let report = report(&[run(Source::Simulated, 40, &variants[..count])]).unwrap();
        let (_, figure) = report.html.split_once("<figure class=\"first\">").unwrap();
        let (figure, _) = figure.split_once("</figure>").unwrap();
        let named = [", one, ", ", two, "].map(|name| figure.contains(name));
        assert_eq!(named, names, "{count}");
        // One mark for each, and one in the legend.
        assert_eq!(figure.matches("class=\"mark s0\"").count(), count);
    }
}

#[test]
fn many_questions_come_first_and_warnings_stand_where_they_apply() {
    let variants = [("k=1", 1.0), ("k=3", 0.75)];
    let few = run(Source::Live, 10, &variants);
    let mut many = run(Source::Simulated, 40, &variants);
    many.info.system = "zeta".into();
    many.rows.pop();
    let page = report(&[few.clone(), many]).unwrap();
    let [first, last] = &*page.data.sections else {
        panic!("two sections");
    };
    assert!(first.title.contains("zeta") && !first.is_small && last.is_small);
    assert!(
        first
            .warnings
            .iter()
            .all(|warning| warning.contains("NOT WHOLE"))
    );
    assert_eq!((first.warnings.len(), last.warnings.len()), (1, 0));
    let at = |text: &str| page.html.find(text).unwrap();
    let small = at("samples of fewer than 30 questions");
    assert!(at("<figure class=\"first\">") < at("id=\"overview\"") && at("id=\"g1\"") < small);
    assert!(small < at(&format!("<h2>{}</h2>", last.title)));
    assert!(page.html[at("id=\"g1\"")..small].contains("NOT WHOLE"));
    // Nor does a sample make a first figure.
    assert!(
        !report(&[few])
            .unwrap()
            .html
            .contains("<figure class=\"first\">")
    );
}

#[test]
fn the_first_figure_has_data_sets_side_by_side() {
    let of = |dataset| {
        let mut run = run(Source::Live, 30, &[("k=1", 1.0), ("k=3", 0.75)]);
        run.info.dataset = dataset;
        run
    };
    // Of a web that nothing is injected into, like the paper's, which stands once.
    let mut web = of(Dataset::Wiki);
    web.info.injected = None;
    web.info.parts.insert("web".into(), "a corpus".into());
    let runs = [of(Dataset::Wiki), of(Dataset::Musique), web];
    let html = report(&runs).unwrap().html;
    let (_, figure) = html.split_once("<figure class=\"first\">").unwrap();
    let (figure, _) = figure.split_once("</figure>").unwrap();
    for (text, times) in [
        (">2WikiMultihopQA<", 1),
        (">MuSiQue<", 1),
        (">4150 ms INJECTED<", 1),
        (">web, nothing injected<", 1),
        (">gold planner, live<", 2),
        (">the paper: CoRAG 8B, GPT-4o guesses<", 1),
        // Of each run, and of the legend.
        ("class=\"mark s0\"", 3 + 1),
    ] {
        assert_eq!(figure.matches(text).count(), times, "{text}");
    }
}

#[test]
fn calls_of_every_k_are_those_of_the_same_questions() {
    let drawn = |run: &Run| {
        let html = report(std::slice::from_ref(run)).unwrap().html;
        let (_, figure) = html.split_once("\"g1-calls-t g1-calls-d\">").unwrap();
        figure.split_once("</svg>").unwrap().0.to_owned()
    };
    // The first five take more look-ups, and k = ∞ has not answered them.
    let [mut run, _] = both();
    let is_first = |row: &Row| row.id.as_str() < "q005";
    for row in run.rows.iter_mut().filter(|row| is_first(row)) {
        row.targets.started *= 3;
    }
    run.rows
        .retain(|row| !is_first(row) || row.variant.k() != spechop_types::K::Unbounded);
    let part = drawn(&run);
    run.rows.retain(|row| !is_first(row));
    assert_eq!(part, drawn(&run));
}

#[test]
fn same_runs_same_bytes() {
    let [live, simulated] = both();
    let one = report(&[live.clone(), simulated.clone()]).unwrap();
    assert_eq!(one, report(&[simulated, live]).unwrap());
}

#[test]
fn the_markdown_is_as_it_was() {
    let [live, _] = both();
    insta::assert_snapshot!(report(&[live]).unwrap().markdown);
}

#[test]
fn the_standard_agent_alone_has_an_overview() {
    let report = report(&[run(Source::Live, 40, &[("k=1", 1.0)])]).unwrap();
    well_formed(&report.html);
    assert_eq!(report.data.overview.rows.len(), 1);
    // The paper's rows alone are no figure of ours.
    assert!(!report.html.contains("<figure class=\"first\">"));
}

/// Every tag that is opened is closed, in its order; every id stands once, and every link within the page
/// leads somewhere.
#[track_caller]
fn well_formed(html: &str) {
    let mut open = Vec::new();
    let style = html.find("</style>").unwrap();
    let mut rest = &html[style..];
    open.extend(["html", "head", "style"]);
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap();
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let values = |before: &str| -> Vec<String> {
        let parts = html.split(before).skip(1);
        parts
            .map(|part| part.split('"').next().unwrap().to_owned())
            .collect()
    };
    let mut ids = values(" id=\"");
    for link in values("href=\"#") {
        assert!(ids.contains(&link), "{link}");
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn figures_that_compare_variants_show_the_run_that_has_most() {
    let [mut live, simulated] = both();
    live.rows
        .retain(|row| row.variant.k() != spechop_types::K::Unbounded);
    let html = report(&[live, simulated]).unwrap().html;
    for caption in [
        "Cost against gain, simulated:",
        "Latency of questions, live, ",
        "(and how many), simulated.",
    ] {
        assert!(html.contains(caption), "{caption}");
    }
    // Of equals, the live one.
    let html = report(&both()).unwrap().html;
    assert!(html.contains("Cost against gain, live:"));
}
