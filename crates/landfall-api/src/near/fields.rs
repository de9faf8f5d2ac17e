//! The fields of a payout, as sent.
//!
//! **Rule:** nothing is nested deeper than one object: a value of another type is passed over
//! without looking at what is in it.
//! **Rule:** every field is known, given once, and a string: a JSON number would lose digits.
//! **Rule:** all mistakes are told at once, but for what a body that is cut off or no JSON hides.
//! Not here: what the fields' text may be (`landfall_core::near`).

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::body::{complaint, complaint_at, refuse, shown};
use crate::error::ApiError;

/// The fields of one payout, as sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    pub idempotency_key: Option<Cow<'a, str>>,
    pub receiver_id: Option<Cow<'a, str>>,
    pub amount: Option<Cow<'a, str>>,
    pub memo: Option<Cow<'a, str>>,
    /// What is wrong with them, as far as JSON goes.
    mistakes: Vec<Mistake>,
}

/// What is wrong with a field; without a name where it is none of ours.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    name: Option<&'static str>,
    message: String,
}

/// Where a payout's idempotency key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyIn {
    Header,
    Object,
}

impl<'a> Fields<'a> {
    /// Reads the one object that `text` is.
    pub fn parse(text: &'a str, key_in: KeyIn) -> Result<Fields<'a>, ApiError> {
        let mut json = serde_json::Deserializer::from_str(text);
        // One of many that does not parse is a line of its own, and its number is said elsewhere.
        let complain = |error: &serde_json::Error| match key_in {
            KeyIn::Header => complaint(error),
            KeyIn::Object => complaint_at(error, format!("column {}", error.column())),
        };
        let mut fields = Fields::default();
        let object = Object { key_in, fields: &mut fields };
        match json.deserialize_any(object).and_then(|()| json.end()) {
            Ok(()) => Ok(fields),
            // What was found before it broke off tells more than where it did.
            Err(_) if fields.is_mistaken() => Err(ApiError::all(fields.mistakes())),
            Err(error) => Err(complain(&error)),
        }
    }

    pub fn is_mistaken(&self) -> bool {
        !self.mistakes.is_empty()
    }

    pub fn mistakes(&self) -> impl Iterator<Item = String> {
        self.mistakes.iter().map(|mistake| mistake.message.clone())
    }

    /// What to say of a field that is not there, unless it was complained of already: by its name,
    /// or by another's that may be a slip.
    pub fn missing(&self, name: &str, remedy: &str) -> Option<String> {
        let is_told = |mistake: &Mistake| mistake.name.is_none_or(|told| told == name);
        let told = self.mistakes.iter().any(is_told);
        (!told).then(|| format!("{name}: is missing; {remedy}"))
    }
}

/// The idempotency key of an object that is otherwise wrong, so that its sender can tell which.
pub fn key_at_least(text: &str) -> Option<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct KeyAlone<'a> {
        #[serde(borrow)]
        idempotency_key: Option<Cow<'a, str>>,
    }
    serde_json::from_str(text).ok().and_then(|alone: KeyAlone<'_>| alone.idempotency_key)
}

/// A field's name, borrowed where it can be.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Object<'s, 'a> {
    key_in: KeyIn,
    fields: &'s mut Fields<'a>,
}

impl<'a> Object<'_, 'a> {
    fn not(&self, what: &str) -> String {
        let key = match self.key_in {
            KeyIn::Header => "",
            KeyIn::Object => "\"idempotency_key\": \"payout-1\", ",
        };
        format!(
            "body: must be an object such as {{{key}\"receiver_id\": \"alice.near\", \
             \"amount\": \"1\"}}, not {what}"
        )
    }

    fn slot(&mut self, name: &str) -> Option<(&'static str, &mut Option<Cow<'a, str>>)> {
        Some(match name {
            "receiver_id" => ("receiver_id", &mut self.fields.receiver_id),
            "amount" => ("amount", &mut self.fields.amount),
            "memo" => ("memo", &mut self.fields.memo),
            "idempotency_key" if self.key_in == KeyIn::Object => {
                ("idempotency_key", &mut self.fields.idempotency_key)
            }
            _ => return None,
        })
    }

    fn stranger(&self, name: &str) -> Mistake {
        match name {
            "idempotency_key" => Mistake {
                name: Some("idempotency_key"),
                message: "idempotency_key: belongs in the X-Idempotency-Key header here".to_owned(),
            },
            _ => Mistake {
                name: None,
                message: format!("{}: is not a field; {}", shown(name), self.known()),
            },
        }
    }

    fn mistaken(&mut self, mistake: Mistake) {
        self.fields.mistakes.push(mistake);
    }

    fn known(&self) -> &'static str {
        match self.key_in {
            KeyIn::Header => "the fields are receiver_id, amount and memo",
            KeyIn::Object => "the fields are idempotency_key, receiver_id, amount and memo",
        }
    }
}

impl<'de> Visitor<'de> for Object<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut seen: Vec<&'static str> = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            let Some((name, _)) = self.slot(&name) else {
                let stranger = self.stranger(&name);
                self.mistaken(stranger);
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen.contains(&name) {
                let message = format!("{name}: is given twice");
                self.mistaken(Mistake { name: Some(name), message });
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            seen.push(name);
            let value = map.next_value_seed(Text { name, mistakes: &mut self.fields.mistakes })?;
            if let Some((_, slot)) = self.slot(name) {
                *slot = value;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom(self.not("an array")))
    }

    refuse!(():
        visit_unit() "null", visit_bool(bool) "a boolean", visit_str(&str) "a string",
        visit_i64(i64) "a number", visit_u64(u64) "a number", visit_f64(f64) "a number");
}

/// A string, borrowed where it can be. None is a null memo, or a mistake, which is noted before
/// the value is passed over: it may not end.
struct Text<'s> {
    name: &'static str,
    mistakes: &'s mut Vec<Mistake>,
}

impl Text<'_> {
    fn mistaken(&mut self, what: &str) {
        let name = self.name;
        let message = match (name, what) {
            ("amount", "a number") => "amount: must be a string such as \"1000\", not a number: \
                 JSON numbers lose digits"
                .to_owned(),
            _ => format!("{name}: must be a string, not {what}"),
        };
        self.mistakes.push(Mistake { name: Some(name), message });
    }
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

/// Notes what a value is instead of a string.
macro_rules! note {
    ($($method:ident($($of:ty)?) $what:literal),* $(,)?) => {
        $(fn $method<E>(mut self $(, _: $of)?) -> Result<Self::Value, E> {
            self.mistaken($what);
            Ok(None)
        })*
    };
}

impl<'de> Visitor<'de> for Text<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(mut self) -> Result<Self::Value, E> {
        if self.name != "memo" {
            self.mistaken("null");
        }
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        self.mistaken("an object");
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self::Value, A::Error> {
        self.mistaken("an array");
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    note!(visit_bool(bool) "a boolean",
        visit_i64(i64) "a number", visit_u64(u64) "a number", visit_f64(f64) "a number");
}
