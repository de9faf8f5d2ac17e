//! What cannot be handled is put aside, and never stops the rest.

use landfall_core::near;

use crate::check::checks;
use crate::queue::{End, PATIENCE, World, ids};

/// Between two looks at what was put aside.
const LOOK_MS: u64 = 100;

checks!(World:
    what_nobody_deletes_is_put_aside,
    what_is_no_hint_is_put_aside_and_stops_nobody,
);

/// Pulls at the end, deleting nothing, until so many are put aside; returns what was handed out.
async fn until_aside(end: &End, wanted: usize) -> Vec<landfall_core::TransferId> {
    let mut handed_out = Vec::new();
    let until = async {
        while end.queue.put_aside().await.expect("count") < wanted {
            end.world.advance(LOOK_MS).await;
        }
    };
    let pulling = async {
        loop {
            handed_out.extend(ids(&end.pull(near::TRANSFER, 10).await));
        }
    };
    let either = async {
        tokio::select! {
            _ = until => {}
            () = pulling => {}
        }
    };
    tokio::time::timeout(PATIENCE, either).await.expect("put aside in time");
    handed_out
}

async fn what_nobody_deletes_is_put_aside(world: World) {
    let Some(deliveries_max) = world.abilities().deliveries_max else { return };
    let end = End::of(&world).await;
    assert_eq!(end.queue.put_aside().await.expect("count"), 0);
    let poison = end.push(near::TRANSFER, 1).await;
    let handed_out = until_aside(&end, 1).await;
    assert_eq!(handed_out, vec![poison[0]; deliveries_max as usize]);
    let healthy = end.push(near::TRANSFER, 1).await;
    end.pull_all(near::TRANSFER, &healthy).await;
}

async fn what_is_no_hint_is_put_aside_and_stops_nobody(world: World) {
    if !world.abilities().foreign {
        return;
    }
    let end = End::of(&world).await;
    let scribbles = world.scribble(near::TRANSFER).await;
    let pushed = end.push(near::TRANSFER, 3).await;
    let pulled = end.pull_all(near::TRANSFER, &pushed).await;
    end.finish(&pulled).await;
    let handed_out = until_aside(&end, scribbles).await;
    assert_eq!(handed_out, []);
}
