//! Which paths are not gRPC, and what may be sent to them.

use std::fmt;

use axum::http::Method;
use spechop_config::api_keys::Role;

use crate::status::ErrorForm;

/// The paths that are not gRPC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doors(Vec<Door>);

/// A path that is not gRPC, for one method.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    method: Method,
    path: &'static str,
    /// Whether a form of HTML is posted to it, and not JSON.
    pub(super) is_form: bool,
    /// The most bytes of a request's body; `None` for as many as a gRPC message may have.
    pub(super) bytes_max: Option<usize>,
    /// What a key needs to be let in here, if there are keys; `None` for nothing, not even a key.
    pub(super) role: Option<Role>,
    /// Whether the limits of its key and of its tenant hold for a request.
    pub(super) is_rate_limited: bool,
    errors: ErrorForm,
}

impl Door {
    /// Any HTTP client may get it. HEAD is answered, too.
    pub(crate) fn get(path: &'static str) -> Self {
        Self::of(Method::GET, path)
    }

    /// Any HTTP client may post JSON to it.
    pub(crate) fn post(path: &'static str) -> Self {
        Self::of(Method::POST, path)
    }

    /// A browser posts a form of the page to it. Whoever posts one names the page (Origin).
    pub(crate) fn form(path: &'static str) -> Self {
        Self {
            is_form: true,
            ..Self::post(path)
        }
    }

    /// The path, for this method. A segment in braces, as in `/p/{id}`, stands for any segment, and
    /// `{*id}` at the end for the rest of a path.
    pub(crate) fn of(method: Method, path: &'static str) -> Self {
        Self {
            method,
            path,
            is_form: false,
            bytes_max: None,
            role: Some(Role::Ask),
            is_rate_limited: true,
            errors: ErrorForm::default(),
        }
    }

    /// For keys with the role `admin`.
    pub(crate) fn for_admins(self) -> Self {
        Self {
            role: Some(Role::Admin),
            ..self
        }
    }

    /// For everybody, with a key or without: it tells nothing of any question, but for those that their
    /// tenants share.
    pub(crate) fn for_anybody(self) -> Self {
        Self { role: None, ..self }
    }

    /// Open to whoever has sent too many requests, too: it frees a place.
    pub(crate) fn without_rate_limit(self) -> Self {
        Self {
            is_rate_limited: false,
            ..self
        }
    }

    /// With room for longer requests.
    pub(crate) fn of_bytes(self, bytes_max: usize) -> Self {
        Self {
            bytes_max: Some(bytes_max),
            ..self
        }
    }

    /// Refusals have this form.
    pub(crate) fn telling_errors(self, errors: ErrorForm) -> Self {
        Self { errors, ..self }
    }

    /// Its path as documents write it: they have no sign for the rest of a path.
    pub(crate) fn documented(&self) -> String {
        self.path.replace("{*", "{")
    }

    /// Its method and path.
    pub(crate) fn name(&self) -> (&Method, &'static str) {
        (&self.method, self.path)
    }
}

impl Doors {
    /// One more.
    pub(crate) fn add(&mut self, door: Door) {
        self.0.push(door);
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Door> {
        self.0.iter()
    }

    /// How errors are told at a path, whatever the method. They are JSON if there is no such door.
    pub(super) fn error_form(&self, path: &str) -> ErrorForm {
        let door = self.0.iter().find(|door| fits(door.path, path));
        door.map_or_else(ErrorForm::default, |door| door.errors)
    }

    /// The methods for which a path is there, if there are any, separated by commas.
    pub(super) fn methods(&self, path: &str) -> String {
        let mut methods = Vec::new();
        for door in self.0.iter().filter(|door| fits(door.path, path)) {
            methods.push(door.method.as_str());
            if door.method == Method::GET {
                methods.push(Method::HEAD.as_str());
            }
        }
        methods.join(", ")
    }

    /// The door that a request wants, if it is one of these.
    pub(super) fn find(&self, method: &Method, path: &str) -> Option<&Door> {
        let method = match *method {
            Method::HEAD => &Method::GET,
            ref method => method,
        };
        self.0
            .iter()
            .find(|door| door.method == *method && fits(door.path, path))
    }
}

/// Methods and documented paths, separated by commas.
impl fmt::Display for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, door) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", door.method, door.documented())?;
        }
        Ok(())
    }
}

/// Whether a path has this form.
fn fits(form: &str, path: &str) -> bool {
    let (mut form, mut path) = (form.split('/'), path.split('/'));
    loop {
        match (form.next(), path.next()) {
            (None, None) => return true,
            (Some(rest), Some(first)) if rest.starts_with("{*") => {
                return !first.is_empty() || path.next().is_some();
            }
            (Some(segment), Some(any)) if segment.starts_with('{') => {
                if any.is_empty() {
                    return false;
                }
            }
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_stands_for_its_paths_and_no_others() {
        for (form, path, expected) in [
            ("/metrics", "/metrics", true),
            ("/metrics", "/metrics/", false),
            ("/metrics", "/", false),
            ("/", "/", true),
            ("/", "/x", false),
            (
                "/v1/questions/{id}/events",
                "/v1/questions/a-1/events",
                true,
            ),
            ("/v1/questions/{id}/events", "/v1/questions//events", false),
            (
                "/v1/questions/{id}/events",
                "/v1/questions/a/b/events",
                false,
            ),
            ("/v1/questions/{id}/events", "/v1/questions/a/finish", false),
            ("/p/{*id}", "/p/wiki/12", true),
            ("/p/{*id}", "/p/", false),
            ("/p/{*id}", "/p", false),
        ] {
            assert_eq!(fits(form, path), expected, "{form} {path}");
        }
    }

    #[test]
    fn a_door_is_for_one_method() {
        let mut doors = Doors::default();
        doors.add(Door::get("/metrics"));
        doors.add(Door::post("/v1/ask").of_bytes(7));
        assert!(doors.find(&Method::GET, "/metrics").is_some());
        assert!(doors.find(&Method::HEAD, "/metrics").is_some());
        assert!(doors.find(&Method::POST, "/metrics").is_none());
        let ask = doors.find(&Method::POST, "/v1/ask").unwrap();
        assert_eq!((ask.bytes_max, ask.role), (Some(7), Some(Role::Ask)));
        assert_eq!(Door::get("/p/{*id}").documented(), "/p/{id}");
        assert_eq!(Door::get("/x").for_admins().role, Some(Role::Admin));
        assert_eq!(Door::get("/x").for_anybody().role, None);
        assert!(Door::get("/x").is_rate_limited);
        assert!(!Door::get("/x").without_rate_limit().is_rate_limited);
        assert!(doors.find(&Method::GET, "/v1/ask").is_none());
        assert_eq!(doors.methods("/metrics"), "GET, HEAD");
        assert_eq!(doors.methods("/v1/ask"), "POST");
        assert_eq!(doors.methods("/v1/unknown"), "");
        assert_eq!(doors.to_string(), "GET /metrics, POST /v1/ask");
        doors.add(Door::get("/v1/models/{id}").telling_errors(ErrorForm::OpenAi));
        for (path, form) in [
            ("/v1/models/a", ErrorForm::OpenAi),
            ("/v1/ask", ErrorForm::Json),
            ("/v1/unknown", ErrorForm::Json),
        ] {
            assert_eq!(doors.error_form(path), form, "{path}");
        }
    }
}
