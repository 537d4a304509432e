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
