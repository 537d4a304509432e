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
