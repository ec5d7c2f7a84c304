//! Random numbers and texts as the specification draws them.

use crate::random::{Random, nurand};
pub(crate) use crate::random::{between, percent};

/// The syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Last names that there are.
pub(crate) const LAST_NAMES: u64 = 1000;

const LETTERS_AND_DIGITS: &[u8; 62] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const DIGITS: &[u8; 10] = b"0123456789";

/// Keeps the streams of TPC-C apart from those of other workloads.
const DOMAIN: u64 = 0x7470_6363;

/// A generator for one row or one stream of inputs, named by four numbers.
pub(crate) fn stream(seed: u64, name: [u64; 4]) -> Random {
    crate::random::stream(DOMAIN, seed, name)
}

/// The constants C of [`nurand`], drawn from the seed as clause 2.1.6.1 demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constants {
    /// The constant for last names while loading.
    pub(crate) last_name_load: u64,
    /// The constant for last names while running: 65 to 119 away from that while loading, but
    /// neither 96 nor 112.
    pub(crate) last_name_run: u64,
    /// The constant for customer numbers.
    pub(crate) customer: u64,
    /// The constant for item numbers.
    pub(crate) item: u64,
}

/// `A` for last names.
const LAST_NAME_A: u64 = 255;
/// `A` for customer numbers.
const CUSTOMER_A: u64 = 1023;
/// `A` for item numbers.
const ITEM_A: u64 = 8191;

impl Constants {
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut stream(seed, [u64::MAX; 4]);
        let last_name_load = between(random, 0, LAST_NAME_A);
        let distance = loop {
            let distance = between(random, 65, 119);
            if distance != 96 && distance != 112 {
                break distance;
            }
        };
        let last_name_run = if last_name_load <= LAST_NAME_A / 2 {
            last_name_load + distance
        } else {
            last_name_load - distance
        };
        let customer = between(random, 0, CUSTOMER_A);
        Self { last_name_load, last_name_run, customer, item: between(random, 0, ITEM_A) }
    }

    /// A last name of those that `customers` in a district have, while running.
    pub(crate) fn last_name(&self, random: &mut Random, customers: u32) -> u64 {
        let highest = u64::from(customers).min(LAST_NAMES) - 1;
        nurand(random, LAST_NAME_A, self.last_name_run, 0, highest)
    }

    /// The last name of customer `number` while loading: each name once, then at random.
    pub(crate) fn loaded_last_name(&self, random: &mut Random, number: u64) -> u64 {
        if number <= LAST_NAMES {
            number - 1
        } else {
            nurand(random, LAST_NAME_A, self.last_name_load, 0, LAST_NAMES - 1)
        }
    }

    pub(crate) fn customer(&self, random: &mut Random, customers: u32) -> u64 {
        nurand(random, CUSTOMER_A, self.customer, 1, u64::from(customers))
    }

    pub(crate) fn item(&self, random: &mut Random, items: u32) -> u64 {
        nurand(random, ITEM_A, self.item, 1, u64::from(items))
    }
}

/// A last name, made of three syllables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastName {
    bytes: [u8; 16],
    len: usize,
}

impl LastName {
    /// The name of a number below [`LAST_NAMES`].
    pub(crate) fn new(number: u64) -> Self {
        let mut name = Self { bytes: [0; 16], len: 0 };
        for digit in [number / 100, number / 10 % 10, number % 10] {
            let syllable = SYLLABLES[digit as usize].as_bytes();
            name.bytes[name.len..name.len + syllable.len()].copy_from_slice(syllable);
            name.len += syllable.len();
        }
        name
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("syllables are ASCII")
    }
}

/// The texts of a row, in one buffer that is used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    buffer: String,
    ends: Vec<usize>,
}

impl Texts {
    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
        self.ends.clear();
    }

    /// Text number `index`, in the order in which they were drawn.
    pub(crate) fn at(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.buffer[start..self.ends[index]]
    }

    /// Random letters and digits (the specification's a-string).
    pub(crate) fn letters(&mut self, random: &mut Random, low: u64, high: u64) {
        let count = between(random, low, high);
        self.draw(random, LETTERS_AND_DIGITS, count);
    }

    /// Random digits (the specification's n-string), followed by fixed ones.
    pub(crate) fn digits(&mut self, random: &mut Random, count: u64, suffix: &str) {
        self.draw(random, DIGITS, count);
        self.buffer.push_str(suffix);
        *self.ends.last_mut().expect("just drawn") = self.buffer.len();
    }

    /// Two streets, a city, a state and a zip code (clause 4.3.2.7).
    pub(crate) fn address(&mut self, random: &mut Random) {
        for _ in 0..3 {
            self.letters(random, 10, 20);
        }
        self.draw(random, LETTERS_AND_DIGITS.split_at(26).0, 2);
        self.digits(random, 4, "11111");
    }

    /// 26 to 50 letters and digits; one in ten has `ORIGINAL` somewhere.
    pub(crate) fn data(&mut self, random: &mut Random) {
        const ORIGINAL: &str = "ORIGINAL";
        let start = self.buffer.len();
        self.letters(random, 26, 50);
        if percent(random, 10) {
            let room = self.buffer.len() - start - ORIGINAL.len();
            let at = start + between(random, 0, room as u64) as usize;
            self.buffer.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
    }

    fn draw(&mut self, random: &mut Random, alphabet: &[u8], count: u64) {
        let mut bits = 0;
        for index in 0..count {
            if index.is_multiple_of(4) {
                bits = random.next_u64();
            }
            let letter = alphabet[(((bits & 0xffff) * alphabet.len() as u64) >> 16) as usize];
            self.buffer.push(char::from(letter));
            bits >>= 16;
        }
        self.ends.push(self.buffer.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_the_syllables_of_their_digits() {
        let name = |number| LastName::new(number).as_str().to_owned();
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!(name(40), "BARPRESBAR");
        assert_eq!((name(0), name(999)), ("BARBARBAR".into(), "EINGEINGEING".into()));
    }

    #[test]
    fn constants_are_as_far_apart_as_the_specification_demands() {
        for seed in 0..1000 {
            let constants = Constants::new(seed);
            let distance = constants.last_name_load.abs_diff(constants.last_name_run);
            assert!((65..=119).contains(&distance) && ![96, 112].contains(&distance), "{seed}");
            assert!(constants.last_name_run <= 255 && constants.customer <= 1023);
        }
    }

    #[test]
    fn non_uniform_numbers_stay_in_their_range_and_are_not_uniform() {
        let constants = Constants::new(1);
        let random = &mut stream(1, [0; 4]);
        let mut hits = vec![0_u32; 3001];
        for _ in 0..300_000 {
            hits[constants.customer(random, 3000) as usize] += 1;
        }
        assert_eq!(hits[0], 0);
        // Numbers with few bits set are rare.
        let drawn = hits.iter().filter(|&&count| count > 0).count();
        assert!(drawn > 2500, "{drawn}");
        // Uniform, each would have about a hundred.
        assert!(hits.iter().any(|&count| count > 250), "{:?}", hits.iter().max());
        for _ in 0..10_000 {
            assert!(constants.last_name(random, 30) < 30);
            assert!((1..=100_000).contains(&constants.item(random, 100_000)));
        }
    }

    #[test]
    fn texts_have_their_lengths_and_one_in_ten_is_original() {
        let random = &mut stream(1, [0; 4]);
        let (mut texts, mut original) = (Texts::default(), 0);
        for _ in 0..10_000 {
            texts.clear();
            texts.address(random);
            texts.data(random);
            assert!((10..=20).contains(&texts.at(2).len()));
            assert!(texts.at(3).len() == 2 && texts.at(3).bytes().all(|b| b.is_ascii_uppercase()));
            assert!(texts.at(4).len() == 9 && texts.at(4).ends_with("11111"));
            assert!((26..=50).contains(&texts.at(5).len()));
            original += u32::from(texts.at(5).contains("ORIGINAL"));
        }
        assert!((900..1100).contains(&original), "{original}");
    }
}
