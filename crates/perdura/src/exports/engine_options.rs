//! The options of engines.

/// An engine, and what was chosen about it.
///
/// ```
/// # use perdura::*;
/// let mut options: EngineOptions = EngineKind::Inp.into();
/// options.set("checkpoint_bytes", 16 << 20).unwrap();
/// assert_eq!(options, InpOptions { checkpoint_bytes: 16 << 20, ..InpOptions::default() }.into());
/// Options::new().engine(options);
/// ```
#[doc(inline)]
pub use engines::EngineOptions;

/// An option of an engine: its meaning, its default and its limits.
///
/// ```
/// # use perdura::*;
/// let option: &EngineOption = EngineKind::Log.option("memtable_bytes").unwrap();
/// assert_eq!((option.default, option.unit), (32 << 20, "bytes"));
/// assert!(option.check(1).is_err());
/// ```
#[doc(inline)]
pub use engines::EngineOption;

/// The least and the largest value of an option.
///
/// ```
/// # use perdura::*;
/// let limits: Limits = EngineKind::Log.option("level0_runs").unwrap().limits();
/// assert_eq!(limits.to_string(), "1 to 1000000");
/// ```
#[doc(inline)]
pub use engines::Limits;

/// The reason why an option of an engine is refused.
///
/// ```
/// # use perdura::*;
/// let mut options: EngineOptions = EngineKind::Inp.into();
/// assert!(matches!(options.set("memtable_bytes", 1), Err(OptionError::Unknown { .. })));
/// assert!(matches!(options.set("checkpoint_bytes", 0), Err(OptionError::Limits { .. })));
/// ```
#[doc(inline)]
pub use engines::OptionError;

/// The options of one engine, by their names.
///
/// ```
/// # use perdura::*;
/// fn print<O: OwnOptions>() {
///     for option in O::ALL {
///         println!("{}: {} ({})", option.name, option.meaning, option.default);
///     }
/// }
/// print::<NvmLogOptions>();
/// assert_eq!(NvmLogOptions::default().get("growth"), Some(10));
/// ```
#[doc(inline)]
pub use engines::OwnOptions;

/// The options of `inp`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = InpOptions { checkpoint_bytes: 16 << 20, ..InpOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("checkpoint_bytes"), Some(16 << 20));
/// ```
#[doc(inline)]
pub use engines::InpOptions;

/// The options of `cow`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = CowOptions { cache_bytes: 1 << 30, ..CowOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("cache_bytes"), Some(1 << 30));
/// ```
#[doc(inline)]
pub use engines::CowOptions;

/// The options of `log`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = LogOptions { memtable_bytes: 64 << 20, ..LogOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("memtable_bytes"), Some(64 << 20));
/// ```
#[doc(inline)]
pub use engines::LogOptions;

/// The options of `nvm-inp`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvmInpOptions { node_bytes: 1024, ..NvmInpOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("node_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::NvmInpOptions;

/// The options of `nvm-cow`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvmCowOptions { tree_node_bytes: 512, ..NvmCowOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("tree_node_bytes"), Some(512));
/// ```
#[doc(inline)]
pub use engines::NvmCowOptions;

/// The options of `nvm-log`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvmLogOptions { memtable_bytes: 64 << 20, ..NvmLogOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("memtable_bytes"), Some(64 << 20));
/// ```
#[doc(inline)]
pub use engines::NvmLogOptions;

/// The options of `nv-disk`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvDiskOptions { buffer_bytes: 1 << 30, ..NvDiskOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("buffer_bytes"), Some(1 << 30));
/// ```
#[doc(inline)]
pub use engines::NvDiskOptions;

/// The options of `nv-logging-foi`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvLoggingFoiOptions { log_bytes: 64 << 20, ..NvLoggingFoiOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("log_bytes"), Some(64 << 20));
/// ```
#[doc(inline)]
pub use engines::NvLoggingFoiOptions;

/// The options of `nv-logging-foc`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvLoggingFocOptions { persister: 0, ..NvLoggingFocOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("persister"), Some(0));
/// ```
#[doc(inline)]
pub use engines::NvLoggingFocOptions;

/// The options of `fast`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = FastOptions { checksummed: 1, ..FastOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("checksummed"), Some(1));
/// ```
#[doc(inline)]
pub use engines::FastOptions;

/// The options of `fash`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = FashOptions { checksummed: 1, ..FashOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("checksummed"), Some(1));
/// ```
#[doc(inline)]
pub use engines::FashOptions;

/// The options of `nvwal`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvwalOptions { page_bytes: 1024, ..NvwalOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("page_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::NvwalOptions;

/// The options of `journal`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = JournalOptions { page_bytes: 1024 };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("page_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::JournalOptions;

/// The options of `wal`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = WalOptions { page_bytes: 1024, ..WalOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("page_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::WalOptions;

/// The options of `sofort`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = SofortOptions { reserve: 4096, ..SofortOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("reserve"), Some(4096));
/// ```
#[doc(inline)]
pub use engines::SofortOptions;
