//! The environment variables of keys, and those of others that look alike.

/// `question.k` → `SPECHOP_QUESTION_K`.
pub(super) fn variable(key: &str) -> String {
    format!("SPECHOP_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// Whether Kubernetes has set this variable, as it does in every pod for every service: those of a service
/// `spechop-qdrant` begin as our own for `[qdrant]` do.
pub(super) fn is_of_service(name: &str, value: &str) -> bool {
    // `6334_TCP` and `6334_TCP_ADDR`.
    let is_port = |words: &str| {
        let mut words = words.split('_');
        words.next().is_some_and(|port| port.parse::<u16>().is_ok())
            && matches!(words.next(), Some("TCP" | "UDP" | "SCTP"))
            && matches!(words.next(), None | Some("PROTO" | "PORT" | "ADDR"))
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        // An operator who looks for a key of ours would write a number.
        || (name.ends_with("_PORT") && value.contains("://"))
        || name.rsplit_once("_PORT_").is_some_and(|(_, words)| is_port(words))
}
