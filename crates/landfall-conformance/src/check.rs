//! Running checks by name, so that one run tells everything that is wrong.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::BoxFuture;

/// One behaviour, named by a sentence.
pub struct Check<W> {
    pub name: &'static str,
    pub run: fn(W) -> BoxFuture<'static, ()>,
}

/// Lists async functions as checks of the module.
macro_rules! checks {
    ($world:ty: $($name:ident),* $(,)?) => {
        pub(crate) const CHECKS: &[$crate::Check<$world>] = &[
            $($crate::Check { name: stringify!($name), run: |world| Box::pin($name(world)) }),*
        ];
    };
}
pub(crate) use checks;

/// Runs every check in a world of its own and panics with the names of those that failed.
pub async fn run_checks<W>(checks: &[&[Check<W>]], make: impl AsyncFn() -> W) {
    let mut failed = Vec::new();
    for check in checks.iter().copied().flatten() {
        let world = make().await;
        if AssertUnwindSafe((check.run)(world)).catch_unwind().await.is_err() {
            failed.push(check.name);
        }
    }
    assert!(failed.is_empty(), "{} checks failed: {}", failed.len(), failed.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn holds(_: ()) {}

    async fn breaks(_: ()) {
        panic!("as it should");
    }

    checks!((): holds, breaks);

    #[tokio::test]
    #[should_panic(expected = "1 checks failed: breaks")]
    async fn a_failed_check_is_named() {
        run_checks(&[CHECKS], async || ()).await;
    }
}
