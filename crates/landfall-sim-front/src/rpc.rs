//! JSON-RPC 2.0 without a socket: single requests and batches.

use serde_json::{Value, json};

/// A request that has no result.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl Failure {
    pub fn new(code: i64, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), data: None }
    }

    /// The parameters are not what the method takes.
    pub fn params(message: impl Into<String>) -> Failure {
        Failure::new(-32602, message)
    }

    pub fn with_data(self, data: impl Into<Value>) -> Failure {
        Failure { data: Some(data.into()), ..self }
    }

    fn body(&self) -> Value {
        match &self.data {
            None => json!({ "code": self.code, "message": self.message }),
            Some(data) => json!({ "code": self.code, "message": self.message, "data": data }),
        }
    }
}

/// The methods a body names, for counting.
pub fn methods_of(body: &Value) -> Vec<&str> {
    match body {
        Value::Array(batch) => batch.iter().map(method_of).collect(),
        one => vec![method_of(one)],
    }
}

pub fn method_of(one: &Value) -> &str {
    one.get("method").and_then(Value::as_str).unwrap_or("(none)")
}

/// Answers a request, or each of a batch, by what `call` makes of its method and parameters, which
/// are null where there are none.
pub fn answer(body: &Value, mut call: impl FnMut(&str, &Value) -> Result<Value, Failure>) -> Value {
    match body {
        Value::Array(batch) if batch.is_empty() => {
            respond(&Value::Null, Err(Failure::new(-32600, "empty batch")))
        }
        Value::Array(batch) => batch.iter().map(|one| single(one, &mut call)).collect(),
        one => single(one, &mut call),
    }
}

fn single(request: &Value, call: &mut impl FnMut(&str, &Value) -> Result<Value, Failure>) -> Value {
    let id = request.get("id").unwrap_or(&Value::Null);
    let Some(method) = request.get("method").and_then(Value::as_str) else {
        return respond(id, Err(Failure::new(-32600, "invalid request")));
    };
    respond(id, call(method, request.get("params").unwrap_or(&Value::Null)))
}

/// One response.
pub fn respond(id: &Value, result: Result<Value, Failure>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(failure) => json!({ "jsonrpc": "2.0", "id": id, "error": failure.body() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_in_order_each_by_its_id() {
        let batch = json!([
            { "jsonrpc": "2.0", "id": 1, "method": "echo", "params": [7] },
            { "jsonrpc": "2.0", "id": 2, "method": "fail" },
            { "jsonrpc": "2.0", "id": "three" },
        ]);
        let call = |method: &str, params: &Value| match method {
            "echo" => Ok(params.clone()),
            _ => Err(Failure::new(-32000, "no").with_data("0x")),
        };
        let failed = json!({ "code": -32000, "message": "no", "data": "0x" });
        let invalid = json!({ "code": -32600, "message": "invalid request" });
        let expected = json!([
            { "jsonrpc": "2.0", "id": 1, "result": [7] },
            { "jsonrpc": "2.0", "id": 2, "error": failed },
            { "jsonrpc": "2.0", "id": "three", "error": invalid },
        ]);
        assert_eq!(answer(&batch, call), expected);
        assert_eq!(methods_of(&batch), ["echo", "fail", "(none)"]);
        assert_eq!(answer(&json!([]), call)["error"]["message"], "empty batch");
    }
}
