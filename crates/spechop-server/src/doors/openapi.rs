//! `GET /v1/openapi.json`: the description of what is served over HTTP (OpenAPI 3.1). The paths stand in
//! `openapi.json` beside this file. The forms of questions and answers come from `proto/`, so that they
//! cannot differ from it.

use std::collections::BTreeSet;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::routing::get;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use serde_json::{Map, Value, json};
use spechop_proto::json::{self as wire_json, JsonError};

use super::House;
use crate::status::{AskError, HttpError};
use crate::transport::Door;

/// Where it is.
const PATH: &str = "/v1/openapi.json";

/// The paths, and the forms that are not those of `proto/`.
const PATHS: &str = include_str!("openapi.json");

/// The messages that the paths name; others come along.
const ROOTS: [&str; 4] = ["AskRequest", "AskResponse", "AskEvent", "Passage"];

/// What a client may call its question: `proto/` says so in words. The empty name is none.
const QUESTION_ID: &str = "^[A-Za-z0-9._-]{0,64}$";

/// Builds the door. Only paths that this server has are described.
pub(super) fn add_to(house: &mut House) {
    house.doors.add(Door::get(PATH).for_anybody());
    let served: BTreeSet<_> = house.doors.iter().map(Door::documented).collect();
    let (status, text) = match describe(&served) {
        Ok(document) => (StatusCode::OK, document.to_string()),
        Err(error) => {
            let error = HttpError::from(AskError::from(error));
            (error.status(), error.body().to_string())
        }
    };
    let text = Bytes::from(text);
    let answer = get(async move || {
        let head = [
            (CONTENT_TYPE, "application/json"),
            (CACHE_CONTROL, "no-cache"),
        ];
        (status, head, text)
    });
    let routes = std::mem::take(&mut house.routes);
    house.routes = routes.route(PATH, answer);
}

/// The document, of these paths.
fn describe(served: &BTreeSet<String>) -> Result<Value, JsonError> {
    let ours = |error: serde_json::Error| JsonError::Ours(error.to_string());
    let mut document: Value = serde_json::from_str(PATHS).map_err(ours)?;
    if let Some(paths) = document["paths"].as_object_mut() {
        paths.retain(|path, _| served.contains(path));
    }
    let mut schemas = Map::new();
    for root in ROOTS {
        let kind = wire_json::descriptors()?.get_message_by_name(&format!("spechop.v1.{root}"));
        let kind = kind.ok_or_else(|| JsonError::Ours(format!("it lacks {root}")))?;
        add(&kind, &mut schemas);
    }
    if let Some(request) = schemas.get_mut("AskRequest") {
        request["properties"]["question_id"]["pattern"] = json!(QUESTION_ID);
    }
    if let Some(all) = document["components"]["schemas"].as_object_mut() {
        all.append(&mut schemas);
    }
    Ok(document)
}

fn add(kind: &MessageDescriptor, schemas: &mut Map<String, Value>) {
    if schemas.contains_key(kind.name()) {
        return;
    }
    schemas.insert(kind.name().to_owned(), Value::Null);
    let mut properties = Map::new();
    for field in kind.fields() {
        if let Kind::Message(inner) = field.kind() {
            add(&inner, schemas);
        }
        properties.insert(field.name().to_owned(), form(&field));
    }
    let mut form = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    let choices: Vec<_> = kind.oneofs().filter(|of| !of.is_synthetic()).collect();
    if !choices.is_empty() {
        form["allOf"] = choices.iter().map(at_most_one).collect();
    }
    schemas.insert(kind.name().to_owned(), form);
}

/// One of the fields, or none: the others exclude each other.
fn at_most_one(choice: &OneofDescriptor) -> Value {
    let fields = choice.fields();
    let mut ways: Vec<_> = fields
        .map(|field| json!({ "required": [field.name()] }))
        .collect();
    ways.push(json!({ "not": { "anyOf": ways } }));
    json!({ "oneOf": ways })
}

fn form(field: &FieldDescriptor) -> Value {
    let one = match field.kind() {
        Kind::Message(inner) => {
            json!({ "$ref": format!("#/components/schemas/{}", inner.name()) })
        }
        Kind::Enum(names) => {
            let names: Vec<_> = names.values().map(|name| name.name().to_owned()).collect();
            json!({ "type": "string", "enum": names })
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::String => json!({ "type": "string" }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Double | Kind::Float => json!({ "type": "number" }),
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => {
            json!({ "type": "integer", "minimum": 0 })
        }
        Kind::Int32
        | Kind::Int64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Sfixed32
        | Kind::Sfixed64 => json!({ "type": "integer" }),
    };
    match field.is_list() {
        true => json!({ "type": "array", "items": one }),
        false => one,
    }
}

#[cfg(test)]
mod statuses;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_is_named_is_described() {
        let paths: Value = serde_json::from_str(PATHS).unwrap();
        let served = paths["paths"].as_object().unwrap().keys();
        let document = describe(&served.cloned().collect()).unwrap();
        let text = document.to_string();
        let named = text.split("#/components/schemas/").skip(1);
        let named: BTreeSet<_> = named.filter_map(|rest| rest.split('"').next()).collect();
        assert!(named.len() > 20, "{named:?}");
        for name in named {
            assert!(
                document["components"]["schemas"][name].is_object(),
                "{name}"
            );
        }
        let request = &document["components"]["schemas"]["AskRequest"]["properties"];
        assert_eq!(request["question"]["type"], "string");
        assert_eq!(request["options"]["$ref"], "#/components/schemas/Options");
        let options = &document["components"]["schemas"]["Options"]["properties"];
        assert_eq!(options["k"]["type"], "integer");
    }

    #[test]
    fn what_a_name_may_be_is_said() {
        let document = describe(&BTreeSet::new()).unwrap();
        let parts = &document["components"];
        let request = &parts["schemas"]["AskRequest"]["properties"];
        assert_eq!(request["question_id"]["pattern"], QUESTION_ID);
        // Whoever names a question or a tenant must say something.
        let named = QUESTION_ID.replace("{0,", "{1,");
        for name in ["Tenant", "Question"] {
            let schema = &parts["parameters"][name]["schema"];
            assert_eq!(schema["pattern"], named, "{name}");
        }
    }

    #[test]
    fn requests_of_chats_say_what_is_taken() {
        let paths: Value = serde_json::from_str(PATHS).unwrap();
        let body = &paths["paths"]["/v1/chat/completions"]["post"]["requestBody"];
        let fields = &body["content"]["application/json"]["schema"]["properties"];
        assert_eq!(fields["messages"]["minItems"], 1);
        let efforts = fields["reasoning_effort"]["enum"].as_array().unwrap();
        assert!(efforts.contains(&json!("max")), "{efforts:?}");
        let missing = &paths["paths"]["/p/{id}"]["get"]["responses"]["404"]["content"];
        assert!(missing["text/html"].is_object() && missing["application/json"].is_object());
    }

    #[test]
    fn what_excludes_each_other_is_said() {
        let document = describe(&BTreeSet::new()).unwrap();
        let schemas = &document["components"]["schemas"];
        let [width] = schemas["Options"]["allOf"].as_array().unwrap().as_slice() else {
            panic!("{}", schemas["Options"]);
        };
        let alone = |name: &str| json!({ "required": [name] });
        let each = [alone("k"), alone("unbounded"), alone("auto")];
        let none = json!({ "not": { "anyOf": each } });
        let [k, unbounded, auto] = each;
        assert_eq!(width["oneOf"], json!([k, unbounded, auto, none]));
        // Optional fields alone do not make a choice.
        assert_eq!(schemas["Budget"]["allOf"], Value::Null);
    }

    #[test]
    fn only_what_is_served_is_described() {
        let document = describe(&BTreeSet::from(["/v1/ask".to_owned()])).unwrap();
        let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, ["/v1/ask"]);
    }
}
