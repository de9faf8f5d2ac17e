//! The fields of an order, as sent.

use landfall_core::internal::Asked;
use serde_json::value::RawValue;

use crate::body;
use crate::error::ApiError;

const EXAMPLE: &str = "{\"from\": \"funding\", \"to\": \"trading\", \"user_id\": 4001, \
                       \"asset\": \"BTC\", \"amount\": \"1.5\"}";

/// The fields of a request, as sent.
#[derive(Default)]
pub struct Fields {
    from: Option<String>,
    to: Option<String>,
    user_id: Option<u64>,
    asset: Option<String>,
    amount: Option<String>,
}

impl Fields {
    pub fn parse(text: &str) -> Result<Fields, ApiError> {
        let mut fields = Fields::default();
        for (name, value) in body::members(text, EXAMPLE)? {
            let given_before = match name.as_str() {
                "from" => fields.from.replace(string("from", value)?).is_some(),
                "to" => fields.to.replace(string("to", value)?).is_some(),
                "user_id" => fields.user_id.replace(number(value)?).is_some(),
                "asset" => fields.asset.replace(string("asset", value)?).is_some(),
                "amount" => fields.amount.replace(amount(value)?).is_some(),
                _ => {
                    let known = "the fields are from, to, user_id, asset and amount";
                    let message = format!("is not a field; {known}");
                    return Err(ApiError::bad(&body::shown(&name), message));
                }
            };
            if given_before {
                return Err(ApiError::bad(&name, "is given twice"));
            }
        }
        Ok(fields)
    }

    pub fn asked(&self) -> Result<Asked<'_>, ApiError> {
        let service = "name a service, such as \"funding\"";
        Ok(Asked {
            from: given("from", self.from.as_deref(), service)?,
            to: given("to", self.to.as_deref(), service)?,
            user_id: given("user_id", self.user_id, "give the user's number, such as 4001")?,
            asset: given("asset", self.asset.as_deref(), "name an asset, such as \"BTC\"")?,
            amount: given("amount", self.amount.as_deref(), "give it as a string: \"1.5\"")?,
        })
    }
}

fn given<T>(field: &str, value: Option<T>, remedy: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| ApiError::bad(field, format!("is missing; {remedy}")))
}

fn string(field: &str, value: &RawValue) -> Result<String, ApiError> {
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad(field, "must be a string"))
}

fn number(value: &RawValue) -> Result<u64, ApiError> {
    let rule = "must be a whole number, such as 4001";
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad("user_id", rule))
}

fn amount(value: &RawValue) -> Result<String, ApiError> {
    let rule = "must be a string such as \"1.5\", not a number: JSON numbers lose digits";
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad("amount", rule))
}
