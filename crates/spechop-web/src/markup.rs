//! Markup to a tree of whatever kind, for pages that strangers write.
//!
//! ```text
//! attributes counted ─▶ tokeniser of html5ever ─▶ Filter ─▶ tree builder of html5ever ─▶ Tree
//! ```
//!
//! [`Filter`] keeps from the tree what nobody looks for in it, and everything once the tree has enough.
//! And it alone tells the tokeniser where raw text begins, for the count of attributes stands on that
//! ([`html::check`]). The tree builder would not have it begin at a `<style>` in an `<svg>`, so that tags
//! that were not counted came to light.

use std::cell::Cell;

use html5ever::Attribute;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink};
use spechop_text::html;

/// A tree that knows what it wants of a page.
pub(crate) trait Tree: TreeSink {
    /// Elements of raw text that it has, text included. All others are kept from it.
    const RAW: &'static [&'static str];
    /// The longest attribute that it has, in bytes.
    const ATTRIBUTE_BYTES_MAX: usize;

    /// Whether it has enough: nothing more of the page reaches it then.
    fn is_full(&self) -> bool;
}

/// Makes a tree of a page, unless a tag of it has too many attributes.
pub(crate) fn build<T: Tree>(page: &str, tree: T) -> Result<T::Output, html::Hostile> {
    html::check(page)?;
    let options = TreeBuilderOpts {
        // With scripts, what is in a `<noscript>` would be raw text for the builder alone.
        scripting_enabled: false,
        ..TreeBuilderOpts::default()
    };
    let filter = Filter {
        builder: TreeBuilder::new(tree, options),
        in_raw: Cell::new(false),
    };
    let tokenizer = Tokenizer::new(filter, TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(page));
    // It stops for scripts alone, and the filter asks for no stop.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    Ok(tokenizer.sink.builder.sink.finish())
}

/// Between the tokeniser and the tree builder.
struct Filter<T: Tree> {
    builder: TreeBuilder<T::Handle, T>,
    /// Whether the raw text of an element is under way that the tree does not see.
    in_raw: Cell<bool>,
}

impl<T: Tree> TokenSink for Filter<T> {
    type Handle = ();

    fn process_token(&self, mut token: Token, line: u64) -> TokenSinkResult<()> {
        let answer = raw_text(&token);
        if self.builder.sink.is_full() {
            return answer;
        }
        let pass = match &mut token {
            // Behind raw text stands its end tag, or nothing.
            Token::TagToken(tag) if tag.kind == TagKind::EndTag => !self.in_raw.take(),
            Token::TagToken(tag) if html::is_raw(&tag.name) => {
                // Without its own raw text an element would confuse the builder.
                let is_seen = T::RAW.contains(&&*tag.name) && !tag.self_closing;
                self.in_raw.set(!is_seen && !tag.self_closing);
                is_seen
            }
            Token::TagToken(tag) => {
                debug_assert!(tag.attrs.len() <= html::ATTRIBUTES_MAX, "they were counted");
                let most = T::ATTRIBUTE_BYTES_MAX;
                let is_short = |attribute: &Attribute| attribute.value.len() <= most;
                tag.attrs.retain(is_short);
                true
            }
            Token::CharacterTokens(_) => !self.in_raw.get(),
            Token::DoctypeToken(_) | Token::EOFToken => true,
            Token::CommentToken(_) | Token::NullCharacterToken | Token::ParseError(_) => false,
        };
        if pass {
            // What it wants of the tokeniser is not heard.
            let _ = self.builder.process_token(token, line);
        }
        answer
    }

    fn end(&self) {
        self.builder.end();
    }
}

/// Whether the token begins raw text, by the rule of [`html::check`].
fn raw_text(token: &Token) -> TokenSinkResult<()> {
    match token {
        Token::TagToken(tag) if tag.kind == TagKind::StartTag && !tag.self_closing => {
            match &*tag.name {
                "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
                name if html::is_raw(name) => TokenSinkResult::RawData(RawKind::Rawtext),
                _ => TokenSinkResult::Continue,
            }
        }
        _ => TokenSinkResult::Continue,
    }
}
