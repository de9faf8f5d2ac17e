//! The one source of settings: [`settings!`] makes the typed sections, the reader and the
//! reference from a single list, so none of them can miss what another has.

use super::value::{Parse, Raw};

/// One setting, as the reference shows it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub section: &'static str,
    pub key: &'static str,
    pub kind: &'static str,
    /// As it would be written in a variable; empty where there is none.
    pub default: &'static str,
    /// Smallest and largest number taken.
    pub range: Option<(u64, u64)>,
    /// Variables of the relay that Landfall replaces, taken as they are.
    pub seeds: &'static [&'static str],
    /// Why it exists and why its default is what it is.
    pub reason: &'static str,
}

impl Setting {
    /// `section.key`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// Its own variable.
    pub fn variable(&self) -> String {
        format!("LANDFALL_{}__{}", self.section, self.key).to_uppercase()
    }

    /// The reason on one line.
    pub fn reason_line(&self) -> String {
        let lines: Vec<&str> = self.reason.lines().map(str::trim).collect();
        lines.join(" ").trim().to_owned()
    }
}

/// Gives each setting its value.
pub trait Reader {
    /// The value that was given, if one was and it can be taken.
    fn given<T: Parse>(&mut self, setting: &Setting) -> Option<T>;

    fn read<T: Parse>(&mut self, setting: &Setting) -> T {
        self.given(setting).unwrap_or_else(|| default(setting))
    }
}

fn default<T: Parse>(setting: &Setting) -> T {
    match T::parse(&Raw::Text(setting.default.to_owned())) {
        Ok(value) => value,
        Err(wrongs) => unreachable!("default of {}: {wrongs:?}", setting.name()),
    }
}

macro_rules! settings {
    ($(
        $(#[doc = $about:literal])*
        $section:ident: $Section:ident {
            $(
                $(#[doc = $reason:literal])*
                $key:ident: $type:ty = $default:literal
                    $(, in $least:literal..=$most:literal)?
                    $(, seed $($seed:literal)+)?;
            )*
        }
    )*) => {
        $(
            $(#[doc = $about])*
            #[derive(Debug, Clone)]
            pub struct $Section {
                $( $(#[doc = $reason])* pub $key: $type, )*
            }
        )*

        /// Everything that can be set, with its type.
        #[derive(Debug, Clone)]
        pub struct Config {
            $( $(#[doc = $about])* pub $section: $Section, )*
        }

        /// Every setting, in the order of the reference.
        pub static SETTINGS: &[$crate::config::table::Setting] = &[$($(
            $crate::config::table::Setting {
                section: stringify!($section),
                key: stringify!($key),
                kind: <$type as $crate::config::value::Parse>::KIND,
                default: $default,
                range: settings!(@range $($least $most)?),
                seeds: &[$($($seed),+)?],
                reason: concat!($($reason, "\n"),*),
            },
        )*)*];

        /// Every section and what it is about.
        pub static SECTIONS: &[(&str, &str)] =
            &[$((stringify!($section), concat!($($about, "\n"),*))),*];

        impl Config {
            pub fn read(reader: &mut impl $crate::config::table::Reader) -> Config {
                let mut settings = SETTINGS.iter();
                let mut next = || settings.next().expect("made from the same list");
                Config {
                    $( $section: $Section { $( $key: reader.read::<$type>(next()), )* }, )*
                }
            }
        }
    };
    (@range) => { None };
    (@range $least:literal $most:literal) => { Some(($least, $most)) };
}

pub(crate) use settings;
