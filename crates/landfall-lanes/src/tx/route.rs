//! Which of several keys signs: the named one, the one with the least to do, or always the same one
//! for the same routing key. Pure.

use landfall_core::{Fingerprint, LaneId};

/// How a lane is chosen for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// This one.
    Lane(LaneId),
    /// The one with the least to do.
    LeastLoad,
    /// Always the same one for the same routing key, so that what belongs together stays in order.
    /// When a lane comes or goes, only what was, or is to be, on it changes.
    Hash(String),
}

impl From<LaneId> for Route {
    fn from(lane: LaneId) -> Route {
        Route::Lane(lane)
    }
}

impl From<&LaneId> for Route {
    fn from(lane: &LaneId) -> Route {
        Route::Lane(lane.clone())
    }
}

/// A lane as the choice sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub lane: LaneId,
    /// What waits for it or is in flight on it.
    pub load: usize,
    /// Whether this process holds it.
    pub is_held: bool,
    pub is_halted: bool,
}

/// The lane for a call; none if there is none. A halted one only where it is named, or no other is
/// left.
pub(crate) fn choose<'c>(route: &Route, lanes: &'c [Candidate]) -> Option<&'c Candidate> {
    let going = || lanes.iter().filter(|lane| !lane.is_halted);
    match route {
        Route::Lane(named) => lanes.iter().find(|lane| lane.lane == *named),
        // One that another process holds costs a wait.
        Route::LeastLoad => {
            going().min_by_key(|lane| lane.load + usize::from(!lane.is_held)).or(lanes.first())
        }
        // Each lane draws a number for the key, and the highest wins.
        Route::Hash(key) => {
            let draw = |lane: &&Candidate| Fingerprint::of(&[lane.lane.as_str(), key]).0;
            going().max_by_key(draw).or(lanes.first())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(count: usize) -> Vec<Candidate> {
        let candidate = |number: usize| Candidate {
            lane: LaneId::new(format!("key {number}")),
            load: 3,
            is_held: true,
            is_halted: false,
        };
        (0..count).map(candidate).collect()
    }

    fn by_hash(key: usize, lanes: &[Candidate]) -> &LaneId {
        &choose(&Route::Hash(key.to_string()), lanes).unwrap().lane
    }

    #[test]
    fn the_least_loaded_lane_is_chosen_and_one_that_is_held_before_one_that_is_not() {
        let mut lanes = lanes(3);
        (lanes[1].load, lanes[2].load) = (1, 1);
        lanes[1].is_held = false;
        assert_eq!(choose(&Route::LeastLoad, &lanes), Some(&lanes[2]));
        lanes[2].is_halted = true;
        assert_eq!(choose(&Route::LeastLoad, &lanes), Some(&lanes[1]));
        assert_eq!(choose(&Route::LeastLoad, &[]), None);
    }

    #[test]
    fn a_routing_key_keeps_its_lane_when_another_goes_and_all_lanes_have_their_share() {
        let all = lanes(5);
        let fewer = &all[..4];
        let mut shares = vec![0; 5];
        for key in 0..1_000 {
            let lane = by_hash(key, &all);
            shares[all.iter().position(|one| one.lane == *lane).unwrap()] += 1;
            if *lane != all[4].lane {
                assert_eq!(by_hash(key, fewer), lane);
            }
        }
        assert!(shares.iter().all(|share| (100..300).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_halted_lane_is_left_out_unless_it_is_named() {
        let mut lanes = lanes(2);
        lanes[0].is_halted = true;
        assert!((0..50).all(|key| *by_hash(key, &lanes) == lanes[1].lane));
        let named = Route::from(&lanes[0].lane);
        assert_eq!(choose(&named, &lanes), Some(&lanes[0]));
        assert_eq!(choose(&Route::Lane(LaneId::new("nobody's")), &lanes), None);
    }
}
