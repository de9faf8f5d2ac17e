//! What the description of the API says of withdraws.

use super::wire::Described;
use crate::describe::Part;

pub fn describe() -> Part {
    Part::of(include_str!("openapi.json")).with::<Described>()
}
