//! SQS as a queue, on a server that speaks its protocol: the checks that every queue passes, and
//! its own.

mod messages;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Config, Credentials, Region};
use landfall_conformance::{Abilities, QueueWorld, exercise_queue};
use landfall_core::Stage;
use landfall_core::queue::Queue;
use landfall_lanes::SystemClock;
use landfall_queue_sqs::{AccessKey, Settings, SqsQueue};
use landfall_servers::Sqs;

/// A server, and queues of its own in it.
struct Queues {
    server: Arc<Sqs>,
    settings: Settings,
}

impl Queues {
    fn start() -> Queues {
        Queues::new(Arc::new(Sqs::start().expect("an SQS server")))
    }

    fn new(server: Arc<Sqs>) -> Queues {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let settings = Settings {
            queue: format!("check-{number}"),
            dead_queue: format!("check-{number}-dlq"),
            region: Some("us-east-1".into()),
            endpoint: Some(server.url().to_owned()),
            credentials: Some(AccessKey { id: "test".into(), secret: "test".into() }),
            wait_s: 1,
            visibility_s: 2,
            ..Settings::default()
        };
        Queues { server, settings }
    }

    async fn end(&self) -> SqsQueue {
        SqsQueue::new(self.settings.clone(), Arc::new(SystemClock::default())).await
    }

    fn client(&self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(self.server.url())
            .credentials_provider(Credentials::new("test", "test", None, None, "test"));
        Client::from_conf(config.build())
    }

    async fn url(&self) -> String {
        let asked = self.client().get_queue_url().queue_name(&self.settings.queue).send().await;
        asked.expect("a queue").queue_url.expect("its URL")
    }
}

#[async_trait]
impl QueueWorld for Queues {
    fn abilities(&self) -> Abilities {
        Abilities {
            ordered: false,
            priority: false,
            delay: true,
            shared: true,
            foreign: true,
            visibility_ms: Some(u64::from(self.settings.visibility_s) * 1_000),
            deliveries_max: Some(self.settings.receives_max),
            room: None,
        }
    }

    async fn connect(&self) -> Arc<dyn Queue> {
        let end = self.end().await;
        end.create_if_absent().await.expect("queues");
        Arc::new(end)
    }

    async fn advance(&self, by_ms: u64) {
        tokio::time::sleep(Duration::from_millis(by_ms)).await;
    }

    async fn scribble(&self, stage: Stage) -> usize {
        let unknown = format!(r#"{{"transactionId":"no number","type":"{stage}"}}"#);
        let direct = r#"{"transactionId":"7","type":"direct","request":{"to":"0x0"}}"#;
        let scribbles = ["hello", direct, &unknown];
        let (client, url) = (self.client(), self.url().await);
        for body in scribbles {
            let sent = client.send_message().queue_url(&url).message_body(body).send().await;
            sent.expect("sent");
        }
        scribbles.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqs_passes_the_checks_of_every_queue() {
    let server = Queues::start().server;
    exercise_queue(async || Arc::new(Queues::new(server.clone())) as Arc<dyn QueueWorld>).await;
}
