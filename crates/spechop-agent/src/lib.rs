//! Drives one question for real: carries out the window's effects.
