//! The options of each engine: names, defaults, limits; values beyond them, and options of another
//! engine, are refused.

use engines::{
    CowOptions, EngineKind, EngineOptions, InpOptions, Limits, LogOptions, NODE_BYTES, OptionError,
};

const MAX: u64 = u64::MAX;

/// Name, default, least, most, fixed at creation.
type Listed = (&'static str, u64, u64, u64, bool);

/// All there is to choose: a default that changes has to change here, too.
const LISTED: [(EngineKind, &[Listed]); 15] = [
    (
        EngineKind::Inp,
        &[
            ("node_bytes", 512, 64, 16_384, true),
            ("checkpoint_bytes", 268_435_456, 1, MAX, false),
            ("wal_reserve_bytes", 4_194_304, 1, MAX, false),
            ("wal_buffer_bytes", 262_144, 4096, 16_777_216, false),
        ],
    ),
    (
        EngineKind::Cow,
        &[("page_bytes", 4096, 128, 32_768, true), ("cache_bytes", 268_435_456, 0, MAX, false)],
    ),
    (
        EngineKind::Log,
        &[
            ("node_bytes", 512, 64, 16_384, true),
            ("memtable_bytes", 33_554_432, 1024, MAX, false),
            ("growth", 10, 2, 1_000_000, false),
            ("level0_runs", 4, 1, 1_000_000, false),
            ("block_bytes", 4096, 256, 1_048_576, false),
            ("cache_bytes", 268_435_456, 0, MAX, false),
            ("wal_reserve_bytes", 4_194_304, 1, MAX, false),
            ("wal_buffer_bytes", 262_144, 4096, 16_777_216, false),
        ],
    ),
    (EngineKind::NvmInp, &[("node_bytes", 512, 64, 16_384, true)]),
    (EngineKind::NvmCow, &[("tree_node_bytes", 256, 128, 32_768, true)]),
    (
        EngineKind::NvmLog,
        &[
            ("node_bytes", 512, 64, 16_384, true),
            ("memtable_bytes", 33_554_432, 1, MAX, false),
            ("growth", 10, 2, 1_000_000, false),
            ("level0_runs", 4, 1, 12, false),
        ],
    ),
    (
        EngineKind::NvDisk,
        &[
            ("page_bytes", 8192, 512, 32_768, true),
            ("buffer_bytes", 268_435_456, 8192, MAX, false),
            ("log_bytes", 3_221_225_472, 65_536, 34_359_738_368, true),
            ("log_buffer_bytes", 83_886_080, 262_144, 4_294_967_296, false),
            ("checkpoint_bytes", 16_777_216, 4096, MAX, false),
            ("full_restart", 0, 0, 1, false),
            ("early_release", 1, 0, 1, false),
            ("group_wait_us", 5000, 0, 1_000_000, false),
            ("inherit_after", 8, 0, MAX, false),
        ],
    ),
    (EngineKind::NvLoggingFoi, NV_LOGGING),
    (
        EngineKind::NvLoggingFoc,
        &[
            NV_LOGGING[0],
            NV_LOGGING[1],
            NV_LOGGING[2],
            NV_LOGGING[3],
            NV_LOGGING[4],
            NV_LOGGING[5],
            ("persister", 1, 0, 1, false),
        ],
    ),
    (EngineKind::Fast, CHECKSUMMED),
    (EngineKind::Fash, CHECKSUMMED),
    (EngineKind::Nvwal, CHECKPOINTED),
    (EngineKind::Journal, &[SLOTTED_PAGE]),
    (EngineKind::Wal, CHECKPOINTED),
    (
        EngineKind::Sofort,
        &[
            ("first_rows", 64, 64, 32_768, true),
            ("most_rows", 32_768, 64, 32_768, true),
            ("reserve", 1024, 1, 32_768, true),
            ("slots", 256, 2, 256, true),
            ("placement", 0, 0, 100, true),
            ("hashed", 0, 0, 1, true),
            ("seed", 0, 0, u64::MAX, true),
        ],
    ),
];

/// The options of the engines on slotted pages.
const SLOTTED_PAGE: Listed = ("page_bytes", 4096, 512, 32_768, true);
const CHECKSUMMED: &[Listed] = &[SLOTTED_PAGE, ("checksummed", 0, 0, 1, true)];
const CHECKPOINTED: &[Listed] = &[SLOTTED_PAGE, ("checkpoint_frames", 1000, 1, 1_000_000, false)];

/// The options of NV-Logging in either form.
const NV_LOGGING: &[Listed] = &[
    ("page_bytes", 8192, 512, 32_768, true),
    ("buffer_bytes", 268_435_456, 8192, MAX, false),
    ("log_bytes", 83_886_080, 65_536, 1_073_741_824, true),
    ("log_entries", 131_072, 64, 2_097_152, true),
    ("checkpoint_entries", 80_000, 16, MAX, false),
    ("full_restart", 0, 0, 1, false),
];

#[test]
fn each_engine_has_the_options_that_it_had() {
    for (kind, listed) in LISTED {
        let found: Vec<Listed> = kind
            .options()
            .iter()
            .map(|option| (option.name, option.default, option.least, option.most, option.fixed))
            .collect();
        assert_eq!(found, listed, "{kind}");
    }
    assert_eq!(LISTED.map(|(kind, _)| kind), EngineKind::ALL);
    assert_eq!(NODE_BYTES, 512);
}

#[test]
fn each_option_says_what_it_is() {
    for kind in EngineKind::ALL {
        for option in kind.options() {
            let what = format!("{kind}, {}: {}", option.name, option.meaning);
            assert!(option.meaning.ends_with('.') && option.meaning.len() > 20, "{what}");
            assert!(!option.meaning.contains("  "), "{what}");
            assert_eq!(option.name.ends_with("_bytes"), option.unit == "bytes", "{what}");
            option.check(option.default).unwrap();
            option.check(option.least).unwrap();
            option.check(option.most).unwrap();
        }
    }
}

#[test]
fn every_option_can_be_set_by_its_name_and_nothing_else_changes() {
    for kind in EngineKind::ALL {
        for option in kind.options() {
            let mut options = EngineOptions::from(kind);
            assert_eq!(options.kind(), kind);
            assert_eq!(options.get(option.name), Some(option.default));
            for value in [option.least, (option.default + 1).min(option.most), option.most] {
                options.set(option.name, value).unwrap();
                assert_eq!(options.get(option.name), Some(value), "{kind}, {}", option.name);
            }
            options.check().unwrap();
            for other in kind.options().iter().filter(|other| other.name != option.name) {
                assert_eq!(options.get(other.name), Some(other.default), "{kind}, {}", option.name);
            }
        }
    }
}

#[test]
fn fields_and_names_are_the_same_options() {
    let mut named = EngineOptions::from(EngineKind::Inp);
    named.set("checkpoint_bytes", 5).unwrap();
    let typed = InpOptions { checkpoint_bytes: 5, ..InpOptions::default() };
    assert_eq!(named, typed.into());
    let mut named = EngineOptions::from(EngineKind::Log);
    named.set("growth", 3).unwrap();
    assert_eq!(named, LogOptions { growth: 3, ..LogOptions::default() }.into());
}

#[test]
fn options_out_of_range_or_of_another_engine_are_refused() {
    let mut options = EngineOptions::from(EngineKind::NvmLog);
    let before = options.clone();
    let error = options.set("level0_runs", 13).unwrap_err();
    let limits = Limits { least: 1, most: 12 };
    assert_eq!(error, OptionError::Limits { name: "level0_runs", value: 13, limits });
    assert_eq!(error.to_string(), "level0_runs of 13; choose 1 to 12");
    assert_eq!(
        options.set("memtable_bytes", 0).unwrap_err().to_string(),
        "memtable_bytes of 0; choose 1 at least"
    );
    assert_eq!(
        options.set("page_bytes", 512).unwrap_err().to_string(),
        "nvm-log has no option `page_bytes`, only cow, nv-disk, nv-logging-foi, nv-logging-foc, fast, fash, nvwal, journal, wal; it has node_bytes, memtable_bytes, growth, level0_runs"
    );
    assert_eq!(
        options.set("memtable_byte", 512).unwrap_err().to_string(),
        "no engine has an option `memtable_byte`; did you mean `memtable_bytes`?"
    );
    assert_eq!(options, before, "nothing was changed");
    let typed: EngineOptions = CowOptions { page_bytes: 77, ..CowOptions::default() }.into();
    assert_eq!(typed.check().unwrap_err().to_string(), "page_bytes of 77; choose 128 to 32768");
}
