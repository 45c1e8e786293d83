//! Names bytes by their SHA-256, so that a report says which criteria and which files it was made
//! of.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The SHA-256 of a file in hexadecimal, read piece by piece: traces can be larger than memory.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hexadecimal(&hash.finalize())),
            length => hash.update(&piece[..length]),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{of_bytes, of_file};

    #[test]
    fn bytes_and_files_have_the_digest_of_the_standard() {
        // The first vector of FIPS 180-4.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), expected);
        let path = std::env::temp_dir().join(format!("forebay-{}-digest", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(of_file(&path).unwrap(), expected);
        std::fs::remove_file(&path).unwrap();
        assert!(of_file(&path).is_err());
    }
}
