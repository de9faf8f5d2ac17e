//! Where programs are, and what to install when they are not.

use std::path::{Path, PathBuf};

use crate::server::{Result, ServerError};

/// Where Debian puts programs that only a server's own scripts call.
const FOLDERS: [&str; 5] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin"];

/// What is kept between runs and not committed: programs installed here, data folders to copy.
pub(crate) fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools")
}

/// A program by name, or by one of its names; searched in `extra` first.
pub(crate) fn program(names: &[&str], extra: &[PathBuf], package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = extra.iter().cloned().chain(std::env::split_paths(&path));
    let folders: Vec<PathBuf> = folders.chain(FOLDERS.map(PathBuf::from)).collect();
    let candidates = names.iter().flat_map(|name| folders.iter().map(move |at| at.join(name)));
    candidates.into_iter().find(|candidate| candidate.is_file()).ok_or_else(|| {
        ServerError::Missing {
            what: names.join(" or "),
            remedy: format!("apt-get install --no-install-recommends {package}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = program(&["no-such-server"], &[], "some-package").expect_err("it is not there");
        assert_eq!(
            error.to_string(),
            "no-such-server is missing; run `apt-get install --no-install-recommends some-package` \
             (`cargo xtask test` does)"
        );
    }
}
