//! Breadth first through every state, so that what breaks is shown by a shortest way to it.
//!
//! States are told apart by 64-bit fingerprints, as model checkers do: among a million of them two
//! collide once in forty million searches.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::properties::{Broken, broken, is_settled};
use crate::world::{Model, Next, Step, World};

/// What a search has found.
pub struct Found {
    pub states: usize,
    pub steps: usize,
    /// States in which everything is paid, decided and at rest.
    pub settled: usize,
    /// States from which no way leads to such a one.
    pub stranded: Vec<World>,
    /// What was looked for, with the steps that lead to it.
    pub broken: Option<(Broken, Vec<Step>)>,
}

struct Search {
    seen: HashMap<u64, u32, BuildHasherDefault<DefaultHasher>>,
    /// By state: where it was first reached from, and how.
    came_by: Vec<Option<(u32, Step)>>,
    queue: VecDeque<(u32, World)>,
    /// From, to.
    steps: Vec<(u32, u32)>,
    settled: Vec<u32>,
}

/// Searches until a property that `counts` is broken, or everything has been seen.
pub fn search(model: &Model, counts: impl Fn(Broken) -> bool + Copy) -> Found {
    let mut search = Search {
        seen: HashMap::default(),
        came_by: Vec::new(),
        queue: VecDeque::new(),
        steps: Vec::new(),
        settled: Vec::new(),
    };
    search.meet(World::new(model.limits.transfers), None);
    let mut kept = Vec::new();
    while let Some((from, world)) = search.queue.pop_front() {
        for Next { step, world, broken: by_step } in model.next(&world) {
            let known = search.known(&world);
            let fails = by_step.filter(|broken| counts(*broken)).or_else(|| match known {
                Some(_) => None,
                None => broken(&world, model.manner.order, counts),
            });
            if let Some(broken) = fails {
                let mut way = search.way_to(from);
                way.push(step);
                return search.found(Vec::new(), Some((broken, way)));
            }
            let to = known.unwrap_or_else(|| search.meet(world, Some((from, step))));
            if to != from {
                search.steps.push((from, to));
            }
        }
        kept.push(world);
    }
    let stranded = search.stranded().into_iter().map(|at| kept[at].clone()).collect();
    search.found(stranded, None)
}

impl Search {
    fn known(&self, world: &World) -> Option<u32> {
        self.seen.get(&self.seen.hasher().hash_one(world)).copied()
    }

    fn meet(&mut self, world: World, came_by: Option<(u32, Step)>) -> u32 {
        let number = self.came_by.len() as u32;
        self.seen.insert(self.seen.hasher().hash_one(&world), number);
        self.came_by.push(came_by);
        if is_settled(&world) {
            self.settled.push(number);
        }
        self.queue.push_back((number, world));
        number
    }

    fn way_to(&self, mut state: u32) -> Vec<Step> {
        let mut way = Vec::new();
        while let Some((from, step)) = self.came_by[state as usize] {
            way.push(step);
            state = from;
        }
        way.reverse();
        way
    }

    /// Backwards from everything that is settled; what is not met is stranded.
    fn stranded(&self) -> Vec<usize> {
        let mut backwards = self.steps.clone();
        backwards.sort_unstable_by_key(|(_, to)| *to);
        let mut reached = vec![false; self.came_by.len()];
        let mut queue: Vec<u32> = self.settled.clone();
        while let Some(state) = queue.pop() {
            if std::mem::replace(&mut reached[state as usize], true) {
                continue;
            }
            let first = backwards.partition_point(|(_, to)| *to < state);
            let into = backwards[first..].iter().take_while(|(_, to)| *to == state);
            queue.extend(into.map(|(from, _)| *from));
        }
        (0..reached.len()).filter(|at| !reached[*at]).collect()
    }

    fn found(self, stranded: Vec<World>, broken: Option<(Broken, Vec<Step>)>) -> Found {
        let (states, steps) = (self.came_by.len(), self.steps.len());
        Found { states, steps, settled: self.settled.len(), stranded, broken }
    }
}
