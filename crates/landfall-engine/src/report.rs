//! What operators are told of a rail with attempts: its status, and the alerts that stand.
//!
//! Not here: what is learnt from a fate (`heed`), when a stage pauses (`trouble`).

use landfall_core::rail::EndpointHealth;
use landfall_lanes::LaneView;

use crate::runner::Runner;
use crate::status::RailStatus;

impl Runner {
    /// The rail at a glance; tells operators what stands in its way, or that it is over.
    pub fn tell(&self) -> RailStatus {
        let views = self.lanes().map(|lanes| lanes.views()).unwrap_or_default();
        if views.iter().all(|view| view.halted.is_none()) {
            self.calm("lane_halted");
        }
        self.troubles
            .lock()
            .all()
            .into_iter()
            .for_each(|trouble| trouble.tidy(self.mono_ms(), &self.core.settings));
        self.report();
        self.report_unsignable();
        let adrift: usize = views.iter().map(|view| view.adrift).sum();
        match adrift {
            0 => self.calm("adrift"),
            count => self.alert("adrift", format!("{count} attempts are of unknown fate")),
        }
        let troubled = views.iter().find_map(|view| Some((&view.id, view.trouble.as_ref()?)));
        match troubled {
            None => self.calm("lane_stuck"),
            Some((lane, trouble)) => self.alert("lane_stuck", format!("{lane}: {trouble}")),
        }
        let unfunded = self.unfunded.lock().report();
        match &unfunded {
            None => self.calm("lane_unfunded"),
            Some(story) => self.alert("lane_unfunded", story.clone()),
        }
        let able = |view: &LaneView| view.held && !self.unfunded.lock().contains(&view.id);
        let nobody_can = unfunded.filter(|_| !views.iter().any(able));
        let endpoints = self.rail.endpoints();
        match contradictions(&endpoints) {
            None => self.calm("node_contradicts"),
            Some(told) => self.alert("node_contradicts", told),
        }
        RailStatus {
            rail: self.rail.name(),
            endpoints,
            paused: self.paused().or(nobody_can),
            lanes_held: views.iter().filter(|view| view.held).count(),
            lanes_halted: views.iter().filter(|view| view.halted.is_some()).count(),
            adrift,
            aside: self.aside.lock().len(),
            stuck: 0,
        }
    }

    fn paused(&self) -> Option<String> {
        self.troubles.lock().paused().or_else(|| self.shortfall.lock().dry.clone())
    }

    /// Tells operators of the first that cannot be signed, or that there is none.
    pub fn report_unsignable(&self) {
        let first = self.aside.lock().values().flatten().next().cloned();
        match first {
            Some(story) => self.alert("unsignable", story),
            None => self.calm("unsignable"),
        }
    }
}

/// Which nodes were caught contradicting a quorum, each with the two answers.
fn contradictions(endpoints: &[EndpointHealth]) -> Option<String> {
    let told = endpoints.iter().filter_map(|one| {
        let caught = one.caught.as_ref().filter(|caught| caught.asked_last)?;
        Some(format!(
            "{} ({}) says: {}; a quorum says: {}",
            one.name, one.endpoint, caught.said, caught.quorum_says
        ))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}
