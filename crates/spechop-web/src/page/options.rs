//! What an operator decides about pages.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use crate::address::Policy;
use crate::proxy::Proxy;

pub use crate::address::{Closing, Opening};

/// How pages are read. The defaults are those of the paper, for a server on the public internet.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// For one page: from the look-up of its name to the last of its text, redirects, `robots.txt` and the
    /// wait for a thread included.
    pub limit: Duration,
    /// Bytes of one page, unpacked. A larger one is refused.
    pub body_bytes_max: usize,
    /// Characters of its text. What is longer is cut at a word.
    pub text_chars_max: usize,
    /// Redirects on the way to it.
    pub redirects_max: usize,
    /// The name under which this server asks. Sites know it from `robots.txt` by what stands before
    /// the `/`.
    pub user_agent: String,
    /// Who runs this server: an address that a site can complain to. It is sent to every site.
    pub contact: Option<String>,
    /// Whether `robots.txt` is asked first. It costs a round trip for each new host.
    pub robots: bool,
    /// Ports of the public internet that may be connected to.
    pub ports: Vec<u16>,
    /// Networks that may be connected to although they are not public, e.g. an intranet.
    pub allow: Vec<Opening>,
    /// Networks that may never be connected to, e.g. an operator's own public addresses.
    pub deny: Vec<Closing>,
    /// The way to every page. Names are looked up by the proxy then, not here: it must refuse private
    /// addresses itself, and `allow` and `deny` say nothing of names.
    pub proxy: Option<Proxy>,
    /// Threads that make text of pages. Each is busy with one page at a time.
    pub threads: NonZeroUsize,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            limit: Duration::from_secs(3),
            body_bytes_max: 2_000_000,
            text_chars_max: 10_000,
            redirects_max: 5,
            user_agent: concat!("SpecHop/", env!("CARGO_PKG_VERSION")).to_owned(),
            contact: None,
            robots: true,
            ports: vec![80, 443],
            allow: Vec::new(),
            deny: Vec::new(),
            proxy: None,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// Why pages cannot be read as an operator wants it.
#[derive(Debug, thiserror::Error)]
pub enum PageSetupError {
    /// A name that cannot be sent, or is none.
    #[error("the user agent {agent:?} cannot be sent: it must be visible ASCII, its name first")]
    UserAgent {
        /// What would have been sent.
        agent: String,
    },
    /// A contact that cannot be sent.
    #[error("the contact {contact:?} cannot be sent: it must be visible ASCII")]
    Contact {
        /// What would have been sent.
        contact: String,
    },
    /// No time is no page.
    #[error("{field} of pages must be more than 0")]
    Zero {
        /// Which option.
        field: &'static str,
    },
    /// Nothing may be connected to.
    #[error("no page can be read: ports and allow are both empty")]
    Shut,
    /// The client cannot be built, e.g. for want of root certificates.
    #[error("the client that fetches pages cannot be built")]
    Client(#[source] reqwest::Error),
    /// No threads.
    #[error("the threads that read pages cannot be started")]
    Threads(#[source] std::io::Error),
}

impl PageOptions {
    /// Checks what can be checked without a connection.
    pub(super) fn check(&self) -> Result<(), PageSetupError> {
        let positive = [
            ("limit", !self.limit.is_zero()),
            ("body_bytes_max", self.body_bytes_max > 0),
            ("text_chars_max", self.text_chars_max > 0),
        ];
        if let Some((field, _)) = positive.into_iter().find(|(_, positive)| !positive) {
            return Err(PageSetupError::Zero { field });
        }
        self.check_user_agent()?;
        self.check_contact()?;
        self.check_ports()
    }

    /// Says what is wrong with the name, without asking anybody.
    ///
    /// # Errors
    ///
    /// It cannot be sent, or no `robots.txt` can name it.
    pub fn check_user_agent(&self) -> Result<(), PageSetupError> {
        match is_visible(&self.user_agent) && !self.token().is_empty() {
            true => Ok(()),
            false => Err(PageSetupError::UserAgent {
                agent: self.user_agent.clone(),
            }),
        }
    }

    /// Says what is wrong with the contact, if there is one.
    ///
    /// # Errors
    ///
    /// It cannot be sent.
    pub fn check_contact(&self) -> Result<(), PageSetupError> {
        match &self.contact {
            Some(contact) if !is_visible(contact) => Err(PageSetupError::Contact {
                contact: contact.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Says whether any address may be connected to.
    ///
    /// # Errors
    ///
    /// None may.
    pub fn check_ports(&self) -> Result<(), PageSetupError> {
        match self.ports.is_empty() && self.allow.is_empty() {
            true => Err(PageSetupError::Shut),
            false => Ok(()),
        }
    }

    /// What is sent as the user agent.
    pub(super) fn agent(&self) -> String {
        match &self.contact {
            Some(contact) => format!("{} (+{contact})", self.user_agent),
            None => self.user_agent.clone(),
        }
    }

    /// The name by which `robots.txt` knows us.
    pub(super) fn token(&self) -> &str {
        let end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        self.user_agent.split(end).next().unwrap_or_default()
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            ports: self.ports.clone(),
            allow: self.allow.clone(),
            deny: self.deny.clone(),
        }
    }
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}
