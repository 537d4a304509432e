//! Dot products of rows with the queries of a batch, by the widest instructions that this machine has.
//!
//! With AVX-512 VNNI a row is read once for four queries, and four sums are folded in one go: eight queries
//! take about three times as long as one (`cargo bench -p spechop-store --bench large`). On other machines
//! `simsimd` takes one pair after the other. Both are exact: sums of int8 products are whole numbers that fit
//! into 32 bits, so scores are the same everywhere.

use simsimd::SpatialSimilarity;

use crate::layout::ALIGNMENT;

/// The queries of a batch, of one width, padded as rows are.
pub(crate) struct Batch<'a> {
    queries: Vec<&'a [i8]>,
    #[cfg(target_arch = "x86_64")]
    vnni: Option<vnni::Offsets>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(queries: impl Iterator<Item = &'a [i8]>) -> Self {
        let queries: Vec<&[i8]> = queries.collect();
        Self {
            #[cfg(target_arch = "x86_64")]
            vnni: vnni::Offsets::of(&queries),
            queries,
        }
    }

    /// Writes the product of every row with every query into `products`: first those of the first query, in the
    /// order of the rows, then those of the second.
    ///
    /// # Panics
    ///
    /// If a query is not as wide as the rows.
    pub(crate) fn products(&self, rows: &[i8], stride: usize, products: &mut Vec<i32>) {
        let fits = |query: &&[i8]| query.len() == stride;
        assert!(self.queries.iter().all(fits), "a query of another width");
        debug_assert!(stride.is_multiple_of(ALIGNMENT), "rows are padded");
        products.clear();
        #[cfg(target_arch = "x86_64")]
        if let Some(offsets) = &self.vnni {
            return offsets.products(&self.queries, rows, stride, products);
        }
        self.pairs(rows, stride, products);
    }

    fn pairs(&self, rows: &[i8], stride: usize, products: &mut Vec<i32>) {
        for query in &self.queries {
            let dot = |row| <i8 as SpatialSimilarity>::dot(row, query).map_or(0, |dot| dot as i32);
            products.extend(rows.chunks_exact(stride).map(dot));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::*;
    use std::array;

    use super::ALIGNMENT;

    /// Components of one register.
    const LANES: usize = 64;
    const _: () = assert!(ALIGNMENT.is_multiple_of(LANES), "a row is whole registers");

    /// VNNI multiplies unsigned by signed numbers. So 128 is added to each component of a row, and what that
    /// adds to the product, 128 times the sum of the query, is taken off again: one number for each query.
    /// That there are such numbers says that the machine has the instructions.
    pub(super) struct Offsets(Vec<i32>);

    impl Offsets {
        pub(super) fn of(queries: &[&[i8]]) -> Option<Self> {
            let able =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
            let offset = |query: &&[i8]| 128 * query.iter().map(|x| i32::from(*x)).sum::<i32>();
            able.then(|| Self(queries.iter().map(offset).collect()))
        }

        #[expect(unsafe_code, reason = "the compiler cannot know what machine this is")]
        pub(super) fn products(
            &self,
            queries: &[&[i8]],
            rows: &[i8],
            stride: usize,
            products: &mut Vec<i32>,
        ) {
            // SAFETY: `of` made these offsets on a machine that has the instructions.
            unsafe { self.with_vnni(queries, rows, stride, products) }
        }

        #[target_feature(enable = "avx512f,avx512vnni")]
        fn with_vnni(
            &self,
            queries: &[&[i8]],
            rows: &[i8],
            stride: usize,
            products: &mut Vec<i32>,
        ) {
            let count = rows.len() / stride;
            if count == 0 {
                return;
            }
            products.resize(queries.len() * count, 0);
            let (fours, rest) = queries.as_chunks::<4>();
            let (of_fours, of_rest) = products.split_at_mut(4 * fours.len() * count);
            let (offsets, single_offsets) = self.0.as_chunks::<4>();

            // One row against four queries.
            for ((four, offsets), out) in fours
                .iter()
                .zip(offsets)
                .zip(of_fours.chunks_exact_mut(4 * count))
            {
                let four: [&[[i8; LANES]]; 4] = four.map(registers);
                for (at, row) in rows.chunks_exact(stride).enumerate() {
                    let mut sums = [_mm512_setzero_si512(); 4];
                    for (part, row) in registers(row).iter().enumerate() {
                        let row = unsigned(row);
                        for (sum, query) in sums.iter_mut().zip(four) {
                            *sum = _mm512_dpbusd_epi32(*sum, row, load(&query[part]));
                        }
                    }
                    for (query, product) in folded(sums).into_iter().enumerate() {
                        out[query * count + at] = product - offsets[query];
                    }
                }
            }
            // Four rows against one query, read in the order in which they lie in memory.
            for ((query, offset), out) in rest
                .iter()
                .zip(single_offsets)
                .zip(of_rest.chunks_exact_mut(count))
            {
                let query = registers(query);
                for (rows, out) in rows.chunks(4 * stride).zip(out.chunks_mut(4)) {
                    let mut sums = [_mm512_setzero_si512(); 4];
                    for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(stride)) {
                        for (row, query) in registers(row).iter().zip(query) {
                            *sum = _mm512_dpbusd_epi32(*sum, unsigned(row), load(query));
                        }
                    }
                    for (out, product) in out.iter_mut().zip(folded(sums)) {
                        *out = product - offset;
                    }
                }
            }
        }
    }

    fn registers(row: &[i8]) -> &[[i8; LANES]] {
        row.as_chunks().0
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    #[expect(unsafe_code, reason = "the library's loads take pointers")]
    fn load(part: &[i8; LANES]) -> __m512i {
        // SAFETY: it reads the 64 bytes of the array, which need no alignment.
        unsafe { _mm512_loadu_si512(part.as_ptr().cast()) }
    }

    /// The same components, each plus 128.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn unsigned(part: &[i8; LANES]) -> __m512i {
        _mm512_xor_si512(load(part), _mm512_set1_epi32(i32::from_ne_bytes([0x80; 4])))
    }

    /// The sum of each register's sixteen numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn folded([a, b, c, d]: [__m512i; 4]) -> [i32; 4] {
        let pairs =
            |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (ab, cd) = (pairs(a, b), pairs(c, d));
        let four = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        let four = _mm256_add_epi32(
            _mm512_castsi512_si256(four),
            _mm512_extracti64x4_epi64::<1>(four),
        );
        let four = _mm_add_epi32(
            _mm256_castsi256_si128(four),
            _mm256_extracti128_si256::<1>(four),
        );
        let (low, high) = (_mm_cvtsi128_si64(four), _mm_extract_epi64::<1>(four));
        array::from_fn(|at| ([low, high][at / 2] >> (32 * (at % 2))) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Plain Rust says the same, for every number of rows and queries, in all ways that this machine has.
        #[test]
        fn products_are_exact(
            parts in 1usize..8,
            count in 0usize..10,
            queries in 0usize..10,
            seed in prop::collection::vec(any::<i8>(), 997),
        ) {
            let width = 64 * parts;
            let mut numbers = seed.iter().cycle().copied();
            let mut vectors = |count: usize| -> Vec<i8> { numbers.by_ref().take(count * width).collect() };
            let (rows, queries) = (vectors(count), vectors(queries));
            let naive: Vec<i32> = queries
                .chunks_exact(width)
                .flat_map(|query| rows.chunks_exact(width).map(move |row| (row, query)))
                .map(|(row, query)| row.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum())
                .collect();
            let batch = Batch::new(queries.chunks_exact(width));
            let mut products = vec![7];
            batch.products(&rows, width, &mut products);
            prop_assert_eq!(&products, &naive);
            products.clear();
            batch.pairs(&rows, width, &mut products);
            prop_assert_eq!(&products, &naive);
        }
    }
}
