//! What is written in TypeScript here, compiled: the client, and the Worker.
//!
//! Compiled once for all tests and kept: whoever comes first compiles, the others wait.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Result, ServerError, doing};
use crate::tools::{kept, program};

/// The version that the sources were written against.
const PACKAGE: &str = "typescript@5.9.3";
const CLIENT: &str = "clients/typescript";
const WORKER: &str = "workers/tx-lane";

/// Where the compiled parts are.
pub struct TypeScript {
    /// The client's package: `esm/index.js`, `cjs/index.js`.
    pub client: PathBuf,
    /// The Worker with all that it imports.
    pub worker: PathBuf,
    /// The repository, for tests and examples in JavaScript.
    pub root: PathBuf,
}

/// Node.js.
pub fn node() -> Result<PathBuf> {
    program(&["node", "nodejs"], &[], "nodejs npm")
}

/// The folder of target/tools in which a package of npm is installed under its own name.
pub(crate) fn npm_folder(name: &str) -> Result<PathBuf> {
    let folder = kept().join(name);
    match folder.join("node_modules").join(name).join("package.json").is_file() {
        true => doing("find a package", folder.canonicalize()),
        false => Err(ServerError::Missing {
            what: format!("{name} of npm"),
            remedy: "cargo xtask install".to_owned(),
        }),
    }
}

/// The package itself.
pub fn npm_package(name: &str) -> Result<PathBuf> {
    Ok(npm_folder(name)?.join("node_modules").join(name))
}

impl TypeScript {
    /// Compiles what has changed since it was last compiled.
    pub fn compiled() -> Result<TypeScript> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = doing("find the repository", root.canonicalize())?;
        let built = root.join("target/tools/typescript-built");
        let all = TypeScript { client: built.join("client"), worker: built.join("worker"), root };
        doing("a folder for TypeScript", std::fs::create_dir_all(&built))?;
        let lock = doing("a lock", File::create(built.join("lock")))?;
        doing("wait for whoever compiles", lock.lock())?;
        let (sources, stamp) = (all.sources()?, built.join("compiled"));
        if std::fs::read_to_string(&stamp).is_ok_and(|before| before == sources) {
            return Ok(all);
        }
        all.compile(CLIENT, "tsconfig.json", &all.client.join("esm"))?;
        all.compile(CLIENT, "tsconfig.cjs.json", &all.client.join("cjs"))?;
        let mark = all.client.join("cjs/package.json");
        doing("mark as CommonJS", std::fs::write(mark, "{\"type\":\"commonjs\"}\n"))?;
        let mark = all.client.join("esm/package.json");
        doing("mark as a module", std::fs::write(mark, "{\"type\":\"module\"}\n"))?;
        all.compile(WORKER, "tsconfig.json", &all.worker)?;
        doing("note what was compiled", std::fs::write(stamp, sources))?;
        Ok(all)
    }

    /// All that is compiled, as one text.
    fn sources(&self) -> Result<String> {
        let mut all = PACKAGE.to_owned();
        for folder in [CLIENT, WORKER].map(|part| self.root.join(part)) {
            for folder in [folder.join("src"), folder] {
                let entries = doing("read sources", std::fs::read_dir(folder))?;
                let mut files: Vec<PathBuf> = entries.flatten().map(|one| one.path()).collect();
                files.sort();
                for file in files.iter().filter(|file| file.is_file()) {
                    all += &doing("read a source", std::fs::read_to_string(file))?;
                }
            }
        }
        Ok(all)
    }

    fn compile(&self, part: &str, config: &str, to: &Path) -> Result<()> {
        let folder = kept().join("typescript");
        let compiler = folder.join("node_modules/typescript/bin/tsc");
        if !compiler.is_file() {
            return Err(ServerError::Missing {
                what: compiler.display().to_string(),
                remedy: format!("npm install --prefix {} {PACKAGE}", folder.display()),
            });
        }
        let mut command = Command::new(node()?);
        command.arg(compiler).arg("-p").arg(self.root.join(part).join(config));
        command.arg("--outDir").arg(to);
        let output = doing("run tsc", command.output())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(ServerError::Start {
                name: "tsc",
                log: String::from_utf8_lossy(&output.stdout).into_owned(),
            }),
        }
    }
}
