//! The two queues themselves: made by `landfall migrate`, looked at when a relay starts.

use std::collections::HashMap;

use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::QueueAttributeName as Name;
use landfall_core::queue::QueueError;
use serde_json::Value;

use crate::SqsQueue;
use crate::link::Which;
use crate::settings::Settings;

/// Dead letters are kept as long as SQS keeps anything: somebody has to look at them.
const DEAD_RETENTION_S: u32 = 14 * 24 * 3_600;

/// Why the queues cannot be used, cut by what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Try again later, or look at the credentials and the network.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody has to put it right; each line says what and how.
    #[error("{}", .0.join("; "))]
    Wrong(Vec<String>),
}

impl From<QueueError> for SetupError {
    fn from(error: QueueError) -> SetupError {
        SetupError::Unreachable(error.0)
    }
}

impl SqsQueue {
    /// Makes what is missing; what is there stays as it is. Says what is wrong with it.
    pub async fn create_if_absent(&self) -> Result<(), SetupError> {
        let settings = &self.settings;
        if !self.exists(&settings.dead_queue).await? {
            let attributes = [(Name::MessageRetentionPeriod, DEAD_RETENTION_S.to_string())];
            self.create(&settings.dead_queue, attributes.into()).await?;
        }
        if !self.exists(&settings.queue).await? {
            let dead = self.attributes(Which::Dead).await?;
            let arn = dead.get(&Name::QueueArn).cloned().unwrap_or_default();
            self.create(&settings.queue, live_attributes(settings, &arn)).await?;
        }
        self.check().await
    }

    /// Sees that both queues are there and that the one feeds the other.
    pub async fn check(&self) -> Result<(), SetupError> {
        let settings = &self.settings;
        let mut wrong = Vec::new();
        for name in [&settings.queue, &settings.dead_queue] {
            if !self.exists(name).await? {
                wrong.push(format!("the queue {name} does not exist; run `landfall migrate`"));
            }
        }
        if !wrong.is_empty() {
            return Err(SetupError::Wrong(wrong));
        }
        let dead = self.attributes(Which::Dead).await?;
        let live = self.attributes(Which::Live).await?;
        let arn = dead.get(&Name::QueueArn).cloned().unwrap_or_default();
        match complaint(settings, live.get(&Name::RedrivePolicy).map(String::as_str), &arn) {
            None => Ok(()),
            Some(complaint) => Err(SetupError::Wrong(vec![complaint])),
        }
    }

    async fn exists(&self, name: &str) -> Result<bool, SetupError> {
        let asked = self.link().client.get_queue_url().queue_name(name).send().await;
        match asked {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(service) if service.is_queue_does_not_exist() => Ok(false),
                _ => {
                    let why = DisplayErrorContext(&error).to_string();
                    Err(SetupError::Unreachable(format!("SQS: {why}")))
                }
            },
        }
    }

    async fn create(&self, name: &str, attributes: Attributes) -> Result<(), SetupError> {
        let request = self.link().client.create_queue().queue_name(name);
        let request = request.set_attributes(Some(attributes));
        self.link().call(request.send()).await?;
        tracing::info!(name, "made a queue");
        Ok(())
    }

    async fn attributes(&self, which: Which) -> Result<Attributes, SetupError> {
        let url = self.link().url(which).await?;
        let request = self.link().client.get_queue_attributes().queue_url(url);
        let request = request.attribute_names(Name::QueueArn);
        let request = match which {
            // A queue without the policy answers only if it is not asked for alone.
            Which::Live => request.attribute_names(Name::All),
            Which::Dead => request,
        };
        Ok(self.link().call(request.send()).await?.attributes.unwrap_or_default())
    }
}

type Attributes = HashMap<Name, String>;

fn live_attributes(settings: &Settings, dead_arn: &str) -> Attributes {
    let policy = serde_json::json!({
        "deadLetterTargetArn": dead_arn,
        "maxReceiveCount": settings.receives_max.to_string(),
    });
    Attributes::from([
        (Name::VisibilityTimeout, settings.visibility_s.to_string()),
        (Name::MessageRetentionPeriod, settings.retention_s.to_string()),
        (Name::ReceiveMessageWaitTimeSeconds, settings.wait_s.to_string()),
        (Name::RedrivePolicy, policy.to_string()),
    ])
}

/// What is wrong with a redrive policy, and the remedy.
fn complaint(settings: &Settings, policy: Option<&str>, dead_arn: &str) -> Option<String> {
    let Settings { queue, dead_queue, receives_max, .. } = settings;
    let policy: Value = policy.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let target = policy["deadLetterTargetArn"].as_str().unwrap_or("nowhere");
    // Some servers say it in digits, some in text.
    let count = match &policy["maxReceiveCount"] {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let remedy = format!(
        "set its RedrivePolicy to deadLetterTargetArn {dead_arn} and maxReceiveCount {receives_max}"
    );
    if target != dead_arn {
        return Some(format!(
            "the dead letters of {queue} go to {target}, not {dead_queue}; {remedy}"
        ));
    }
    match count {
        Some(count) if count == u64::from(*receives_max) => None,
        count => {
            let count = count.map_or("no number of".to_owned(), |count| count.to_string());
            Some(format!("{queue} gives up after {count} receives, not {receives_max}; {remedy}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: Option<&str>, expected: &[&str]) {
        let found = complaint(&Settings::default(), policy, "arn:dlq");
        match (&found, expected) {
            (None, []) => {}
            (Some(text), words) if !words.is_empty() => {
                assert!(words.iter().all(|word| text.contains(word)), "{text}");
            }
            _ => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_wrong_policy_is_named_with_its_remedy() {
        check(Some(r#"{"deadLetterTargetArn":"arn:dlq","maxReceiveCount":"3"}"#), &[]);
        check(Some(r#"{"deadLetterTargetArn":"arn:dlq","maxReceiveCount":3}"#), &[]);
        check(None, &["nowhere", "maxReceiveCount 3"]);
        check(Some("{"), &["nowhere"]);
        check(Some(r#"{"deadLetterTargetArn":"arn:x","maxReceiveCount":3}"#), &["arn:x"]);
        check(Some(r#"{"deadLetterTargetArn":"arn:dlq","maxReceiveCount":9}"#), &["after 9"]);
    }
}
