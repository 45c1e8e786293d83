//! Tries what a configuration needs of this machine, without starting anything.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::config::Config;
use crate::record::UnwritableRecording;
use crate::reload::tls_of_workers;
use crate::serve::{ServeError, tls};

/// Whether the gateway could start with this configuration, as far as files tell: that its
/// certificates and keys can be read and fit each other, and that recordings and the access log can
/// be written. It listens nowhere, and leaves nothing behind.
pub fn check(config: &Config) -> Result<(), ServeError> {
    tls(config)?;
    tls_of_workers(config)?;
    if let Some(record) = &config.record {
        let unwritable = |error| UnwritableRecording::new(&record.dir, &error);
        try_folder(&record.dir).map_err(unwritable)?;
    }
    if let Some(file) = &config.log.file {
        let tried = match file.try_exists() {
            Ok(true) => fs::OpenOptions::new().append(true).open(file).map(drop),
            _ => try_folder(file.parent().unwrap_or(Path::new(""))),
        };
        let what = "the access log can't be opened";
        tried.map_err(|cause| ServeError::System { what, cause })?;
    }
    Ok(())
}

/// Whether files can be made in a folder, or in the one that it would be made in.
fn try_folder(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|at| at.exists()).unwrap_or(Path::new("."));
    let probe = there.join(format!(".forebay-check-{}", std::process::id()));
    File::create_new(&probe).and_then(|_| fs::remove_file(&probe))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::check;
    use crate::config::Config;

    #[test]
    fn what_can_not_be_written_or_does_not_fit_is_told_and_nothing_is_left_behind() {
        let folder = std::env::temp_dir().join(format!("forebay-check-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        fs::write(folder.join("cert.pem"), one.cert.pem()).unwrap();
        fs::write(folder.join("key.pem"), one.signing_key.serialize_pem()).unwrap();
        fs::write(folder.join("other.pem"), other.signing_key.serialize_pem()).unwrap();
        let pool = "[[pool]]\nworker = \"http://127.0.0.1:9\"\n";
        let checked = |more: &str| {
            let file = folder.join("forebay.toml");
            let config = Config::parse(&file, &format!("{pool}{more}")).unwrap();
            check(&config).map_err(|error| error.to_string())
        };
        let tls = |key: &str| format!("[listen.tls]\ncert = \"cert.pem\"\nkey = \"{key}\"\n");
        assert_eq!(checked(&tls("key.pem")), Ok(()));
        assert!(checked(&tls("other.pem")).unwrap_err().contains("does not fit"));
        assert_eq!(checked("[record]\ndir = \"a/b\"\n"), Ok(()));
        let told = checked("[record]\ndir = \"key.pem/b\"\n").unwrap_err();
        assert!(told.contains("recordings can't be kept there"), "{told}");
        let log = |file: &str| format!("[log]\naccess = \"json\"\nfile = \"{file}\"\n");
        assert_eq!(checked(&log("access.log")), Ok(()));
        assert!(checked(&log("key.pem/access.log")).is_err());
        assert!(!Path::new(&folder).join("a").exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
        fs::remove_dir_all(&folder).unwrap();
    }
}
