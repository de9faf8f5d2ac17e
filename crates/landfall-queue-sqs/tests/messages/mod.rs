//! What only SQS has: two queues to be made, one body for all stages, and a server far away.

use std::time::{Duration, Instant};

use landfall_core::queue::{Hint, Queue, Terms};
use landfall_core::{TransferId, internal, near};
use landfall_queue_sqs::SetupError;

use crate::Queues;

const PATIENCE: Duration = Duration::from_secs(30);

fn hint(number: u64) -> Hint {
    Hint { transfer: TransferId(number), stage: near::TRANSFER }
}

#[tokio::test]
async fn queues_are_made_once_and_then_found_in_order() {
    let queues = Queues::start();
    let end = queues.end().await;
    let Err(SetupError::Wrong(missing)) = end.check().await else { panic!("there are none yet") };
    assert_eq!(missing.len(), 2);
    assert!(missing[0].contains("landfall migrate"), "{missing:?}");
    for _ in 0..2 {
        end.create_if_absent().await.expect("made");
    }
    end.check().await.expect("in order");
}

#[tokio::test]
async fn a_queue_without_its_dead_letters_is_called_wrong() {
    let queues = Queues::start();
    let (client, settings) = (queues.client(), &queues.settings);
    for name in [&settings.queue, &settings.dead_queue] {
        client.create_queue().queue_name(name).send().await.expect("made");
    }
    let end = queues.end().await;
    let Err(SetupError::Wrong(wrong)) = end.check().await else { panic!("it has no policy") };
    assert!(wrong[0].contains("RedrivePolicy"), "{wrong:?}");
    // What is there stays as it is.
    assert!(matches!(end.create_if_absent().await, Err(SetupError::Wrong(_))));
}

#[tokio::test]
async fn nobody_there_is_no_verdict_about_the_queues() {
    let queues = Queues::start();
    queues.server.kill().expect("kill");
    let checked = queues.end().await.check().await;
    assert!(matches!(checked, Err(SetupError::Unreachable(_))), "{checked:?}");
}

#[tokio::test]
async fn a_message_has_the_body_of_the_seed() {
    let queues = Queues::start();
    let end = queues.end().await;
    end.create_if_absent().await.expect("made");
    end.push(&[hint(42)]).await.expect("push");
    let (client, url) = (queues.client(), queues.url().await);
    let received = client.receive_message().queue_url(url).send().await.expect("received");
    let body = received.messages()[0].body().expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["transactionId"], &body["type"]), (&"42".into(), &"transfer".into()));
    let mut fields: Vec<_> = body.as_object().expect("fields").keys().collect();
    fields.sort();
    assert_eq!(fields, ["messageId", "request", "timestamp", "transactionId", "type"]);
}

#[tokio::test]
async fn a_stage_is_served_while_another_waits_at_the_server() {
    let queues = Queues::start();
    let end = queues.end().await;
    end.create_if_absent().await.expect("made");
    let other = Hint { transfer: TransferId(2), stage: internal::STAGE };
    let mut idle = end.pull(near::REGISTRATION, 10);
    assert!(futures::poll!(&mut idle).is_pending());
    end.push(&[hint(1), other]).await.expect("push");
    for wanted in [hint(1), other] {
        let pulled = tokio::time::timeout(PATIENCE, end.pull(wanted.stage, 10)).await;
        assert_eq!(pulled.expect("in time").expect("pull")[0].hint, wanted);
    }
    assert!(futures::poll!(&mut idle).is_pending());
}

#[tokio::test]
async fn a_delay_longer_than_sqs_knows_is_dropped_and_said_so() {
    let queues = Queues::start();
    let end = queues.end().await;
    end.create_if_absent().await.expect("made");
    let later = |delay_ms| Terms { delay_ms, ..Terms::DEFAULT };
    assert_eq!(end.push_on(later(900_000), &[hint(1)]).await.expect("push"), 0);
    assert_eq!(end.push_on(later(900_001), &[hint(1)]).await.expect("push"), 1);
}

#[tokio::test]
async fn a_full_line_lets_hints_go_instead_of_making_them_look_like_poison() {
    let mut queues = Queues::start();
    queues.settings.buffer = 5;
    let end = queues.end().await;
    end.create_if_absent().await.expect("made");
    let hints: Vec<Hint> = (0..20).map(hint).collect();
    end.push(&hints).await.expect("push");
    let other = Hint { transfer: TransferId(99), stage: near::REGISTRATION };
    end.push(&[other]).await.expect("push");
    let pulled = tokio::time::timeout(PATIENCE, end.pull(near::REGISTRATION, 100)).await;
    assert_eq!(pulled.expect("in time").expect("pull").len(), 1);
    let left = end.pull(near::TRANSFER, 100).await.expect("pull");
    assert!(left.len() <= 5, "{}", left.len());
    assert_eq!(end.put_aside().await.expect("count"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_hangs_no_push_and_kills_no_worker() {
    let mut queues = Queues::start();
    queues.settings.timeout_ms = 500;
    let end = queues.end().await;
    end.create_if_absent().await.expect("made");
    queues.server.pause().expect("pause");
    let started = Instant::now();
    for _ in 0..100 {
        assert!(end.push(&[hint(1)]).await.is_err());
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(end.pull(near::TRANSFER, 10).await.is_err());
    queues.server.resume().expect("resume");
    let pushed = async {
        while end.push(&[hint(2)]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // What was pushed during the stall may have arrived too.
        loop {
            let pulled = end.pull(near::TRANSFER, 10).await.unwrap_or_default();
            if pulled.iter().any(|one| one.hint == hint(2)) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, pushed).await.expect("in time");
}
