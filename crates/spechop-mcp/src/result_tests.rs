use rmcp::model::ContentBlock;
use serde_json::json;

use super::*;

fn texts_of(texts: &[&str]) -> CallToolResult {
    CallToolResult::success(texts.iter().copied().map(ContentBlock::text).collect())
}

fn structured(value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(Vec::new());
    result.structured_content = Some(value);
    result
}

/// Each passage as `id|title|text|url|score`.
fn lines(shape: &Shape, result: &CallToolResult, limit: usize) -> Result<Vec<String>, String> {
    let found = shape.passages(result, "rivers of France", limit)?;
    let line = |p: &Passage| {
        let url = p.url.as_deref().unwrap_or("-");
        format!("{}|{}|{}|{url}|{}", p.id, p.title, p.text, p.score)
    };
    Ok(found.iter().map(line).collect())
}

fn auto(result: &CallToolResult) -> Vec<String> {
    lines(&Shape::default(), result, 9).unwrap()
}

#[test]
fn each_text_is_a_passage() {
    let result = texts_of(&["The Seine.", " ", "The Loire.", "The Seine."]);
    let found = auto(&result);
    let id = |text| Passage::id_of_text("", text);
    assert_eq!(
        found,
        [
            format!("{}||The Seine.|-|1", id("The Seine.")),
            format!("{}||The Loire.|-|0.5", id("The Loire.")),
        ]
    );
    assert_eq!(lines(&Shape::default(), &result, 1).unwrap(), found[..1]);
    let embedded = ContentBlock::embedded_text("file:///a.txt", "The Rhône.");
    let found = auto(&CallToolResult::success(vec![embedded]));
    assert_eq!(found, ["file:///a.txt||The Rhône.|file:///a.txt|1"]);
    assert_eq!(auto(&texts_of(&[])), [""; 0]);
}

#[test]
fn json_is_found_wherever_servers_put_it() {
    let item = json!({ "id": 7, "title": "Seine", "snippet": "A river.", "link": "https://h/" });
    let expected = ["7|Seine|A river.|https://h/|1"];
    for value in [
        json!({ "results": [item] }),
        json!({ "result": [item], "count": 1 }),
        json!([item]),
        item.clone(),
    ] {
        assert_eq!(auto(&texts_of(&[&value.to_string()])), expected, "{value}");
        assert_eq!(auto(&structured(value.clone())), expected, "{value}");
    }
    // One text for each item, as some servers write lists.
    let two = texts_of(&[&item.to_string(), r#"{"id": "8", "content": ["a", "b"]}"#]);
    assert_eq!(auto(&two), [expected[0], "8||a\nb|-|0.5"]);
    // A text in a structured envelope is that text.
    let mut wrapped = texts_of(&[&json!({ "results": [item] }).to_string()]);
    wrapped.structured_content = Some(json!({ "result": "…" }));
    assert_eq!(auto(&wrapped), expected);
    // Nothing found is an answer.
    for none in [json!({ "results": [] }), json!([])] {
        assert_eq!(auto(&structured(none.clone())), [""; 0]);
        assert_eq!(auto(&texts_of(&[&none.to_string()])), [""; 0]);
    }
}

#[test]
fn passages_of_one_page_or_of_one_collection_are_all_kept() {
    let result = structured(json!({ "results": [
        { "url": "https://h/", "text": "The Seine." },
        { "url": "https://h/", "text": "The Loire." },
        { "source": "wikipedia", "text": "The Rhine." },
        { "source": "wikipedia", "text": "The Main." },
        { "source": "https://other/", "text": "The Po." },
    ] }));
    let id = |text| Passage::id_of_text("", text);
    let score = |rank: f32| 1.0 / rank;
    assert_eq!(
        auto(&result),
        [
            format!("{}||The Seine.|https://h/|1", id("The Seine.")),
            format!("{}||The Loire.|https://h/|0.5", id("The Loire.")),
            format!("{}||The Rhine.|-|{}", id("The Rhine."), score(3.0)),
            format!("{}||The Main.|-|0.25", id("The Main.")),
            "https://other/||The Po.|https://other/|0.2".to_owned(),
        ]
    );
}

#[test]
fn what_only_looks_like_json_is_a_text() {
    for text in [
        "[1] The Seine is a river.",
        "{broken",
        r#"{"page": {"a": 1}}"#,
    ] {
        let found = auto(&texts_of(&[text]));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains(text), "{found:?}");
    }
}

#[test]
fn paths_say_where_things_are() {
    let path = |text: &str| Some(Path::from(text));
    let shape = Shape {
        form: Form::Json,
        items: path("web.0.hits"),
        id: path("meta.key"),
        title: path("meta.head"),
        text: path("page"),
        url: path("meta.at"),
    };
    let item = json!({ "page": "A river.", "text": "not this",
        "meta": { "key": "k", "head": "Seine", "at": "https://h/" } });
    let result = structured(json!({ "web": [{ "hits": [item, { "page": "x" }] }] }));
    assert_eq!(
        lines(&shape, &result, 1).unwrap(),
        ["k|Seine|A river.|https://h/|1"]
    );
    for (result, said) in [
        (
            structured(json!({ "web": [] })),
            "nothing is at \"web.0.hits\" in it",
        ),
        (
            structured(json!({ "web": [{ "hits": [{ "text": "x", "n": 1 }] }] })),
            "no item has a text; the first one's fields are: n, text",
        ),
        (
            texts_of(&["plain"]),
            "a text of it is no JSON: expected value at line 1 column 1",
        ),
    ] {
        assert_eq!(lines(&shape, &result, 5).unwrap_err(), said);
    }
    let as_text = Shape {
        form: Form::Text,
        ..Shape::default()
    };
    let json = r#"{"results": []}"#;
    assert!(lines(&as_text, &texts_of(&[json]), 5).unwrap()[0].contains(json));
}

#[test]
fn a_long_text_is_cut_and_its_best_pieces_come_first() {
    let filler = "Bread is baked from flour and water in the early morning hours. ".repeat(60);
    let text = format!("{filler}\n\nThe rivers of France are the Seine and the Loire.\n\n{filler}");
    let item = json!({ "results": [{ "id": "long", "title": "T", "text": text }] });
    let shape = Shape::default();
    let found = shape
        .passages(&structured(item), "rivers of France", 3)
        .unwrap();
    assert_eq!(found.len(), 3);
    assert!(found[0].text.contains("rivers of France"), "{found:?}");
    assert!(
        found
            .iter()
            .all(|p| p.id.starts_with("long#") && &*p.title == "T")
    );
    assert!(
        found
            .iter()
            .all(|p| p.text.split_whitespace().count() <= passages::WORDS_MAX)
    );
}

/// Each piece would repeat them otherwise, and a reply below its limit could fill the memory.
#[test]
fn pieces_share_a_short_title_and_no_long_address() {
    let (title, text) = ("The Seine ".repeat(10_000), "a ".repeat(100_000));
    let long = |begin: &str| format!("{begin}{}", "x".repeat(5_000));
    let passages = |id: &str, url: &str| {
        let item = json!({ "id": id, "title": title, "text": text, "url": url });
        let result = structured(json!({ "results": [item] }));
        Shape::default()
            .passages(&result, "rivers of France", 5_000)
            .unwrap()
    };
    let found = passages("seine", "https://h/");
    assert!(found.len() > 900, "{}", found.len());
    let first = &found[0];
    assert!((200..=300).contains(&first.title.chars().count()));
    assert!(title.starts_with(&*first.title));
    for (at, passage) in found.iter().enumerate() {
        assert!(Arc::ptr_eq(&passage.title, &first.title));
        assert_eq!(*passage.id, format!("seine#{}", at + 1));
        let urls = passage.url.as_ref().zip(first.url.as_ref());
        assert!(urls.is_some_and(|(one, other)| Arc::ptr_eq(one, other)));
    }
    let found = passages(&long("seine"), "https://h/");
    assert_eq!(&*found[0].id, "https://h/#1");
    // All the words are the same, and so is what names a piece by what it says.
    let found = passages(&long("seine"), &long("https://h/"));
    assert!(found.iter().all(|p| p.url.is_none()));
    assert!(found.iter().all(|p| p.id.starts_with("text-")));
    // A short text is not cut, and its title is.
    let item = json!({ "title": title, "text": "A river.", "url": long("https://h/") });
    let found = auto(&structured(item));
    assert!(found[0].len() < 400, "{found:?}");
}

#[test]
fn a_result_makes_no_more_passages_than_are_looked_at() {
    let items = (0..PASSAGES_MAX + 1).map(|n| json!({ "id": n, "text": "A river." }));
    let result = structured(json!({ "results": items.collect::<Vec<_>>() }));
    let found = lines(&Shape::default(), &result, usize::MAX).unwrap();
    assert_eq!(found.len(), PASSAGES_MAX);
    let item = Item {
        text: "A sentence of five words. ".repeat(200),
        ..Item::default()
    };
    assert_eq!([cut(&item, 3).len(), cut(&item, 100).len()], [3, 10]);
}

#[test]
fn a_long_text_without_blanks_is_cut_too() {
    let filler = "面包是每天清晨用面粉和清水在热炉子里慢慢烤成的食物。".repeat(200);
    let text = format!("{filler}\n\n塞纳河是法国的河流。\n\n{filler}");
    let item = json!({ "results": [{ "id": "long", "text": text }] });
    let found = Shape::default()
        .passages(&structured(item), "法国的河流是什么", 3)
        .unwrap();
    assert_eq!(found.len(), 3);
    assert!(found[0].text.contains("法国的河流"), "{found:?}");
    assert!(found.iter().all(|p| p.text.chars().count() < 1_000));
}
