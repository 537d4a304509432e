//! Numbers that look drawn and are not. What was recorded once relies on every bit of them.

/// An odd constant without structure: 2^64 divided by the golden ratio. The states of `SplitMix64` are so far
/// apart.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What `SplitMix64` makes of a state: it spreads neighbours over all 64 bits, and maps no two numbers to the
/// same one.
pub fn spread(state: u64) -> u64 {
    let mut bits = state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of Vigna's own program, from two seeds.
    #[test]
    fn the_numbers_are_those_of_splitmix() {
        assert_eq!(spread(GOLDEN), 0xe220_a839_7b1d_cdaf);
        assert_eq!(spread(GOLDEN.wrapping_add(GOLDEN)), 0x6e78_9e6a_a1b9_65f4);
        let other = GOLDEN.wrapping_add(1_234_567);
        assert_eq!(spread(other), 6_457_827_717_110_365_317);
    }
}
