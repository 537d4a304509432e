//! The scan that refuses tags with too many attributes, beside the tokeniser that must not see them.
#![no_main]

use std::cell::Cell;
use std::fmt::Write as _;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use spechop_text::html;

/// Such a character of the input is so many attributes, no two of one name: a few bytes are too many then.
const MANY: char = '\u{1}';
const MANY_COUNT: usize = 100;

/// The most attributes of a tag.
#[derive(Default)]
struct Most(Cell<usize>);

impl TokenSink for Most {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let Token::TagToken(Tag { kind, name, self_closing, attrs, .. }) = token else {
            return TokenSinkResult::Continue;
        };
        self.0.set(self.0.get().max(attrs.len()));
        // Raw text begins by the scan's own rule, as it does for whoever reads a page behind it.
        if kind == TagKind::EndTag || self_closing || !html::is_raw(&name) {
            return TokenSinkResult::Continue;
        }
        TokenSinkResult::RawData(match &*name {
            "title" | "textarea" => RawKind::Rcdata,
            _ => RawKind::Rawtext,
        })
    }
}

libfuzzer_sys::fuzz_target!(|input: &str| {
    let mut page = String::new();
    for (at, c) in input.chars().enumerate() {
        if c != MANY {
            page.push(c);
            continue;
        }
        for n in 0..MANY_COUNT {
            let _ = write!(page, " a{at}-{n}");
        }
    }
    let passes = html::check(&page).is_ok();
    let tokenizer = Tokenizer::new(Most::default(), TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(&*page));
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    let most = tokenizer.sink.0.get();
    assert!(!passes || most <= html::ATTRIBUTES_MAX, "{most} attributes in a tag of {page:?}");
});
