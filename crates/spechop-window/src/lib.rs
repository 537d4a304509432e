//! The speculation window: events in, effects out.
