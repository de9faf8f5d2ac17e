//! Nobody fails for another's fault: in a tortured world every transfer can be paid as asked, but
//! those whose part says that it is refused there.

use super::{Broken, Evidence};

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    match evidence.wronged.first() {
        None => Ok(()),
        Some(failed) => {
            let what = format!("{} failed: {:?}", failed.key, failed.error);
            Err(Broken::new("nobody fails for another's fault", Some(&failed.key), what))
        }
    }
}
