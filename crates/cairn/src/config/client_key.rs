//! The client key that cairn makes for itself when the file names none.
//!
//! Owns the key's file. Must never know: who presents the key.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::{ConfigError, table};

const FILE_NAME: &str = "client_key";
const KEY_BYTES: usize = 32;

/// The saved key, or a new one together with the file that it was saved in.
pub(super) fn read_or_make(data_dir: &Path) -> Result<(SecretString, Option<PathBuf>), ConfigError> {
    let path = data_dir.join(FILE_NAME);
    if let Some(key) = read(&path)? {
        return Ok((key, None));
    }
    make_folder(data_dir).map_err(|error| unusable(data_dir, &error))?;
    make(data_dir, &path)?;
    // Read back, so that two first starts at the same time agree on the key that stayed.
    match read(&path)? {
        Some(key) => Ok((key, Some(path))),
        None => Err(unusable(data_dir, &ErrorKind::NotFound.into())),
    }
}

fn read(path: &Path) -> Result<Option<SecretString>, ConfigError> {
    match fs::read_to_string(path) {
        Ok(text) => table::secret("client_key", &text).map(Some).map_err(|_| {
            let mend = format!("{} holds no key; delete the file and start again", path.display());
            ConfigError::new("client_key", mend)
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::new(
            "client_key",
            format!(
                "{} cannot be read: {error}; make it readable, or choose another data_dir",
                path.display()
            ),
        )),
    }
}

fn make(data_dir: &Path, path: &Path) -> Result<(), ConfigError> {
    let mut bytes = [0_u8; KEY_BYTES];
    #[allow(clippy::disallowed_methods, reason = "a key is what random bytes are for")]
    getrandom::fill(&mut bytes).map_err(|_| {
        ConfigError::new(
            "client_key",
            "this machine gives no random bytes; set client_key in the file",
        )
    })?;
    let temporary = data_dir.join(format!("{FILE_NAME}.{}", std::process::id()));
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(format!("{}\n", hex::encode(bytes)).as_bytes())?;
        file.sync_all()?;
        // A whole file or none: a start that is cut here leaves no half key.
        fs::rename(&temporary, path)
    };
    write().map_err(|error| unusable(data_dir, &error))
}

fn make_folder(data_dir: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(data_dir)
}

fn unusable(data_dir: &Path, error: &std::io::Error) -> ConfigError {
    ConfigError::new(
        "data_dir",
        format!(
            "{} cannot be written: {error}; choose another folder",
            data_dir.display()
        ),
    )
}
