use super::*;

#[test]
fn k_is_a_whole_number_however_it_is_written() {
    for (k, read) in [
        ("2", Ok(Some(2))),
        ("2.0", Ok(Some(2))),
        ("4294967295", Ok(Some(u32::MAX))),
        ("null", Ok(None)),
        ("2.5", Err(())),
        ("-1", Err(())),
        ("4294967296", Err(())),
        ("\"2\"", Err(())),
    ] {
        let arguments = format!("{{\"question\":\"q\",\"k\":{k}}}");
        let arguments: JsonObject = serde_json::from_str(&arguments).unwrap();
        let found = question(&arguments).map(|question| question.k);
        assert_eq!(found.map_err(drop), read, "{k}");
    }
}

#[test]
fn a_hop_is_one_line_and_names_what_it_rests_on_if_it_does() {
    let passage = |title: &str, id: &str| Passage {
        id: id.into(),
        title: title.into(),
        text: "".into(),
        url: None,
        score: 0.0,
    };
    let mut hop = Hop {
        sub_question: "Who is it?".to_owned(),
        sub_answer: "not found".to_owned(),
        evidence: Vec::new(),
    };
    assert_eq!(line(2, &hop), "2. Who is it? not found");
    hop.evidence = vec![passage("A\nfilm", "1"), passage("B", "2")];
    assert_eq!(line(1, &hop), "1. Who is it? not found (A film [1]; B [2])");
}
