//! The one source of settings: [`settings!`] makes the typed sections, the reader and the
//! reference from a single list, so none of them can miss what another has. What several sections
//! have alike is a [`group!`].

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
    /// Whether it leads to what signs: a process that only takes transfers does not read it.
    pub signs: bool,
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

/// Settings that several sections have alike, each under its own names.
pub trait Group: Sized {
    /// As a section has them.
    fn settings(section: &'static str) -> Vec<Setting>;

    /// Reads them, in their order, from the list of all.
    fn read(
        reader: &mut impl Reader,
        settings: &mut impl Iterator<Item = &'static Setting>,
    ) -> Self;
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

/// One setting of a section.
macro_rules! setting {
    ($section:expr, $key:ident, $type:ty, $default:literal, [$($least:literal $most:literal)?],
     [$($seed:literal)*], [$($reason:literal)*]) => {
        $crate::config::table::Setting {
            section: $section,
            key: stringify!($key),
            kind: <$type as $crate::config::value::Parse>::KIND,
            default: $default,
            range: $crate::config::table::setting!(@range $($least $most)?),
            seeds: &[$($seed),*],
            signs: <$type as $crate::config::value::Parse>::SIGNS,
            reason: concat!($($reason, "\n"),*),
        }
    };
    (@range) => { None };
    (@range $least:literal $most:literal) => { Some(($least, $most)) };
}

/// The sections. One ends with the groups that it shares with others: `.. nodes: Nodes;`.
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
            $(.. $group:ident: $Group:ty;)*
        }
    )*) => {
        $(
            $(#[doc = $about])*
            #[derive(Debug, Clone)]
            pub struct $Section {
                $( $(#[doc = $reason])* pub $key: $type, )*
                $( pub $group: $Group, )*
            }
        )*

        /// Everything that can be set, with its type.
        #[derive(Debug, Clone)]
        pub struct Config {
            $( $(#[doc = $about])* pub $section: $Section, )*
        }

        /// Every setting, in the order of the reference.
        pub static SETTINGS: std::sync::LazyLock<Vec<$crate::config::table::Setting>> =
            std::sync::LazyLock::new(|| {
                let mut all = Vec::new();
                $(
                    all.extend([$($crate::config::table::setting!(
                        stringify!($section), $key, $type, $default, [$($least $most)?],
                        [$($($seed)+)?], [$($reason)*]
                    )),*]);
                    $(
                        let of = <$Group as $crate::config::table::Group>::settings;
                        all.extend(of(stringify!($section)));
                    )*
                )*
                all
            });

        /// Every section and what it is about.
        pub static SECTIONS: &[(&str, &str)] =
            &[$((stringify!($section), concat!($($about, "\n"),*))),*];

        impl Config {
            pub fn read(reader: &mut impl $crate::config::table::Reader) -> Config {
                use $crate::config::table::next;
                let mut settings = SETTINGS.iter();
                Config {
                    $( $section: $Section {
                        $( $key: reader.read::<$type>(next(&mut settings)), )*
                        $( $group: <$Group as $crate::config::table::Group>::read(
                            reader, &mut settings
                        ), )*
                    }, )*
                }
            }
        }
    };
}

/// A group of settings that several sections have.
macro_rules! group {
    (
        $(#[doc = $about:literal])*
        $Group:ident {
            $(
                $(#[doc = $reason:literal])*
                $key:ident: $type:ty = $default:literal $(, in $least:literal..=$most:literal)?;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone)]
        pub struct $Group {
            $( $(#[doc = $reason])* pub $key: $type, )*
        }

        impl $crate::config::table::Group for $Group {
            fn settings(section: &'static str) -> Vec<$crate::config::table::Setting> {
                vec![$($crate::config::table::setting!(
                    section, $key, $type, $default, [$($least $most)?], [], [$($reason)*]
                )),*]
            }

            fn read(
                reader: &mut impl $crate::config::table::Reader,
                settings: &mut impl Iterator<Item = &'static $crate::config::table::Setting>,
            ) -> $Group {
                $Group { $( $key: reader.read::<$type>($crate::config::table::next(settings)), )* }
            }
        }
    };
}

/// The setting whose turn it is.
pub fn next(settings: &mut impl Iterator<Item = &'static Setting>) -> &'static Setting {
    settings.next().expect("made from the same list")
}

pub(crate) use {group, setting, settings};
