//! Questions that are simulated.

mod auto;
mod calls;
mod choose;
mod gate;
mod history;
mod simulate;
