//! Sections of models: they share most of their keys, and not all of the defaults.

use super::*;

#[test]
fn each_section_has_the_defaults_that_the_table_says() {
    let home = Home::new();
    for section in ["generator", "fallback", "reader", "speculator.model"] {
        let file = format!("[{section}]\nkind = \"local\"");
        let config = home.read(&file, &[], &[]).unwrap();
        let model = match section {
            "generator" => Some(&config.generator),
            "fallback" => config.fallback.as_ref(),
            "reader" => config.reader.model(),
            _ => config.speculator.model.model(),
        };
        let Model { engine, style } = model.unwrap();
        let Engine::Local(options) = engine else {
            panic!("another engine")
        };
        let told = |name: &str| {
            let row = table::find(&format!("{section}.{name}"));
            row.unwrap().default.text()
        };
        let style = match style {
            Style::Steps => "\"steps\"",
            Style::Chat(PromptStyle::Tagged) => "\"tagged\"",
            Style::Chat(PromptStyle::Corag) => "\"corag\"",
        };
        assert_eq!(told("style"), style, "{section}");
        let tokens = options.context_tokens_per_sequence.to_string();
        assert_eq!(told("context_tokens"), tokens, "{section}");
    }
}

#[test]
fn a_list_is_written_on_the_command_line_as_in_the_file() {
    let home = Home::new();
    let members = |variables: &[(&str, &str)], flags: &[(&str, &str)]| {
        let config = home.read("", variables, flags).unwrap();
        config.speculator.cascade.members
    };
    let (usual, turned) = (members(&[], &[]), r#"["index", "memory"]"#);
    let mut expected = usual.clone();
    expected.reverse();
    assert_ne!(usual, expected);
    for text in [turned, "index,memory", " [\"index\",\"memory\"]"] {
        let flag = members(&[], &[("speculator.cascade", text)]);
        assert_eq!(flag, expected, "{text}");
        let variable = members(&[("SPECHOP_SPECULATOR_CASCADE", text)], &[]);
        assert_eq!(variable, expected, "{text}");
    }
    // A text that only begins so stays one.
    let config = home.read("", &[], &[("server.listen", "[::1]:50051")]);
    assert_eq!(config.unwrap().server.listen.port(), 50051);
    let broken = home.read("", &[], &[("speculator.cascade", "[\"memory\"")]);
    assert!(broken.is_err());
}
