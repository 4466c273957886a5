//! A shim of this program: opened, or compiled on this machine.

// Loading a library runs its initialisers.
#![allow(unsafe_code)]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, iter};

use libloading::Library;

use crate::{PrivateDirectory, compiler, open, open_file};

/// Directory of the shims that root compiled, for every user.
const SYSTEM: &str = "/usr/local/lib/overside";
/// The environment variable that names another directory.
const DIRECTORY: &str = "OVERSIDE_LIBRARY_DIR";

/// A shim, as a crate's build script describes it.
#[derive(Debug)]
pub struct Description {
    /// Name of the C library, as texts print it.
    pub title: &'static str,
    /// The C library's name as a word of the command line.
    pub name: &'static str,
    /// The library's name for `pkg-config`.
    pub package: &'static str,
    /// Oldest version of the library that has all functions that the shim uses.
    pub oldest: &'static str,
    /// Debian packages that contain the library.
    pub debian: &'static str,
    /// Flags of the compiler.
    pub flags: &'static [&'static str],
    /// Source files of the shim: name and text of each.
    pub files: &'static [(&'static str, &'static str)],
    /// Shared library that was compiled when the program was built; `None` if the C library was
    /// missing then.
    pub built: Option<&'static [u8]>,
}

/// A shim that can be opened.
#[derive(Debug)]
pub struct Shim(Description);

/// Reason why a shim cannot be opened. The message includes the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The program was built without the library, and no shim was compiled here.
    #[error(
        "Overside was built without {title}; install it (Debian: apt-get install {debian}), then: \
         overside devices --compile {name}"
    )]
    NotBuilt {
        /// [`Description::title`].
        title: &'static str,
        /// [`Description::name`].
        name: &'static str,
        /// [`Description::debian`].
        debian: &'static str,
    },
    /// The library is missing, or is another than the shim was compiled with.
    #[error(
        "{title} cannot be loaded: {reason}; install it (Debian: apt-get install {debian}), then: \
         overside devices --compile {name}"
    )]
    Load {
        /// [`Description::title`].
        title: &'static str,
        /// [`Description::name`].
        name: &'static str,
        /// [`Description::debian`].
        debian: &'static str,
        /// Error message of the dynamic loader.
        reason: String,
    },
}

/// Error of [`Shim::compile`]: a missing program or library, a failed compilation, or a result that
/// cannot be stored or loaded.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A program that compiling needs is missing.
    #[error(
        "{program} cannot be started: {error}; install it (Debian: apt-get install gcc pkg-config)"
    )]
    Program {
        /// Name of the program that could not be started.
        program: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The library is missing, or too old.
    #[error(
        "pkg-config finds no {title} {oldest} or later ({reason}); install it (Debian: apt-get \
         install {debian}), or name the directory of its {package}.pc in PKG_CONFIG_PATH"
    )]
    Library {
        /// [`Description::title`].
        title: &'static str,
        /// [`Description::package`].
        package: &'static str,
        /// [`Description::oldest`].
        oldest: &'static str,
        /// [`Description::debian`].
        debian: &'static str,
        /// First line that `pkg-config` printed about the problem.
        reason: String,
    },
    /// The compiler reports an error in the shim.
    #[error("it does not compile with this {title}:\n{output}")]
    Compiler {
        /// [`Description::title`].
        title: &'static str,
        /// Output of the compiler, from stdout and stderr.
        output: String,
    },
    /// The result cannot be stored.
    #[error("{}: {error}", path.display())]
    Store {
        /// File or directory that could not be written.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The compiled shim cannot be loaded.
    #[error(transparent)]
    Open(#[from] Unavailable),
}

impl Shim {
    /// The shim that is described so.
    ///
    /// # Safety
    /// The initialisers of the shim, and of the libraries that it needs, are harmless at any time
    /// and in any thread.
    pub const unsafe fn new(description: Description) -> Self {
        Self(description)
    }

    /// [`Description::name`].
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// [`Description::title`].
    pub fn title(&self) -> &'static str {
        self.0.title
    }

    /// Opens the shim for good: the one that was compiled on this machine, else the one that is
    /// part of the program.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub fn open(&self) -> Result<&'static Library, Unavailable> {
        let opened = match (self.compiled(), self.0.built) {
            // SAFETY: as `new` was promised.
            (Some(path), _) => unsafe { open_file(&path) },
            // SAFETY: as `new` was promised.
            (None, Some(bytes)) => unsafe { open(&format!("overside-{}", self.0.name), bytes) },
            (None, None) => {
                return Err(Unavailable::NotBuilt {
                    title: self.0.title,
                    name: self.0.name,
                    debian: self.0.debian,
                });
            }
        };
        opened.map_err(|reason| self.unloadable(reason))
    }

    /// Returns the error that this shim cannot be loaded, with `reason` as the loader's message.
    pub fn unloadable(&self, reason: String) -> Unavailable {
        Unavailable::Load { title: self.0.title, name: self.0.name, debian: self.0.debian, reason }
    }

    /// Compiles the shim with this machine's library: for all users if root does it, otherwise for this user.
    /// Returns the library's version and the path of the result.
    ///
    /// # Errors
    /// [`CompileError`]. An earlier result then stays.
    pub fn compile(&self) -> Result<(String, PathBuf), CompileError> {
        let version = self.version()?;
        let path = directory().join(self.file_name());
        let parent = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(|error| store(parent, error))?;
        let fresh = path.with_extension(format!("so.{}", std::process::id()));
        let kept = self.compile_to(&fresh).and_then(|()| {
            fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))
                .and_then(|()| fs::rename(&fresh, &path))
                .map_err(|error| store(&path, error))
        });
        if kept.is_err() {
            // The first error says more.
            let _ = fs::remove_file(&fresh);
        }
        kept.map(|()| (version, path))
    }

    /// Compiles the shim, and checks that it can be loaded.
    fn compile_to(&self, library: &Path) -> Result<(), CompileError> {
        let place = PrivateDirectory::new("overside-compile");
        let place = place.map_err(|error| store(&env::temp_dir(), error))?;
        let mut files = Vec::new();
        for (name, text) in self.0.files {
            let path = place.path().join(name);
            fs::write(&path, text).map_err(|error| store(&path, error))?;
            files.push(path);
        }
        let program = env::var("CC").unwrap_or_else(|_| "cc".into());
        let compiler = compiler::arguments(
            Command::new(&program),
            self.0.package,
            self.0.flags,
            &compiler::sources(&files),
            library,
        );
        let output = compiler.and_then(|mut compiler| compiler.output());
        let output = output.map_err(|error| CompileError::Program { program, error })?;
        if !output.status.success() {
            return Err(CompileError::Compiler { title: self.0.title, output: text_of(&output) });
        }
        // SAFETY: as `new` was promised.
        let opened = unsafe { open_file(library) };
        opened.map_err(|reason| self.unloadable(reason))?;
        Ok(())
    }

    fn version(&self) -> Result<String, CompileError> {
        let oldest = format!("{} >= {}", self.0.package, self.0.oldest);
        let ask = |arguments: [&str; 2]| {
            let output = compiler::pkg_config().args(arguments).output();
            output.map_err(|error| CompileError::Program { program: "pkg-config".into(), error })
        };
        let output = ask(["--print-errors", &oldest])?;
        if !output.status.success() {
            return Err(CompileError::Library {
                title: self.0.title,
                package: self.0.package,
                oldest: self.0.oldest,
                debian: self.0.debian,
                reason: text_of(&output).lines().next().unwrap_or_default().into(),
            });
        }
        Ok(text_of(&ask(["--modversion", self.0.package])?))
    }

    /// The shim that was compiled on this machine, if this user may rely on it.
    fn compiled(&self) -> Option<PathBuf> {
        let me = rustix::process::geteuid().as_raw();
        let own = own_directory();
        let directories = own.into_iter().chain(iter::once(PathBuf::from(SYSTEM)));
        directories.map(|directory| directory.join(self.file_name())).find(|path| {
            fs::metadata(path)
                .is_ok_and(|about| [0, me].contains(&about.uid()) && about.mode() & 0o022 == 0)
        })
    }

    /// Another Overside's shim has another name, if it is another shim.
    fn file_name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.0.files, self.0.flags).hash(&mut hasher);
        format!("{}-{:016x}.so", self.0.name, hasher.finish())
    }
}

/// Returns the directory of this user's shims: [`DIRECTORY`], or else `overside` below
/// `$XDG_DATA_HOME` or `$HOME/.local/share`. `None` if no variable has an absolute path.
fn own_directory() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    absolute(DIRECTORY).or_else(|| Some(data?.join("overside")))
}

/// Returns the directory for a newly compiled shim: [`SYSTEM`] for root, unless [`DIRECTORY`] is
/// set; otherwise the user's own.
fn directory() -> PathBuf {
    let for_all = rustix::process::geteuid().is_root() && env::var_os(DIRECTORY).is_none();
    let own = own_directory().filter(|_| !for_all);
    own.unwrap_or_else(|| SYSTEM.into())
}

fn store(path: &Path, error: io::Error) -> CompileError {
    let path = path.to_owned();
    CompileError::Store { path, error }
}

fn text_of(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&all).trim().to_owned()
}
