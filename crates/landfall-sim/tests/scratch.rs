//! Scratch.
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use landfall_core::guard::{self, Guard};
use landfall_core::wound::{self, Wound};
use landfall_sim::torture::{Failure, Options, run};

fn var(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn failed(f: &Failure) -> String {
    match f {
        Failure::Safety(b) => format!("{}: {}", b.rule, b.what),
        Failure::Liveness(w) => format!("liveness {}", &w[..w.len().min(300)]),
        Failure::Crash(p) => format!("crash {p}"),
    }
}

#[test]
fn guards() {
    let (from, seeds, threads) = (var("FROM", 0), var("SEEDS", 100), var("THREADS", 2));
    let next = AtomicU64::new(from);
    let met: Mutex<BTreeMap<usize, (u64, u64)>> = Mutex::default();
    let bad: Mutex<BTreeMap<u64, String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= from + seeds { return }
                guard::take(); if std::env::var("SAY").is_ok() { eprintln!("begin {seed}"); }
                let report = run(seed, Options::default());
                for g in guard::take() {
                    let mut met = met.lock().unwrap();
                    let e = met.entry(g as usize).or_insert((seed, 0));
                    e.0 = e.0.min(seed); e.1 += 1;
                }
                if let Some(f) = &report.failure {
                    bad.lock().unwrap().insert(seed, format!("{}\n   {}\n   {:#?}", failed(f), report.plan.describe(), report.story));
                }
            });
        }
    });
    let met = met.lock().unwrap();
    for g in Guard::ALL {
        println!("{:?}: {:?}", g, met.get(&(*g as usize)));
    }
    for (seed, what) in bad.lock().unwrap().iter() { println!("SEED {seed}: {what}"); }
}

#[test]
fn wounds() {
    let names = std::env::var("WOUNDS").unwrap_or_default();
    let (from, seeds, threads) = (var("FROM", 0), var("SEEDS", 500), var("THREADS", 2));
    let wanted: Vec<Wound> = Wound::ALL.into_iter().filter(|w| names.is_empty() || names.split(',').any(|n| n == format!("{w:?}"))).collect();
    let next = AtomicU64::new(from);
    let found: Mutex<BTreeMap<usize, (u64, String)>> = Mutex::default();
    let tried: Mutex<BTreeMap<usize, u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                let done = { let f = found.lock().unwrap(); wanted.iter().all(|w| f.get(&(*w as usize)).is_some_and(|x| x.0 < seed)) };
                if seed >= from + seeds || done { return }
                wound::inflict(None); wound::take_asked();
                run(seed, Options::default());
                for w in wound::take_asked() {
                    if !wanted.contains(&w) || found.lock().unwrap().get(&(w as usize)).is_some_and(|x| x.0 < seed) { continue }
                    *tried.lock().unwrap().entry(w as usize).or_default() += 1;
                    wound::inflict(Some(w));
                    if let Some(f) = run(seed, Options::default()).failure {
                        let mut found = found.lock().unwrap();
                        if !found.get(&(w as usize)).is_some_and(|x| x.0 < seed) { found.insert(w as usize, (seed, failed(&f))); }
                    }
                    wound::inflict(None);
                }
            });
        }
    });
    let (found, tried) = (found.lock().unwrap(), tried.lock().unwrap());
    for w in &wanted { 
        let t = tried.get(&(*w as usize)).copied().unwrap_or(0);
        match found.get(&(*w as usize)) { Some((s, what)) => println!("{w:?}: {} seeds ({t} run), {}", s + 1, &what.chars().take(160).collect::<String>()), None => println!("{w:?}: NOT FOUND ({t} run)") }
    }
}

#[test]
fn one() {
    let seed = var("SEED", 0);
    if let Ok(name) = std::env::var("WOUND") {
        wound::inflict(Wound::ALL.into_iter().find(|w| format!("{w:?}") == name));
    }
    let report = run(seed, Options { keep_trace: true });
    for line in &report.trace { println!("{line}"); }
    println!("{}", report.plan.describe());
    println!("{:#?}", report.story);
    if let Some(f) = &report.failure { println!("FAILED {}", failed(f)); }
}

#[test]
fn lines() {
    let (from, seeds) = (var("FROM", 0), var("SEEDS", 100));
    let what = std::env::var("WHAT").unwrap();
    let after = var("AFTER", 20) as usize;
    for seed in from..from + seeds {
        let report = run(seed, Options { keep_trace: true });
        if let Some(at) = report.trace.iter().position(|l| l.contains(&what)) {
            println!("== {seed}");
            for l in report.trace.iter().skip(at.saturating_sub(4)).take(after + 4) { println!("{l}"); }
        }
    }
}

#[test]
fn density() {
    let names = std::env::var("WOUNDS").unwrap_or_default();
    let (from, seeds, threads) = (var("FROM", 0), var("SEEDS", 500), var("THREADS", 2));
    let wanted: Vec<Wound> = Wound::ALL.into_iter().filter(|w| names.is_empty() || names.split(',').any(|n| n == format!("{w:?}"))).collect();
    let next = AtomicU64::new(from);
    let found: Mutex<BTreeMap<usize, Vec<u64>>> = Mutex::default();
    let tried: Mutex<BTreeMap<usize, u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= from + seeds { return }
                wound::inflict(None); wound::take_asked();
                run(seed, Options::default());
                for w in wound::take_asked() {
                    if !wanted.contains(&w) { continue }
                    *tried.lock().unwrap().entry(w as usize).or_default() += 1;
                    wound::inflict(Some(w));
                    if run(seed, Options::default()).failure.is_some() {
                        found.lock().unwrap().entry(w as usize).or_default().push(seed);
                    }
                    wound::inflict(None);
                }
            });
        }
    });
    let (found, tried) = (found.lock().unwrap(), tried.lock().unwrap());
    for w in &wanted {
        let t = tried.get(&(*w as usize)).copied().unwrap_or(0);
        let f = found.get(&(*w as usize)).cloned().unwrap_or_default();
        println!("{w:?}: {} of {seeds} ({t} run): {:?}", f.len(), &f[..f.len().min(12)]);
    }
}
