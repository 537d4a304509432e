//! Search and pages together, as a retriever.
